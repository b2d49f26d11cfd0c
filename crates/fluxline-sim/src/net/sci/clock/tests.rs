//! Global clocks: exact values are tested to the picosecond; every break is noticed and reported.

use super::{
    Config, Correction, Discipline, Loaded, LoadedEntry, Measured, Report, loaded, measure,
};
use crate::core::fault::{Fault, FaultKind};
use crate::core::model;
use crate::net::sci;
use crate::{Agenda, Duration, Fingerprint, Instant};

const NODES: u32 = 8;

fn ring() -> sci::Config {
    sci::Config::ring(NODES)
}

/// Clocks that show every picosecond.
fn exact() -> Config {
    Config { tick: Duration::from_ps(1), ..Config::default() }
}

fn measured(config: &Config, load: f64) -> Measured {
    let measured = measure(&ring(), config, load, Duration::from_us(5_000)).expect("fits");
    assert_eq!(measured.unbalanced, None);
    measured
}

#[test]
fn without_drift_and_load_every_node_has_the_master_s_time_to_the_picosecond() {
    for discipline in [Discipline::Step, Discipline::Rate] {
        for correction in [Correction::None, Correction::Departure, Correction::Residence] {
            for master in [0, 3, NODES - 1] {
                let config = Config { drift_ppb_max: 0, discipline, correction, master, ..exact() };
                let measured = measured(&config, 0.0);
                assert_eq!(measured.largest_ps(), 0, "{config:?}");
                let samples: Vec<u64> = measured.nodes.iter().map(|node| node.count()).collect();
                let is_master = |node: usize| node == master as usize;
                assert!((0..).zip(&samples).all(|(at, &count)| is_master(at) == (count == 0)));
                assert_eq!((measured.counters.skipped, measured.counters.missing), (0, 0));
            }
        }
    }
}

#[test]
fn symbols_of_no_whole_picoseconds_leave_no_error_either() {
    let config = Config { drift_ppb_max: 0, ..exact() };
    let lc3 = sci::Config::lc3(5);
    let measured = measure(&lc3, &config, 0.2, Duration::from_us(3_000)).expect("fits");
    assert_eq!(measured.largest_ps(), 0);
}

#[test]
fn coarse_clocks_err_by_less_than_three_of_their_ticks() {
    let config = Config { drift_ppb_max: 0, tick: Duration::from_ps(2_500), ..exact() };
    let largest_ps = measured(&config, 0.0).largest_ps();
    assert!((1..7_500).contains(&largest_ps), "{largest_ps}");
}

/// A node's error is largest just before the next strobe takes effect: one period, and the 8
/// symbols of the strobe, after its last stamp.
#[test]
fn a_node_that_steps_is_off_by_its_drift_times_the_period_and_no_more() {
    for period_us in [20, 100, 500] {
        let period = Duration::from_us(period_us);
        let config = Config { period, discipline: Discipline::Step, ..exact() };
        let (mut agenda, mut print) = (Agenda::default(), Fingerprint::default());
        let mut loaded = loaded(&ring(), &config, 0.0, &[], &mut agenda).expect("fits");
        model::run(&mut loaded, &mut agenda, &mut print, Instant::START + period.times(20));
        let clock = &loaded.network().clock;
        for node in 1..NODES {
            let drift_ppb = u128::from(clock.local(node).drift_ppb.unsigned_abs());
            let longest_ps = u128::from(period.as_ps() + 8 * 2_000);
            let expected_ps = drift_ppb * longest_ps / 1_000_000_000;
            let largest_ps = clock.errors(node).largest_ps();
            // One picosecond for each of the two readings.
            assert!(largest_ps.abs_diff(expected_ps) <= 2, "{largest_ps} for {expected_ps}");
        }
    }
}

#[test]
fn a_node_that_follows_the_rate_does_not_mind_a_drift_that_stays() {
    let config = Config { drift_ppb_max: 1_000_000, ..exact() };
    let largest_ps = measured(&config, 0.0).largest_ps();
    assert!(largest_ps <= 4, "{largest_ps} ps at 1000 ppm");
}

#[test]
fn known_delays_take_the_load_out_of_the_time_and_unknown_ones_do_not() {
    let largest_ps = |correction| {
        let config = Config { drift_ppb_max: 0, correction, ..exact() };
        measured(&config, 0.15).largest_ps()
    };
    let (none, departure, residence) = (
        largest_ps(Correction::None),
        largest_ps(Correction::Departure),
        largest_ps(Correction::Residence),
    );
    println!("load 0.15: none {none} ps, departure {departure} ps, residence {residence} ps");
    assert_eq!(residence, 0);
    assert!(departure > 2_000 && none > departure, "{none} {departure}");
}

#[test]
fn two_runs_of_one_seed_are_one_and_another_seed_is_another() {
    let run = |seed| {
        let measured = measured(&Config { seed, ..Config::default() }, 0.1);
        (measured.fingerprint, measured.nodes)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

/// Runs a ringlet for 40 periods, with the cable behind `node` pulled after 10; returns the nodes
/// that miss strobes.
fn broken(node: u32, load: f64) -> (Vec<u32>, Loaded) {
    let config = exact();
    let (mut agenda, mut print) = (Agenda::<LoadedEntry>::default(), Fingerprint::default());
    let at = Instant::START + config.period.times(10);
    let faults = [Fault { at, kind: FaultKind::Cable(node) }];
    let mut loaded = loaded(&ring(), &config, load, &faults, &mut agenda).expect("fits");
    model::run(&mut loaded, &mut agenda, &mut print, Instant::START + config.period.times(40));
    loaded.network().network.check_conservation().expect("all is accounted for");
    let reports = std::iter::from_fn(|| loaded.network_mut().clock.next_report());
    let mut nodes: Vec<u32> = reports
        .map(|report| match report {
            Report::Missing { node, last: Some(_) } => node,
            other => panic!("{other:?}"),
        })
        .collect();
    nodes.sort_unstable();
    (nodes, loaded)
}

#[test]
fn a_pulled_cable_is_noticed_behind_it_and_by_the_master_and_said_once() {
    let (nodes, loaded) = broken(4, 0.0);
    // Strobes reach nodes 1 to 4; nodes 5 to 7 and the master, 0, receive no more.
    assert_eq!(nodes, [0, 5, 6, 7]);
    assert_eq!(loaded.network().clock.counters().missing, 4);
    // With traffic, the ringlet is declared dead because no echo comes: the master sends no more
    // strobes.
    assert_eq!(broken(4, 0.05).0, Vec::from_iter(0..NODES));
}

#[test]
fn a_dead_master_is_missed_by_all() {
    let config = exact();
    let (mut agenda, mut print) = (Agenda::<LoadedEntry>::default(), Fingerprint::default());
    let faults = [Fault { at: Instant::START, kind: FaultKind::Power(0) }];
    let mut loaded = loaded(&ring(), &config, 0.0, &faults, &mut agenda).expect("fits");
    model::run(&mut loaded, &mut agenda, &mut print, Instant::START + config.period.times(9));
    let clock = &mut loaded.network_mut().clock;
    let reports: Vec<Report> = std::iter::from_fn(|| clock.next_report()).collect();
    assert_eq!(reports.len() as u32, NODES);
    assert!(reports.iter().all(|report| matches!(report, Report::Missing { last: None, .. })));
    let now = agenda.now();
    assert!((0..NODES).all(|node| clock.time(node, now).is_none()));
}

/// Bit errors destroy single strobes: nodes notice the missing numbers and keep time meanwhile.
#[test]
fn strobes_lost_to_bit_errors_are_counted_and_cost_only_what_the_drift_makes_of_the_gap() {
    let faults = sci::Faults { bit_error_rate: 1e-4, seed: 4 };
    let network = sci::Config { faults, ..ring() };
    let config = Config { discipline: Discipline::Step, patience_periods: 10, ..exact() };
    let measured = measure(&network, &config, 0.0, Duration::from_us(50_000)).expect("fits");
    assert_eq!(measured.unbalanced, None);
    let counters = measured.counters;
    println!("{counters:?}, largest {} ps", measured.largest_ps());
    assert!(counters.skipped > 20 && counters.missing == 0, "{counters:?}");
    // 50 ppm for at most 10 periods of 100 us.
    assert!(measured.largest_ps() <= 50_000, "{}", measured.largest_ps());
}

#[test]
fn strobes_that_come_again_are_told_after_each_gap_and_only_then() {
    let faults = sci::Faults { bit_error_rate: 3e-4, seed: 8 };
    let network = sci::Config { faults, ..ring() };
    let config = Config { patience_periods: 2, ..exact() };
    let measured = measure(&network, &config, 0.0, Duration::from_us(30_000)).expect("fits");
    let mut is_missing = [false; NODES as usize];
    for report in &measured.reports {
        let (node, now_missing) = match report {
            Report::Missing { node, .. } => (*node, true),
            Report::Back { node, skipped } => {
                assert!(*skipped > 0, "{report:?}");
                (*node, false)
            }
        };
        assert_ne!(std::mem::replace(&mut is_missing[node as usize], now_missing), now_missing);
    }
    let missing = measured.reports.iter().filter(|it| matches!(it, Report::Missing { .. }));
    assert_eq!(missing.count() as u64, measured.counters.missing);
    assert!(measured.counters.missing > 10, "{:?}", measured.counters);
}

#[test]
fn a_clock_that_cannot_be_is_refused_in_one_sentence() {
    let torus = sci::Config::lc3(2).joined(sci::Topology::Torus { sizes: vec![2, 2] });
    let good = exact();
    let cases = [
        (Config { master: 8, ..good }, ring(), "the master is node 8; nodes are 0 to 7"),
        (good, torus, "one ringlet"),
        (Config { period: Duration::from_ps(80_000), ..good }, ring(), "is too short"),
        (Config { drift_ppb_max: 2_000_000, ..good }, ring(), "a drift of 2000 ppm is too large"),
        (Config { samples: 0, ..good }, ring(), "samples is 0: give at least 1"),
        (Config { tick: Duration::ZERO, ..good }, ring(), "the tick of a clock [ps] is 0"),
        (Config { patience_periods: 1, ..good }, ring(), "patience_periods is 1: give at least 2"),
    ];
    for (config, network, expected) in cases {
        let error = measure(&network, &config, 0.0, Duration::from_us(100)).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(measure(&ring(), &good, -1.0, Duration::from_us(100)).is_err(), "a load below 0");
}
