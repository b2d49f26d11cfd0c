//! The commands of the `fluxline` program: reads the command line, calls the command, and turns its
//! end into a message and an exit status.
//!
//! `fluxline-sim` calls it for a run on a simulated link, which it has registered before.
#![forbid(unsafe_code)]
// A full or closed standard error must not end a run: all text goes through `output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod acquisition;
mod arguments;
mod commands;
mod ctl_arguments;
mod doctor;
mod event_arguments;
mod export_arguments;
mod format_arguments;
mod fpga_arguments;
mod kafka;
mod local_time;
mod page_arguments;
mod run_arguments;
mod runs_arguments;
mod sequence_progress;
mod served;
mod user_command;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command, ShmCommand};
use failure::{Ending, Failure};
use fluxline_terminal::{failure, generate, inform, log, output, progress, say, say_text, well};
use format_arguments::FormatCommand;
use fpga_arguments::FpgaCommand;

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let Arguments { common, command } = Arguments::parse();
    fluxline_terminal::run(common, |json| dispatch(command, json))
}

fn dispatch(command: Command, json: bool) -> Result<Ending, Failure> {
    match command {
        Command::Run(run) => commands::run::run(*run, json),
        Command::Demo(demo) => commands::demo::demo(demo, json),
        Command::Ctl(ctl) => commands::ctl::ctl(&ctl, json).map(well),
        Command::Serve(serve) => commands::serve::serve(&serve, json).map(well),
        Command::Inspect(inspect) => commands::inspect::inspect(&inspect, json),
        Command::Runs(of) => commands::runs::runs(&of, json).map(well),
        Command::Archive(of) => commands::archive::archive(&of, json),
        Command::Sequence(of) => commands::sequence::sequence(&of, json),
        Command::Export(export) => commands::export::export(&export, json),
        Command::Recover(recover) => commands::recover::recover(&recover, json),
        Command::Gather(gather) => commands::gather::gather(&gather, json),
        Command::Ship(ship) => commands::ship::ship(&ship, json),
        Command::Format(FormatCommand::Check(check)) => commands::check::check(&check, json),
        Command::Format(FormatCommand::List) => commands::format::list(json).map(well),
        Command::Format(FormatCommand::Show(show)) => commands::format::show(&show, json).map(well),
        Command::Format(FormatCommand::Wireshark(to)) => {
            commands::format::wireshark(&to, json).map(well)
        }
        Command::Format(FormatCommand::New(new)) => commands::format::new(&new, json).map(well),
        Command::Format(FormatCommand::Numpy(of)) => commands::format::numpy(&of, json).map(well),
        Command::Format(FormatCommand::Fpga(of)) => commands::fpga::gateware(&of, json).map(well),
        Command::Fpga(FpgaCommand::Status(of)) => commands::fpga::status(&of, json).map(well),
        Command::Fpga(FpgaCommand::Read(of)) => commands::fpga::read(&of, json).map(well),
        Command::Fpga(FpgaCommand::Write(of)) => {
            commands::fpga::write_register(&of, json).map(well)
        }
        Command::Emulate(emulate) => commands::emulate::emulate(&emulate, json).map(well),
        Command::Doctor(doctor) => commands::doctor::doctor(&doctor, json).map(well),
        Command::Shm(ShmCommand::List) => commands::shm::list(json).map(well),
        Command::Shm(ShmCommand::Clean) => commands::shm::clean(json).map(well),
        Command::Sim(_) | Command::Topo(_) | Command::Plan(_) => {
            Err(commands::other::call("fluxline-sim"))
        }
        Command::Bench(_) | Command::Rdma(_) => Err(commands::other::call("fluxline-bench")),
        Command::Counters => {
            say_text!("{}", fluxline_daq::ledger::counters_page());
            Ok(Ending::Well)
        }
        Command::Generate(what) => {
            generate::generate(&what, "fluxline", Arguments::command()).map(well)
        }
    }
}
