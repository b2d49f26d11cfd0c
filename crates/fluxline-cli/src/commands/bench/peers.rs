//! `fluxline bench peers`: other programs that are installed, and ours, in turns on the same cores.

use std::collections::BTreeMap;

use fluxline::pin;
use fluxline_bench::environment::Plan;
use fluxline_bench::host::cores;
use fluxline_bench::peers::rounds::Agenda;
use fluxline_bench::peers::{self, Chosen, OURS, Presence, ROUNDS, Run, table};
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
    let chosen = peers::choose(peers::contenders(), &arguments.only);
    let Chosen { contenders, presences } = chosen.map_err(|error| session::failure(&error))?;
    let cores = cores::choose_for_peers(&pin::allowed_cores(), &arguments.cores)
        .map_err(|error| session::failure(&error))?;
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
    report.environment["peers"] = json!(presences);
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
