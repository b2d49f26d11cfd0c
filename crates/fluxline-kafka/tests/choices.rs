//! Filters and pauses at the builders of a cluster, on a log in memory: the recorded events are
//! those of a plain model, and the same for every builder that takes a partition over.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_daq::event::EventStatus;
use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats;
use fluxline_kafka::build::{CheckpointPolicy, EventFilter, Log, MemoryLog, RunPlan, Step, Worker};
use fluxline_kafka::cluster::{PartitionBlock, PartitionCounters};
use fluxline_run::filter::{FilterPlan, each_event};
use support::built::{Batches, readout};
use support::world::{
    Event, MS, Packet, RUN, Weather, assert_same, config, datagram, events_of, one_process, packets,
};

const PARTITIONS: u32 = 2;

/// Saves after every few batches.
const OFTEN: CheckpointPolicy =
    CheckpointPolicy { bytes: 20_000, times_its_size: 0, age: Span::from_ms(30) };

/// Writes the packets of two nodes into a log; `changes` returns the number of pauses and
/// resumptions that a node knows of before a packet.
fn read_out(packets: &[Packet], log: &MemoryLog, changes: impl Fn(u16, usize) -> u32) {
    let mut nodes = [readout(0, 0, PARTITIONS), readout(1, 0, PARTITIONS)];
    for (number, packet) in packets.iter().enumerate() {
        let now = Moment::from_ns(packet.at);
        nodes[usize::from(packet.board % 2)].take(0, now, &datagram(packet));
        for node in &mut nodes {
            node.set_changes(changes(node.number(), number));
            node.poll(now);
            node.hand_over(&mut log.clone()).expect("a log in memory");
        }
    }
    let end = Moment::from_ns(packets.last().expect("some").at + MS);
    for node in &mut nodes {
        node.finish(end);
        node.hand_over(&mut log.clone()).expect("a log in memory");
    }
}

/// Builds all partitions; with `deaths`, builders die at times, and others take over. Returns the
/// batches, and the counters of all partitions.
fn build(
    log: &MemoryLog,
    plan: &FilterPlan,
    mut deaths: Option<&mut Draw>,
) -> (Batches, PartitionCounters) {
    let run = RunPlan {
        run: RUN,
        name: "x".to_owned(),
        nodes: 2,
        partitions: PARTITIONS,
        builder: config(),
    };
    let (mut log, mut files) = (log.clone(), Batches::default());
    let mut total = PartitionCounters::default();
    for partition in 0..PARTITIONS {
        let mut lives = 0;
        loop {
            let claimed = Worker::claim(&mut log, &run, partition, "next").expect("claimed");
            let mut worker = claimed.with_checkpoints(OFTEN).with_filter(EventFilter::of(plan));
            lives += 1;
            let life = deaths.as_mut().map_or(u64::MAX, |draw| draw.below(90));
            let mut steps = (0..life).map(|_| worker.step(&mut log, &mut files).expect("it works"));
            if steps.any(|step| step == Step::Over) {
                total.merge(&PartitionBlock::of(partition, worker.partition()).counters);
                break;
            }
            assert!(lives < 10_000, "the run does not end");
        }
    }
    (files, total)
}

fn experiment(filter: &str) -> FilterPlan {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"counter\"\nudp = {{ listen = \
         [\"127.0.0.1:0\"] }}\n[filter]\n{filter}\n"
    );
    let experiment = Experiment::parse("e.toml", &text).expect("right");
    let loaded = formats::load("counter", &BTreeMap::new()).expect("shipped");
    FilterPlan::of(&experiment, &[loaded]).expect("right")
}

fn some_packets(draw: &mut Draw, keys: u64) -> Vec<Packet> {
    packets(draw, Weather { boards: 6, keys, loss: 0.02, lives: true })
}

fn assert_places(total: &PartitionCounters, packets: usize) {
    let places = [total.in_batches, total.filtered, total.not_recorded, total.late_dropped];
    let rest = total.builder_full + total.event_duplicate + total.inconsistent;
    assert_eq!(places.iter().sum::<u64>() + rest, packets as u64, "{total:?}");
    assert_eq!((total.in_open, total.in_closed), (0, 0), "after the end");
}

#[test]
fn filter_keeps_other_events_than_a_plain_model_or_after_a_takeover() {
    std::panic::set_hook(Box::new(|_| {}));
    let seed = test_seed!(91);
    for round in 0..test_count!(3) {
        let mut draw = Draw::new(seed + round);
        let packets = some_packets(&mut draw, 200);
        let log = MemoryLog::new(PARTITIONS);
        read_out(&packets, &log, |_, _| 0);
        let plan = experiment("keep = \"event.key % 3 != 0\"\nmark = \"event.key % 2 == 0\"");
        let plan = plan.with_function("1", || {
            each_event(|event| match event.row.key.expect("a key") {
                key if key.is_multiple_of(7) => panic!("seven"),
                key => !key.is_multiple_of(5),
            })
        });
        let (files, total) = build(&log, &plan, Some(&mut draw));
        let keeps =
            |key: u64| !key.is_multiple_of(3) && (key.is_multiple_of(7) || !key.is_multiple_of(5));
        let mut expected = events_of(&one_process(&packets));
        let (all, late) = (expected.len() as u64, count_late(&expected));
        expected.retain(|event| keeps(event.key));
        for event in &mut expected {
            let mut words: Vec<&str> =
                Vec::from_iter((!event.missing.is_empty()).then_some(&*event.missing));
            if event.status != EventStatus::Late {
                words.extend(event.key.is_multiple_of(7).then_some("filter: no decision"));
                words.extend(event.key.is_multiple_of(2).then_some("filter: marked"));
            }
            event.missing = words.join("; ");
        }
        expected.sort();
        assert_same(&files.events(), &expected, &format!("round {round}"));
        let undecided = expected.iter().filter(|event| event.key.is_multiple_of(7));
        let undecided = undecided.filter(|event| event.status != EventStatus::Late).count() as u64;
        assert_eq!(total.events_undecided, undecided);
        let decided = total.events_kept + total.events_filtered + total.events_undecided;
        assert_eq!((decided, total.late_filtered), (all - late, late - count_late(&expected)));
        assert!(total.events_filtered > 30 && total.events_marked > 20, "{total:?}");
        assert_places(&total, packets.len());
    }
}

fn count_late(events: &[Event]) -> u64 {
    events.iter().filter(|event| event.status == EventStatus::Late).count() as u64
}

#[test]
fn filter_that_rejects_everything_stops_a_takeover_or_loses_count() {
    let mut draw = Draw::new(test_seed!(92));
    let packets = some_packets(&mut draw, 200);
    let log = MemoryLog::new(PARTITIONS);
    read_out(&packets, &log, |_, _| 0);
    let (files, total) = build(&log, &experiment("keep = \"false\""), Some(&mut draw));
    assert!(files.0.is_empty());
    assert_eq!((total.filtered, total.batches), (packets.len() as u64, 0), "{total:?}");
    assert!((0..PARTITIONS).all(|partition| log.committed(partition).is_empty()));
    assert!(!log.checkpoints(0).is_empty(), "a takeover would read the whole run");
}

#[test]
fn pause_records_events_that_closed_in_it_or_loses_others() {
    let seed = test_seed!(93);
    for round in 0..test_count!(2) {
        let mut draw = Draw::new(seed + round);
        let keys = 400;
        // No board dies: events close soon after their last packet.
        let weather = Weather { boards: 6, keys, loss: 0.02, lives: false };
        let packets = packets(&mut draw, weather);
        let log = MemoryLog::new(PARTITIONS);
        // The second node learns of each change later than the first one, and may forget nothing.
        let length = packets.len();
        let ends_paused = round.is_multiple_of(2);
        let times = [2, 5, 7, 9].map(|tenths| length * tenths / 10);
        let times = &times[..if ends_paused { 3 } else { 4 }];
        let changes = |node: u16, number: usize| {
            let number = number.saturating_sub(usize::from(node) * 7);
            times.iter().filter(|time| **time <= number).count() as u32
        };
        read_out(&packets, &log, changes);
        let plan = experiment("keep = \"event.key % 4 != 0\"");
        let (files, total) = build(&log, &plan, Some(&mut draw));
        let calm = MemoryLog::new(PARTITIONS);
        read_out(&packets, &calm, |_, _| 0);
        let expected = build(&calm, &plan, None).0.events();
        // Each recorded event is one of them, once; the others are counted.
        let found = files.events();
        let names: BTreeSet<(u32, u64, EventStatus)> =
            found.iter().map(|event| (event.generation, event.key, event.status)).collect();
        assert_eq!(names.len(), found.len(), "an event is there twice");
        assert!(found.iter().all(|event| expected.binary_search(event).is_ok()), "round {round}");
        let left_out = |from: usize, to: usize| {
            let keys: BTreeSet<u64> = expected.iter().map(|event| event.key).collect();
            let key_at = |at: usize| (packets[at.min(length - 1)].at - packets[0].at) / MS;
            let inside = keys.iter().filter(|key| (key_at(from)..key_at(to)).contains(*key));
            let inside: Vec<u64> = inside.copied().collect();
            let lost = inside.iter().filter(|key| !found.iter().any(|of| of.key == **key));
            (lost.count(), inside.len())
        };
        // An event closes some time after its last packet.
        let (lost, all) = left_out(times[0] + length / 10, times[1]);
        assert!(lost * 2 > all, "a pause leaves out {lost} of {all}");
        let (lost, all) = left_out(times[1], times[2] - length / 10);
        assert!(lost * 4 < all, "without a pause, {lost} of {all} are left out");
        let closes = found.iter().any(|event| event.key > keys - 7);
        assert_eq!(closes, !ends_paused, "events that the end closes");
        assert!(total.not_recorded > 100, "{total:?}");
        assert_places(&total, length);
    }
}

#[test]
fn pause_differs_after_a_takeover() {
    let seed = test_seed!(94);
    let mut draw = Draw::new(seed);
    let packets = some_packets(&mut draw, 200);
    let log = MemoryLog::new(PARTITIONS);
    let length = packets.len();
    read_out(&packets, &log, |node, number| ((number + usize::from(node) * 5) * 9 / length) as u32);
    let plan = experiment("keep = \"event.complete\"");
    let (files, total) = build(&log, &plan, Some(&mut draw));
    // Another log with the same records, and builders that live on.
    let calm = MemoryLog::new(PARTITIONS);
    for partition in 0..PARTITIONS {
        for offset in 0..log.end(partition) {
            let record = log.clone().read(partition, offset).expect("a log").expect("a record");
            calm.clone().append(partition, &record.bytes).expect("a log in memory");
        }
    }
    let (others, same) = build(&calm, &plan, None);
    assert_eq!((files.0, total), (others.0, same));
}
