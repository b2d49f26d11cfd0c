//! Distributed building gives the events of one process, whatever the order in which the records of
//! readout nodes come: after outages, with nodes far ahead, with late boards, restarts and spills.

mod support;

use std::collections::BTreeSet;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::event::EventStatus;
use fluxline_kafka::build::{
    Checkpoint, CheckpointPolicy, Claim, Commit, Log, LogError, MemoryLog, ReadoutNode, RunPlan,
    Step, Stored, Worker,
};
use support::built::{Batches, readout};
use support::world::{
    BEGIN, Event, MS, Packet, RUN, Weather, assert_same, config, datagram, events_of, one_process,
    packets,
};

/// A record, and the time at which the brokers take it.
struct Sent {
    at: u64,
    partition: u32,
    bytes: Vec<u8>,
}

/// A log that counts the records that are read again.
struct CountingLog {
    log: MemoryLog,
    again: u64,
}

impl Log for CountingLog {
    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        self.log.append(partition, bytes)
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.log.read(partition, offset)
    }

    fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.again += 1;
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        self.log.claim(partition, builder)
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        self.log.commit(claim, commit)
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        self.log.save(claim, checkpoint)
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.log.commits(partition)
    }
}

/// Lets two nodes read out. The brokers take nothing of a node before the times in `back`.
fn read_out(packets: &[Packet], partitions: u32, back: [u64; 2]) -> Vec<Sent> {
    let mut sent = Vec::new();
    for (number, back) in (0..).zip(back) {
        let mut node = readout(number, 0, partitions);
        let mut now = BEGIN;
        let mut hand_over = |node: &mut ReadoutNode, now: u64| {
            let append = |partition: u32, bytes: &[u8]| -> Result<(), ()> {
                sent.push(Sent { at: now.max(back), partition, bytes: bytes.to_vec() });
                Ok(())
            };
            node.hand_over_to(append).expect("taken");
        };
        for packet in packets {
            while now + MS <= packet.at {
                now += MS;
                node.poll(Moment::from_ns(now));
                hand_over(&mut node, now);
            }
            if packet.board % 2 == number {
                assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
            }
        }
        node.finish(Moment::from_ns(now + MS));
        hand_over(&mut node, now + MS);
    }
    sent.sort_by_key(|sent| sent.at);
    sent
}

fn log_of(sent: &[Sent], partitions: u32) -> CountingLog {
    let mut log = MemoryLog::new(partitions);
    for Sent { partition, bytes, .. } in sent {
        log.append(*partition, bytes).expect("a log in memory");
    }
    CountingLog { log, again: 0 }
}

/// Builds all partitions; another builder takes over with this chance after each step.
fn build(
    log: &mut CountingLog,
    builder: &BuilderConfig,
    draw: &mut Draw,
    death: f64,
) -> Vec<Event> {
    let partitions = log.partitions();
    let plan =
        RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions, builder: builder.clone() };
    let mut batches = Batches::default();
    let policy = CheckpointPolicy { bytes: 50_000, times_its_size: 0, age: Span::from_ms(100) };
    for partition in 0..partitions {
        let claim = |log: &mut CountingLog| {
            let worker = Worker::claim(log, &plan, partition, "builder").expect("claimed");
            worker.with_checkpoints(policy)
        };
        let mut worker = claim(log);
        loop {
            match worker.step(log, &mut batches).expect("it works") {
                Step::Worked if draw.chance(death) => worker = claim(log),
                Step::Worked => {}
                Step::Over => break,
                Step::Idle => panic!("the log has ended, and events wait"),
            }
        }
        assert_eq!(worker.partition().counts().left_out, 0);
    }
    batches.events()
}

fn weather(draw: &mut Draw, keys: u64) -> Weather {
    Weather { boards: 5 + draw.below(3) as u16, keys, loss: 0.02, lives: true }
}

/// Returns the events without the verdict on those of the last moments. Nodes end one after the
/// other, and a dead board is not missing any more when its node has ended. A packet that a readout
/// keeps until its source's next one, after a restart, may have another place in its event.
fn settled(mut events: Vec<Event>) -> Vec<Event> {
    let last = events.iter().map(|event| (event.generation, event.key)).max().unwrap_or_default();
    for event in &mut events {
        event.packets.sort();
        if event.generation == last.0 && event.key + 12 > last.1 {
            (event.status, event.missing) = (EventStatus::Complete, String::new());
        }
    }
    events.sort();
    events
}

/// Lets a run take `times` as long; the packets of one key stay together.
fn stretch(packets: &mut [Packet], times: u64) {
    for packet in packets {
        let since = packet.at - BEGIN;
        packet.at = BEGIN + since / MS * MS * times + since % MS;
    }
}

/// Lets keys begin anew after this many, with a pause before.
fn in_spills(packets: &mut [Packet], keys: u64, pause: u64) {
    for packet in packets {
        let key = u64::from_le_bytes(packet.bytes[16..24].try_into().expect("eight bytes"));
        packet.bytes[16..24].copy_from_slice(&(key % keys).to_le_bytes());
        packet.at += key / keys * pause;
    }
}

#[test]
fn fragments_are_late_after_an_outage_of_the_brokers() {
    let seed = test_seed!(101);
    for round in 0..test_count!(4) {
        let mut draw = Draw::new(seed + round);
        let weather = weather(&mut draw, 150);
        let mut packets = packets(&mut draw, weather);
        stretch(&mut packets, 40 + draw.below(60));
        let one = events_of(&one_process(&packets));
        for partitions in [1, 3] {
            // The first node reaches the brokers seconds before the second one.
            let back = [BEGIN + 500 * MS, BEGIN + (4000 + draw.below(9000)) * MS];
            let mut log = log_of(&read_out(&packets, partitions, back), partitions);
            let builder = BuilderConfig { bytes_open_max: 1 << 20, ..config() };
            let found = build(&mut log, &builder, &mut draw, 0.0005);
            assert_same(
                &settled(found),
                &settled(one.clone()),
                &format!("round {round}, {partitions} partitions"),
            );
        }
    }
}

#[test]
fn node_that_is_far_ahead_fills_the_memory_of_builders() {
    let seed = test_seed!(102);
    let mut again = 0;
    for round in 0..test_count!(3) {
        let mut draw = Draw::new(seed + round);
        let weather = Weather { lives: false, ..weather(&mut draw, 400) };
        let packets = packets(&mut draw, weather);
        // Everything of one node comes before anything of the other.
        let far = BEGIN + 100_000 * MS;
        let back = if draw.chance(0.5) { [far, BEGIN] } else { [BEGIN, far] };
        let one = events_of(&one_process(&packets));
        let mut log = log_of(&read_out(&packets, 2, back), 2);
        let builder = BuilderConfig { bytes_open_max: 120_000, ..config() };
        let found = build(&mut log, &builder, &mut draw, 0.002);
        assert_same(&found, &one, &format!("round {round}"));
        again += log.again;
    }
    assert!(again > 20, "{again} records were read again: a weak test");
}

#[test]
fn spills_and_restarts_on_two_machines_give_other_events() {
    let seed = test_seed!(103);
    for round in 0..test_count!(4) {
        let mut draw = Draw::new(seed + round);
        let weather = weather(&mut draw, 300);
        let mut packets = packets(&mut draw, weather);
        // Time-outs are checked with the records, so none of 500 ms ends at a spill's first packet.
        let pause = [60 + draw.below(300), 600 + draw.below(200)][draw.below(2) as usize];
        in_spills(&mut packets, 60, pause * MS);
        let one = events_of(&one_process(&packets));
        assert!(one.iter().any(|event| event.generation > 2), "the keys do not begin anew");
        // The second node is an hour behind.
        let back = [BEGIN, BEGIN + 3_600_000 * MS];
        for back in [[BEGIN; 2], back] {
            let mut log = log_of(&read_out(&packets, 2, back), 2);
            let found = build(&mut log, &config(), &mut draw, 0.0);
            assert_same(&settled(found), &settled(one.clone()), &format!("round {round}"));
        }
    }
}

#[test]
fn files_of_a_node_that_is_ahead_close_events_early() {
    let seed = test_seed!(104);
    let mut draw = Draw::new(seed);
    let weather = Weather { boards: 6, keys: 500, loss: 0.0, lives: false };
    let packets = packets(&mut draw, weather);
    let mut log = log_of(&read_out(&packets, 2, [BEGIN, BEGIN + 100_000 * MS]), 2);
    let builder = BuilderConfig { bytes_open_max: 120_000, ..config() };
    let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes: 2, partitions: 2, builder };
    let mut batches = Batches::default();
    for partition in 0..2 {
        let mut worker = Worker::claim(&mut log, &plan, partition, "builder").expect("claimed");
        worker.read_on_demand(&[(0, 0), (1, 0)]);
        while worker.step(&mut log, &mut batches).expect("it works") == Step::Worked {}
        assert!(worker.partition().is_ended());
    }
    let sorted = |mut events: Vec<Event>| {
        events.iter_mut().for_each(|event| event.packets.sort());
        events.sort();
        events
    };
    let one = sorted(events_of(&one_process(&packets)));
    assert_same(&sorted(batches.events()), &one, "files");
    assert!(log.again > 20, "{} records were read again: a weak test", log.again);
}

#[test]
fn dead_node_holds_events_for_ever_or_its_return_loses_some() {
    let seed = test_seed!(105);
    let mut draw = Draw::new(seed);
    let weather = Weather { boards: 4, keys: 1000, loss: 0.0, lives: false };
    let mut packets = packets(&mut draw, weather);
    stretch(&mut packets, 10);
    let (log, nodes) = (MemoryLog::new(1), 2);
    let plan = RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions: 1, builder: config() };
    let (mut batches, dead) = (Batches::default(), BTreeSet::from([1]));
    let mut log = CountingLog { log, again: 0 };
    let mut worker = Worker::claim(&mut log, &plan, 0, "builder").expect("claimed");
    let mut work = |worker: &mut Worker, log: &mut CountingLog| {
        while worker.step(log, &mut batches).expect("it works") == Step::Worked {}
        batches.0.values().map(|batch| batch.events.packets.len()).sum::<usize>()
    };
    let mut readouts = [readout(0, 0, 1), readout(1, 0, 1)];
    let (dies, returns) = (packets.len() / 4, packets.len() * 3 / 4);
    let (mut lost, mut stored_before) = (0, 0);
    for (at, packet) in packets.iter().enumerate() {
        let is_dead = (dies..returns).contains(&at);
        if at == dies {
            readouts[1].poll(Moment::from_ns(packet.at + 10 * MS));
            readouts[1].hand_over(&mut log).expect("a log in memory");
            lost = packets[..at].iter().filter(|of| of.board % 2 == 1).count() as u64;
            lost -= readouts[1].counts().handed;
        }
        if at == dies + 400 {
            stored_before = work(&mut worker, &mut log);
        }
        if at == dies + 1500 {
            assert_eq!(work(&mut worker, &mut log), stored_before, "events do not wait");
            worker.leave_out(&mut log, &dead).expect("a log in memory");
            worker.leave_out(&mut log, &dead).expect("a log in memory");
            assert!(work(&mut worker, &mut log) > stored_before + 500, "events wait for ever");
        }
        if at == returns {
            readouts[1] = readout(1, 1, 1);
        }
        let number = usize::from(packet.board % 2);
        if number == 1 && is_dead {
            lost += 1;
        } else {
            readouts[number].take(0, Moment::from_ns(packet.at), &datagram(packet));
        }
        for (number, readout) in readouts.iter_mut().enumerate() {
            if number == 0 || !is_dead {
                readout.poll(Moment::from_ns(packet.at));
                readout.hand_over(&mut log).expect("a log in memory");
            }
        }
    }
    for readout in &mut readouts {
        readout.finish(Moment::from_ns(packets[packets.len() - 1].at + MS));
        readout.hand_over(&mut log).expect("a log in memory");
    }
    let stored = work(&mut worker, &mut log) as u64;
    assert!(worker.partition().is_ended());
    assert_eq!(worker.partition().counts().left_out, 1);
    assert!(lost > 100, "the death cost nothing: not a test");
    assert_eq!(stored, packets.len() as u64 - lost, "a packet is lost or doubled");
    assert!(worker.partition().taken().all(|edge| edge.held == 0), "packets wait after the end");
}
