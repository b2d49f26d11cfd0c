//! The generated dissector and dtypes, run by the programs that they are for.
//!
//! They need tshark, or a python3 with NumPy; FLUXLINE_PYTHON names another python.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use fluxline_packet::shipped::{names, shipped};
use fluxline_packet::{Description, Part, numpy, wireshark};

use crate::hand_written::{all, bytes_of};

fn load(name: &str, parameters: &[(&str, u64)]) -> Description {
    let text = shipped(name).unwrap_or_else(|| panic!("no format {name}"));
    let set: BTreeMap<String, u64> =
        parameters.iter().map(|&(name, value)| (String::from(name), value)).collect();
    Description::load(name, text, &set).unwrap_or_else(|error| panic!("{error}"))
}

fn capture(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var("FLUXLINE_SHARED").map_or(root, PathBuf::from);
    let path = root.join("captures").join(name);
    if !path.exists() {
        println!("skipped: shared/captures/{name} is not there");
    }
    path.exists().then_some(path)
}

/// A place for the files of one test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).expect("a folder for the test");
    path
}

/// Returns tshark's output for a capture; fails on any Lua error.
fn tshark(script: &Path, capture: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    let output = command.arg("-r").arg(capture).args(arguments).output().expect("tshark");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{errors}");
    for text in [&errors, &shown] {
        assert!(!text.contains("Lua Error") && !text.contains("lua_script"), "{text}");
    }
    shown
}

fn script(test: &str, description: &Description, port: u16) -> PathBuf {
    let path = folder(test).join(format!("{}.lua", description.name()));
    std::fs::write(&path, wireshark::dissector(description, port)).expect("written");
    path
}

/// A pcap file of UDP packets over IPv4 (link type 101), all to one port.
fn pcap(packets: &[Vec<u8>], port: u16) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for packet in packets {
        let length = packet.len() as u16;
        let total = u32::from(length) + 28;
        for word in [1, 0, total, total] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0x45, 0]);
        file.extend((length + 28).to_be_bytes());
        file.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3]);
        for word in [40_000, port, length + 8, 0] {
            file.extend(word.to_be_bytes());
        }
        file.extend(packet);
    }
    file
}

#[test]
#[ignore = "all: needs tshark"]
fn the_dissector_of_each_format_finds_what_the_program_finds() {
    for name in names() {
        let description = load(name, &[]);
        let script = script("hand_written", &description, 9999);
        let rows: Vec<_> = all().into_iter().filter(|row| row.format == name).collect();
        let packets: Vec<Vec<u8>> = rows.iter().map(|row| bytes_of(row.packet)).collect();
        let capture = folder("hand_written").join(format!("{name}.pcap"));
        std::fs::write(&capture, pcap(&packets, 9999)).expect("written");
        let proto = format!("fluxline_{}", name.replace('-', "_"));
        let keys = ["sequence", "event", "fragment_index", "fragment_count", "fragment_offset"];
        let mut arguments = vec!["-T".to_string(), "fields".to_string()];
        for key in keys {
            arguments.extend(["-e".to_string(), format!("{proto}.{key}")]);
        }
        arguments.extend(["-e", "_ws.col.Info", "-e", "_ws.expert.message"].map(String::from));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let shown = tshark(&script, &capture, &arguments);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), rows.len(), "{name}: {shown}");
        for (line, row) in lines.iter().zip(&rows) {
            let columns: Vec<&str> = line.split('\t').collect();
            let text = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
            let (index, count, offset) = match row.part {
                Part::Whole => (None, None, None),
                Part::Index { index, count } => (Some(index.into()), Some(count.into()), None),
                Part::Bytes { offset, .. } => (None, None, Some(offset)),
            };
            let found = [row.sequence, row.event, index, count, offset].map(text);
            assert_eq!(columns[..5], found, "{name} {}: {line}", row.kind);
            assert!(columns[5].starts_with(row.kind), "{name} {}: {line}", row.kind);
            let complaints = columns.get(6).copied().unwrap_or("");
            // Records of a payload that was filled at will may end beyond it.
            let real = complaints.split(',').filter(|one| !one.contains("record")).count();
            assert!(complaints.is_empty() || real == 0, "{name} {}: {line}", row.kind);
        }
    }
}

#[test]
#[ignore = "all: needs tshark"]
fn the_dissector_survives_packets_cut_anywhere() {
    for name in names() {
        let script = script("cut", &load(name, &[]), 9999);
        let mut packets = Vec::new();
        for row in all().into_iter().filter(|row| row.format == name) {
            let whole = bytes_of(row.packet);
            packets.extend((0..whole.len().min(80)).map(|length| whole[..length].to_vec()));
            packets.push(vec![0xFF; 120]);
        }
        let capture = folder("cut").join(format!("{name}.pcap"));
        std::fs::write(&capture, pcap(&packets, 9999)).expect("written");
        let shown = tshark(&script, &capture, &["-V"]);
        assert!(!shown.contains("[Malformed Packet"), "{name}");
    }
}

#[test]
#[ignore = "all: needs tshark"]
fn a_broken_rule_and_a_cut_packet_are_expert_information() {
    let script = script("rules", &load("srs-vmm3", &[]), 9999);
    let packets = ["00*4 564d3420 00*8", "00*4 564d3320 00*7"].map(bytes_of);
    let capture = folder("rules").join("srs.pcap");
    std::fs::write(&capture, pcap(&packets, 9999)).expect("written");
    let shown = tshark(&script, &capture, &["-T", "fields", "-e", "_ws.expert.message"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "magic must be = 0x564d33");
    assert_eq!(lines[1], "the packet ends before offset_overflow does");
}

#[test]
#[ignore = "all: needs tshark"]
fn a_real_srs_capture_shows_its_frame_counters_and_the_two_that_are_missing() {
    let capture = capture("vmm-sdat/example.pcapng");
    let Some(capture) = capture else { return };
    let script = script("srs", &load("srs-vmm3", &[]), 6006);
    let proto = "fluxline_srs_vmm3";
    let (address, field) = ("ip.src", format!("{proto}.data.frame_counter"));
    let shown = tshark(&script, &capture, &["-T", "fields", "-e", address, "-e", &field]);
    let mut sources: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in shown.lines() {
        let (address, counter) = line.split_once('\t').expect("two columns");
        sources.entry(address).or_default().push(counter.parse().expect("a number"));
    }
    // Ground truth of the capture, found by another parser: shared/captures/ground_truth.json.
    let expected = |first: u64, last: u64, missing: u64| -> Vec<u64> {
        (first..=last).filter(|&counter| counter != missing).collect()
    };
    assert_eq!(sources["10.0.0.2"], expected(11_867_938, 11_867_988, 11_867_958));
    assert_eq!(sources["10.0.0.1"], expected(11_888_171, 11_888_221, 11_888_191));
    assert_eq!(sources.len(), 2);
}

#[test]
#[ignore = "all: needs tshark"]
fn a_real_lidar_capture_shows_its_three_frames() {
    let capture = capture("ouster/OS-1-128_v2.3.0_1024x10_lb_n3.pcap");
    let Some(capture) = capture else { return };
    let script = script("ouster", &load("ouster", &[]), 7502);
    let shown = tshark(
        &script,
        &capture,
        &["-T", "fields", "-e", "fluxline_ouster.event", "-e", "fluxline_ouster.fragment_index"],
    );
    let mut frames: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        let (event, index) = line.split_once('\t').expect("two columns");
        let index = index.parse().expect("a number");
        frames.entry(event.parse().expect("a number")).or_default().insert(index);
    }
    let numbers: Vec<u64> = frames.keys().copied().collect();
    assert_eq!(numbers, [1795, 1796, 1797]);
    assert!(frames.values().all(|parts| parts.iter().copied().eq(0..64)));
}

fn python() -> String {
    std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| String::from("python3"))
}

fn run_python(test: &str, name: &str, source: &str) -> String {
    let path = folder(test).join(format!("{name}.py"));
    std::fs::write(&path, source).expect("written");
    let output = Command::new(python()).arg("-W").arg("error").arg(&path).output().expect("python");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "all: needs NumPy"]
fn the_dtypes_of_each_format_are_right_python() {
    let all: String = names()
        .map(|name| {
            let path = folder("dtypes").join(format!("{}_types.py", name.replace('-', "_")));
            std::fs::write(&path, numpy::dtypes(&load(name, &[]))).expect("written");
            format!("import {}_types\n", name.replace('-', "_"))
        })
        .collect();
    run_python("dtypes", "all", &all);
}

#[test]
#[ignore = "all: needs NumPy"]
fn dtypes_and_their_functions_read_packets_as_the_public_layouts_say() {
    let check = |format: &str, parameters: &[(&str, u64)], lines: &str| {
        let source = numpy::dtypes(&load(format, parameters));
        let tests = format!("\n\ndef hexed(text):\n    return bytes.fromhex(text)\n\n\n{lines}");
        run_python("values", format, &format!("{source}{tests}"));
    };
    check(
        "srs-vmm3",
        &[],
        "a = np.frombuffer(hexed('08c05003ffff000000014402'), data_hit_or_marker_dtype)\n\
         assert data_hit_or_marker_is_hit(a).tolist() == [1, 0]\n\
         assert data_hit_or_marker_vmm(a)[0] == 3 and data_hit_or_marker_adc(a)[0] == 5\n\
         assert data_hit_or_marker_bcid(a)[0] == 2 and data_hit_or_marker_channel(a)[0] == 63\n\
         assert data_hit_or_marker_timestamp42(a)[1] == 1026\n\
         assert data_hit_or_marker_is_trigger(a)[1] == 1\n\
         assert data_payload == slice(16, None)\n",
    );
    check(
        "dune-daqeth",
        &[],
        "a = np.frombuffer(hexed('c250400402bc3a12e803000000000000'), data_header_dtype)\n\
         assert data_header_seq_id(a)[0] == 0xABC and data_header_block_length(a)[0] == 0x123\n\
         assert data_header_stream_id(a)[0] == 129 and a['timestamp'][0] == 1000\n",
    );
    check(
        "dca1000",
        &[],
        "a = np.frombuffer(hexed('2a000000060504030201'), data_header_dtype)\n\
         assert data_header_byte_count(a)[0] == 0x010203040506\n\
         assert np.frombuffer(hexed('feff'), data_sample_dtype)['adc'][0] == -2\n",
    );
    check(
        "ouster",
        &[("pixels", 64), ("pixel_bytes", 8)],
        "assert lidar_column_dtype.itemsize == 12 + 64 * 8\n\
         assert lidar_legacy_column_dtype.itemsize == 20 + 64 * 12\n\
         assert lidar_payload == slice(32, -32)\n\
         assert imu_header_dtype['rate_z'] == np.dtype('<f4')\n",
    );
}

#[test]
fn what_a_dtype_cannot_say_is_said_in_words() {
    let vrt = numpy::dtypes(&load("vita-49-2", &[]));
    assert!(vrt.contains("# Not in the dtype: `seconds`: there only when tsi != 0."), "{vrt}");
    assert!(vrt.contains("# No slice for the payload of `data`"), "{vrt}");
    let ess = numpy::dtypes(&load("ess-readout", &[]));
    assert!(ess.contains("# No dtype for record `block`"), "{ess}");
    let spead = numpy::dtypes(&load("spead", &[]));
    assert!(spead.contains("`items`: its length differs, or it is a list"), "{spead}");
}
