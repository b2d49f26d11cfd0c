//! Blocks, order and limit of a dump. The packets that networks write are tested in `tests/`.

use super::{Dump, Interface, LINK_TYPE_SCI, Packet};
use crate::Instant;

fn with_links(limit_bytes: u64, links: u32) -> Dump {
    let mut dump = Dump::new(limit_bytes);
    for link in 0..links {
        let (name, about) = (format!("link{link}"), "a link");
        let link_type = LINK_TYPE_SCI;
        let added = dump.interface(&Interface { name: &name, about, link_type, bits_per_s: 1 });
        assert_eq!(added, link);
    }
    dump
}

fn packet(ps: u64, interface: u32, bytes: usize) -> Packet {
    let (at, comment) = (Instant::from_ps(ps), "try 1".to_string());
    Packet { at, interface, bytes: vec![interface as u8; bytes], comment, is_damaged: false }
}

/// Types of the blocks of a file; every block must end with the length that it begins with.
fn blocks(file: &[u8]) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
    let (mut at, mut kinds) = (0, Vec::new());
    while at < file.len() {
        let length = word(at + 4);
        assert!(length.is_multiple_of(4));
        let end = at + length as usize;
        assert_eq!(word(end - 4), length, "block at {at}");
        kinds.push(word(at));
        at = end;
    }
    kinds
}

/// Low word of the time stamps of packets, and their interfaces.
fn packets(file: &[u8]) -> Vec<(u32, u32)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
    let (mut at, mut found) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 6 {
            found.push((word(at + 16), word(at + 8)));
        }
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn what_is_told_before_its_time_stands_in_order_and_equal_times_as_told() {
    let mut dump = with_links(1 << 20, 3);
    let at = Instant::from_ps;
    dump.packet(at(10), packet(50, 0, 8));
    dump.packet(at(20), packet(20, 1, 7));
    dump.packet(at(20), packet(50, 2, 6));
    dump.packet(at(30), packet(40, 1, 5));
    let (file, written) = dump.finish();
    assert_eq!(packets(&file), [(20, 1), (40, 1), (50, 0), (50, 2)]);
    assert_eq!((written.packets, written.left_out), (4, 0));
    assert_eq!(blocks(&file), [0x0A0D_0D0A, 1, 1, 1, 6, 6, 6, 6, 5, 5, 5]);
}

#[test]
fn no_limit_is_exceeded_by_a_byte_and_what_is_left_out_is_counted_and_said() {
    let empty = with_links(0, 2).finish().0.len() as u64;
    for limit in (empty..empty + 2000).step_by(7) {
        let mut dump = with_links(limit, 2);
        for ps in 0..30 {
            dump.packet(Instant::from_ps(ps), packet(ps, (ps % 2) as u32, ps as usize));
        }
        let (file, written) = dump.finish();
        let there = blocks(&file).iter().filter(|&&kind| kind == 6).count() as u64;
        assert_eq!((there, there + written.left_out), (written.packets, 30), "limit {limit}");
        let sentence = written.to_string();
        let said = file.windows(sentence.len()).any(|part| part == sentence.as_bytes());
        assert_eq!(said, written.left_out > 0, "limit {limit}");
        // The last records have comments, and the dump keeps room free for them.
        assert!(there == 0 || file.len() as u64 <= limit, "limit {limit}: {}", file.len());
    }
}

#[test]
fn a_file_taken_in_pieces_is_the_same_file() {
    let fill = |take: bool| {
        let (mut dump, mut file) = (with_links(600, 1), Vec::new());
        for ps in 0..30 {
            dump.packet(Instant::from_ps(ps), packet(ps, 0, 20));
            if take {
                file.extend(dump.take_bytes());
            }
        }
        file.extend(dump.finish().0);
        file
    };
    assert_eq!(fill(true), fill(false));
}
