//! Wireshark shows the frames that two Fluxline ends exchange: `tools/wireshark/fluxline.lua` on a
//! capture of two nodes.
//!
//! Where tshark is missing, the test prints that and passes, unless FLUXLINE_REQUIRE_TOOLS=1.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::support::frames::{goodbye, import};
use crate::support::ports::Filter;
use crate::support::{KEY, World, address, config, put, seal};
use fluxline_core::endpoint::Node;
use fluxline_core::fabric::{Fabric, Key, Reliability};
use fluxline_core::port::Incoming;
use fluxline_core::port::network::{Network, NetworkPort};

/// A frame with its sender and receiver.
struct Seen {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

type Tape = Arc<Mutex<Vec<Seen>>>;

/// A node whose received frames are on the tape. It loses those that `keep` rejects, after that.
fn node(
    network: &Network,
    number: u8,
    tape: &Tape,
    mut keep: impl FnMut(&Incoming<'_>) -> bool + Send + 'static,
) -> Node<Filter<NetworkPort>> {
    let tape = Arc::clone(tape);
    let keep = Box::new(move |frame: &Incoming<'_>| {
        let (from, to, bytes) = (frame.from, frame.to, frame.bytes.to_vec());
        tape.lock().expect("no panic").push(Seen { from, to, bytes });
        keep(frame)
    });
    let inner = network.port(address(number), 1472);
    Node::new(Filter { inner, keep }, config(number, |_| {}))
}

/// Two nodes connect, import, write with a loss, and part.
fn conversation() -> Vec<Seen> {
    let (network, tape) = (Network::new(), Tape::default());
    let mut writes = 0;
    let losing = move |frame: &Incoming<'_>| {
        writes += u32::from(frame.bytes[0] < 0xC0);
        writes != 2 || frame.bytes[0] >= 0xC0
    };
    let nodes = vec![node(&network, 1, &tape, |_| true), node(&network, 2, &tape, losing)];
    let mut world = World::new(nodes);
    let (left, _) = world.connect((0, 1), address(2), Reliability::Reliable);
    let (_, remote) = world.share((1, 0), left, "samples", 1 << 16);
    world.nodes[0].import(left, crate::support::name("absent"), Key(9)).expect("open");
    world.run(5);
    world.post(0, left, 1, put(&[7; 20_000], remote, 0, Some(5)));
    world.done(0, 1);
    world.nodes[0].disconnect(left).expect("open");
    world.run(100);
    drop(world);
    let tape = Arc::into_inner(tape).expect("the nodes are gone");
    tape.into_inner().expect("no panic")
}

fn pcap(frames: &[Seen], path: &Path) {
    let mut bytes = Vec::new();
    // Link type 101: packets begin with the IP header.
    for word in [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        bytes.extend(word.to_le_bytes());
    }
    for (number, Seen { from, to, bytes: payload }) in frames.iter().enumerate() {
        let (IpAddr::V4(source), IpAddr::V4(target)) = (from.ip(), to.ip()) else {
            unreachable!("the addresses are of IPv4")
        };
        let udp_bytes = payload.len() as u16 + 8;
        let mut packet = vec![0x45, 0];
        packet.extend((udp_bytes + 20).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        packet.extend(source.octets().into_iter().chain(target.octets()));
        for word in [from.port(), to.port(), udp_bytes, 0] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend(payload);
        for word in [1, number as u32, packet.len() as u32, packet.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(packet);
    }
    std::fs::write(path, bytes).expect("written");
}

/// Returns true when tshark is there and reads Lua.
fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output();
    // The sentence is broken into lines anywhere.
    let words = |text: &[u8]| String::from_utf8_lossy(text).replace('\n', " ");
    let there = found.is_ok_and(|out| words(&out.stdout).contains("with Lua"));
    let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(there || !required, "`tshark --version` shows no Lua here");
    if !there {
        println!("skipped: `tshark --version` shows no Lua here");
    }
    there
}

/// Returns these fields of each frame, as tshark prints them.
fn shown(frames: &[Seen], file: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(file);
    pcap(frames, &path);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/fluxline.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(path);
    command.args(["-T", "fields", "-E", "occurrence=f"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua Error"), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('\t').map(String::from).collect()).collect();
    assert_eq!(rows.len(), frames.len(), "a line for each frame");
    rows
}

/// Reads a little-endian number of a frame, from the layout in docs/wire.md.
fn number(frame: &[u8], at: usize, bytes: usize) -> u64 {
    frame[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[test]
fn wireshark_shows_set_up_and_selective_acknowledgements_and_leaves_the_rest() {
    if !has_tshark() {
        return;
    }
    let frames = conversation();
    let fields = [
        "_ws.col.Protocol",
        "fluxline.setup",
        "fluxline.name",
        "fluxline.key",
        "fluxline.status",
        "fluxline.region_bytes",
        "fluxline.r_key",
        "fluxline.ack.expected",
        "fluxline.ack.held",
        "fluxline.credit_bytes",
        "infiniband.bth.opcode",
        "_ws.expert.message",
    ];
    let mut kinds = std::collections::BTreeSet::new();
    let mut maps = 0;
    for (frame, row) in frames.iter().zip(shown(&frames, "fluxline.pcap", &fields)) {
        let bytes = &frame.bytes;
        let cell = |name: &str| &row[fields.iter().position(|of| *of == name).expect("asked")][..];
        assert!(!cell("_ws.expert.message").contains("ends before"), "{row:?}");
        match bytes[0] {
            0xC0 => {
                assert_eq!(cell("_ws.col.Protocol"), "Fluxline", "{row:?}");
                assert_eq!(cell("fluxline.setup"), bytes[12].to_string(), "{row:?}");
                kinds.insert(bytes[12]);
            }
            0xC1 => {
                let expected = bytes[9..12].iter().fold(0, |psn, byte| psn << 8 | u32::from(*byte));
                assert_eq!(cell("fluxline.ack.expected"), expected.to_string(), "{row:?}");
                assert_eq!(cell("fluxline.credit_bytes"), number(bytes, 16, 8).to_string());
                let held = &bytes[36..36 + number(bytes, 14, 2) as usize];
                let held: String = held.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(cell("fluxline.ack.held").replace(':', ""), held, "{row:?}");
                maps += usize::from(!held.is_empty());
            }
            opcode => {
                assert_eq!(cell("infiniband.bth.opcode"), opcode.to_string(), "{row:?}");
                assert_eq!(cell("fluxline.setup"), "", "{row:?}");
            }
        }
        match bytes[12] {
            1 | 3 if bytes[0] == 0xC0 => {
                let name = if frame.from == address(1) { "node-1" } else { "node-2" };
                assert_eq!(cell("fluxline.name"), name, "{row:?}");
            }
            5 if bytes[0] == 0xC0 && cell("fluxline.name") == "samples" => {
                assert_eq!(cell("fluxline.key"), format!("{:#018x}", KEY.0), "{row:?}");
            }
            6 if bytes[0] == 0xC0 && cell("fluxline.status") == "0" => {
                assert_eq!(cell("fluxline.region_bytes"), (1 << 16).to_string(), "{row:?}");
                let r_key = format!("{:#010x}", number(bytes, 19, 4));
                assert_eq!(cell("fluxline.r_key"), r_key, "{row:?}");
            }
            _ => {}
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7, 8]);
    assert!(maps > 0, "a lost frame shows in a map");
}

#[test]
fn frames_that_are_cut_are_marked_and_crash_nothing() {
    if !has_tshark() {
        return;
    }
    let whole = [import(0x77, 1, 5, "samples"), goodbye(0x77, 3), vec![0xC1; 40]];
    let mut frames = Vec::new();
    let mut are_whole = Vec::new();
    for bytes in whole {
        for length in 0..=bytes.len() {
            let bytes = seal(&bytes[..length], address(1), address(2));
            frames.push(Seen { from: address(1), to: address(2), bytes });
            are_whole.push(length);
        }
    }
    let fields = ["fluxline.opcode", "_ws.expert.message"];
    let rows = shown(&frames, "fluxline-cut.pcap", &fields);
    let marked = rows.iter().filter(|row| row[1].contains("ends before its fields")).count();
    assert!(marked > 20, "{marked} of {}", rows.len());
    for (row, length) in rows.iter().zip(are_whole) {
        assert_eq!(row[0].is_empty(), length < 12, "{row:?}");
    }
}
