//! `fluxline bench xdp://` between two network namespaces, as a black box: the experiments run past
//! both kernels, and without permission there is a sentence.
//!
//! Needs root, `ip` and a kernel with AF_XDP; skipped aloud without. With FLUXLINE_REQUIRE_TOOLS=1
//! missing namespaces are a failure for root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::namespaces::{Namespaces, is_installed};
use crate::support::{fluxline, refused};
use fluxline_bench::real::KEY_VARIABLE;
use serde_json::Value;

const LINK: i32 = 6;
const KEY: &str = "right";
const URL: &str = "xdp://10.93.0.2";

/// The far side in namespace B, killed when dropped, and where it serves.
struct Far(Child, String);

impl Far {
    fn start(namespaces: &Namespaces) -> Far {
        let mut command = fluxline();
        command.args(["bench", "--serve", "10.93.0.2:0"]).env(KEY_VARIABLE, KEY);
        let mut command = namespaces.inside_b(&command);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("text");
        Far(child, line.trim().to_owned())
    }

    /// A benchmark in namespace A against it.
    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = fluxline();
        command.args(["bench", URL, "--peer", &self.1, "--key", KEY, "--quick", "--json"]);
        command.args(["--rounds", "1", "--sizes", "1..4096"]).args(arguments);
        command
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two namespaces, one test at a time since each wants both cores; `None`: skipped, said aloud.
fn pair(mtu: usize) -> Option<(MutexGuard<'static, ()>, Namespaces)> {
    static CORES: Mutex<()> = Mutex::new(());
    let alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    if fluxline::pin::allowed_cores().len() < 2 {
        println!("skipped: two cores are needed");
        return None;
    }
    match Namespaces::pair(mtu) {
        Ok(namespaces) => Some((alone, namespaces)),
        Err(reason) => {
            println!("skipped: {reason}");
            let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
            assert!(!required || !is_root(), "FLUXLINE_REQUIRE_TOOLS=1, and {reason}");
            None
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[test]
#[ignore = "all: network namespaces"]
fn experiments_of_a_fabric_run_past_both_kernels_at_either_mtu() {
    for mtu in [1_500, 9_000] {
        let Some((_alone, namespaces)) = pair(mtu) else { return };
        let far = Far::start(&namespaces);
        let names = "integrity,pingpong,messages,rate,put-get,soak";
        let bench = far.bench(&["--only", names, "--seconds", "1"]);
        let output = namespaces.inside_a(&bench).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "MTU {mtu}: {errors}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let done = document["experiments"].as_array().expect("a list");
        assert_eq!(done.len(), names.split(',').count(), "{document}");
        for experiment in done {
            assert_eq!(experiment["incomplete"], "", "MTU {mtu}: {experiment}");
        }
    }
}

#[test]
fn the_list_claims_no_experiment_for_xdp_that_it_cannot_do() {
    let output = fluxline().args(["bench", "--list", "--json"]).output().expect("it starts");
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let links = |name: &str| {
        let all = listed.as_array().expect("a list");
        let found = all.iter().find(|one| one["name"] == name).expect(name);
        found["links"].as_str().expect("text").to_owned()
    };
    assert!(links("pingpong").contains("xdp://"), "{listed}");
    for name in ["incast", "datagrams", "lossfree"] {
        assert!(!links(name).contains("xdp://"), "{name}: {}", links(name));
        let output = fluxline().args(["bench", URL, "--only", name]).output().expect("it starts");
        let message = refused(&output, 1);
        assert!(message.contains("not possible on xdp://"), "{message}");
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn without_permission_there_is_a_sentence_that_says_what_works_without() {
    if !is_installed("setpriv") {
        println!("skipped: setpriv is not installed");
        return;
    }
    let Some((_alone, namespaces)) = pair(1_500) else { return };
    let far = Far::start(&namespaces);
    let bench = far.bench(&["--only", "integrity"]);
    let mut nobody = Command::new("setpriv");
    nobody.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]);
    nobody.arg(bench.get_program()).args(bench.get_args());
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = namespaces.inside_a(&nobody);
    let output = command.current_dir(folder.path()).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(LINK), "{errors}");
    let said: Value = serde_json::from_str(errors.trim()).expect("one JSON document");
    let message = said["error"].as_str().expect("a sentence");
    assert!(message.contains("no permission to") && message.contains("udp://"), "{message}");
    // The far side goes on: who may, can.
    let again = namespaces.inside_a(&far.bench(&["--only", "integrity"])).output();
    let again = again.expect("it starts");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn an_address_on_loopback_is_refused_with_what_works() {
    let output = fluxline().args(["bench", "xdp://127.0.0.1"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("udp://127.0.0.1"), "{errors}");
}
