//! Makes the seeds of the fuzz targets: short packets of every shipped format, a capture of each
//! kind, a run file, a report, a control message and a RoCEv2 packet of each kind, all from the
//! project's own emulators and writers; examples as experiments, scenarios as they are shipped.
//!
//! Run after a format or the layout of a file has changed:
//! `cargo run -p fluxline-hostile --example seeds`. The seeds of `description_file` are the shipped
//! formats themselves. Inputs that once failed are named `found-...` and stay.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_bench::control::{Greeting, Message};
use fluxline_bench::result::{Experiment, Report, SCHEMA};
use fluxline_core::Moment;
use fluxline_core::endpoint::management::mad::{
    Ids, Mad, Message as Management, Queue, RejectReason, Rep, Req, gid_of,
};
use fluxline_core::fabric::Reliability;
use fluxline_core::random::Draw;
use fluxline_core::roce::{IcrcContext, Opcode, Packet, Psn, QueuePair};
use fluxline_daq::capture::writer::CaptureWriter;
use fluxline_daq::emulator::Emulator;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder};
use fluxline_hostile::shared::{RUN_FORMATS, datagram, few_packets, formats};
use fluxline_hostile::{TARGETS, checkpoint_seed};
use fluxline_packet::Description;
use serde_json::json;

/// Longer packets make poor seeds: mutation rarely hits what matters in them.
const SEED_BYTES_MAX: usize = 2048;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for target in TARGETS.iter().filter(|target| target.seeds.starts_with("fuzz/")) {
        empty(&seeds.join(target.name))?;
    }
    let formats = formats();
    write_packets(&formats, &seeds.join("packet_program"))?;
    write_captures(&formats, &seeds.join("capture_input"))?;
    write_run(&formats, &seeds.join("run_file"))?;
    write_roce(&seeds.join("roce_packet"))?;
    write_endpoint(&seeds.join("endpoint_frames"))?;
    write_management(&seeds.join("management_frames"))?;
    write_checkpoints(&seeds.join("checkpoint"))?;
    write_random(&seeds.join("acquisition"), 640)?;
    write_random(&seeds.join("push_ring"), 1200)?;
    write_random(&seeds.join("shm_nodes"), 600)?;
    copy_files("examples", &seeds.join("experiment_file"))?;
    write_experiments(&seeds.join("experiment_file"))?;
    copy_files("scenarios", &seeds.join("scenario_file"))?;
    write_reports(&seeds.join("report_file"))?;
    write_messages(&seeds.join("control_message"))
}

/// Writes states of builders behind some packets.
fn write_checkpoints(folder: &Path) -> std::io::Result<()> {
    for packets in [0, 1, 7, 40] {
        fs::write(folder.join(format!("packets-{packets}")), checkpoint_seed(packets))?;
    }
    Ok(())
}

/// Removes all seeds of a folder but those that were found.
fn empty(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("found-") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Copies the TOML files of a folder of the repository.
fn copy_files(from: &str, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(from);
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            fs::copy(&path, folder.join(path.file_name().ok_or("a file without a name")?))?;
        }
    }
    Ok(())
}

/// Scripts at random, for targets to which any bytes are one.
fn write_random(folder: &Path, bytes_max: u64) -> std::io::Result<()> {
    for seed in 0..32 {
        let mut draw = Draw::new(seed);
        let length = 40 + draw.below(bytes_max - 40);
        let bytes: Vec<u8> = (0..length).map(|_| draw.bits() as u8).collect();
        fs::write(folder.join(format!("random-{seed:02}")), bytes)?;
    }
    Ok(())
}

/// Every table of an experiment once, and mistakes that people make.
fn write_experiments(folder: &Path) -> std::io::Result<()> {
    let source = "[[source]]\nname = 'a'\nformat = 'counter'\n";
    let sources = [
        ("udp", "[source.udp]\nlisten = ['127.0.0.1:0']\ngro = false\non-ring-full = 'drop'\n"),
        ("shm", "[source.shm]\nurl = 'shm://group/node'\nkey = 7\n"),
        ("pcap", "[source.pcap]\nfile = ['a.pcap', 'b-*.pcap']\nspeed = 'recorded'\n"),
        ("raw", "[source.raw]\nfile = 'a.raw'\nlength-prefix = 'u16-le'\nspeed = 100.0\n"),
        ("emulator", "[source.emulator]\nsources = 3\n[source.emulator.faults]\ndrop = 0.1\n"),
        ("window", "[source.udp]\nlisten = ['127.0.0.1:0']\n[events]\nbuild = 'window'\n"),
        ("labels", "[source.udp]\nlisten = ['127.0.0.1:0']\n[events]\nrequire = ['a', 'b']\n"),
        ("two-links", "[source.raw]\nfile = 'a'\n[source.udp]\nlisten = ['127.0.0.1:0']\n"),
        ("no-link", "core = 1\n"),
        ("misspelt", "[source.udp]\nlisten = ['127.0.0.1:0']\n[events]\ntimeout_ms = 5\n"),
        ("negative", "[source.emulator]\nrate = -1.0\n"),
        ("torn", "[source.udp\n"),
    ];
    for (name, rest) in sources {
        fs::write(folder.join(format!("{name}.toml")), format!("{source}{rest}"))?;
    }
    Ok(())
}

/// A report with curves and numbers, and one that brings markup along.
fn write_reports(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for (name, text) in [("small", "load"), ("markup", "<fuzz onload=1>\u{1b}[31m")] {
        let mut experiment = Experiment::new(text, text);
        experiment.facts.push(serde_json::from_value(json!({
            "label": text, "unit": text, "samples": [1.0, 2.0, 1e300],
            "beside": [text, 1.0],
        }))?);
        experiment.series.push(serde_json::from_value(json!({
            "label": text, "x_label": "message", "x_unit": "B", "y_label": text, "y_unit": "us",
            "points": [{ "x": 1.0, "samples": [1.0, 3.0] }, { "x": 64.0, "samples": [0.0] }],
        }))?);
        let report = Report {
            schema: SCHEMA,
            link: text.to_owned(),
            command: vec![text.to_owned()],
            program: text.to_owned(),
            began_s: 1_750_000_000,
            seed: 1,
            environment: json!({ "kernel": text, "processor": { "name": text } }),
            experiments: vec![experiment],
        };
        fs::write(folder.join(format!("{name}.json")), serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(())
}

/// Each message, and an order for each kind of trial.
fn write_messages(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (value, text) = (json!({ "bytes": 64, "rate": 1e3, "seconds": 0.1 }), "a".to_owned());
    let greeting = Greeting { program: "\u{1b}[31m".to_owned(), ..Greeting::ours() };
    let begin = |trial: &str| Message::Begin {
        number: 1,
        trial: trial.to_owned(),
        parameters: value.clone(),
    };
    let messages = [
        (
            "hello",
            Message::Hello { greeting: Greeting::ours(), key: text.clone(), link: "".into() },
        ),
        ("stranger", Message::Hello { greeting, key: text.clone(), link: "".into() }),
        ("refused", Message::Refused { why: text.clone() }),
        ("begin-load", begin("load")),
        ("begin-pingpong", begin("pingpong")),
        ("call", Message::Call { service: text.clone(), parameters: value.clone() }),
        ("ready", Message::Ready),
        ("tell", Message::Tell { value: value.clone() }),
        ("finished", Message::Finished { outcome: value.clone() }),
        ("failed", Message::Failed { why: text, leaves: true }),
    ];
    for (name, message) in messages {
        fs::write(folder.join(name), serde_json::to_vec(&message)?)?;
    }
    Ok(())
}

/// Flags of the target `endpoint`: it seals a frame, and puts in queue pair, PSN and R_Key.
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

/// A conversation of each length: a request, then each other message.
fn write_management(to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let queue = Queue { pair: QueuePair::new(0x44), first: Psn::new(7), answered: 1, asked: 1 };
    let gid = |last| gid_of([10, 77, 0, last].into());
    let req = Req {
        port: 7174,
        queue,
        reliability: Some(Reliability::Reliable),
        mtu_code: 3,
        from: gid(2),
        to: gid(1),
        private_data: b"hello".to_vec(),
    };
    let reason = RejectReason::PROGRAM;
    let others = [
        ("rtu", Management::Rtu),
        ("mra", Management::Mra { time_code: 20 }),
        ("rej", Management::Rej(reason)),
        ("rep", Management::Rep(Rep { queue, private_data: b"welcome".to_vec() })),
        ("dreq", Management::Dreq(QueuePair::new(0))),
        ("drep", Management::Drep),
    ];
    let emit = |message| Mad { transaction: 1, ids: Ids { own: 9, theirs: 0 }, message }.emit();
    for (name, message) in others {
        // Flags: the program accepts; then the answer's identifiers, a repetition, and time.
        let request = emit(Management::Req(req.clone()));
        let mut bytes = [&[2][..], &request, &[0], &request, &[32], &emit(message)].concat();
        bytes.extend([5, 1, 1, 1, 1, 1, 1]);
        fs::write(to.join(name), bytes)?;
    }
    Ok(())
}
