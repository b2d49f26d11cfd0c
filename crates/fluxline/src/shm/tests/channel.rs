//! A channel compared with a queue, and with a hostile other side; copies between maps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::shm::channel::{
    CHANNEL_BYTES, Corrupt, RECORD_BYTES_MAX, RING_BYTES, Receiver, Record, Sender,
};
use crate::sys::map::SharedMap;
use crate::sys::stream::{STREAM_BYTES_MIN, stream_slice};

/// Offset of the consumer's position \[byte\].
const HEAD: u64 = 128;

fn pair() -> (Sender, Receiver, Arc<SharedMap>) {
    let map = Arc::new(SharedMap::for_test(CHANNEL_BYTES));
    (Sender::new(&map, 0), Receiver::new(&map, 0), map)
}

#[test]
fn any_order_of_sends_and_takes_equals_a_queue() {
    let (mut sender, mut receiver, _map) = pair();
    let (mut queue, mut record) = (VecDeque::new(), Vec::new());
    let steps = if cfg!(miri) { 150 } else { 20_000_usize };
    for step in 0..steps {
        let bytes = vec![step as u8; step * 7919 % (RECORD_BYTES_MAX + 1)];
        if step % 5 != 4 && sender.has_room(bytes.len()) {
            sender.push(step as u8, &bytes);
            queue.push_back((step as u8, bytes));
        } else if let Some((kind, bytes)) = queue.pop_front() {
            let found = Record { kind, bytes: bytes.len() };
            assert_eq!(receiver.peek(), Ok(Some(found)));
            receiver.read(found, &mut record);
            assert!(record == bytes, "step {step}");
            receiver.take(found);
        }
    }
    assert!(!queue.is_empty() && receiver.has_record());
}

#[test]
fn words_come_back_at_every_place_of_the_ring() {
    let (mut sender, mut receiver, _map) = pair();
    for number in 0..if cfg!(miri) { 50 } else { 20_000_u64 } {
        // Messages of one word move the words' records over all places.
        sender.push(2, &number.to_le_bytes());
        assert!(sender.has_room(24));
        sender.push_words(1, [number, !number, number << 7]);
        let message = receiver.peek().expect("sound").expect("there");
        assert_eq!(receiver.read_words(message), Some([number]));
        assert_eq!(receiver.read_words::<3>(message), None, "another length");
        receiver.take(message);
        let words = receiver.peek().expect("sound").expect("there");
        assert_eq!(receiver.read_words(words), Some([number, !number, number << 7]));
        receiver.take(words);
    }
    assert_eq!(receiver.peek(), Ok(None));
}

#[test]
fn invalid_data_in_a_channel_is_reported_and_never_read() {
    let too_long = (RECORD_BYTES_MAX as u64 + 1) << 16 | 1;
    for word in [2, 1 << 16, 8 << 16 | 3, too_long, u64::MAX] {
        let (_sender, receiver, map) = pair();
        map.word(CHANNEL_BYTES - RING_BYTES).store(word, Ordering::Release);
        assert_eq!(receiver.peek(), Err(Corrupt), "word {word:x}");
    }
    for head in [8, 1 << 40, u64::MAX / 2] {
        let (mut sender, _receiver, map) = pair();
        while sender.has_room(RECORD_BYTES_MAX) {
            sender.push(1, &[1; RECORD_BYTES_MAX]);
        }
        map.word(HEAD).store(head, Ordering::Release);
        assert!(!sender.has_room(RECORD_BYTES_MAX), "head {head}");
    }
}

#[test]
fn bytes_copied_between_maps_and_within_one_arrive_whole() {
    let (from, to) = (SharedMap::for_test(4096), SharedMap::for_test(4096));
    let bytes: Vec<u8> = (0..255).collect();
    from.write(100, &bytes);
    from.copy_to(100, &to, 3000, bytes.len());
    from.copy_to(100, &from, 110, bytes.len()); // overlapping
    for (map, place) in [(&to, 3000), (&from, 110)] {
        let mut found = vec![0; bytes.len()];
        map.read(place, &mut found);
        assert_eq!(found, bytes);
    }
    assert!(from.holds(4096, 0) && !from.holds(4096, 1) && !from.holds(u64::MAX, 1));
}

#[test]
fn streamed_bytes_arrive_whole_at_any_place_and_length() {
    let from: Vec<u8> = (0..600_u32).map(|byte| (byte % 251) as u8).collect();
    for start in 0..70 {
        for length in [0, 1, 15, 63, 64, 65, 127, 128, 200, 511] {
            let mut to = vec![0xEE_u8; 600];
            stream_slice(&from[7..7 + length], &mut to[start..start + length]);
            assert_eq!(to[start..start + length], from[7..7 + length]);
            assert!(to[..start].iter().chain(&to[start + length..]).all(|&byte| byte == 0xEE));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "copies too much")]
fn a_copy_of_any_size_arrives_whole_and_an_overlapping_one_too() {
    let bytes: Vec<u8> = (0..STREAM_BYTES_MIN + 77).map(|byte| (byte % 251) as u8).collect();
    let map = SharedMap::for_test(2 * bytes.len() as u64);
    let other = SharedMap::for_test(2 * bytes.len() as u64);
    let whole = |map: &SharedMap, place| {
        let mut found = vec![0; bytes.len()];
        map.read(place, &mut found);
        found == bytes
    };
    map.write(5, &bytes);
    assert!(whole(&map, 5), "written");
    map.copy_to(5, &other, 9, bytes.len());
    assert!(whole(&other, 9), "copied to another");
    map.copy_to(5, &map, 105, bytes.len());
    assert!(whole(&map, 105), "copied upwards over itself");
    map.copy_to(105, &map, 3, bytes.len());
    assert!(whole(&map, 3), "copied downwards over itself");
}
