//! Tests of connection management: its bytes against those of Linux, and two ends over a link that
//! loses, repeats and reorders datagrams.

extern crate std;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use super::mad::{
    FRAME_BYTES, Ids, MAD_BYTES, Mad, Message, Queue, RejectReason, Rep, Req, emit_frame, gid_of,
    of_frame,
};
use super::manager::{Call, Event, Manager};
use crate::fabric::{EndpointId, Reliability};
use crate::roce::{Psn, QueuePair};
use crate::{Moment, Span};

/// A request of rping 44.0 over rdma_rxe of Linux 6.1 as it was received: the frame without ICRC,
/// up to the end of the IP addresses. Zeros follow.
const OBSERVED: &str = "\
    6400ffff000000018000000a80010000000000010107020300000000000000027954af080010000000000000\
    08af5479000000000000000001061c06505400fffe12345600000000000000000000440100000001000000a0\
    0695f9a7ffff37f0ffffffff00000000000000000000ffff0a4d000200000000000000000000ffff0a4d0001\
    0a0bd00000400098000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000004088690000000000000000000000000a4d00020000000000000000000000000a4d0001";

fn frame() -> [u8; FRAME_BYTES] {
    let text: Vec<u8> = OBSERVED.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut bytes = [0; FRAME_BYTES];
    for (into, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digits = core::str::from_utf8(digits).expect("digits");
        *into = u8::from_str_radix(digits, 16).expect("hexadecimal");
    }
    bytes
}

#[test]
fn a_request_of_linux_is_read() {
    let frame = frame();
    let mad = Mad::parse(of_frame(&frame).expect("a datagram")).expect("a request");
    assert_eq!((mad.ids, mad.transaction), (Ids { own: 0x08AF_5479, theirs: 0 }, 0x2_7954_AF08));
    let Message::Req(req) = mad.message else { panic!("a request") };
    assert_eq!((req.port, req.mtu_code), (7174, 3));
    assert_eq!((req.queue.pair.get(), req.queue.first.get()), (0x44, 0x0695F9));
    assert_eq!((req.queue.answered, req.queue.asked), (1, 1));
    assert_eq!(req.reliability, Some(Reliability::Reliable));
    assert_eq!(req.from, gid_of([10, 77, 0, 2].into()));
    assert_eq!(req.to, gid_of([10, 77, 0, 1].into()));
    assert_eq!(req.private_data, [0; 56]);
}

#[test]
fn every_message_is_read_as_it_was_written() {
    let (random, mut bytes) = (&mut Random(7), [0; MAD_BYTES]);
    for _ in 0..20_000 {
        for byte in &mut bytes {
            *byte = random.next() as u8;
        }
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, 0x10 + (random.next() % 8) as u8]);
        let Some(mad) = Mad::parse(&bytes) else { continue };
        let is_kept = match &mad.message {
            Message::Req(req) => req.reliability.is_some(),
            _ => true,
        };
        let again = Mad::parse(&mad.emit()).expect("our own");
        assert!(!is_kept || again == cleared(mad.clone()), "{mad:?} {again:?}");
    }
}

/// A request names no receiver.
fn cleared(mut mad: Mad) -> Mad {
    if matches!(mad.message, Message::Req(_)) {
        mad.ids.theirs = 0;
    }
    mad
}

#[test]
fn other_datagrams_are_not_of_connection_management() {
    let good = frame();
    for at in [0, 12, 13, 17, 19] {
        let mut frame = good;
        frame[at] ^= 0x10;
        assert!(of_frame(&frame).is_none(), "byte {at}");
    }
    for at in [20, 21, 22, 23] {
        let mut frame = good;
        frame[at] ^= 0x10;
        assert!(Mad::parse(of_frame(&frame).expect("a datagram")).is_none(), "byte {at}");
    }
    for bytes in 0..FRAME_BYTES {
        assert!(of_frame(&good[..bytes]).is_none(), "{bytes} bytes");
    }
    let mut again = [0xAA; FRAME_BYTES];
    emit_frame(of_frame(&good).expect("a datagram"), Psn::new(10), &mut again);
    again[8] = 0x80; // the bit that asks for an acknowledgement, which datagrams never get
    assert_eq!(again, good);
}

/// A small generator of random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

const PORT: u16 = 7174;

fn address(end: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, end as u8 + 1])
}

fn queue(pair: u32) -> Queue {
    Queue { pair: QueuePair::new(pair), first: Psn::new(pair ^ 0xFFFF), answered: 16, asked: 16 }
}

fn request(from: usize, pair: u32, port: u16) -> Req {
    Req {
        port,
        queue: queue(pair),
        reliability: Some(Reliability::Reliable),
        mtu_code: 3,
        from: gid_of(address(from)),
        to: gid_of(address(1 - from)),
        private_data: Vec::from(*b"hello"),
    }
}

/// A datagram on its way.
struct Flying {
    to: usize,
    at: Moment,
    mad: Box<[u8; MAD_BYTES]>,
}

/// Two ends and the link between them. End 0 calls, end 1 listens.
struct World {
    ends: [Manager; 2],
    now: Moment,
    flying: Vec<Flying>,
    random: Random,
    lost_one_in: u64,
    events: [Vec<Event>; 2],
    /// The requests that end 1 accepted, by the caller's pair.
    accepted: Vec<u32>,
}

impl World {
    fn new(seed: u64, lost_one_in: u64) -> World {
        let mut ends: [Manager; 2] = Default::default();
        ends[1].listen(PORT, 3);
        let (flying, events, accepted) = (Vec::new(), Default::default(), Vec::new());
        let (now, random) = (Moment::from_ns(1), Random(seed.wrapping_mul(0x9E37_79B9) | 1));
        World { ends, now, flying, random, lost_one_in, events, accepted }
    }

    fn call(&mut self, pair: u32, port: u16) {
        let (endpoint, own_id) = (EndpointId(pair), 1000 + pair);
        let req = request(0, pair, port);
        self.ends[0].call(self.now, Call { endpoint, own_id, peer: address(1), req });
    }

    /// Advances by 10 ms: datagrams leave, some are lost, sent twice or delayed; then they arrive.
    fn step(&mut self) {
        self.now = self.now + Span::from_ms(10);
        for end in 0..2 {
            while let Some(outgoing) = self.ends[end].next_outgoing() {
                assert_eq!(outgoing.to, address(1 - end));
                for _ in 0..=u32::from(self.random.is_one_in(5)) {
                    if self.random.is_one_in(self.lost_one_in) {
                        continue;
                    }
                    let at = self.now + Span::from_ms(self.random.next() % 300);
                    self.flying.push(Flying { to: 1 - end, at, mad: outgoing.mad.clone() });
                }
            }
        }
        let (due, rest) = self.flying.drain(..).partition(|of| of.at <= self.now);
        self.flying = rest;
        let due: Vec<Flying> = due;
        for Flying { to, mad, .. } in due {
            let random = (self.random.next() as u32).max(1);
            self.ends[to].take(self.now, address(1 - to), &mad, random);
        }
        for end in 0..2 {
            self.ends[end].on_time(self.now);
            while let Some(event) = self.ends[end].next_event() {
                self.events[end].push(event);
            }
        }
        while let Some(asked) = self.ends[1].next_asked() {
            let pair = asked.req.queue.pair.get();
            assert_eq!(asked.req.private_data[..5], *b"hello");
            self.accepted.push(pair);
            let rep = Rep { queue: queue(500 + pair), private_data: Vec::from(*b"welcome") };
            let theirs = self.ends[1].accept(self.now, asked.own_id, EndpointId(pair), rep);
            assert_eq!(theirs, Some(queue(pair)));
        }
    }
}

#[test]
fn connections_open_and_end_once_over_a_link_that_loses_repeats_and_reorders() {
    let first = crate::random::test_seed!(1);
    for seed in first..first + crate::random::test_count!(200) {
        let mut world = World::new(seed, 5);
        for pair in 1..=8 {
            world.call(pair, PORT);
        }
        for _ in 0..300 {
            world.step();
        }
        let mut accepted = world.accepted.clone();
        accepted.sort_unstable();
        assert_eq!(accepted, [1, 2, 3, 4, 5, 6, 7, 8], "seed {seed}: each request once");
        let [calls, served] = &world.events;
        assert_eq!(calls.len(), 8, "seed {seed}: {calls:?}");
        for event in calls {
            let Event::Accepted { endpoint, theirs, private_data } = event else {
                panic!("seed {seed}: {event:?}");
            };
            assert_eq!((*theirs, &private_data[..7]), (queue(500 + endpoint.0), &b"welcome"[..]));
        }
        assert_eq!(served, &[], "seed {seed}");
        // Either end leaves, and the other one hears of it.
        for pair in 1..=8 {
            world.ends[pair as usize % 2].leave(world.now, EndpointId(pair));
        }
        for _ in 0..600 {
            world.step();
        }
        for (end, events) in world.events.iter().enumerate() {
            let left = events.iter().filter(|of| matches!(of, Event::Left { .. })).count();
            assert_eq!(left, 4, "seed {seed}, end {end}: {events:?}");
        }
        for _ in 0..3000 {
            world.step();
        }
        assert_eq!(world.ends.each_ref().map(Manager::kept), [0, 0], "seed {seed}");
        assert!(world.ends.iter().all(|end| end.deadline().is_none()));
    }
}

#[test]
fn a_peer_that_dies_in_each_phase_is_given_up() {
    // Nobody answers the request.
    let mut world = World::new(3, 1);
    world.call(1, PORT);
    for _ in 0..700 {
        world.step();
    }
    let refused = Event::Refused { endpoint: EndpointId(1), reason: RejectReason::TIMEOUT };
    assert_eq!(world.events[0], [refused]);
    // The caller dies after its request: the acceptance is never confirmed.
    let mut world = World::new(3, u64::MAX);
    world.call(1, PORT);
    while world.accepted.is_empty() {
        world.step();
    }
    world.lost_one_in = 1;
    world.flying.clear();
    for _ in 0..700 {
        world.step();
    }
    assert_eq!(world.events[1], [Event::Left { endpoint: EndpointId(1) }]);
    // The program never decides.
    let mut end = Manager::default();
    end.listen(PORT, 3);
    let ids = Ids { own: 9, theirs: 0 };
    let mad = Mad { transaction: 4, ids, message: Message::Req(request(0, 1, PORT)) };
    end.take(Moment::from_ns(1), address(0), &mad.emit(), 77);
    end.on_time(Moment::from_ns(1) + Span::from_ms(10_001));
    assert!(end.next_asked().is_none());
    let answer = end.next_outgoing().expect("a rejection");
    let answer = Mad::parse(&answer.mad).expect("our own");
    assert_eq!(answer.message, Message::Rej(RejectReason::TIMEOUT));
}

/// Returns the answer to a request.
fn answer_to(end: &mut Manager, from: usize, id: u32, req: Req) -> Option<Message> {
    let ids = Ids { own: id, theirs: 0 };
    let mad = Mad { transaction: u64::from(id), ids, message: Message::Req(req) };
    end.take(Moment::from_ns(1), address(from), &mad.emit(), 5000 + id);
    let answer = Mad::parse(&end.next_outgoing()?.mad).expect("our own");
    assert_eq!((answer.ids.theirs, answer.transaction), (id, u64::from(id)));
    Some(answer.message)
}

#[test]
fn requests_that_cannot_work_are_refused_with_the_reason() {
    let mut end = Manager::default();
    end.listen(PORT, 3);
    let good = || request(0, 1, PORT);
    let mut refused = |id: u32, req: Req| answer_to(&mut end, 0, id, req);
    let rej = |reason| Some(Message::Rej(reason));
    assert_eq!(refused(1, request(0, 1, PORT + 1)), rej(RejectReason::NO_SERVICE));
    assert_eq!(refused(2, Req { mtu_code: 4, ..good() }), rej(RejectReason::PATH_MTU));
    assert_eq!(refused(3, Req { mtu_code: 0, ..good() }), rej(RejectReason::PATH_MTU));
    let from = Ipv6Addr::LOCALHOST;
    assert_eq!(refused(4, Req { from, ..good() }), rej(RejectReason::GID));
    // 16 undecided requests of one address, and no more.
    for id in 100..116 {
        assert_eq!(refused(id, good()), None);
    }
    assert_eq!(refused(116, good()), rej(RejectReason::NO_RESOURCES));
    // A repeated request is not a new one, and its sender is asked for patience.
    assert_eq!(refused(100, good()), Some(Message::Mra { time_code: 20 }));
    assert_eq!(end.refused, 5);
}

#[test]
fn random_datagrams_change_nothing_and_memory_stays_bounded() {
    let mut end = Manager::default();
    end.listen(PORT, 5);
    let mut random = Random(11);
    let mut now = Moment::from_ns(1);
    let template = Mad {
        transaction: 1,
        ids: Ids { own: 1, theirs: 0 },
        message: Message::Req(request(0, 1, PORT)),
    };
    for _ in 0..200_000 {
        let mut bytes = template.emit();
        bytes[17] = 0x10 + (random.next() % 8) as u8;
        for _ in 0..random.next() % 6 {
            bytes[random.next() as usize % MAD_BYTES] = random.next() as u8;
        }
        bytes[27] = random.next() as u8;
        end.take(now, address(random.next() as usize % 2), &bytes, random.next() as u32);
        while let Some(asked) = end.next_asked() {
            let rep = Rep { queue: queue(9), private_data: Vec::new() };
            if random.is_one_in(2) {
                end.accept(now, asked.own_id, EndpointId(1), rep);
            }
        }
        if random.is_one_in(100) {
            now = now + Span::from_ms(random.next() % 500);
            end.on_time(now);
            while end.next_event().is_some() || end.next_outgoing().is_some() {}
        }
        assert!(end.kept() < 3000, "{}", end.kept());
    }
}
