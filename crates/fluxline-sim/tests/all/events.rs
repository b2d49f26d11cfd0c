//! Event building by hand on an Ethernet switch at 10 Gb/s, and its orders on congested networks.
//!
//! A fragment of 1,000 bytes is a frame of 1,054 bytes with its preamble, 843.2 ns, and 852.8 ns
//! with the gap behind it. A cable takes 10 ns, the switch 1 us.

use fluxline_sim::load::sweep::{EventOutcome, Outcome};
use fluxline_sim::scenario::Scenario;

const FRAME_NS: f64 = 843.2;
const FRAME_AND_GAP_NS: f64 = 852.8;

fn measure(network: &str, traffic: &str, load: f64) -> (Outcome, EventOutcome) {
    let text = format!(
        "[network]\n{network}\n[traffic]\npattern = \"event-building\"\n{traffic}\n[run]\n\
         warm-up-us = 100.0\nwarm-up-max-us = 100.0\nduration-us = 1000.0\n[confidence]\n\
         longest = 1\n"
    );
    let scenario = Scenario::parse("events", &text).expect("a scenario");
    let outcome = scenario.measure(load).expect("it runs").outcome;
    let events = outcome.events.expect("events are built");
    println!("{network}, {traffic}: {events:?}");
    (outcome, events)
}

fn switch(nodes: u32, traffic: &str, load: f64) -> (Outcome, EventOutcome) {
    let network = format!("kind = \"ethernet\"\nnodes = {nodes}");
    measure(&network, &format!("bytes = 1000\n{traffic}"), load)
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.003
}

/// Two fragments leave at the trigger. The second one waits in the switch for the first.
#[test]
fn an_event_of_two_sources_takes_two_links_the_switch_and_a_frame_more() {
    for order in ["together", "shifted"] {
        let traffic = format!("builders = 1\norder = \"{order}\"\narrivals = \"periodic\"");
        let (_, events) = switch(3, &traffic, 0.02);
        let expected = 2.0 * FRAME_NS + 2.0 * 10.0 + 1000.0 + FRAME_AND_GAP_NS;
        let found = events.max.as_us() * 1e3;
        assert!((found - expected).abs() < 1.0, "{order}: {found} ns, not {expected}");
        // 25 MB/s of a source: an event every 40 us, with both fragments waiting for so long.
        assert!(is_near(events.per_s, 25_000.0), "{order}: {}", events.per_s);
        assert_eq!((events.waiting_most, events.memory_most), (2, 2000), "{order}");
        let waiting = (2.0 * found - FRAME_AND_GAP_NS) / 40_000.0;
        assert!(is_near(events.waiting_mean, waiting), "{order}: {}", events.waiting_mean);
        let memory = 1000.0 * FRAME_AND_GAP_NS / 40_000.0;
        assert!(is_near(events.memory_mean, memory), "{order}: {}", events.memory_mean);
    }
}

#[test]
fn events_a_second_are_what_the_busiest_link_carries() {
    for (nodes, builders, fragments_of_link) in [(3, 1, 2.0), (4, 2, 1.0), (6, 2, 2.0)] {
        for order in ["together", "shifted"] {
            let traffic = format!("builders = {builders}\norder = \"{order}\"\nwindow = 16");
            let (outcome, events) = switch(nodes, &traffic, 1.0);
            let expected = 1e9 / FRAME_AND_GAP_NS / fragments_of_link;
            let name = format!("{nodes} nodes, {builders} builders, {order}");
            assert!(is_near(events.per_s, expected), "{name}: {} of {expected}", events.per_s);
            assert_eq!((events.incomplete, events.vetoed), (0, 0), "{name}");
            // What is delivered is what is built.
            let delivered: f64 = outcome.targets.iter().map(|of| of.delivered).sum();
            assert!(is_near(events.bytes_per_s, delivered), "{name}: {}", events.bytes_per_s);
        }
    }
}

#[test]
fn the_slowest_source_limits_all_others() {
    let network = "kind = \"ethernet\"\nnodes = 4\n[ethernet]\nmtu = 9000\n[[node]]\nnodes = [0]\n\
                   load = 2.0";
    for order in ["together", "shifted", "credits"] {
        let traffic = format!("bytes = 1000\nbuilders = 2\norder = \"{order}\"\nwindow = 16");
        let (outcome, events) = measure(network, &traffic, 1.0);
        let limit = 1e9 / (FRAME_AND_GAP_NS + 800.0);
        let is_reached = if order == "credits" { events.per_s > 0.5 * limit } else { true };
        assert!(events.per_s < 1.003 * limit && is_reached, "{order}: {} of {limit}", events.per_s);
        if order != "credits" {
            assert!(is_near(events.per_s, limit), "{order}: {} of {limit}", events.per_s);
        }
        // Sources of a closed loop cannot run apart: fragments under way are all that differs.
        let [slow, fast] = [0, 1].map(|node: usize| outcome.sources[node].delivered);
        assert!((slow / fast - 2.0).abs() < 0.04, "{order}: {slow} and {fast} bytes/s");
    }
}

#[test]
fn a_builder_never_has_more_than_its_memory_and_waits_for_room() {
    for order in ["together", "shifted", "credits"] {
        let traffic =
            format!("builders = 2\norder = \"{order}\"\nwindow = 64\nbuilder-bytes = 6500");
        let (_, events) = switch(8, &traffic, 1.0);
        assert!(events.memory_most <= 6000 && events.built > 100, "{order}: {events:?}");
        assert_eq!(events.incomplete, 0, "{order}");
        assert!(events.waiting_most >= 6 * 60, "{order}: {}", events.waiting_most);
    }
}

/// All at once sends eight frames to one port, whose queue holds four.
#[test]
fn all_at_once_loses_frames_in_a_small_switch_and_the_other_orders_do_not() {
    let network = "kind = \"ethernet\"\nnodes = 16\n[ethernet]\nqueue = 4400";
    let built = |order: &str| {
        let traffic = format!(
            "bytes = 1000\nbuilders = 8\norder = \"{order}\"\nwindow = 16\npatience-us = 100.0"
        );
        measure(network, &traffic, 1.0).1
    };
    let (together, shifted, credits) = (built("together"), built("shifted"), built("credits"));
    assert!(together.incomplete > together.built, "{together:?}");
    assert_eq!((shifted.incomplete, credits.incomplete), (0, 0));
    assert!(shifted.per_s > 10.0 * together.per_s && credits.per_s > 10.0 * together.per_s);
}

#[test]
fn a_barrel_shifter_builds_more_than_all_at_once_where_buffers_are_small() {
    let network = "kind = \"torus\"\nside = 4";
    let built = |order: &str| {
        let traffic = format!("bytes = 640\nbuilders = 8\norder = \"{order}\"\nwindow = 32");
        let (_, events) = measure(network, &traffic, 1.0);
        assert_eq!((events.incomplete, events.vetoed), (0, 0), "{order}");
        events.per_s
    };
    let (together, shifted, credits) = (built("together"), built("shifted"), built("credits"));
    assert!(shifted > 1.05 * together, "{shifted} and {together} events/s");
    assert!(credits > 1.08 * together, "{credits} and {together} events/s");
}

#[test]
fn every_network_builds_events_whose_fragments_arrive_once() {
    for network in [
        "nodes = 6",
        "kind = \"sci-torus\"\nside = 2",
        "kind = \"sci-switch\"\nnodes = 2\nports = 3",
        "kind = \"ring\"\nnodes = 6",
        "kind = \"mesh\"\nside = 3",
        "kind = \"atoll-torus\"\nside = 3",
        "kind = \"ethernet\"\nnodes = 6",
        "kind = \"ethernet\"\nnodes = 6\n[host]\nstack = \"pci-e\"",
    ] {
        for order in ["together", "shifted", "credits"] {
            let traffic = format!("bytes = 200\nbuilders = 2\norder = \"{order}\"\nwindow = 8");
            let (outcome, events) = measure(network, &traffic, 1.0);
            assert!(events.built > 10, "{network}, {order}: {events:?}");
            assert_eq!((events.incomplete, events.vetoed), (0, 0), "{network}, {order}");
            let fragments = events.waiting_most + outcome.messages;
            let sources = outcome.sources.iter().filter(|of| of.offered > 0.0).count() as u64;
            assert!(fragments >= events.built * sources, "{network}, {order}");
        }
    }
}

#[test]
fn a_network_that_cannot_follow_vetoes_triggers_and_says_so() {
    let network = "kind = \"ethernet\"\nnodes = 6";
    let traffic = "bytes = 500\nbuilders = 1\norder = \"together\"\nbuilder-bytes = 25000";
    let (_, events) = measure(network, traffic, 0.9);
    // Five sources at 0.9 of a link each, and one link to the builder: 500 bytes take 452.8 ns.
    let carried = 1e9 / 452.8 / 5.0;
    assert!(is_near(events.per_s, carried), "{} of {carried}", events.per_s);
    assert!(events.vetoed > 0, "{events:?}");
}
