//! `fluxline gather` of the folders of nodes.

use std::path::{Path, PathBuf};

use fluxline_run::gathered::{self, Gathered};
use serde_json::json;

use crate::failure::{self, Ending, Failure};
use crate::run_arguments::GatherArguments;
use crate::say;

/// Returns true when the arguments name folders of nodes, which need no cluster.
pub fn are_meant(arguments: &GatherArguments) -> bool {
    let is_of_node = |place: &String| gathered::is_of_node(Path::new(place));
    arguments.from.is_none() && arguments.places.iter().any(is_of_node)
}

/// Gathers the folders of nodes, and prints the ledger of the whole run.
pub fn gather(arguments: &GatherArguments, json: bool) -> Result<Ending, Failure> {
    let folders: Vec<PathBuf> = arguments.places.iter().map(PathBuf::from).collect();
    let gathered = gathered::gather(&folders, &arguments.into)?;
    let look = gathered.sentence.as_ref().map(|sentence| match gathered.status {
        7 => Failure::look(sentence),
        _ => Failure::ledger(sentence),
    });
    let print = || match json {
        true => print_json(arguments, &gathered),
        false => print(arguments, &gathered),
    };
    Ok(failure::report(look.as_ref(), json, print))
}

fn print_json(arguments: &GatherArguments, gathered: &Gathered) {
    let Gathered { ledger, packets, nodes, status, sentence } = gathered;
    let of = &ledger.builder;
    let events = of.events_complete + of.events_incomplete + of.events_stopped;
    super::print_json(&json!({
        "status": status, "sentence": sentence, "into": arguments.into, "events": events,
        "packets": packets, "nodes": nodes, "laws": ledger.check(), "ledger": ledger,
    }));
}

fn print(arguments: &GatherArguments, gathered: &Gathered) {
    let Gathered { ledger, nodes, .. } = gathered;
    say!("{}", ledger.headline());
    say!("");
    say!("{}{}", ledger.table(), ledger.closing().trim_end());
    say!("nodes: {}", nodes.join(", "));
    say!("Next: fluxline inspect {}", arguments.into.display());
}
