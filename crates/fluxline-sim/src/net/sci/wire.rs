//! Packets as bytes, for dumps: the order of the symbols and the fields in them.
//!
//! The layout is `docs/simulation/dumps.md`'s: order of symbols \[S5\], widths of fields
//! BACKGROUND-M, positions of bits BACKGROUND-L. Fields that the model lacks (time of death,
//! transaction priority, trace, ring priority, extended headers) are 0. No conformance is claimed,
//! and nothing reads these bytes back into the model. Symbols are big-endian.

use super::ageing::Phase;
use super::packet::Lock;
use super::port::Echo;
use super::{Command, NodeId, Packet, Status};

/// Bits of the command symbol: mpr 2, spr 2, phase 2, old 1, ech 1, eh 1, cmd 7. BACKGROUND-L.
const PRIORITY_SHIFT: u16 = 12;
const PHASE_SHIFT: u16 = 10;
const OLD: u16 = 1 << 9;
const ECHO: u16 = 1 << 8;
/// In an echo, instead of eh and cmd: bsy 1, res 1, tid 6.
const BUSY: u16 = 1 << 7;
const RESPONSE: u16 = 1 << 6;
/// The bits that the CRC takes as 0, because they change on the way: mpr, spr, phase, old.
/// BACKGROUND-M.
const FLOW_CONTROL: u16 = 0xFE00;

/// The flow-control bits of a send.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub is_high: bool,
    pub phase: Phase,
    pub is_old: bool,
}

impl Flow {
    /// Returns the upper bits of the command symbol. The code 3 for the higher of two priorities is
    /// assumed.
    fn bits(self) -> u16 {
        let priority = if self.is_high { 3 << PRIORITY_SHIFT } else { 0 };
        let old = if self.is_old { OLD } else { 0 };
        priority | phase_code(self.phase) << PHASE_SHIFT | old
    }
}

/// The head of an echo.
#[derive(Clone, Copy, Debug)]
pub struct EchoHead {
    /// The source of the send.
    pub target: NodeId,
    /// The node that makes the echo.
    pub source: NodeId,
    pub says: Echo,
    pub is_response: bool,
    pub transaction: u8,
    pub flow: Flow,
}

/// The state of a packet's CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    Right,
    /// A bit was wrong on this link. The model does not choose the bit; the dump flips the CRC's
    /// last one.
    Damaged,
    /// An earlier node found it wrong and stomped it. A stomped CRC is assumed to be the
    /// complement.
    Stomped,
}

/// NOTRY 0, DOTRY 1, RETRY_A 2, RETRY_B 3: order BACKGROUND-M, numbers assumed.
fn phase_code(phase: Phase) -> u16 {
    match phase {
        Phase::DoTry => 1,
        Phase::RetryA => 2,
        Phase::RetryB => 3,
    }
}

/// Of a busy echo: BUSY_N 0, BUSY_D 1, BUSY_A 2, BUSY_B 3; of others 0 (accepted) and, assumed, 1
/// ("none").
fn answer_code(says: Echo) -> u16 {
    match says {
        Echo::Accepted | Echo::Busy(Phase::DoTry) => 0,
        Echo::None => 1,
        Echo::Busy(phase) => phase_code(phase),
    }
}

/// Returns the seven bits of a command. Selected-byte commands name the last byte of their block of
/// 16 \[S5\]; all other numbers are this model's own, because those of the standard were not
/// available.
fn command_code(packet: &Packet) -> u16 {
    match packet.command {
        Command::ReadSelected => last_byte(packet, packet.data.first().copied()),
        Command::WriteSelected => 0x10 | last_byte(packet, Some(packet.data.len() as u8)),
        Command::Lock(lock) => {
            0x20 | match lock {
                Lock::FetchAdd => 0,
                Lock::CompareSwap => 1,
                Lock::MaskSwap => 2,
                Lock::BoundedAdd => 3,
                Lock::WrapAdd => 4,
            }
        }
        Command::Read64 => 0x40,
        Command::Read256 => 0x41,
        Command::Write16 => 0x44,
        Command::Write64 => 0x45,
        Command::Write256 => 0x46,
        Command::Move16 => 0x48,
        Command::Move64 => 0x49,
        Command::Move256 => 0x4A,
        Command::Event00 => 0x4C,
        Command::Event16 => 0x4D,
        Command::Event64 => 0x4E,
        Command::Event256 => 0x4F,
        Command::Strobe => 0x5C,
        Command::Response00 => 0x60,
        Command::Response16 => 0x61,
        Command::Response64 => 0x62,
        Command::Response256 => 0x63,
    }
}

/// Returns the position of the last of `count` bytes in its block; without a count, the last
/// position of the block.
fn last_byte(packet: &Packet, count: Option<u8>) -> u16 {
    let first = packet.offset as u16 % 16;
    count.map_or(15, |count| (first + u16::from(count).max(1) - 1).min(15))
}

fn status_code(status: Status) -> u16 {
    match status {
        Status::Normal => 0,
        Status::Conflict => 1,
        Status::Data => 2,
        Status::Type => 3,
        Status::Address => 4,
    }
}

/// Returns the bytes of a send.
pub fn send(packet: &Packet, flow: Flow, crc: Crc) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(packet.command.symbols() as usize * 2);
    let upper = packet.offset.to_be_bytes();
    let command = flow.bits() | command_code(packet);
    let control = u16::from(packet.transaction & 0x3F);
    for symbol in [packet.target.0, command, packet.source.0, control] {
        bytes.extend(symbol.to_be_bytes());
    }
    if packet.command.is_response() {
        bytes.extend(status_code(packet.status).to_be_bytes());
        bytes.extend([0; 4]);
    } else {
        bytes.extend(&upper[2..]);
    }
    let data_at = bytes.len();
    bytes.resize(data_at + packet.command.data_bytes() as usize, 0);
    put_data(packet, &mut bytes[data_at..]);
    finish(bytes, crc)
}

/// Writes the data part, padded with zeros. Selected bytes are at their position in the block, as
/// in the packets of \[S5\]; in a response, which has no address, they are at the start.
fn put_data(packet: &Packet, part: &mut [u8]) {
    let selected = packet.command == Command::WriteSelected;
    let start = if selected { packet.offset as usize % 16 } else { 0 };
    let part = part.get_mut(start..).unwrap_or_default();
    let length = packet.data.len().min(part.len());
    part[..length].copy_from_slice(&packet.data[..length]);
}

/// Returns the bytes of an echo.
pub fn echo(head: &EchoHead, crc: Crc) -> Vec<u8> {
    let phase = answer_code(head.says) << PHASE_SHIFT;
    let flow = head.flow.bits() & !(3 << PHASE_SHIFT) | phase;
    let busy = if matches!(head.says, Echo::Busy(_)) { BUSY } else { 0 };
    let response = if head.is_response { RESPONSE } else { 0 };
    let command = flow | ECHO | busy | response | u16::from(head.transaction & 0x3F);
    let symbols = [head.target.0, command, head.source.0];
    finish(symbols.iter().flat_map(|symbol| symbol.to_be_bytes()).collect(), crc)
}

fn finish(mut bytes: Vec<u8>, crc: Crc) -> Vec<u8> {
    let right = check_sum(&bytes);
    let shown = match crc {
        Crc::Right => right,
        Crc::Damaged => right ^ 1,
        Crc::Stomped => !right,
    };
    bytes.extend(shown.to_be_bytes());
    bytes
}

/// Returns the CRC of CCITT: x^16 + x^12 + x^5 + 1 (BACKGROUND-H), started with all ones, without
/// the flow-control part of the command symbol (BACKGROUND-M).
pub fn check_sum(bytes: &[u8]) -> u16 {
    let mut crc = 0xFFFF_u16;
    for (place, pair) in bytes.chunks_exact(2).enumerate() {
        let symbol = u16::from_be_bytes([pair[0], pair[1]]);
        crc ^= if place == 1 { symbol & !FLOW_CONTROL } else { symbol };
        for _ in 0..16 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::{Crc, EchoHead, Flow, check_sum, echo, send};
    use crate::net::sci::ageing::Phase;
    use crate::net::sci::port::Echo;
    use crate::net::sci::{Command, NodeId, Packet, Status};

    const FLOW: Flow = Flow { is_high: false, phase: Phase::RetryB, is_old: true };

    fn packet(command: Command, offset: u64, data: &[u8]) -> Packet {
        let (target, source) = (NodeId(0x1234), NodeId(0x00AB));
        let data = data.to_vec();
        Packet { target, source, command, transaction: 62, offset, status: Status::Type, data }
    }

    #[test]
    fn a_selected_write_at_the_end_of_its_block_stands_there_and_names_its_last_byte() {
        let bytes =
            send(&packet(Command::WriteSelected, 0xFEDC_BA98_765D, &[7, 8, 9]), FLOW, Crc::Right);
        assert_eq!(bytes[..8], [0x12, 0x34, 0x0E, 0x1F, 0, 0xAB, 0, 62]);
        assert_eq!(bytes[8..14], [0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x5D]);
        assert_eq!(bytes[14..30], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9]);
        assert_eq!(bytes.len(), 32);
    }

    #[test]
    fn every_command_has_its_length_and_more_data_than_it_takes_is_no_panic() {
        let commands = [
            Command::ReadSelected,
            Command::WriteSelected,
            Command::Lock(crate::net::sci::packet::Lock::WrapAdd),
            Command::Write256,
            Command::Event00,
            Command::Response00,
            Command::Response64,
        ];
        for command in commands {
            for (offset, data) in [(0, 0), (15, 16), (u64::MAX, 300), (8, 256)] {
                let bytes = send(&packet(command, offset, &vec![255; data]), FLOW, Crc::Right);
                assert_eq!(bytes.len() as u32, 2 * command.symbols(), "{command:?}");
            }
        }
    }

    #[test]
    fn the_mark_of_the_scrubber_leaves_the_crc_and_damage_changes_it() {
        let read = packet(Command::Read64, 64, &[]);
        let new = send(&read, Flow { is_old: false, ..FLOW }, Crc::Right);
        let old = send(&read, FLOW, Crc::Right);
        assert_ne!(new, old);
        assert_eq!(new[14..], old[14..], "the CRC is not made again on the way");
        for crc in [Crc::Damaged, Crc::Stomped] {
            assert_ne!(send(&read, FLOW, crc)[14..], old[14..], "{crc:?}");
        }
    }

    #[test]
    fn the_check_sum_is_the_catalogues_but_for_the_flow_control_part() {
        // CRC-16/IBM-3740 of these bytes by Python's binascii.crc_hqx(.., 0xFFFF).
        assert_eq!(check_sum(b"12\x00456"), check_sum(b"12\xFE456"));
        assert_eq!(check_sum(&[0x31, 0x32, 0x00, 0x34, 0x35, 0x36, 0x37, 0x38]), 0x4047);
    }

    #[test]
    fn an_echo_says_who_was_refused_into_which_generation() {
        let flow = Flow { is_high: true, phase: Phase::DoTry, is_old: false };
        let (target, source) = (NodeId(1), NodeId(2));
        let head =
            |says| EchoHead { target, source, says, is_response: true, transaction: 5, flow };
        let command = |says| {
            let bytes = echo(&head(says), Crc::Right);
            assert_eq!(bytes.len(), 8);
            u16::from_be_bytes([bytes[2], bytes[3]])
        };
        assert_eq!(command(Echo::Accepted), 0x3145);
        assert_eq!(command(Echo::None), 0x3545);
        assert_eq!(command(Echo::Busy(Phase::DoTry)), 0x31C5);
        assert_eq!(command(Echo::Busy(Phase::RetryB)), 0x3DC5);
    }
}
