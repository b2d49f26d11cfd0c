//! Reliable, configured senders (RC) through the whole program: a full ring holds them back, lost
//! answers cost nothing, a restart loses nothing, and a sender whose retries ran out is named.

use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Instant;

use crate::board::{END, packet};
use crate::remote::{WATCHED, experiment, finish, frame, start, start_with, wait_for_frames};
use crate::support::{call, free_port, number, refused, text};
use fluxline::clock;
use fluxline::roce::endpoint_config;
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::endpoint::{Node, StaticPeer, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Level, Local, Name, PostError, Reliability, RemoteId,
    Rights, Status, Target, Work,
};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::random::test_seed;
use fluxline_core::roce::{
    Body, Headers, IcrcContext, Packet, Psn, QueuePair, Reth, Syndrome, Transport, WritePart,
};
use serde_json::Value;

const INPUT: i32 = 3;
const KEY: u32 = 77_000_077;
const PAIR: u32 = 256;
const PEER_PAIR: u32 = 0x11;
/// Near the end of all PSNs, so that they wrap.
const FIRST_PSN: u32 = 0x00FF_FFF0;
const SLOT_BYTES: u64 = 1024;

/// A source with one reliable sender, whose ring has this many slots.
fn source(from: SocketAddr, slots: u64) -> String {
    format!(
        "ring-bytes = {}\n[[source.roce.sender]]\nname = 'card'\naddress = '{from}'\n\
         queue-pair = {PAIR}\nkey = {KEY}\nreliability = 'reliable'\n\
         peer-queue-pair = {PEER_PAIR}\nfirst-psn = {FIRST_PSN}\n",
        slots * SLOT_BYTES
    )
}

/// A reliable sender that repeats what is not acknowledged.
struct Card {
    node: Node<Lossy<UdpPort>>,
    endpoint: EndpointId,
    remote: RemoteId,
    slots: u64,
    written: u64,
    done: u64,
}

impl Card {
    /// Binds `from`. It loses and doubles answers of the run by `faults`.
    fn new(from: SocketAddr, to: SocketAddr, slots: u64, faults: Faults) -> Card {
        let port = UdpPort::bind(UdpPortConfig::new(from)).expect("a free port");
        let port = Lossy::new(port, faults, test_seed!(1));
        let mut node = Node::new(port, endpoint_config("card").expect("random numbers"));
        let (rights, bytes) = (Rights::PUT, slots * SLOT_BYTES);
        let remote = StaticRemote { name: "ring".into(), key: KEY, base: 0, bytes, rights };
        let peer = StaticPeer {
            name: "run".into(),
            address: to,
            source_port: Some(to.port()),
            own_pair: QueuePair::new(PEER_PAIR),
            peer_pair: QueuePair::new(PAIR),
            reliability: Reliability::Reliable,
            peer_first: Some(Psn::new(0)),
            own_first: Psn::new(FIRST_PSN),
            path_mtu: 1024,
            regions: Vec::new(),
            remotes: vec![remote],
        };
        let endpoint = node.add_static(&peer, clock::monotonic()).expect("legal");
        let name = Name::parse("ring").expect("legal");
        let remote = node.import(endpoint, name, Key(u64::from(KEY))).expect("configured");
        Card { node, endpoint, remote, slots, written: 0, done: 0 }
    }

    fn poll(&mut self) {
        while let Some(what) = self.node.poll(clock::monotonic()) {
            match what {
                Completion::Done { status, .. } => {
                    assert_eq!(status, Status::Done);
                    self.done += 1;
                }
                Completion::Broken { status, .. } => panic!("broken: {status:?}"),
                _ => {}
            }
        }
    }

    /// Writes packets, slot after slot.
    fn write(&mut self, numbers: Range<u64>) {
        for number in numbers {
            let offset = self.written % self.slots * SLOT_BYTES;
            let (bytes, to) = (packet(number), Target { remote: self.remote, offset });
            let (from, complete_at) = (Local::Bytes(&bytes), Some(Level::Placed));
            let put = Work::Put { from, to, notify: Some(number as u32), complete_at };
            let began = Instant::now();
            while let Err(error) = self.node.post(self.endpoint, number, put) {
                assert_eq!(error, PostError::Full);
                assert!(began.elapsed() < END, "the run takes nothing");
                self.poll();
            }
            self.written += 1;
        }
    }

    /// Waits until all packets are acknowledged.
    fn finish(&mut self) {
        let began = Instant::now();
        while self.done < self.written {
            assert!(began.elapsed() < END, "{} of {}", self.done, self.written);
            self.poll();
        }
    }
}

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn assert_complete(document: &Value, records: u64, said: &str) {
    let totals = &document["totals"];
    assert_eq!(document["status"], 0, "{said}");
    assert_eq!((number(totals, "recorded"), number(totals, "records")), (records, records));
    assert_eq!((number(totals, "lost"), number(totals, "frames_lost")), (0, 0), "{said}");
    assert_eq!((number(totals, "frames_overrun"), number(totals, "socket_dropped")), (0, 0));
    assert_eq!(number(totals, "frames_expected"), records, "{said}");
    assert_eq!(number(totals, "senders_broken"), 0, "{said}");
}

#[test]
fn a_ring_of_a_few_slots_holds_a_reliable_sender_back_and_loses_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let from = free_address();
    let (running, to) = start(scratch.path(), &source(from, 8));
    let mut card = Card::new(from, to, 8, Faults::default());
    card.write(0..20_000);
    card.finish();
    let (document, said) = finish(scratch.path(), running);
    assert_complete(&document, 20_000, &said);
    let totals = &document["totals"];
    let put_off = number(totals, "frames_put_off");
    println!("{put_off} frames put off");
    assert!(put_off > 0, "{said}");
    assert_eq!(number(totals, "sender_restarts"), 0);
}

#[test]
fn answers_that_are_lost_cost_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let from = free_address();
    let (running, to) = start(scratch.path(), &source(from, 4096));
    let faults = Faults { drop: 0.3, duplicate: 0.1, reorder: 0.1, ..Faults::default() };
    let mut card = Card::new(from, to, 4096, faults);
    card.write(0..5000);
    card.finish();
    let (document, said) = finish(scratch.path(), running);
    assert_complete(&document, 5000, &said);
    assert_eq!(number(&document["totals"], "sender_restarts"), 0, "{said}");
}

#[test]
fn a_reliable_sender_that_restarts_with_the_same_numbers_loses_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let from = free_address();
    let (running, to) = start(scratch.path(), &source(from, 64));
    let mut first = 0;
    for packets in [3000, 2, 1000, 9000] {
        let mut card = Card::new(from, to, 64, Faults::default());
        card.write(first..first + packets);
        card.finish();
        first += packets;
    }
    let (document, said) = finish(scratch.path(), running);
    assert_complete(&document, 13_002, &said);
    assert_eq!(number(&document["totals"], "sender_restarts"), 3, "{said}");
}

/// A reliable sender whose frames the test makes, one by one.
struct Hand {
    socket: UdpSocket,
    to: SocketAddr,
    icrc: IcrcContext,
}

impl Hand {
    fn new(socket: UdpSocket, to: SocketAddr) -> Hand {
        let from = socket.local_addr().expect("bound");
        socket.set_read_timeout(Some(END)).expect("possible");
        Hand { socket, to, icrc: IcrcContext::new(from, to).expect("one family") }
    }

    fn send(&self, ahead: u32, key: u32, immediate: Option<u32>) {
        let address = u64::from(ahead) * SLOT_BYTES;
        let reth = Reth { address, key, bytes: 400 };
        let body = Body::Write(Transport::Reliable, WritePart::Only(reth, immediate));
        let psn = Psn::new(FIRST_PSN).plus(ahead);
        let headers = Headers::new(QueuePair::new(PAIR), psn, body);
        let bytes = frame(&self.icrc, &headers, &packet(u64::from(ahead)));
        self.socket.send_to(&bytes, self.to).expect("sent");
    }

    /// The next answer: how far behind the first its PSN is, and its syndrome.
    fn answer(&self) -> (i32, Syndrome) {
        let mut bytes = [0; 256];
        let count = self.socket.recv(&mut bytes).expect("an answer");
        let packet = Packet::parse(&bytes[..count - 4]).expect("a packet");
        let headers = packet.headers();
        assert_eq!(headers.destination, QueuePair::new(PEER_PAIR));
        let Body::Acknowledge(aeth) = headers.body else { panic!("{headers:?}") };
        (headers.psn.distance_from(Psn::new(FIRST_PSN)), aeth.syndrome)
    }
}

fn hand(slots: u64) -> (tempfile::TempDir, crate::support::Running, Hand) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let from = socket.local_addr().expect("bound");
    let (running, to) = start_with(scratch.path(), &source(from, slots), &WATCHED);
    (scratch, running, Hand::new(socket, to))
}

#[test]
fn a_sender_whose_retries_run_out_is_named_and_the_run_goes_on() {
    let (scratch, mut running, hand) = hand(64);
    hand.send(0, KEY, Some(0));
    assert!(matches!(hand.answer(), (0, Syndrome::Ack(_))));
    hand.send(2, KEY, Some(2));
    assert!(matches!(hand.answer(), (1, Syndrome::Nak(_))));
    running.wait_for("sender `card` was asked to repeat a missing frame");
    // Set up anew, it goes on from its first PSN; the content differs by the immediate.
    for ahead in [0, 1] {
        hand.send(ahead, KEY, Some(100 + ahead));
        wait_for_frames(scratch.path(), 3 + u64::from(ahead));
    }
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert!(said.contains("sender `card` was asked to repeat a missing frame"), "{said}");
    assert_eq!((number(totals, "senders_broken"), number(totals, "sender_restarts")), (1, 1));
    assert_eq!(number(totals, "records"), 3, "{said}");
    let sentence = document["sentence"].as_str().expect("status 7");
    assert!(sentence.contains("reliable senders whose retries ran out: 1"), "{sentence}");
}

#[test]
fn wrong_frames_of_a_reliable_sender_are_refused_and_each_is_counted_once() {
    let (scratch, running, hand) = hand(64);
    hand.send(0, KEY, Some(0));
    assert!(matches!(hand.answer(), (0, Syndrome::Ack(_))));
    hand.send(0, KEY, Some(0)); // repeated
    assert!(matches!(hand.answer(), (0, Syndrome::Ack(_))));
    hand.send(1, KEY, None); // a write that nobody reads
    assert!(matches!(hand.answer(), (1, Syndrome::Ack(_))));
    hand.send(2, KEY ^ 1, Some(2)); // wrong key
    assert!(matches!(hand.answer(), (2, Syndrome::Nak(_))));
    let reth = Reth { address: 0, key: KEY, bytes: 4 };
    let unreliable = Body::Write(Transport::Unreliable, WritePart::Only(reth, Some(1)));
    let psn = Psn::new(FIRST_PSN).plus(2);
    let headers = Headers::new(QueuePair::new(PAIR), psn, unreliable);
    let bytes = frame(&hand.icrc, &headers, &[0; 4]);
    hand.socket.send_to(&bytes, hand.to).expect("sent");
    let mut damaged = frame(&hand.icrc, &headers, &[0; 4]);
    damaged[20] ^= 1;
    hand.socket.send_to(&damaged, hand.to).expect("sent");
    wait_for_frames(scratch.path(), 6);
    let (document, said) = finish(scratch.path(), running);
    for (key, count) in [
        ("frames", 6),
        ("frames_placed", 2),
        ("frames_unannounced", 1),
        ("frames_duplicate", 1),
        ("frames_out_of_bounds", 1),
        ("frames_other", 1),
        ("frames_to_repeat", 1),
        ("frames_wrong_check", 0),
        ("senders_broken", 1),
        ("records", 1),
    ] {
        assert_eq!(number(&document["totals"], key), count, "{key} in {said}");
    }
    assert!(said.contains("stopped because a frame was refused"), "{said}");
}

#[test]
fn mistakes_in_the_keys_of_a_reliable_sender_are_reported_in_one_sentence() {
    let whole = source("127.0.0.1:4800".parse().expect("an address"), 64);
    let refused_with = |old: &str, new: &str| {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let file = scratch.path().join("roce.toml");
        std::fs::write(&file, experiment(&whole.replace(old, new))).expect("written");
        let folder = scratch.path().join("run");
        refused(&call(&["run", text(&file), "--folder", text(&folder)]), INPUT)
    };
    let first_psn = format!("first-psn = {FIRST_PSN}\n");
    let cases: [(String, &[&str]); 5] = [
        (refused_with("'reliable'", "'rc'"), &["rc", "reliable", "unreliable"]),
        (refused_with("peer-queue-pair = 17\n", ""), &["card", "peer-queue-pair", "acknowledge"]),
        (refused_with("peer-queue-pair = 17", "peer-queue-pair = 0"), &["peer-queue-pair = 0"]),
        (refused_with(&first_psn, ""), &["card", "first-psn", "write it"]),
        (refused_with("reliability", "relability"), &["relability", "reliability"]),
    ];
    for (message, words) in cases {
        for word in words {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
    }
}
