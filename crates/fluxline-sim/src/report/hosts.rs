//! The section about hosts and losses: the time of each core by kind, and lost frames by place.

use fluxline_report::{Block, Cell, Section, Table};

use super::results::Point;

/// Most cores that are listed.
const CORES_MAX: usize = 128;

/// Returns the section; `None`: no host, and nothing was lost.
pub fn section(points: &[Point]) -> Option<Section> {
    let last = points.last()?;
    let mut blocks = Vec::new();
    if !last.cores.is_empty() {
        blocks.push(Block::Table(cores(last)));
    }
    if points.iter().any(|point| !point.losses.is_empty()) {
        blocks.push(Block::Table(losses(points)));
    }
    let text = format!(
        "Cores: share of the time at load {:.3}. Losses are those of the measured time.",
        last.load
    );
    (!blocks.is_empty()).then(|| Section {
        title: "Hosts and losses".to_string(),
        text,
        blocks,
        ..Section::default()
    })
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

fn cores(point: &Point) -> Table {
    let percent = |share: f64| Cell::Number(format!("{:.1}", 100.0 * share));
    let row = |core: &crate::load::sweep::CoreShares| {
        let mut row =
            vec![Cell::Number(core.node.to_string()), Cell::Number(core.core.to_string())];
        let kinds = [core.user, core.system, core.irq, core.softirq, core.total()];
        row.extend(kinds.map(percent));
        row
    };
    Table {
        title: "Cores [% of the time]".to_string(),
        columns: columns(&["node", "core", "user", "system", "irq", "softirq", "total"]),
        rows: point.cores.iter().take(CORES_MAX).map(row).collect(),
    }
}

fn losses(points: &[Point]) -> Table {
    let rows = points.iter().flat_map(|point| {
        point.losses.iter().map(|lost| {
            vec![
                Cell::Number(format!("{:.3}", point.load)),
                Cell::Text(lost.place.clone()),
                Cell::Number(lost.frames.to_string()),
            ]
        })
    });
    Table {
        title: "Lost frames by place".to_string(),
        columns: columns(&["load", "place", "frames"]),
        rows: rows.collect(),
    }
}
