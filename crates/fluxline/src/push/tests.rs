//! The push ring against a queue, against a hostile other side, and between threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Broken, PushConsumer, PushProducer, PushRefused};
use fluxline_proto::Moment;
use fluxline_proto::fabric::RegionId;
use fluxline_proto::random::Draw;

use crate::sys::map::SharedMap;
use crate::sys::push::{Consumer, HEADER_BYTES, Producer};
use crate::sys::shim::Ordering;

fn map(bytes: u64) -> Arc<SharedMap> {
    Arc::new(SharedMap::for_test(bytes))
}

fn pair(size: u64) -> (Producer, Consumer, Arc<SharedMap>) {
    pair_that(size, true)
}

fn pair_that(size: u64, sleeps: bool) -> (Producer, Consumer, Arc<SharedMap>) {
    let map = map(HEADER_BYTES + size);
    let consumer = Consumer::create(Arc::clone(&map), 0, size, sleeps).expect("fits");
    let producer = Producer::attach(Arc::clone(&map), 0, HEADER_BYTES + size).expect("there");
    (producer, consumer, map)
}

#[test]
fn any_order_of_calls_equals_a_queue() {
    for seed in 1..if cfg!(miri) { 4 } else { 200 } {
        let mut draw = Draw::new(seed * 0x9E37_79B9);
        let size = 256 << draw.below(4);
        let (mut producer, mut consumer, _map) = pair(size);
        let (mut written, mut published) = (VecDeque::new(), VecDeque::new());
        for step in 0..600_u64 {
            match draw.below(5) {
                0..=1 => {
                    let bytes = vec![step as u8; draw.below(size / 4 - 15) as usize];
                    match producer.push(&bytes) {
                        Ok(()) => written.push_back(bytes),
                        Err(PushRefused::Full) => published.append(&mut written),
                        Err(other) => panic!("seed {seed}: {other}"),
                    }
                }
                2 => {
                    producer.publish();
                    published.append(&mut written);
                }
                _ => {
                    let found = consumer.next().expect("sound").map(<[u8]>::to_vec);
                    assert_eq!(found, published.pop_front(), "seed {seed}, step {step}");
                }
            }
        }
        producer.publish();
        published.append(&mut written);
        while let Some(expected) = published.pop_front() {
            assert_eq!(consumer.next(), Ok(Some(expected.as_slice())), "seed {seed}");
        }
        assert_eq!(consumer.next(), Ok(None));
        assert_eq!(consumer.counters().records, producer.counters().records);
        assert_eq!(consumer.counters().bytes, producer.counters().bytes);
    }
}

#[test]
fn a_record_too_long_is_refused_and_the_longest_always_fits_in_the_end() {
    let (mut producer, mut consumer, _map) = pair(256);
    let max = producer.record_bytes_max();
    let refused = producer.push(&vec![1; max + 1]);
    assert_eq!(refused, Err(PushRefused::TooLong { bytes: max + 1, max }));
    for round in 0..100_u8 {
        producer.push(&[round]).expect("room");
        producer.push(&vec![round; max]).expect("room");
        producer.publish();
        assert_eq!(consumer.next(), Ok(Some([round].as_slice())));
        assert_eq!(consumer.next(), Ok(Some(vec![round; max].as_slice())));
        assert_eq!(consumer.next(), Ok(None), "all room is given back");
    }
}

#[test]
fn nonsense_of_the_other_side_ends_the_ring_and_not_the_process() {
    const HEAD: u64 = 256;
    for head in [250, 257, 1 << 40, u64::MAX - 1, u64::MAX - 7] {
        let (mut producer, mut consumer, map) = pair(256);
        producer.push(&[1; 8]).expect("room");
        producer.publish();
        map.word(HEADER_BYTES).store(head, Ordering::Release);
        assert_eq!(consumer.next(), Err(Broken), "head {head}");
    }
    let (mut producer, _consumer, map) = pair(256);
    for _ in 0..15 {
        producer.push(&[1; 8]).expect("room");
    }
    map.word(HEAD).store(1 << 50, Ordering::Release);
    assert_eq!(producer.push(&[1; 8]), Err(PushRefused::Broken(Broken)));
}

#[test]
fn what_is_no_ring_cannot_be_attached() {
    let bytes = HEADER_BYTES + 256;
    let blank = map(bytes);
    assert!(Producer::attach(Arc::clone(&blank), 0, bytes).is_none());
    assert!(Consumer::create(Arc::clone(&blank), 0, 512, false).is_none(), "larger than the map");
    assert!(Consumer::create(Arc::clone(&blank), 0, 100, false).is_none(), "no power of two");
    let _consumer = Consumer::create(Arc::clone(&blank), 0, 256, false).expect("fits");
    for size in [0, 100, 512, u64::MAX, 1 << 63] {
        blank.word(8).store(size, Ordering::Release);
        assert!(Producer::attach(Arc::clone(&blank), 0, bytes).is_none(), "size {size}");
    }
}

#[test]
fn a_second_producer_goes_on_where_the_first_ended() {
    let (mut first, mut consumer, map) = pair(256);
    for round in 0..200_u8 {
        first.push(&[round; 5]).expect("room");
        first.publish();
        first.push(&[0xEE; 9]).expect("room"); // never published: its process dies
        std::mem::forget(first);
        first = Producer::attach(Arc::clone(&map), 0, HEADER_BYTES + 256).expect("there");
        if round % 3 == 2 {
            for earlier in [round - 2, round - 1, round] {
                assert_eq!(consumer.next(), Ok(Some([earlier; 5].as_slice())));
            }
            assert_eq!(consumer.next(), Ok(None));
        }
    }
}

#[test]
fn records_between_threads_come_whole_and_in_order_while_the_reader_sleeps() {
    const RECORDS: u64 = if cfg!(miri) { 300 } else { 200_000 };
    let (mut producer, mut consumer, _map) = pair(1 << 14);
    let writer = std::thread::spawn(move || {
        let mut draw = Draw::new(77);
        for number in 0..RECORDS {
            let words = 1 + draw.below(40) as usize;
            let bytes: Vec<u8> =
                std::iter::repeat_n(number.to_le_bytes(), words).flatten().collect();
            while let Err(refused) = producer.push(&bytes) {
                assert_eq!(refused, PushRefused::Full);
                std::thread::yield_now();
            }
            if draw.below(8) == 0 {
                producer.publish();
            }
        }
    });
    let mut expected = 0_u64;
    while expected < RECORDS {
        let Some(record) = consumer.next().expect("sound") else {
            consumer.wait(Duration::from_millis(20));
            continue;
        };
        for word in record.chunks_exact(8) {
            assert_eq!(word, expected.to_le_bytes(), "record {expected}");
        }
        expected += 1;
    }
    writer.join().expect("the writer");
    assert!(consumer.is_closed());
    assert_eq!(consumer.next(), Ok(None));
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p fluxline --release --lib loom_`.
#[cfg(loom)]
mod model {
    use loom::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(body);
    }

    fn push_waiting(producer: &mut Producer, bytes: &[u8]) {
        while let Err(refused) = producer.push(bytes) {
            assert_eq!(refused, PushRefused::Full);
            thread::yield_now();
        }
    }

    /// Reads until the producer has closed; each record is looked at for a while. Returns how many
    /// there were, whenever there was none.
    fn drain(consumer: &mut Consumer, map: &SharedMap, check: impl Fn(usize, &[u8])) -> Vec<usize> {
        let (mut count, mut pauses) = (0, Vec::new());
        loop {
            // The flag first: records published before the producer closed are seen after it.
            let closed = consumer.is_closed();
            let Some(record) = consumer.next().expect("sound") else {
                pauses.push(count);
                if closed {
                    return pauses;
                }
                thread::yield_now();
                continue;
            };
            thread::yield_now();
            map.read_lent(record);
            check(count, record);
            count += 1;
        }
    }

    #[test]
    fn loom_records_come_whole_in_order_and_by_the_batch() {
        check(3, || {
            // One that does not sleep: its publications have no fence to hide behind.
            let (mut producer, mut consumer, map) = pair_that(128, false);
            let writer = thread::spawn(move || {
                producer.push(&[1; 8]).expect("room");
                producer.push(&[2; 3]).expect("room");
                producer.publish();
                producer.push(&[3; 16]).expect("room");
            });
            let expected = [&[1; 8][..], &[2; 3], &[3; 16]];
            let pauses = drain(&mut consumer, &map, |at, record| assert_eq!(record, expected[at]));
            assert_eq!(pauses.last(), Some(&3));
            assert!(!pauses.contains(&1), "half a batch was seen: {pauses:?}");
            writer.join().expect("the writer");
        });
    }

    /// A ring of which `filled` records of 16 bytes are not read, its end at hand.
    fn near_the_end(filled: u8) -> (Producer, Consumer, Arc<SharedMap>) {
        let (mut producer, mut consumer, map) = pair_that(128, false);
        for number in 0..4 + filled {
            if number >= 4 {
                producer.push(&[number - 4; 16]).expect("room");
                continue;
            }
            producer.push(&[9; 16]).expect("room");
            producer.publish();
            assert_eq!(consumer.next(), Ok(Some([9; 16].as_slice())));
            assert_eq!(consumer.next(), Ok(None), "all room is given back");
        }
        producer.publish();
        (producer, consumer, map)
    }

    #[test]
    fn loom_a_ring_wraps_while_it_is_read() {
        check(3, || {
            let (mut producer, mut consumer, map) = near_the_end(0);
            let writer = thread::spawn(move || {
                for number in 0..3 {
                    push_waiting(&mut producer, &[number; 16]);
                }
            });
            let same = |at: usize, record: &[u8]| assert_eq!(record, [at as u8; 16]);
            assert_eq!(drain(&mut consumer, &map, same).last(), Some(&3));
            writer.join().expect("the writer");
        });
    }

    #[test]
    fn loom_a_full_ring_gets_its_room_back() {
        check(3, || {
            let (mut producer, mut consumer, map) = near_the_end(4);
            assert_eq!(producer.push(&[4; 16]), Err(PushRefused::Full));
            let writer = thread::spawn(move || {
                for number in 4..6 {
                    push_waiting(&mut producer, &[number; 16]);
                }
            });
            let same = |at: usize, record: &[u8]| assert_eq!(record, [at as u8; 16]);
            assert_eq!(drain(&mut consumer, &map, same).last(), Some(&6));
            writer.join().expect("the writer");
        });
    }

    #[test]
    fn loom_a_record_is_not_overwritten_while_it_is_read() {
        check(3, || {
            let (mut producer, mut consumer, map) = pair_that(128, false);
            for number in 0..7 {
                producer.push(&[number; 8]).expect("room");
            }
            producer.publish();
            let writer = thread::spawn(move || {
                // Of a length that ends in the middle of a record of the round before.
                push_waiting(&mut producer, &[7; 8]);
                push_waiting(&mut producer, &[8; 16]);
            });
            let same = |at: usize, record: &[u8]| {
                let length = if at == 8 { 16 } else { 8 };
                assert_eq!(record, vec![at as u8; length]);
            };
            assert_eq!(drain(&mut consumer, &map, same).last(), Some(&9));
            writer.join().expect("the writer");
        });
    }

    #[test]
    fn loom_no_wake_up_of_a_sleeping_consumer_is_lost() {
        check(3, || {
            let (mut producer, mut consumer, _map) = pair(128);
            let writer = thread::spawn(move || {
                for number in 0..2_u8 {
                    producer.push(&[number; 8]).expect("room");
                    producer.publish();
                }
            });
            let mut count = 0;
            loop {
                let closed = consumer.is_closed();
                if let Some(record) = consumer.next().expect("sound") {
                    assert_eq!(record, [count; 8]);
                    count += 1;
                } else if closed {
                    break;
                } else {
                    consumer.wait(LONG);
                }
            }
            assert_eq!(count, 2);
            writer.join().expect("the writer");
        });
    }
}

#[test]
fn a_stamp_comes_back_with_its_record_however_often_the_ring_wraps() {
    let (producer, consumer, _map) = pair(256);
    let mut producer = PushProducer(producer);
    let mut consumer = PushConsumer { raw: consumer, region: RegionId(0) };
    for round in 0..200_u64 {
        let bytes = vec![round as u8; round as usize % 40];
        producer.push_stamped(Moment::from_ns(round << 40), &bytes).expect("room");
        producer.publish();
        let found = consumer.next_stamped().expect("sound");
        assert_eq!(found, Some((Moment::from_ns(round << 40), &bytes[..])));
    }
    producer.push(&[1; 7]).expect("room");
    producer.publish();
    assert_eq!(consumer.next_stamped(), Err(Broken), "no room for a stamp");
}

#[test]
fn a_producer_says_since_when_it_has_been_stalled_and_for_how_long_in_all() {
    let (producer, mut consumer, _map) = pair(256);
    let mut producer = PushProducer(producer);
    assert_eq!(producer.stalled_since(), None);
    while producer.push(&[1; 8]).is_ok() {}
    let since = producer.stalled_since().expect("full");
    assert_eq!(producer.push(&[1; 8]), Err(PushRefused::Full));
    assert_eq!(producer.stalled_since(), Some(since), "the first refusal counts");
    assert_eq!((producer.counters().full, producer.counters().stalled_ns), (2, 0));
    while consumer.next().expect("sound").is_some() {}
    let mut tries = 0;
    while producer.push(&[1; 8]).is_err() {
        tries += 1;
        assert!(tries < 1000, "there is room");
    }
    assert_eq!(producer.stalled_since(), None);
    assert!(producer.counters().stalled_ns > 0);
}
