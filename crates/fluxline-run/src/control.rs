//! Run control: the state of an acquisition, the commands that change it, the operator's notes.
//!
//! An armed or paused acquisition does everything but record: packets are received, followed and
//! built, and the events that close meanwhile are counted as not recorded. So the first event of a
//! run needs no warm-up, and a loss during a pause is seen.
//!
//! ```text
//!            start              pause
//!   armed ──────────▶ running ◀────────▶ paused          stop, from each of them:
//!                              resume                     stopping ──▶ stopped
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::Moment;
use serde_json::{Value, json};

use crate::stop::Stop;

/// Most changes of state that run.json lists.
const CHANGES_MAX: usize = 10_000;
/// Most notes of an operator.
const REMARKS_MAX: usize = 1_000;
/// Longest note of an operator \[byte\].
const REMARK_BYTES_MAX: usize = 4_096;

/// The state of an acquisition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Links are open and events are built, but nothing is recorded yet.
    Armed,
    /// Events are recorded.
    #[default]
    Running,
    /// Recording is interrupted; events are built and counted.
    Paused,
    /// Inputs have stopped; what was received is still recorded.
    Stopping,
    /// Everything is in the files.
    Stopped,
}

impl RunState {
    /// Returns its name in files and commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunState::Armed => "armed",
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Stopping => "stopping",
            RunState::Stopped => "stopped",
        }
    }

    /// Returns the commands that change it.
    #[must_use]
    pub fn commands(self) -> &'static [Command] {
        match self {
            RunState::Armed => &[Command::Start, Command::Stop],
            RunState::Running => &[Command::Pause, Command::Stop],
            RunState::Paused => &[Command::Resume, Command::Stop],
            RunState::Stopping | RunState::Stopped => &[],
        }
    }
}

/// A request of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins to record.
    Start,
    /// Interrupts recording.
    Pause,
    /// Goes on recording.
    Resume,
    /// Ends the run; everything received so far is recorded.
    Stop,
}

impl Command {
    /// All commands.
    pub const ALL: [Command; 4] = [Command::Start, Command::Pause, Command::Resume, Command::Stop];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Command::Start => "start",
            Command::Pause => "pause",
            Command::Resume => "resume",
            Command::Stop => "stop",
        }
    }

    /// Returns the command of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Command> {
        Command::ALL.into_iter().find(|command| command.name() == name)
    }

    /// Returns the state that it leads to.
    fn target(self) -> RunState {
        match self {
            Command::Start | Command::Resume => RunState::Running,
            Command::Pause => RunState::Paused,
            Command::Stop => RunState::Stopping,
        }
    }
}

/// A command, note or shot number that was refused, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    pub(crate) fn new(sentence: String) -> Refused {
        Refused(sentence)
    }

    fn of(command: Command, state: RunState) -> Refused {
        let possible: Vec<_> =
            state.commands().iter().map(|one| format!("`{}`", one.name())).collect();
        let possible = match possible.is_empty() {
            true => "it takes no more commands".to_owned(),
            false => format!("it takes {}", possible.join(" or ")),
        };
        Refused(format!(
            "the run is {}, so `{}` is refused; {possible}.",
            state.name(),
            command.name()
        ))
    }
}

/// A note of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The time at which it was made.
    pub at: Moment,
    /// Its text.
    pub text: String,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its time.
    pub at: Moment,
    /// The new state.
    pub to: RunState,
}

/// Controls an acquisition; clones control the same one, from any thread.
#[derive(Clone, Debug)]
pub struct Control(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// True while events are recorded: the readout asks for each batch.
    records: AtomicBool,
    log: Mutex<Log>,
    stop: Stop,
}

#[derive(Debug)]
struct Log {
    state: RunState,
    changes: Vec<Change>,
    remarks: Vec<Remark>,
    shot: Option<u64>,
}

impl Control {
    /// Makes the control of an acquisition that begins in `state` at `now` and ends by `stop`.
    pub(crate) fn new(state: RunState, stop: Stop, now: Moment) -> Control {
        let records = AtomicBool::new(state == RunState::Running);
        let changes = vec![Change { at: now, to: state }];
        let log = Mutex::new(Log { state, changes, remarks: Vec::new(), shot: None });
        Control(Arc::new(Shared { records, log, stop }))
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> RunState {
        let log = self.log();
        match log.state {
            RunState::Stopped => RunState::Stopped,
            _ if self.0.stop.is_over() => RunState::Stopping,
            state => state,
        }
    }

    /// Carries a command out at `now`, and returns the new state. A command whose state is there
    /// already changes nothing, so that two operators can give the same one.
    ///
    /// # Errors
    /// [`Refused`] when the state does not allow it.
    pub fn command(&self, command: Command, now: Moment) -> Result<RunState, Refused> {
        let state = self.state();
        let mut log = self.log();
        if state == command.target() {
            return Ok(state);
        }
        if !state.commands().contains(&command) {
            return Err(Refused::of(command, state));
        }
        log.change(command.target(), now);
        self.0.records.store(log.state == RunState::Running, Ordering::Relaxed);
        if command == Command::Stop {
            // What was received before the stop is recorded if the run was not armed or paused.
            self.0.records.store(state == RunState::Running, Ordering::Relaxed);
            self.0.stop.now();
        }
        Ok(log.state)
    }

    /// Keeps a note of an operator, for run.json.
    ///
    /// # Errors
    /// [`Refused`] when it is empty or too long, or there are too many.
    pub fn remark(&self, text: &str, now: Moment) -> Result<(), Refused> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Refused("the note is empty; write a text.".into()));
        }
        if text.len() > REMARK_BYTES_MAX {
            return Err(Refused(format!(
                "the note has {} bytes; write at most {REMARK_BYTES_MAX}.",
                text.len()
            )));
        }
        let mut log = self.log();
        if log.remarks.len() >= REMARKS_MAX {
            return Err(Refused(format!("the run has {REMARKS_MAX} notes, which is the limit.")));
        }
        tracing::info!(text, "note of an operator");
        log.remarks.push(Remark { at: now, text: text.to_owned() });
        Ok(())
    }

    /// Sets the shot number, for run.json.
    pub fn set_shot(&self, shot: u64) {
        self.log().shot = Some(shot);
    }

    /// Returns the shot number.
    #[must_use]
    pub fn shot(&self) -> Option<u64> {
        self.log().shot
    }

    /// Returns the operators' notes.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        self.log().remarks.clone()
    }

    /// Returns the changes of state, the first one included.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.log().changes.clone()
    }

    /// Returns true while closed events are to be recorded.
    pub(crate) fn records(&self) -> bool {
        self.0.records.load(Ordering::Relaxed)
    }

    /// Notes the end of the run.
    pub(crate) fn stopped(&self, now: Moment) {
        let mut log = self.log();
        if log.state != RunState::Stopping {
            log.change(RunState::Stopping, now);
        }
        log.change(RunState::Stopped, now);
    }

    /// Returns its part of run.json.
    pub(crate) fn document(&self) -> Value {
        let log = self.log();
        let changes = log.changes.iter();
        let states = changes.map(|one| json!({"at_ns": one.at.as_ns(), "state": one.to.name()}));
        let remarks = log.remarks.iter();
        let remarks = remarks.map(|one| json!({"at_ns": one.at.as_ns(), "text": one.text}));
        json!({
            "shot": log.shot,
            "states": states.collect::<Vec<_>>(),
            "remarks": remarks.collect::<Vec<_>>(),
        })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn change(&mut self, to: RunState, at: Moment) {
        tracing::info!(state = to.name(), "the run's state changed");
        self.state = to;
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(Change { at, to });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(state: RunState) -> Control {
        Control::new(state, Stop::default(), Moment::from_ns(1))
    }

    #[test]
    fn every_command_in_every_state_changes_it_as_drawn_or_is_refused() {
        for state in [RunState::Armed, RunState::Running, RunState::Paused] {
            for command in Command::ALL {
                let control = control(state);
                let result = control.command(command, Moment::from_ns(2));
                let allowed = state.commands().contains(&command) || state == command.target();
                assert_eq!(result.is_ok(), allowed, "{state:?} {command:?}");
                match result {
                    Ok(to) => assert_eq!(to, command.target(), "{state:?} {command:?}"),
                    Err(refused) => {
                        assert_eq!(control.state(), state);
                        assert!(refused.to_string().contains(state.name()), "{refused}");
                        assert!(refused.to_string().contains("`stop`"), "{refused}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_a_running_run_records_and_a_stop_keeps_what_was_so() {
        let control = control(RunState::Armed);
        let at = Moment::from_ns;
        assert!(!control.records());
        for (command, records) in [
            (Command::Start, true),
            (Command::Pause, false),
            (Command::Pause, false),
            (Command::Resume, true),
            (Command::Stop, true),
        ] {
            control.command(command, at(2)).expect("allowed");
            assert_eq!(control.records(), records, "{command:?}");
        }
        assert_eq!(control.state(), RunState::Stopping);
        assert!(control.command(Command::Resume, at(3)).is_err());
        control.stopped(at(4));
        assert_eq!(control.state(), RunState::Stopped);
        assert!(control.command(Command::Stop, at(5)).is_err());
        let states: Vec<_> = control.changes().iter().map(|change| change.to.name()).collect();
        let expected = ["armed", "running", "paused", "running", "stopping", "stopped"];
        assert_eq!(states, expected);
    }

    #[test]
    fn a_run_that_is_stopped_while_paused_records_nothing_more() {
        let control = control(RunState::Running);
        control.command(Command::Pause, Moment::from_ns(2)).expect("allowed");
        control.command(Command::Stop, Moment::from_ns(3)).expect("allowed");
        assert!(!control.records());
    }

    #[test]
    fn a_stop_by_signal_or_time_is_a_state_too() {
        let stop = Stop::default();
        let control = Control::new(RunState::Running, stop.clone(), Moment::from_ns(1));
        stop.now();
        assert_eq!(control.state(), RunState::Stopping);
        assert!(control.records(), "what was received is recorded");
    }

    #[test]
    fn notes_are_bounded_in_length_and_number() {
        let control = control(RunState::Running);
        let note = |text: &str| control.remark(text, Moment::from_ns(1));
        assert!(note(" \n").unwrap_err().to_string().contains("empty"));
        assert!(note(&"x".repeat(REMARK_BYTES_MAX + 1)).unwrap_err().to_string().contains("4096"));
        (0..REMARKS_MAX).for_each(|number| note(&number.to_string()).expect("kept"));
        assert!(note("one more").unwrap_err().to_string().contains("limit"));
        assert_eq!(control.remarks().len(), REMARKS_MAX);
    }
}
