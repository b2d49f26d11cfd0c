//! The push ring in every order of its steps.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p fluxline --release --lib loom_`.

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

/// Reads until the producer has ended, and checks each record twice. Returns the number of records
/// at each moment without one.
fn drain(consumer: &mut Consumer, check: impl Fn(usize, &[u8])) -> Vec<usize> {
    let (mut count, mut pauses) = (0, Vec::new());
    loop {
        match consumer.next() {
            Ok(Some(record)) => {
                check(count, &record.to_vec());
                thread::yield_now();
                check(count, &record.to_vec());
                count += 1;
            }
            Ok(None) => {
                pauses.push(count);
                thread::yield_now();
            }
            Err(gone) => {
                assert_eq!(gone, NextError::Gone);
                pauses.push(count);
                return pauses;
            }
        }
    }
}

#[test]
fn loom_records_come_whole_in_order_and_by_the_batch() {
    check(3, || {
        // One that does not sleep: its publications have no fence to hide behind.
        let (mut producer, mut consumer, _ring) = pair_that(128, false);
        let writer = thread::spawn(move || {
            producer.push(&[1; 8]).expect("room");
            producer.push(&[2; 3]).expect("room");
            producer.publish();
            producer.push(&[3; 16]).expect("room");
        });
        let expected = [&[1; 8][..], &[2; 3], &[3; 16]];
        let pauses = drain(&mut consumer, |at, record| assert_eq!(record, expected[at]));
        assert_eq!(pauses.last(), Some(&3));
        assert!(!pauses.contains(&1), "half a batch was seen: {pauses:?}");
        writer.join().expect("the writer");
    });
}

/// A ring of which `filled` records of 16 bytes are not read, its end at hand.
fn near_the_end(filled: u8) -> (Producer, Consumer, Ring) {
    let (mut producer, mut consumer, ring) = pair_that(128, false);
    for number in 0..4 + filled {
        if number >= 4 {
            producer.push(&[number - 4; 16]).expect("room");
            continue;
        }
        producer.push(&[9; 16]).expect("room");
        producer.publish();
        assert_eq!(next(&mut consumer), Ok(Some([9; 16].to_vec())));
        assert_eq!(next(&mut consumer), Ok(None), "all room is given back");
    }
    producer.publish();
    (producer, consumer, ring)
}

#[test]
fn loom_a_ring_wraps_while_it_is_read() {
    check(3, || {
        let (mut producer, mut consumer, _ring) = near_the_end(0);
        let writer = thread::spawn(move || {
            for number in 0..3 {
                push_waiting(&mut producer, &[number; 16]);
            }
        });
        let same = |at: usize, record: &[u8]| assert_eq!(record, [at as u8; 16]);
        assert_eq!(drain(&mut consumer, same).last(), Some(&3));
        writer.join().expect("the writer");
    });
}

#[test]
fn loom_a_full_ring_gets_its_room_back() {
    check(3, || {
        let (mut producer, mut consumer, _ring) = near_the_end(4);
        assert_eq!(producer.push(&[4; 16]), Err(PushRefused::Full));
        let writer = thread::spawn(move || {
            for number in 4..6 {
                push_waiting(&mut producer, &[number; 16]);
            }
        });
        let same = |at: usize, record: &[u8]| assert_eq!(record, [at as u8; 16]);
        assert_eq!(drain(&mut consumer, same).last(), Some(&6));
        writer.join().expect("the writer");
    });
}

#[test]
fn loom_a_record_is_not_overwritten_while_it_is_read() {
    check(3, || {
        let (mut producer, mut consumer, _ring) = pair_that(128, false);
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
        assert_eq!(drain(&mut consumer, same).last(), Some(&9));
        writer.join().expect("the writer");
    });
}

#[test]
fn loom_no_wake_up_of_a_sleeping_consumer_is_lost() {
    check(3, || {
        let (mut producer, mut consumer, _ring) = pair(128);
        let writer = thread::spawn(move || {
            for number in 0..2_u8 {
                producer.push(&[number; 8]).expect("room");
                producer.publish();
            }
        });
        let mut count = 0;
        loop {
            match next(&mut consumer) {
                Ok(Some(record)) => {
                    assert_eq!(record, [count; 8]);
                    count += 1;
                }
                Ok(None) => consumer.wait(LONG),
                Err(gone) => break assert_eq!(gone, NextError::Gone),
            }
        }
        assert_eq!(count, 2);
        writer.join().expect("the writer");
    });
}

#[test]
fn loom_of_two_producers_at_once_one_has_the_ring_and_no_record_is_lost() {
    for dies in [false, true] {
        check(2, move || {
            let (first, mut consumer, ring) = pair_that(128, false);
            drop(first);
            let ring = Arc::new(ring);
            let writers = [1_u8, 2].map(|number| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || match ring.attach() {
                    Ok(mut producer) => {
                        producer.push(&[number; 8]).expect("room");
                        producer.publish();
                        if dies {
                            producer.die();
                        }
                        true
                    }
                    Err(PushOpenError::Claimed { .. }) => false,
                    Err(other) => panic!("{other}"),
                })
            });
            let [one, two] = writers.map(|writer| writer.join().expect("the writer"));
            assert!(one || two, "one of them has the ring");
            let mut found = Vec::new();
            while let Ok(Some(record)) = next(&mut consumer) {
                found.push(record[0]);
            }
            found.sort_unstable();
            let expected = [(1, one), (2, two)];
            assert!(found.iter().eq(expected.iter().filter(|of| of.1).map(|of| &of.0)));
        });
    }
}

#[test]
fn loom_the_next_producer_does_not_overwrite_what_is_being_read() {
    check(2, || {
        let (first, mut consumer, ring) = near_the_end(4);
        drop(first);
        let writer = thread::spawn(move || {
            let mut second = ring.attach().expect("free");
            for number in 4..6 {
                push_waiting(&mut second, &[number; 16]);
            }
        });
        for number in 0..6 {
            loop {
                match consumer.next() {
                    Ok(Some(record)) => {
                        assert_eq!(record.to_vec(), [number; 16]);
                        thread::yield_now();
                        assert_eq!(record.to_vec(), [number; 16]);
                        break;
                    }
                    Ok(None) | Err(NextError::Gone) => thread::yield_now(),
                    Err(broken) => panic!("{broken}"),
                }
            }
        }
        writer.join().expect("the writer");
    });
}

#[test]
fn loom_a_ring_is_handed_on_while_it_is_read() {
    for dies in [false, true] {
        check(2, move || {
            let (mut first, mut consumer, ring) = pair_that(128, false);
            let writer = thread::spawn(move || {
                first.push(&[1; 8]).expect("room");
                first.publish();
                first.push(&[9; 16]).expect("room"); // published by an end, not by a death
                if dies {
                    first.die()
                } else {
                    drop(first)
                }
                let mut second = ring.attach().expect("free again");
                second.push(&[2; 8]).expect("room");
            });
            let mut found = Vec::new();
            while found.last() != Some(&vec![2; 8]) {
                match next(&mut consumer) {
                    Ok(Some(record)) => found.push(record),
                    Ok(None) | Err(NextError::Gone) => thread::yield_now(),
                    Err(other) => panic!("{other}"),
                }
            }
            let expected = if dies { vec![vec![1; 8]] } else { vec![vec![1; 8], vec![9; 16]] };
            assert_eq!(found[..found.len() - 1], expected);
            writer.join().expect("the writer");
        });
    }
}

#[test]
fn loom_a_death_is_reported_after_the_last_record() {
    check(3, || {
        let (mut producer, mut consumer, _ring) = pair_that(128, false);
        let writer = thread::spawn(move || {
            producer.push(&[1; 8]).expect("room");
            producer.publish();
            producer.die();
        });
        let mut count = 0;
        loop {
            // Before the ring is looked at: the death may be known sooner than the record.
            consumer.look();
            match next(&mut consumer) {
                Ok(Some(_)) => count += 1,
                Ok(None) => thread::yield_now(),
                Err(gone) => break assert_eq!(gone, NextError::Gone),
            }
        }
        assert_eq!(count, 1);
        writer.join().expect("the writer");
    });
}
