//! A program without Kafka refuses what needs it, in one sentence, before anything is made.

use std::process::Command;

fn fluxline(arguments: &[&str], folder: &std::path::Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fluxline"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn program_without_kafka_refuses_a_sink_and_shipping() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\npackets = 1\n\
                [sink.kafka]\nbrokers = \"127.0.0.1:9\"\ntopic = \"x\"\n";
    std::fs::write(scratch.path().join("e.toml"), text).expect("written");
    let (status, said) = fluxline(&["run", "e.toml"], scratch.path());
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("[sink.kafka]") && said.contains("--features kafka"), "{said}");
    assert!(!scratch.path().join("runs").exists(), "nothing was recorded");
    let (status, said) = fluxline(&["ship", "runs/0042"], scratch.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("runs/0042") && said.contains("--features kafka"), "{said}");
    let gather = ["gather", "kafka://127.0.0.1:9/lab", "--into", "runs/0042"];
    let (status, said) = fluxline(&gather, scratch.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("runs/0042") && said.contains("--features kafka"), "{said}");
}

#[test]
fn program_without_kafka_refuses_the_ledger_of_a_cluster() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (status, said) = fluxline(&["inspect", "kafka://127.0.0.1:9/lab"], scratch.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("kafka://127.0.0.1:9/lab") && said.contains("--features kafka"),
        "{said}"
    );
    let (status, said) = fluxline(&["inspect", "runs/0042", "--watch"], scratch.path());
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("kafka://HOST:PORT/CLUSTER"), "{said}");
}
