//! Filters and pauses at the builders of a cluster, on a log in memory: the recorded events are
//! those of a plain model, and each packet is in an event or counted, although builders die.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats;
use fluxline_kafka::cluster::PartitionCounters;
use fluxline_run::filter::{FilterPlan, each_event};

use crate::support::cluster::{CALM, Chaos, Cluster};
use crate::support::world::{
    BEGIN, MS, Sent, Sets, Weather, assert_same, one_process, packets, sets_of, statuses,
};

const PARTITIONS: u32 = 2;
/// Builders die, and nothing else happens.
const DEATHS: Chaos = Chaos { builder_death: 0.05, zombie: 0.02, ..CALM };

fn filter(filter: &str) -> FilterPlan {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"counter\"\nudp = {{ listen = \
         [\"127.0.0.1:0\"] }}\n[filter]\n{filter}\n"
    );
    let experiment = Experiment::parse("e.toml", &text).expect("right");
    let loaded = formats::load("counter", &BTreeMap::new()).expect("shipped");
    FilterPlan::of(&experiment, &[loaded]).expect("right")
}

fn some_packets(draw: &mut Draw, keys: u64, lives: bool) -> Sent {
    packets(draw, Weather { boards: 6, keys, loss: 0.02, lives })
}

fn assert_places(total: &PartitionCounters, packets: usize) {
    let places = [total.in_batches, total.filtered, total.not_recorded, total.late_dropped];
    let rest = total.builder_full + total.event_duplicate + total.inconsistent;
    assert_eq!(places.iter().sum::<u64>() + rest, packets as u64, "{total:?}");
    assert_eq!((total.in_open, total.in_closed), (0, 0), "after the end");
}

#[test]
fn filter_keeps_the_events_of_a_plain_model_although_builders_die() {
    let seed = test_seed!(91);
    for round in 0..test_count!(6) {
        let mut draw = Draw::new(seed + round);
        let sent = some_packets(&mut draw, 200, true);
        let plan = filter("keep = \"event.key % 3 != 0\"\nmark = \"event.key % 2 == 0\"");
        let plan = plan.with_function("1", || {
            each_event(|event| match event.row.key.expect("a key") {
                key if key.is_multiple_of(7) => panic!("seven"),
                key => !key.is_multiple_of(5),
            })
        });
        let mut cluster = Cluster::new(PARTITIONS, DEATHS, seed + round).with_filter(plan);
        cluster.run(&sent.packets, |_, _| {});
        let (batches, total) = (cluster.committed(), cluster.counters());
        let keeps =
            |key: u64| !key.is_multiple_of(3) && (key.is_multiple_of(7) || !key.is_multiple_of(5));
        let mut expected: Sets = sets_of(&one_process(&sent.packets));
        let all = expected.len() as u64;
        expected.retain(|event, _| keeps(event.1));
        assert_same(&sets_of(&batches), &expected, &format!("round {round}"));
        for ((_, key), (_, missing)) in statuses(&batches) {
            assert_eq!(missing.contains("filter: no decision"), key.is_multiple_of(7), "{missing}");
            assert_eq!(missing.contains("filter: marked"), key.is_multiple_of(2), "{missing}");
        }
        let decided = total.events_kept + total.events_filtered + total.events_undecided;
        assert_eq!(decided, all);
        assert!(total.events_filtered > 30 && total.events_marked > 20, "{total:?}");
        assert_places(&total, sent.packets.len());
    }
}

#[test]
fn filter_that_rejects_everything_leaves_checkpoints_and_counts() {
    let seed = test_seed!(92);
    let sent = some_packets(&mut Draw::new(seed), 200, true);
    let mut cluster =
        Cluster::new(PARTITIONS, DEATHS, seed).with_filter(filter("keep = \"false\""));
    cluster.run(&sent.packets, |_, _| {});
    let total = cluster.counters();
    assert!(cluster.files.written.is_empty() && cluster.committed().is_empty());
    assert_eq!((total.filtered, total.batches), (sent.packets.len() as u64, 0), "{total:?}");
    assert!(!cluster.log.log.checkpoints(0).is_empty(), "a takeover would read the whole run");
}

#[test]
fn pause_leaves_out_the_events_that_close_in_it_and_counts_them() {
    let seed = test_seed!(93);
    for round in 0..test_count!(4) {
        let mut draw = Draw::new(seed + round);
        let keys = 400;
        // No board dies: events close soon after their last packet.
        let sent = some_packets(&mut draw, keys, false);
        // The second node learns of each change 2 ms later than the first one.
        let ends_paused = round.is_multiple_of(2);
        let times = [keys * 2 / 10, keys * 5 / 10, keys * 7 / 10, keys * 9 / 10];
        let times = &times[..if ends_paused { 3 } else { 4 }];
        let mut cluster = Cluster::new(PARTITIONS, DEATHS, seed + round);
        cluster.run(&sent.packets, |cluster, now| {
            for node in 0..2 {
                let ms = ((now - BEGIN) / MS).saturating_sub(u64::from(node) * 2);
                let changes = times.iter().filter(|time| **time <= ms).count();
                cluster.set_changes(node, changes as u32);
            }
        });
        let (batches, total) = (cluster.committed(), cluster.counters());
        let expected = sets_of(&one_process(&sent.packets));
        // Each recorded event has packets of that one; the others are counted.
        let found = sets_of(&batches);
        assert!(found.iter().all(|(event, set)| set.is_subset(&expected[event])), "round {round}");
        let keys_of: BTreeSet<u64> = found.keys().map(|event| event.1).collect();
        let left_out = |from: u64, to: u64| (from..to).filter(|key| !keys_of.contains(key)).count();
        // An event closes some time after its last packet.
        let lost = left_out(times[0] + 40, times[1]);
        assert!(lost * 2 > (times[1] - times[0] - 40) as usize, "a pause leaves out {lost}");
        let lost = left_out(times[1], times[2] - 40);
        assert!(lost < 20, "without a pause, {lost} events are left out");
        assert_eq!(keys_of.iter().any(|key| *key > keys - 7), !ends_paused, "the end");
        assert!(total.not_recorded > 100, "{total:?}");
        assert_places(&total, sent.packets.len());
    }
}
