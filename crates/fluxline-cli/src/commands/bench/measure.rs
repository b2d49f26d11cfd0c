//! `fluxline bench LINK`: runs the experiments, prints their results, writes the report.

use std::net::SocketAddr;

use fluxline::pin;
use fluxline_bench::environment::{Plan, Program};
use fluxline_bench::real::{Link, Local, Near, NearConfig};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, host, page, pingpong, run};
use serde_json::{Value, json};

use super::session::{self, Session, failure, kept};
use super::{report, save, simulated};
use crate::arguments::{BenchArguments, BenchLink};
use crate::commands::print_json;
use crate::failure::Failure;
use crate::{progress, say, say_text};
use fluxline_run::Stop;

/// Runs the experiments, prints their results and writes the report.
pub fn measure(link: &BenchLink, arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    let quiet = json || arguments.format.is_some();
    let kinds = run::choose(&arguments.only, &link.link)
        .map_err(|error| Failure::failed(format_args!("{error}.")))?;
    let (plan, stop, bar) = (plan(arguments), Stop::on_signal(), progress::bar(0, quiet));
    let session = Session { link, arguments, plan, kinds, stop, bar };
    let to_save = save::CrossoverFile::of(link, arguments, &session.kinds)?;
    let near = host::describe(link.link.through().as_ref());
    let mut report = session::begin(&link.url, &session.plan, json!({ "near": near }));
    report.environment["plan"] = json!(session.plan);
    let ended = session.run(&mut report);
    session.bar.finish_and_clear();
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

fn plan(arguments: &BenchArguments) -> Plan {
    let default = Plan::new(arguments.quick);
    Plan {
        rounds: arguments.rounds.unwrap_or(default.rounds),
        seed: arguments.seed,
        sizes: arguments.sizes.unwrap_or(default.sizes),
        perturbation: arguments.perturbation.unwrap_or(default.perturbation),
        trial_seconds: arguments.trial_seconds.unwrap_or(default.trial_seconds),
        soak_seconds: arguments.seconds.unwrap_or(default.soak_seconds),
        ..default
    }
}

/// The cores of both sides, and a sentence about them.
struct Cores {
    both: [usize; 2],
    text: String,
}

impl Cores {
    fn choose(link: &BenchLink, arguments: &BenchArguments) -> Result<Cores, Failure> {
        let allowed = pin::allowed_cores();
        let is_local = arguments.peer.is_none() && link.link.control().is_none();
        let [near, far] = match (arguments.cores.as_slice(), allowed.as_slice()) {
            ([near, far], _) => [*near, *far],
            ([near], [.., last]) => [*near, *last],
            (_, [first, second, ..]) => [*first, *second],
            (_, [only]) if !is_local => [*only, *only],
            _ => {
                return Err(Failure::failed(format_args!(
                    "both sides on this host need two cores, and this process may use \
                     {allowed:?} only; allow it more (taskset, the container's cpuset)."
                )));
            }
        };
        if near == far && is_local {
            return Err(Failure::failed("the two sides need two different cores (--cores)."));
        }
        let text = match is_local {
            true => format!("Both sides on this host: near on core {near}, far on core {far}"),
            false => format!("Near on core {near}; far on the last core that it may use"),
        };
        Ok(Cores { both: [near, far], text })
    }
}

/// The address of the far side, and the cores of both.
struct Far {
    control: SocketAddr,
    key: String,
    cores: [Option<usize>; 2],
}

impl Session<'_> {
    fn run(&self, report: &mut Report) -> Result<(), Failure> {
        if self.link.link == Link::Simulated {
            return simulated::on_link(self, report).map_err(|error| failure(&error));
        }
        let cores = Cores::choose(self.link, self.arguments)?;
        self.on_link(&cores, report).map_err(|error| failure(&error))
    }

    /// Runs experiments on a real link, in a thread of its own, since it is pinned.
    fn on_link(&self, cores: &Cores, report: &mut Report) -> Result<(), Error> {
        report.environment["pinned"] = cores.text.clone().into();
        let control = self.arguments.peer.or_else(|| self.link.link.control());
        let mut local = match control {
            Some(_) => None,
            None => Some(Local::start(&fluxline_bench::Stop::on(self.stop.flag()))?),
        };
        let (control, key) = match (&local, control) {
            (Some(local), _) => (local.control, local.key.clone()),
            (None, Some(control)) => (control, self.arguments.key.clone().unwrap_or_default()),
            (None, None) => return Err(Error::Input("no other side".to_owned())),
        };
        let [near_core, far_core] = cores.both;
        let cores = [Some(near_core), local.is_some().then_some(far_core)];
        let far = Far { control, key, cores };
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.with_far(far, report));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.map_err(|error| match (&error, &mut local) {
            // How a process ended that was started here is known better.
            (Error::PeerGone { .. }, Some(local)) => local.died().unwrap_or(error),
            _ => error,
        })
    }

    fn with_far(&self, far: Far, report: &mut Report) -> Result<(), Error> {
        let Far { control, key, cores } = far;
        let mut near = Near::connect(NearConfig {
            link: self.link.link.clone(),
            url: self.link.url.clone(),
            control,
            key,
            cores,
            progress: Box::new(progress::telling(&self.bar)),
            stop: fluxline_bench::Stop::on(self.stop.flag()),
            sender: sender(),
        })?;
        report.environment["far"] = near.far_environment().clone();
        let cores = [cores[0], cores[1].or_else(|| last_core(near.far_environment()))];
        report.environment["cores"] = json!(cores);
        let interrupts = host::link::interrupts(&report.environment, cores);
        report.environment["interrupts"] = json!(interrupts);
        run::run(&mut near, &self.plan, &self.kinds, report)
    }
}

/// The core of a far side that nobody pins: the last that it may use.
fn last_core(far: &Value) -> Option<usize> {
    let last = far["cores_allowed"].as_array()?.last()?.as_u64()?;
    usize::try_from(last).ok()
}

/// This program once more, as a sender; `None` where it does not know its own file.
fn sender() -> Option<Program> {
    let arguments = ["bench", "--send"].map(str::to_owned).to_vec();
    std::env::current_exe().ok().map(|path| Program { path, arguments })
}

/// Nothing was measured, though both sides are there: the first experiment says why.
fn nothing(report: &Report) -> Failure {
    let why = report.experiments.iter().map(|one| one.incomplete.as_str());
    let why = why.into_iter().find(|why| !why.is_empty()).unwrap_or("nothing was measured");
    Failure::failed(format_args!("{}.", why.trim_end_matches('.')))
}

fn netpipe(report: &Report) -> Result<(), Failure> {
    let wrong = "no experiment on NetPIPE's schedule was run; add --only pingpong.";
    let text = pingpong::netpipe::text(report).ok_or_else(|| Failure::failed(wrong))?;
    say_text!("{text}");
    Ok(())
}
