//! `fluxline demo`: the main job in ten seconds, on any machine, without hardware.

use fluxline_daq::experiment::Experiment;

use crate::acquisition::How;
use crate::arguments::DemoArguments;
use crate::failure::{Ending, Failure};
use crate::{acquisition, inform, say};

/// Eight emulated front-ends push UDP over loopback; events of eight fragments are recorded.
pub fn demo(arguments: DemoArguments, json: bool) -> Result<Ending, Failure> {
    let DemoArguments { seconds, sources, rate, drop, seed, folder, serve, events } = arguments;
    let packets = (seconds * rate).ceil().max(1.0);
    let text = format!(
        "name = \"demo\"\n\
         [[source]]\nname = \"front-ends\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = {sources}\nrate = {rate:?}\npackets = {packets}\n\
         payload-bytes = 4096\nseed = {seed}\nin-flight-max = 32\n\
         [source.emulator.faults]\ndrop = {drop:?}\n\
         [events]\nbuild = \"key\"\nrequire = {sources}\ntimeout-ms = 200\n"
    );
    let mut experiment = Experiment::parse("demo", &text)?;
    events.apply(&mut experiment.events)?;
    experiment.check().map_err(Failure::input)?;
    if !json {
        inform!(
            "{sources} emulated front-ends push {rate} packets/s each over UDP for \
             {seconds} s, and lose {drop} of them on purpose.\nThe experiment \
             file of this:\n\n{text}"
        );
    }
    let report =
        acquisition::run(experiment, How { folder, link: None, node: None, serve, quiet: json })?;
    let ending = super::run::finish(&report, json);
    if !json {
        say!("{}", compare(&report.ledger));
    }
    Ok(ending)
}

/// Prints the front-ends' own counts beside those of the ledger.
fn compare(ledger: &fluxline_daq::ledger::Ledger) -> String {
    let totals = ledger.source_totals();
    match &ledger.truth {
        Some(truth) => format!(
            "The front-ends made {} packets and sent {}; the ledger found {} and {} missing.",
            truth.numbered, truth.sent, totals.parsed, totals.lost
        ),
        None => String::new(),
    }
}
