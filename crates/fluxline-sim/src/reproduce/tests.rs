//! The present facts: a change of a model that moves one must change this list.

use std::sync::OnceLock;

use super::pair::Pair;
use super::sci::{stand_a, stand_b, trams};
use super::wire::{FixedLink, Link, link_lc1, link_lc2};
use super::{Comparison, Fact, Judged, NUMBER, Origin, Parameter, SETS, SHAPE, Set, Verdict};
use crate::host::{Call, preset};
use crate::net::sci;
use crate::{Duration, Instant};

/// Each fact: the model's number, and its verdict.
const FACTS: &[(&str, f64, Verdict)] = &[
    ("scinet-7-peak", 0.991, Verdict::Predicted),
    ("scinet-7-half-writes", 0.495, Verdict::Calibrated),
    ("scinet-7-half-reads", 0.994, Verdict::Missed),
    ("scinet-7-ratio", 3.780, Verdict::Calibrated),
    ("scinet-most-a", 45.042, Verdict::Calibrated),
    ("scinet-8-set-up", 9.749, Verdict::Calibrated),
    ("scinet-8-slope", 3.795, Verdict::Calibrated),
    ("scinet-9-rate", 12.500, Verdict::Calibrated),
    ("scinet-9-flat", 1.000, Verdict::Predicted),
    ("scinet-9-checked", 16384.000, Verdict::Missed),
    ("scinet-10-small", 3.230, Verdict::Calibrated),
    ("scinet-10-checked", 12.400, Verdict::Calibrated),
    ("scinet-11-linear", 0.859, Verdict::Calibrated),
    ("scinet-11-sizes", 1.000, Verdict::Predicted),
    ("scinet-11-peaks", 0.889, Verdict::Predicted),
    ("scinet-13-most", 43.686, Verdict::Calibrated),
    ("scinet-13-saturation", 1.017, Verdict::Predicted),
    ("scinet-13-fall-512", 43.686, Verdict::Missed),
    ("scinet-13-fall-more", 34.043, Verdict::Calibrated),
    ("scinet-latency", 4.880, Verdict::Predicted),
    ("trams-user", 7.005, Verdict::Calibrated),
    ("trams-kernel", 11.505, Verdict::Calibrated),
    ("trams-return", 3.000, Verdict::Calibrated),
    ("trams-short", 0.299, Verdict::Predicted),
    ("trams-stores", 77.989, Verdict::Calibrated),
    ("trams-reverse", 0.549, Verdict::Predicted),
    ("trams-levels", 4.605, Verdict::Missed),
    ("trams-bus", 30.229, Verdict::Calibrated),
    ("trams-slow-down", 15.000, Verdict::Calibrated),
    ("trams-crossing", 184.000, Verdict::Predicted),
    ("omang-lc1-ring", 154.112, Verdict::Missed),
    ("omang-lc1-switch", 285.184, Verdict::Missed),
    ("omang-lc2-total", 278.016, Verdict::Predicted),
    ("hexsel-knee", 66.189, Verdict::Predicted),
    ("galli-1500-rate", 4.988, Verdict::Calibrated),
    ("galli-1500-khz", 423.600, Verdict::Calibrated),
    ("galli-1500-system", 97.909, Verdict::Predicted),
    ("galli-1500-bottleneck", 1.384, Verdict::Predicted),
    ("galli-9000-rate", 9.718, Verdict::Calibrated),
    ("galli-9000-bottleneck", 1.023, Verdict::Calibrated),
    ("galli-9000-softirq", 49.652, Verdict::Calibrated),
    ("galli-9000-system", 49.651, Verdict::Calibrated),
    ("galli-two-cable", 99.924, Verdict::Calibrated),
    ("galli-two-receiver", 53.964, Verdict::Predicted),
    ("galli-steps", 0.969, Verdict::Calibrated),
    ("li-10g-intercept", 41.462, Verdict::Calibrated),
    ("li-10g-slope", 3.915, Verdict::Predicted),
    ("li-sk-intercept", 43.449, Verdict::Predicted),
    ("li-sk-slope", 16.218, Verdict::Predicted),
    ("li-1g-intercept", 174.521, Verdict::Calibrated),
    ("li-1g-slope", 16.218, Verdict::Missed),
    ("li-gradient", 0.998, Verdict::Predicted),
    ("li-delay", 24.850, Verdict::Predicted),
    ("throttle", 0.000, Verdict::Predicted),
    ("hurwitz-latency", 20.749, Verdict::Predicted),
    ("hurwitz-rate", 5.656, Verdict::Predicted),
    ("atoll-us-8", 4.882, Verdict::Calibrated),
    ("atoll-us-64", 5.289, Verdict::Predicted),
    ("atoll-us-256", 6.657, Verdict::Calibrated),
    ("atoll-us-1024", 11.172, Verdict::Calibrated),
    ("atoll-us-8192", 48.197, Verdict::Calibrated),
    ("atoll-us-262144", 1223.901, Verdict::Predicted),
    ("atoll-mb-8", 12.503, Verdict::Missed),
    ("atoll-mb-64", 92.320, Verdict::Predicted),
    ("atoll-mb-256", 293.412, Verdict::Calibrated),
    ("atoll-mb-1024", 699.284, Verdict::Calibrated),
    ("atoll-mb-8192", 1296.752, Verdict::Calibrated),
    ("atoll-mb-262144", 1634.119, Verdict::Predicted),
    ("atoll-hop", 27.000, Verdict::Calibrated),
    ("atoll-bisection", 8.000, Verdict::Calibrated),
    ("atoll-longest", 4.000, Verdict::Calibrated),
    ("atoll-sender", 221.979, Verdict::Calibrated),
    ("atoll-few-kb", 0.997, Verdict::Predicted),
    ("atoll-senders", 394.820, Verdict::Calibrated),
    ("atoll-links", 0.982, Verdict::Predicted),
    ("atoll-pio", 3.578, Verdict::Missed),
    ("myrinet-us-8", 7.850, Verdict::Predicted),
    ("myrinet-us-64", 8.230, Verdict::Predicted),
    ("myrinet-us-256", 9.470, Verdict::Predicted),
    ("myrinet-us-1024", 14.470, Verdict::Predicted),
    ("myrinet-us-8192", 50.930, Verdict::Missed),
    ("myrinet-us-262144", 1073.430, Verdict::Predicted),
    ("myrinet-mb-8", 7.770, Verdict::Predicted),
    ("myrinet-mb-64", 59.360, Verdict::Predicted),
    ("myrinet-mb-256", 206.150, Verdict::Predicted),
    ("myrinet-mb-1024", 540.050, Verdict::Predicted),
    ("myrinet-mb-8192", 1227.270, Verdict::Predicted),
    ("myrinet-mb-262144", 1863.190, Verdict::Predicted),
    ("gm-short", 5.050, Verdict::Calibrated),
    ("gm-one-way", 496.200, Verdict::Predicted),
    ("gm-both-ways", 892.430, Verdict::Predicted),
    ("gm-half", 1487.000, Verdict::Calibrated),
    ("gm-switch", 0.500, Verdict::Calibrated),
    ("gm-clos", 1.100, Verdict::Calibrated),
    ("gm-first", 6.150, Verdict::Predicted),
    ("gm-d-both-ways", 493.320, Verdict::Predicted),
    ("gm-e-both-ways", 980.720, Verdict::Predicted),
    ("pci-x-read", 780.190, Verdict::Calibrated),
    ("pci-x-write", 1044.230, Verdict::Calibrated),
    ("pci-x-mixed", 893.100, Verdict::Predicted),
    ("pci-256", 145.870, Verdict::Calibrated),
    ("pci-512", 229.080, Verdict::Calibrated),
    ("pci-512-fast", 316.050, Verdict::Calibrated),
    ("gm1-short", 14.268, Verdict::Missed),
    ("gm1-rate", 774.340, Verdict::Predicted),
    ("qsnet-rate", 906.500, Verdict::Calibrated),
    ("qsnet-short", 1.230, Verdict::Calibrated),
    ("ib-rate", 840.840, Verdict::Calibrated),
    ("ib-short", 6.800, Verdict::Calibrated),
    ("ib-pcie", 6.090, Verdict::Missed),
    ("ib-netpipe", 6424.610, Verdict::Predicted),
];

/// All comparisons, made once for all tests.
fn comparisons() -> &'static [Comparison] {
    static ALL: OnceLock<Vec<Comparison>> = OnceLock::new();
    ALL.get_or_init(|| {
        std::thread::scope(|scope| {
            let runs = SETS.map(|set| scope.spawn(|| set.compare().expect("the presets")));
            runs.map(|run| run.join().expect("no panic")).into()
        })
    })
}

fn facts() -> impl Iterator<Item = &'static Judged> {
    comparisons().iter().flat_map(|one| &one.facts)
}

#[test]
fn every_fact_is_where_it_was() {
    let mut moved = Vec::new();
    for judged in facts() {
        let (id, model) = (judged.finding.fact.id, judged.finding.model);
        println!("    ({id:?}, {model:.3}, Verdict::{:?}),", judged.verdict);
        let was = FACTS.iter().find(|was| was.0 == id);
        let near = |was: &f64| (model - was).abs() <= 0.005 * was.abs() + 0.005;
        if was.is_none_or(|(_, number, verdict)| !near(number) || *verdict != judged.verdict) {
            moved.push(format!("{id}: was {was:?}, is {model:.3}, {:?}", judged.verdict));
        }
    }
    assert!(moved.is_empty(), "{}", moved.join("\n"));
    assert_eq!(facts().count(), FACTS.len());
}

#[test]
fn a_fact_is_counted_once_and_has_one_verdict() {
    for comparison in comparisons() {
        let mut ids: Vec<&str> = comparison.facts.iter().map(|one| one.finding.fact.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "a fact is counted twice");
        let counts = Verdict::ALL.map(|verdict| comparison.count(verdict));
        assert_eq!(counts.iter().sum::<usize>(), all);
        let statements = comparison.facts.iter().map(|one| one.finding.fact.statement);
        let mut statements: Vec<&str> = statements.collect();
        statements.sort_unstable();
        assert!(statements.windows(2).all(|pair| pair[0] != pair[1]), "a statement stands twice");
    }
}

#[test]
fn every_verdict_is_counted() {
    let counts = Verdict::ALL.map(|verdict| comparisons()[0].count(verdict));
    assert_eq!(counts, [11, 17, 6], "predicted, calibrated, missed of the set sci");
}

#[test]
fn calibrations_and_predictions_are_disjoint() {
    for comparison in comparisons() {
        let parameters = &comparison.parameters;
        for judged in &comparison.facts {
            let is_chosen = parameters.iter().any(|one| one.chosen_from(judged.finding.fact));
            match judged.verdict {
                Verdict::Predicted => assert!(!is_chosen, "{}", judged.finding.fact.id),
                Verdict::Calibrated => assert!(is_chosen, "{}", judged.finding.fact.id),
                Verdict::Missed => assert!(!judged.finding.holds()),
            }
            assert_eq!(judged.chosen.is_empty(), !is_chosen);
        }
        for one in parameters {
            let has_facts = !one.facts.is_empty();
            assert!(has_facts || one.origin != Origin::Calibrated, "{}", one.full_name());
            let is_free = matches!(one.origin, Origin::Assumed | Origin::Background);
            assert!(!has_facts || !is_free, "{} is chosen from facts", one.full_name());
            let known = |fact: &&Fact| facts().any(|judged| judged.finding.fact.id == fact.id);
            assert!(one.facts.iter().all(known), "{}", one.full_name());
            assert!(!one.reason.is_empty() && !one.value.is_empty(), "{}", one.full_name());
        }
    }
}

#[test]
fn every_source_of_a_fact_is_listed() {
    for comparison in comparisons() {
        let known = |name: &str| comparison.set.sources.iter().any(|source| source.name == name);
        for judged in &comparison.facts {
            assert!(known(judged.finding.fact.source), "{}", judged.finding.fact.id);
        }
        assert!(comparison.set.gaps.iter().all(|gap| known(gap.source)));
    }
}

/// docs/simulation/hosts.md has the sizes.
#[test]
fn dma_leaves_the_processor_more_time_from_some_size_on() {
    let sizes = [trams::Way::UserDma, trams::Way::KernelDma].map(trams::crossing_bytes);
    let sizes = sizes.map(|size| size.expect("a preset"));
    println!("from user level {} B, through the kernel {} B", sizes[0], sizes[1]);
    assert_eq!(sizes, [184.0, 968.0]);
}

#[test]
fn an_unknown_set_lists_the_sets() {
    let error = Set::named("scii").expect_err("no such set").to_string();
    assert_eq!(
        error,
        "`scii` is not a set of published experiments; give one of: sci, atoll, myrinet, links, \
         ethernet"
    );
    assert_eq!(Set::named("sci").map(|set| set.name), Ok("sci"));
}

#[test]
fn the_page_of_the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
    let page = super::markdown(comparisons());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "stale: `fluxline sim reproduce --markdown docs/fidelity.md`");
}

#[test]
fn a_published_point_stands_where_some_curve_of_its_figure_passes() {
    let figures = comparisons().iter().flat_map(|one| &one.figures);
    let mut points = 0;
    for figure in figures {
        for point in &figure.points {
            let judged = facts().find(|judged| judged.finding.fact.id == point.fact.id);
            let model = judged.expect("a fact of the set").finding.model;
            let passes = |at: &(f64, f64)| at.0 == point.x && (at.1 - model).abs() <= 0.1 * at.1;
            let is_met = figure.curves.iter().any(|curve| curve.points.iter().any(passes));
            assert!(is_met, "{}: {} is not on a curve", figure.id, point.fact.statement);
            points += 1;
        }
        assert!(figure.published().is_sorted_by(|one, other| one.0 <= other.0), "{}", figure.id);
        for curve in &figure.curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
            let sound = |point: &(f64, f64)| point.1.is_finite() && point.1 >= 0.0;
            assert!(curve.points.iter().all(sound), "{} of {}", curve.name, figure.id);
        }
    }
    assert_eq!(points, 11 + 12 + 12 + 4);
}

static RANGE: Fact = Fact {
    id: "range",
    source: "test",
    place: "here",
    statement: "a range",
    unit: "us",
    published: 2.0..=3.0,
    tolerance: NUMBER,
};
const FROM_RANGE: &[&Fact] = &[&RANGE];
static SHAPE_OF_IT: Fact = Fact {
    id: "shape",
    source: "test",
    place: "here",
    statement: "a shape",
    unit: "",
    published: 2.0..=3.0,
    tolerance: SHAPE,
};

#[test]
fn a_deviation_is_the_way_to_the_nearer_end() {
    let off = |model| (RANGE.model(model).deviation() * 1000.0).round();
    assert_eq!(off(2.5), 0.0);
    assert_eq!(off(3.3), 100.0);
    assert_eq!(off(1.0), -500.0);
    assert!(RANGE.model(3.29).holds() && !RANGE.model(3.4).holds());
    assert!(SHAPE_OF_IT.model(3.0).holds() && !SHAPE_OF_IT.model(3.01).holds());
    assert!(!RANGE.model(f64::NAN).holds() && !RANGE.model(f64::INFINITY).holds());
    assert_eq!(RANGE.worst([2.5, 1.9, 3.5, 2.0]), 3.5);
}

#[test]
fn a_fact_is_calibrated_exactly_if_a_parameter_names_it() {
    let free =
        Parameter::new("a machine", "a cost", "1 us".to_string()).from(Origin::Assumed, "none");
    let chosen = free.clone().from(Origin::Calibrated, "the range").fixed_by(FROM_RANGE);
    let verdict = |model: f64, parameter: &Parameter| {
        Judged::of(RANGE.model(model), std::slice::from_ref(parameter)).verdict
    };
    assert_eq!(verdict(2.5, &free), Verdict::Predicted);
    assert_eq!(verdict(2.5, &chosen), Verdict::Calibrated);
    assert_eq!(verdict(9.0, &free), Verdict::Missed);
    assert_eq!(verdict(9.0, &chosen), Verdict::Missed);
    let judged = Judged::of(RANGE.model(2.5), &[chosen, free]);
    assert_eq!(judged.chosen, ["a machine: a cost"]);
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
    let again = stand_a::run().expect("a preset").figures;
    assert_eq!(again, comparisons()[0].figures[..2]);
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
