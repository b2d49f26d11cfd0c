//! `fluxline ctl`: the state of a run that is served, and commands to it.

use std::path::{Path, PathBuf};

use fluxline_daq::record::{Directory, FolderError};
use fluxline_serve::{Client, ClientError};
use serde_json::{Value, json};

use crate::commands::cluster_ctl;
use crate::ctl_arguments::{CtlArguments, CtlRequest};
use crate::failure::Failure;
use crate::say;
use crate::served::FILE;

/// The folder of runs that is searched.
const RUNS: &str = "runs";

/// Sends a request, and prints the answer.
pub fn ctl(arguments: &CtlArguments, json: bool) -> Result<(), Failure> {
    if let Some(cluster) = &arguments.cluster {
        return cluster_ctl::ctl(cluster, arguments, json);
    }
    if let Some(file) = &arguments.settings_file {
        return Err(Failure::input(format_args!(
            "--settings-file {} is for a cluster: write `fluxline ctl kafka://HOST:PORT/CLUSTER`, \
             or leave it out.",
            file.display()
        )));
    }
    let of_cluster = match &arguments.request {
        CtlRequest::End { node } => Some(format!("end {node}")),
        CtlRequest::Abandon { run } => Some(format!("abandon {run}")),
        _ => None,
    };
    if let Some(request) = of_cluster {
        return Err(Failure::input(format_args!(
            "`{request}` is for a cluster: write `fluxline ctl kafka://HOST:PORT/CLUSTER \
             {request}`."
        )));
    }
    let url = match (&arguments.url, &arguments.run) {
        (Some(url), _) => url.clone(),
        (None, Some(run)) => url_of(run)?,
        (None, None) => url_of(&newest(Path::new(RUNS))?)?,
    };
    let client = Client::new(&url).map_err(failure)?;
    let answer = match request(&arguments.request) {
        Some(request) => client.command(&request),
        None => client.state(),
    };
    let answer = answer.map_err(failure)?;
    if json {
        super::print_json(&answer);
    } else if matches!(arguments.request, CtlRequest::Status) {
        print_state(&answer);
    } else {
        say!("{}", text(&answer["state"]));
    }
    match answer["health"]["state"].as_str() {
        Some("alarm") => {
            Err(Failure::look(format_args!("alarm: {}.", text(&answer["health"]["sentence"]))))
        }
        _ => Ok(()),
    }
}

/// Returns the body of a request; `None`: only look.
fn request(request: &CtlRequest) -> Option<Value> {
    let command = |name: &str| Some(json!({ "command": name }));
    match request {
        CtlRequest::Status | CtlRequest::End { .. } | CtlRequest::Abandon { .. } => None,
        CtlRequest::Start => command("start"),
        CtlRequest::Pause => command("pause"),
        CtlRequest::Resume => command("resume"),
        CtlRequest::Stop => command("stop"),
        CtlRequest::Note { text } => Some(json!({ "remark": text })),
        CtlRequest::Shot { number } => Some(json!({ "shot": number })),
        CtlRequest::Acknowledge { alarm } => Some(json!({ "acknowledge": alarm })),
        CtlRequest::Shelve { alarm, minutes } => {
            Some(json!({ "shelve": alarm, "minutes": minutes }))
        }
        CtlRequest::Unshelve { alarm } => Some(json!({ "unshelve": alarm })),
    }
}

fn print_state(state: &Value) {
    let rate = |name: &str| state["rates"][name]["value"].as_f64().unwrap_or(0.0);
    let flow = &state["flow"];
    say!("run      {} ({})", text(&state["run"]), text(&state["folder"]));
    say!("state    {}", text(&state["state"]));
    print_health(&state["health"]);
    say!("rate     {:.0} packets/s, {:.3} Gb/s", rate("packets"), rate("bits") * 1e-9);
    say!("received {} datagrams, {} in flight", flow["received"], flow["in_flight"]);
    say!("missing  {} by the packet counters", flow["lost"]);
    let events = &state["events"];
    say!("events   {}, {} incomplete", events["built"], events["incomplete"]);
    for end in flow["ends"].as_array().into_iter().flatten() {
        say!("         {} {}", end["count"], text(&end["name"]));
    }
}

fn print_health(health: &Value) {
    say!("health   {}: {}", text(&health["state"]), text(&health["sentence"]));
    if let Some(advice) = health["advice"].as_str().filter(|advice| !advice.is_empty()) {
        say!("         {advice}");
    }
    for alarm in health["alarms"].as_array().into_iter().flatten() {
        let seen = if alarm["acknowledged"] == true { ", acknowledged" } else { "" };
        let shelved = if alarm["shelved_until_ns"].is_null() { "" } else { ", shelved" };
        say!(
            "{:8} {} ({}{seen}{shelved}): {}",
            text(&alarm["severity"]),
            text(&alarm["name"]),
            text(&alarm["state"]),
            text(&alarm["sentence"])
        );
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("not recorded")
}

fn url_of(run: &Path) -> Result<String, Failure> {
    let read = Directory::open(run).and_then(|folder| folder.read(Path::new(FILE)));
    let url = read.map_err(|error| match error {
        FolderError::Missing(_) | FolderError::NotAFolder(_) => Failure::input(format_args!(
            "{} is not served: it has ended, or was started without --serve.",
            run.display()
        )),
        error => Failure::input(format_args!("{error}.")),
    })?;
    Ok(String::from_utf8_lossy(&url).trim().to_owned())
}

/// Returns the newest run in `runs` that is served.
fn newest(runs: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let served =
        entries.map(|entry| entry.path()).filter(|path| path.join(FILE).symlink_metadata().is_ok());
    served.max().ok_or_else(|| {
        Failure::input(format_args!(
            "no run in {} is served; start one with --serve, or give its address by --url.",
            runs.display()
        ))
    })
}

fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Address(_) | ClientError::Refused(_) => Failure::input(error),
        ClientError::Silent { .. } | ClientError::Redirected { .. } => Failure::link(error),
    }
}
