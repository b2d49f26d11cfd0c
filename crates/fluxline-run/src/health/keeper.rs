//! The thread that looks at a run once a second: its health, and its history.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::OutcomeRow;
use fluxline_daq::record::{
    HISTORY_COLUMNS, HISTORY_FILE, HistoryRow, HistoryWriter, RunFolder, SourceRow,
};
use serde_json::{Value, json};

use super::notify::Notifier;
use super::rules::{self, Rules};
use super::sample::{Sample, Window, dropped_rows};
use crate::alarms::{AlarmChange, AlarmLog, AlarmState, Health, word};
use crate::control::RunState;
use crate::live::Watcher;

/// Time from look to look.
const PERIOD: Duration = Duration::from_millis(1_000);
/// Time before a look at which the threads are asked for their counters.
const ASKED: Duration = Duration::from_millis(300);

/// The running thread.
#[derive(Debug)]
pub(crate) struct Keeper {
    end: Sender<()>,
    thread: JoinHandle<Kept>,
}

/// The alarms that a run's keeper saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// The first sentences of raised alarms, warnings left out.
    pub alarms: Vec<String>,
    /// Number of warnings that were raised.
    pub warnings: u64,
}

impl Kept {
    /// Returns its part of run.json.
    pub fn document(&self) -> Value {
        json!({ "alarms": self.alarms, "warnings": self.warnings })
    }

    fn add(&mut self, change: &AlarmChange) {
        use fluxline_daq::experiment::Severity;
        match (change.change, change.severity) {
            (AlarmState::Raised | AlarmState::Worse, Severity::Alarm)
                if self.alarms.len() < 100 =>
            {
                self.alarms.push(change.sentence.clone());
            }
            (AlarmState::Raised, Severity::Warning) => self.warnings += 1,
            _ => {}
        }
    }
}

impl Keeper {
    /// Starts the thread. `is_part`: the process has one node of several.
    pub fn start(
        watcher: Watcher,
        experiment: &Experiment,
        folder: Option<&RunFolder>,
        is_part: bool,
    ) -> Keeper {
        let (end, ended) = channel();
        let keeping = Keeping {
            rules: Rules::of(experiment, is_part),
            window: Window::default(),
            log: folder.map(|folder| AlarmLog::new(folder.clone())),
            history: folder.and_then(|folder| begin_history(folder, &watcher)),
            notifier: Notifier::start(&experiment.health.command, &watcher.monitor),
            kept: Kept::default(),
            experiment: experiment.clone(),
            watcher,
        };
        let thread = std::thread::spawn(move || keeping.run(&ended));
        Keeper { end, thread }
    }

    /// Ends the thread, after a last look.
    pub fn end(self) -> Kept {
        drop(self.end);
        self.thread.join().unwrap_or_default()
    }
}

/// Makes the file of the history; a disk that cannot have it is a note.
fn begin_history(folder: &RunFolder, watcher: &Watcher) -> Option<HistoryWriter> {
    let ends = dropped_rows().map(|row: &'static OutcomeRow| row.counter);
    let made = HistoryWriter::create(folder.directory(), ends);
    made.map_err(|error| watcher.monitor.note(Some(no_history(&error)))).ok()
}

fn no_history(error: &dyn std::fmt::Display) -> String {
    format!("{HISTORY_FILE} cannot be written, so the run has no curves from here on: {error}")
}

struct Keeping {
    watcher: Watcher,
    experiment: Experiment,
    rules: Rules,
    window: Window,
    log: Option<AlarmLog>,
    history: Option<HistoryWriter>,
    notifier: Option<Notifier>,
    kept: Kept,
}

impl Keeping {
    fn run(mut self, ended: &Receiver<()>) -> Kept {
        let is_over = |time| !matches!(ended.recv_timeout(time), Err(RecvTimeoutError::Timeout));
        while !is_over(PERIOD - ASKED) {
            self.watcher.monitor.ask(Span::from_ms(ASKED.as_millis() as u64 * 2));
            if is_over(ASKED) {
                break;
            }
            self.look();
        }
        self.finish();
        self.kept
    }

    fn look(&mut self) {
        let live = self.watcher.seen();
        let now = live.at;
        let is_new = self.window.now().is_none_or(|last| last.at < live.counted_at);
        if live.counted_at == Moment::default() {
            return; // no thread publishes here
        }
        if is_new {
            let sample = Sample::of(&live, &self.experiment, self.watcher.slow_values());
            self.write_history(now, &sample);
            self.window.push(sample);
        }
        if !matches!(live.state, RunState::Stopping | RunState::Stopped) {
            let found = self.rules.find(&self.window, now);
            let normal = rules::normal(&self.window);
            self.health().table().tick(now, found, normal);
        } else {
            self.health().table().look(now);
        }
        self.pass_on();
    }

    fn finish(&mut self) {
        let live = self.watcher.seen();
        if live.counted_at > Moment::default() {
            let sample = Sample::of(&live, &self.experiment, self.watcher.slow_values());
            self.write_history(live.at, &sample);
        }
        self.health().table().end(live.at);
        self.pass_on();
        if let Some(Err(error)) = self.history.take().map(HistoryWriter::finish) {
            self.watcher.monitor.note(Some(no_history(&error)));
        }
    }

    fn health(&self) -> Health {
        self.watcher.health.clone()
    }

    /// Writes the changes of alarms down, and gives them to the command.
    fn pass_on(&mut self) {
        let (changes, health) = {
            let health = self.health();
            let mut table = health.table();
            (table.take_changes(), table.document())
        };
        for change in changes {
            self.kept.add(&change);
            let failed = self.log.as_mut().and_then(|log| log.append(&change));
            self.watcher.monitor.note(failed);
            if let Some(notifier) = &self.notifier {
                let plan = self.watcher.plan();
                notifier.send(json!({
                    "run": plan.name, "folder": plan.folder, "alarm": change,
                    "health": { "state": health["state"], "sentence": health["sentence"] },
                }));
            }
        }
    }

    fn write_history(&mut self, now: Moment, sample: &Sample) {
        let Some(history) = &mut self.history else { return };
        let state = self.watcher.health.state();
        if let Err(error) = history.push(row_of(now, sample, word(state))) {
            self.history = None;
            self.watcher.monitor.note(Some(no_history(&error)));
        }
    }
}

/// Returns a sample as a row of the history.
fn row_of(now: Moment, sample: &Sample, health: &str) -> HistoryRow {
    let delay = |ns: u64| (sample.delays.events > 0).then_some(ns);
    let value = |name: &str| match name {
        "packets" => Some(sample.packets),
        "bytes" => Some(sample.bytes),
        "events" => Some(sample.events),
        "incomplete" => Some(sample.incomplete),
        "lost" => Some(sample.lost),
        "dropped" => Some(sample.dropped.iter().sum()),
        "recorded_bytes" => Some(sample.recorded_bytes),
        "ring_percent" => Some(sample.ring_percent),
        "free_bytes" => sample.free_bytes,
        "delay_p50_ns" => delay(sample.delays.p50_ns),
        "delay_p99_ns" => delay(sample.delays.p99_ns),
        "recording" => Some(u64::from(sample.state == RunState::Running)),
        "health" => {
            ["ok", "warning", "alarm"].iter().position(|word| *word == health).map(|at| at as u64)
        }
        name => unreachable!("a column without a value: {name}"),
    };
    let source = |of: &super::sample::SourceSample| SourceRow {
        label: of.label.clone(),
        packets: of.packets,
        lost: of.lost,
        last_ns: of.last_ns,
    };
    HistoryRow {
        time_ns: now.as_ns(),
        values: HISTORY_COLUMNS.map(value),
        ends: sample.dropped.clone(),
        sources: sample.sources.iter().map(source).collect(),
    }
}
