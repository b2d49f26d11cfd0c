//! The `fluxline` program: reads the command line, calls the command, and turns its end into a
//! message and an exit status.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod doctor;
mod experiment;
mod failure;
mod files;
mod formats;
mod host;
mod output;
mod progress;
mod run;
mod version;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command, FormatCommand, ShmCommand};
use failure::Failure;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.json;
    match dispatch(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if json {
                let status = failure.kind as u8;
                let document = serde_json::json!({ "error": failure.message, "status": status });
                eprintln!("{document}");
            } else {
                eprintln!("fluxline: {}", failure.message);
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let json = arguments.json;
    match arguments.command {
        Command::Run(run) => commands::run::run(run, json),
        Command::Demo(demo) => commands::demo::demo(demo, json),
        Command::Inspect(inspect) => commands::inspect::inspect(&inspect, json),
        Command::Export(export) => commands::export::export(&export, json),
        Command::Recover(recover) => commands::recover::recover(&recover, json),
        Command::Format(FormatCommand::List) => commands::format::list(json),
        Command::Format(FormatCommand::Show(show)) => commands::format::show(&show, json),
        Command::Format(FormatCommand::Check(check)) => commands::check::check(&check, json),
        Command::Format(FormatCommand::Wireshark(to)) => commands::format::wireshark(&to, json),
        Command::Format(FormatCommand::Numpy(of)) => commands::format::numpy(&of, json),
        Command::Emulate(emulate) => commands::emulate::emulate(&emulate, json),
        Command::Doctor(doctor) => commands::doctor::doctor(&doctor, json),
        Command::Shm(ShmCommand::List) => commands::shm::list(json),
        Command::Shm(ShmCommand::Clean) => commands::shm::clean(json),
        Command::Sim(sim) => commands::sim::sim(&sim, json),
        Command::Bench(bench) => commands::bench::bench(&bench, json),
        Command::Counters => {
            say_text!("{}", fluxline_daq::ledger::counters_page());
            Ok(())
        }
    }
}
