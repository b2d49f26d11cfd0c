//! The weight of the first command: which crates the program `fluxline` compiles, and how.
//!
//! A budget in crates holds on every machine; seconds do not.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::{report, root};

/// Most crates that `cargo run --release -- demo` compiles, without build scripts' own.
const CRATES_MAX: usize = 167;
/// Crates that the acquisition does without.
const BANNED: &[&str] = &[
    "fluxline-bench",
    "fluxline-bench-cli",
    "fluxline-conformance",
    "fluxline-kafka",
    "fluxline-report",
    "fluxline-sim",
    "fluxline-sim-cli",
    "librdkafka-sys",
    "rdkafka",
];

/// Returns the names of the crates that a crate compiles with its default features.
fn tree(of: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "-e", "normal,build", "--prefix", "none", "-p", of])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn acquisition_compiles_simulator_benchmarks_or_pages_of_reports() {
    for program in ["fluxline-cli", "fluxline-run"] {
        let crates = tree(program);
        let banned = BANNED.iter().filter(|name| crates.contains(**name));
        report(&banned.map(|name| format!("{program} compiles {name}")).collect::<Vec<_>>());
    }
}

#[test]
fn first_command_compiles_more_crates_than_its_budget() {
    let crates = tree("fluxline-cli");
    assert!(crates.len() > 50, "the tree is read: {crates:?}");
    assert!(crates.len() <= CRATES_MAX, "{} crates, budget {CRATES_MAX}: {crates:?}", crates.len());
}

#[test]
fn release_profile_has_link_time_optimisation() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let profile = |name: &str| {
        let begun = manifest.split(&format!("[profile.{name}]\n")).nth(1).unwrap_or_default();
        begun.split("\n[").next().unwrap_or_default().to_owned()
    };
    assert!(profile("release").contains("lto = \"off\""), "{}", profile("release"));
    assert!(profile("dist").contains("lto = \"thin\""), "the package is optimised further");
}
