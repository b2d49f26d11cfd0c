//! The result of a campaign, as text or JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::case::Case;
use super::{CampaignArguments, Counts, Failing};
use crate::failure::Failure;
use crate::{output, say};

/// Prints the result; a broken law is a failure.
pub fn end(
    arguments: &CampaignArguments,
    counts: &Counts,
    took: Duration,
    failing: Option<&Failing>,
    small: Option<&Case>,
    json: bool,
) -> Result<(), Failure> {
    let file = arguments.experiment.display();
    let mut document = json!({
        "fluxline": env!("CARGO_PKG_VERSION"),
        "experiment": file.to_string(),
        "runs": counts.runs, "packets": counts.packets, "events": counts.events,
        "deaths": counts.deaths, "cuts": counts.cuts, "disk_faults": counts.disks,
        "failed": Value::Null, "status": 0, "sentence": Value::Null,
    });
    let Some(failing) = failing else {
        if json {
            output::print_json(&document);
            return Ok(());
        }
        let seconds = took.as_secs_f64();
        let Counts { runs, packets, events, deaths, cuts, disks, .. } = counts;
        say!("{runs} runs broke no law: {packets} packets, {events} events");
        say!("faults: {deaths} deaths of nodes, {cuts} cut cables, {disks} failing disks");
        say!("{seconds:.1} s, {:.1} runs/s", *runs as f64 / seconds.max(1e-9));
        return Ok(());
    };
    let Failing { seed, case, broken } = failing;
    let of_case = |case: &Case| format!("fluxline sim campaign {file} --case '{case}'");
    let again = match &arguments.case {
        Some(_) => of_case(case),
        None => {
            let link = arguments.link.as_ref().map(|link| format!(" --link '{link}'"));
            let link = link.unwrap_or_default();
            format!("fluxline sim campaign {file}{link} --seed {seed} --seeds 1")
        }
    };
    let smaller = small.filter(|small| *small != case).map(of_case);
    let sentence = format!("seed {seed} breaks a law: {}: {}.", broken.law, broken.how);
    if json {
        document["failed"] = json!({
            "seed": seed, "law": broken.law, "how": broken.how, "case": case.to_string(),
            "again": again, "smaller": smaller,
        });
        document["status"] = 1.into();
        document["sentence"] = sentence.clone().into();
        output::print_json(&document);
    } else {
        say!("again:   {again}");
        if let Some(smaller) = smaller {
            say!("smaller: {smaller}");
        }
    }
    Err(Failure::failed(sentence))
}
