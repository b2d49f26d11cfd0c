//! Manual pages and completions that packages install.

use std::fs;
use std::path::Path;
use std::process::Command;

fn generate(kind: &str, directory: &Path) {
    let mut command = Command::new(crate::support::PROGRAM);
    let status = command.args(["generate", kind]).arg(directory).status().expect("the program");
    assert!(status.success());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_command_has_a_manual_page_and_hidden_ones_have_none() {
    let scratch = tempfile::tempdir().expect("a directory");
    let man = scratch.path().join("man/man1");
    generate("man", &man);
    assert!(read(&man.join("fluxline.1")).contains("Exit status"));
    assert!(read(&man.join("fluxline-run.1")).contains("\\-\\-pcap"));
    assert!(man.join("fluxline-format-check.1").exists());
    assert!(!man.join("fluxline-generate.1").exists());
    assert!(!man.join("fluxline-counters.1").exists());
}

#[test]
fn completions_know_the_options_of_a_command() {
    let scratch = tempfile::tempdir().expect("a directory");
    generate("completions", scratch.path());
    for name in ["fluxline.bash", "_fluxline", "fluxline.fish"] {
        assert!(read(&scratch.path().join(name)).contains("pcap"), "{name}");
    }
}

#[test]
fn page_of_counters_in_docs_is_stale() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    let fresh = fluxline_daq::ledger::counters_page();
    assert!(read(Path::new(page)) == fresh, "run `fluxline counters > docs/counters.md`");
}
