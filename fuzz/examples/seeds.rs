//! Makes the seeds of the fuzz targets: short packets of every shipped format, a capture of each
//! kind, a run file and a RoCEv2 packet of each kind, all from the project's own emulators and
//! writers.
//!
//! Run after a format or the layout of run files has changed: `cargo run --example seeds` in
//! `fuzz/`. The seeds of `description_file` are the shipped formats themselves.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_daq::capture::writer::CaptureWriter;
use fluxline_daq::emulator::Emulator;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder};
use fluxline_fuzz::{RUN_FORMATS, datagram, few_packets, formats};
use fluxline_proto::Moment;
use fluxline_proto::description::Description;
use fluxline_proto::roce::{IcrcContext, Opcode, Packet};

/// Longer packets make poor seeds: mutation rarely hits what matters in them.
const SEED_BYTES_MAX: usize = 2048;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for target in ["packet_program", "capture_input", "run_file", "roce_packet", "endpoint_frames"] {
        let folder = seeds.join(target);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
    }
    let formats = formats();
    write_packets(&formats, &seeds.join("packet_program"))?;
    write_captures(&formats, &seeds.join("capture_input"))?;
    write_run(&formats, &seeds.join("run_file"))?;
    write_roce(&seeds.join("roce_packet"))?;
    write_endpoint(&seeds.join("endpoint_frames"))
}

/// What the target of that name does to a frame: seals it, and puts in queue pair, PSN and R_Key.
const ENDPOINT_FLAGS: u8 = 1 | 2 | 4 | 8 | 1 << 6;
/// Frames that only Fluxline ends exchange.
const SETUP: u8 = 0xC0;
const SELECTIVE: u8 = 0xC1;

/// A row of three frames of each kind, the numbers one after the other.
fn write_endpoint(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let kinds = Opcode::ALL.iter().map(|opcode| (opcode.byte(), opcode.name().replace(' ', "-")));
    let own = [(SETUP, "setup"), (SELECTIVE, "selective")].map(|(of, name)| (of, name.to_owned()));
    for (index, (opcode, name)) in kinds.chain(own).enumerate() {
        let mut bytes = vec![(0x20..0x40).contains(&opcode).into()];
        for number in 0..3 {
            let mut frame = vec![opcode, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, number];
            // An address, a key to be put in, and a length of 8; or an acknowledgement.
            let extended = match Opcode::from_byte(opcode).map_or(0, Opcode::header_bytes) {
                16 | 24 => vec![0x1F, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
                0 => vec![5 * u8::from(opcode == SETUP), 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
                _ => vec![0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 8],
            };
            frame.extend(extended);
            frame.resize(frame.len().next_multiple_of(4) + 12, 7);
            // Every second kind while the node has work of its own.
            let flags = ENDPOINT_FLAGS | (index as u8 % 2) << 4;
            bytes.extend([flags, (frame.len() / 4) as u8]);
            bytes.extend(frame);
        }
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// A packet of each RoCEv2 opcode, with its ICRC: the headers' fields count up.
fn write_roce(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let context = IcrcContext::new("10.0.0.1:49152".parse()?, "10.0.0.2:4791".parse()?)?;
    for (index, &opcode) in Opcode::ALL.iter().enumerate() {
        let payload_bytes = if opcode.allows_payload() { 12 - index % 4 } else { 0 };
        let mut bytes: Vec<u8> = (0..opcode.header_bytes() as u8).collect();
        bytes[0] = opcode.byte();
        bytes[1] = (index % 4 * 0x10) as u8 * u8::from(opcode.allows_payload());
        // Where AETH has its syndrome: an acknowledgement.
        if let Some(syndrome) = bytes.get_mut(12) {
            *syndrome = 0x1F;
        }
        bytes.resize(bytes.len() + payload_bytes + index % 4 * usize::from(payload_bytes > 0), 7);
        Packet::parse(&bytes)?;
        bytes.extend(context.icrc(0x1234, &bytes).to_le_bytes());
        fs::write(folder.join(opcode.name().replace(' ', "-")), bytes)?;
    }
    Ok(())
}

/// The first packets of a type; none when it is too long or cannot be emulated.
fn packets_of(format: &Description, packet: &str) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    // Some types have a payload of one size only, which the description gives.
    let made = [Some(40), None]
        .into_iter()
        .find_map(|payload| Emulator::new(format, few_packets(packet, payload)).ok());
    let Some(mut emulator) = made else { return packets };
    while let Some(emission) = emulator.next() {
        packets.push(emission.bytes.to_vec());
    }
    packets.retain(|bytes| bytes.len() <= SEED_BYTES_MAX);
    packets
}

fn write_packets(formats: &[Description], folder: &Path) -> std::io::Result<()> {
    let mut missing = BTreeSet::new();
    let mut made = BTreeSet::new();
    for format in formats {
        for packet in format.packet_types() {
            let name = format!("{}-{}", format.name(), packet.name);
            match packets_of(format, &packet.name).first() {
                Some(bytes) => {
                    fs::write(folder.join(&name), bytes)?;
                    made.insert(name);
                }
                None => {
                    missing.insert(name);
                }
            }
        }
    }
    let missing: Vec<_> = missing.difference(&made).collect();
    println!("{} packets; none of {missing:?}", made.len());
    Ok(())
}

fn write_captures(formats: &[Description], folder: &Path) -> std::io::Result<()> {
    let addresses = |text: &str| text.parse::<SocketAddr>().map_err(std::io::Error::other);
    let (from4, to4) = (addresses("10.0.0.2:6006")?, addresses("10.0.0.1:9000")?);
    let (from6, to6) = (addresses("[fe80::2]:6006")?, addresses("[fe80::1]:9000")?);
    let mut both = CaptureWriter::new(Vec::new())?;
    for format in formats.iter().filter(|format| format.name() == "counter") {
        for (index, packet) in packets_of(format, "data").iter().enumerate() {
            let (from, to) = if index % 2 == 0 { (from4, to4) } else { (from6, to6) };
            both.write(from, to, packet, Moment::from_ns(index as u64 * 1000))?;
        }
    }
    fs::write(folder.join("two-families.pcapng"), both.finish()?)?;
    for (name, big, link, tags) in [
        ("ethernet.pcap", false, 1, &[][..]),
        ("vlan-big-endian.pcap", true, 1, &[0x81, 0, 0, 5, 0x88, 0xA8, 0, 6][..]),
        ("cooked.pcap", false, 113, &[][..]),
        ("cooked-2.pcap", false, 276, &[][..]),
        ("raw-ip.pcap", false, 101, &[][..]),
        ("loopback.pcap", false, 0, &[][..]),
    ] {
        fs::write(folder.join(name), pcap(big, link, tags)?)?;
    }
    Ok(())
}

/// A pcap file: one whole datagram, and one in three IPv4 fragments that come out of order.
fn pcap(big: bool, link: u32, tags: &[u8]) -> std::io::Result<Vec<u8>> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = word(0xA1B2_C3D4).to_vec();
    for part in [half(2), half(4)] {
        out.write_all(&part)?;
    }
    for part in [0, 0, 65_535, link] {
        out.write_all(&word(part))?;
    }
    let mut udp = vec![0x17, 0x76, 0x23, 0x28, 0, 56, 0, 0];
    udp.extend(0..48_u8);
    let fragments = [
        (0, false, &udp[..]),
        (16, true, &udp[16..40]),
        (40, false, &udp[40..]),
        (0, true, &udp[..16]),
    ];
    for (index, (at, more, payload)) in fragments.into_iter().enumerate() {
        let flags = (at as u16 / 8) | if more { 0x2000 } else { 0 };
        let mut ip = vec![0x45, 0];
        ip.extend((20 + payload.len() as u16).to_be_bytes());
        ip.extend([0, if index == 0 { 1 } else { 2 }]);
        ip.extend(flags.to_be_bytes());
        ip.extend([64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        ip.extend(payload);
        let mut frame = match link {
            1 => vec![2; 12],
            113 => vec![0; 14],
            276 => [&[8, 0][..], &[0; 18]].concat(),
            0 => vec![2, 0, 0, 0],
            _ => Vec::new(),
        };
        if matches!(link, 1 | 113) {
            frame.extend(tags);
            frame.extend([8, 0]);
        }
        frame.extend(ip);
        for part in [index as u32, 5, frame.len() as u32, frame.len() as u32] {
            out.write_all(&word(part))?;
        }
        out.write_all(&frame)?;
    }
    Ok(out)
}

fn write_run(formats: &[Description], seeds: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    for (name, batches, events) in [("small", 1, 1), ("two-batches", 2, 3), ("empty", 0, 0)] {
        let folder = RunFolder::create_next(dir.path())?;
        let run = folder.path().to_path_buf();
        let mut recorder = Recorder::open(folder, RecorderConfig::default());
        for number in 0..batches {
            recorder.write(&batch(formats, number, events), Moment::from_ns(0))?;
        }
        recorder.finish()?;
        let file: PathBuf = run.join("events-000000.arrows");
        if file.exists() {
            fs::copy(file, seeds.join(format!("{name}.arrows")))?;
        }
    }
    Ok(())
}

fn batch(formats: &[Description], number: u64, events: u64) -> EventBatch {
    let mut batch = EventBatch::default();
    for event in 0..events {
        let time = Moment::from_ns(1000 * number + event);
        let missing = if event % 2 == 1 { "source 9: 1 packet" } else { "" };
        let mut packets = 0;
        for (source, name) in RUN_FORMATS.iter().enumerate() {
            let Some(format) = formats.iter().rfind(|format| format.name() == *name) else {
                continue;
            };
            let Some(bytes) = format
                .packet_types()
                .iter()
                .find_map(|packet| packets_of(format, &packet.name).into_iter().next())
            else {
                continue;
            };
            let Ok(parsed) = format.program().parse(&datagram(&bytes)) else { continue };
            batch.packets.push(PacketRow {
                source: source as u32,
                packet_type: parsed.packet,
                sequence: (event != 1).then_some(event),
                time,
                sensor_time_ns: parsed.sensor_time_ns,
                part: 0,
                payload_start: parsed.payload_start,
                payload_bytes: parsed.payload_bytes,
                bytes: bytes.len() as u32,
            });
            batch.bytes.extend(bytes);
            packets += 1;
        }
        batch.missing.push_str(missing);
        batch.events.push(EventRow {
            key: (event != 2).then_some(event),
            status: EventStatus::ALL[event as usize % EventStatus::ALL.len()],
            first: time,
            last: time,
            built: time,
            packets,
            missing_bytes: missing.len() as u32,
            ..EventRow::default()
        });
    }
    batch
}
