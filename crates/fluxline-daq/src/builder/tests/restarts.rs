//! Counters and keys that begin anew, in ways that random lives showed.

use super::world::*;
use crate::event::EventStatus;

/// Packets of one source: key, and packet number.
fn board(source: u32, packets: impl IntoIterator<Item = (u64, u64)>) -> Vec<Sent> {
    packets.into_iter().map(|(key, count)| sent(key * MS, source, count, key)).collect()
}

#[test]
fn a_number_that_is_used_again_does_not_hide_its_first_loss() {
    let first = u64::from(u32::MAX) - 2;
    let before = (0..20).map(|key| (key, (first + key) & u64::from(u32::MAX)));
    let mut packets = board(1, before.filter(|its| its.1 != 0));
    // Off for 30 ms; the first number is the one that was lost.
    packets.extend(board(1, (50..100).map(|key| (key, key - 50))));
    packets.extend(board(0, (0..100).map(|key| (key, key))));
    let out = run(packets);
    let row = out.rows.iter().find(|row| row.key == 3).expect("an event");
    assert_eq!((row.status, row.missing.as_str()), (EventStatus::Incomplete, "board=1: lost"));
    assert_eq!(out.amendments, [], "nothing shows that the packet was not lost");
}

/// A board whose counter begins anew at key 100, just before a pause of 800 ms.
fn pause(keys: u64) -> Outcome {
    let mut world = World::new(shared(), WIDE);
    let mut now = 0;
    for key in 0..keys {
        let from = if key > 100 { 900 } else { 100 };
        while now < (key + from) * MS {
            world.poll(now);
            now += 5 * MS;
        }
        for (source, count) in [(0, key), (1, if key < 100 { key } else { key - 100 })] {
            world.push((key + from) * MS, sent((key + from) * MS, source, count, key));
        }
    }
    (0..800).step_by(5).for_each(|wait| world.poll(now + wait * MS));
    world.finish(now + 800 * MS)
}

#[test]
fn a_packet_that_is_kept_aside_during_a_pause_stays_in_its_generation() {
    let out = pause(200);
    assert!(out.rows.iter().all(|row| row.generation == 0), "{:?}", out.reports);
    assert_eq!(out.joined().values().filter(|sources| sources.len() == 2).count(), 200);
}

#[test]
fn a_packet_that_is_kept_aside_until_the_end_stays_in_its_generation() {
    let out = pause(101);
    assert!(out.rows.iter().all(|row| row.generation == 0), "{:?}", out.reports);
}

#[test]
fn a_wrong_key_does_not_take_the_place_of_the_same_key_in_the_next_spill() {
    let packets = |source: u32| {
        let keys = (0..200).chain(0..100).zip(0..);
        keys.map(move |(key, count)| {
            let at = count + if count >= 200 { 800 } else { 0 };
            let key = if (source, count) == (1, 150) { 7 } else { key };
            sent(at * MS + u64::from(source) * US, source, count, key)
        })
    };
    let out = run((0..2).flat_map(packets).collect());
    let last = out.rows.iter().map(|row| row.generation).max().expect("rows");
    let events = out.rows.iter().filter(|row| row.generation == last);
    let whole = |row: &&Row| row.status == EventStatus::Complete && row.sources.len() == 2;
    assert_eq!((events.clone().count(), events.filter(whole).count()), (100, 100));
}
