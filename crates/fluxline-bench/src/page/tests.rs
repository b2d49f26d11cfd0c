//! The page and the lines of a report: what is shown, and what is not claimed.

use std::collections::BTreeSet;

use fluxline_report::{Plot, Scale};

use super::*;
use crate::environment::Plan;
use crate::result::{Point, Series};
use crate::run;
use fluxline_doctor::{Coalescing, Interrupt, Passage, Through};
use serde_json::Value;

fn report() -> Report {
    let environment = serde_json::json!({
        "near": { "processor": "A", "kernel": "1.2", "sysctls": { "a/b": "7" } },
        "far": { "processor": "B" },
        "pinned": "near on core 0, far on core 1",
    });
    let mut report = run::begin("udp://10.0.0.7", &Plan::quick(), environment);
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
    assert_eq!(page.headlines[0].value, "1 µs");
    assert!(page.headlines[0].note.contains("floor: 500 ns"), "{:?}", page.headlines);
    assert_eq!(page.verdict, "pingpong: The wire limits.");
    assert_eq!(page.warnings, ["load is incomplete: the other side is gone."]);
    let html = page.html();
    assert!(html.contains("1 µs") && html.contains("core 0"));
}

#[test]
fn a_busy_machine_is_the_first_word_of_the_page_and_of_the_terminal() {
    let mut report = report();
    let busy = serde_json::json!({
        "seconds": 9.5, "others": 1.43, "waited": 0.31,
        "programs": [{ "process": "rustc", "cores": 1.2 }],
    });
    report.environment["busy"] = busy;
    let said = &page(&report).warnings[0];
    assert!(said.contains("busy") && said.contains("rustc 120 %"), "{said}");
    assert!(lines(&report)[0].contains("rustc 120 %"), "{:?}", lines(&report));
    report.environment["busy"]["others"] = 0.01.into();
    report.environment["busy"]["waited"] = 0.0.into();
    assert_eq!(page(&report).warnings.len(), 1, "an idle machine is no warning");
}

#[test]
fn one_sample_is_called_so_and_a_number_that_varies_wildly_is_never_a_headline() {
    let mut report = report();
    let wild = Fact::new("half round trip, wild", "us", vec![0.2, 0.3, 4.0, 90.0, 4500.0]);
    report.experiments[0].facts.insert(0, wild);
    report.experiments[0].facts.push(Fact::new("once", "ns", vec![14_588_133.0]));
    let page = page(&report);
    let labels: Vec<&str> = page.headlines.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["half round trip, 8 B", "once"]);
    assert_eq!(page.headlines[1].value, "14.6 ms");
    assert_eq!(page.headlines[1].note, "pingpong, one sample");
    let text = page.text();
    assert!(text.contains("200 ns to 4.5 ms") && !text.contains("±0.0 %"), "{text}");
}

#[test]
fn a_section_has_at_most_two_sentences_and_several_limits_are_a_table() {
    let mut report = report();
    report.experiments[0].limit = "64 B, single: the sender.\n1472 B, single: the wire.".into();
    report.experiments[0].notes = vec!["Trials of 2 s.".into()];
    let section = &page(&report).sections[0];
    assert_eq!(section.text, "Trips.");
    assert_eq!(section.notes, ["Trials of 2 s."]);
    let tables = section.blocks.iter().filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    let limits = tables.into_iter().find(|table| table.title == "What limits").expect("a table");
    assert_eq!(limits.rows.len(), 2);
    for kind in crate::registry::experiments() {
        let sentences = kind.about.replace("...", "").matches(". ").count() + 1;
        assert!(sentences <= 2, "{}: {sentences} sentences", kind.name);
    }
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
    let ring = Some(fluxline_doctor::InUse { now: 256, max: 4096 });
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
fn a_setting_that_loses_packets_is_a_warning_and_all_findings_are_a_table_once() {
    let mut report = report();
    assert_eq!(page(&report).warnings.len(), 1, "nothing was found");
    let (shared, bad) = (finding("CPU governor", "warn"), finding("MTU of eth0", "bad"));
    report.environment["near"]["findings"] = serde_json::json!([shared]);
    report.environment["far"]["findings"] = serde_json::json!([bad, shared]);
    let page = page(&report);
    let expected = "A setting of the hosts loses packets: MTU of eth0: as it is (far).";
    assert_eq!(page.warnings[1], expected);
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
        "plan": Plan::quick(),
        "busy": crate::host::busy::Busy {
            programs: vec![crate::host::busy::Program { process: "a".into(), cores: 1.0 }],
            ..Default::default()
        },
    });
    let fact = Fact::new("n", "us", vec![1.0]).beside("a floor", Some(1.0));
    document["experiments"][0]["facts"] = serde_json::json!([fact]);
    document["experiments"][0]["notes"] = serde_json::json!(["a note"]);
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
        assert!(error.contains("is not a report"), "{text}: {error}");
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
