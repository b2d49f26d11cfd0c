//! Manual pages and shell completions, from the table of a program's command line.
//!
//! Packages install them; users do not need the command, so it is hidden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use clap_complete::Shell;

use crate::failure::Failure;

/// `generate` of each program.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Write one manual page per command
    Man(GenerateArguments),
    /// Write completions for bash, zsh and fish
    Completions(GenerateArguments),
}

/// The arguments of `generate`.
#[derive(Debug, Args)]
pub struct GenerateArguments {
    /// The directory to write to; it is made if it does not exist
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Writes the files of one kind for the program `name` with these arguments. Errors: the directory
/// cannot be written.
pub fn generate(
    what: &GenerateCommand,
    name: &str,
    arguments: clap::Command,
) -> Result<(), Failure> {
    let (GenerateCommand::Man(to) | GenerateCommand::Completions(to)) = what;
    let directory = &to.directory;
    fs::create_dir_all(directory)
        .and_then(|()| match what {
            GenerateCommand::Man(_) => manual(directory, name, arguments),
            GenerateCommand::Completions(_) => completions(directory, name, arguments),
        })
        .map_err(|error| Failure::failed(format_args!("{}: {error}.", directory.display())))
}

/// Writes the manual pages. A program whose commands users call as those of `fluxline` has no page
/// of its own: the one of `fluxline` has the list of all commands.
fn manual(directory: &Path, name: &str, arguments: clap::Command) -> io::Result<()> {
    let whole = arguments.get_name().to_owned();
    clap_mangen::generate_to(arguments, directory)?;
    match whole == name {
        true => Ok(()),
        false => fs::remove_file(directory.join(format!("{whole}.1"))),
    }
}

fn completions(directory: &Path, name: &str, mut arguments: clap::Command) -> io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut arguments, name, directory)?;
    }
    Ok(())
}
