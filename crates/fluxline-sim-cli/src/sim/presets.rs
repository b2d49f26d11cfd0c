//! `fluxline sim presets`: the networks that a scenario can name.

use fluxline_report::{Block, Cell, Page, Section, Table};
use fluxline_sim::net::sci::{Config, Preset, Topology};
use serde_json::json;

use crate::say_text;

/// A preset, and its ring of 8 nodes.
struct Row {
    preset: Preset,
    config: Config,
}

fn all() -> [Row; 4] {
    let ring = Topology::Ring { nodes: 8 };
    Preset::ALL.map(|preset| Row { preset, config: preset.network(ring.clone()) })
}

fn mb_s(config: &Config) -> f64 {
    config.clock.hertz() as f64 * 2.0 / 1e6
}

/// Returns the time of some symbols \[ns\].
fn ns(config: &Config, symbols: u32) -> f64 {
    config.clock.span(u64::from(symbols)).as_ps() as f64 / 1e3
}

/// Prints the presets.
pub fn show(json: bool) {
    if json {
        let rows = all().map(|Row { preset, config }| {
            json!({
                "preset": preset.name(), "is": preset.about(), "link_mb_s": mb_s(&config),
                "pass_ns": ns(&config, config.pass_symbols),
                "cable_ns": ns(&config, config.cable_symbols),
                "send_queue": config.send_queue, "unacknowledged": config.unacknowledged,
                "receive_queue": config.request_queue,
            })
        });
        crate::output::print_json(&json!({ "presets": rows }));
        return;
    }
    let number = |value: String| Cell::Number(value);
    let rows = all().map(|Row { preset, config }| {
        vec![
            Cell::Text(preset.name().to_string()),
            Cell::Text(preset.about().to_string()),
            number(format!("{:.0}", mb_s(&config))),
            number(format!("{:.1}", ns(&config, config.pass_symbols))),
            number(format!("{:.1}", ns(&config, config.cable_symbols))),
            number(config.send_queue.to_string()),
            number(config.unacknowledged.to_string()),
            number(config.request_queue.to_string()),
        ]
    });
    let columns = [
        "preset",
        "is",
        "link [MB/s]",
        "pass [ns]",
        "cable [ns]",
        "send queue",
        "unacknowledged",
        "receive queue",
    ];
    let table = Table {
        title: String::new(),
        columns: columns.map(str::to_string).to_vec(),
        rows: rows.to_vec(),
    };
    let section = Section {
        title: "SCI".to_string(),
        text: "Of kinds sci-ring, sci-torus and sci-switch; `pass` is from a node's input to its \
               output. Generic routers have no presets: their keys say it all."
            .to_string(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    };
    let title = "Presets of a scenario's [network]".to_string();
    say_text!("{}", Page { title, sections: vec![section], ..Page::default() }.text());
}
