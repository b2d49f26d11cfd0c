//! `fluxline bench peers`: other programs that are installed, and ours, in turns on the same cores.

use std::collections::{BTreeMap, BTreeSet};

use fluxline::pin;
use fluxline_bench::environment::Plan;
use fluxline_bench::peers::rounds::Agenda;
use fluxline_bench::peers::{self, Contender, OURS, Presence, Run, table};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, host, page};
use fluxline_doctor::Through;
use serde_json::{Value, json};

use super::{report, session};
use crate::arguments::BenchArguments;
use crate::commands::print_json;
use crate::failure::Failure;
use crate::{progress, say};
use fluxline_run::Stop;

/// The default number of rounds. Ours and a peer can differ beyond the noise from four rounds on.
/// Source: `statistics::rank_sum`.
const ROUNDS: u32 = 5;

/// Lists the peers: the version of each, or the package that installs it.
pub fn list(json: bool) {
    let all = peers::contenders();
    let mut found: BTreeMap<&str, Presence> = BTreeMap::new();
    for one in all.iter().filter(|one| one.peer() != OURS) {
        found.entry(one.peer()).or_insert_with(|| one.presence());
    }
    if json {
        let of = |(name, presence): (&&str, &Presence)| {
            let (version, absent) = words(presence);
            json!({ "name": name, "version": version, "absent": absent })
        };
        print_json(&found.iter().map(of).collect::<Vec<Value>>().into());
        return;
    }
    for (name, presence) in found {
        match presence {
            Presence::Version(version) => say!("{name:<10}  {version}"),
            Presence::Absent(why) => say!("{name:<10}  {why}"),
        }
    }
}

fn words(presence: &Presence) -> (Option<&str>, Option<&str>) {
    match presence {
        Presence::Version(version) => (Some(version), None),
        Presence::Absent(why) => (None, Some(why)),
    }
}

/// Measures, prints, writes the report.
pub fn peers(arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    if arguments.format.is_some() || arguments.peer.is_some() {
        return Err(Failure::failed(
            "peers are measured on this host, without --format and --peer.",
        ));
    }
    let stop = Stop::on_signal();
    let (contenders, presences) = choose(&arguments.only)?;
    let cores = cores(&arguments.cores)?;
    let quick = arguments.quick;
    let rounds = arguments.rounds.unwrap_or(if quick { 1 } else { ROUNDS });
    let mut cells = peers::cells(quick);
    if let Some([first, last]) = arguments.sizes {
        cells.retain(|cell| (first..=last).contains(&cell.bytes));
    }
    let mut agenda = Agenda::new(contenders, &cells, quick);
    if agenda.steps() == 0 {
        let why = "no peer that is installed measures this; see `fluxline bench peers --list`.";
        return Err(Failure::failed(why));
    }
    let plan = Plan { rounds, seed: arguments.seed, ..Plan::new(quick) };
    // Peers are measured over memory and over loopback; loopback has more limits.
    let near = host::describe(Some(&Through::Loopback));
    let mut report = session::begin("peers", &plan, json!({ "near": near }));
    report.environment["peers"] = presences;
    let [here, there] = cores;
    let pinned =
        format!("Ours and peers pinned alike: core {here} sends and measures, {there} answers");
    report.environment["pinned"] = pinned.into();
    let bar = progress::bar(u64::from(rounds) * agenda.steps() as u64, json);
    let bench_stop = fluxline_bench::Stop::on(stop.flag());
    let mut watch = host::busy::Watch::start();
    let ended = agenda.run(rounds, &Run::new(cores, quick, &bench_stop), |what| {
        watch.look();
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    report.environment["busy"] = json!(watch.finish());
    bar.finish_and_clear();
    report.experiments = table::experiments(&agenda.contests());
    finish(report, ended, arguments, json)
}

/// Those asked for and ours, and which of all are there.
fn choose(only: &[String]) -> Result<(Vec<Box<dyn Contender>>, Value), Failure> {
    let mut all = peers::contenders();
    let names: BTreeSet<&str> = all.iter().map(|one| one.peer()).collect();
    let mut presences: BTreeMap<&str, String> = BTreeMap::new();
    for one in &all {
        let (Presence::Version(said) | Presence::Absent(said)) = one.presence();
        presences.insert(one.peer(), said);
    }
    for name in only {
        if !names.contains(name.as_str()) {
            let there: Vec<&str> = names.iter().copied().filter(|one| *one != OURS).collect();
            let there = there.join(", ");
            return Err(Failure::failed(format!("unknown peer {name:?}; known are {there}.")));
        }
        let of_peer = all.iter().find(|one| one.peer() == name);
        if let Some(Presence::Absent(why)) = of_peer.map(|one| one.presence()) {
            return Err(Failure::failed(format!("{name}: {why}.")));
        }
    }
    let presences = json!(presences);
    let is_asked =
        |peer: &str| only.is_empty() || peer == OURS || only.iter().any(|one| one == peer);
    all.retain(|one| is_asked(one.peer()));
    Ok((all, presences))
}

fn cores(asked: &[usize]) -> Result<[usize; 2], Failure> {
    let allowed = pin::allowed_cores();
    match (asked, allowed.as_slice()) {
        ([near, far], _) if near != far => Ok([*near, *far]),
        ([], [first, second, ..]) => Ok([*first, *second]),
        ([], _) => Err(Failure::failed(format!(
            "peers are measured on two cores, and this process may use {allowed:?} only; allow it \
             more (taskset, the container's cpuset)."
        ))),
        _ => Err(Failure::failed("give two different cores (--cores NEAR,FAR).")),
    }
}

fn finish(
    mut report: Report,
    ended: Result<(), Error>,
    arguments: &BenchArguments,
    json: bool,
) -> Result<(), Failure> {
    for experiment in &mut report.experiments {
        if let Err(error) = &ended {
            experiment.incomplete = error.to_string();
        }
        experiment.keep_numbers();
    }
    let wants_files = !json || arguments.report.is_some() || ended.is_err();
    let folder = match wants_files && !report.is_empty() {
        true => Some(report::write(&report, arguments.report.as_deref())?),
        false => None,
    };
    let place = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
    if let Err(error) = ended {
        return Err(session::kept(session::failure(&error), &place));
    }
    if json {
        print_json(&report::document(&report)?);
        return Ok(());
    }
    print(&report);
    say!("\n{place}/report.html and report.json have the whole report");
    Ok(())
}

fn print(report: &Report) {
    page::busy(report).iter().for_each(|busy| say!("! {busy}"));
    say!(
        "{}; medians of rounds, spread",
        report.environment["pinned"].as_str().unwrap_or_default()
    );
    let mut notes: Vec<String> = Vec::new();
    for experiment in &report.experiments {
        table::lines(experiment).iter().for_each(|line| say!("{line}"));
        for contest in experiment.contests.iter().filter(|contest| !contest.note.is_empty()) {
            let note = format!("{} over {}: {}", contest.contender, contest.path, contest.note);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    say!("\nDifferences in the work, and the meaning of each number:");
    notes.iter().for_each(|note| say!("  {note}"));
}
