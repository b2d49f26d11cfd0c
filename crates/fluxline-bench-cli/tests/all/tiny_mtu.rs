//! `fluxline bench` over an interface that takes next to nothing: loopback of a network namespace
//! of the test's own, which is gone with the process.

use std::process::{Command, Output};

use serde_json::Value;

const FAILED: i32 = 1;

/// Runs `fluxline bench` in a new namespace whose loopback has this MTU; `None`, said aloud: no
/// namespace can be made here, or there are not two cores.
fn bench(mtu: u32, arguments: &str) -> Option<Output> {
    if fluxline::pin::allowed_cores().len() < 2 {
        println!("skipped: two cores are needed");
        return None;
    }
    let inside = |words: &[&str]| Command::new("unshare").arg("--net").args(words).output();
    if !inside(&["ip", "link"]).is_ok_and(|output| output.status.success()) {
        println!("skipped: no network namespace can be made (unshare, ip, root)");
        return None;
    }
    let script = format!("ip link set lo mtu {mtu} up && exec \"$0\" --json bench {arguments}");
    Some(inside(&["sh", "-c", &script, crate::support::PROGRAM]).expect("it starts"))
}

#[test]
#[ignore = "all: a network namespace"]
fn connections_need_176_byte_and_say_so_instead_of_timing_out() {
    for mtu in [68, 155] {
        let arguments = "udp://127.0.0.1 --only integrity --quick --rounds 1 --sizes 1..64";
        let Some(output) = bench(mtu, arguments) else { return };
        let message = text_of(&output);
        assert!(message.contains("raise its MTU to 176"), "{mtu}: {message}");
        assert!(message.contains(&format!("takes {} byte", mtu - 28)), "{mtu}: {message}");
    }
}

#[test]
#[ignore = "all: a network namespace"]
fn what_just_fits_is_measured_whole() {
    for mtu in [156, 576] {
        let arguments = "udp://127.0.0.1 --only integrity --quick --rounds 1 --sizes 1..64";
        let Some(output) = bench(mtu, arguments) else { return };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mtu}: {errors}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let experiment = &document["experiments"][0];
        assert_eq!(experiment["incomplete"], "", "{mtu}: {experiment}");
        assert_eq!(document["environment"]["near"]["link"]["interface"], "lo");
    }
}

#[test]
#[ignore = "all: a network namespace"]
fn raw_datagrams_that_do_not_fit_are_named_and_not_reported_as_nothing() {
    let arguments = "udp://127.0.0.1 --only datagrams --quick --rounds 1 --trial-seconds 0.1";
    let Some(output) = bench(80, arguments) else { return };
    let message = text_of(&output);
    assert!(message.contains("at most 52 byte") && message.contains("MTU"), "{message}");
}

/// The sentence of a run with `--json` that failed.
fn text_of(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FAILED), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    let document: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{errors}"));
    document["error"].as_str().expect("a sentence").to_owned()
}
