//! Reliable, configured senders that write records into slots, as FPGAs and RDMA cards do: nothing
//! is lost on a bad link, a full ring holds them back, and a restart is not taken for a repetition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::frames::packets;
use crate::support::{LossyNode, Raw, World, address, bad, lossy_node, put};
use fluxline_core::endpoint::counters::ConnectionCounters;
use fluxline_core::endpoint::{RepeatReason, StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::memory::zeroed;
use fluxline_core::fabric::{
    AccessError, Completion, EndpointId, Fabric, Key, Memory, RegionId, Reliability, RemoteId,
    Rights,
};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::roce::{
    Aeth, Body, Headers, NakCode, Psn, QueuePair, Reth, Syndrome, Transport, WritePart,
};

const BASE: u64 = 0x10_0000;
const KEY: u32 = 0x0BAD_CAFE;
/// Queue pairs of the sender and of the node.
const PAIRS: [u32; 2] = [0x0011_0005, 0x00AB_C123];
const SLOT_BYTES: u64 = 64;
const SLOTS: u64 = 16;
const LAST: u32 = 0x00FF_FFFF;

/// Memory in slots, each of which is taken from its notification until the reader returns it.
struct Slots {
    words: Arc<dyn Memory>,
    taken: Vec<AtomicBool>,
}

impl Slots {
    fn new() -> Arc<Slots> {
        let taken = (0..SLOTS).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Slots { words: zeroed(SLOTS * SLOT_BYTES).expect("memory"), taken })
    }

    fn slot(&self, offset: u64) -> &AtomicBool {
        &self.taken[(offset / SLOT_BYTES) as usize]
    }

    /// Reads a record and returns its slot.
    fn read_and_free(&self, offset: u64) -> u64 {
        let value = self.words.load(offset).expect("inside");
        assert!(self.slot(offset).swap(false, Ordering::Relaxed), "read once");
        value
    }
}

impl Memory for Slots {
    fn bytes(&self) -> u64 {
        SLOTS * SLOT_BYTES
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.words.read(offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        assert!(!self.slot(offset).swap(true, Ordering::Relaxed), "an unread slot is written");
        self.words.write(offset, from)
    }

    fn admits(&self, offset: u64, bytes: u64) -> bool {
        offset.is_multiple_of(SLOT_BYTES) && bytes <= SLOT_BYTES
    }

    fn is_free(&self, offset: u64, _bytes: u64) -> bool {
        !self.slot(offset).load(Ordering::Relaxed)
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        self.words.load(offset)
    }

    fn store(&self, _: u64, _: u64) -> Result<(), AccessError> {
        Err(AccessError::Rights)
    }

    fn fetch_add(&self, _: u64, _: u64) -> Result<u64, AccessError> {
        Err(AccessError::Rights)
    }

    fn compare_swap(&self, _: u64, _: u64, _: u64) -> Result<u64, AccessError> {
        Err(AccessError::Rights)
    }
}

/// The configuration of the other end's peer at node `own`: 0 sends, 1 receives.
fn peer_of(own: usize, first: u32, region: Option<RegionId>) -> StaticPeer {
    let other = 1 - own;
    let (rights, bytes) = (Rights::PUT, SLOTS * SLOT_BYTES);
    let remote = StaticRemote { name: "ring".into(), key: KEY, base: BASE, bytes, rights };
    let granted = region.map(|region| StaticRegion { region, key: KEY, base: BASE, rights });
    StaticPeer {
        name: "peer".into(),
        address: address(other as u8 + 1),
        source_port: Some(4791),
        own_pair: QueuePair::new(PAIRS[own]),
        peer_pair: QueuePair::new(PAIRS[other]),
        reliability: Reliability::Reliable,
        peer_first: Some(Psn::new(first)),
        own_first: Psn::new(first),
        path_mtu: 1024,
        regions: granted.into_iter().collect(),
        remotes: vec![remote],
    }
}

/// A sender (node 0) and a node with slots (node 1).
struct Line {
    network: Network,
    world: World<Lossy<NetworkPort>>,
    slots: Arc<Slots>,
    sender: EndpointId,
    remote: RemoteId,
    receiver: EndpointId,
    first: u32,
    read: Vec<u64>,
}

impl Line {
    fn new(seed: u64, faults: Faults, first: u32) -> Line {
        let network = Network::new();
        let node = |number| lossy_node(&network, number, (4200, faults, seed), |_| {});
        let mut world = World::new(vec![node(1), node(2)]);
        let slots = Slots::new();
        let memory = Arc::clone(&slots) as Arc<dyn Memory>;
        let region = world.nodes[1].register_own(memory).expect("a region");
        let now = world.now;
        let receiver = world.nodes[1].add_static(&peer_of(1, first, Some(region)), now);
        let receiver = receiver.expect("legal");
        let (sender, remote) = (EndpointId(0), RemoteId(0));
        let read = Vec::new();
        let mut line = Line { network, world, slots, sender, remote, receiver, first, read };
        line.connect();
        line
    }

    /// Sets up the sender.
    fn connect(&mut self) {
        let now = self.world.now;
        self.sender =
            self.world.nodes[0].add_static(&peer_of(0, self.first, None), now).expect("legal");
        self.remote = self.world.import(0, self.sender, "ring", Key(u64::from(KEY)));
        self.world.completions.iter_mut().for_each(Vec::clear);
    }

    /// Kills the sender at once. Frames on the way arrive before it starts anew: it would take an
    /// answer to them for one to its new frames.
    fn kill(&mut self, seed: u64, faults: Faults) {
        // The old port frees its address when it is dropped, so another node comes in between.
        for number in [9, 1] {
            let node = lossy_node(&self.network, number, (4200, faults, seed), |_| {});
            self.world.nodes[0] = node;
        }
        self.world.run(1);
    }

    /// Kills the sender, and starts it anew with the same numbers.
    fn restart(&mut self, seed: u64, faults: Faults) {
        self.kill(seed, faults);
        self.connect_again();
    }

    fn connect_again(&mut self) {
        let kept = std::mem::take(&mut self.world.completions[1]);
        self.connect();
        self.world.completions[1].splice(0..0, kept);
    }

    /// Posts records `from..to`, slot after slot of this life.
    fn post(&mut self, numbers: std::ops::Range<u64>, life_began: u64) {
        for number in numbers {
            let offset = (number - life_began) % SLOTS * SLOT_BYTES;
            let work = (number + 1).to_le_bytes();
            let work = put(&work, self.remote, offset, Some(number as u32));
            self.world.post(0, self.sender, number, work);
        }
    }

    /// Reads at most `most` records that have come.
    fn take(&mut self, most: usize) {
        let completions = &mut self.world.completions[1];
        let mut left = most;
        completions.retain(|completion| {
            let Completion::Notified { offset, value, .. } = *completion else { return true };
            if left == 0 {
                return true;
            }
            left -= 1;
            let record = self.slots.read_and_free(offset);
            assert_eq!(record, u64::from(value) + 1, "whole");
            self.read.push(record - 1);
            false
        });
    }

    /// Runs until `count` records were read, reading `pace` records in a turn.
    #[track_caller]
    fn until_read(&mut self, count: usize, pace: usize) {
        let limit = self.world.now + fluxline_core::Span::from_ms(60_000);
        while self.read.len() < count {
            let (read, counters) = (self.read.len(), self.counters());
            let sent = self.world.completions[0].last();
            assert!(self.world.now < limit, "{read} of {count}: {counters:?}, {sent:?}");
            self.world.turn();
            self.take(pace);
        }
    }

    fn counters(&self) -> ConnectionCounters {
        self.world.nodes[1].connection_counters(self.receiver).expect("open").clone()
    }

    /// Each frame that came is in one place.
    fn check_books(&self) {
        let of = self.counters();
        let places = of.frames_expected
            + of.frames_duplicate
            + of.frames_ahead
            + of.frames_doubtful
            + of.frames_put_off
            + of.frames_refused
            + of.frames_empty;
        assert_eq!(of.frames_received, places, "{of:?}");
    }
}

/// Bad links on which a sender of the standard does not give up: it repeats a frame seven times.
/// On the worst links of `bad`, one in a thousand cases lost the same frame each time.
fn bearable(level: u64) -> Faults {
    let Faults { drop, corrupt, reorder, .. } = bad(level);
    let (drop, corrupt, reorder) = (drop.min(0.05), corrupt.min(0.02), reorder.min(0.1));
    Faults { drop, corrupt, reorder, ..bad(level) }
}

/// `SEED` in the environment repeats one case, `COUNT` sets how many are run.
#[test]
fn records_arrive_once_and_in_order_on_any_link_and_a_full_ring_holds_the_sender_back() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(12) {
        println!("SEED={seed} COUNT=1");
        let psn = [0, LAST - 40, 77][(seed % 3) as usize];
        let mut line = Line::new(seed, bearable(seed), psn);
        line.post(0..300, 0);
        // The readout is away, then slow, then fast.
        line.world.run(500);
        assert_eq!(line.counters().frames_expected, SLOTS, "as many as there are slots");
        assert!(line.counters().frames_put_off > 0);
        line.until_read(40, 1);
        line.until_read(300, 16);
        assert_eq!(line.read, (0..300).collect::<Vec<_>>());
        let of = line.counters();
        assert_eq!((of.frames_expected, of.restarts, of.frames_refused), (300, 0, 0), "{of:?}");
        line.check_books();
    }
}

#[test]
fn a_sender_that_restarts_loses_no_record_that_it_sends_after() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(12) {
        println!("SEED={seed} COUNT=1");
        let mut draw = Draw::new(seed);
        let psn = [0, LAST - 40, 77][(seed % 3) as usize];
        let mut line = Line::new(seed, bearable(seed), psn);
        let mut began = 0;
        for life in 0..4 {
            let records = 3 + draw.below(400);
            line.post(began..began + records, began);
            line.until_read((began + records) as usize, 4);
            began += records;
            assert_eq!(line.read, (0..began).collect::<Vec<_>>(), "life {life}");
            assert_eq!(line.counters().restarts, life, "{:?}", line.counters());
            line.check_books();
            line.restart(seed + life, bearable(seed));
        }
    }
}

#[test]
fn a_sender_that_dies_in_the_middle_and_restarts_goes_on() {
    let mut line = Line::new(1, Faults::default(), 5);
    line.post(0..100, 0);
    line.world.run(5);
    let now = line.world.now;
    let awaited = line.world.nodes[1].awaited_repeat(line.receiver).expect("the ring is full");
    assert_eq!(awaited.reason, RepeatReason::NoRoom);
    // It asks again and again until it is dead.
    assert!(now.since(awaited.heard).as_ns() < 3_000_000, "{awaited:?}");
    line.kill(2, Faults::default());
    line.world.run(4000);
    let later = line.world.nodes[1].awaited_repeat(line.receiver).expect("nobody repeats");
    assert!(line.world.now.since(later.heard).as_ns() >= 3_990_000_000, "{later:?}");
    line.take(100);
    assert_eq!(line.read, (0..SLOTS).collect::<Vec<_>>(), "what was acknowledged is there");
    line.connect_again();
    line.post(1000..1050, 1000);
    line.until_read(66, 16);
    assert_eq!(line.read[16..], (1000..1050).collect::<Vec<_>>());
    assert_eq!(line.counters().restarts, 1);
    assert_eq!(line.world.nodes[1].awaited_repeat(line.receiver), None);
    line.check_books();
}

/// A sender that the test plays, and a node with slots.
struct Played {
    raw: Raw,
    world: World<Lossy<NetworkPort>>,
    slots: Arc<Slots>,
    receiver: EndpointId,
}

impl Played {
    fn new(first: u32) -> Played {
        let network = Network::new();
        let node: LossyNode = lossy_node(&network, 2, (4200, Faults::default(), 1), |_| {});
        let raw = Raw::new(&network, address(1), address(2));
        let mut world = World::new(vec![node]);
        let slots = Slots::new();
        let memory = Arc::clone(&slots) as Arc<dyn Memory>;
        let region = world.nodes[0].register_own(memory).expect("a region");
        let now = world.now;
        let receiver = world.nodes[0].add_static(&peer_of(1, first, Some(region)), now);
        let receiver = receiver.expect("legal");
        world.turn();
        world.completions[0].clear();
        Played { raw, world, slots, receiver }
    }

    /// Sends a record with this PSN; returns the answers.
    fn send(&mut self, psn: u32, value: u64) -> Vec<(u32, Syndrome)> {
        let address = BASE + u64::from(psn) % SLOTS * SLOT_BYTES;
        self.write(psn, Reth { address, key: KEY, bytes: 8 }, value)
    }

    fn write(&mut self, psn: u32, reth: Reth, value: u64) -> Vec<(u32, Syndrome)> {
        let body = Body::Write(Transport::Reliable, WritePart::Only(reth, Some(psn)));
        let headers = Headers::new(QueuePair::new(PAIRS[1]), Psn::new(psn), body);
        self.raw.packet(headers, &value.to_le_bytes()[..reth.bytes.min(8) as usize]);
        self.world.turn();
        let answers = packets(&self.raw.received());
        let syndrome = |(headers, _): &(Headers, Vec<u8>)| match headers.body {
            Body::Acknowledge(Aeth { syndrome, .. }) => Some((headers.psn.get(), syndrome)),
            _ => None,
        };
        answers.iter().filter_map(syndrome).collect()
    }

    /// Reads all records that came.
    fn read(&mut self) -> Vec<u64> {
        // Acknowledgements may wait for the poll after the completions.
        self.world.turn();
        let slots = &self.slots;
        let completions = self.world.completions[0].drain(..);
        let read = |what| match what {
            Completion::Notified { offset, .. } => Some(slots.read_and_free(offset)),
            _ => None,
        };
        let values = completions.filter_map(read).collect();
        self.raw.received();
        values
    }

    fn counters(&self) -> &ConnectionCounters {
        self.world.nodes[0].connection_counters(self.receiver).expect("open")
    }
}

#[test]
fn an_old_number_is_acknowledged_again_only_with_its_old_content() {
    let mut played = Played::new(0);
    for psn in 0..10 {
        played.send(psn, 100 + u64::from(psn));
    }
    assert_eq!(played.read(), (100..110).collect::<Vec<_>>());
    let answers = played.send(4, 104);
    assert!(matches!(answers[..], [(9, Syndrome::Ack(_))]), "{answers:?}");
    assert_eq!(played.send(4, 204), [], "doubtful: a living sender repeats it");
    assert_eq!((played.counters().frames_duplicate, played.counters().frames_doubtful), (1, 1));
    // The expected frame shows that the numbering goes on.
    played.send(10, 110);
    assert_eq!(played.read(), [110]);
    assert_eq!(played.send(1, 200), []);
    played.send(11, 111);
    assert_eq!((played.read(), played.counters().restarts), (vec![111], 0));
    // Two in a row show a restart; the first one is asked for.
    assert_eq!(played.send(1, 301), []);
    let answers = played.send(2, 302);
    assert_eq!(answers, [(0, Syndrome::Nak(NakCode::PsnSequenceError))]);
    assert_eq!(played.counters().restarts, 1);
    for psn in 0..3 {
        played.send(psn, 300 + u64::from(psn));
    }
    assert_eq!(played.read(), [300, 301, 302]);
    // The first number with a new content shows one at once.
    let answers = played.send(0, 400);
    assert!(matches!(answers[..], [] | [(0, Syndrome::Ack(_))]), "{answers:?}");
    assert_eq!((played.read(), played.counters().restarts), (vec![400], 2));
}

#[test]
fn a_sender_that_restarts_after_one_frame_loses_neither() {
    let mut played = Played::new(LAST);
    let mut read = Vec::new();
    for life in 0..5 {
        for ahead in 0..=life % 2 {
            played.send(LAST.wrapping_add(ahead) & LAST, 10 * u64::from(life) + u64::from(ahead));
        }
        read.extend(played.read());
    }
    assert_eq!((read, played.counters().restarts), (vec![0, 10, 11, 20, 30, 31, 40], 4));
}

#[test]
fn a_restart_after_more_frames_than_are_remembered_is_noticed() {
    for frames in [8191, 8192, 8193, 20_000_u32] {
        let mut played = Played::new(3);
        for psn in 3..3 + frames {
            played.send(psn, u64::from(psn));
            played.read();
        }
        let is_remembered = frames <= 8192;
        let is_answered = !played.send(3, 9).is_empty() || !played.world.completions[0].is_empty();
        assert_eq!(is_answered, is_remembered, "{frames}");
        played.send(3, 9);
        assert_eq!((played.read(), played.counters().restarts), (vec![9], 1), "{frames}");
    }
}

#[test]
fn a_refused_record_does_not_block_the_corrected_one() {
    let mut played = Played::new(0);
    let refused = [(0, Syndrome::Nak(NakCode::RemoteAccessError))];
    let wrong = [
        Reth { address: BASE, key: KEY ^ 1, bytes: 8 },
        Reth { address: BASE - 8, key: KEY, bytes: 8 },
        Reth { address: BASE + 8, key: KEY, bytes: 8 },
    ];
    for reth in wrong {
        assert_eq!(played.write(0, reth, 1), refused, "{reth:?}");
    }
    let awaited = played.world.nodes[0].awaited_repeat(played.receiver).expect("refused");
    assert_eq!(awaited.reason, RepeatReason::Refused);
    assert_eq!(played.counters().frames_refused, 3);
    played.send(0, 7);
    assert_eq!(played.read(), [7]);
    assert_eq!(played.world.nodes[0].awaited_repeat(played.receiver), None);
}

#[test]
fn a_forged_frame_with_an_old_number_and_a_wrong_key_moves_no_number() {
    let mut played = Played::new(0);
    for psn in 0..100 {
        played.send(psn, u64::from(psn));
        played.read();
        for forged in [0, psn / 2, psn] {
            let reth = Reth { address: BASE, key: KEY ^ 1, bytes: 8 };
            assert_eq!(played.write(forged, reth, 999), [], "not answered");
        }
    }
    let of = played.counters();
    assert_eq!((of.frames_expected, of.restarts, of.frames_doubtful), (100, 0, 0), "{of:?}");
    assert_eq!(of.frames_refused, 300, "{of:?}");
}

#[test]
fn a_full_slot_is_answered_by_rnr_until_it_is_read() {
    let mut played = Played::new(0);
    for psn in 0..SLOTS as u32 {
        played.send(psn, u64::from(psn));
    }
    played.world.turn();
    played.raw.received();
    let next = SLOTS as u32;
    for _ in 0..200 {
        let answers = played.send(next, 99);
        assert!(matches!(answers[..], [(of, Syndrome::RnrNak(_))] if of == next), "{answers:?}");
        played.world.run(1);
    }
    assert_eq!(played.counters().frames_put_off, 200, "it is never given up");
    assert_eq!(played.read(), (0..SLOTS).collect::<Vec<_>>());
    assert_eq!(played.read(), [], "only the sender's repetition counts");
    played.send(next, 99);
    assert_eq!(played.read(), [99]);
}
