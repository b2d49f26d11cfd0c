//! `fluxline bench LINK`: runs the experiments, prints what they came to, writes the report.

use fluxline::pin;
use fluxline_bench::environment::{Plan, Program};
use fluxline_bench::kind::ExperimentKind;
use fluxline_bench::real::{Link, Local, Near, NearConfig};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, host, page, pingpong, run};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{report, rings, save, simulated};
use crate::arguments::{BenchArguments, BenchLink};
use crate::commands::print_json;
use crate::failure::Failure;
use crate::run::Stop;
use crate::{progress, say, say_text};

/// Measures.
pub fn measure(link: &BenchLink, arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signal();
    let plan = plan(arguments);
    let (with_rings, entries) = choose(link, arguments)?;
    let to_save = save::Place::of(link, arguments, &entries)?;
    let quiet = json || arguments.format.is_some();
    let (rings, rings_ended) = match with_rings {
        true => rings::measure(arguments, &stop, quiet).map(|(rings, how)| (Some(rings), how))?,
        false => (None, Ok(())),
    };
    let near = host::describe(link.link.through().as_ref());
    let mut report = super::begin(&link.url, &plan, json!({ "near": near }));
    report.environment["plan"] = json!(plan);
    if let Some(rings) = &rings {
        report.experiments.push(rings.experiment());
    }
    let ended = match rings_ended {
        Ok(()) => experiments(link, arguments, (&plan, &entries), (&stop, quiet), &mut report),
        Err(failure) => {
            run::skip(&entries, &mut report);
            Err(failure)
        }
    };
    if report.is_empty() {
        return Err(ended.err().unwrap_or_else(|| nothing(&report)));
    }
    let mut document = serde_json::to_value(&report)
        .map_err(|error| Failure::failed(format!("the report: {error}.")))?;
    if let Some(rings) = &rings {
        rings.add_to(&mut document);
    }
    // Whoever takes the document from standard output needs no files.
    let wants_files = !quiet || arguments.report.is_some() || ended.is_err();
    let folder = match wants_files {
        true => Some(report::write(&report, &document, arguments.report.as_deref())?),
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
        print_json(&document);
        return Ok(());
    }
    print(&report, rings.as_ref());
    saved.iter().for_each(|saved| say!("\n{saved}"));
    say!("\n{place}/report.html and report.json have all of it");
    Ok(())
}

/// The experiments of the registry, in real or virtual time.
fn experiments(
    link: &BenchLink,
    arguments: &BenchArguments,
    (plan, entries): (&Plan, &[&'static ExperimentKind]),
    (stop, quiet): (&Stop, bool),
    report: &mut Report,
) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    let bar = progress::bar(0, quiet);
    let ended = match link.link {
        Link::Simulated => simulated::on_link(&link.url, (plan, entries), stop, &bar, report),
        _ => on_link(link, arguments, (plan, entries), stop, &bar, report),
    };
    bar.finish_and_clear();
    ended.map_err(|error| failure(&error))
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

/// Whether the rings are measured, and which experiments of the registry.
fn choose(
    link: &BenchLink,
    arguments: &BenchArguments,
) -> Result<(bool, Vec<&'static ExperimentKind>), Failure> {
    let scheme = link.link.scheme();
    let (rings, others): (Vec<&String>, Vec<&String>) =
        arguments.only.iter().partition(|name| *name == rings::NAME);
    let is_shm = scheme == "shm";
    if !is_shm && !rings.is_empty() {
        return Err(Failure::failed("the experiment rings is on shm:// alone."));
    }
    let others: Vec<String> = others.into_iter().cloned().collect();
    if others.is_empty() && !rings.is_empty() {
        return Ok((true, Vec::new()));
    }
    let entries = run::choose(&others, (scheme, link.link.has_fabric()))
        .map_err(|error| Failure::failed(format_args!("{error}.")))?;
    Ok((!rings.is_empty() || is_shm && arguments.only.is_empty(), entries))
}

/// Cores of near and far, and a sentence about them.
fn cores(link: &BenchLink, arguments: &BenchArguments) -> Result<([usize; 2], String), Failure> {
    let allowed = pin::allowed_cores();
    let is_local = arguments.peer.is_none() && link.link.control().is_none();
    let [near, far] = match (arguments.cores.as_slice(), allowed.as_slice()) {
        ([near, far], _) => [*near, *far],
        ([near], [.., last]) => [*near, *last],
        (_, [first, second, ..]) => [*first, *second],
        (_, [only]) if !is_local => [*only, *only],
        _ => {
            return Err(Failure::failed(format_args!(
                "both sides on this host need two cores, and this process may use {allowed:?} \
                 only; allow it more (taskset, the container's cpuset)."
            )));
        }
    };
    if near == far && is_local {
        return Err(Failure::failed("the two sides need two different cores (--cores)."));
    }
    let text = match is_local {
        true => format!("Both sides on this host: near pinned to core {near}, far to core {far}"),
        false => format!("Near pinned to core {near}; far to the last core that it may use"),
    };
    Ok(([near, far], text))
}

/// Runs experiments on the link, in a thread of its own, since it is pinned.
fn on_link(
    link: &BenchLink,
    arguments: &BenchArguments,
    (plan, entries): (&Plan, &[&'static ExperimentKind]),
    stop: &Stop,
    bar: &ProgressBar,
    report: &mut Report,
) -> Result<(), Error> {
    let (cores, pinned) =
        cores(link, arguments).map_err(|failure| Error::Input(failure.message))?;
    report.environment["pinned"] = pinned.into();
    let control = arguments.peer.or_else(|| link.link.control());
    let mut local = match control {
        Some(_) => None,
        None => Some(Local::start(&stop.for_bench())?),
    };
    let (control, key) = match (&local, control) {
        (Some(local), _) => (local.control, local.key.clone()),
        (None, Some(control)) => (control, arguments.key.clone().unwrap_or_default()),
        (None, None) => return Err(Error::Input("no other side".to_owned())),
    };
    let is_local = local.is_some();
    let ended = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let config = NearConfig {
                link: link.link.clone(),
                url: link.url.clone(),
                control,
                key,
                cores: [Some(cores[0]), is_local.then_some(cores[1])],
                progress: Box::new(progress::telling(bar)),
                stop: stop.for_bench(),
                sender: sender(),
            };
            let mut near = Near::connect(config)?;
            report.environment["far"] = near.far_environment().clone();
            let far_core = match is_local {
                true => Some(cores[1]),
                false => last_core(near.far_environment()),
            };
            let both = [Some(cores[0]), far_core];
            let interrupts = host::link::interrupts(&report.environment, both);
            report.environment["interrupts"] = json!(interrupts);
            run::run(&mut near, plan, entries, report)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    ended.map_err(|error| match (&error, &mut local) {
        // How a process ended that was started here is known better.
        (Error::PeerGone { .. }, Some(local)) => local.died().unwrap_or(error),
        _ => error,
    })
}

/// The core that a far side takes which nobody tells: the last that it may use.
fn last_core(far: &Value) -> Option<usize> {
    let last = far["cores_allowed"].as_array()?.last()?.as_u64()?;
    usize::try_from(last).ok()
}

/// This program once more, as a sender; `None` where it does not know its own file.
fn sender() -> Option<Program> {
    let arguments = ["bench", "--send"].map(str::to_owned).to_vec();
    std::env::current_exe().ok().map(|path| Program { path, arguments })
}

/// The failure that a error is.
pub fn failure(error: &Error) -> Failure {
    let sentence = error.to_string();
    let sentence = sentence.trim_end_matches('.');
    match error {
        Error::NoPeer { .. } | Error::Refused(_) | Error::PeerFailed { .. } => {
            Failure::link(format_args!("{sentence}."))
        }
        _ => Failure::failed(format_args!("{sentence}.")),
    }
}

/// Nothing was measured, though no side is gone: the first experiment says why.
fn nothing(report: &Report) -> Failure {
    let why = report.experiments.iter().map(|one| one.incomplete.as_str());
    let why = why.into_iter().find(|why| !why.is_empty()).unwrap_or("nothing was measured");
    Failure::failed(format_args!("{}.", why.trim_end_matches('.')))
}

/// The same, and where what was measured before is; empty: nowhere.
pub fn kept(failure: Failure, place: &str) -> Failure {
    if place.is_empty() {
        return failure;
    }
    let sentence = failure.message.trim_end_matches('.');
    let message = format!("{sentence}; what was measured before is in {place}, marked incomplete.");
    Failure { message, ..failure }
}

fn netpipe(report: &Report) -> Result<(), Failure> {
    let wrong = "no experiment on NetPIPE's schedule was run; ask for one with --only pingpong.";
    let text = pingpong::netpipe::text(report).ok_or_else(|| Failure::failed(wrong))?;
    say_text!("{text}");
    Ok(())
}

fn print(report: &Report, rings: Option<&rings::Rings>) {
    if let Some(rings) = rings {
        rings.print();
    }
    if let Some(pinned) = report.environment["pinned"].as_str() {
        say!("{}{pinned}; medians of rounds, spread", if rings.is_some() { "\n" } else { "" });
    }
    let mut others = report.clone();
    others.experiments.retain(|one| one.name != rings::NAME);
    page::lines(&others).iter().for_each(|line| say!("{line}"));
}
