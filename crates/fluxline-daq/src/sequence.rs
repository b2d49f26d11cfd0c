//! A sequence of runs: the values of a file such as `scan.toml`, read and checked.
//!
//! A scan is a table of runs: each has a value of every setting, and the last setting changes
//! fastest. The whole table is made before the first run, so that a mistake is found before a high
//! voltage changes, and so that a sequence that was cut goes on at the same row.

mod value;

use std::path::{Path, PathBuf};

use fluxline_toml::TomlText;
use serde::Deserialize;

use crate::experiment::{Problem, check_seconds};
use crate::input_error::InputError;
use crate::input_file;
use crate::record::check_tag;
use value::{Number, Value};

/// Most runs of a sequence.
const RUNS_MAX: usize = 10_000;
/// The place of the value in the words of a command.
const PLACE: &str = "{value}";
/// The longest command of a setting, and the longest wait, unless the file says otherwise \[s\].
const SECONDS: f64 = 60.0;

/// A sequence of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The experiment file.
    pub experiment: PathBuf,
    /// The end of each run.
    pub stop: StopAt,
    /// The action after a run with an alarm.
    pub on_alarm: OnAlarm,
    /// The settings that change.
    pub settings: Vec<Setting>,
    /// The runs, in order.
    pub steps: Vec<Step>,
}

/// The end of a run, by whatever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct StopAt {
    /// After this number of events; `None`: no limit.
    pub events: Option<u64>,
    /// After this time \[s\]; `None`: that of the experiment.
    pub seconds: Option<f64>,
}

/// The action after a run with an alarm: its status is not 0, or `run.json` lists an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnAlarm {
    /// The sequence goes on with the next run.
    #[default]
    GoOn,
    /// The run is repeated, a few times at most.
    Repeat,
    /// The sequence ends.
    Stop,
}

/// A setting that a command of the user changes before each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name in the tags of runs.
    pub name: String,
    /// The program and its arguments, with `{value}` for the value.
    pub command: CommandLine,
    /// The command that is asked until the setting is stable, if there is one.
    pub wait: Option<CommandLine>,
}

/// A command of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The longest time that it may take; of a wait: all its calls together \[s\].
    pub seconds: f64,
}

impl CommandLine {
    /// Returns the program and its arguments with a value.
    #[must_use]
    pub fn with(&self, value: &str) -> Vec<String> {
        self.words.iter().map(|word| word.replace(PLACE, value)).collect()
    }
}

/// One run of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The value of each setting, in the order of [`Sequence::settings`].
    pub values: Vec<String>,
    /// The tags of its run: `hv=1100`.
    pub tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceFile {
    sequence: SequenceTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SequenceTable {
    experiment: PathBuf,
    #[serde(default)]
    runs: Option<u64>,
    #[serde(default)]
    stop: StopAt,
    #[serde(default)]
    on_alarm: OnAlarm,
    #[serde(default)]
    set: Vec<SetTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SetTable {
    name: String,
    values: Option<Vec<Value>>,
    from: Option<Number>,
    to: Option<Number>,
    step: Option<Number>,
    command: Vec<String>,
    #[serde(default = "seconds")]
    seconds: f64,
    wait: Option<WaitTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WaitTable {
    command: Vec<String>,
    #[serde(default = "seconds")]
    seconds: f64,
}

fn seconds() -> f64 {
    SECONDS
}

impl Sequence {
    /// Reads a sequence file; paths in it are relative to its folder.
    ///
    /// Errors: a sentence with file, line and what to write.
    pub fn load(path: &Path) -> Result<Sequence, InputError> {
        let name = path.display();
        let text = input_file::read_text(path)
            .map_err(|error| InputError::new(format_args!("{name} cannot be read: {error}.")))?;
        let mut sequence = Sequence::parse(&name.to_string(), &text)?;
        sequence.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(sequence)
    }

    /// Reads a sequence from text; `name` is its name in messages.
    pub fn parse(name: &str, text: &str) -> Result<Sequence, InputError> {
        let source = TomlText { file: name, text };
        let file: SequenceFile = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        Ok(file.sequence.checked().map_err(|problem| problem.locate(source))?)
    }

    fn resolve(&mut self, folder: &Path) {
        self.experiment = folder.join(&self.experiment);
        for setting in &mut self.settings {
            let wait = setting.wait.iter_mut();
            for command in wait.chain(std::iter::once(&mut setting.command)) {
                if let Some(program) = command.words.first_mut().filter(|word| word.contains('/')) {
                    *program = folder.join(&*program).display().to_string();
                }
            }
        }
    }
}

impl SequenceTable {
    fn checked(self) -> Result<Sequence, Problem> {
        let StopAt { events, seconds } = self.stop;
        if events == Some(0) {
            let text = "stop.events is 0; write the number of events of a run, or leave it out.";
            return Err(Problem::at("sequence.stop.events", text));
        }
        if let Some(seconds) = seconds {
            check_seconds("stop.seconds", seconds)
                .map_err(|text| Problem::at("sequence.stop.seconds", text))?;
        }
        let mut settings = Vec::new();
        let mut steps = vec![Step::default()];
        for (number, table) in self.set.into_iter().enumerate() {
            let path = format!("sequence.set.{number}");
            if settings.iter().any(|other: &Setting| other.name == table.name) {
                let text = format!("two sets are named `{}`; give each `name` once.", table.name);
                return Err(Problem::at(format!("{path}.name"), text));
            }
            let values = table.values().map_err(|problem| problem.below(&path))?;
            steps = product(&steps, &table.name, &values)
                .map_err(|text| Problem::at(format!("{path}.values"), text))?;
            settings.push(table.setting().map_err(|problem| problem.below(&path))?);
        }
        let runs = match (self.runs, settings.is_empty()) {
            (None, true) => {
                let text = "the sequence has neither `runs` nor a [[sequence.set]]; write the \
                            number of runs, or the values of a setting.";
                return Err(Problem::at("sequence", text));
            }
            (None, false) => 1,
            (Some(runs), _) => runs,
        };
        let most = RUNS_MAX / steps.len();
        if runs == 0 || runs > most as u64 {
            let text = format!(
                "runs = {runs}; write 1 to {most}, the number of runs with each of the {} \
                 combinations of values.",
                steps.len()
            );
            return Err(Problem::at("sequence.runs", text));
        }
        let repeated = steps.iter().flat_map(|step| std::iter::repeat_n(step, runs as usize));
        Ok(Sequence {
            experiment: self.experiment,
            stop: self.stop,
            on_alarm: self.on_alarm,
            steps: repeated.cloned().collect(),
            settings,
        })
    }
}

/// Returns every step with every value of a further setting, which changes fastest.
fn product(steps: &[Step], name: &str, values: &[String]) -> Result<Vec<Step>, String> {
    if steps.len().saturating_mul(values.len()) > RUNS_MAX {
        return Err(format!("the sequence has more than {RUNS_MAX} runs; write fewer values."));
    }
    let mut all = Vec::new();
    for step in steps {
        for value in values {
            let mut step = step.clone();
            step.tags.push(format!("{name}={value}"));
            step.values.push(value.clone());
            all.push(step);
        }
    }
    Ok(all)
}

impl SetTable {
    /// Returns the values as texts.
    fn values(&self) -> Result<Vec<String>, Problem> {
        let values = match (&self.values, self.from, self.to, self.step) {
            (Some(values), None, None, None) => values.iter().map(ToString::to_string).collect(),
            (None, Some(from), Some(to), Some(step)) => {
                value::range(from, to, step, RUNS_MAX).map_err(|text| Problem::at("step", text))?
            }
            _ => {
                let text = format!(
                    "the set `{}` needs either `values`, or `from`, `to` and `step`.",
                    self.name
                );
                return Err(Problem::at("", text));
            }
        };
        if values.is_empty() {
            return Err(Problem::at("values", "`values` is empty; write at least one value."));
        }
        for value in &values {
            check_tag(&format!("{}={value}", self.name))
                .map_err(|text| Problem::at("values", text))?;
        }
        Ok(values)
    }

    fn setting(self) -> Result<Setting, Problem> {
        if !self.command.iter().any(|word| word.contains(PLACE)) {
            let text = format!(
                "no word of the command is or has `{PLACE}`, so that it would set nothing; write \
                 for example command = [\"./set_{}\", \"{PLACE}\"].",
                self.name
            );
            return Err(Problem::at("command", text));
        }
        check_command(self.command.first(), self.seconds)?;
        if let Some(wait) = &self.wait {
            check_command(wait.command.first(), wait.seconds)
                .map_err(|problem| problem.below("wait"))?;
        }
        let line = |words, seconds| CommandLine { words, seconds };
        Ok(Setting {
            name: self.name,
            command: line(self.command, self.seconds),
            wait: self.wait.map(|wait| line(wait.command, wait.seconds)),
        })
    }
}

/// Checks the program of a command and its time \[s\].
fn check_command(program: Option<&String>, seconds: f64) -> Result<(), Problem> {
    if program.is_none_or(String::is_empty) {
        return Err(Problem::at("command", "`command` is empty; write a program and its words."));
    }
    let is_long = seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0;
    match is_long {
        true => Ok(()),
        false => {
            let text = format!("seconds = {seconds}; write more than 0 and at most 86400.");
            Err(Problem::at("seconds", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "[sequence]\nexperiment = 'e.toml'\n[[sequence.set]]\nname = 'hv'\n\
                       command = ['./set', '{value}']\n";

    fn tags(text: &str) -> Vec<String> {
        let sequence = Sequence::parse("scan.toml", text).expect("a valid sequence");
        sequence.steps.iter().map(|step| step.tags.join(" ")).collect()
    }

    #[test]
    fn each_run_has_a_value_of_every_setting_and_the_last_one_changes_fastest() {
        let text = format!(
            "{}values = [1000, 1100.5, 'off']\n[[sequence.set]]\nname = 'gain'\n\
             command = ['set', 'gain={{value}}']\nfrom = 1\nto = 2\nstep = 1\n",
            SET.replace("'e.toml'", "'e.toml'\nruns = 2")
        );
        assert_eq!(
            tags(&text),
            [
                "hv=1000 gain=1",
                "hv=1000 gain=1",
                "hv=1000 gain=2",
                "hv=1000 gain=2",
                "hv=1100.5 gain=1",
                "hv=1100.5 gain=1",
                "hv=1100.5 gain=2",
                "hv=1100.5 gain=2",
                "hv=off gain=1",
                "hv=off gain=1",
                "hv=off gain=2",
                "hv=off gain=2"
            ]
        );
        let none = "[sequence]\nexperiment = 'e.toml'\nruns = 3\n";
        assert_eq!(tags(none), ["", "", ""]);
    }

    #[test]
    fn ranges_go_up_and_down_without_digits_of_rounding() {
        let range = |text: &str| tags(&format!("{SET}{text}\n")).join(" ");
        assert_eq!(range("from = 0\nto = 0.3\nstep = 0.1"), "hv=0.0 hv=0.1 hv=0.2 hv=0.3");
        assert_eq!(range("from = 30\nto = 9\nstep = -10"), "hv=30 hv=20 hv=10");
        assert_eq!(range("from = 5\nto = 5\nstep = 1"), "hv=5");
    }

    #[test]
    fn a_wrong_sequence_is_a_sentence_with_its_line() {
        let long = format!("{SET}from = 0\nto = 100000\nstep = 1\n");
        let huge = format!("{SET}from = -9223372036854775808\nto = 9223372036854775807\nstep = 1");
        let cases = [
            ("", "`sequence`"),
            ("[sequence]\nexperiment = 'e.toml'\n", "neither `runs` nor"),
            ("[sequence]\nexperiment = 'e.toml'\nruns = 0\n", "write 1 to 10000"),
            ("[sequence]\nexperiment = 'e.toml'\nrun = 3\n", "did you mean `runs`"),
            ("[sequence]\nexperiment = 'e.toml'\nruns = 3\non-alarm = 'sing'\n", "sing"),
            ("[sequence]\nexperiment = 'e.toml'\nruns = 3\nstop = { events = 0 }\n", "is 0"),
            ("[sequence]\nexperiment = 'e.toml'\nruns = 3\nstop = { seconds = -1 }\n", "seconds"),
            (&format!("{SET}values = []\n"), "is empty"),
            (&format!("{SET}values = [\"a\\nb\"]\n"), "control character"),
            (&format!("{SET}values = [nan]\n"), "nan"),
            (&format!("{SET}from = 1\nto = 2\n"), "needs either"),
            (&format!("{SET}from = 1\nto = 2\nstep = 0\n"), "step"),
            (&format!("{SET}from = 1\nto = 2\nstep = -1\n"), "step"),
            (&format!("{SET}from = 0.0\nto = 1.0\nstep = 1e-300\n"), "more than 10000"),
            (&long, "more than 10000"),
            (&huge, "more than 10000"),
            (&SET.replace("{value}", "value"), "needs either"),
            (&format!("{}values = [1]\n", SET.replace("{value}", "v")), "set nothing"),
            (&format!("{SET}values = [1]\nseconds = 0\n"), "more than 0"),
            (&format!("{SET}values = [1]\nwait = {{ command = [] }}\n"), "is empty"),
            (&format!("{SET}values = [1]\n{}values = [1]\n", &SET[33..]), "two sets"),
        ];
        for (text, words) in cases {
            let error = Sequence::parse("scan.toml", text).expect_err(text).to_string();
            assert!(error.contains(words) && error.contains("scan.toml:"), "{text}: {error}");
        }
    }
}
