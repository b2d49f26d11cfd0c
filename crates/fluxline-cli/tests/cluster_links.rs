//! Nodes of a cluster with several sources each, by shared memory, RoCEv2 and emulators, and with
//! TLS and a password on every way to the broker.
#![cfg(feature = "kafka-tls")]

#[path = "support/lab.rs"]
mod lab;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluxline::fabric::{Fabric, Key, Name};
use fluxline::push::{PushRefused, RingAddress, Sender};
use lab::process::{Process, until};
use lab::{Lab, well};
use serde_json::Value;

const PUSHED: u64 = 2_000;
const KEY: u64 = 77_000_077;
const CONF: [&str; 2] = ["--settings-file", "kafka.conf"];

fn experiment(group: &str) -> String {
    format!(
        r#"
name = "beam"
[events]
build = "source"
[[source]]
name = "shared"
format = "counter"
[source.shm]
url = "shm://{group}/run"
key = {KEY}
[[source]]
name = "card"
format = "counter"
[source.roce]
listen = "127.0.0.1:0"
[source.roce.push]
key = {KEY}
[[source]]
name = "emulated"
format = "counter"
emulator = {{ sources = 2, rate = 100, payload-bytes = 64 }}
[[source]]
name = "other"
format = "counter"
emulator = {{ sources = 1, rate = 100, payload-bytes = 64 }}
[node.r1]
sources = ["shared", "emulated"]
[node.r2]
sources = ["card", "other"]
"#
    )
}

/// Waits for the other side.
fn rest(ring: &mut Sender, fabric: &mut dyn Fabric) {
    let now = fabric.now();
    ring.poll(fabric, now);
    std::thread::sleep(Duration::from_micros(200));
}

/// Pushes packets of formats/counter.toml into the ring of a run.
fn push(url: &str, peer: &str) {
    let mut fabric = fluxline::open(url).expect("a node");
    let name = Name::parse("ring").expect("a name");
    let to = RingAddress { peer: peer.to_owned(), name, key: Key(KEY) };
    let (began, now) = (Instant::now(), fabric.now());
    let mut ring = Sender::open(&mut *fabric, to, now).expect("a sender");
    while !ring.is_open() {
        assert!(began.elapsed() < Duration::from_secs(60), "{peer} does not answer");
        rest(&mut ring, &mut *fabric);
    }
    let mut packet = vec![0_u8; 400];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    for number in 0..PUSHED {
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        while let Err(refused) = ring.push(&mut *fabric, &packet) {
            assert_eq!(refused, PushRefused::Full);
            rest(&mut ring, &mut *fabric);
        }
        ring.publish(&mut *fabric).expect("published");
    }
    while !ring.finish(&mut *fabric).expect("finished") {
        rest(&mut ring, &mut *fabric);
    }
}

/// Returns the address that a node has printed for a source.
fn address_of(node: &Process, source: &str, link: &str) -> String {
    node.wait_for(&format!("source {source} on "));
    let said = node.said();
    let line = said.lines().find(|line| line.contains(&format!("source {source} on"))).expect("it");
    line.rsplit(link).next().expect("an address").trim().to_owned()
}

#[test]
fn packets_of_another_link_or_of_a_secured_broker_are_missing() {
    let group = format!("test-links-{}", std::process::id());
    let lab = Lab::with_tls("output = \"topic\"\n", &experiment(&group));
    let address = lab.address();
    let builder = lab.node("builder", "b1");
    builder.wait_for("made the topics");
    let (status, _, said) = lab.command(&["ctl", &address, "status"]);
    assert!(status == Some(6) && said.contains("security"), "without settings: {said}");
    let (one, two) = (lab.node("r1", "x"), lab.node("r2", "y"));
    one.wait_for("reads out");
    two.wait_for("reads out");
    let card = address_of(&two, "card", "roce://");
    push(&format!("shm://{group}/board"), "run");
    push("udp://127.0.0.1:0", &card);
    let secure = |arguments: &[&str]| lab.command(&[arguments, &CONF].concat());
    let packets = || {
        let (status, out, said) = secure(&["--json", "inspect", &address]);
        // A broker on a machine at its limit may answer too late for one look.
        if status == Some(6) {
            return 0;
        }
        let document: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{said}"));
        document["places"]["in_batches"].as_u64().unwrap_or(0)
    };
    until("all packets", || packets() > 2 * PUSHED + 50, || one.said() + &two.said());
    let (status, _, said) = lab.command(&["ctl", "status", CONF[0], CONF[1]]);
    assert!(status == Some(3) && said.contains("is for a cluster"), "{said}");
    let (status, out, said) = secure(&["ctl", &address, "status"]);
    assert!(status == Some(0) && out.contains("r2 (y): alive"), "{out} {said}");
    let (status, _, said) = secure(&["ctl", &address, "stop"]);
    assert_eq!(status, Some(0), "{said}");
    for node in [one, two, builder] {
        well(node);
    }
    let (status, out, said) = secure(&["inspect", &address]);
    assert_eq!(status, Some(0), "{out} {said}");
    let (status, _, said) = secure(&["gather", &address, "--into", "all"]);
    assert_eq!(status, Some(0), "{said}");
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    for row in lab.csv("all", "counter-data.csv", "source_name") {
        *rows.entry(row).or_default() += 1;
    }
    let of = |source: &str| {
        let its = rows.iter().filter(|(name, _)| name.starts_with(source));
        its.map(|(_, count)| *count).sum::<u64>()
    };
    assert_eq!((of("shared"), of("card")), (PUSHED, PUSHED), "{rows:?}");
    assert!(of("emulated") > 50 && of("other") > 20, "{rows:?}");
    for file in ["all/run.json", "r1-x.log", "builder-b1.log"] {
        let text = std::fs::read_to_string(lab.folder.path().join(file)).expect("a file");
        assert!(!text.contains("secret") && !text.contains(&KEY.to_string()), "{file}: {text}");
    }
}
