//! Frames of strangers and of a hostile peer: nothing panics, only granted memory is written, and
//! memory use stays bounded.

use std::process::Command;
use std::sync::Arc;

use crate::support::frames::{self, BASE, OFFER, SELECTIVE, SETUP};
use crate::support::{KEY, Raw, World, address, config, name, put};
use fluxline_core::endpoint::Node;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Memory, RegionId, RemoteId, Rights, Slice, Target, Work,
};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::roce::{
    Body, Headers, Opcode, Psn, QueuePair, Reth, SendPart, Transport, WritePart,
};

/// Set for the process of the test that measures memory.
const CHILD: &str = "FLUXLINE_TEST_MEMORY";

/// Returns the memory of the process \[byte\]; 0 where it cannot be read.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

const BYTES: u64 = 4096;

/// A node with a hand-made connection to the raw peer, one granted region and two others.
struct Victim {
    raw: Raw,
    world: World<NetworkPort>,
    endpoint: EndpointId,
    pair: u32,
    psn: u32,
    key: u32,
    granted: RegionId,
    guards: Vec<Arc<dyn Memory>>,
}

fn victim(reliable: bool) -> Victim {
    let network = Network::new();
    let node = Node::new(network.port(address(2), 9000), config(2, |_| {}));
    let mut raw = Raw::new(&network, address(1), address(2));
    let mut world = World::new(vec![node]);
    let mut regions = Vec::new();
    for (called, rights) in [("low", Rights::ALL), ("x", Rights::ALL), ("read", Rights::ALL)] {
        let region = world.nodes[0].register(BYTES).expect("memory");
        let grant = Grant { rights, key: KEY };
        world.nodes[0].export(region, name(called), grant).expect("free");
        regions.push(region);
    }
    let offer = frames::Offer { reliable, frame_bytes: 9000, ..OFFER };
    let mut ask = |frame: &[u8]| {
        raw.sealed(frame);
        world.turn();
        raw.received()
    };
    let cookie = frames::read_retry(&ask(&frames::hello(1, (5, 0), offer, 0))[0]);
    let accepted = ask(&frames::hello(1, (5, cookie), offer, 9000));
    let (pair, _) = frames::read_accept(&accepted[0]);
    let imported = ask(&frames::import(pair, 1, KEY.0, "x"));
    let answer = imported.iter().find(|frame| frames::setup_kind(frame) == Some(6));
    let key = frames::read_imported(answer.expect("an answer"));
    let endpoint = world.wait(0, 10, crate::support::connected);
    let guards = [regions[0], regions[2]].map(|of| world.nodes[0].memory(of).expect("own"));
    let (psn, granted, guards) = (offer.psn, regions[1], guards.to_vec());
    Victim { raw, world, endpoint, pair, psn, key, granted, guards }
}

impl Victim {
    fn assert_guarded(&self) {
        for guard in &self.guards {
            let mut bytes = [0; BYTES as usize];
            guard.read(0, &mut bytes).expect("inside");
            assert!(bytes == [0; BYTES as usize], "written where nothing was granted");
        }
    }

    fn broken(&self) -> bool {
        self.world.completions[0].iter().any(|what| matches!(what, Completion::Broken { .. }))
    }

    /// Posts work at the node, so that answers and acknowledgements find some.
    fn work(&mut self, draw: &mut Draw) {
        let node = &mut self.world.nodes[0];
        let offset = draw.below(BYTES - 100);
        let slice = Slice { region: self.granted, offset, bytes: draw.below(100) };
        let _ = node.post_receive(self.endpoint, 1, slice);
        let remote = RemoteId(0);
        let at = Target { remote, offset: offset / 8 * 8 };
        let _ = match draw.below(4) {
            0 => node.post(self.endpoint, 1, put(&[1; 100], remote, offset, Some(1))),
            1 => node.post(self.endpoint, 1, Work::Get { from: at, into: slice }),
            2 => node.post(self.endpoint, 1, Work::FetchAdd { at, add: 1 }),
            _ => node.post(self.endpoint, 1, crate::support::message(&[1; 50])),
        };
    }
}

/// Returns a frame of any kind; most fields are valid, so that it is not rejected early.
fn mad(draw: &mut Draw, victim: &Victim) -> Vec<u8> {
    let opcode = match draw.below(12) {
        0 => SETUP,
        1 | 2 => SELECTIVE,
        3 => draw.bits() as u8,
        _ => Opcode::ALL[draw.below(Opcode::ALL.len() as u64) as usize].byte(),
    };
    let mut bytes = vec![opcode, (draw.below(4) << 4) as u8 * (draw.below(3) / 2) as u8, 255, 255];
    bytes.extend(victim.pair.to_be_bytes());
    let psn = match draw.below(8) {
        0 => draw.bits() as u32,
        1 => victim.psn.wrapping_sub(draw.below(100) as u32),
        _ => victim.psn.wrapping_add(draw.below(3) as u32 * draw.below(300) as u32),
    };
    bytes.extend((psn & 0x00FF_FFFF).to_be_bytes());
    let length = BASE + [0, 4, 8, 16, 20, 28, 32, 64, 600][draw.below(9) as usize];
    while bytes.len() < length {
        bytes.push(if draw.below(2) == 0 { 0 } else { draw.bits() as u8 });
    }
    if draw.below(4) > 0 && bytes.len() >= BASE + 16 {
        // An address in the granted region, for RETH and AtomicETH.
        let offset = draw.below(BYTES + 8) & !(draw.below(2) * 7);
        bytes[BASE..BASE + 8].copy_from_slice(&offset.to_be_bytes());
        bytes[BASE + 8..BASE + 12].copy_from_slice(&victim.key.to_be_bytes());
        let wanted = [draw.below(600) as u32, draw.bits() as u32][(draw.below(8) / 7) as usize];
        bytes[BASE + 12..BASE + 16].copy_from_slice(&wanted.to_be_bytes());
    }
    if opcode == SETUP && bytes.len() > BASE {
        // Not a goodbye each time.
        bytes[BASE] = [1, 2, 3, 4, 5, 6, 8, 9][draw.below(8) as usize];
    }
    if opcode == SELECTIVE && bytes.len() >= BASE + 4 {
        bytes[BASE + 1] = [0, 0, 0xFF, draw.below(16) as u8][draw.below(4) as usize];
        bytes[BASE + 2..BASE + 4].copy_from_slice(&(draw.below(70) as u16).to_le_bytes());
    }
    bytes
}

/// `SEED` in the environment repeats one script, `COUNT` sets how many are run.
#[test]
fn a_peer_gone_mad_neither_panics_nor_writes_where_it_may_not() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(30) {
        println!("SEED={seed} COUNT=1");
        let mut draw = Draw::new(seed);
        let mut victim = victim(seed % 3 > 0);
        // The victim works on a region that it imports from the peer.
        victim.world.nodes[0].import(victim.endpoint, name("theirs"), KEY).expect("open");
        victim.world.turn();
        victim.raw.sealed(&imported(victim.pair));
        victim.world.turn();
        for _ in 0..2000 {
            let frame = mad(&mut draw, &victim);
            match draw.below(10) {
                0 => victim.raw.exactly(&frame),
                _ => victim.raw.sealed(&frame),
            }
            victim.work(&mut draw);
            if draw.below(4) == 0 {
                victim.world.turn();
                // The PSNs follow the frames that are done, so the next ones are expected.
                for answer in victim.raw.received() {
                    if answer[0] == SELECTIVE {
                        let psn = answer[8..12].try_into().expect("4 byte");
                        victim.psn = u32::from_be_bytes(psn);
                    }
                }
            }
            if victim.broken() {
                break;
            }
            victim.world.completions[0].clear();
        }
        victim.assert_guarded();
    }
}

fn imported(pair: u32) -> Vec<u8> {
    let mut bytes = vec![SETUP, 0, 255, 255];
    bytes.extend(pair.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([6, 0, 7]);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(9_u32.to_le_bytes());
    bytes.extend((1_u64 << 40).to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn random_bytes_and_cut_frames_of_strangers_do_nothing() {
    let mut draw = Draw::new(test_seed!(1));
    let mut victim = victim(true);
    let good = [
        frames::hello(1, (5, 0), OFFER, 0),
        frames::accept(9, OFFER),
        frames::goodbye(victim.pair, 7),
        frames::import(victim.pair, 1, KEY.0, "x"),
    ];
    for frame in &good {
        for cut in 1..frame.len() {
            // Cut before the ICRC is made, and after.
            if cut >= BASE {
                let kind = frame[BASE];
                let whole_enough = kind == 7 && cut >= BASE + 5 || kind == 5 && cut > BASE + 14;
                if !whole_enough {
                    victim.raw.sealed(&frame[..cut]);
                }
            }
            victim.raw.exactly(&frame[..cut]);
        }
        victim.world.turn();
    }
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..1 + draw.below(100)).map(|_| draw.bits() as u8).collect();
        if draw.below(2) == 0 {
            victim.raw.exactly(&bytes)
        } else {
            victim.raw.sealed(&bytes)
        }
        if draw.below(100) == 0 {
            victim.world.turn();
        }
    }
    victim.world.turn();
    assert_eq!(victim.world.completions[0], []);
    victim.assert_guarded();
}

/// Returns the memory of the process after many frames of one kind.
fn resident_after(victim: &mut Victim, count: u32, mut frame: impl FnMut(u32) -> Vec<u8>) -> usize {
    for number in 0..count {
        let bytes = frame(number);
        victim.raw.sealed(&bytes);
        if number % 200 == 0 {
            victim.world.turn();
            victim.world.completions[0].clear();
            victim.raw.received();
        }
    }
    resident()
}

#[test]
fn whatever_a_peer_sends_for_ever_memory_stays_bounded() {
    // It measures the memory of its process, so it has one for itself.
    if std::env::var_os(CHILD).is_none() {
        let this = std::env::current_exe().expect("a path");
        let name = "endpoint_hostile::whatever_a_peer_sends_for_ever_memory_stays_bounded";
        let mut child = Command::new(this);
        child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
        assert!(child.status().expect("it starts").success(), "see its output above");
        return;
    }
    let mut victim = victim(true);
    let (pair, psn, key) = (QueuePair::new(victim.pair), victim.psn, victim.key);
    let reth = Reth { address: 0, key, bytes: BYTES as u32 };
    let reliable = Transport::Reliable;
    let read = Body::ReadRequest(reth);
    let send = Body::Send(reliable, SendPart::Middle);
    let write = Body::Write(reliable, WritePart::Middle);
    let of = move |ahead: u32, body: Body, bytes: usize| {
        let psn = Psn::new(psn).plus(ahead);
        crate::support::bytes_of(Headers::new(pair, psn, body), &vec![1; bytes])
    };
    type Make<'a> = Box<dyn FnMut(u32) -> Vec<u8> + 'a>;
    let kinds: Vec<(&str, Make<'_>)> = vec![
        ("held", Box::new(|number| of(1 + number % 4095, write, 8900))),
        ("held, far", Box::new(|number| of(1 + number * 17, send, 8000))),
        ("reads again", Box::new(|_| of(0x00FF_FF00, read, 0))),
        ("imports", Box::new(|number| frames::import(pair.get(), number, KEY.0, "x"))),
        ("strange imports", Box::new(|number| frames::import(pair.get(), number, 1, "no"))),
        ("hellos", Box::new(|number| frames::hello(1, (u64::from(number), 1), OFFER, 0))),
        ("versions", Box::new(|number| frames::hello(7, (u64::from(number), 1), OFFER, 0))),
        ("goodbyes", Box::new(|number| frames::goodbye(number | 0x00F0_0000, 1))),
        ("nothing", Box::new(|_| of(0, Body::ReadRequest(Reth { key: 5, ..reth }), 0))),
    ];
    for (kind, mut make) in kinds {
        // The first frames fill all buffers.
        let filled = resident_after(&mut victim, 10_000, &mut make);
        let after = resident_after(&mut victim, 50_000, &mut make);
        println!("{kind}: {filled} byte, then {after}");
        assert!(after < filled + (1 << 20), "{kind}: {filled} byte, then {after}");
        assert!(after < 200 << 20, "{kind}: {after} byte");
        assert!(!victim.broken());
    }
    victim.assert_guarded();
}
