//! The present facts: a change of a model that moves one must change this list.

use std::sync::OnceLock;

use super::all;
use super::figure::{Fact, Figure, Kind};
use super::pair::Pair;
use super::scinet::{stand_a, stand_b};
use super::wire::{FixedLink, Link, link_lc1, link_lc2};
use crate::host::{Call, preset};
use crate::net::sci;
use crate::{Duration, Instant};

/// Each fact of each figure: the model's number, and true if it agrees with the paper.
const FACTS: &[(&str, &[(f64, bool)])] = &[
    ("scinet-7", &[(0.99, true), (1.00, true), (0.49, true), (3.76, true)]),
    ("scinet-8", &[(9.90, true), (9.93, true), (3.77, true)]),
    ("scinet-9", &[(12.50, true), (1.00, true), (12.48, true), (16384.00, false)]),
    ("scinet-10", &[(3.05, true), (3.23, true), (11.95, true), (12.40, true)]),
    ("scinet-11", &[(2.00, true), (128.00, true), (0.89, true)]),
    ("scinet-12", &[(3.44, true), (256.00, true), (0.79, true)]),
    ("scinet-13", &[(43.69, true), (1.02, true), (43.69, false), (34.04, true), (34.04, true)]),
    ("scinet-14", &[(4.88, true), (1.00, true)]),
    ("scinet-15", &[(4.88, true), (1.00, true)]),
    ("scinet-16", &[(4.88, true), (1.00, true)]),
    ("trams-1", &[(7.05, true), (11.55, true), (3.00, true), (0.30, true)]),
    ("trams-2", &[(81.31, true), (1.00, true)]),
    ("trams-3", &[(78.09, true), (28.74, true)]),
    ("trams-cpu", &[(184.00, true), (5.09, true), (15.00, true)]),
];

/// All figures, made once for all tests.
fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| all().expect("the presets"))
}

#[test]
fn a_published_point_stands_where_some_curve_of_its_figure_passes() {
    let figures = figures();
    let points = |figure: &Figure| figure.facts.iter().filter(|fact| fact.x.is_some()).count();
    assert!(figures.iter().map(points).sum::<usize>() >= 12, "most numbers are points");
    for figure in figures {
        for fact in &figure.facts {
            let Some(x) = fact.x else { continue };
            let passes = |at: &(f64, f64)| at.0 == x && (at.1 - fact.model).abs() <= 0.1 * at.1;
            let is_met = figure.curves.iter().any(|curve| curve.points.iter().any(passes));
            assert!(is_met, "{}: {} is not on a curve at {x}", figure.id, fact.text);
        }
        assert!(figure.published().is_sorted_by(|one, other| one.0 <= other.0), "{}", figure.id);
    }
}

#[test]
fn every_fact_is_where_it_was() {
    let figures = figures();
    let now: Vec<(&str, Vec<(f64, bool)>)> = figures
        .iter()
        .map(|figure| {
            let facts = figure.facts.iter();
            (figure.id, facts.map(|fact| (fact.model, fact.holds)).collect())
        })
        .collect();
    let mut moved = Vec::new();
    for ((id, facts), (was_id, was)) in now.iter().zip(FACTS) {
        assert_eq!(id, was_id);
        assert_eq!(facts.len(), was.len(), "{id}");
        for (number, (fact, was)) in facts.iter().zip(*was).enumerate() {
            if (fact.0 - was.0).abs() > 0.005 * was.0.abs() + 0.005 || fact.1 != was.1 {
                moved.push(format!("{id}, fact {number}: was {was:?}, is {fact:?}"));
            }
        }
    }
    assert_eq!(now.len(), FACTS.len());
    assert!(moved.is_empty(), "{}", moved.join("\n"));
}

#[test]
fn numbers_that_hold_are_within_the_tolerance_and_curves_are_complete() {
    let figures = figures();
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id).collect();
    assert_eq!(ids.len(), 14, "figures 7 to 16 and Trams' four: {ids:?}");
    for figure in figures {
        for fact in &figure.facts {
            let near = fact.deviation.abs() <= super::TOLERANCE;
            assert!(fact.kind == Kind::Shape || near == fact.holds, "{}", fact.text);
        }
        for curve in &figure.curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
            let sound = |point: &(f64, f64)| point.1.is_finite() && point.1 > 0.0;
            assert!(curve.points.iter().all(sound), "{} of {}", curve.name, figure.id);
        }
    }
}

#[test]
fn a_deviation_is_the_way_to_the_nearer_end() {
    let off = |paper, model| (Fact::number("", paper, model).deviation * 1000.0).round();
    assert_eq!(off(2.0..=3.0, 2.5), 0.0);
    assert_eq!(off(2.0..=3.0, 3.3), 100.0);
    assert_eq!(off(2.0..=3.0, 1.0), -500.0);
    assert!(!Fact::number("", 2.0..=3.0, 3.4).holds);
    assert!(!Fact::shape("", 2.0..=3.0, 3.01).holds);
}

#[test]
fn a_block_with_a_lost_packet_is_written_again_and_is_whole() {
    let mut pair = Pair::new(&preset::test_stand_b(4), link_lc1()).expect("a preset");
    pair.lose(1);
    assert_eq!(stand_b::checked_block(&mut pair, 256), 2);
    assert_eq!(stand_b::checked_block(&mut pair, 256), 1);
    let expected: Vec<u8> = (0..256_u32).map(|at| (at % 251) as u8 + 1).collect();
    assert_eq!(pair.memory(1)[..256], expected[..]);
}

#[test]
fn a_dead_link_is_not_retried_for_ever() {
    let mut pair = Pair::new(&preset::test_stand_b(1), link_lc1()).expect("a preset");
    pair.lose(u32::MAX);
    assert_eq!(stand_b::checked_block(&mut pair, 64), 16);
    assert_eq!(pair.written_bytes(1), 0);
}

#[test]
fn figures_repeat_to_the_bit() {
    assert_eq!(stand_a::figures().expect("a preset"), figures()[..2]);
}

/// Returns the time from the store of 64 B to the peer's memory.
fn one_way(link: Link) -> Duration {
    let mut pair = Pair::new(&preset::trams(), link).expect("a preset");
    pair.submit(Call::Store { to: 1, offset: 0, data: vec![1; 64] });
    pair.drain();
    pair.written_at(1).since(Instant::START)
}

#[test]
fn a_free_ring_takes_the_time_of_the_formula() {
    let config = sci::Config::lc2(2);
    let (symbol, hop_symbols) = (Duration::from_ns(5), u64::from(config.pass_symbols));
    let cable = u64::from(config.cable_symbols);
    let formula = one_way(Link::Fixed(FixedLink { symbol, hop_symbols: hop_symbols + cable }));
    let ring = one_way(link_lc2());
    let apart_ps = formula.as_ps().abs_diff(ring.as_ps());
    // A node takes a packet off before it would have passed it on.
    assert!(apart_ps <= symbol.times(hop_symbols).as_ps(), "formula {formula}, ring {ring}");
}

#[test]
fn blocks_are_whole_after_their_checks_on_a_ring_with_bit_errors() {
    for seed in 1..=5 {
        let mut config = sci::Config::lc1(2);
        config.faults = sci::Faults { bit_error_rate: 1e-4, seed };
        let link = Link::Ring(Box::new(config));
        let mut pair = Pair::new(&preset::test_stand_b(4), link).expect("a preset");
        let mut written = 0;
        for bytes in (16..=256).step_by(16) {
            pair.memory(1).fill(0);
            written += stand_b::checked_block(&mut pair, bytes);
            let expected: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
            assert_eq!(pair.memory(1)[..bytes as usize], expected[..], "seed {seed}, {bytes} B");
        }
        assert!(written > 16, "seed {seed}: nothing was lost, so nothing was tried");
    }
}
