//! The `fluxline` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fluxline_cli::main()
}
