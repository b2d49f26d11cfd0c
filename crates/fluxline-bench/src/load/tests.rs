//! Latency under load: intended times, stalls of the far side, and rates that cannot be kept.

use super::*;
use crate::environment::Simulated;

/// Two nodes of plain memory; every turn takes `turn_ns`, and one takes `stall_ns`.
fn simulated(turn_ns: u64, stall_at_turn: u64, stall_ns: u64) -> Simulated {
    let mut turn = 0;
    Simulated::in_memory(1 << 20, move || {
        turn += 1;
        if turn - 1 == stall_at_turn { stall_ns } else { turn_ns }
    })
}

fn answered(simulated: &mut Simulated, rate: f64) -> Answered {
    offered(simulated, &Offer { rate, seconds: 0.1, bytes: 64 }).expect("it runs")
}

#[test]
fn a_rate_that_is_kept_is_answered_at_that_rate_within_some_turns() {
    let answered = answered(&mut simulated(500, u64::MAX, 0), 10_000.0);
    assert!((answered.rate / 10_000.0 - 1.0).abs() < 0.02, "{answered:?}");
    assert!(answered.latency_ns[3] <= 10_000 && answered.unsent == 0, "{answered:?}");
}

#[test]
fn a_stall_makes_all_messages_late_that_were_due_in_it() {
    // 10 ms of 100 ms stand still: a tenth of the messages waits, 5 ms in the middle.
    let answered = answered(&mut simulated(500, 50_000, 10_000_000), 10_000.0);
    let [p50, p99, _, most] = answered.latency_ns;
    assert!(p50 < 10_000, "{answered:?}");
    assert!((8_000_000..10_100_000).contains(&p99), "{answered:?}");
    assert!((9_900_000..10_100_000).contains(&most), "{answered:?}");
}

#[test]
fn a_rate_beyond_the_link_ends_in_time_and_is_not_called_kept() {
    // A turn a message at most: 64 a step of 100 us are the limit.
    let mut simulated = simulated(100_000, u64::MAX, 0);
    let answered = answered(&mut simulated, 5e6);
    assert!(answered.rate < 0.9 * 5e6 && answered.unsent > 0, "{answered:?}");
}

#[test]
fn loads_that_make_no_sense_are_refused() {
    for (rate, seconds, bytes) in
        [(0.0, 1.0, 64), (-1.0, 1.0, 64), (1.0, 0.0, 64), (1.0, 1.0, 0), (1.0, 1e9, 64)]
    {
        let offer = serde_json::json!({ "rate": rate, "seconds": seconds, "bytes": bytes });
        assert!(make(&offer, Side::Near).is_err(), "{offer}");
    }
    assert!(make(&Value::Null, Side::Far).is_err());
}
