//! Random lives of boards, against an offline join that knows everything that was sent.
//!
//! Each disagreement is a fault, or one of the sentences under "What cannot be known" of
//! docs/events.md: `known.rs` states those, as narrowly as it can. `FLUXLINE_RANDOM_RUNS` asks for
//! a number of lives, `FLUXLINE_RANDOM_FIRST` for the first one.

mod known;
mod life;

use std::collections::{BTreeMap, BTreeSet};

use super::random::runs;
use super::world::*;
use crate::event::{EventRow, EventStatus, PacketRow};
use crate::record::join::judge::{Case, Judge};
use known::{Truth, may_refuse};
use life::Life;

/// An event with its late fragments, as the readers of a run show it.
#[derive(Debug)]
struct Shown {
    generation: u32,
    key: u64,
    status: EventStatus,
    missing: String,
    marks: Vec<u64>,
}

fn live(life: &Life) -> Outcome {
    let mut world = World::new(shared(), life.widths);
    let mut tick = life.arrivals.first().map_or(0, |sent| sent.at);
    for &sent in &life.arrivals {
        while tick < sent.at {
            world.poll(tick);
            tick += 5 * MS;
        }
        world.push(sent.at, sent);
    }
    while tick < life.end {
        world.poll(tick);
        tick += 5 * MS;
    }
    world.finish(life.end)
}

/// Joins the rows of a run in memory: the same judge as for files decides.
fn show(out: &Outcome) -> Vec<Shown> {
    let labels = (0..).zip(&out.summary).map(|(number, its)| (number, its.label.clone()));
    let judge = Judge::new(labels.collect(), &out.ledger.amendments, Some(&out.ledger));
    let mut rows: BTreeMap<(u32, u64), (EventRow, String, Vec<PacketRow>)> = BTreeMap::new();
    let mut late: BTreeMap<(u32, u64), Vec<(u32, String)>> = BTreeMap::new();
    let mut marks: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
    let mut texts = out.rows.iter();
    for batch in &out.batches {
        for view in batch.views() {
            let text = texts.next().expect("a text for each row");
            let event = (text.generation, text.key);
            marks.entry(event).or_default().extend(&text.marks);
            match view.row.status {
                EventStatus::Late => {
                    let part = (view.packets[0].source, text.missing.clone());
                    late.entry(event).or_default().push(part);
                }
                _ => {
                    let row = (*view.row, text.missing.clone(), view.packets.to_vec());
                    assert!(rows.insert(event, row).is_none(), "two rows of {event:?}");
                }
            }
        }
    }
    let shown = rows.into_iter().map(|(event, (mut row, mut missing, packets))| {
        let late = late.remove(&event).unwrap_or_default();
        judge.settle(&Case { packets: &packets, late: &late }, &mut row, &mut missing);
        let (generation, key) = event;
        let marks = marks.remove(&event).unwrap_or_default();
        Shown { generation, key, status: row.status, missing, marks }
    });
    let shown: Vec<Shown> = shown.collect();
    assert!(late.is_empty(), "late fragments without an event: {late:?}");
    shown
}

/// Returns everything in which the run and the truth disagree.
fn disagreements(life: &Life) -> Vec<String> {
    let out = live(life);
    let mut faults = Vec::new();
    let refused = places(life, &out, &mut faults);
    let truth = Truth::new(life, &out.rows, &refused);
    if truth.is_unclear() {
        // Keys and copies may be of either generation, or count; no packet is lost for that.
        faults.retain(|fault| fault.contains("not recorded"));
        return faults;
    }
    let shown = show(&out);
    groups(life, &shown, &truth, &mut faults);
    for event in &shown {
        let Some(first) = event.marks.first().and_then(|mark| life.packets.get(mark)) else {
            continue;
        };
        if truth.is_restart(first.trigger) {
            continue;
        }
        for fault in truth.judge(first.trigger, event.status, &event.missing) {
            let (generation, key) = (event.generation, event.key);
            faults.push(format!(
                "{fault}: trigger {}, generation {generation}, key {key}, {:?} {:?}",
                first.trigger, event.status, event.missing
            ));
        }
    }
    faults
}

/// Each packet that came is recorded once; each copy is a duplicate. Returns what was refused.
fn places(life: &Life, out: &Outcome, faults: &mut Vec<String>) -> Vec<u64> {
    let mut came: BTreeMap<u64, u64> = BTreeMap::new();
    out.rows
        .iter()
        .flat_map(|row| &row.marks)
        .for_each(|mark| *came.entry(*mark).or_default() += 1);
    let all_twice = came.iter().filter(|its| *its.1 > 1).count();
    let is_clear = |mark: &u64| !life.hides_restart(&life.packets[mark]);
    let twice = came.iter().filter(|its| *its.1 > 1 && is_clear(its.0)).count();
    let sent: BTreeSet<u64> = life.arrivals.iter().map(|sent| sent.mark).collect();
    let absent: Vec<u64> = sent.iter().filter(|mark| !came.contains_key(mark)).copied().collect();
    let copies = (life.arrivals.len() - sent.len()) as u64;
    let duplicates = out.total("duplicate") + out.total("event_duplicate");
    if twice > 0 {
        faults.push(format!("{twice} packets recorded twice"));
    }
    if !absent.is_empty() && !may_refuse(life, absent.len() as u64, out.total("late")) {
        faults.push(format!("{} packets not recorded: {:?}", absent.len(), &absent[..1]));
    }
    // A copy that fits no numbering is counted as late.
    if duplicates + out.total("late") != copies && absent.is_empty() && all_twice == 0 {
        faults.push(format!("{duplicates} duplicates of {copies}"));
    }
    absent
}

/// The packets of one trigger are one event.
fn groups(life: &Life, shown: &[Shown], truth: &Truth<'_>, faults: &mut Vec<String>) {
    let mut events_of: BTreeMap<usize, BTreeSet<(u32, u64)>> = BTreeMap::new();
    for event in shown {
        let triggers: BTreeSet<usize> =
            event.marks.iter().filter_map(|mark| Some(life.packets.get(mark)?.trigger)).collect();
        let of = (event.generation, event.key);
        for trigger in &triggers {
            events_of.entry(*trigger).or_default().insert(of);
        }
        if triggers.len() > 1 {
            faults.push(format!("{of:?} mixes triggers {triggers:?}"));
        }
    }
    let split = events_of.iter().filter(|its| its.1.len() > 1 && !truth.is_restart(*its.0));
    let split: Vec<_> = split.collect();
    if let Some(first) = split.first() {
        faults.push(format!("{} triggers are several events: {first:?}", split.len()));
    }
}

fn check(seeds: impl Iterator<Item = u64>) {
    let mut disagreeing = 0;
    let (mut lives, mut unclear) = (0, 0);
    for seed in seeds {
        let life = Life::new(seed);
        let faults = disagreements(&life);
        lives += 1;
        unclear += u64::from(Truth::new(&life, &[], &[]).is_unclear());
        if !faults.is_empty() {
            disagreeing += 1;
            println!("life {seed}: {} disagreements", faults.len());
            println!("    {:?} {} {:?}", life.widths, life.counters, life.boards);
            faults.iter().take(3).for_each(|fault| println!("    {fault}"));
        }
    }
    println!("{lives} lives, {disagreeing} disagree; generations of {unclear} are unclear");
    assert_eq!(disagreeing, 0, "lives disagree with the offline join");
}

#[test]
fn lives_of_boards_agree_with_an_offline_join_that_knows_everything() {
    check(runs(300));
}

#[test]
fn a_board_without_a_counter_is_usual_by_the_events_that_closed_since_it_joined() {
    check([11950, 49986, 57538, 71649, 75095].into_iter());
}

#[test]
fn a_restart_is_hidden_until_a_number_repeats_that_came() {
    check([95882, 11785, 30305, 116865, 136355].into_iter());
}

#[test]
fn copies_from_before_a_restart_was_noticed_are_recorded_again() {
    check([8164, 9305, 10226, 12172, 12502].into_iter());
}

#[test]
fn a_counter_that_begins_anew_splits_no_event_and_hides_no_loss() {
    check([8386, 38493, 78455, 7953, 71989, 40909, 69772, 78783].into_iter());
}

#[test]
fn a_key_that_was_wrong_for_its_spill_makes_no_later_packet_a_duplicate() {
    check([15743].into_iter());
}

#[test]
#[ignore = "all: five thousand lives take half a minute"]
fn five_thousand_lives_of_boards_agree_with_an_offline_join() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("FLUXLINE_RANDOM_FIRST").unwrap_or(0);
    let count: u64 = number("FLUXLINE_RANDOM_RUNS").unwrap_or(5_000);
    check(first..first + count);
}
