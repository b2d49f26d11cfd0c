//! The ring against a deque, over threads, and in loom's model.

use std::time::Duration;

use super::*;

fn small(slots: usize, slot_bytes: usize) -> (Producer, Consumer) {
    ring(&RingConfig { slots, slot_bytes }).unwrap()
}

#[cfg(not(loom))]
mod real {
    use std::collections::VecDeque;

    use fluxline_core::Moment;

    use super::*;

    /// A seeded generator; any would do. Source: G. Marsaglia, "Xorshift RNGs", 2003.
    struct Dice(u64);

    impl Dice {
        fn from_env() -> Dice {
            Dice(fluxline_core::random::test_seed!(1) | 1)
        }

        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % limit
        }
    }

    fn payload(number: u64, len: usize) -> Vec<u8> {
        (0..len).map(|index| (number as u8).wrapping_mul(31).wrapping_add(index as u8)).collect()
    }

    #[test]
    fn any_order_of_calls_equals_a_deque() {
        let mut dice = Dice::from_env();
        for slots in [1, 2, 8] {
            let (mut producer, mut consumer) = small(slots, 37);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let mut number = 0;
            for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
                if dice.below(2) == 0 {
                    let mut batch = producer.reserve(dice.below(slots + 2));
                    assert!(batch.len() <= slots - model.len());
                    let count = dice.below(batch.len() + 1);
                    let mut lens = Vec::new();
                    for (index, buffer) in batch.buffers().take(count).enumerate() {
                        let bytes = payload(number + index as u64, dice.below(38));
                        buffer[..bytes.len()].copy_from_slice(&bytes);
                        lens.push(bytes.len() as u32);
                        model.push_back((number + index as u64, bytes));
                    }
                    for (index, &len) in lens.iter().enumerate() {
                        let time = Moment::from_ns(number + index as u64);
                        batch.set(index, SlotMeta { len, time, ..SlotMeta::EMPTY });
                    }
                    batch.commit(count);
                    number += count as u64;
                } else {
                    let filled = consumer.peek();
                    assert_eq!(filled.len(), model.len());
                    for (view, (number, bytes)) in filled.zip(&model) {
                        assert_eq!((view.meta.time.as_ns(), view.bytes), (*number, &bytes[..]));
                    }
                    let count = dice.below(model.len() + 1);
                    consumer.release(count);
                    model.drain(..count);
                }
            }
            assert_eq!(producer.counters().slots_filled, number);
            assert!(producer.counters().slots_high_water <= slots as u64);
        }
    }

    #[test]
    fn a_full_ring_hands_back_and_counts() {
        let (mut producer, mut consumer) = small(2, 4);
        assert_eq!(producer.push(b"abcd", SlotMeta::EMPTY), Ok(()));
        let long = PushError::TooLong { bytes: 5, slot_bytes: 4 };
        assert_eq!(producer.push(b"abcde", SlotMeta::EMPTY), Err(long));
        assert_eq!(producer.push(b"", SlotMeta::EMPTY), Ok(()));
        assert_eq!(producer.push(b"x", SlotMeta::EMPTY), Err(PushError::Full));
        assert_eq!(producer.counters().full_stalls, 1);
        assert_eq!(producer.counters().slots_high_water, 2);
        assert_eq!(producer.wait_for_space(Duration::ZERO), Waited::TimedOut);
        assert_eq!(consumer.peek().map(|view| view.bytes.len()).collect::<Vec<_>>(), [4, 0]);
        consumer.release(1);
        assert_eq!(producer.wait_for_space(Duration::ZERO), Waited::Ready);
        drop(consumer);
        assert_eq!(producer.push(b"x", SlotMeta::EMPTY), Err(PushError::ConsumerGone));
    }

    #[test]
    fn a_closed_ring_is_drained_before_it_ends() {
        let (mut producer, mut consumer) = small(4, 4);
        assert_eq!(consumer.wait(Duration::ZERO), Waited::TimedOut);
        producer.push(b"last", SlotMeta::EMPTY).unwrap();
        drop(producer);
        assert_eq!(consumer.wait(Duration::ZERO), Waited::Ready);
        assert_eq!(consumer.peek().next().unwrap().bytes, b"last");
        consumer.release(1);
        assert_eq!(consumer.wait(Duration::from_secs(60)), Waited::Closed);
    }

    #[test]
    fn sleepers_of_both_sides_are_woken() {
        let total = if cfg!(miri) { 60_u64 } else { 200_000 };
        let (mut producer, mut consumer) = small(8, 8);
        let sender = std::thread::spawn(move || {
            let mut number = 0_u64;
            while number < total {
                match producer.push(&number.to_le_bytes(), SlotMeta::EMPTY) {
                    Ok(()) => number += 1,
                    Err(PushError::Full) => {
                        let waited = producer.wait_for_space(Duration::from_secs(60));
                        assert_eq!(waited, Waited::Ready);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let mut expected = 0_u64;
        while consumer.wait(Duration::from_secs(60)) == Waited::Ready {
            let filled = consumer.peek();
            let count = filled.len();
            for view in filled {
                assert_eq!(view.bytes, expected.to_le_bytes());
                expected += 1;
            }
            consumer.release(count);
        }
        assert_eq!(expected, total);
        sender.join().unwrap();
    }

    #[test]
    fn a_train_splits_into_datagrams_with_a_short_tail() {
        let view = |bytes, segment_bytes| {
            let meta = SlotMeta { len: 10, segment_bytes, port: 7, ..SlotMeta::EMPTY };
            SlotView { bytes, meta }
        };
        let split = |view: SlotView<'static>| -> Vec<&'static [u8]> {
            view.datagrams().map(|datagram| datagram.bytes).collect()
        };
        assert_eq!(split(view(b"0123456789", 4)), [&b"0123"[..], b"4567", b"89"]);
        assert_eq!(split(view(b"0123456789", 5)), [&b"01234"[..], b"56789"]);
        assert_eq!(split(view(b"0123456789", 0)), [b"0123456789"]);
        assert_eq!(split(view(b"0123456789", 99)), [b"0123456789"]);
        assert_eq!(split(view(b"", 4)), [b""]);
        for segment in 0..12 {
            let view = view(b"0123456789", segment);
            assert_eq!(view.datagrams().count() as u64, view.meta.datagram_count());
        }
    }

    #[test]
    fn a_senseless_size_is_refused_in_a_sentence() {
        for (slots, slot_bytes) in [(0, 8), (3, 8), (usize::MAX, 8), (4, 0), (4, usize::MAX)] {
            let error = ring(&RingConfig { slots, slot_bytes }).err().unwrap();
            assert!(error.to_string().len() > 20, "{error}");
        }
        let huge = RingConfig { slots: 1 << 55, slot_bytes: 65_536 };
        assert!(matches!(ring(&huge), Err(RingError::Memory { .. })));
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p fluxline --release --lib loom_`.
#[cfg(loom)]
mod model {
    use loom::thread;

    use super::*;

    /// Bound of preemptions per execution; more find nothing new here and take hours.
    const PREEMPTIONS: usize = 3;

    fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.check(body);
    }

    const LONG: Duration = Duration::from_secs(3_600);

    fn push_waiting(producer: &mut Producer, number: u8) {
        while let Err(error) = producer.push(&[number], SlotMeta::EMPTY) {
            assert_eq!(error, PushError::Full);
            assert_eq!(producer.wait_for_space(LONG), Waited::Ready);
        }
    }

    fn drain(consumer: &mut Consumer) -> Vec<u8> {
        let mut seen = Vec::new();
        while consumer.wait(LONG) == Waited::Ready {
            let filled = consumer.peek();
            let count = filled.len();
            seen.extend(filled.map(|view| view.bytes[0]));
            consumer.release(count);
        }
        seen
    }

    #[test]
    fn loom_published_slots_are_seen_whole_and_in_order() {
        check(|| {
            let (mut producer, mut consumer) = small(2, 1);
            let sender = thread::spawn(move || {
                push_waiting(&mut producer, 1);
                push_waiting(&mut producer, 2);
            });
            assert_eq!(drain(&mut consumer), [1, 2]);
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_a_ring_of_one_wraps_and_wakes_both_sides() {
        check(|| {
            let (mut producer, mut consumer) = small(1, 1);
            let sender = thread::spawn(move || {
                for number in 0..3 {
                    push_waiting(&mut producer, number);
                }
            });
            assert_eq!(drain(&mut consumer), [0, 1, 2]);
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_a_gone_consumer_wakes_the_producer() {
        check(|| {
            let (mut producer, consumer) = small(1, 1);
            producer.push(&[0], SlotMeta::EMPTY).unwrap();
            let reader = thread::spawn(move || drop(consumer));
            assert_eq!(producer.wait_for_space(LONG), Waited::Closed);
            assert_eq!(producer.push(&[1], SlotMeta::EMPTY), Err(PushError::ConsumerGone));
            reader.join().unwrap();
        });
    }
}
