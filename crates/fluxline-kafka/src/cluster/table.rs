//! The ledger of a run over several machines, for people: nodes, places, edges, partitions, laws.

use std::collections::BTreeMap;
use std::fmt::Write;

use fluxline_daq::ledger::{LawResult, align};
use fluxline_run::SilentSource;

use super::block::{PartitionCounters, Role};
use super::edges::Edge;
use super::ledger::{ClusterLedger, NodeRow};
use super::life::Life;
use super::places::{Fate, Place};
use super::sources::{SourceRow, Sources};

/// Most lines of one table.
const LINES_MAX: usize = 64;
/// Most laws that are printed because they do not hold.
const LAWS_MAX: usize = 8;

impl ClusterLedger {
    /// Returns the whole page, without the verdict.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.head(&mut out);
        self.node_lines(&mut out);
        self.place_lines(&mut out);
        self.edge_lines(&mut out);
        self.source_lines(&mut out);
        self.partition_lines(&mut out);
        self.event_lines(&mut out);
        out.push_str(&self.closing());
        out
    }

    /// Returns the result of the laws, in a line or more.
    #[must_use]
    pub fn closing(&self) -> String {
        let laws = self.check();
        let mut out = String::new();
        for law in laws.iter().filter(|law| !law.holds()).take(LAWS_MAX) {
            let LawResult { name, left, right } = law;
            let name = printable(name);
            let _ = writeln!(out, "THE LEDGER DOES NOT CLOSE: {name}: {left} is not {right}");
        }
        if laws.iter().all(LawResult::holds) {
            // The packets that a killed readout had not counted are in no row.
            let evidence = match self.has_uncounted() {
                false => "every received datagram is in exactly one place",
                true => {
                    "every counted datagram is in exactly one place; packets that dead readouts \
                     received after their last blocks are not counted"
                }
            };
            let _ = writeln!(out, "the ledger closes: {} laws hold, {evidence}", laws.len());
        }
        out
    }

    fn head(&self, out: &mut String) {
        let state = self.state();
        let of = |role| self.nodes.iter().filter(move |row| row.seen.block.role == role);
        let names = |role| {
            let names = of(role).map(|row| (&row.seen.block.node, &row.seen.block.id));
            names.collect::<std::collections::BTreeSet<_>>().len()
        };
        let _ = writeln!(
            out,
            "run {} of {}: {state}; {}, {}, {}\n",
            self.run,
            printable(&self.cluster),
            of_unit(names(Role::Readout), "readout"),
            of_unit(names(Role::Builder), "builder"),
            of_unit(self.partitions as usize, "partition")
        );
    }

    fn node_lines(&self, out: &mut String) {
        let heads = ["node", "start", "state", "host", "pid", "block", "age"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(self.nodes.iter().take(LINES_MAX).map(node_line));
        for node in self.silent.iter().take(LINES_MAX) {
            lines.push(vec![printable(node), "-".to_owned(), "no block".to_owned()]);
        }
        if self.nodes.len() > LINES_MAX {
            lines.push(vec![format!("({} more)", self.nodes.len() - LINES_MAX)]);
        }
        out.push_str(&align(&lines));
        let failed = self.nodes.iter().filter(|row| !row.seen.block.sentence.is_empty());
        for row in failed.take(LINES_MAX) {
            let block = &row.seen.block;
            let _ = writeln!(out, "{}: {}", printable(&block.node), printable(&block.sentence));
        }
        out.push('\n');
    }

    fn place_lines(&self, out: &mut String) {
        let places: Vec<Place> = self
            .places()
            .into_iter()
            .filter(|place| place.count > 0 || place.name == "in_batches")
            .collect();
        let words = places.iter().map(|place| place.words.len() + 2);
        let width = words.max().unwrap_or(0).max("received".len());
        let received = self.received();
        let digits = received.to_string().len();
        let _ = writeln!(out, "{:<width$}  {received} datagrams", "received");
        let since = self.over_edges(Edge::since_block);
        let mut line = |place: &Place| {
            let words = format!("  {}", place.words);
            let text = format!("{words:<width$}  {:>digits$}  {}", place.count, place.remedy);
            let _ = writeln!(out, "{}", text.trim_end());
        };
        places.iter().filter(|place| place.fate != Fate::InFlight).for_each(&mut line);
        places.iter().filter(|place| place.fate == Fate::InFlight).for_each(&mut line);
        if !self.is_over() {
            let _ = writeln!(out, "in flight: {} packets", self.sum_of(Fate::InFlight));
        }
        if since > 0 {
            let _ = writeln!(
                out,
                "since their last block, readouts handed over {since} packets; the builders' \
                 counts have them"
            );
        }
        out.push('\n');
    }

    /// Writes a line for each start of a readout: its packets over all partitions.
    fn edge_lines(&self, out: &mut String) {
        let mut sums: BTreeMap<(u16, u32), (String, [u64; COLUMNS.len()])> = BTreeMap::new();
        for ((number, start, _), edge) in &self.edges {
            let sum = sums.entry((*number, *start)).or_default();
            sum.0.clone_from(&edge.node);
            for (total, (_, value)) in sum.1.iter_mut().zip(COLUMNS) {
                *total = total.saturating_add(value(edge));
            }
        }
        let mut all = [0_u64; COLUMNS.len()];
        for (_, values) in sums.values() {
            all.iter_mut().zip(values).for_each(|(all, value)| *all = all.saturating_add(*value));
        }
        // A column of zeros is left out, except for the first three.
        let shown: Vec<usize> = (0..COLUMNS.len()).filter(|at| *at < 3 || all[*at] > 0).collect();
        let cells = |values: &[u64; COLUMNS.len()]| -> Vec<String> {
            shown.iter().map(|at| values[*at].to_string()).collect()
        };
        let line = |first: String, start: String, cells: Vec<String>| -> Vec<String> {
            [first, start].into_iter().chain(cells).collect()
        };
        let heads = shown.iter().map(|at| COLUMNS[*at].0.to_owned()).collect();
        let mut lines = vec![line("packets of".to_owned(), "start".to_owned(), heads)];
        for ((_, start), (node, values)) in sums.iter().take(LINES_MAX) {
            lines.push(line(printable(node), start.to_string(), cells(values)));
        }
        lines.push(line("all".to_owned(), String::new(), cells(&all)));
        out.push_str(&align(&lines));
        out.push('\n');
    }

    /// Writes a line for each source.
    fn source_lines(&self, out: &mut String) {
        let Sources { rows, not_listed, .. } = &self.sources;
        if rows.is_empty() {
            return;
        }
        let silence = self.sources.silence();
        let state = |row: &SourceRow| {
            let silent = silence.sources.iter().find(|its| its.label == row.times.label);
            let words = |its: &SilentSource| format!("silent {:.1} s", its.silent_ms as f64 * 1e-3);
            silent.map_or("-".to_owned(), words)
        };
        let heads = ["source", "node", "packets", "lost before", "state"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(rows.iter().take(LINES_MAX).map(|row| {
            let (label, node) = (printable(&row.times.label), printable(&row.node));
            let (packets, lost) = (row.times.packets.to_string(), row.lost.to_string());
            vec![label, node, packets, lost, state(row)]
        }));
        let more = (rows.len().saturating_sub(LINES_MAX) as u64).saturating_add(*not_listed);
        if more > 0 {
            lines.push(vec![format!("({more} more)")]);
        }
        out.push_str(&align(&lines));
        out.push('\n');
    }

    /// Returns the readouts whose clock was set during the run, with the step \[ms\].
    fn clocks_set(&self) -> impl Iterator<Item = (&NodeRow, i64)> {
        let step = |row: &NodeRow| row.seen.block.readout.as_ref().map(|of| of.clock_set_ms);
        self.readouts().filter_map(move |row| Some((row, step(row).filter(|ms| *ms != 0)?)))
    }

    /// Returns the state of the run in a word.
    pub(super) fn state(&self) -> &'static str {
        match (self.abandoned, self.is_over(), self.paused) {
            (true, ..) => "abandoned",
            (false, true, _) => "ended",
            (false, false, true) => "paused",
            (false, false, false) => "running",
        }
    }

    fn partition_lines(&self, out: &mut String) {
        let heads = [
            "partition",
            "builder",
            "next record",
            "taken",
            "open",
            "batches",
            "committed",
            "ended",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for partition in (0..self.partitions).take(LINES_MAX) {
            let Some(row) = self.built.get(&partition) else {
                lines.push(vec![partition.to_string(), "-".to_owned()]);
                continue;
            };
            let counters = &row.block.counters;
            let builder = match row.is_alive || row.is_over() {
                true => printable(&row.builder),
                false => format!("({})", printable(&row.builder)),
            };
            let ended = if row.is_over() { "yes" } else { "no" };
            lines.push(vec![
                partition.to_string(),
                builder,
                row.block.next_offset.to_string(),
                counters.taken.to_string(),
                counters.in_open.to_string(),
                counters.batches.to_string(),
                row.batches.to_string(),
                ended.to_owned(),
            ]);
        }
        if self.partitions as usize > LINES_MAX {
            lines.push(vec![format!("({} more)", self.partitions as usize - LINES_MAX)]);
        }
        out.push_str(&align(&lines));
        out.push('\n');
    }

    fn event_lines(&self, out: &mut String) {
        let totals = self.partition_totals();
        let _ = writeln!(
            out,
            "events: {} complete, {} incomplete, {} closed by the end, {} open",
            totals.events_complete,
            totals.events_incomplete,
            totals.events_stopped,
            totals.events_open
        );
        let _ = writeln!(
            out,
            "committed: {} batches with {} events and late fragments, {} packets",
            self.committed.batches, self.committed.events, self.committed.packets
        );
        if totals.events_kept + totals.events_filtered + totals.events_undecided > 0 {
            let PartitionCounters { events_kept, events_filtered, .. } = totals;
            let _ = writeln!(
                out,
                "filter: {events_kept} events kept, {events_filtered} rejected, {} undecided, \
                 {} marked",
                totals.events_undecided, totals.events_marked
            );
        }
        let noted = [
            ("records that came twice, taken once", totals.records_repeated),
            ("records of somebody else among the fragments", totals.records_foreign),
            ("records of somebody else among blocks and commits", self.foreign),
            ("events too large for the topic of events", self.committed.refused),
            ("events in the topic of [sink.kafka]", self.committed.sink.sent),
            ("events too large for the topic of [sink.kafka]", self.committed.sink.refused),
            ("events that its schema does not map", self.committed.sink.unmapped),
            ("values that do not fit into its schema", self.committed.sink.misfits),
            ("missing records", totals.records_missing),
            ("times that events went on without a readout", totals.left_out),
            ("packets lost before the readouts", self.readout_totals().lost),
        ];
        for (row, ms) in self.clocks_set() {
            let node = printable(&row.seen.block.node);
            let _ = writeln!(
                out,
                "the clock of {node} was set by {:+.1} s during the run; the times of its packets \
                 keep the clock of its start",
                ms as f64 * 1e-3
            );
        }
        for row in self.readouts() {
            let packets = format!("packets of {}", printable(&row.seen.block.node));
            let readout = row.seen.block.readout.as_ref();
            if let Some(sentence) = readout.and_then(|of| of.wrong_times(&packets)) {
                let _ = writeln!(out, "{sentence}");
            }
        }
        for (words, count) in noted.into_iter().filter(|noted| noted.1 > 0) {
            let _ = writeln!(out, "{words}: {count}");
        }
    }
}

/// A column: its head, and its number of an edge.
type Column = (&'static str, fn(&Edge) -> u64);

/// The columns of a readout's line.
const COLUMNS: [Column; 10] = [
    ("handed over", Edge::put),
    ("arrived", |edge| edge.taken.packets),
    ("taken", |edge| edge.taken.taken),
    ("waiting", |edge| edge.taken.held),
    ("since its block", Edge::since_block),
    ("in flight", Edge::in_flight),
    ("lost", Edge::lost),
    ("missing", |edge| edge.taken.missing.saturating_add(edge.taken.torn)),
    ("outdated", |edge| edge.taken.outdated),
    ("after end", |edge| edge.taken.after_end),
];

fn node_line(row: &NodeRow) -> Vec<String> {
    let block = &row.seen.block;
    let (name, start) = match block.role {
        Role::Readout => (block.node.clone(), block.start.to_string()),
        Role::Builder => (format!("{} {}", block.node, block.id), "-".to_owned()),
    };
    let age = match row.life {
        Life::Ended | Life::Failed => "-".to_owned(),
        _ => format!("{:.1} s", row.seen.quiet.as_secs_f64()),
    };
    vec![
        printable(&name),
        start,
        row.life.as_str().to_owned(),
        printable(&block.host),
        block.pid.to_string(),
        block.sequence.to_string(),
        age,
    ]
}

/// Returns a count with its unit: `1 readout`, `2 readouts`.
fn of_unit(count: usize, unit: &str) -> String {
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// Returns a text of another process without its control characters, which would steer a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
