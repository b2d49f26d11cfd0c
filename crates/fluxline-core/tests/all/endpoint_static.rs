//! Peers that are configured and speak only the standard: go-back-N, path MTU, reads answered in
//! several frames, and refusals of the standard.

use crate::support::frames::packets;
use crate::support::script::{Joint, REGION_BYTES, run};
use crate::support::{LossyNode, Raw, World, address, bad, lossy_node, message, put};
use fluxline_core::endpoint::{StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Operation, RegionId, Reliability, RemoteId, Rights, Slice,
    Status, Target, Work,
};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::random::{test_count, test_seed};
use fluxline_core::roce::{
    Aeth, AtomicEth, Body, Headers, Msn, NakCode, Psn, QueuePair, ReadPart, Reth, SendPart,
    Syndrome, Transport, WritePart,
};

const BASE: u64 = 0x7F00_0000_1000;
const KEY: u32 = 0xABCD_0123;
const PAIRS: [u32; 2] = [0x0011_0005, 0x0022_0006];
const LAST: u32 = 0x00FF_FFFF;

/// Returns the configuration of the other node's peer at node `own` (0 or 1).
fn peer_of(
    own: usize,
    (reliability, path_mtu): (Reliability, usize),
    first: [u32; 2],
    region: Option<RegionId>,
) -> StaticPeer {
    let other = 1 - own;
    let rights = Rights::ALL;
    let remote = StaticRemote { name: "x".into(), key: KEY, base: BASE, bytes: 1 << 20, rights };
    StaticPeer {
        name: format!("peer-{other}"),
        address: address(other as u8 + 1),
        source_port: Some(4791),
        own_pair: QueuePair::new(PAIRS[own]),
        peer_pair: QueuePair::new(PAIRS[other]),
        reliability,
        peer_first: Some(Psn::new(first[other])),
        own_first: Psn::new(first[own]),
        path_mtu,
        regions: region
            .map(|region| StaticRegion { region, key: KEY, base: BASE, rights })
            .into_iter()
            .collect(),
        remotes: vec![remote],
    }
}

struct Pair {
    world: World<Lossy<NetworkPort>>,
    joint: Joint,
}

/// Node 0 works on a region of node 1's.
fn static_pair(
    seed: u64,
    kind: (Reliability, usize),
    faults: Faults,
    first: [u32; 2],
    bytes: u64,
) -> Pair {
    let network = Network::new();
    let node = |number| lossy_node(&network, number, (4200, faults, seed), |_| {});
    let mut world = World::new(vec![node(1), node(2)]);
    let region = world.nodes[1].register(bytes).expect("memory");
    let now = world.now;
    let left = world.nodes[0].add_static(&peer_of(0, kind, first, None), now).expect("legal");
    let right =
        world.nodes[1].add_static(&peer_of(1, kind, first, Some(region)), now).expect("legal");
    let remote = world.import(0, left, "x", Key(u64::from(KEY)));
    world.turn();
    world.completions.iter_mut().for_each(Vec::clear);
    Pair { world, joint: Joint { left: (0, left), right: (1, right), region, remote } }
}

/// `SEED` in the environment repeats one script, `COUNT` sets how many are run.
#[test]
fn scripts_on_static_connections_do_what_plain_memory_does() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(15) {
        println!("SEED={seed} COUNT=1");
        let path_mtu = [256, 512, 1024, 2048, 4096][(seed % 5) as usize];
        let firsts = [[LAST - 200, LAST], [0, 0], [5, 0x0080_0000]][(seed / 5 % 3) as usize];
        let kind = (Reliability::Reliable, path_mtu);
        let mut pair = static_pair(seed, kind, bad(seed), firsts, REGION_BYTES);
        run(&mut pair.world, pair.joint, seed, true);
    }
}

#[test]
fn scripts_on_unreliable_static_connections_do_what_plain_memory_does() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(10) {
        println!("SEED={seed} COUNT=1");
        let path_mtu = [256, 512, 1024, 2048, 4096][(seed % 5) as usize];
        let kind = (Reliability::Unreliable, path_mtu);
        let firsts = [LAST - 50, LAST];
        let mut pair = static_pair(seed, kind, Faults::default(), firsts, REGION_BYTES);
        give_many(&mut pair);
        run_unreliable(&mut pair, seed);
    }
}

/// Posts buffers first: on an unreliable connection a message without a buffer is lost.
fn give_many(pair: &mut Pair) {
    let inbox = pair.world.nodes[1].register(64 * 3000).expect("memory");
    for tag in 0..64 {
        let slice = Slice { region: inbox, offset: tag * 3000, bytes: 3000 };
        pair.world.nodes[1].post_receive(pair.joint.right.1, tag, slice).expect("room");
    }
}

fn run_unreliable(pair: &mut Pair, seed: u64) {
    let mut draw = fluxline_core::random::Draw::new(seed);
    let Pair { world, joint } = pair;
    let mut model = vec![0; REGION_BYTES as usize];
    let mut notified = Vec::new();
    for tag in 0..64 {
        let offset = draw.below(REGION_BYTES - 8);
        let bytes = draw.below((REGION_BYTES - offset).min(6000) + 1);
        let data: Vec<u8> = (0..bytes).map(|_| draw.bits() as u8).collect();
        let notify = (draw.below(2) == 0).then_some(tag as u32);
        world.post(0, joint.left.1, tag, put(&data, joint.remote, offset, notify));
        model[offset as usize..][..data.len()].copy_from_slice(&data);
        notified.extend(notify.map(|value| (offset, bytes, value)));
        world.post(0, joint.left.1, 1000 + tag, message(&data[..data.len().min(3000)]));
    }
    for tag in 0..64 {
        assert_eq!(world.done(0, tag), (Operation::Put, Status::Done, 0));
        assert_eq!(world.done(0, 1000 + tag), (Operation::Send, Status::Done, 0));
    }
    world.run(2);
    let completions = world.completions[1].iter().filter_map(|what| match *what {
        Completion::Notified { offset, bytes, value, .. } => Some((offset, bytes, value)),
        _ => None,
    });
    assert_eq!(completions.collect::<Vec<_>>(), notified);
    assert_eq!(crate::support::tags(&world.completions[1]).len(), 64, "{:?}", world.completions[1]);
    assert!(world.bytes(1, joint.region, 0, REGION_BYTES as usize) == model);
    let counters = world.nodes[1].connection_counters(joint.right.1).expect("open");
    assert_eq!((counters.frames_lost, counters.frames_duplicate), (0, 0));
}

#[test]
fn a_wrong_key_on_a_static_connection_ends_it_as_the_standard_says() {
    let kind = (Reliability::Reliable, 1024);
    let mut pair = static_pair(1, kind, Faults::default(), [0, 0], 4096);
    // The configured size is larger than the region, which only the owner knows.
    let Pair { world, joint } = &mut pair;
    world.post(0, joint.left.1, 1, put(&[1; 100], joint.remote, 4090, Some(1)));
    world.post(0, joint.left.1, 2, put(&[1; 100], joint.remote, 0, Some(1)));
    assert_eq!(world.broken(0, joint.left.1, 100), Status::Rights);
    assert_eq!(
        crate::support::tags(&world.completions[0]),
        [(1, Status::Flushed), (2, Status::Flushed)]
    );
    assert_eq!(world.bytes(1, joint.region, 0, 4096), [0; 4096]);
}

/// A raw requester at address 1 against a node at address 2 that is configured for it.
struct RawTo {
    raw: Raw,
    node: World<Lossy<NetworkPort>>,
    endpoint: EndpointId,
    region: RegionId,
    psn: u32,
}

impl RawTo {
    fn new(kind: (Reliability, usize), first: u32, bytes: u64) -> RawTo {
        let network = Network::new();
        let node: LossyNode = lossy_node(&network, 2, (4200, Faults::default(), 1), |_| {});
        let raw = Raw::new(&network, address(1), address(2));
        let mut node = World::new(vec![node]);
        let region = node.nodes[0].register(bytes).expect("memory");
        let now = node.now;
        let peer = peer_of(1, kind, [first, 500], Some(region));
        let endpoint = node.nodes[0].add_static(&peer, now).expect("legal");
        node.turn();
        node.completions[0].clear();
        RawTo { raw, node, endpoint, region, psn: first }
    }

    fn headers(&self, ahead: u32, body: Body) -> Headers {
        let psn = Psn::new(self.psn.wrapping_add(ahead));
        let mut headers = Headers::new(QueuePair::new(PAIRS[1]), psn, body);
        headers.acknowledge_request = true;
        headers
    }

    fn ask(&mut self, ahead: u32, body: Body, payload: &[u8]) -> Vec<(Headers, Vec<u8>)> {
        let headers = self.headers(ahead, body);
        self.raw.packet(headers, payload);
        self.answers()
    }

    fn answers(&mut self) -> Vec<(Headers, Vec<u8>)> {
        self.node.turn();
        packets(&self.raw.received())
    }
}

fn reth(offset: u64, bytes: u32) -> Reth {
    Reth { address: BASE + offset, key: KEY, bytes }
}

/// Returns the syndromes of the acknowledgements among packets.
fn syndromes(answers: &[(Headers, Vec<u8>)]) -> Vec<(u32, Syndrome)> {
    let syndrome = |(headers, _): &(Headers, Vec<u8>)| match headers.body {
        Body::Acknowledge(Aeth { syndrome, .. }) => Some((headers.psn.get(), syndrome)),
        _ => None,
    };
    answers.iter().filter_map(syndrome).collect()
}

#[test]
fn a_read_of_many_frames_is_answered_in_as_many_and_counts_as_many_numbers() {
    for (path_mtu, bytes) in [(256, 1000_u32), (1024, 1024), (1024, 1025), (256, 200_000)] {
        let mut to = RawTo::new((Reliability::Reliable, path_mtu), LAST - 1, 1 << 20);
        let data: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 256) as u8).collect();
        to.node.nodes[0].memory(to.region).expect("own").write(64, &data).expect("inside");
        let mut answers = to.ask(0, Body::ReadRequest(reth(64, bytes)), &[]);
        for _ in 0..5 {
            answers.extend(to.answers());
        }
        let parts: Vec<_> = answers
            .iter()
            .filter(|(headers, _)| matches!(headers.body, Body::ReadResponse(_)))
            .collect();
        let frames = bytes.div_ceil(path_mtu as u32);
        assert_eq!(parts.len() as u32, frames);
        let mut found = Vec::new();
        for (number, (headers, payload)) in parts.iter().enumerate() {
            assert_eq!(headers.psn, Psn::new(LAST - 1).plus(number as u32));
            let Body::ReadResponse(part) = headers.body else { unreachable!() };
            let (first, last) = (number == 0, number as u32 + 1 == frames);
            let right = match part {
                ReadPart::Only(_) => first && last,
                ReadPart::First(_) => first && !last,
                ReadPart::Middle => !first && !last,
                ReadPart::Last(_) => !first && last,
            };
            assert!(right, "{part:?} is number {number} of {frames}");
            found.extend_from_slice(payload);
        }
        assert!(found == data);
        // The next request has the number after the last answer. The one before is requested again
        // from its middle.
        let write = Body::Write(Transport::Reliable, WritePart::Only(reth(0, 4), None));
        let answers = to.ask(frames, write, &[9; 4]);
        assert!(matches!(syndromes(&answers)[..], [(_, Syndrome::Ack(_))]), "{answers:?}");
        assert_eq!(to.node.bytes(0, to.region, 0, 4), [9; 4]);
        let rest = bytes - path_mtu as u32 * (frames - 1);
        let again = Body::ReadRequest(reth(64 + u64::from(bytes - rest), rest));
        let answers = to.ask(frames - 1, again, &[]);
        assert!(answers.iter().any(|(headers, payload)| {
            matches!(headers.body, Body::ReadResponse(ReadPart::Only(_)))
                && *payload == data[(bytes - rest) as usize..]
        }));
    }
}

#[test]
fn a_gap_is_refused_with_the_number_that_is_missing_and_nothing_after_it_is_done() {
    let mut to = RawTo::new((Reliability::Reliable, 1024), LAST, 4096);
    let write = |offset| Body::Write(Transport::Reliable, WritePart::Only(reth(offset, 4), None));
    let nak = Syndrome::Nak(NakCode::PsnSequenceError);
    let answers = to.ask(1, write(4), &[2; 4]);
    assert!(syndromes(&answers).contains(&(LAST, nak)), "{answers:?}");
    let answers = to.ask(2, write(8), &[3; 4]);
    assert!(!syndromes(&answers).iter().any(|(_, of)| *of == nak), "reported once: {answers:?}");
    assert_eq!(to.node.bytes(0, to.region, 0, 12), [0; 12]);
    for (ahead, value) in [(0, 1), (1, 2), (2, 3)] {
        to.ask(ahead, write(u64::from(ahead) * 4), &[value; 4]);
    }
    assert_eq!(to.node.bytes(0, to.region, 0, 12), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    let answers = to.ask(4, write(0), &[7; 4]);
    assert!(syndromes(&answers).contains(&(2, nak)), "the next gap is reported again: {answers:?}");
}

#[test]
fn a_refusal_that_was_lost_is_told_again() {
    let mut to = RawTo::new((Reliability::Reliable, 1024), 7, 4096);
    let wrong = Body::Write(Transport::Reliable, WritePart::Only(reth(4094, 4), None));
    let nak = (7, Syndrome::Nak(NakCode::RemoteAccessError));
    for _ in 0..3 {
        let answers = to.ask(0, wrong, &[2; 4]);
        assert!(syndromes(&answers).contains(&nak), "{answers:?}");
    }
}

#[test]
fn a_message_before_its_buffer_is_put_off_each_time_that_it_comes() {
    let mut to = RawTo::new((Reliability::Reliable, 1024), 7, 4096);
    let send = Body::Send(Transport::Reliable, SendPart::Only(None));
    for _ in 0..3 {
        let answers = to.ask(0, send, &[5; 9]);
        let off = syndromes(&answers);
        assert!(off.iter().any(|of| matches!(of, (7, Syndrome::RnrNak(_)))), "{answers:?}");
        assert!(to.node.completions[0].is_empty());
    }
    // Later frames are dropped without a report: their sender knows.
    let answers = to.ask(1, send, &[6; 9]);
    let nak = Syndrome::Nak(NakCode::PsnSequenceError);
    assert!(!syndromes(&answers).iter().any(|(_, of)| *of == nak), "{answers:?}");
    let slice = Slice { region: to.region, offset: 0, bytes: 100 };
    to.node.nodes[0].post_receive(to.endpoint, 3, slice).expect("room");
    to.ask(0, send, &[5; 9]);
    assert_eq!(crate::support::tags(&to.node.completions[0]), [(3, Status::Done)]);
    assert_eq!(to.node.bytes(0, to.region, 0, 10), [5, 5, 5, 5, 5, 5, 5, 5, 5, 0]);
}

#[test]
fn a_repeated_atomic_is_answered_as_before_and_not_done_twice() {
    let mut to = RawTo::new((Reliability::Reliable, 1024), LAST, 4096);
    let add = AtomicEth { address: BASE + 8, key: KEY, swap_or_add: 5, compare: 0 };
    for _ in 0..3 {
        let answers = to.ask(0, Body::FetchAdd(add), &[]);
        let words = answers.iter().filter_map(|(headers, _)| match headers.body {
            Body::AtomicAcknowledge(_, ack) => Some((headers.psn.get(), ack.original)),
            _ => None,
        });
        assert_eq!(words.collect::<Vec<_>>(), [(LAST, 0)]);
    }
    let memory = to.node.nodes[0].memory(to.region).expect("own");
    assert_eq!(memory.load(8), Ok(5));
}

/// A node that sends requests to a static peer, which the test plays.
struct RawFrom {
    raw: Raw,
    world: World<Lossy<NetworkPort>>,
    endpoint: EndpointId,
    /// The peer's region.
    remote: RemoteId,
}

fn raw_from() -> RawFrom {
    let network = Network::new();
    let node: LossyNode = lossy_node(&network, 1, (4200, Faults::default(), 1), |_| {});
    let raw = Raw::new(&network, address(2), address(1));
    let mut world = World::new(vec![node]);
    let now = world.now;
    let kind = (Reliability::Reliable, 256);
    let endpoint = world.nodes[0].add_static(&peer_of(0, kind, [0, 9], None), now).expect("legal");
    let remote = world.import(0, endpoint, "x", Key(u64::from(KEY)));
    RawFrom { raw, world, endpoint, remote }
}

/// A responder that acknowledges only when it is asked to, as hardware may.
#[test]
fn a_peer_that_acknowledges_only_when_asked_is_not_stalled_by_a_small_window() {
    let RawFrom { mut raw, mut world, endpoint, remote } = raw_from();
    // Congestion notifications shrink the window to its minimum.
    for _ in 0..20 {
        raw.packet(Headers::congestion_notification(QueuePair::new(PAIRS[0])), &[]);
    }
    world.turn();
    let data = vec![7; 256 * 200];
    world.post(0, endpoint, 1, put(&data, remote, 0, None));
    let (began, mut next) = (world.now, Psn::new(0));
    while crate::support::tags(&world.completions[0]).is_empty() {
        world.turn();
        let mut asked = false;
        for (headers, _) in packets(&raw.received()) {
            if headers.psn == next {
                next = next.plus(1);
                asked |= headers.acknowledge_request;
            }
        }
        if asked {
            let credits = fluxline_core::roce::CreditCode::UNLIMITED;
            let aeth = Aeth { syndrome: Syndrome::Ack(credits), msn: Msn::new(1) };
            let to = QueuePair::new(PAIRS[0]);
            raw.packet(Headers::new(to, next.minus(1), Body::Acknowledge(aeth)), &[]);
        }
        let took = world.now.since(began).as_ns() / 1000;
        assert!(took < 30_000, "{} of 200 frames in {took} us", next.get());
    }
}

#[test]
fn an_answer_to_nothing_that_was_asked_changes_nothing() {
    let RawFrom { mut raw, mut world, endpoint, remote } = raw_from();
    let own = world.nodes[0].register(64).expect("memory");
    let into = Slice { region: own, offset: 0, bytes: 64 };
    world.post(0, endpoint, 1, Work::Get { from: Target { remote, offset: 0 }, into });
    world.turn();
    world.completions[0].clear();
    let to = QueuePair::new(PAIRS[0]);
    let aeth = |syndrome| Aeth { syndrome, msn: Msn::new(1) };
    let ack = Syndrome::Ack(fluxline_core::roce::CreditCode::UNLIMITED);
    for psn in [1, 77, LAST] {
        let psn = Psn::new(psn);
        let only = Body::ReadResponse(ReadPart::Only(aeth(ack)));
        raw.packet(Headers::new(to, psn, only), &[1; 64]);
        for code in [NakCode::RemoteAccessError, NakCode::PsnSequenceError] {
            let body = Body::Acknowledge(aeth(Syndrome::Nak(code)));
            raw.packet(Headers::new(to, psn, body), &[]);
        }
        raw.packet(Headers::new(to, psn, Body::Acknowledge(aeth(ack))), &[]);
    }
    // An answer with the right number and the wrong length.
    let only = Body::ReadResponse(ReadPart::Only(aeth(ack)));
    raw.packet(Headers::new(to, Psn::new(0), only), &[1; 63]);
    world.run(1);
    assert_eq!(world.completions[0], []);
    assert_eq!(world.bytes(0, own, 0, 64), [0; 64]);
    raw.packet(Headers::new(to, Psn::new(0), only), &[3; 64]);
    world.run(1);
    assert_eq!(crate::support::tags(&world.completions[0]), [(1, Status::Done)]);
    assert_eq!(world.bytes(0, own, 0, 64), [3; 64]);
}
