//! `fluxline run`: an experiment from a file, or from a few options for a first look.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fluxline_core::fabric::links::opener_of;
use fluxline_daq::capture::replay::Speed;
use fluxline_daq::experiment::{
    self, Events, Experiment, FileList, Filter, Health, Pcap, Record, Source, Udp, check_accept,
};
use fluxline_daq::formats;
use fluxline_run::Report;

use crate::acquisition::How;
use crate::arguments::RunArguments;
use crate::failure::{self, Ending, Failure};
use crate::{acquisition, format_arguments, say_text};

/// Runs, prints the ledger, and fails when it does not close, recording stopped, or received data
/// is not in the files.
pub fn run(arguments: RunArguments, json: bool) -> Result<Ending, Failure> {
    let folder = arguments.folder.clone();
    let parameters = format_arguments::parameters(&arguments.parameters)?;
    let mut experiment = match &arguments.experiment {
        Some(path) => {
            let mut experiment = fluxline_run::load(path)?;
            set_parameters(&mut experiment, &parameters)?;
            experiment
        }
        None => from_flags(&arguments, parameters)?,
    };
    if let Some(seconds) = arguments.seconds {
        experiment::check_seconds("--seconds", seconds).map_err(Failure::input)?;
        experiment.seconds = seconds;
    }
    arguments.events.apply(&mut experiment.events)?;
    experiment.accept.extend(arguments.accept.clone());
    check_accept(&experiment.accept)
        .map_err(|problem| Failure::input(format_args!("--{problem}")))?;
    if arguments.no_record {
        experiment.record.enabled = false;
    }
    experiment.check().map_err(Failure::input)?;
    let has_link = arguments.link.is_some() || experiment.link.is_some();
    let has_nodes = has_link || experiment.graph.is_some() || experiment.feedback.is_some();
    let is_graph = experiment.cluster.is_none() && has_nodes;
    if let Some(node) = arguments.node.as_ref().filter(|_| !is_graph) {
        check_for_cluster(&arguments)?;
        return super::node::run(experiment, node.clone(), arguments.id, json);
    }
    let link = arguments.link.or_else(|| experiment.link.as_ref().map(|link| link.url.clone()));
    // The simulator is a program of its own, which calls this command again.
    if link.as_ref().is_some_and(|link| link.starts_with("sim:") && opener_of(link).is_none()) {
        return Err(super::other::call("fluxline-sim"));
    }
    let how = How { folder, link, node: arguments.node, serve: arguments.serve, quiet: json };
    Ok(finish(&acquisition::run(experiment, how)?, json))
}

/// Checks the options of a node of a cluster.
fn check_for_cluster(arguments: &RunArguments) -> Result<(), Failure> {
    let one_machine = [
        ("--folder", arguments.folder.is_some()),
        ("--no-record", arguments.no_record),
        ("--set", !arguments.parameters.is_empty()),
        ("--link", arguments.link.is_some()),
    ];
    if let Some((option, _)) = one_machine.iter().find(|of| of.1) {
        return Err(Failure::usage(format_args!(
            "{option} cannot be used with --node and [cluster]: the topics are the link, and \
             builders name their folders."
        )));
    }
    if arguments.serve.serve.is_some() {
        let option = if arguments.serve.armed { "--serve and --armed" } else { "--serve" };
        return Err(Failure::usage(format_args!(
            "{option} cannot be used with --node and [cluster]: `fluxline inspect \
             kafka://BROKERS/CLUSTER --watch` shows a cluster, and with `start = \"ctl\"` under \
             [cluster], `fluxline ctl kafka://BROKERS/CLUSTER start` begins its run."
        )));
    }
    Ok(())
}

/// Prints a run's report; its failure becomes the command's.
pub fn finish(report: &Report, json: bool) -> Ending {
    failure::report(Failure::of_verdict(&report.verdict).as_ref(), json, || {
        if json {
            super::print_json(&report.document);
        } else {
            say_text!("{}", acquisition::table(report));
        }
    })
}

/// Sets parameters of the descriptions that have them.
fn set_parameters(
    experiment: &mut Experiment,
    parameters: &BTreeMap<String, u64>,
) -> Result<(), Failure> {
    let mut has = Vec::new();
    for source in &experiment.sources {
        let description = formats::load(&source.format, &source.parameters)?.description;
        let names = description.parameters().iter().map(|parameter| parameter.name.clone());
        has.push(names.collect::<Vec<_>>());
    }
    for (name, value) in parameters {
        let mut used = false;
        for (source, _) in experiment.sources.iter_mut().zip(&has).filter(|of| of.1.contains(name))
        {
            source.parameters.insert(name.clone(), *value);
            used = true;
        }
        if !used {
            return Err(no_such_parameter(name, &has.concat()));
        }
    }
    Ok(())
}

fn no_such_parameter(name: &str, known: &[String]) -> Failure {
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "they have none".to_string(),
        false => format!("they have {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Failure::input(format_args!(
        "--set {name}: no description of the experiment has a parameter of that name; {known}."
    ))
}

fn from_flags(
    arguments: &RunArguments,
    parameters: BTreeMap<String, u64>,
) -> Result<Experiment, Failure> {
    let Some(format) = arguments.format.clone() else {
        return Err(Failure::input(
            "nothing to run: name an experiment.toml, or a capture and its format, for example \
             `fluxline run --pcap capture.pcapng --format srs-vmm3`.",
        ));
    };
    let source = |name: String| Source {
        name,
        format: format.clone(),
        parameters: parameters.clone(),
        copies: None,
        ring_slots: 1024,
        core: None,
        udp: None,
        shm: None,
        roce: None,
        pcap: None,
        raw: None,
        program: None,
        emulator: None,
    };
    let mut sources = Vec::new();
    for (file, name) in arguments.pcap.iter().zip(names_of(&arguments.pcap)) {
        let (file, ports) = (FileList::one(file), arguments.ports.clone());
        let check_sums = !arguments.no_check_sums;
        let pcap = Some(Pcap { file, ports, check_sums, speed: Speed::default() });
        sources.push(Source { pcap, ..source(name) });
    }
    if let Some(listen) = &arguments.udp {
        let interface = arguments.interface.clone();
        let udp = Some(Udp { listen: vec![listen.clone()], interface, ..Udp::default() });
        sources.push(Source { udp, ..source(format.clone()) });
    }
    let Some(first) = sources.first() else {
        return Err(Failure::input(
            "--format needs packets: add --pcap capture.pcapng or --udp 0.0.0.0:6006.",
        ));
    };
    Ok(Experiment {
        name: first.name.clone(),
        runs: PathBuf::from("runs"),
        seconds: 0.0,
        readout_core: None,
        recorder_core: None,
        sources_max: 4096,
        page_hosts: Vec::new(),
        accept: Vec::new(),
        sources,
        events: Events::default(),
        filter: Filter::default(),
        record: Record::default(),
        sink: experiment::Sink::default(),
        graph: None,
        requirements: None,
        health: Health::default(),
        alarms: Vec::new(),
        plots: Vec::new(),
        slow_control: None,
        link: None,
        feedback: None,
        cluster: None,
        nodes: BTreeMap::new(),
    })
}

/// Returns the names of captures in reports: file names, or paths if two names are equal.
fn names_of(files: &[PathBuf]) -> Vec<String> {
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: BTreeSet<String> = files.iter().map(name).collect();
    match names.len() == files.len() {
        true => files.iter().map(name).collect(),
        false => files.iter().map(|file| file.display().to_string()).collect(),
    }
}
