//! A ring that the other side fills with nonsense: reported once, and without harm.

use fluxline_core::random::Draw;

use super::*;

const HEAD: u64 = 256;

#[test]
fn nonsense_of_the_other_side_ends_the_ring_and_not_the_process() {
    for head in [58, 65, 250, 257, 1 << 40, u64::MAX - 1, u64::MAX - 7] {
        let (mut producer, mut consumer, ring) = pair(256);
        producer.push(&[1; 8]).expect("room");
        producer.publish();
        ring.map.word(HEADER_BYTES).store(head, Ordering::Release);
        assert_eq!(next(&mut consumer), Err(BROKEN), "head {head}");
        ring.map.word(HEADER_BYTES).store(9, Ordering::Release);
        assert_eq!(next(&mut consumer), Err(BROKEN), "for good");
        assert_eq!(consumer.counters().broken, 1);
    }
    for head in [1 << 50, 4, u64::MAX - 7, 256] {
        let (mut producer, _consumer, ring) = pair(256);
        while producer.push(&[1; 8]).is_ok() {}
        ring.map.word(HEAD).store(head, Ordering::Release);
        assert_eq!(producer.push(&[1; 8]), Err(PushRefused::Broken(Broken)), "{head}");
        ring.map.word(HEAD).store(32, Ordering::Release);
        assert_eq!(producer.push(&[1; 8]), Err(PushRefused::Broken(Broken)), "for good");
        assert_eq!(producer.ended(), Some(PushRefused::Broken(Broken)));
    }
}

#[test]
fn a_head_that_goes_back_ends_the_ring() {
    let (mut producer, mut consumer, ring) = pair(256);
    for _ in 0..20 {
        producer.push(&[1; 8]).expect("room");
        producer.publish();
        while next(&mut consumer).expect("sound").is_some() {}
    }
    while producer.push(&[1; 8]).is_ok() {}
    ring.map.word(HEAD).store(16, Ordering::Release);
    assert_eq!(producer.push(&[1; 8]), Err(PushRefused::Broken(Broken)));
}

#[test]
fn a_ring_that_says_skip_for_ever_is_broken_and_does_not_hang_its_reader() {
    for fill in [u64::MAX, 0x8080_8080_8080_8080] {
        let (_producer, mut consumer, ring) = pair(256);
        for place in (HEADER_BYTES..HEADER_BYTES + 256).step_by(8) {
            ring.map.word(place).store(fill, Ordering::Release);
        }
        assert_eq!(next(&mut consumer), Err(BROKEN));
    }
}

#[test]
fn a_skip_is_followed_by_the_rings_beginning_and_by_no_other_skip() {
    let (mut producer, mut consumer, ring) = pair(256);
    for _ in 0..13 {
        producer.push(&[1; 8]).expect("room");
        producer.publish();
        next(&mut consumer).expect("sound");
    }
    // 48 bytes are left: less than a record of 64, so a producer would skip them.
    ring.map.word(HEADER_BYTES).store(0, Ordering::Release);
    ring.map.word(HEADER_BYTES + 208).store(u64::MAX, Ordering::Release);
    assert_eq!(next(&mut consumer).expect("a skip alone is sound"), None);
    ring.map.word(HEADER_BYTES).store(u64::MAX, Ordering::Release);
    assert_eq!(next(&mut consumer), Err(BROKEN));
}

#[test]
fn a_head_that_no_consumer_writes_cannot_be_attached() {
    for head in [1, 4, 250, u64::MAX, u64::MAX - 7, 1 << 63] {
        let (producer, _consumer, ring) = pair(256);
        drop(producer);
        ring.map.word(HEAD).store(head, Ordering::Release);
        assert_eq!(ring.attach().err(), Some(PushOpenError::Broken(Broken)), "{head}");
    }
}

#[test]
fn what_is_no_ring_cannot_be_attached() {
    let bytes = HEADER_BYTES + 256;
    let (blank, (own, file)) = (map(bytes), ClaimFile::pair());
    let ring = Ring { map: Arc::clone(&blank), file, size: 256 };
    assert_eq!(ring.attach().err(), Some(PushOpenError::NoRing));
    // Larger than the map, no power of two, too small for any record.
    for size in [512, 100, 32] {
        let shape = Shape { start: 0, size, sleeps: false };
        let made = Consumer::create(Arc::clone(&blank), shape, own.reopened());
        assert_eq!(made.err(), Some(PushOpenError::Size { bytes: size }));
    }
    let shape = Shape { start: 0, size: 256, sleeps: false };
    let _consumer = Consumer::create(Arc::clone(&blank), shape, own).expect("fits");
    for size in [0, 32, 100, 512, u64::MAX, 1 << 63] {
        blank.word(8).store(size, Ordering::Release);
        assert_eq!(ring.attach().err(), Some(PushOpenError::NoRing), "size {size}");
    }
}

#[test]
fn scribbled_rings_are_broken_or_read_and_neither_side_leaves_its_memory() {
    for seed in 1..=if cfg!(miri) { 3 } else { 300 } {
        let mut draw = Draw::new(seed * 0x9E37_79B9);
        let size = 64 << draw.below(5);
        let (mut producer, mut consumer, ring) = pair(size);
        for _ in 0..400 {
            match draw.below(6) {
                0 => {
                    let place = draw.below((HEADER_BYTES + size) / 8) * 8;
                    let near = draw.below(2 * size);
                    let words = [0, near, near | 1, u64::MAX, u64::MAX - near, 1 << draw.below(64)];
                    let word = words[draw.below(6) as usize];
                    ring.map.word(place).store(word, Ordering::Release);
                }
                1 | 2 => drop(producer.push(&vec![7; draw.below(size / 4) as usize])),
                3 => producer.publish(),
                4 => {
                    drop(producer);
                    ring.map.word(0).store(u64::from_le_bytes(*b"FLXPUSH3"), Ordering::Release);
                    ring.map.word(8).store(size, Ordering::Release);
                    match ring.attach() {
                        Ok(again) => producer = again,
                        Err(PushOpenError::Broken(_) | PushOpenError::NoRing) => break,
                        Err(other) => panic!("seed {seed}: {other}"),
                    }
                }
                _ => {
                    let length = next(&mut consumer).map(|found| found.map_or(0, |of| of.len()));
                    assert!(length.is_err() || length.is_ok_and(|bytes| bytes as u64 <= size / 4));
                }
            }
        }
    }
}
