//! Commands of the other programs, `fluxline-sim` and `fluxline-bench`.
//!
//! The acquisition compiles without simulator and benchmarks, so these are programs of their own.
//! They replace this process: signals, terminal and exit status are theirs.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Calls the program `name` with the arguments of this process: the one beside this program, or
/// the first on the path. Returns only if there is none.
pub fn call(name: &str) -> Failure {
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(name, own.as_deref(), &path) else {
        return Failure::failed(format_args!(
            "this command is in the program {name}, which is neither beside this program nor on \
             the path; build it: {}",
            how_to_build(name, own.as_deref())
        ));
    };
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    Failure::failed(format_args!("{} cannot be started: {error}.", program.display()))
}

fn find(name: &str, own: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_path_buf);
    let mut places = beside.into_iter().chain(std::env::split_paths(path));
    places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()))
}

/// Returns the one command that puts the program beside this one.
fn how_to_build(name: &str, own: Option<&Path>) -> String {
    let profile = own.and_then(Path::parent).and_then(Path::file_name).and_then(OsStr::to_str);
    match profile {
        Some("release") => format!("cargo build --release -p {name}-cli"),
        Some("debug") => format!("cargo build -p {name}-cli"),
        _ => format!("cargo install --path crates/{name}-cli"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::{find, how_to_build};

    #[test]
    fn program_beside_this_one_comes_before_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let [beside, on_path] = ["beside", "path"].map(|name| folder.path().join(name));
        for place in [&beside, &on_path] {
            std::fs::create_dir(place).expect("made");
            std::fs::write(place.join("fluxline-sim"), "").expect("written");
        }
        let own = beside.join("fluxline");
        let found = |own, path: &Path| find("fluxline-sim", own, path.as_os_str());
        assert_eq!(found(Some(own.as_path()), &on_path), Some(beside.join("fluxline-sim")));
        assert_eq!(found(None, &on_path), Some(on_path.join("fluxline-sim")));
        assert_eq!(find("fluxline-bench", Some(&own), on_path.as_os_str()), None);
        assert_eq!(find("fluxline-sim", None, OsStr::new("")), None);
    }

    #[test]
    fn advice_builds_the_program_beside_this_one() {
        let advice = |own: &str| how_to_build("fluxline-sim", Some(Path::new(own)));
        assert_eq!(
            advice("/a/target/release/fluxline"),
            "cargo build --release -p fluxline-sim-cli"
        );
        assert_eq!(advice("/a/target/debug/fluxline"), "cargo build -p fluxline-sim-cli");
        assert_eq!(advice("/usr/bin/fluxline"), "cargo install --path crates/fluxline-sim-cli");
    }
}
