//! `fluxline emulate`: packets as a sensor would send them, over UDP or into a capture.

use std::net::{SocketAddr, ToSocketAddrs};

use fluxline_daq::emulator::roce::WriterTruth;
use fluxline_daq::emulator::{Faults, Pattern};
use fluxline_daq::experiment::{self, Emulator, EmulatorLink};
use fluxline_daq::formats::{self, LoadedFormat};
use fluxline_run::{Monitor, RoceSensors, RoceSensorsConfig, Sensors, SensorsTruth, Stop};
use serde_json::{Value, json};

use crate::acquisition;
use crate::arguments::EmulateArguments;
use crate::failure::Failure;
use crate::format_arguments;
use crate::say;

/// Sends or writes packets, and prints their exact counts.
pub fn emulate(arguments: &EmulateArguments, json: bool) -> Result<(), Failure> {
    let parameters = format_arguments::parameters(&arguments.format.parameters)?;
    let format = formats::load(&arguments.format.format, &parameters)?;
    let emulator = emulator_of(arguments);
    emulator.check("emulate").map_err(Failure::input)?;
    experiment::check_seconds("--seconds", arguments.seconds).map_err(Failure::input)?;
    if arguments.roce.roce {
        let (truth, frames) = send_roce(arguments, &emulator, &format)?;
        report(&truth, &frames, json);
        return Ok(());
    }
    let truth = match arguments.to.strip_prefix("udp://") {
        Some(address) => send(arguments, &emulator, &format, address)?,
        None => write(arguments, &emulator, &format)?,
    };
    report(&truth, &[], json);
    Ok(())
}

fn emulator_of(arguments: &EmulateArguments) -> Emulator {
    Emulator {
        sources: arguments.sources,
        packet: None,
        rate: arguments.rate,
        packets: arguments.packets,
        payload_bytes: arguments.payload_bytes,
        pattern: if arguments.noise { Pattern::Noise } else { Pattern::Counter },
        jitter: arguments.jitter,
        seed: arguments.seed,
        link: EmulatorLink::Udp,
        train: arguments.train,
        in_flight_max: 0, // the receiver is somebody else's
        faults: Faults {
            drop: arguments.drop,
            duplicate: arguments.duplicate,
            reorder: arguments.reorder,
            reorder_distance: arguments.reorder_distance,
            corrupt: arguments.corrupt,
            stall: arguments.stall,
            stall_ms: arguments.stall_ms,
            restart: arguments.restart,
        },
    }
}

fn send(
    arguments: &EmulateArguments,
    emulator: &Emulator,
    format: &LoadedFormat,
    address: &str,
) -> Result<SensorsTruth, Failure> {
    let destination = destination_of(address)?;
    let mut sensors = Sensors::new("emulate", emulator, format)?;
    sensors.connect(destination)?;
    let (stop, monitor) = (
        Stop::on_signal(crate::output::ended_at_once).after(arguments.seconds),
        Monitor::default(),
    );
    acquisition::with_notes(&monitor, || sensors.send(&stop, &monitor))
        .ok_or_else(|| Failure::failed("the sensors' thread ended by a defect of the program."))
}

fn destination_of(address: &str) -> Result<SocketAddr, Failure> {
    address.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        Failure::input(format_args!(
            "udp://{address} has no address and port; write for example udp://127.0.0.1:6006."
        ))
    })
}

fn send_roce(
    arguments: &EmulateArguments,
    emulator: &Emulator,
    format: &LoadedFormat,
) -> Result<(SensorsTruth, Vec<WriterTruth>), Failure> {
    let of = &arguments.roce;
    let Some(to) = arguments.to.strip_prefix("udp://") else {
        return Err(Failure::input("--roce sends over UDP: write --to udp://ADDRESS:PORT."));
    };
    let from = experiment::address(&of.from)
        .map_err(|text| Failure::input(format_args!("--from {text}")))?;
    if of.slot_bytes == 0 {
        return Err(Failure::input("--slot-bytes must be 1 or more."));
    }
    let config = RoceSensorsConfig {
        to: destination_of(to)?,
        from,
        queue_pair: of.queue_pair,
        first_psn: of.first_psn,
        key: of.key,
        base: of.base,
        ring_bytes: of.ring_bytes,
        slot_bytes: of.slot_bytes,
        train: arguments.train > 1,
    };
    let stop = Stop::on_signal(crate::output::ended_at_once).after(arguments.seconds);
    let sensors = Sensors::new("emulate", emulator, format)?;
    Ok(RoceSensors::open(sensors, &config)?.send(&stop))
}

fn write(
    arguments: &EmulateArguments,
    emulator: &Emulator,
    format: &LoadedFormat,
) -> Result<SensorsTruth, Failure> {
    if arguments.packets == 0 && arguments.seconds == 0.0 {
        return Err(Failure::input(
            "a capture without end would fill the disk: add --packets or --seconds.",
        ));
    }
    let sensors = Sensors::new("emulate", emulator, format)?;
    Ok(sensors.write_capture(std::path::Path::new(&arguments.to), arguments.seconds)?)
}

fn report(truth: &SensorsTruth, writers: &[WriterTruth], json: bool) {
    let sum = |of: fn(&fluxline_daq::emulator::SourceTruth) -> u64| -> u64 {
        truth.sources.iter().map(of).sum()
    };
    let rows = [
        ("made", sum(|source| source.made)),
        ("sent", sum(|source| source.sent)),
        ("dropped", sum(|source| source.dropped)),
        ("duplicated", sum(|source| source.duplicated)),
        ("reordered", sum(|source| source.reordered)),
        ("corrupted", sum(|source| source.corrupted)),
        ("restarts", sum(|source| source.restarts)),
        ("not_sent", truth.not_sent),
    ];
    if json {
        let mut document = json!({ "seed": truth.seed });
        for (name, value) in rows {
            document[name] = Value::from(value);
        }
        if !writers.is_empty() {
            document["roce"] = writers.iter().map(writer_document).collect();
        }
        super::print_json(&document);
        return;
    }
    say!("seed {}", truth.seed);
    for (name, value) in rows.iter().filter(|(name, value)| *value > 0 || *name == "sent") {
        say!("{value:>12} {}", name.replace('_', " "));
    }
    for (number, writer) in writers.iter().enumerate() {
        let WriterTruth { frames, wrong_check, duplicate, late, lost } = writer;
        say!(
            "{frames:>12} frames of source {number}: wrong check {wrong_check}, duplicate \
             {duplicate}, late {late}, lost {lost}"
        );
    }
}

/// Returns the counts that a receiver of one source's frames should have.
fn writer_document(truth: &WriterTruth) -> Value {
    json!({
        "frames": truth.frames, "frames_wrong_check": truth.wrong_check,
        "frames_duplicate": truth.duplicate, "frames_late": truth.late, "frames_lost": truth.lost,
    })
}
