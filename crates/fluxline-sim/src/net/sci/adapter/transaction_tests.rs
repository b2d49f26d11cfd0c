//! Requesters and responders on a plain link that loses packets and echoes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::Ids;
use super::requester::{Outcome, Request, Requester, TRANSACTIONS, Ticket, Times};
use super::responder::{Responder, Space};
use super::wire::PlainWire;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, Report, SendId};
use crate::fabric::adapter::Repeat;
use crate::net::plain;
use crate::net::sci::packet::Lock;
use crate::net::sci::{Command, NodeId, Packet, Status};
use crate::{Agenda, Duration, Instant};
use fluxline_core::random::{Draw, test_seed};

/// The delay of the link.
const DELAY: Duration = Duration::from_ns(300);

/// Words, and how often each was locked.
#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Space for Words {
    fn write(&mut self, _: NodeId, offset: u64, data: &[u8]) -> Result<(), Status> {
        if offset >= 1 << 40 {
            return Err(Status::Address);
        }
        for (place, word) in (offset..).step_by(8).zip(data.chunks_exact(8)) {
            self.0.insert(place, u64::from_le_bytes(word.try_into().expect("8 of them")));
        }
        Ok(())
    }

    fn read(&mut self, _: NodeId, offset: u64, into: &mut [u8]) -> Result<usize, Status> {
        for (place, word) in (offset..).step_by(8).zip(into.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.0.get(&place).copied().unwrap_or(0).to_le_bytes());
        }
        Ok(into.len())
    }

    fn lock(
        &mut self,
        _: NodeId,
        offset: u64,
        kind: Lock,
        arguments: [u64; 2],
    ) -> Result<u64, Status> {
        assert_eq!(kind, Lock::FetchAdd);
        let word = self.0.entry(offset).or_default();
        let before = *word;
        *word += arguments[0];
        Ok(before)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Link(plain::Entry),
    Timer(usize),
}

impl From<plain::Entry> for Entry {
    fn from(entry: plain::Entry) -> Entry {
        Entry::Link(entry)
    }
}

/// Nodes that ask each other; 0 also answers.
struct Bench {
    agenda: Agenda<Entry>,
    link: PlainWire,
    requesters: Vec<Requester>,
    responders: Vec<Responder>,
    memory: Words,
    /// For when the timer of each node is on the agenda.
    armed: [Option<Instant>; 3],
    sends: BTreeMap<SendId, (usize, Option<u8>)>,
    ended: Vec<(usize, Ticket, Outcome)>,
}

impl Bench {
    fn new(loss: f64, seed: u64) -> Bench {
        let ids: Vec<NodeId> = (0..3).map(NodeId).collect();
        let requester = |&id: &NodeId| Requester::new(id, Times::default());
        Bench {
            agenda: Agenda::default(),
            link: PlainWire::new(&Arc::new(Ids::new(ids.clone())), DELAY, loss, seed),
            requesters: ids.iter().map(requester).collect(),
            responders: ids.iter().map(|_| Responder::default()).collect(),
            memory: Words::default(),
            armed: [None; 3],
            sends: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn ask(&mut self, node: usize, ticket: u64, request: Request) -> Result<(), Request> {
        let now = self.agenda.now();
        self.requesters[node].begin(now, Ticket(ticket), request)?;
        self.flush(node);
        Ok(())
    }

    fn send(&mut self, node: usize, id: Option<u8>, packet: Packet) {
        let sent = self.link.send(node as u32, packet, &mut self.agenda);
        let send = sent.expect("a plain link takes every packet");
        self.sends.insert(send, (node, id));
    }

    fn flush(&mut self, node: usize) {
        while let Some((id, packet)) = self.requesters[node].next_packet() {
            self.send(node, Some(id), packet);
        }
        let due = self.requesters[node].deadline();
        if let Some(at) = due.filter(|&at| self.armed[node].is_none_or(|armed| at < armed)) {
            self.armed[node] = Some(at);
            self.agenda.schedule(at, Entry::Timer(node));
        }
    }

    fn received(&mut self, node: usize) {
        while let Some(packet) = self.link.take(node as u32, Class::Request, &mut self.agenda) {
            if let Some(answer) = self.responders[node].handle(&packet, &mut self.memory) {
                self.send(node, None, answer);
            }
        }
        while let Some(packet) = self.link.take(node as u32, Class::Response, &mut self.agenda) {
            let ended = self.requesters[node].answered(self.agenda.now(), packet);
            self.ended.extend(ended.map(|(ticket, outcome)| (node, ticket, outcome)));
        }
    }

    /// Runs until nothing is due any more, or until a moment.
    fn run(&mut self, until: Instant) {
        while let Some(entry) = self.agenda.take(until) {
            let now = self.agenda.now();
            match entry {
                Entry::Link(entry) => self.link.handle(entry, &mut self.agenda),
                Entry::Timer(node) => {
                    self.armed[node] = None;
                    let ended = self.requesters[node].expire(now);
                    self.ended.extend(ended.into_iter().map(|(of, how)| (node, of, how)));
                }
            }
            while let Some(report) = self.link.next_report() {
                let (node, send, echoed) = match report {
                    Report::Received { node, .. } => {
                        self.received(node as usize);
                        continue;
                    }
                    Report::Space { .. } | Report::Dropped { .. } => continue,
                    Report::Done { node, send } => (node, send, true),
                    Report::Lost { node, send } => (node, send, false),
                };
                let Some((_, Some(id))) = self.sends.remove(&send) else { continue };
                let node = node as usize;
                let requester = &mut self.requesters[node];
                let ended =
                    if echoed { requester.echoed(now, id) } else { requester.lost(now, id) };
                self.ended.extend(ended.map(|(ticket, outcome)| (node, ticket, outcome)));
            }
            (0..self.requesters.len()).for_each(|node| self.flush(node));
        }
    }
}

fn request(command: Command, offset: u64, data: Vec<u8>, repeat: Repeat) -> Request {
    Request { target: NodeId(0), command, offset, data, repeat }
}

fn add(offset: u64, add: u64) -> Request {
    let data = [add.to_le_bytes(), [0; 8]].concat();
    request(Command::Lock(Lock::FetchAdd), offset, data, Repeat::Yes)
}

#[test]
fn each_lock_is_done_once_however_many_packets_and_echoes_are_lost() {
    let seed = test_seed!(1);
    for loss in [0.0, 0.05, 0.3, 0.6] {
        let mut bench = Bench::new(loss, seed);
        let mut left = [300_u64; 2];
        for step in 0.. {
            for node in [1, 2] {
                let of = &mut left[node - 1];
                if *of > 0 && bench.ask(node, *of, add(64, 1)).is_ok() {
                    *of -= 1;
                }
            }
            bench.run(Instant::START + Duration::from_ns(700).times(step));
            if left == [0, 0] {
                break;
            }
        }
        bench.run(Instant::NEVER);
        let mut before: Vec<u64> = bench
            .ended
            .iter()
            .map(|(_, _, outcome)| match outcome {
                Outcome::Answered(Status::Normal, data) => {
                    u64::from_le_bytes(data[..8].try_into().expect("a word"))
                }
                other => panic!("loss {loss}: {other:?}"),
            })
            .collect();
        before.sort_unstable();
        assert_eq!(before, (0..600).collect::<Vec<u64>>(), "loss {loss}: each value once");
        assert_eq!(bench.memory.0[&64], 600);
        let again = bench.responders[0].counts().locks_again;
        assert_eq!(again > 0, loss > 0.0, "loss {loss}: {again} locks came again");
    }
}

#[test]
fn the_last_of_writes_to_one_place_stays_when_each_is_begun_after_the_one_before() {
    let seed = test_seed!(1);
    let mut draw = Draw::new(seed);
    let mut bench = Bench::new(0.4, seed);
    for round in 1..=200_u64 {
        let (node, bytes) = (1 + draw.below(2) as usize, round.to_le_bytes().repeat(8));
        let write = request(Command::Write64, 128, bytes, Repeat::Yes);
        bench.ask(node, round, write).expect("an id is free");
        while !bench.ended.iter().any(|of| of.1 == Ticket(round)) {
            let next = bench.agenda.next_at().expect("something is due");
            bench.run(next);
        }
        let words: Vec<u64> = (0..8).map(|word| bench.memory.0[&(128 + word * 8)]).collect();
        assert_eq!(words, [round; 8], "a copy of an earlier write came late");
    }
}

#[test]
fn no_more_than_64_requests_are_open_and_ids_come_back() {
    let mut bench = Bench::new(0.0, 1);
    for ticket in 0..TRANSACTIONS as u64 {
        bench.ask(1, ticket, add(0, 1)).expect("an id is free");
    }
    assert!(!bench.requesters[1].has_space());
    assert_eq!(bench.ask(1, 99, add(0, 1)), Err(add(0, 1)), "it comes back");
    bench.run(Instant::NEVER);
    assert!(bench.requesters[1].has_space() && bench.requesters[1].open() == 0);
    assert_eq!(bench.ended.len(), TRANSACTIONS);
}

#[test]
fn a_move_is_over_with_its_echo_and_not_sent_again_when_lost() {
    let mut bench = Bench::new(0.0, 1);
    let write = request(Command::Move64, 0, vec![7; 64], Repeat::No);
    bench.ask(1, 1, write.clone()).expect("an id is free");
    bench.run(Instant::NEVER);
    assert_eq!(bench.ended, [(1, Ticket(1), Outcome::Answered(Status::Normal, vec![]))]);
    assert_eq!(bench.agenda.now().as_ps(), 600_000, "a packet and an echo");
    let mut bench = Bench::new(1.0, 1);
    bench.ask(1, 1, write).expect("an id is free");
    bench.run(Instant::NEVER);
    assert_eq!(bench.ended, [(1, Ticket(1), Outcome::NoAnswer)]);
    assert_eq!(bench.requesters[1].counts().repeated, 0);
}

#[test]
fn a_request_that_nobody_answers_is_given_up_in_time() {
    let mut bench = Bench::new(0.0, 1);
    assert!(bench.link.fault(FaultKind::Power(0), &mut bench.agenda));
    bench.ask(1, 1, add(0, 1)).expect("an id is free");
    bench.run(Instant::NEVER);
    assert_eq!(bench.ended, [(1, Ticket(1), Outcome::NoAnswer)]);
    let (took, times) = (bench.agenda.now().since(Instant::START), Times::default());
    assert!(took >= times.give_up && took < times.give_up + times.answer.times(3), "{took}");
}

#[test]
fn a_refusal_says_why_and_an_answer_to_nobody_is_counted() {
    let mut bench = Bench::new(0.0, 1);
    let write = request(Command::Write64, 1 << 41, vec![7; 64], Repeat::Yes);
    bench.ask(1, 1, write).expect("an id is free");
    bench.run(Instant::NEVER);
    assert_eq!(bench.ended, [(1, Ticket(1), Outcome::Answered(Status::Address, vec![]))]);
    let stray = Packet {
        target: NodeId(1),
        source: NodeId(0),
        command: Command::Response64,
        transaction: 200,
        offset: 0,
        status: Status::Normal,
        data: vec![0; 64],
    };
    assert_eq!(bench.requesters[1].answered(Instant::START, stray), None);
    assert_eq!(bench.requesters[1].counts().stray, 1);
}

/// Returns the answer to a request, as the responder would send it.
fn answer_to(packet: &Packet) -> Packet {
    let mut responder = Responder::default();
    responder.handle(packet, &mut Words::default()).expect("it is answered")
}

#[test]
fn an_id_that_was_sent_twice_is_not_used_before_the_second_answer_can_have_come() {
    let mut requester = Requester::new(NodeId(1), Times::default());
    let mut now = Instant::START;
    requester.begin(now, Ticket(0), add(0, 1)).expect("an id is free");
    let (id, packet) = requester.next_packet().expect("it is sent");
    assert_eq!(requester.lost(now, id), None, "it is repeated");
    now = requester.deadline().expect("it is repeated later");
    assert_eq!(requester.expire(now), []);
    let (again, copy) = requester.next_packet().expect("it is sent again");
    assert_eq!((again, &copy), (id, &packet), "under the same id");
    assert_eq!(requester.echoed(now, id), None);
    assert!(requester.answered(now, answer_to(&packet)).is_some());
    for ticket in 1..TRANSACTIONS as u64 {
        requester.begin(now, Ticket(ticket), add(0, 1)).expect("others are free");
    }
    assert!(requester.begin(now, Ticket(64), add(0, 1)).is_err(), "the second answer may come");
    assert_eq!(requester.answered(now, answer_to(&copy)), None, "and is for nobody");
    let rested = now + Times::default().answer;
    requester.expire(rested);
    requester.begin(rested, Ticket(64), add(0, 1)).expect("it has rested");
}

#[test]
fn nothing_is_over_while_a_copy_of_it_may_be_on_its_way() {
    let write = request(Command::Write64, 0, vec![1; 64], Repeat::Yes);
    for echoed in [true, false] {
        let mut requester = Requester::new(NodeId(1), Times::default());
        let now = Instant::START;
        requester.begin(now, Ticket(7), write.clone()).expect("an id is free");
        let (id, packet) = requester.next_packet().expect("it is sent");
        assert_eq!(requester.answered(now, answer_to(&packet)), None, "its echo has not come");
        let ended = if echoed { requester.echoed(now, id) } else { requester.lost(now, id) };
        assert_eq!(ended, Some((Ticket(7), Outcome::Answered(Status::Normal, vec![]))));
        assert_eq!((requester.open(), requester.next_packet()), (0, None), "not sent again");
    }
}

#[test]
fn locks_of_one_id_are_told_apart() {
    let mut requester = Requester::new(NodeId(1), Times::default());
    let (mut responder, mut words) = (Responder::default(), Words::default());
    let now = Instant::START;
    for round in 0..200 {
        requester.begin(now, Ticket(round), add(8, 1)).expect("an id is free");
        let (id, packet) = requester.next_packet().expect("it is sent");
        let first = responder.handle(&packet, &mut words);
        assert_eq!(responder.handle(&packet, &mut words), first, "a copy is answered the same");
        requester.echoed(now, id);
        let value = round.to_le_bytes().to_vec();
        let ended = requester.answered(now, first.expect("answered"));
        assert_eq!(ended, Some((Ticket(round), Outcome::Answered(Status::Normal, value))));
    }
    assert_eq!((words.0[&8], responder.counts().locks_again), (200, 200));
}

/// One step of a requester's life, drawn at random.
fn random_step(requester: &mut Requester, draw: &mut Draw, now: Instant, on_way: &mut Vec<Packet>) {
    match draw.below(6) {
        0 => _ = requester.begin(now, Ticket(0), add(0, 1)),
        1 => on_way.extend(requester.next_packet().map(|of| of.1)),
        2 => _ = requester.expire(now),
        step if !on_way.is_empty() => {
            let packet = &on_way[draw.below(on_way.len() as u64) as usize];
            let (id, answer) = (packet.transaction, answer_to(packet));
            match step {
                3 => _ = requester.echoed(now, id),
                4 => _ = requester.lost(now, id),
                _ => _ = requester.answered(now, answer),
            }
        }
        _ => {}
    }
}

#[test]
fn a_deadline_before_the_armed_one_is_found_as_by_looking_at_all_requests() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let mut requester = Requester::new(NodeId(1), Times::default());
        let (mut armed, mut on_way) = (None, Vec::new());
        let mut now = Instant::START;
        let mut found = 0;
        for _ in 0..3_000 {
            now += Duration::from_ns(draw.below(20_000));
            random_step(&mut requester, &mut draw, now, &mut on_way);
            on_way.drain(..on_way.len().saturating_sub(20));
            if armed.is_some_and(|armed| armed <= now) {
                armed = None;
            }
            let all = requester.deadline();
            let earlier = all.filter(|&due| armed.is_none_or(|armed| due < armed));
            assert_eq!(requester.deadline_before(armed), earlier, "armed {armed:?}");
            found += u32::from(earlier.is_some());
            armed = earlier.or(armed);
        }
        assert!(found > 10, "{found} deadlines");
    }
}
