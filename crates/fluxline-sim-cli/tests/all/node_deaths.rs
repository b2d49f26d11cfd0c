//! Nodes that die at drawn times in virtual time: each packet that was sent is in the files once,
//! or in a named row of the ledger.
//!
//! The judge reads the files and knows the captures; of the program it takes the ledger alone.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::Ledger;

use crate::same_events::{Events, SIMULATED, events, folder, run};
use crate::same_recorded::{experiment, packets};

const BOARDS: u64 = 8;
const EVENTS: u64 = 300;
/// Places of the time in packets of format `counter`.
const TIME: std::ops::Range<usize> = 24..32;

/// A run with a node that dies.
#[derive(Debug)]
struct Case {
    network: &'static str,
    readouts: u64,
    builders: u64,
    /// The number of the node: builders, then readouts, then sensors.
    victim: u64,
    at_ms: u64,
}

impl Case {
    fn draw(draw: &mut Draw) -> Case {
        let (readouts, builders) = (1 + draw.below(3), 1 + draw.below(3));
        Case {
            network: SIMULATED[draw.below(SIMULATED.len() as u64) as usize],
            readouts,
            builders,
            victim: draw.below(readouts + builders + BOARDS),
            // Sensors send from 20 ms on: 30 ms, and the late board until 250 ms.
            at_ms: draw.below(270),
        }
    }

    fn link(&self) -> String {
        let (join, fault) = match self.network.split_once("fault=") {
            None => ("?", String::new()),
            Some((_, fault)) => ("", format!(",{fault}")),
        };
        let network = self.network.split("fault=").next().expect("a first part");
        let (victim, at) = (self.victim, self.at_ms);
        let name = match victim.checked_sub(self.builders) {
            None => format!("builder-{victim}"),
            Some(readout) if readout < self.readouts => format!("readout-{readout}"),
            Some(sensor) => format!("sensor-{}", sensor - self.readouts),
        };
        format!("{network}{join}fault=host:{name}@{at}ms{fault}")
    }

    /// Returns the boards whose packets are complete whatever the victim took along.
    fn unharmed_boards(&self) -> Vec<u64> {
        let readout = self.victim.checked_sub(self.builders);
        let is_whole = |board: &u64| match readout {
            None => false,
            Some(readout) if readout < self.readouts => board % self.readouts != readout,
            Some(sensor) => *board != sensor - self.readouts,
        };
        (0..BOARDS).filter(is_whole).collect()
    }

    fn builder_dies(&self) -> bool {
        self.victim < self.builders
    }
}

/// The packets of each board with their times left out, and how often each was sent.
fn sent() -> Vec<BTreeMap<Vec<u8>, u64>> {
    let of = |board: u64| {
        let mut times = BTreeMap::new();
        for mut packet in packets(board as u16, EVENTS).0 {
            if let Some(time) = packet.bytes.get_mut(TIME) {
                time.fill(0);
            }
            *times.entry(packet.bytes).or_default() += 1;
        }
        times
    };
    (0..BOARDS).map(of).collect()
}

/// Returns the packets of each board in the files; none is there twice.
fn found(events: &Events, case: &Case) -> Vec<BTreeSet<Vec<u8>>> {
    let mut found = vec![BTreeSet::new(); BOARDS as usize];
    for (name, bytes) in events.values().flatten().flat_map(|row| &row.2) {
        let board = name.strip_prefix("board-").and_then(|rest| rest.split('/').next());
        let board: usize = board.and_then(|number| number.parse().ok()).expect(name);
        assert!(found[board].insert(bytes.clone()), "{case:?}: {name}: a packet is there twice");
    }
    found
}

fn judge(case: &Case, ledger: &Ledger, found: &[BTreeSet<Vec<u8>>]) {
    let sent = sent();
    for (board, (found, sent)) in found.iter().zip(&sent).enumerate() {
        let invented = found.iter().find(|bytes| !sent.contains_key(*bytes));
        assert!(invented.is_none(), "{case:?}: board {board} never sent {invented:?}");
    }
    for board in case.unharmed_boards() {
        let (found, sent) = (found[board as usize].len(), sent[board as usize].len());
        assert_eq!(found, sent, "{case:?}: board {board}\n{}", ledger.table());
    }
    if case.builder_dies() {
        let all: u64 = sent.iter().flat_map(BTreeMap::values).sum();
        let in_files: u64 = found.iter().map(|of| of.len() as u64).sum();
        let copies = ledger.source_totals().duplicate;
        let lost = ledger.edges.as_ref().map_or(0, |edges| edges.lost);
        assert_eq!(in_files + copies + lost, all, "{case:?}:\n{}", ledger.table());
    }
}

fn try_one(case: &Case, experiment: &Experiment) {
    let at = folder();
    let path = at.path().join("run");
    let counts = (case.readouts as u32, case.builders as u32);
    let report = run(experiment, Some(&case.link()), counts, &path);
    for law in report.ledger.check() {
        assert!(law.holds(), "{case:?}: {law:?}\n{}", report.ledger.table());
    }
    let found = found(&events(&path), case);
    judge(case, &report.ledger, &found);
    let sent: usize = sent().iter().map(BTreeMap::len).sum();
    let in_files: usize = found.iter().map(BTreeSet::len).sum();
    let is_sensor = case.victim >= case.builders + case.readouts;
    if in_files < sent && !is_sensor {
        let sentence = report.verdict.sentence().unwrap_or_default();
        assert_eq!(report.verdict.status(), 7, "{case:?}: {in_files} of {sent}: {sentence}");
    }
}

#[test]
fn a_packet_is_in_no_place_or_in_two_after_a_node_died() {
    fluxline_sim::register();
    let at = folder();
    let experiment = experiment(EVENTS, at.path());
    let mut draw = Draw::new(test_seed!(74));
    for _ in 0..test_count!(24) {
        let case = Case::draw(&mut draw);
        println!("{case:?}");
        try_one(&case, &experiment);
    }
}
