//! Distributed building on a log in memory: each packet that was sent is in one event, with the
//! packets that one process puts there and a true status, whatever dies, pauses, comes twice or
//! comes back.

use std::collections::BTreeSet;

use fluxline_cluster::entry::read_record;
use fluxline_cluster::{PartitionBuilder, ReadoutNode};
use fluxline_core::Moment;
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Integrity, RunReader};
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{
    CheckpointPolicy, Commit, Log, MemoryLog, RunFolders, RunPlan, Step, Worker,
};
use fluxline_kafka::gather::gather;

use crate::support::cluster::{CALM, Chaos, Cluster, FaultyLog, Files, STORM};
use crate::support::world::{
    BEGIN, MS, RUN, Sent, Weather, assert_same, config, datagram, name_of, one_process, packets,
    readout, sets_of, statuses,
};

fn weather(draw: &mut Draw, loss: f64) -> Weather {
    Weather { boards: 4 + draw.below(4) as u16, keys: 150, loss, lives: false }
}

fn plan(nodes: usize, partitions: u32, builder: BuilderConfig) -> RunPlan {
    RunPlan { run: RUN, name: "x".to_owned(), nodes, partitions, builder }
}

/// Builds in a cluster, and checks the law: one event for each packet, the events of one process,
/// true status.
fn assert_law(sent: &Sent, partitions: u32, chaos: Chaos, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(partitions, chaos, seed);
    cluster.run(&sent.packets, |_, _| {});
    let batches = cluster.committed();
    let sets = sets_of(&batches);
    let about = format!("seed {seed}, {partitions} partitions");
    assert_same(&sets, &sets_of(&one_process(&sent.packets)), &about);
    let stored: BTreeSet<u64> = sets.into_values().flatten().collect();
    let all = sent.packets.iter().map(|packet| name_of(&packet.bytes));
    assert!(all.collect::<BTreeSet<u64>>() == stored, "{about}: a packet is lost");
    statuses(&batches);
    cluster
}

#[test]
fn storm_of_deaths_and_returns_loses_and_doubles_no_packet() {
    let seed = test_seed!(11);
    let (mut fenced, mut partly) = (0, 0);
    for round in 0..test_count!(150) {
        let mut draw = Draw::new(seed + round);
        let loss = if draw.chance(0.3) { 0.0 } else { 0.03 };
        let weather = Weather { lives: draw.chance(0.7), ..weather(&mut draw, loss) };
        let sent = packets(&mut draw, weather);
        let partitions = 1 + draw.below(4) as u32;
        let chaos = if draw.chance(0.2) { CALM } else { STORM };
        let cluster = assert_law(&sent, partitions, chaos, seed + round);
        sent.assert_true_status(&cluster.committed());
        fenced += cluster.truth.fenced;
        partly += cluster.files.written.len();
    }
    assert!(fenced > 50 && partly > 1000, "a mild storm: {fenced} fenced, {partly} batches");
}

#[test]
fn keys_that_begin_anew_and_long_pauses_keep_their_packets_together() {
    let seed = test_seed!(103);
    for round in 0..test_count!(20) {
        let mut draw = Draw::new(seed + round);
        // No board joins with the first key of a spill: its first packets may belong to two spills.
        let weather = Weather { lives: true, keys: 300, ..weather(&mut draw, 0.02) };
        let mut sent = packets(&mut draw, weather);
        match draw.chance(0.5) {
            // Time-outs are checked with the records: none of 500 ms ends at a spill's first one.
            true => sent.in_spills(60, [60 + draw.below(300), 650][draw.below(2) as usize]),
            false => sent.stretch(40 + draw.below(60)),
        }
        let chaos = Chaos { outages: 0.01, ..CALM };
        assert_law(&sent, 1 + draw.below(3) as u32, chaos, seed + round);
    }
}

/// Lets a node read out its packets, and hand them over to `log` at the end.
fn read_out(number: u16, sent: &Sent, log: &mut impl Log) {
    let mut node = readout(number, 0, log.partitions());
    let its = |board: u16| board % 2 == number;
    for packet in &sent.packets {
        node.poll(Moment::from_ns(packet.at));
        if its(packet.board) {
            assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
        }
    }
    node.finish(end_of(sent));
    hand_over(&mut node, log).expect("a log in memory");
}

fn end_of(sent: &Sent) -> Moment {
    Moment::from_ns(sent.packets[sent.packets.len() - 1].at + MS)
}

#[test]
fn node_that_is_far_ahead_waits_in_bounded_memory_and_loses_nothing() {
    let seed = test_seed!(102);
    let mut draw = Draw::new(seed);
    let weather = Weather { keys: 400, ..weather(&mut draw, 0.02) };
    let sent = packets(&mut draw, weather);
    let mut log = FaultyLog::new(MemoryLog::new(2), CALM, seed);
    // Everything of one node comes before anything of the other.
    read_out(1, &sent, &mut log);
    read_out(0, &sent, &mut log);
    let builder = BuilderConfig { bytes_open_max: 120_000, ..config() };
    let mut files = Files::default();
    for partition in 0..2 {
        let plan = plan(2, 2, builder.clone());
        let mut worker = Worker::claim(&mut log, &plan, partition, "builder").expect("claimed");
        while worker.step(&mut log, &mut files).expect("it works") == Step::Worked {}
        assert!(worker.partition().is_ended());
        assert_eq!(worker.partition().counts().left_out, 0);
    }
    let batches: Vec<EventBatch> = files.written.into_values().collect();
    assert_same(&sets_of(&batches), &sets_of(&one_process(&sent.packets)), "far ahead");
    sent.assert_true_status(&batches);
    assert!(log.again > 20, "{} records were read again: a weak test", log.again);
}

#[test]
fn dead_node_holds_events_until_it_is_left_out_and_its_return_loses_none() {
    let mut draw = Draw::new(test_seed!(105));
    let weather = Weather { boards: 4, keys: 1000, loss: 0.0, lives: false };
    let mut sent = packets(&mut draw, weather);
    sent.stretch(10);
    let packets = &sent.packets;
    let (mut files, dead) = (Files::default(), BTreeSet::from([1]));
    let mut log = MemoryLog::new(1);
    let mut worker = Worker::claim(&mut log, &plan(2, 1, config()), 0, "builder").expect("claimed");
    let mut work = |worker: &mut Worker, log: &mut MemoryLog| {
        while worker.step(log, &mut files).expect("it works") == Step::Worked {}
        files.written.values().map(|batch| batch.packets.len()).sum::<usize>()
    };
    let mut readouts = [readout(0, 0, 1), readout(1, 0, 1)];
    let (dies, returns) = (packets.len() / 4, packets.len() * 3 / 4);
    let (mut lost, mut stored_before) = (0, 0);
    for (at, packet) in packets.iter().enumerate() {
        let is_dead = (dies..returns).contains(&at);
        if at == dies {
            readouts[1].poll(Moment::from_ns(packet.at + 10 * MS));
            hand_over(&mut readouts[1], &mut log).expect("a log in memory");
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
                hand_over(readout, &mut log).expect("a log in memory");
            }
        }
    }
    for readout in &mut readouts {
        readout.finish(end_of(&sent));
        hand_over(readout, &mut log).expect("a log in memory");
    }
    let stored = work(&mut worker, &mut log) as u64;
    assert!(worker.partition().is_ended());
    assert_eq!(worker.partition().counts().left_out, 1);
    assert!(lost > 100, "the death cost nothing: not a test");
    assert_eq!(stored, packets.len() as u64 - lost, "a packet is lost or doubled");
    assert!(worker.partition().taken().all(|edge| edge.held == 0), "packets wait after the end");
}

#[test]
fn builders_that_die_leave_folders_that_make_one_run() {
    let seed = test_seed!(31);
    let mut draw = Draw::new(seed);
    let weather = Weather { lives: true, ..weather(&mut draw, 0.01) };
    let sent = packets(&mut draw, weather);
    let scratch = tempfile::tempdir().expect("a folder");
    let log = MemoryLog::new(2);
    (0..2).for_each(|node| read_out(node, &sent, &mut log.clone()));
    // Each builder writes some batches, and may die between writing and committing one.
    let policy = CheckpointPolicy { bytes: 20_000, times_its_size: 0, age: config().batch_age };
    for life in 0..100 {
        let (name, partition) = (format!("builder-{}", life % 3), life % 2);
        let formats = vec![("counter".to_owned(), String::new())];
        let mut output = RunFolders::new(scratch.path(), &name, RUN, formats);
        let chaos = Chaos { failures: 0.2, ..CALM };
        let mut log = FaultyLog::new(log.clone(), chaos, seed + u64::from(life));
        let worker = Worker::claim(&mut log, &plan(2, 2, config()), partition, &name);
        let mut worker = worker.expect("claimed").with_checkpoints(policy);
        while let Ok(Step::Worked) = worker.step(&mut log, &mut output) {}
    }
    let mut commits: Vec<Commit> = (0..2).flat_map(|of| log.committed(of)).collect();
    let into = scratch.path().join("0001");
    gather(scratch.path(), &commits, &into).expect("gathered");
    let mut reader = RunReader::open(&into).expect("a run");
    let mut batches = Vec::new();
    while let Some(recorded) = reader.next_batch().expect("readable") {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).expect("rows");
        batches.push(batch);
    }
    let found = Integrity::of(reader.folder(), reader.report());
    assert!(found.is_sound(), "{found:?}");
    assert_same(&sets_of(&batches), &sets_of(&one_process(&sent.packets)), "gathered");
    sent.assert_true_status(&batches);
    assert_eq!(reader.folder().sources().expect("lines").len(), usize::from(weather.boards));

    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let said = gather(&empty, &commits, &scratch.path().join("0002")).expect_err("nothing there");
    assert!(said.to_string().contains("copy the folders of that builder there"), "{said}");
    // Events that are larger than a record of the topic are in the folders.
    commits.iter_mut().for_each(|commit| commit.refused = 1);
    let gathered = gather(scratch.path(), &commits, &scratch.path().join("0003"));
    let gathered = gathered.expect("the folders have all events");
    assert_eq!((gathered.packets, gathered.refused), (sent.packets.len() as u64, 0));
    commits[0].events += 1;
    let said = gather(scratch.path(), &commits, &scratch.path().join("0004")).expect_err("less");
    assert!(said.to_string().contains("differs from its commit (it has"), "{said}");
}

#[test]
fn holes_foreign_records_and_other_partition_counts_are_named() {
    let mut log = MemoryLog::new(2);
    log.append(0, b"a record of somebody else").expect("appended");
    let mut files = Files::default();
    let mut worker = Worker::claim(&mut log, &plan(1, 2, config()), 0, "a").expect("claimed");
    assert_eq!(worker.step(&mut log, &mut files), Ok(Step::Worked));
    assert_eq!(worker.partition().counts().foreign, 1);
    assert_eq!(worker.step(&mut log, &mut files), Ok(Step::Idle));
    log.append(0, b"more").expect("appended");
    log.append(0, b"and more").expect("appended");
    log.forget_before(0, 2);
    let said = worker.step(&mut log, &mut files).expect_err("a hole").to_string();
    assert!(said.contains("records before offset 2") && said.contains("retention.ms"), "{said}");
    let changed = Worker::claim(&mut log, &plan(1, 3, config()), 0, "a").err();
    let said = changed.expect("changed").to_string();
    let expected = "the number of partitions changed from 3 to 2 during run 77: keys would change \
                    their builder; `fluxline ctl … abandon 77` ends the run";
    assert!(said.starts_with(expected), "{said}");
}

/// Reading a record neither panics nor hangs, whatever its bytes are. A changed record of ours is
/// not a record.
#[test]
fn spoilt_records_are_foreign() {
    let mut draw = Draw::new(test_seed!(51));
    let weather = Weather { boards: 3, keys: 20, loss: 0.0, lives: false };
    let mut node: ReadoutNode = readout(0, 0, 1);
    let mut log = MemoryLog::new(1);
    for packet in packets(&mut draw, weather).packets {
        node.take(0, Moment::from_ns(packet.at), &datagram(&packet));
    }
    node.finish(Moment::from_ns(BEGIN + 1000 * MS));
    hand_over(&mut node, &mut log).expect("a log in memory");
    let record = log.read(0, 0).expect("a log in memory").expect("a record");
    assert!(read_record(&record.bytes).is_some());
    for _ in 0..1000 {
        let mut bytes = record.bytes.to_vec();
        let at = draw.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << draw.below(8);
        assert!(read_record(&bytes).is_none());
        // With a right check sum, as an attacker would: the entries end where they make no sense.
        let end = bytes.len() - 4;
        let crc = crc_fast::crc32_iscsi(&bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
        let mut builder = PartitionBuilder::new(RUN, 1, config());
        builder.take(0, &bytes.into());
    }
}
