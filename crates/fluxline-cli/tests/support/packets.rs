//! Packets of the counter format, made by hand, and files of them.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::capture::writer::CaptureWriter;

/// One microsecond, one millisecond and one second \[ns\].
pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
/// The first moment of captures: in November 2023.
pub const BEGIN: u64 = 1_700_000_000 * S;

/// One packet of a board.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The time of its capture \[ns\].
    pub time: u64,
    /// The board that sent it.
    pub board: u16,
    /// Its packet counter.
    pub number: u32,
    /// Its event.
    pub event: u64,
}

impl Packet {
    /// Its UDP payload, with 8 bytes of samples.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0x4358_4C46_u32.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(self.board.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend([0, 0, 1, 0]); // fragment 0 of 1
        bytes.extend(self.event.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend([self.board as u8; 8]);
        bytes
    }
}

/// Packets of one board: one per event, `period` apart, each `latency` after its event \[ns\].
#[derive(Clone, Copy, Debug)]
pub struct Board {
    pub board: u16,
    pub period: u64,
    pub latency: u64,
}

impl Board {
    /// Its packets of these events; the first has the counter 0.
    pub fn packets(self, events: std::ops::Range<u64>) -> Vec<Packet> {
        let packet = |(number, event): (u32, u64)| Packet {
            time: BEGIN + event * self.period + self.latency,
            board: self.board,
            number,
            event,
        };
        (0..).zip(events).map(packet).collect()
    }
}

/// Writes packets as a capture, in the order of time; returns the file.
pub fn write_capture(folder: &Path, name: &str, mut packets: Vec<Packet>) -> PathBuf {
    packets.sort_by_key(|packet| packet.time);
    let file = folder.join(name);
    let out = BufWriter::new(File::create_new(&file).expect("a new file"));
    let mut writer = CaptureWriter::new(out).expect("written");
    let to = SocketAddr::from(([192, 0, 2, 100], 6006));
    for packet in packets {
        let from = SocketAddr::from(([192, 0, 2, packet.board as u8 + 1], 49_152));
        let time = Moment::from_ns(packet.time);
        writer.write(from, to, &packet.bytes(), time).expect("written");
    }
    writer.finish().expect("written");
    file
}

/// Writes payloads one after the other, as boards' own tools do; returns the file.
pub fn write_raw(folder: &Path, name: &str, packets: &[Packet]) -> PathBuf {
    let file = folder.join(name);
    let bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
    std::fs::write(&file, bytes).expect("written");
    file
}

/// Bytes of one payload in such a file.
pub const RAW_BYTES: u32 = 40;
