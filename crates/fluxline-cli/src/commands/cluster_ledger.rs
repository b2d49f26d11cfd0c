//! `fluxline inspect kafka://BROKERS/CLUSTER`: one ledger over all nodes of a run.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fluxline_kafka::ClusterAddress;
use fluxline_kafka::cluster::{
    ClusterLedger, ClusterVerdict, DEAD_AFTER, LedgerError, LedgerReader, Life,
};
use fluxline_kafka::settings::Settings;

use crate::arguments::InspectArguments;
use crate::failure::{self, Ending, Failure};
use crate::say;

/// Time for the brokers to show everything.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Time between two looks at the newest blocks.
const LOOK: Duration = Duration::from_millis(500);

/// Prints the ledger of a run, with --watch until its end; fails when the run has not ended, a law
/// does not hold, or received data is in no event.
pub fn inspect(
    address: &ClusterAddress,
    arguments: &InspectArguments,
    json: bool,
) -> Result<Ending, Failure> {
    let ClusterAddress { brokers, cluster } = address;
    let file = arguments.settings_file.as_deref();
    let settings = Settings::read(brokers, &std::collections::BTreeMap::new(), file)
        .map_err(Failure::input)?;
    let mut reader =
        LedgerReader::open(&settings, cluster, arguments.number, READ_WITHIN).map_err(failure)?;
    if arguments.watch {
        watch(&mut reader, json);
    } else {
        look_for_life(&mut reader).map_err(|error| failure(error.into()))?;
    }
    let ledger = reader.ledger();
    let failure = verdict(&ledger);
    Ok(failure::report(failure.as_ref(), json, || match (json, arguments.watch) {
        (false, _) => say!("{}", ledger.table()),
        (true, true) => say!("{}", document(&ledger, failure.as_ref())), // one line, as before it
        (true, false) => super::print_json(&document(&ledger, failure.as_ref())),
    }))
}

/// Waits until each process that has not ended has published a block, or counts as dead.
fn look_for_life(reader: &mut LedgerReader) -> Result<(), fluxline_kafka::build::LogError> {
    let sequences = |ledger: &ClusterLedger| -> Vec<(String, u64, bool)> {
        let row = |row: &fluxline_kafka::cluster::NodeRow| {
            let block = &row.seen.block;
            (block.key(), block.sequence, row.life == Life::Alive)
        };
        ledger.nodes.iter().map(row).collect()
    };
    let began = Instant::now();
    let before = sequences(&reader.ledger());
    while began.elapsed() < DEAD_AFTER + LOOK {
        let now = sequences(&reader.ledger());
        let is_known = |(key, sequence, is_alive): &(String, u64, bool)| {
            !is_alive || !before.iter().any(|old| old.0 == *key && old.1 == *sequence)
        };
        if now.iter().all(is_known) {
            break;
        }
        reader.look(LOOK)?;
    }
    Ok(())
}

/// Prints the ledger again and again until the run has ended.
fn watch(reader: &mut LedgerReader, json: bool) {
    let clears = !json && std::io::stdout().is_terminal();
    loop {
        let ledger = reader.ledger();
        if ledger.is_over() || ledger.abandoned {
            return;
        }
        if json {
            say!("{}", document(&ledger, verdict(&ledger).as_ref()));
        } else {
            let clear = if clears { "\u{1b}[H\u{1b}[2J" } else { "" };
            say!("{clear}{}", ledger.table());
            if let Some(sentence) = ledger.verdict().sentence() {
                say!("{sentence}");
            }
        }
        if let Err(error) = reader.look(2 * LOOK) {
            crate::inform!("fluxline: {error}; the ledger is that of the last answer.");
        }
    }
}

/// Returns the reason why a run needs a look, with its exit status.
pub fn verdict(ledger: &ClusterLedger) -> Option<Failure> {
    match ledger.verdict() {
        ClusterVerdict::Complete => None,
        ClusterVerdict::LedgerOpen(sentence) => Some(Failure::ledger(sentence)),
        ClusterVerdict::Running(sentence) | ClusterVerdict::LookNeeded(sentence) => {
            Some(Failure::look(sentence))
        }
    }
}

fn document(ledger: &ClusterLedger, failure: Option<&Failure>) -> serde_json::Value {
    let mut document = ledger.document();
    document["status"] = failure::status_of(failure).into();
    document["sentence"] = failure.map(|failure| failure.message.clone()).into();
    document
}

fn failure(error: LedgerError) -> Failure {
    match error {
        LedgerError::Topic(error) => Failure::link(format_args!("{error}.")),
        LedgerError::Away(error) => Failure::link(format_args!("{error}.")),
        error @ (LedgerError::NoRun { .. } | LedgerError::Unknown { .. }) => {
            Failure::input(format_args!("{error}."))
        }
    }
}
