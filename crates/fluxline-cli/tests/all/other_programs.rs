//! The commands of other programs: `fluxline sim` calls `fluxline-sim` with all arguments, or says
//! how to build it. And the version, which all programs have from one place.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{PROGRAM, fluxline};

/// Copies the program into a folder, where nothing is beside it.
fn copied(folder: &Path) -> Command {
    let program = folder.join("fluxline");
    // By a process: a file that this one has open for writing, and so perhaps a child that another
    // test starts now, cannot be executed.
    let status = Command::new("cp").arg(PROGRAM).arg(&program).status();
    assert!(status.expect("cp starts").success());
    let mut command = Command::new(program);
    command.env("PATH", folder.join("path"));
    command
}

#[test]
fn missing_program_is_named_with_the_command_that_builds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for (command, program) in [
        ("sim", "fluxline-sim"),
        ("topo", "fluxline-sim"),
        ("bench", "fluxline-bench"),
        ("rdma", "fluxline-bench"),
    ] {
        let output = copied(folder.path()).args([command, "--help"]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("in the program {program}, which is neither")), "{said}");
        let advice = format!("cargo install --path crates/{program}-cli");
        assert!(said.trim_end().trim_end_matches('.').ends_with(&advice), "{said}");
    }
}

#[test]
fn program_on_the_path_gets_all_arguments_and_its_status_is_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("path");
    fs::create_dir(&path).expect("made");
    let script = path.join("fluxline-sim");
    let write = r#"printf '#!/bin/sh\nprintf "%%s|" "$@"\nexit 7\n' >"$0" && chmod +x "$0""#;
    let status = Command::new("sh").args(["-c", write]).arg(&script).status();
    assert!(status.expect("sh starts").success());
    let words = ["--json", "sim", "run", "a file.toml", "--quick", "--help", "--", "-x"];
    let output = copied(folder.path()).args(words).output().expect("it starts");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), words.join("|") + "|");
}

#[test]
fn help_lists_the_commands_of_all_programs() {
    let output = fluxline().arg("--help").output().expect("it starts");
    let help = String::from_utf8_lossy(&output.stdout);
    for command in ["run", "demo", "sim", "topo", "bench", "rdma"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{help}");
    }
}

#[test]
fn program_says_its_version_and_commit() {
    let output = fluxline().arg("--version").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), fluxline_terminal::version::PROGRAM);
}
