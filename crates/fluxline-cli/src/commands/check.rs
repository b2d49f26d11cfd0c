//! `fluxline format check`: compares a file of packets with a description.

use fluxline_core::Moment;
use fluxline_daq::builder::{BuilderConfig, Mode};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{InputEntry, Ledger};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use serde_json::json;

use super::packet_file::PacketFile;
use crate::failure::{self, Ending, Failure, FailureKind};
use crate::format_arguments::{self, CheckArguments};
use crate::say;
use fluxline_daq::formats;

/// Bytes shown of the first rejected packet, in all and per line.
const HEX_BYTES_MAX: usize = 256;
const HEX_BYTES_PER_LINE: usize = 16;

/// Runs the packets through readout, and prints sources, gaps and rejects. Fails when none fits.
pub fn check(arguments: &CheckArguments, json: bool) -> Result<Ending, Failure> {
    let parameters = format_arguments::parameters(&arguments.format.parameters)?;
    let format = formats::load(&arguments.format.format, &parameters)?;
    let mut packets = PacketFile::open(&arguments.file)?;
    let input = (format.description.name().to_string(), format.description);
    let builder = BuilderConfig { mode: Mode::Packet, ..BuilderConfig::default() };
    let mut pipeline = Pipeline::new(vec![input], ReadoutLimits::default(), builder);
    let mut spare = EventBatch::default();
    let mut newest = Moment::default();
    while let Some(datagram) = packets.next()? {
        newest = newest.max(datagram.time);
        pipeline.take(0, newest, &datagram);
        if pipeline.batch_is_due(newest) {
            spare = pipeline.take_batch(spare);
            spare.clear();
        }
    }
    pipeline.finish(newest);
    let ledger = ledger_of(&pipeline, &packets);
    let failure = failure_of(arguments, &ledger, &packets);
    let print = || match json {
        true => print_json(&ledger, &packets, failure.as_ref()),
        false => print(&pipeline, &ledger, &packets),
    };
    Ok(failure::report(failure.as_ref(), json, print))
}

fn failure_of(
    arguments: &CheckArguments,
    ledger: &Ledger,
    packets: &PacketFile,
) -> Option<Failure> {
    if ledger.source_totals().parsed > 0 {
        return None;
    }
    let rejected: u64 = ledger.rejects.iter().map(|entry| entry.packets).sum();
    let why = ledger.rejects.first().map_or(String::new(), |first| format!(" ({})", first.reason));
    let held = match packets.counters() {
        Some(counters) => {
            let (frames, other) = (counters.frames, counters.other_traffic());
            let wrong = counters.check_sum_wrong;
            format!(
                "of {frames} frames, {rejected} were rejected{why}, {wrong} have a wrong UDP check \
                 sum and {other} are other traffic"
            )
        }
        None => {
            let payloads = ledger.input_totals().datagrams;
            format!("of {payloads} payloads, {rejected} were rejected{why}")
        }
    };
    let remedy = match packets.counters() {
        Some(counters) if counters.check_sum_wrong > 0 => {
            "--no-check-sums takes those with a wrong check sum"
        }
        Some(_) => "compare the port and the description with the sender",
        None => "compare the framing and the description with the writer of the file",
    };
    let message = format!(
        "no packet of {} fits the description {}: {held}; {remedy}.",
        packets.name(),
        arguments.format.format,
    );
    Some(Failure { kind: FailureKind::Look, message })
}

fn ledger_of(pipeline: &Pipeline, packets: &PacketFile) -> Ledger {
    let mut ledger = Ledger::default().with(pipeline.readout(), pipeline.builder());
    for (entry, row) in ledger.rejects.iter_mut().zip(pipeline.readout().rejects()) {
        let rule = pipeline.rule_name(row.format, row.reject);
        entry.reason = format!("{}: {rule}", entry.reason);
    }
    let mut counters = fluxline_daq::ledger::InputCounters::default();
    let taken = pipeline.taken(0);
    (counters.datagrams, counters.rejected) = (taken.datagrams, taken.rejected);
    (counters.bytes, counters.sources_refused) = (taken.bytes, taken.refused);
    if let Some(of) = packets.counters() {
        (counters.other_traffic, counters.frames_unusable) = (of.other_traffic(), of.unusable());
        counters.check_sum_wrong = of.check_sum_wrong;
    }
    let name = packets.name().to_string();
    ledger.inputs.push(InputEntry { name, counters, ..InputEntry::default() });
    ledger
}

fn print_json(ledger: &Ledger, packets: &PacketFile, failure: Option<&Failure>) {
    let kinds = packets.counters().map(|counters| {
        let rows = counters.rows().map(|(row, value)| (row.name.to_string(), value.into()));
        rows.collect::<serde_json::Map<_, _>>()
    });
    super::print_json(&json!({
        "status": failure::status_of(failure),
        "sentence": failure.map(|failure| &failure.message),
        "capture": kinds,
        "sources": ledger.sources,
        "rejects": ledger.rejects,
        "cut": packets.cut(),
    }));
}

fn print(pipeline: &Pipeline, ledger: &Ledger, packets: &PacketFile) {
    match packets.counters() {
        None => say!("{:>12} payloads", pipeline.taken(0).datagrams),
        Some(counters) => {
            say!("{:>12} frames, of these:", counters.frames);
            for (row, value) in counters.rows().skip(1).filter(|(_, value)| *value > 0) {
                say!("{value:>12} {}", row.help);
            }
        }
    }
    say!("");
    print_sources(ledger);
    for (entry, row) in ledger.rejects.iter().zip(pipeline.readout().rejects()) {
        say!("\n{:>12} rejected: {}", entry.packets, entry.reason);
        say!("the first, {} bytes from {}:", entry.first_bytes, entry.first_sender);
        print_hex(&row.first_bytes);
    }
    if let Some(cut) = packets.cut() {
        say!("\nnote: {cut}");
    }
    let wrong = packets.counters().map_or(0, |counters| counters.check_sum_wrong);
    if wrong > 0 {
        say!(
            "\nnote: {wrong} datagrams have a wrong UDP check sum and were not used; \
             --no-check-sums takes them (in an experiment: check-sums = false)."
        );
    }
}

fn print_sources(ledger: &Ledger) {
    let width = ledger.sources.iter().map(|source| source.label.len()).max().unwrap_or(0).max(6);
    say!(
        "{:<width$}  {:>9}  {:>12}  {:>12}  {:>7}  {:>9}  {:>9}  missing",
        "source",
        "packets",
        "first",
        "last",
        "lost",
        "reordered",
        "duplicate"
    );
    for source in &ledger.sources {
        let number = |value: Option<u64>| value.map_or("-".to_string(), |value| value.to_string());
        let missing: Vec<String> = source
            .missing
            .iter()
            .take(8)
            .map(|range| match range.first == range.last {
                true => range.first.to_string(),
                false => format!("{}-{}", range.first, range.last),
            })
            .collect();
        let counters = &source.counters;
        say!(
            "{:<width$}  {:>9}  {:>12}  {:>12}  {:>7}  {:>9}  {:>9}  {}",
            source.label,
            counters.parsed,
            number(source.first_sequence),
            number(source.last_sequence),
            counters.lost,
            counters.reordered,
            counters.duplicate,
            missing.join(" ")
        );
    }
    if ledger.sources.is_empty() {
        say!("no packet fits the description");
    }
}

fn print_hex(bytes: &[u8]) {
    let shown = &bytes[..bytes.len().min(HEX_BYTES_MAX)];
    for (number, line) in shown.chunks(HEX_BYTES_PER_LINE).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String = line
            .iter()
            .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' })
            .collect();
        say!("  {:04x}  {:<47}  {text}", number * HEX_BYTES_PER_LINE, hex.join(" "));
    }
    if bytes.len() > shown.len() {
        say!("  … {} bytes more", bytes.len() - shown.len());
    }
}
