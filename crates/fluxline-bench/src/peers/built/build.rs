//! Builds a program when it is first needed, and keeps the result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::peers::contender::{NoNumber, Run};
use crate::peers::program::{self, output};

/// The time limit of a compiler. Assumed: cargo fetches and builds some hundred crates at most.
const LIMIT: Duration = Duration::from_secs(600);

/// A program that was built, or the reason why not; empty until it is needed.
#[derive(Default)]
pub struct Built(Option<Result<PathBuf, String>>);

impl Built {
    /// The program. Errors: it could not be built, now or before.
    pub fn get(
        &mut self,
        build: impl FnOnce() -> Result<PathBuf, NoNumber>,
    ) -> Result<PathBuf, NoNumber> {
        if let Some(known) = &self.0 {
            return known.clone().map_err(NoNumber::Failed);
        }
        let built = match build() {
            Ok(program) => Ok(program),
            Err(NoNumber::Failed(why)) => Err(why),
            Err(over) => return Err(over),
        };
        self.0 = Some(built.clone());
        built.map_err(NoNumber::Failed)
    }
}

/// A C program to be compiled.
#[derive(Clone, Copy)]
pub struct Compilation<'a> {
    /// The compiler's command.
    pub compiler: &'a str,
    /// The text of the program.
    pub source: &'a str,
    /// The name of file and program.
    pub name: &'a str,
    /// The arguments that name libraries.
    pub libraries: &'a [&'a str],
    /// The folder of file and program.
    pub folder: &'a Path,
}

/// Compiles a C program. Errors: the compiler's last words.
pub fn compile(plan: &Compilation<'_>, run: &Run<'_>) -> Result<PathBuf, NoNumber> {
    let Compilation { compiler, source, name, libraries, folder } = *plan;
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source)
        .map_err(|error| NoNumber::Failed(format!("{}: {error}", file.display())))?;
    let mut command = program::command(compiler, None);
    command.args(["-O2", "-o"]).arg(&program).arg(&file).args(libraries);
    long(compiler, &mut command, run).map(|()| program)
}

/// Runs a compiler. Errors: its last words.
pub fn long(name: &str, command: &mut Command, run: &Run<'_>) -> Result<(), NoNumber> {
    output(name, command, &Run { limit: LIMIT, ..*run }).map(|_| ())
}

/// Checks that these programs are installed. Errors: the package to install.
pub fn need(programs: &[(&str, &str)]) -> Result<(), String> {
    let missing = programs.iter().find(|(name, _)| program::on_path(name).is_none());
    match missing {
        Some((_, package)) => Err(format!("not installed: apt-get install {package}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_once_is_not_tried_again() {
        let mut built = Built::default();
        let first = built.get(|| Err(NoNumber::Failed("no header".into())));
        assert!(matches!(first, Err(NoNumber::Failed(why)) if why == "no header"));
        let second = built.get(|| panic!("built again"));
        assert!(matches!(second, Err(NoNumber::Failed(why)) if why == "no header"));
    }

    #[test]
    fn what_is_missing_is_named_by_its_package() {
        assert_eq!(need(&[("sh", "dash")]), Ok(()));
        let why = need(&[("sh", "dash"), ("no-such-program", "a-package")]).expect_err("missing");
        assert!(why.contains("apt-get install a-package"), "{why}");
    }
}
