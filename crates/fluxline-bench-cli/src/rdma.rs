//! `fluxline rdma`: tests with the programs of perftest.

use std::time::Duration;

use fluxline_bench::perftest::{Error, Outcome, Plan, Server, connect};
use fluxline_core::fabric::Reliability;
use fluxline_report::{Cell, Table};
use fluxline_run::Stop;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::print_json;
use crate::rdma_arguments::{
    RdmaCommand, RdmaConnectArguments, RdmaServeArguments, RdmaTestArguments,
};
use crate::{inform, say};

/// Runs a command of `fluxline rdma`.
pub fn rdma(command: &RdmaCommand, json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signal(crate::output::ended_at_once);
    let stop = fluxline_bench::Stop::on(stop.flag());
    let outcome = match command {
        RdmaCommand::Serve(arguments) => serve(arguments, &stop)?,
        RdmaCommand::Connect(arguments) => {
            let RdmaConnectArguments { test, server } = arguments;
            connect(*server, &plan(test)?, &stop).map_err(failure)?
        }
    };
    match json {
        true => print_json(&document(&outcome)),
        false => table(&outcome).iter().for_each(|line| say!("{line}")),
    }
    Ok(())
}

fn serve(arguments: &RdmaServeArguments, stop: &fluxline_bench::Stop) -> Result<Outcome, Failure> {
    let plan = plan(&arguments.test)?;
    let (program, listen) = (plan.program, arguments.listen);
    let server = Server::bind(listen, plan).map_err(failure)?;
    let address = server.address().unwrap_or(listen);
    inform!("Waiting for {program} at {address}. There: {program} {}", address.ip());
    server.serve(stop, &|sentence| inform!("{sentence}")).map_err(failure)
}

fn plan(arguments: &RdmaTestArguments) -> Result<Plan, Failure> {
    let default = Plan::of(arguments.program);
    let plan = Plan {
        bytes: arguments.bytes.unwrap_or(default.bytes),
        operations: arguments.operations.unwrap_or(default.operations),
        reliability: match arguments.unreliable {
            true => Reliability::Unreliable,
            false => Reliability::Reliable,
        },
        own: arguments.own,
        peer: arguments.peer,
        limit: Duration::from_secs(arguments.seconds),
        ..default
    };
    plan.checked().map_err(|error| Failure::failed(format_args!("{error}.")))
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Node(_) | Error::NoServer { .. } | Error::Host { .. } | Error::Unspecified(_) => {
            Failure::link(format_args!("{error}."))
        }
        _ => Failure::failed(format_args!("{error}.")),
    }
}

/// Returns the lines of the result: the peer, and a table of one row.
fn table(outcome: &Outcome) -> Vec<String> {
    let (peer, frames) = (&outcome.peer, outcome.frames);
    let rate = outcome.mb_per_s().map_or("–".to_owned(), |rate| format!("{rate:.2}"));
    let mut cells = vec![
        ("operation", outcome.program.operation.name().to_owned()),
        ("bytes", outcome.bytes.map_or("several".to_owned(), |of| of.to_string())),
        ("operations", outcome.operations.to_string()),
        ("MB/s", rate),
    ];
    if let Some(of) = outcome.latency {
        let times = [of.least_us, of.median_us, of.high_us, of.most_us];
        let names = ["min us", "median us", "99% us", "max us"];
        cells.extend(names.into_iter().zip(times.map(|time| format!("{time:.2}"))));
    }
    cells.extend([
        ("repeated", frames.repeated.to_string()),
        ("duplicate", frames.duplicate.to_string()),
        ("missing", frames.missing.to_string()),
    ]);
    let cells = cells.into_iter().map(|(of, text)| (of.to_owned(), Cell::Number(text)));
    let (columns, row) = cells.unzip();
    let table = Table { title: String::new(), columns, rows: vec![row] };
    let first = format!(
        "{} with {} (perftest {}), path MTU {}, queue pairs {}",
        outcome.program, peer.address, peer.version, peer.path_mtu, peer.pairs
    );
    std::iter::once(first).chain(table.text().lines().map(str::to_owned)).collect()
}

fn document(outcome: &Outcome) -> Value {
    let (peer, frames) = (&outcome.peer, outcome.frames);
    let latency = outcome.latency.map(|of| {
        json!({
            "least_us": of.least_us, "median_us": of.median_us,
            "high_us": of.high_us, "most_us": of.most_us,
        })
    });
    json!({
        "program": outcome.program.to_string(),
        "peer": {
            "address": peer.address.to_string(), "version": peer.version,
            "path_mtu": peer.path_mtu, "queue_pairs": peer.pairs,
        },
        "operation": outcome.program.operation.name(),
        "bytes": outcome.bytes,
        "operations": outcome.operations,
        "seconds": outcome.took.as_secs_f64(),
        "mb_per_s": outcome.mb_per_s(),
        "latency": latency,
        "frames": {
            "repeated": frames.repeated, "duplicate": frames.duplicate,
            "missing": frames.missing, "foreign": frames.foreign,
        },
    })
}
