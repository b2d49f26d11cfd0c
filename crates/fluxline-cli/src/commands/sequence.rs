//! `fluxline sequence`: several runs one after the other, with settings that change.
//!
//! ```text
//!   for each run:  set every value ──▶ wait until stable ──▶ run ──▶ progress ──▶ alarm?
//! ```
//!
//! A run whose values could not be set is not started, and ends the sequence: nobody wants a night
//! of runs with a voltage that is not the one in their tags. What is finished is in the progress,
//! so `--resume` goes on from there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fluxline_daq::experiment::Experiment;
use fluxline_daq::record::{Directory, Mark, Marks};
use fluxline_daq::sequence::{CommandLine, OnAlarm, Sequence, Step};
use fluxline_run::{Acquisition, Options, Report, Stop, Verdict};
use fluxline_serve::{Listening, ServerConfig};
use indicatif::HumanCount;
use serde_json::{Value, json};

use crate::acquisition::{self, Shown};
use crate::failure::{self, Ending, Failure};
use crate::output::escaped_line;
use crate::runs_arguments::SequenceArguments;
use crate::sequence_progress::{Entry, Progress, State, lock};
use crate::served::{self, Served};
use crate::user_command::{self, Unsuccessful};
use crate::{inform, kafka, say};

/// The name of the progress file beside the sequence file.
const PROGRESS_FILE: &str = "sequence.jsonl";
/// Most runs with one number, where an alarm repeats them.
const TRIES_MAX: usize = 3;
/// The tag of runs in whose place another one came.
const REPLACED_TAG: &str = "replaced";

/// Does the runs of a sequence that are not finished.
pub fn sequence(arguments: &SequenceArguments, json: bool) -> Result<Ending, Failure> {
    let sequence = Sequence::load(&arguments.sequence)?;
    let experiment = experiment_of(&sequence)?;
    if arguments.dry_run {
        print_plan(&sequence, json);
        return Ok(Ending::Well);
    }
    let file = File::open(&arguments.sequence).map_err(|error| {
        Failure::input(format_args!("{} cannot be read: {error}.", arguments.sequence.display()))
    })?;
    lock(&file, &arguments.sequence)?;
    let path = arguments.progress.clone().unwrap_or_else(|| {
        arguments.sequence.parent().unwrap_or(Path::new("")).join(PROGRESS_FILE)
    });
    let (progress, state) = Progress::open(&path)?;
    let hosts = &experiment.page_hosts;
    let page = arguments.serve.map(|at| ServerConfig::at(Some(at)).with_hosts(hosts));
    let mut work = Work {
        arguments,
        page,
        sequence: &sequence,
        experiment,
        progress,
        progress_path: path,
        stop: Stop::on_signal(crate::output::ended_at_once),
        json,
        done: Vec::new(),
    };
    let failure = work.begin(state).and_then(|remaining| work.runs(&remaining)).err();
    let print = || match json {
        true => super::print_json(&json!({
            "status": failure::status_of(failure.as_ref()),
            "sentence": failure.as_ref().map(|failure| &failure.message),
            "runs": work.done,
        })),
        false if failure.is_none() => {
            say!("All {} runs of the sequence are finished.", sequence.steps.len());
        }
        false => {}
    };
    Ok(failure::report(failure.as_ref(), json, print))
}

/// Returns the experiment of the runs, which ends by itself and records.
fn experiment_of(sequence: &Sequence) -> Result<Experiment, Failure> {
    let mut experiment = fluxline_run::load(&sequence.experiment)?;
    let file = sequence.experiment.display();
    let link = experiment.link.as_ref().map_or("", |link| &link.url);
    if experiment.cluster.is_some() || link.starts_with("sim:") {
        return Err(Failure::input(format_args!(
            "{file} has [cluster] or a simulated link, and the runs of a sequence are on this \
             machine; name another experiment."
        )));
    }
    if !experiment.record.enabled {
        return Err(Failure::input(format_args!(
            "{file} records nothing, and the runs of a sequence are found by their folders; \
             remove `enabled = false` under [record]."
        )));
    }
    if let Some(seconds) = sequence.stop.seconds {
        experiment.seconds = seconds;
    }
    let is_finite = experiment.seconds > 0.0 || sequence.stop.events.is_some();
    if !is_finite && !experiment.sources.iter().all(|source| source.is_file()) {
        return Err(Failure::input(format_args!(
            "the runs never end: neither the sequence nor {file} says when; write for example \
             stop = {{ events = 100000, seconds = 300 }} under [sequence]."
        )));
    }
    Ok(experiment)
}

fn print_plan(sequence: &Sequence, json: bool) {
    let commands = |step: &Step| -> Vec<String> {
        let set = sequence.settings.iter().zip(&step.values);
        set.map(|(setting, value)| setting.command.with(value).join(" ")).collect()
    };
    let steps = sequence.steps.iter().enumerate();
    if json {
        let run = |(at, step): (usize, &Step)| {
            let (run, tags, commands) = (at + 1, &step.tags, commands(step));
            json!({ "run": run, "tags": tags, "commands": commands })
        };
        let runs: Vec<_> = steps.map(run).collect();
        return super::print_json(&json!({ "status": 0, "runs": runs }));
    }
    for (number, step) in steps {
        let (tags, commands) = (step.tags.join(" "), commands(step).join("; "));
        say!("run {}: {}", number + 1, escaped_line(&format!("{tags}  {commands}")));
    }
}

/// A sequence at work.
struct Work<'a> {
    arguments: &'a SequenceArguments,
    sequence: &'a Sequence,
    experiment: Experiment,
    /// The page of the runs: from the second one on, with the address and the token of the first.
    page: Option<ServerConfig>,
    progress: Progress,
    progress_path: PathBuf,
    stop: Stop,
    json: bool,
    /// The runs of this call, for `--json`.
    done: Vec<Value>,
}

/// The end of one run.
enum RunEnd {
    /// As planned.
    Finished(Box<Report>),
    /// By the user, before that.
    Cut(PathBuf),
}

impl Work<'_> {
    /// Returns the numbers of the runs that are to be done, from 1.
    fn begin(&mut self, state: State) -> Result<Vec<usize>, Failure> {
        let runs: Vec<_> = self.sequence.steps.iter().map(|step| step.tags.clone()).collect();
        let (all, file) = (runs.len(), self.progress_path.display().to_string());
        let is_open = state.runs.is_some() && !state.has_ended;
        if is_open && self.arguments.resume {
            if state.runs.as_ref() != Some(&runs) {
                return Err(Failure::input(format_args!(
                    "the sequence in {file} has other runs or values than {}; restore the \
                     sequence file, or begin again with --restart.",
                    self.arguments.sequence.display()
                )));
            }
            if let Some((run, folder)) = &state.cut {
                inform!("run {run} was cut, and is repeated: {}", escaped_line(folder));
                mark(Path::new(folder), vec![REPLACED_TAG.to_owned()]);
            }
            return Ok((1..=all).filter(|run| !state.finished.contains(run)).collect());
        }
        if is_open && !self.arguments.restart {
            return Err(Failure::input(format_args!(
                "{file} has a sequence of which {} of {} runs are finished; go on with --resume, \
                 or begin again with --restart.",
                state.finished.len(),
                state.runs.map_or(0, |runs| runs.len())
            )));
        }
        if self.arguments.resume && state.runs.as_ref() == Some(&runs) {
            return Ok(Vec::new());
        }
        let sequence = self.arguments.sequence.to_string_lossy().into_owned();
        self.progress.add(Entry::Begin { sequence, runs })?;
        Ok((1..=all).collect())
    }

    /// Does these runs.
    fn runs(&mut self, numbers: &[usize]) -> Result<(), Failure> {
        let mut looked_at = Vec::new();
        for number in numbers {
            if self.stop.is_over() {
                return Err(self.stopped(*number));
            }
            if let Some(folder) = self.run(*number)? {
                looked_at.push(folder);
            }
        }
        let all = self.sequence.steps.len();
        if !numbers.is_empty() {
            self.progress.add(Entry::Ended { runs: all })?;
        }
        match looked_at.first() {
            None => Ok(()),
            Some(first) => Err(Failure::look(format_args!(
                "all {all} runs of the sequence are finished, and {} of them need a look, the \
                 first {first}: `fluxline inspect {first}` says why.",
                looked_at.len()
            ))),
        }
    }

    /// Does one run, again if an alarm wants it; returns its folder when it needs a look.
    fn run(&mut self, number: usize) -> Result<Option<String>, Failure> {
        for tries in 1..=TRIES_MAX {
            self.set(number)?;
            let report = match self.acquire(number)? {
                RunEnd::Finished(report) => report,
                RunEnd::Cut(folder) => {
                    let (run, reason) = (number, "stopped by the user".to_owned());
                    mark(&folder, vec![REPLACED_TAG.to_owned()]);
                    let folder = folder.to_string_lossy().into_owned();
                    self.progress.add(Entry::Repeated { run, folder, reason })?;
                    return Err(self.stopped(number));
                }
            };
            let folder = folder_of(&report);
            let Some(reason) = alarm(&report) else {
                self.finish(number, &report)?;
                return Ok(None);
            };
            match self.sequence.on_alarm {
                OnAlarm::GoOn => {
                    self.finish(number, &report)?;
                    return Ok(Some(folder));
                }
                OnAlarm::Stop => {
                    self.finish(number, &report)?;
                    return Err(Failure::look(format_args!(
                        "the sequence ends behind run {number} ({folder}), which has an alarm: \
                         {reason} Go on with --resume."
                    )));
                }
                OnAlarm::Repeat => {
                    inform!("run {number} is repeated, try {tries} of {TRIES_MAX}: {reason}");
                    mark(Path::new(&folder), vec![REPLACED_TAG.to_owned()]);
                    self.progress.add(Entry::Repeated { run: number, folder, reason })?;
                }
            }
            if self.stop.is_over() {
                return Err(self.stopped(number));
            }
        }
        let reason = format!("run {number} had an alarm in each of {TRIES_MAX} tries");
        self.progress.add(Entry::Failed { run: number, reason: reason.clone() })?;
        Err(Failure::look(format_args!(
            "{reason}; look for the reason with `fluxline inspect`, and go on with --resume."
        )))
    }

    /// Sets the values of a run, and waits until they are stable.
    fn set(&mut self, number: usize) -> Result<(), Failure> {
        let values = &self.sequence.steps[number - 1].values;
        for (setting, value) in self.sequence.settings.iter().zip(values) {
            let set = user_command::call(&setting.command, value, &self.stop);
            let done = match (set, &setting.wait) {
                (Ok(()), None) => Ok(()),
                (Ok(()), Some(wait)) => {
                    user_command::wait(wait, value, &self.stop).map_err(|end| (end, wait))
                }
                (Err(end), _) => Err((end, &setting.command)),
            };
            let Err((end, command)) = done else { continue };
            return Err(self.not_set(number, end, &command_text(command, value)));
        }
        Ok(())
    }

    fn not_set(&mut self, number: usize, end: Unsuccessful, command: &str) -> Failure {
        let reason = match end {
            Unsuccessful::Stopped => return self.stopped(number),
            Unsuccessful::NotStarted(reason) | Unsuccessful::Failed(reason) => reason,
        };
        let reason = format!("`{command}` {reason}");
        let kept = self.progress.add(Entry::Failed { run: number, reason: reason.clone() });
        kept.err().unwrap_or_else(|| {
            Failure::failed(format_args!(
                "run {number} of {} was not started: {reason}; correct it, and go on with \
                 --resume.",
                self.sequence.steps.len()
            ))
        })
    }

    fn stopped(&self, number: usize) -> Failure {
        Failure::failed(format_args!(
            "the sequence was stopped at run {number} of {}; `fluxline sequence {} --resume` goes \
             on with it.",
            self.sequence.steps.len(),
            self.arguments.sequence.display()
        ))
    }

    /// Does one run.
    fn acquire(&mut self, number: usize) -> Result<RunEnd, Failure> {
        let (all, tags) = (self.sequence.steps.len(), &self.sequence.steps[number - 1].tags);
        let lead = format!("run {number} of {all} {} | ", tags.join(" "));
        let of_run = |failure: Failure| Failure {
            message: format!("run {number} of {all}: {}", failure.message),
            ..failure
        };
        let options =
            Options { stop: self.stop.clone(), open_sink: kafka::OPEN_SINK, ..Options::default() };
        let listening = self.listen().map_err(of_run)?;
        let seconds = self.experiment.seconds;
        let began = Instant::now();
        let acquisition = fluxline_run::start_with(self.experiment.clone(), options)
            .map_err(|error| of_run(error.into()))?;
        let folder = acquisition.plan().folder.clone().unwrap_or_default();
        let started = Entry::Started { run: number, folder: folder.to_string_lossy().into() };
        let served = listening.map(|on| Served::start(on, &acquisition)).transpose();
        let (_served, failure) = match (served, self.progress.add(started)) {
            (Ok(served), Ok(())) => (served, None),
            (Err(failure), _) | (_, Err(failure)) => (None, Some(failure)),
        };
        if let Some(failure) = failure {
            acquisition.stop();
            acquisition.wait()?;
            return Err(failure);
        }
        mark(&folder, tags.clone());
        let note = format!("{}: run {number} of {all} {}", self.name(), tags.join(" "));
        // The marks have the values too; a note is refused only if it is too long.
        let _ = acquisition.control().remark(&note, fluxline::clock::now());
        let events = self.sequence.stop.events.unwrap_or(u64::MAX);
        let mut has_all = false;
        let each = |acquisition: &Acquisition| {
            if !has_all && acquisition.stats().events >= events {
                has_all = true;
                acquisition.stop();
            }
        };
        let shown = Shown { quiet: self.json, lead };
        let report = acquisition::watch(acquisition, shown, each).map_err(of_run)?;
        let has_time = seconds > 0.0 && began.elapsed().as_secs_f64() >= seconds;
        let is_cut = self.stop.is_over() && !has_all && !has_time;
        match &report.verdict {
            Verdict::LedgerOpen(_) | Verdict::RecordingStopped(_) => {
                let failure = Failure::of_verdict(&report.verdict);
                let failure = failure.unwrap_or_else(|| Failure::failed("the run failed."));
                let reason = failure.message.clone();
                self.progress.add(Entry::Failed { run: number, reason })?;
                Err(of_run(failure))
            }
            _ if is_cut => Ok(RunEnd::Cut(folder)),
            _ => Ok(RunEnd::Finished(Box::new(report))),
        }
    }

    /// Listens on the address of the page, before a run begins.
    fn listen(&mut self) -> Result<Option<Listening>, Failure> {
        let Some(page) = &mut self.page else { return Ok(None) };
        let listening = served::listen(page)?;
        listening.keep_in(page).map_err(served::failure)?;
        Ok(Some(listening))
    }

    /// Writes the end of a run, and prints it.
    fn finish(&mut self, number: usize, report: &Report) -> Result<(), Failure> {
        let step = &self.sequence.steps[number - 1];
        let (folder, status) = (folder_of(report), report.verdict.status());
        let (events, incomplete) = (report.ledger.events(), report.ledger.events_incomplete());
        self.done.push(json!({
            "run": number, "folder": folder, "tags": step.tags, "status": status,
            "events": events, "incomplete": incomplete,
        }));
        if !self.json {
            let (all, tags) = (self.sequence.steps.len(), step.tags.join(" "));
            say!(
                "{}: {} events, {} incomplete",
                escaped_line(format!("run {number} of {all}: {folder} {tags}").trim_end()),
                HumanCount(events),
                HumanCount(incomplete)
            );
        }
        self.progress.add(Entry::Finished { run: number, folder, status, events })
    }

    /// Returns the name of the sequence file.
    fn name(&self) -> String {
        let name = self.arguments.sequence.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

fn command_text(command: &CommandLine, value: &str) -> String {
    escaped_line(&command.with(value).join(" ")).into_owned()
}

fn folder_of(report: &Report) -> String {
    report.folder.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default()
}

/// Returns the reason why a run has an alarm: a sentence.
fn alarm(report: &Report) -> Option<String> {
    if let Some(sentence) = report.verdict.sentence() {
        return Some(sentence.to_owned());
    }
    report.alarms.first().map(|alarm| format!("alarm: {alarm}"))
}

/// Adds tags to a run. Where that fails, the operator hears of it, and the runs go on: the values
/// are in the operators' notes too.
fn mark(folder: &Path, tags: Vec<String>) {
    let marks: Vec<_> = tags.into_iter().map(Mark::Tag).collect();
    if marks.is_empty() {
        return;
    }
    let done = Directory::open(folder)
        .map_err(Into::into)
        .and_then(|open| Marks::append(&open, &super::runs::author(), &marks));
    if let Err(error) = done {
        inform!("note: {} has no tags: {error}", escaped_line(&folder.to_string_lossy()));
    }
}
