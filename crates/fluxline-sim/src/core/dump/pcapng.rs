//! Blocks of a pcapng file, little-endian. Source: draft-ietf-opsawg-pcapng.

use crate::Instant;

/// A link, as capture readers list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// The name: short, and unique in the file.
    pub name: &'a str,
    /// A description of the two ends that it joins.
    pub about: &'a str,
    /// The link type of its packets, by the numbers of tcpdump.org.
    pub link_type: u16,
    /// The rate of the link.
    pub bits_per_s: u64,
}

/// A packet on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The time of its first byte.
    pub at: Instant,
    /// The link, by the number that [`super::Dump::interface`] returned.
    pub interface: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Facts that the bytes do not show; may be empty.
    pub comment: String,
    /// True if its check sum is wrong.
    pub is_damaged: bool,
}

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Option of every block: a comment.
const COMMENT: u16 = 1;
/// Option of the section: the program that wrote it.
const PROGRAM: u16 = 4;
/// Option of an interface: its name.
const NAME: u16 = 2;
const ABOUT: u16 = 3;
const SPEED: u16 = 8;
const RESOLUTION: u16 = 9;
/// Option of a packet: its flags.
const FLAGS: u16 = 2;
/// Option of statistics: the number of packets carried.
const CARRIED: u16 = 4;
const LEFT_OUT: u16 = 5;

/// Units of a time stamp a second, as a power of ten: picoseconds, the agenda's own unit.
const PICOSECONDS: u8 = 12;
/// "Outbound", and the link's error "CRC".
const FLAG_OUTBOUND: u32 = 2;
const FLAG_CRC_ERROR: u32 = 1 << 24;

/// The totals of one link.
pub struct Statistics {
    pub interface: u32,
    pub at: Instant,
    pub carried: u64,
    pub left_out: u64,
}

/// Longest statistics block of one link, with the longest comment. Derived: 12 bytes of frame, 12
/// of body, 28 of options; a comment of three numbers of 20 digits, and its frame.
pub const STATISTICS_BYTES_MAX: u64 = 12 + 12 + 28 + 4 + 160;

/// Writes the block with which every file begins.
pub fn section(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        // Byte-order magic, version 1.0, length unknown.
        word(out, 0x1A2B_3C4D);
        out.extend([1, 0, 0, 0]);
        out.extend(u64::MAX.to_le_bytes());
        let program = concat!("fluxline ", env!("CARGO_PKG_VERSION"));
        option(out, COMMENT, b"A simulated network: times are virtual, from the start of the run");
        option(out, PROGRAM, program.as_bytes());
        end_of_options(out);
    });
}

/// Writes the block of a link.
pub fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
    block(out, INTERFACE, |out| {
        word(out, u32::from(interface.link_type));
        word(out, 0);
        option(out, NAME, interface.name.as_bytes());
        option(out, ABOUT, interface.about.as_bytes());
        option(out, SPEED, &interface.bits_per_s.to_le_bytes());
        option(out, RESOLUTION, &[PICOSECONDS]);
        end_of_options(out);
    });
}

/// Writes the block of a packet.
pub fn packet(out: &mut Vec<u8>, packet: &Packet) {
    let before = out.len() as u64;
    block(out, PACKET, |out| {
        word(out, packet.interface);
        time(out, packet.at);
        let length = packet.bytes.len() as u32;
        word(out, length);
        word(out, length);
        padded(out, &packet.bytes);
        if !packet.comment.is_empty() {
            option(out, COMMENT, packet.comment.as_bytes());
        }
        let error = if packet.is_damaged { FLAG_CRC_ERROR } else { 0 };
        option(out, FLAGS, &(FLAG_OUTBOUND | error).to_le_bytes());
        end_of_options(out);
    });
    debug_assert_eq!(out.len() as u64 - before, packet_bytes(packet));
}

/// Returns the length of a packet's block \[byte\].
pub fn packet_bytes(packet: &Packet) -> u64 {
    let comment = packet.comment.len().next_multiple_of(4);
    let comment = if comment == 0 { 0 } else { 4 + comment };
    (12 + 20 + packet.bytes.len().next_multiple_of(4) + comment + 8 + 4) as u64
}

/// Writes the totals of a link.
pub fn statistics(out: &mut Vec<u8>, statistics: &Statistics, comment: &str) {
    block(out, STATISTICS, |out| {
        word(out, statistics.interface);
        time(out, statistics.at);
        if !comment.is_empty() {
            option(out, COMMENT, comment.as_bytes());
        }
        option(out, CARRIED, &statistics.carried.to_le_bytes());
        option(out, LEFT_OUT, &statistics.left_out.to_le_bytes());
        end_of_options(out);
    });
}

/// Writes a block: type, length, body, and the length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    word(out, kind);
    word(out, 0);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    word(out, length);
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

/// Writes a time, the upper half first, in any byte order.
fn time(out: &mut Vec<u8>, at: Instant) {
    word(out, (at.as_ps() >> 32) as u32);
    word(out, at.as_ps() as u32);
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes);
    out.extend(&[0; 3][..bytes.len().wrapping_neg() % 4]);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    padded(out, value);
}

fn end_of_options(out: &mut Vec<u8>) {
    word(out, 0);
}
