//! Frames of a peer gone mad, and of strangers, to a node with an open connection: nothing panics,
//! and what was not granted stays as it was.
//!
//! The input is one byte for the connection, then a row of frames: a byte of flags, a byte of
//! length in units of 4 bytes, the frame without its ICRC.

use std::net::{Ipv4Addr, SocketAddr};

use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    Fabric, Grant, Key, Local, Name, RegionId, RemoteId, Rights, Slice, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::roce::IcrcContext;
use fluxline_core::{Moment, Span};

#[allow(dead_code, reason = "shared with the endpoint's tests")]
#[path = "../../fluxline-core/tests/all/support/frames.rs"]
mod frames;

const FRAME_BYTES: usize = 1472;
const REGION_BYTES: usize = 512;
const KEY: Key = Key(7);

// Flags of a frame.
/// Its ICRC is put behind it.
const SEALED: u8 = 1;
/// Its queue pair is the connection's.
const PAIRED: u8 = 2;
/// The last byte of its PSN is counted from the first that is expected.
const NEAR: u8 = 4;
/// Its R_Key, where RETH and AtomicETH have it, is the granted region's.
const KEYED: u8 = 8;
/// The node has work of its own.
const BUSY: u8 = 16;
/// It comes from a stranger.
const STRANGER: u8 = 32;
/// Time passes: 2^n times 20 us, by the two upper bits.
const TIME_SHIFT: u32 = 6;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 4791))
}

struct Fuzzed {
    node: Node<NetworkPort>,
    peer: NetworkPort,
    stranger: NetworkPort,
    now: Moment,
    pair: u32,
    key: u32,
}

impl Fuzzed {
    fn send(&mut self, stranger: bool, sealed: bool, bytes: &[u8]) {
        let port = if stranger { &mut self.stranger } else { &mut self.peer };
        let from = port.local(address(2).ip()).expect("its own");
        let mut whole = bytes.to_vec();
        if sealed {
            let context = IcrcContext::new(from, address(2)).expect("one family");
            whole.extend(context.icrc(0, bytes).to_le_bytes());
        }
        if let Some(frame) = port.frame(address(2), whole.len()) {
            frame.bytes.copy_from_slice(&whole);
        }
        port.flush(self.now);
    }

    fn turn(&mut self) {
        self.now = self.now + Span::from_ns(20_000);
        while self.node.poll(self.now).is_some() {}
    }

    /// Returns the node's answers to a frame of its peer's.
    fn ask(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.send(false, true, bytes);
        self.turn();
        let mut answers = Vec::new();
        self.peer.receive(self.now, &mut |frame| answers.push(frame.bytes.to_vec()));
        answers
    }

    /// An open connection, made by hand, with the middle one of three regions granted.
    fn new(reliable: bool) -> Fuzzed {
        let network = Network::new();
        let port = |last| network.port(address(last), FRAME_BYTES);
        let node = Node::new(port(2), EndpointConfig::new("fuzzed", [2; 16]));
        let (peer, stranger) = (port(1), port(3));
        let mut fuzzed = Fuzzed { node, peer, stranger, now: Moment::from_ns(1), pair: 0, key: 0 };
        for name in ["low", "open", "high"] {
            let region = fuzzed.node.register(REGION_BYTES as u64).expect("memory");
            let grant = Grant { rights: Rights::ALL, key: KEY };
            let name = Name::parse(name).expect("legal");
            fuzzed.node.export(region, name, grant).expect("free");
        }
        let offer = frames::Offer { reliable, ..frames::OFFER };
        let retry = fuzzed.ask(&frames::hello(1, (5, 0), offer, 0));
        let cookie = frames::read_retry(&retry[0]);
        let accept = fuzzed.ask(&frames::hello(1, (5, cookie), offer, FRAME_BYTES));
        fuzzed.pair = frames::read_accept(&accept[0]).0;
        let imported = fuzzed.ask(&frames::import(fuzzed.pair, 1, KEY.0, "open"));
        let imported = imported.iter().find(|frame| frames::setup_kind(frame) == Some(6));
        fuzzed.key = frames::read_imported(imported.expect("an answer"));
        fuzzed
    }

    fn work(&mut self, value: u8) {
        let (node, end) = (&mut self.node, fluxline_core::fabric::EndpointId(0));
        let into = Slice { region: RegionId(1), offset: u64::from(value), bytes: 64 };
        let at = Target { remote: RemoteId(0), offset: u64::from(value) & !7 };
        let _ = node.post_receive(end, 1, into);
        let _ = match value % 4 {
            0 => node.import(end, Name::parse("theirs").expect("legal"), KEY).map_err(|_| ()),
            1 => {
                node.post(end, 2, Work::Get { from: at, into }).map(|()| at.remote).map_err(|_| ())
            }
            2 => {
                let work = Work::FetchAdd { at, add: 1 };
                node.post(end, 3, work).map(|()| at.remote).map_err(|_| ())
            }
            _ => {
                let work = Work::Send { from: Local::Bytes(&[value; 100]), complete_at: None };
                node.post(end, 4, work).map(|()| at.remote).map_err(|_| ())
            }
        };
    }

    fn frame(&mut self, flags: u8, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        if flags & PAIRED != 0 {
            put(4, &self.pair.to_be_bytes());
        }
        if flags & KEYED != 0 {
            put(20, &self.key.to_be_bytes());
        }
        if flags & NEAR != 0 {
            put(8, &[0, 0, 0]);
            if let Some(psn) = bytes.get_mut(11) {
                *psn = psn.wrapping_add(frames::OFFER.psn as u8);
            }
        }
        if flags & BUSY != 0 {
            self.work(bytes.last().copied().unwrap_or_default());
        }
        self.send(flags & STRANGER != 0, flags & SEALED != 0, &bytes);
    }
}

/// Any frames to a node with an open connection.
pub fn endpoint_frames(input: &[u8]) {
    let Some((first, mut rest)) = input.split_first() else { return };
    let mut fuzzed = Fuzzed::new(first & 1 == 0);
    while let [flags, length, frames @ ..] = rest {
        let (frame, after) = frames.split_at(frames.len().min(usize::from(*length) * 4));
        fuzzed.frame(*flags, frame);
        for _ in 0..1 << (3 * (flags >> TIME_SHIFT)) >> 3 {
            fuzzed.turn();
        }
        rest = after;
    }
    fuzzed.turn();
    for guard in [RegionId(0), RegionId(2)] {
        let mut bytes = [0; REGION_BYTES];
        fuzzed.node.memory(guard).expect("own").read(0, &mut bytes).expect("inside");
        assert!(bytes == [0; REGION_BYTES], "written where nothing was granted");
    }
}
