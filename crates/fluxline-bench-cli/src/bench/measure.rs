//! `fluxline bench LINK`: runs the experiments, prints their results, writes the report.

use fluxline_bench::environment::{Plan, Program};
use fluxline_bench::kind::ExperimentKind;
use fluxline_bench::real::Link;
use fluxline_bench::result::Report;
use fluxline_bench::{host, page, pingpong, run};
use serde_json::json;

use super::session::{self, Session, failure, kept};
use super::{report, save, simulated};
use crate::bench_arguments::{BenchArguments, BenchFormat, BenchLink};
use crate::failure::Failure;
use crate::output::print_json;
use crate::{progress, say, say_text};
use fluxline_run::Stop;

/// Runs the experiments, prints their results and writes the report.
pub fn measure(link: &BenchLink, arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    let quiet = json || arguments.format.is_some();
    let kinds = kinds(link, &names(arguments))?;
    let to_save = save::CrossoverFile::of(link, arguments, &kinds)?;
    let Run { report, ended } = run(link, arguments, kinds, quiet);
    if report.is_empty() {
        return Err(ended.err().unwrap_or_else(|| nothing(&report)));
    }
    // A caller that takes the document from standard output needs no files.
    let wants_files = !quiet || arguments.report.is_some() || ended.is_err();
    let folder = match wants_files {
        true => Some(report::write(&report, arguments.report.as_deref())?),
        false => None,
    };
    let place = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
    if let Err(failure) = ended {
        return Err(kept(failure, &place));
    }
    let saved = to_save.map(|place| place.keep(&report)).transpose()?;
    if arguments.format.is_some() {
        return netpipe(&report);
    }
    if json {
        print_json(&report::document(&report)?);
        return Ok(());
    }
    page::lines(&report).iter().for_each(|line| say!("{line}"));
    saved.iter().for_each(|saved| say!("\n{saved}"));
    say!("\n{place}/report.html and report.json have the whole report");
    Ok(())
}

/// Runs experiments by name and returns their report. Errors: nothing or not all was measured.
pub fn report(
    link: &BenchLink,
    arguments: &BenchArguments,
    only: &[String],
    quiet: bool,
) -> Result<Report, Failure> {
    let Run { report, ended } = run(link, arguments, kinds(link, only)?, quiet);
    ended?;
    if report.is_empty() { Err(nothing(&report)) } else { Ok(report) }
}

fn kinds(link: &BenchLink, only: &[String]) -> Result<Vec<&'static ExperimentKind>, Failure> {
    run::choose(only, &link.link).map_err(|error| Failure::failed(format_args!("{error}.")))
}

/// A report, and the end of its run.
struct Run {
    report: Report,
    ended: Result<(), Failure>,
}

fn run(
    link: &BenchLink,
    arguments: &BenchArguments,
    kinds: Vec<&'static ExperimentKind>,
    quiet: bool,
) -> Run {
    let (plan, stop, bar) =
        (plan(arguments), Stop::on_signal(crate::output::ended_at_once), progress::bar(0, quiet));
    let session = Session { link, arguments, plan, kinds, stop, bar };
    let near = host::describe(link.link.through().as_ref());
    let mut report = session::begin(&link.url, &session.plan, json!({ "near": near }));
    report.environment["plan"] = json!(session.plan);
    let ended = session.run(&mut report);
    session.bar.finish_and_clear();
    Run { report, ended }
}

/// Returns the names of the experiments to run; none: the default ones.
fn names(arguments: &BenchArguments) -> Vec<String> {
    match arguments.format {
        Some(BenchFormat::Netpipe) if arguments.only.is_empty() => {
            vec![pingpong::netpipe::BY_DEFAULT.to_owned()]
        }
        _ => arguments.only.clone(),
    }
}

fn plan(arguments: &BenchArguments) -> Plan {
    let default = Plan::new(arguments.quick);
    Plan {
        rounds: arguments.rounds.unwrap_or(default.rounds),
        seed: arguments.seed,
        sizes: arguments.sizes.unwrap_or(default.sizes),
        perturbation: arguments.perturbation.unwrap_or(default.perturbation),
        repeats: arguments.repeats,
        trial_seconds: arguments.trial_seconds.unwrap_or(default.trial_seconds),
        soak_seconds: arguments.seconds.unwrap_or(default.soak_seconds),
        ..default
    }
}

impl Session<'_> {
    fn run(&self, report: &mut Report) -> Result<(), Failure> {
        let ended = match self.link.link {
            Link::Simulated => simulated::on_link(self, report),
            _ => self.on_real_link().run(report, Box::new(progress::reporter(&self.bar))),
        };
        ended.map_err(|error| failure(&error))
    }

    fn on_real_link(&self) -> fluxline_bench::session::Session<'_> {
        fluxline_bench::session::Session {
            link: &self.link.link,
            url: &self.link.url,
            peer: self.arguments.peer,
            key: self.arguments.key.clone(),
            cores: &self.arguments.cores,
            plan: &self.plan,
            kinds: &self.kinds,
            stop: fluxline_bench::Stop::on(self.stop.flag()),
            program: Program::this(),
        }
    }
}

/// Returns the failure of a run without a result; the first experiment knows the reason.
fn nothing(report: &Report) -> Failure {
    let why = report.experiments.iter().map(|one| one.incomplete.as_str());
    let why = why.into_iter().find(|why| !why.is_empty()).unwrap_or("nothing was measured");
    Failure::failed(format_args!("{}.", why.trim_end_matches('.')))
}

fn netpipe(report: &Report) -> Result<(), Failure> {
    let wrong = "--format netpipe prints one experiment on NetPIPE's schedule; add --only \
                 pingpong, stream, bidirectional, integrity, cold or messages.";
    let text = pingpong::netpipe::text(report).ok_or_else(|| Failure::failed(wrong))?;
    say_text!("{text}");
    Ok(())
}
