//! The life of both sides: one producer at a time, ends and deaths.

use std::time::Instant;

use super::*;

/// Longer than any side takes to notice a death, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_second_producer_is_refused_while_the_first_lives_and_goes_on_where_it_ended() {
    let (mut first, mut consumer, ring) = pair(256);
    for round in 0..200_u8 {
        first.push(&[round; 5]).expect("room");
        first.publish();
        let process = u64::from(std::process::id());
        assert_eq!(ring.attach().err(), Some(PushOpenError::Claimed { process }));
        first.push(&[0xEE; 9]).expect("room"); // never published: its process dies
        first.die();
        first = ring.attach().expect("free again");
        if round % 3 == 2 {
            for earlier in [round - 2, round - 1, round] {
                assert_eq!(next(&mut consumer), Ok(Some(vec![earlier; 5])));
            }
            assert_eq!(next(&mut consumer), Ok(None));
        }
    }
}

#[test]
fn the_end_of_a_producer_is_reported_behind_its_records_and_the_next_one_begins_anew() {
    let (mut producer, mut consumer, ring) = pair(256);
    for _ in 0..5 {
        assert_eq!(next(&mut consumer), Ok(None));
        producer.push(&[1]).expect("room");
        drop(producer); // publishes
        assert_eq!(next(&mut consumer), Ok(Some(vec![1])));
        assert_eq!(next(&mut consumer), Err(NextError::Gone));
        assert_eq!(next(&mut consumer), Err(NextError::Gone));
        producer = ring.attach().expect("free again");
        assert_eq!(next(&mut consumer), Ok(None));
    }
}

#[test]
fn a_ring_whose_producer_never_came_has_none_that_could_be_gone() {
    let (map, (own, _)) = (map(HEADER_BYTES + 256), ClaimFile::pair());
    let shape = Shape { start: 0, size: 256, sleeps: true };
    let mut consumer = Consumer::create(map, shape, own).expect("fits");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(120) {
        assert_eq!(next(&mut consumer), Ok(None));
    }
}

#[test]
fn a_producer_that_tries_again_and_again_learns_that_its_consumer_died() {
    let (mut producer, consumer, _ring) = pair(256);
    consumer.die();
    let began = Instant::now();
    let refused = loop {
        match producer.push(&[1; 8]) {
            Ok(()) | Err(PushRefused::Full) => assert!(began.elapsed() < PATIENCE, "it hangs"),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, PushRefused::ConsumerGone);
    assert_eq!(producer.push(&[1; 8]), Err(PushRefused::ConsumerGone), "for good");
}

#[test]
fn a_producer_that_fills_no_ring_learns_by_publishing_that_its_consumer_died() {
    let (mut producer, consumer, _ring) = pair(1 << 20);
    consumer.die();
    let began = Instant::now();
    while producer.push(&[1; 8]).is_ok() {
        producer.publish();
        assert!(began.elapsed() < PATIENCE, "it goes on for nobody");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(producer.ended(), Some(PushRefused::ConsumerGone));
    assert_eq!(producer.counters().full, 0);
}

#[test]
fn a_consumer_that_closes_is_noticed_at_the_first_refusal_and_by_the_next_producer() {
    let (mut producer, consumer, ring) = pair(256);
    drop(consumer);
    while producer.push(&[1; 8]).is_ok() {}
    assert_eq!(producer.ended(), Some(PushRefused::ConsumerGone));
    drop(producer);
    assert_eq!(ring.attach().err(), Some(PushOpenError::ConsumerGone));
}

#[test]
fn a_consumer_learns_that_its_producer_died_behind_the_published_records() {
    for sleeps in [false, true] {
        let (mut producer, mut consumer, ring) = pair_that(256, sleeps);
        producer.push(&[1]).expect("room");
        producer.publish();
        producer.push(&[2]).expect("room");
        producer.die();
        assert_eq!(next(&mut consumer), Ok(Some(vec![1])));
        let began = Instant::now();
        while next(&mut consumer) == Ok(None) {
            assert!(began.elapsed() < PATIENCE, "it waits for a dead one");
            consumer.wait(Duration::from_millis(5));
        }
        assert_eq!(next(&mut consumer), Err(NextError::Gone));
        assert_eq!(consumer.counters().died, 1);
        let mut next_one = ring.attach().expect("free again");
        assert_eq!(next(&mut consumer), Ok(None), "there is another");
        next_one.push(&[3]).expect("room");
        next_one.publish();
        assert_eq!(next(&mut consumer), Ok(Some(vec![3])));
    }
}

#[test]
fn a_closed_producer_ends_one_sleep_and_not_each() {
    let (producer, mut consumer, _ring) = pair(256);
    drop(producer);
    let began = Instant::now();
    consumer.wait(PATIENCE);
    assert!(began.elapsed() < PATIENCE, "the end is news");
    assert_eq!(next(&mut consumer), Err(NextError::Gone));
    let began = Instant::now();
    consumer.wait(Duration::from_millis(50));
    // A signal may end a sleep early, but not at once each time.
    assert!(began.elapsed() >= Duration::from_millis(1), "it spins until the next one comes");
}
