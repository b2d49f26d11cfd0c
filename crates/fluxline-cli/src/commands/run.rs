//! `fluxline run`: an experiment from a file, or from three flags for a first look.

use std::path::PathBuf;

use crate::arguments::{BuildArgument, RunArguments};
use crate::experiment::{self, Build, Events, Experiment, Pcap, Record, Source, Speed, Udp};
use crate::failure::{self, Ending, Failure};
use crate::formats;
use crate::run::{RunReport, RunRequest, check_accept};
use crate::say_text;

/// Runs, prints the ledger, and fails when it does not close, recording stopped, or received data
/// is not in the files.
pub fn run(arguments: RunArguments, json: bool) -> Result<Ending, Failure> {
    let folder = arguments.folder.clone();
    let mut experiment = match &arguments.experiment {
        Some(path) => Experiment::load_here(path)?,
        None => from_flags(&arguments)?,
    };
    if let Some(seconds) = arguments.seconds {
        experiment::check_seconds("--seconds", seconds).map_err(Failure::input)?;
        experiment.seconds = seconds;
    }
    if let Some(build) = arguments.events {
        experiment.events.build = match build {
            BuildArgument::Packet => Build::Packet,
            BuildArgument::Key => Build::Key,
            BuildArgument::Source => Build::Source,
        };
    }
    experiment.accept.extend(arguments.accept);
    check_accept(&experiment.accept)
        .map_err(|problem| Failure::input(format_args!("--{problem}")))?;
    if arguments.no_record {
        experiment.record.enabled = false;
    }
    Ok(finish(&crate::run::run(RunRequest { experiment, folder, quiet: json })?, json))
}

/// Prints a run's report; its failure becomes the command's.
pub fn finish(report: &RunReport, json: bool) -> Ending {
    failure::report(report.failure.as_ref(), json, || {
        if json {
            super::print_json(&report.document);
        } else {
            say_text!("{}", report.text());
        }
    })
}

fn from_flags(arguments: &RunArguments) -> Result<Experiment, Failure> {
    let Some(format) = arguments.format.clone() else {
        return Err(Failure::input(
            "nothing to run: name an experiment.toml, or a capture and its format, for example \
             `fluxline run --pcap capture.pcapng --format srs-vmm3`.",
        ));
    };
    if arguments.pcap.is_none() && arguments.udp.is_none() {
        return Err(Failure::input(
            "--format needs packets: add --pcap capture.pcapng or --udp 0.0.0.0:6006.",
        ));
    }
    let pcap = arguments.pcap.as_ref().map(|file| Pcap {
        file: file.clone(),
        ports: arguments.ports.clone(),
        check_sums: true,
        speed: Speed::default(),
    });
    let udp =
        arguments.udp.as_ref().map(|listen| Udp { listen: vec![listen.clone()], ..Udp::default() });
    let name = match &arguments.pcap {
        Some(file) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => format.clone(),
    };
    Ok(Experiment {
        name: name.clone(),
        runs: PathBuf::from("runs"),
        seconds: 0.0,
        readout_core: None,
        recorder_core: None,
        sources_max: 4096,
        accept: Vec::new(),
        sources: vec![Source {
            name,
            format,
            parameters: formats::parameters(&arguments.parameters)?,
            ring_slots: 1024,
            core: None,
            udp,
            shm: None,
            roce: None,
            pcap,
            raw: None,
            emulator: None,
        }],
        events: Events::default(),
        record: Record::default(),
    })
}
