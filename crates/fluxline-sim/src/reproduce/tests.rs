//! The files of facts, the judge, and the page of the manual, which has each number.

use std::sync::OnceLock;

use super::pair::{Pair, link_lc1};
use super::published::{Fact, Published};
use super::sci::stand_b;
use super::{Comparison, Finding, Judged, Origin, Parameter, SETS, Set, Verdict};
use crate::host::preset;
use crate::net::sci;

/// All comparisons, made once for all tests.
fn comparisons() -> &'static [Comparison] {
    static ALL: OnceLock<Vec<Comparison>> = OnceLock::new();
    ALL.get_or_init(|| {
        std::thread::scope(|scope| {
            let compare =
                |set: &'static Set| set.compare().unwrap_or_else(|error| panic!("{error}"));
            let runs = SETS.map(|set| scope.spawn(move || compare(set)));
            runs.map(|run| run.join().expect("no panic")).into()
        })
    })
}

#[test]
fn the_page_of_the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
    let page = super::markdown(comparisons());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = written.lines().zip(page.lines()).enumerate();
    for (number, (old, new)) in pairs.filter(|(_, (old, new))| old != new).take(5) {
        println!("line {}\n  {old}\n  {new}", number + 1);
    }
    assert!(written == page, "stale: `fluxline sim reproduce --markdown docs/fidelity.md`");
}

#[test]
fn calibrations_and_predictions_are_disjoint() {
    for comparison in comparisons() {
        let parameters = &comparison.parameters;
        let counts = Verdict::ALL.map(|verdict| comparison.count(verdict));
        assert_eq!(counts.iter().sum::<usize>(), comparison.facts.len());
        for judged in &comparison.facts {
            let fact = judged.finding.fact;
            let is_same = |one: &Fact| one.id == fact.id || one.same_as.as_ref() == Some(&fact.id);
            let is_chosen = fact.follows.is_some()
                || parameters.iter().any(|one| one.facts.iter().any(|of| is_same(of)));
            let all = comparison.facts.iter().filter(|of| is_same(of.finding.fact));
            let holds = all.clone().all(|of| of.finding.holds());
            match judged.verdict {
                Verdict::Predicted => assert!(!is_chosen && !fact.is_shape(), "{}", fact.id),
                Verdict::Shape => assert!(!is_chosen && fact.is_shape(), "{}", fact.id),
                Verdict::Calibrated => assert!(is_chosen && holds, "{}", fact.id),
                Verdict::Missed => assert!(!holds, "{}", fact.id),
                Verdict::Repeated => assert!(fact.same_as.is_some(), "{}", fact.id),
            }
        }
        for one in parameters {
            let has_facts = !one.facts.is_empty();
            assert!(has_facts || one.origin != Origin::Calibrated, "{}", one.full_name());
            let is_free = matches!(one.origin, Origin::Assumed | Origin::Background);
            assert!(!has_facts || !is_free, "{} is chosen from facts", one.full_name());
            assert!(!one.reason.is_empty() && !one.value.is_empty(), "{}", one.full_name());
        }
    }
}

#[test]
fn an_unknown_set_lists_the_sets() {
    let error = Set::named("scii").expect_err("no such set").to_string();
    assert_eq!(
        error,
        "`scii` is not a set of published experiments; give one of: sci, atoll, myrinet, links, \
         ethernet"
    );
    assert_eq!(Set::named("sci").map(|set| set.name).ok(), Some("sci"));
}

/// A published point is where some curve of its figure passes.
#[test]
fn figures_show_what_the_facts_say() {
    let facts = || comparisons().iter().flat_map(|one| &one.facts);
    for figure in comparisons().iter().flat_map(|one| &one.figures) {
        for point in &figure.points {
            let judged = facts().find(|judged| judged.finding.fact.id == point.fact.id);
            let model = judged.expect("a fact of the set").finding.model;
            let passes = |at: &(f64, f64)| at.0 == point.x && (at.1 - model).abs() <= 0.1 * at.1;
            let is_met = figure.curves.iter().any(|curve| curve.points.iter().any(passes));
            assert!(is_met, "{}: {} is not on a curve", figure.id, point.fact.statement);
        }
        for curve in &figure.curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", curve.name);
            let sound = |point: &(f64, f64)| point.1.is_finite() && point.1 >= 0.0;
            assert!(curve.points.iter().all(sound), "{} of {}", curve.name, figure.id);
        }
    }
    let points = comparisons().iter().flat_map(|one| &one.figures).map(|one| one.points.len());
    assert_eq!(points.sum::<usize>(), 11 + 12 + 12 + 4);
}

const FILE: &str = r#"
title = "a test"
[[source]]
name = "Paper"
title = "A paper"
[[figure]]
id = "one"
title = "A figure"
x = { label = "size", unit = "B" }
y = { label = "time", unit = "us" }
[[fact]]
id = "range"
source = "Paper"
place = "here"
statement = "a range"
unit = "us"
published = [2, 3.0]
[[fact]]
id = "shape"
source = "Paper"
place = "here"
statement = "a shape"
published = [2.0, inf]
tolerance = 0.0
at = [{ figure = "one", x = 8 }]
[[parameter]]
model = "a machine"
name = "a cost"
value = "1 us"
origin = "assumed"
reason = "none"
"#;

fn fixture() -> &'static Published {
    static FIXTURE: OnceLock<Published> = OnceLock::new();
    FIXTURE.get_or_init(|| Published::read("test.toml", FILE).expect("right"))
}

#[test]
fn mistakes_in_a_file_are_shown_with_their_line_and_the_nearest_name() {
    for (from, to, says) in [
        ("place =", "palce =", "test.toml:14:1: `palce` is not a key here; did you mean `place`?"),
        (
            "\"Paper\"\nplace",
            "\"Papr\"\nplace",
            "test.toml:13:10: the source `Papr` is unknown; did you mean `Paper`?",
        ),
        (
            "figure = \"one\"",
            "figure = \"on\"",
            "test.toml:25:18: the figure `on` is unknown; did you mean `one`?",
        ),
        (
            "[2, 3.0]",
            "[3, 2]",
            "test.toml:17:13: 3 to 2 is not a range; write the least number first",
        ),
        (
            "[2, 3.0]",
            "[3]",
            "test.toml:17:13: invalid length 1, expected a number, or the least and",
        ),
        ("[2, 3.0]", "\"3\"", "a number, or the least and the most in brackets"),
        ("\"shape\"", "\"range\"", "test.toml:19:6: the fact `range` is there twice; rename one"),
        ("\"assumed\"", "\"guessed\"", "\"guessed\" is not known; write \"published\""),
        ("tolerance = 0.0", "tolerance = 5", "test.toml:24:13: a tolerance of 5 is not a fraction"),
    ] {
        let text = FILE.replacen(from, to, 1);
        let error = Published::read("test.toml", &text).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let text = FILE.to_string() + "facts = [\"rang\"]\n";
    let file = Published::read("test.toml", &text).expect("right by itself");
    let error = file.unknown_fact("test.toml", &text, &["range", "shape"]).expect("no such fact");
    let says = "test.toml:32:10: the fact `rang` is unknown; did you mean `range`?";
    assert_eq!(error.to_string(), says);
}

#[test]
fn a_deviation_is_the_way_to_the_nearer_end() {
    let [range, shape] = &fixture().facts[..] else { panic!("two facts") };
    let off = |model| (range.deviation(model) * 1000.0).round();
    assert_eq!([off(2.5), off(3.3), off(1.0)], [0.0, 100.0, -500.0]);
    let holds = |fact, model| Finding { fact, model }.holds();
    assert!(holds(range, 3.29) && !holds(range, 3.4));
    assert!(holds(shape, 9.0) && !holds(shape, 1.99));
    assert!(!holds(range, f64::NAN) && !holds(range, f64::INFINITY));
    assert_eq!(range.worst([2.5, 1.9, 3.5, 2.0]), 3.5);
}

#[test]
fn a_fact_is_calibrated_exactly_if_a_parameter_names_it() {
    let fact = &fixture().facts[0];
    let (machine, name, value) = ("a machine", "a cost", "1 us".to_string());
    let (origin, reason, facts) = (Origin::Assumed, "none", Vec::new());
    let free = Parameter { machine, name, value, origin, reason, facts };
    let chosen = Parameter { origin: Origin::Calibrated, facts: vec![fact], ..free.clone() };
    let verdict = |model: f64, parameter: &Parameter| {
        Judged::of(Finding { fact, model }, &[], std::slice::from_ref(parameter)).verdict
    };
    assert_eq!(verdict(2.5, &free), Verdict::Predicted);
    assert_eq!(verdict(2.5, &chosen), Verdict::Calibrated);
    assert_eq!(verdict(9.0, &free), Verdict::Missed);
    assert_eq!(verdict(9.0, &chosen), Verdict::Missed);
    let judged = Judged::of(Finding { fact, model: 2.5 }, &[], &[chosen.clone(), free.clone()]);
    assert_eq!(judged.chosen, ["a machine: a cost"]);
    // The same measurement in another unit: a miss or a calibration there is one here.
    let other = &fixture().facts[1];
    let verdict = |model: f64, parameter: &Parameter| {
        let repeats = [Finding { fact: other, model }];
        let parameters = std::slice::from_ref(parameter);
        Judged::of(Finding { fact, model: 2.5 }, &repeats, parameters).verdict
    };
    let holds = *other.published.start();
    let of_other = Parameter { facts: vec![other], ..chosen };
    assert_eq!(verdict(holds, &free), Verdict::Predicted);
    assert_eq!(verdict(holds, &of_other), Verdict::Calibrated);
    assert_eq!(verdict(-holds - 1.0, &free), Verdict::Missed);
}

#[test]
fn a_block_with_a_lost_packet_is_written_again_and_is_whole() {
    let mut pair = Pair::new(&preset::test_stand_b(4), link_lc1()).expect("a preset");
    pair.lose(1);
    assert_eq!(stand_b::checked_block(&mut pair, 256), 2);
    assert_eq!(stand_b::checked_block(&mut pair, 256), 1);
    let expected: Vec<u8> = (0..256_u32).map(|at| (at % 251) as u8 + 1).collect();
    assert_eq!(pair.memory(1)[..256], expected[..]);
    let mut dead = Pair::new(&preset::test_stand_b(1), link_lc1()).expect("a preset");
    dead.lose(u32::MAX);
    assert_eq!(stand_b::checked_block(&mut dead, 64), 16, "it gives up");
    assert_eq!(dead.written_bytes(1), 0);
}

#[test]
fn blocks_are_whole_after_their_checks_on_a_ring_with_bit_errors() {
    for seed in 1..=5 {
        let mut config = sci::Config::lc1(2);
        config.faults = sci::Faults { bit_error_rate: 1e-4, seed };
        let mut pair = Pair::new(&preset::test_stand_b(4), config).expect("a preset");
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
