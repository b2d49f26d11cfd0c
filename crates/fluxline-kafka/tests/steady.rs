//! The steady clock of readout nodes: a clock that is set during a run moves no packet.
#![cfg(feature = "client")]

use fluxline_core::Moment;
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_kafka::cluster::steady::SteadyClock;

/// Smallest step that counts \[ns\].
const STEP_NS: i128 = 100_000_000;

fn ns(time: Moment) -> i128 {
    i128::from(time.as_ns())
}

fn moment(ns: i128) -> Moment {
    Moment::from_ns(u64::try_from(ns).expect("a time"))
}

const START: i128 = 1_700_000_000_000_000_000;
const HOUR: i128 = 3_600_000_000_000;

#[test]
fn clock_that_is_set_moves_the_times_of_packets() {
    let mut draw = Draw::new(test_seed!(81));
    for _ in 0..test_count!(50) {
        let mut clock = SteadyClock::new(moment(START), moment(0));
        let (mut set, mut now) = (0_i128, 0_i128);
        for _ in 0..300 {
            now += i128::from(draw.below(2_000_000));
            if draw.chance(0.02) {
                now += i128::from(STEP_NS as u64 + draw.below(1_000_000_000));
                let by = i128::from(200_000_000 + draw.below(HOUR as u64));
                set = if draw.chance(0.5) { set + by } else { set - by };
            }
            let steady = clock.look(moment(START + now + set), moment(now));
            assert!((ns(steady) - START - now).abs() < STEP_NS, "the time jumps");
            let packet = clock.correct(moment(START + now + set));
            assert!((ns(packet) - START - now).abs() < STEP_NS, "a packet jumps");
            assert!((i128::from(clock.step_ms()) * 1_000_000 - set).abs() < STEP_NS);
        }
    }
}

#[test]
fn packets_before_a_step_of_an_hour_keep_their_time() {
    for step in [HOUR, -HOUR] {
        let mut clock = SteadyClock::new(moment(START), moment(0));
        let now = 1_000_000_000;
        assert!(clock.is_strange(moment(START + now + step)));
        clock.look(moment(START + now + step), moment(now));
        let before = moment(START + now - 5_000_000);
        assert_eq!(clock.correct(before), before);
        assert_eq!(ns(clock.correct(moment(START + now + step))), START + now);
        assert_eq!(i128::from(clock.step_ms()) * 1_000_000, step);
    }
}
