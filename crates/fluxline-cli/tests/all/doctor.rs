//! `fluxline doctor` as a black box, on hosts that are folders: nothing of this host is changed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{call, call_json, number, refused, text};

const RMEM: &str = "proc/sys/net/core/rmem_max";

fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    set(root.path(), RMEM, "212992\n");
    set(root.path(), "proc/sys/net/core/netdev_max_backlog", "1000\n");
    set(root.path(), "sys/class/net/eth0/mtu", "1500\n");
    set(root.path(), "sys/class/net/eth0/operstate", "up\n");
    root
}

fn set(root: &Path, path: &str, value: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, value).expect("written");
}

fn get(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).expect("there").trim().to_string()
}

fn experiment(root: &Path) -> PathBuf {
    let file = root.join("experiment.toml");
    let text = "name = 'boards'\n[[source]]\nname = 'board'\nformat = 'counter'\n[source.udp]\n\
                listen = ['0.0.0.0:6006']\n";
    fs::write(&file, text).expect("written");
    file
}

#[test]
fn an_experiment_is_described_with_its_assumptions() {
    let host = host();
    let (root, file) = (host.path(), experiment(host.path()));
    let of = ["doctor", "--root", text(root), "--for", text(&file)];
    let stated = ["--rate", "100000", "--senders", "8", "--packet-bytes", "1000"];
    let document = call_json(&[&of[..], &stated[..]].concat());
    assert_eq!(document["experiment"], "boards");
    assert_eq!(document["assumptions"].as_array().map(Vec::len), Some(0));
    let checks = document["checks"].as_array().expect("checks");
    let buffer = checks.iter().find(|check| check["rule"] == "rmem-max").expect("the check");
    assert_eq!(buffer["verdict"], "bad");
    let effect = buffer["effect"].as_str().expect("an effect");
    assert!(effect.starts_with("8 sources x 1000 B at 100 kHz of `board` fill 208 KiB in 0.27 ms"));
    assert!(number(&document["summary"], "mends") >= 1);
    let guessed = call_json(&of);
    assert_eq!(guessed["assumptions"].as_array().map(Vec::len), Some(3), "{guessed}");
}

#[test]
fn applied_and_undone_a_host_is_as_it_was() {
    let host = host();
    let root = host.path();
    let of = |what: &[&str]| call_json(&[&["doctor", "--root", text(root)], what].concat());
    let done = of(&["--apply", "--only", "rmem-max"]);
    assert_eq!(done["changes"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(root, RMEM), "67108864");
    assert_eq!(get(root, "proc/sys/net/core/netdev_max_backlog"), "1000", "it was not asked for");
    of(&["--apply"]);
    assert_eq!(get(root, "proc/sys/net/core/netdev_max_backlog"), "10000");
    let state = root.join("var/lib/fluxline/doctor.state");
    assert!(state.exists());
    of(&["--undo"]);
    assert_eq!(get(root, RMEM), "212992");
    assert_eq!(get(root, "proc/sys/net/core/netdev_max_backlog"), "1000");
    assert!(!state.exists());
    let message = refused(&call(&["doctor", "--root", text(root), "--undo"]), 3);
    assert!(message.contains("nothing to undo"), "{message}");
}

#[test]
fn what_somebody_else_changed_fails_the_undo_and_force_brings_it_back() {
    let host = host();
    let root = host.path();
    call_json(&["doctor", "--root", text(root), "--apply"]);
    set(root, RMEM, "7\n");
    let message = refused(&call(&["doctor", "--root", text(root), "--undo"]), 1);
    assert!(message.contains("1 change"), "{message}");
    assert_eq!(get(root, RMEM), "7");
    call_json(&["doctor", "--root", text(root), "--undo", "--force"]);
    assert_eq!(get(root, RMEM), "212992");
}

#[test]
fn mistakes_get_one_sentence_and_change_nothing() {
    let host = host();
    let (root, file) = (host.path(), experiment(host.path()));
    let of = |what: &[&str]| call(&[&["doctor", "--root", text(root)], what].concat());
    assert!(refused(&of(&["--only", "rmem"]), 3).contains("rmem-max"));
    let none = root.join("none.toml");
    assert!(refused(&of(&["--for", text(&none)]), 3).contains("cannot be read"));
    assert!(refused(&of(&["--for", text(&file), "--rate", "0"]), 3).contains("--rate 0"));
    assert!(refused(&of(&["--for", text(&file), "--senders", "0"]), 3).contains("--senders"));
    assert!(refused(&call(&["doctor", "--root", text(&none)]), 3).contains("not a directory"));
    let state = root.join("strange.state");
    fs::write(&state, "something else\n").expect("written");
    let message = refused(&of(&["--apply", "--state", text(&state)]), 1);
    assert!(message.contains("strange.state:1"), "{message}");
    assert_eq!(
        (get(root, RMEM), get(root, "strange.state")),
        ("212992".into(), "something else".into())
    );
}

#[test]
fn this_host_is_shown_with_its_summary_last() {
    let output = call(&["doctor"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}");
    let last = table.lines().last().unwrap_or_default();
    assert!(last.contains("here") && table.contains("net.core.rmem_max"), "{table}");
}
