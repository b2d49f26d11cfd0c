//! Counts that check the promises of a plan.

use super::{Arrivals, Message, Pattern, Plan, Size, Traffic};
use crate::Instant;

fn plan(nodes: u32, pattern: Pattern) -> Plan {
    let arrivals = Arrivals::Poisson { bytes_per_s: 1e9 };
    Plan { nodes, pattern, arrivals, size: Size::Fixed(100), seed: 5 }
}

/// The first messages of each node.
fn messages(plan: Plan, each: usize) -> Vec<Message> {
    let nodes = plan.nodes;
    let mut traffic = Traffic::new(plan).expect("a sensible plan");
    let mut all = Vec::new();
    for node in 0..nodes {
        all.extend((0..each).map_while(|_| traffic.next(node, Instant::START)));
    }
    all
}

fn received(messages: &[Message], nodes: u32) -> Vec<usize> {
    let mut counts = vec![0; nodes as usize];
    messages.iter().for_each(|message| counts[message.to as usize] += 1);
    counts
}

#[test]
fn no_node_sends_to_itself_in_any_pattern() {
    let patterns = [
        Pattern::Uniform,
        Pattern::Neighbour { distance: 3 },
        Pattern::HotReceiver { node: 2, share: 0.5 },
        Pattern::HotSender { node: 2, factor: 4.0 },
        Pattern::BitComplement,
        Pattern::Transpose,
    ];
    for pattern in patterns {
        let all = messages(plan(16, pattern.clone()), 200);
        assert!(all.len() >= 12 * 200, "{pattern:?}");
        assert!(all.iter().all(|message| message.to != message.source && message.to < 16));
    }
}

#[test]
fn uniform_reaches_all_others_equally() {
    let counts = received(&messages(plan(9, Pattern::Uniform), 8_000), 9);
    assert!(counts.iter().all(|count| (7_600..8_400).contains(count)), "{counts:?}");
}

#[test]
fn a_hot_receiver_gets_its_share_besides_its_part_of_the_rest() {
    let all = messages(plan(11, Pattern::HotReceiver { node: 4, share: 0.3 }), 10_000);
    let share = received(&all, 11)[4] as f64 / 100_000.0;
    // 0.3 of ten sources, and a tenth of the remaining 0.7.
    assert!((share - 0.37).abs() < 0.01, "{share}");
}

#[test]
fn a_hot_sender_sends_so_many_times_as_often() {
    let all = messages(plan(8, Pattern::HotSender { node: 1, factor: 5.0 }), 4_000);
    let end = |node| all.iter().filter(|message| message.source == node).map(|m| m.at).max();
    let (hot, other) = (end(1).expect("sent"), end(0).expect("sent"));
    let factor = other.as_ps() as f64 / hot.as_ps() as f64;
    assert!((4.5..5.5).contains(&factor), "{factor}");
}

#[test]
fn complement_and_transpose_are_their_own_inverse() {
    for pattern in [Pattern::BitComplement, Pattern::Transpose] {
        let all = messages(plan(16, pattern), 1);
        for message in &all {
            let back = all.iter().find(|other| other.source == message.to).expect("answers");
            assert_eq!(back.to, message.source);
        }
    }
    assert_eq!(messages(plan(16, Pattern::BitComplement), 1)[5].to, !5 & 15);
    assert_eq!(messages(plan(16, Pattern::Transpose), 1).len(), 12);
}

#[test]
fn an_open_loop_offers_the_load_of_the_plan() {
    for periodic in [true, false] {
        let bytes_per_s = 3e8;
        let arrivals = if periodic {
            Arrivals::Periodic { bytes_per_s }
        } else {
            Arrivals::Poisson { bytes_per_s }
        };
        let size = Size::Mix(vec![(64, 3), (1024, 1)]);
        let plan = Plan { nodes: 2, pattern: Pattern::Uniform, arrivals, size, seed: 1 };
        let all = messages(plan, 40_000);
        let bytes: u64 = all[..40_000].iter().map(|message| u64::from(message.bytes)).sum();
        let rate = bytes as f64 / (all[39_999].at.as_ps() as f64 / 1e12);
        assert!((rate / bytes_per_s - 1.0).abs() < 0.02, "{rate}");
    }
}

#[test]
fn a_closed_loop_waits_for_deliveries() {
    let mut closed = plan(4, Pattern::Uniform);
    closed.arrivals = Arrivals::Window { messages: 2 };
    let mut traffic = Traffic::new(closed).expect("a sensible plan");
    let now = Instant::from_ps(77);
    assert!(traffic.next(0, now).is_some_and(|message| message.at == now));
    assert!(traffic.next(0, now).is_some() && traffic.next(0, now).is_none());
    traffic.delivered(0);
    assert!(traffic.next(0, now).is_some() && traffic.next(0, now).is_none());
}

#[test]
fn a_seed_repeats_and_another_one_differs() {
    let with = |seed| messages(Plan { seed, ..plan(6, Pattern::Uniform) }, 50);
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn senseless_plans_are_refused_with_a_sentence() {
    let uniform = plan(4, Pattern::Uniform);
    let cases = [
        (plan(1, Pattern::Uniform), "2 or more"),
        (plan(4, Pattern::Neighbour { distance: 8 }), "itself"),
        (plan(4, Pattern::HotReceiver { node: 4, share: 0.1 }), "0 to 3"),
        (plan(4, Pattern::HotReceiver { node: 1, share: 1.5 }), "0 to 1"),
        (plan(4, Pattern::HotSender { node: 1, factor: f64::NAN }), "positive"),
        (plan(8, Pattern::Transpose), "square"),
        (Plan { size: Size::Fixed(0), ..uniform.clone() }, "one byte"),
        (Plan { arrivals: Arrivals::Window { messages: 0 }, ..uniform.clone() }, "1 or more"),
        (Plan { arrivals: Arrivals::Window { messages: u32::MAX }, ..uniform.clone() }, "up to"),
        (Plan { arrivals: Arrivals::Poisson { bytes_per_s: 0.0 }, ..uniform.clone() }, "positive"),
        (Plan { arrivals: Arrivals::Periodic { bytes_per_s: 1e300 }, ..uniform }, "lower rate"),
    ];
    for (plan, part) in cases {
        let text = Traffic::new(plan).expect_err("refused").to_string();
        assert!(text.contains(part), "{text}");
    }
}
