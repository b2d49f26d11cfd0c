//! The page and the lines of a report: what is shown, and what is not claimed.

use super::*;
use crate::environment::Plan;
use crate::result::Point;
use crate::run;
use fluxline::doctor::{Coalescing, Interrupt, Passage, Through};
use serde_json::Value;

fn report() -> Report {
    let environment = serde_json::json!({
        "near": { "processor": "A", "kernel": "1.2", "sysctls": { "a/b": "7" } },
        "far": { "processor": "B" },
        "pinned": "near on core 0, far on core 1",
    });
    let mut report = run::begin("udp://10.0.0.7", &Plan::new(true), environment);
    let mut experiment = Experiment::new("pingpong", "Trips.");
    experiment.limit = "The wire limits.".into();
    for label in ["p50", "p99"] {
        experiment.series.push(Series {
            label: label.into(),
            x_label: "message".into(),
            x_unit: "B".into(),
            y_label: "half round trip".into(),
            y_unit: "us".into(),
            points: (0..12)
                .map(|at| Point { x: f64::from(1 << at), samples: vec![1.0, 2.0, 40.0] })
                .collect(),
        });
    }
    experiment.facts.push(
        Fact::new("half round trip, 8 B", "us", vec![1.0, 1.1, 0.9]).beside("floor", Some(0.5)),
    );
    report.experiments.push(experiment);
    let mut broken = Experiment::new("load", "Loads.");
    broken.incomplete = "the other side is gone".into();
    report.experiments.push(broken);
    report
}

#[test]
fn the_first_screen_has_the_number_its_floor_the_limit_and_what_is_missing() {
    let page = page(&report());
    assert_eq!(page.headlines[0].value, "1.00 us");
    assert!(page.headlines[0].note.contains("floor"), "{:?}", page.headlines);
    for said in ["The wire limits", "load is incomplete: the other side is gone", "core 0"] {
        assert!(page.verdict.contains(said), "{said}: {}", page.verdict);
    }
    let html = page.html();
    assert!(html.contains("1.00 us") && html.contains("half round trip"));
}

#[test]
fn curves_of_the_same_axes_are_in_one_plot_with_bands_and_decades() {
    let page = page(&report());
    let plots: Vec<&Plot> = page.sections[0]
        .blocks
        .iter()
        .filter_map(|block| if let Block::Plot(plot) = block { Some(plot) } else { None })
        .collect();
    assert_eq!(plots.len(), 1);
    assert_eq!(plots[0].curves.len(), 2);
    assert_eq!(plots[0].x.scale, Scale::Logarithmic);
    assert_eq!(plots[0].y.scale, Scale::Linear);
    assert_eq!(plots[0].curves[0].band.len(), 12);
}

/// A card with all that one can have.
fn card() -> Passage {
    let interrupt = Interrupt { name: "eth0-rx-0".into(), counts: vec![0, 7], allowed: vec![0, 1] };
    let mut passage = Passage {
        coalescing: Some(Coalescing { receive_us: 50, ..Coalescing::default() }),
        offloads: vec!["rx-gro".into(), "tx-udp-segmentation".into()],
        interrupts: [(38, interrupt)].into(),
        ..Passage::default()
    };
    let ring = Some(fluxline::doctor::InUse { now: 256, max: 4096 });
    (passage.card.ring, passage.transmit_ring) = (ring, ring);
    passage
}

fn finding(name: &str, verdict: &str) -> Value {
    serde_json::json!({
        "name": name, "found": "as it is", "wanted": "otherwise", "verdict": verdict,
        "remedy": "a command",
    })
}

#[test]
fn what_limits_on_the_hosts_is_on_the_first_screen_once_and_worst_first() {
    let mut report = report();
    assert!(!page(&report).verdict.contains("Of the hosts"), "nothing was found");
    let (shared, bad) = (finding("CPU governor", "warn"), finding("MTU of eth0", "bad"));
    report.environment["near"]["findings"] = serde_json::json!([shared]);
    report.environment["far"]["findings"] = serde_json::json!([bad, shared]);
    let page = page(&report);
    let expected = "Of the hosts, 1 will and 1 may limit it: MTU of eth0: as it is (far); CPU \
                    governor: as it is (near, far).";
    assert!(page.verdict.ends_with(expected), "{}", page.verdict);
    let html = page.html();
    assert_eq!(html.matches("a command").count(), 2, "one row each");
}

#[test]
fn a_card_is_among_the_machines_with_offloads_and_interrupts() {
    let mut report = report();
    report.environment["near"]["link"] = crate::host::link::document("eth0", &card());
    let text = page(&report).html();
    for said in ["rx-gro, tx-udp-segmentation", "link ring receive max", "interrupts eth0-rx-0"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn every_key_of_the_document_is_in_its_manual() {
    let manual = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench-report.md"),
    )
    .expect("the manual");
    let mut document = serde_json::to_value(report()).expect("JSON");
    let mut near = crate::host::describe(Some(&Through::Loopback));
    near["link"] = crate::host::link::document("eth0", &card());
    near["findings"] = serde_json::json!([finding("MTU of eth0", "warn")]);
    document["environment"] = serde_json::json!({
        "near": near,
        "timer": crate::timer::Timer::check(),
        "plan": Plan::new(true),
    });
    let mut keys = BTreeSet::new();
    keys_of(&document, &mut keys);
    let missing: Vec<&String> =
        keys.iter().filter(|key| !manual.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/bench-report.md lacks {missing:?}");
}

/// All names of members, but those that are names of things found on the host.
fn keys_of(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                keys.insert(key.clone());
                match key.as_str() {
                    "sysctls" | "mitigations" => {}
                    "interfaces" => {
                        let found = value.as_object().into_iter().flat_map(|all| all.values());
                        found.for_each(|one| keys_of(one, keys));
                    }
                    _ => keys_of(value, keys),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| keys_of(one, keys)),
        _ => {}
    }
}

#[test]
fn a_report_reads_back_as_it_was_written_and_others_are_refused() {
    let folder = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("report.json");
    let write = |text: &str| std::fs::write(&path, text).expect("written");
    let mut report = report();
    write(&serde_json::to_string(&report).expect("JSON"));
    assert_eq!(Report::read(&path).expect("right"), report);
    report.schema += 1;
    write(&serde_json::to_string(&report).expect("JSON"));
    let error = Report::read(&path).expect_err("of another release").to_string();
    assert!(error.contains("measure again"), "{error}");
    for text in ["", "{}", "[]", "{\"schema\":1}"] {
        write(text);
        let error = Report::read(&path).expect_err("no report").to_string();
        assert!(error.contains("is no report"), "{text}: {error}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(Report::read(&path).is_err());
}

#[test]
fn seconds_since_1970_become_the_date_that_the_system_says() {
    // As `date -u -d @SECONDS '+%F %H:%M UTC'` writes them.
    for (seconds, date) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (1_795_314_062, "2026-11-22 02:21 UTC"),
        (4_107_542_399, "2100-02-28 23:59 UTC"),
        (4_107_542_400, "2100-03-01 00:00 UTC"),
    ] {
        assert_eq!(utc(seconds), date);
    }
}
