//! The push ring against a queue, against a hostile other side, and between threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Broken, NextError, PushConsumer, PushOpenError, PushProducer, PushRefused};
use fluxline_core::Moment;
use fluxline_core::fabric::RegionId;
use fluxline_core::random::Draw;

use crate::sys::map::SharedMap;
use crate::sys::push::{ClaimFile, Consumer, HEADER_BYTES, Producer, Shape};
#[cfg(not(loom))]
use crate::sys::shim::Ordering;

#[cfg(not(loom))]
mod hostile;
#[cfg(not(loom))]
mod life;
#[cfg(loom)]
mod model;

fn map(bytes: u64) -> Arc<SharedMap> {
    Arc::new(SharedMap::for_test(bytes))
}

const BROKEN: NextError = NextError::Broken(Broken);

/// A ring of a test: its two ends, and what others need to attach to it.
struct Ring {
    map: Arc<SharedMap>,
    /// The producer's file, for one more open file of it.
    file: ClaimFile,
    size: u64,
}

impl Ring {
    fn attach(&self) -> Result<Producer, PushOpenError> {
        let map = Arc::clone(&self.map);
        Producer::attach(map, 0, HEADER_BYTES + self.size, self.file.reopened())
    }
}

fn pair(size: u64) -> (Producer, Consumer, Ring) {
    pair_that(size, true)
}

fn pair_that(size: u64, sleeps: bool) -> (Producer, Consumer, Ring) {
    let (map, (own, file)) = (map(HEADER_BYTES + size), ClaimFile::pair());
    let shape = Shape { start: 0, size, sleeps };
    let consumer = Consumer::create(Arc::clone(&map), shape, own).expect("fits");
    let ring = Ring { map, file, size };
    (ring.attach().expect("there"), consumer, ring)
}

/// The next record's bytes.
fn next(consumer: &mut Consumer) -> Result<Option<Vec<u8>>, NextError> {
    Ok(consumer.next()?.map(|record| record.to_vec()))
}

#[test]
fn any_order_of_calls_equals_a_queue() {
    for seed in 1..if cfg!(miri) { 4 } else { 200 } {
        let mut draw = Draw::new(seed * 0x9E37_79B9);
        let size = 256 << draw.below(4);
        let (mut producer, mut consumer, _ring) = pair(size);
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
                    let found = next(&mut consumer).expect("sound");
                    assert_eq!(found, published.pop_front(), "seed {seed}, step {step}");
                }
            }
        }
        producer.publish();
        published.append(&mut written);
        while let Some(expected) = published.pop_front() {
            assert_eq!(next(&mut consumer), Ok(Some(expected.to_vec())), "seed {seed}");
        }
        assert_eq!(next(&mut consumer), Ok(None));
        assert_eq!(consumer.counters().records, producer.counters().records);
        assert_eq!(consumer.counters().bytes, producer.counters().bytes);
    }
}

#[test]
fn a_record_too_long_is_refused_and_the_longest_always_fits_in_the_end() {
    let (mut producer, mut consumer, _ring) = pair(256);
    let max = producer.record_bytes_max();
    let refused = producer.push(&vec![1; max + 1]);
    assert_eq!(refused, Err(PushRefused::TooLong { bytes: max + 1, max }));
    for round in 0..100_u8 {
        producer.push(&[round]).expect("room");
        producer.push(&vec![round; max]).expect("room");
        producer.publish();
        assert_eq!(next(&mut consumer), Ok(Some([round].to_vec())));
        assert_eq!(next(&mut consumer), Ok(Some(vec![round; max].to_vec())));
        assert_eq!(next(&mut consumer), Ok(None), "all room is given back");
    }
}

#[test]
fn records_between_threads_come_whole_and_in_order_while_the_reader_sleeps() {
    const RECORDS: u64 = if cfg!(miri) { 300 } else { 200_000 };
    let (mut producer, mut consumer, _ring) = pair(1 << 14);
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
        assert!(record.words().all(|word| word == expected), "record {expected}");
        assert_eq!(record.to_vec().len(), record.len());
        expected += 1;
    }
    writer.join().expect("the writer");
    assert_eq!(next(&mut consumer), Err(NextError::Gone));
}

#[test]
fn a_stamp_comes_back_with_its_record_however_often_the_ring_wraps() {
    let (producer, consumer, _ring) = pair(256);
    let mut producer = PushProducer(producer);
    let mut consumer = PushConsumer { raw: consumer, region: RegionId(0) };
    for round in 0..200_u64 {
        let bytes = vec![round as u8; round as usize % 40];
        producer.push_stamped(Moment::from_ns(round << 40), &bytes).expect("room");
        producer.publish();
        let (at, record) = consumer.next_stamped().expect("sound").expect("published");
        assert_eq!((at, record.to_vec()), (Moment::from_ns(round << 40), bytes));
    }
    producer.push(&[1; 7]).expect("room");
    producer.publish();
    let found = consumer.next_stamped().map(|found| found.is_some());
    assert_eq!(found, Err(BROKEN), "no room for a stamp");
}

#[test]
fn a_record_is_passed_on_as_it_is() {
    let (mut first, mut between, _ring) = pair(1 << 12);
    let (mut second, mut last, _other) = pair(1 << 12);
    for bytes in (0..200).chain([900, 1000]) {
        let record: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
        first.push(&record).expect("room");
        first.publish();
        let found = between.next().expect("sound").expect("published");
        second.push_record(found).expect("room");
        second.publish();
        assert_eq!(next(&mut last), Ok(Some(record)));
    }
}

#[test]
fn a_producer_says_since_when_it_has_been_stalled_and_for_how_long_in_all() {
    let (producer, mut consumer, _ring) = pair(256);
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
