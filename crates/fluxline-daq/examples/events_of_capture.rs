//! Builds events of a capture inside a program of your own, and says what is missing.
//!
//! demonstrates: CaptureReader -> Pipeline (readout and builder) -> EventBatch and Ledger.
//!
//!     cargo run --release -p fluxline-daq --example events_of_capture -- capture.pcapng srs-vmm3

use std::collections::BTreeMap;
use std::path::Path;

use fluxline_core::Moment;
use fluxline_daq::builder::{BuilderConfig, Mode};
use fluxline_daq::capture::CaptureReader;
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::Ledger;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_packet::{Description, shipped};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [capture, format] = arguments.as_slice() else {
        return Err("usage: events_of_capture CAPTURE FORMAT".into());
    };
    let text = shipped::shipped(format).ok_or("no such format; see `fluxline format list`")?;
    let description = Description::load(format, text, &BTreeMap::new())?;

    // One input; every packet is an event of its own. See `Mode` for keys, windows, fragments.
    let builder = BuilderConfig { mode: Mode::Packet, ..BuilderConfig::default() };
    let inputs = vec![(format.clone(), description)];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), builder);

    let mut reader = CaptureReader::open(Path::new(capture))?;
    let mut newest = Moment::default(); // time is an argument: here the capture's own
    let mut batch = EventBatch::default();
    while let Some(datagram) = reader.next()? {
        newest = newest.max(datagram.time);
        pipeline.take(0, newest, &datagram);
        if pipeline.batch_is_due(newest) {
            batch = pipeline.take_batch(batch);
            look_at(&batch);
            batch.clear(); // its memory is used again
        }
    }
    pipeline.finish(newest);
    look_at(&pipeline.take_batch(batch));

    for source in Ledger::default().with(pipeline.readout(), pipeline.builder()).sources {
        println!(
            "{}: {} packets, {} lost",
            source.label, source.counters.parsed, source.counters.lost
        );
        for range in source.missing {
            println!("  missing {} to {}", range.first, range.last);
        }
    }
    Ok(())
}

/// Rows of `packets` follow `events`, and `bytes` follows `packets`.
fn look_at(batch: &EventBatch) {
    let (mut packet, mut byte) = (0, 0);
    for event in batch.events.iter().take(3) {
        for row in &batch.packets[packet..packet + event.packets as usize] {
            let payload = &batch.bytes[byte..byte + row.bytes as usize];
            byte += payload.len();
            println!("event {:?} {}: {} byte", event.key, event.status.as_str(), payload.len());
        }
        packet += event.packets as usize;
    }
}
