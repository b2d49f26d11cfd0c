//! A storm over an experiment of several processes: builders, readouts, the broker and a consumer
//! are killed, stopped and started again. Each packet is in exactly one event or in a named row,
//! and the status of events is true.
//!
//! It lasts a minute; `SECONDS_OF_STORM=600` makes it ten.

mod boards;
mod judge;
mod lab;
mod weather;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use boards::{BOARDS, Boards};
use fluxline_core::random::{Draw, test_seed};
use judge::Name;
use lab::StormLab;
use weather::Storm;

use crate::packets::Packet;
use crate::process::WITHIN;

/// Seconds that the storm lasts: `SECONDS_OF_STORM` of the environment, or 60. Each deed comes once
/// in any case.
fn seconds() -> u64 {
    std::env::var("SECONDS_OF_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Time after which packets are not late any more, and before which they are not lost.
const CALM_AFTER: Duration = Duration::from_millis(1_500);

#[test]
fn storm_over_processes_loses_no_packet_without_a_name_and_doubles_none() {
    let mut draw = Draw::new(test_seed!(5));
    let lab = StormLab::new();
    let mut storm = Storm::begin(&lab, Draw::new(draw.bits()));
    let boards = Boards::start(lab.ports, draw.bits());
    // The first outage may reach back by 3 s, when a readout dies soon after it.
    std::thread::sleep(6 * CALM_AFTER);
    let began = Instant::now();
    let lasts = Duration::from_secs(seconds());
    while began.elapsed() < lasts || !storm.has_done_everything() {
        assert!(began.elapsed() < lasts + WITHIN, "some deeds do not come: {storm}");
        storm.rage();
    }
    println!("after {:.1} s: {storm}", began.elapsed().as_secs_f64());
    let (readouts, builders) = storm.calm();
    std::thread::sleep(Duration::from_millis(500));
    let sent = boards.end();
    std::thread::sleep(Duration::from_millis(500));
    lab.done(&["ctl", &lab.address(), "stop"]);
    for readout in readouts {
        let name = readout.name.clone();
        let (status, _, said) = readout.end();
        assert_eq!(status, Some(0), "{name}: {said}");
    }
    for builder in builders {
        let name = builder.name.clone();
        let (status, _, said) = builder.end();
        assert!(judge::ended_with_its_run(status, &said), "{name}: {status:?}: {said}");
    }
    let (losses, troubles) = (storm.losses.clone(), storm.troubles());
    println!("the run ended after {:.1} s: {storm}", began.elapsed().as_secs_f64());

    let events = judge::gather(&lab);
    let built = judge::packets_of(&events);
    let committed = judge::assert_ledger(&lab, built.len() as u64, sent.len() as u64);
    storm.finish_consumer(committed);
    judge::assert_consumed_once(&lab);
    assert_eq!(judge::consumed(&lab), committed, "the ledger has another number of events");
    let sure = sent.iter().filter(|packet| {
        let readout = usize::from(packet.board / BOARDS);
        !losses.iter().any(|(of, span)| *of == readout && span.is_near(packet.time, Duration::ZERO))
    });
    let sure: BTreeSet<Name> = sure.map(name_of).collect();
    let mut sent_of: BTreeMap<u64, Vec<Packet>> = BTreeMap::new();
    sent.iter().for_each(|packet| sent_of.entry(packet.event).or_default().push(*packet));
    let last = sent.last().expect("packets").event;
    let lost: Vec<&Name> = sure.difference(&built).collect();
    assert!(lost.is_empty(), "{} packets are lost far from any death: {lost:?}", lost.len());

    let (mut calm, mut whole) = (0, 0);
    for (key, event) in &events {
        let is_its = |name: &Name| sent_of[key].iter().any(|packet| name_of(packet) == *name);
        assert!(event.packets.iter().all(is_its), "event {key} has a packet of another one");
        let is_complete = event.rows.iter().all(|status| status == "complete");
        let has_all = event.packets.len() == usize::from(2 * BOARDS);
        whole += u32::from(has_all);
        let times = sent_of[key].iter().map(|packet| packet.time);
        let is_near = |time: u64| troubles.iter().any(|span| span.is_near(time, CALM_AFTER));
        let is_last = *key + 200 > last;
        if !is_last && !times.into_iter().any(is_near) {
            assert_eq!(is_complete, has_all, "the status of event {key}: {event:?}");
            calm += 1;
        }
    }
    assert!(calm > 0, "no event is far from all troubles");
    println!(
        "{} packets sent, {} in {} events, of which {whole} have all and {calm} were built in calm \
         moments",
        sent.len(),
        built.len(),
        events.len()
    );
}

fn name_of(packet: &Packet) -> Name {
    (packet.board, packet.number)
}
