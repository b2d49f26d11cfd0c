//! The coverage of a campaign: its faults by the states of the nodes that they met, on a page.

use std::collections::BTreeMap;

use fluxline_report::{Block, Cell, Page, Section, Table};

use super::case::{BEGIN_MS, Case, NETWORKS, NodeFault};
use super::trial::Trial;
use super::truth::{EPOCH, SourceTruth};

/// The states in which a node may fail.
const WHEN: [&str; 4] =
    ["before the boards begin", "while boards send", "behind the last packet", "run had ended"];
/// The company in which another fault may be met.
const BESIDE: [&str; 4] =
    ["alone", "beside a death", "beside a cut cable", "beside a disk's fault"];
/// Faults of nodes and cables, for each kind of node.
const OF_NODES: [&str; 3] = ["dies", "cable cut", "cable cut and mended"];
const KINDS: [&str; 3] = ["sensor", "readout", "builder"];
/// The other faults: those of the disk, then those of links and boards.
const OTHERS: [&str; 15] = [
    "disk: full",
    "disk: error",
    "disk: torn",
    "disk: sync",
    "disk: power",
    "link: lost frames (drawn)",
    "link: wrong bits (drawn)",
    "board: packet dropped",
    "board: packet doubled",
    "board: packet overtaken (drawn)",
    "board: packet damaged",
    "board: silence (drawn)",
    "board: restart",
    "source: begins late",
    "builder: little memory",
];
/// The columns of the networks.
const BY_NETWORK: [&str; 4] = ["runs", "with a death", "with a cut cable", "with a disk's fault"];

/// Numbers of runs by row and column. A run counts once in a cell.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<(String, &'static str), u64>);

impl Coverage {
    /// Returns what one run reached.
    pub fn of(case: &Case, trial: &Trial, truth: &[SourceTruth]) -> Coverage {
        let mut reached = Coverage::default();
        let document = &trial.report.document;
        let time_ns = |key: &str| document[key].as_u64().unwrap_or(0);
        let lasted_ns = time_ns("ended_ns").saturating_sub(EPOCH.as_ns());
        let faults = case.node_faults();
        for fault in faults.iter().filter(|fault| fault.kind != "repair") {
            reached.hit(row_of(fault, &faults), WHEN[when(case, fault, lasted_ns / 1_000_000)]);
        }
        let has = |kind: &str| faults.iter().any(|fault| fault.kind == kind);
        let disk_failed = document["recorded"]["fault"].is_string();
        let beside = [(has("host"), 1), (has("cable"), 2), (disk_failed, 3)];
        let network = case.network.split('?').next().unwrap_or_default();
        reached.hit(network.to_owned(), BY_NETWORK[0]);
        for (_, column) in beside.iter().filter(|of| of.0) {
            reached.hit(network.to_owned(), BY_NETWORK[*column]);
        }
        for row in others(case, truth, disk_failed) {
            let is_disk = row.starts_with("disk");
            let company = beside.iter().filter(|of| of.0 && !(is_disk && of.1 == 3));
            let mut is_alone = true;
            for (_, column) in company {
                is_alone = false;
                reached.hit(row.to_owned(), BESIDE[*column]);
            }
            if is_alone {
                reached.hit(row.to_owned(), BESIDE[0]);
            }
        }
        reached
    }

    fn hit(&mut self, row: String, column: &'static str) {
        self.0.insert((row, column), 1);
    }

    /// Adds what other runs reached.
    pub fn add(&mut self, other: Coverage) {
        for (cell, runs) in other.0 {
            *self.0.entry(cell).or_default() += runs;
        }
    }

    /// Returns the page of a campaign.
    pub fn page(&self, experiment: &str, runs: u64, planted: &[Vec<String>]) -> Page {
        let nodes = KINDS.iter().flat_map(|kind| OF_NODES.map(|fault| format!("{kind} {fault}")));
        let others = OTHERS.map(str::to_owned);
        let networks = NETWORKS.map(str::to_owned);
        let mut blocks = vec![
            self.table("Nodes and cables", nodes.collect(), &WHEN),
            self.table("Other faults", others.to_vec(), &BESIDE),
            self.table("Networks", networks.to_vec(), &BY_NETWORK),
        ];
        if !planted.is_empty() {
            let columns = ["planted fault", "seeds", "law"].map(str::to_owned).to_vec();
            let cells = |row: &Vec<String>| row.iter().cloned().map(Cell::Text).collect();
            let (title, rows) = ("Planted faults".to_owned(), planted.iter().map(cells).collect());
            blocks.push(Block::Table(Table { title, columns, rows }));
        }
        let section = Section {
            title: "Reached".to_owned(),
            text: format!(
                "Numbers of the {runs} runs that met each fault in each state; red cells were \
                 never reached."
            ),
            blocks,
            notes: vec![
                "Faults marked (drawn) are counted when the case has them; the others when the \
                 run met them."
                    .to_owned(),
            ],
        };
        let title = format!("Campaign of {experiment}");
        Page { title, sections: vec![section], ..Page::default() }
    }

    fn table(&self, title: &str, names: Vec<String>, columns: &[&'static str]) -> Block {
        let cell = |row: &str, column: &'static str| match self.0.get(&(row.to_owned(), column)) {
            _ if row.starts_with("disk") && column == BESIDE[3] => Cell::Text("–".to_owned()),
            Some(runs) => Cell::Number(runs.to_string()),
            None => Cell::Bad("never".to_owned()),
        };
        let row = |name: String| {
            let cells = columns.iter().map(|column| cell(&name, column)).collect::<Vec<_>>();
            [vec![Cell::Text(name)], cells].concat()
        };
        let rows = names.into_iter().map(row).collect();
        let columns = ["fault"].iter().chain(columns).map(ToString::to_string).collect();
        Block::Table(Table { title: title.to_owned(), columns, rows })
    }
}

/// Returns the row of a fault of a node.
fn row_of(fault: &NodeFault, all: &[NodeFault]) -> String {
    let kind = fault.node.split('-').next().unwrap_or_default();
    let is_mended = all.iter().any(|of| of.kind == "repair" && of.node == fault.node);
    let name = match (fault.kind.as_str(), is_mended) {
        ("host", _) => OF_NODES[0],
        (_, false) => OF_NODES[1],
        (_, true) => OF_NODES[2],
    };
    format!("{kind} {name}")
}

/// Returns the state of the run at the time of a fault: an index into [`WHEN`].
fn when(case: &Case, fault: &NodeFault, lasted_ms: u64) -> usize {
    let sending_ms = case.late_ms + case.packets * 1_000 / case.rate.max(1);
    match fault.at_ms {
        at if at > lasted_ms => 3,
        at if at < BEGIN_MS => 0,
        at if at <= BEGIN_MS + sending_ms => 1,
        _ => 2,
    }
}

/// Returns the other faults that a run met.
fn others(case: &Case, truth: &[SourceTruth], disk_failed: bool) -> Vec<&'static str> {
    let any = |has: fn(&SourceTruth) -> bool| truth.iter().any(has);
    let disk = case.disk.split(':').next().unwrap_or_default();
    let is_disk = |kind: &str| disk_failed && disk == kind;
    let has = [
        is_disk("full"),
        is_disk("error"),
        is_disk("torn"),
        is_disk("sync"),
        is_disk("power"),
        case.loss > 0.0,
        case.bits > 0.0,
        any(|of| of.dropped.is_some_and(|dropped| dropped > 0)),
        any(|of| of.datagrams() > of.sent.len() as u64),
        case.reorder > 0.0,
        any(|of| of.sent.values().any(|sent| sent.is_damaged)),
        case.stall > 0.0,
        any(|of| of.restarts.is_some_and(|restarts| restarts > 0)),
        case.late_ms > 0,
        case.bytes_max > 0,
    ];
    OTHERS.iter().zip(has).filter(|of| of.1).map(|of| *of.0).collect()
}
