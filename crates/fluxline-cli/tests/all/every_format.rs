//! Every shipped format, from emulated sensor to exported table: nothing is rejected on the way,
//! no packet is missing, and each named field of the header is a column.

use std::path::{Path, PathBuf};

use crate::support::{call_json, number, text};
use serde_json::Value;

const SOURCES: u64 = 2;
const PACKETS: u64 = 50;

#[test]
fn every_shipped_format_goes_from_emulator_to_exported_columns() {
    let listed = call_json(&["format", "list"]);
    let names: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.len() >= 13, "all layouts of the reference are shipped: {names:?}");
    for name in names {
        println!("format {name}");
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let run = acquire(name, scratch.path());
        let parquet = export(name, &run, "parquet");
        let csv = export(name, &run, "csv");
        let npy = export(name, &run, "npy");
        assert_eq!(rows(&parquet), rows(&csv), "{name}");
        assert_eq!(rows(&npy), rows(&csv), "{name}");
        for (table, start) in [(&parquet, &b"PAR1"[..]), (&npy, &b"\x93NUMPY"[..])] {
            for (file, _) in table {
                let bytes = std::fs::read(file).expect("a table");
                assert!(bytes.starts_with(start), "{}", file.display());
            }
        }
        assert_headers_are_columns(name, &csv);
    }
}

/// Emulates, runs; the ledger must close with every packet in it.
fn acquire(name: &str, scratch: &Path) -> PathBuf {
    let capture = scratch.join("emulated.pcapng");
    let (packets, sources) = (PACKETS.to_string(), SOURCES.to_string());
    let made = call_json(&[
        "emulate",
        name,
        "--to",
        text(&capture),
        "--packets",
        &packets,
        "--sources",
        &sources,
        "--seed",
        "1",
    ]);
    assert_eq!(number(&made, "sent"), SOURCES * PACKETS, "{name}");
    let run = scratch.join("run");
    let document =
        call_json(&["run", "--pcap", text(&capture), "--format", name, "--folder", text(&run)]);
    assert_eq!(document["closes"], true, "{name}: {}", document["laws"]);
    let totals = &document["totals"];
    for fault in ["rejected", "lost", "duplicate", "reordered", "late", "write_failed"] {
        assert_eq!(number(totals, fault), 0, "{name}: {fault}");
    }
    assert_eq!(number(totals, "recorded"), SOURCES * PACKETS, "{name}");
    let sources = document["ledger"]["sources"].as_array().expect("sources");
    assert_eq!(sources.len() as u64, SOURCES, "{name}: {sources:?}");
    for source in sources {
        assert_eq!(number(&source["counters"], "parsed"), PACKETS, "{name}: {source}");
    }
    run
}

/// Exports; every table with its rows.
fn export(name: &str, run: &Path, kind: &str) -> Vec<(PathBuf, u64)> {
    let report = call_json(&["export", text(run), "--to", kind, "--rows", "records"]);
    let tables = report["tables"].as_array().expect("tables");
    let tables: Vec<(PathBuf, u64)> = tables
        .iter()
        .map(|table| (table["file"].as_str().expect("a file").into(), number(table, "rows")))
        .collect();
    let rows = |wanted: fn(&str) -> bool| -> u64 {
        let is = |file: &Path| wanted(file.file_stem().and_then(|s| s.to_str()).expect("UTF-8"));
        tables.iter().filter(|(file, _)| is(file)).map(|(_, rows)| rows).sum()
    };
    assert_eq!(rows(|stem| stem == "packets"), SOURCES * PACKETS, "{name} as {kind}");
    let of_type = format!("{name}-");
    let least = tables.iter().any(|(file, rows)| {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8");
        stem.starts_with(&of_type) && *rows == SOURCES * PACKETS
    });
    assert!(least, "{name} as {kind}: {tables:?}");
    tables
}

/// Table names with their rows, whatever kind of file they are in.
fn rows(tables: &[(PathBuf, u64)]) -> Vec<(&str, u64)> {
    tables
        .iter()
        .map(|(file, rows)| (file.file_stem().and_then(|s| s.to_str()).expect("UTF-8"), *rows))
        .collect()
}

/// Every named field of the packet type's header is a column by its name.
fn assert_headers_are_columns(format: &str, tables: &[(PathBuf, u64)]) {
    let shown = call_json(&["format", "show", format]);
    for packet in shown["packets"].as_array().expect("packet types") {
        let type_name = packet["name"].as_str().expect("a name");
        let wanted = format!("{format}-{type_name}.csv");
        let Some((file, _)) = tables.iter().find(|(file, _)| file.ends_with(&wanted)) else {
            continue; // the emulator plays the first type alone
        };
        let table = std::fs::read_to_string(file).expect("a table");
        let head: Vec<&str> = table.lines().next().expect("a head").split(',').collect();
        assert!(head.len() >= 7 && head[0].ends_with("event"), "{head:?}");
        for field in named_fields(packet) {
            assert!(head[7..].contains(&field), "{wanted} lacks {field}: {head:?}");
        }
    }
}

/// The fields that have a name and one value per packet: no gaps, no lists nor parts of them.
fn named_fields(packet: &Value) -> impl Iterator<Item = &str> {
    let is_single = |field: &&Value| {
        let kind = field["kind"].as_str().unwrap_or_default();
        kind != "list" && !kind.starts_with("item")
    };
    let fields = packet["fields"].as_array().expect("fields");
    let names = fields.iter().filter(is_single).filter_map(|field| field["name"].as_str());
    names.filter(|name| !name.is_empty())
}
