//! `fluxline generate`: manual pages and shell completions, from the table of the command line.
//!
//! Packages install them; users do not need the command, so it is hidden.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{Arguments, GenerateCommand};
use crate::failure::Failure;

/// Writes the files of one kind into a directory. Errors: it cannot be written.
pub fn generate(command: &GenerateCommand) -> Result<(), Failure> {
    let (GenerateCommand::Man(to) | GenerateCommand::Completions(to)) = command;
    let directory = &to.directory;
    fs::create_dir_all(directory)
        .and_then(|()| match command {
            GenerateCommand::Man(_) => clap_mangen::generate_to(Arguments::command(), directory),
            GenerateCommand::Completions(_) => completions(directory),
        })
        .map_err(|error| Failure::failed(format_args!("{}: {error}.", directory.display())))
}

fn completions(directory: &Path) -> std::io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Arguments::command(), "fluxline", directory)?;
    }
    Ok(())
}
