//! `fluxline run` records packets that Linux's software RDMA device (rdma_rxe) writes, reliably and
//! unreliably, and its ledger agrees with what the device sent.
//!
//! The device lives in a virtual machine; `tools/rxe/test.sh` makes it, boots it and runs these
//! tests, one after the other, in its network namespace. `FLUXLINE_RXE` names the two addresses,
//! ours and the device's, and the port of its peer program: `10.77.0.1 10.77.0.2 7471`. Without it
//! the tests say that they are skipped.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{
    Running, assert_status_is_true, call_json_ending, number, run_document, text,
};
use serde_json::Value;

const KEY: u32 = 0x1357_9BDF;
const BASE: u64 = 0x7F00_0000_0000;
const PAIR: u32 = 0x0004_5002;
/// Near the end of all PSNs, so that they wrap.
const FIRST_PSN: u32 = 0x00FF_FF00;
const SLOT_BYTES: u64 = 1024;
const END: Duration = crate::support::PATIENCE;

/// The device's peer program and a run.
struct World {
    scratch: tempfile::TempDir,
    input: BufReader<TcpStream>,
    running: Option<Running>,
    slots: u64,
    written: u64,
}

impl World {
    /// Makes a queue pair of the device, starts a run for it, and joins the two. `None`: there is
    /// no device.
    fn new(kind: &str, slots: u64) -> Option<World> {
        World::with_rnr_retries(kind, slots, 7)
    }

    /// The same, with a device that repeats a frame at most so often after an RNR NAK; 7: no limit.
    fn with_rnr_retries(kind: &str, slots: u64, retries: u32) -> Option<World> {
        let Ok(words) = std::env::var("FLUXLINE_RXE") else {
            println!("skipped: tools/rxe/test.sh runs this test");
            return None;
        };
        let [own, device, port] = words.split(' ').collect::<Vec<_>>()[..] else {
            panic!("FLUXLINE_RXE=`OWN DEVICE PORT`, not `{words}`");
        };
        let [own, device] = [own, device].map(|ip| ip.parse::<IpAddr>().expect("an address"));
        let control = SocketAddr::new(device, port.parse().expect("a port"));
        let peer = TcpStream::connect(control).expect("the peer program listens");
        peer.set_read_timeout(Some(END)).expect("possible");
        peer.set_nodelay(true).expect("possible");
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let input = BufReader::new(peer);
        let mut world = World { scratch, input, running: None, slots, written: 0 };
        world.ask("region 1048576").expect("memory");
        let pair = &world.ask(&format!("pair {kind} {FIRST_PSN}")).expect("a queue pair")[0];
        let pair: u32 = pair.parse().expect("a number");
        let reliability = if kind == "rc" { "reliable" } else { "unreliable" };
        let listen = SocketAddr::new(own, 4791);
        let experiment = format!(
            "[[source]]\nname = 'device'\nformat = 'counter'\n[source.roce]\n\
             listen = '{listen}'\nring-bytes = {}\n[[source.roce.sender]]\nname = 'rxe'\n\
             address = '{device}'\nreliability = '{reliability}'\nqueue-pair = {PAIR}\n\
             peer-queue-pair = {pair}\nfirst-psn = {FIRST_PSN}\nkey = {KEY}\nbase = {BASE}\n\
             [events]\nbuild = 'packet'\n",
            slots * SLOT_BYTES
        );
        let (file, folder) = (world.path("roce.toml"), world.path("run"));
        std::fs::write(&file, experiment).expect("written");
        let run = ["run", text(&file), "--folder", text(&folder)];
        world.running = Some(Running::start(&run, "memory "));
        world.ask(&format!("connect {PAIR} 0 {own} 1024 {retries}")).expect("connected");
        Some(world)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.scratch.path()).join(name)
    }

    /// Asks the peer for something; returns the words of its answer.
    fn ask(&mut self, request: &str) -> Result<Vec<String>, String> {
        let mut line = String::new();
        self.input.get_mut().write_all(format!("{request}\n").as_bytes()).expect("it listens");
        self.input.read_line(&mut line).expect("an answer in time");
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("ok", rest) => Ok(rest.split_whitespace().map(String::from).collect()),
            (_, reason) => Err(reason.to_string()),
        }
    }

    /// Lets the device write `count` packets, with this key.
    fn packets_with(&mut self, count: u64, key: u32) -> Result<(), String> {
        let World { slots, written, .. } = *self;
        let slot = written % slots;
        self.written += count;
        self.ask(&format!("packets {written} {count} {slot} {slots} {BASE} {key}")).map(|_| ())
    }

    fn packets(&mut self, count: u64) {
        self.packets_with(count, KEY).expect("written");
    }

    /// Ends the run; returns its document and all that it said.
    fn finish(&mut self) -> (Value, String) {
        std::thread::sleep(Duration::from_millis(300));
        let running = self.running.take().expect("it runs");
        running.interrupt();
        let (code, said) = running.end();
        let document = run_document(&self.path("run"));
        assert_status_is_true(&document, code);
        assert_eq!(document["closes"], true, "{}", document["laws"]);
        (document, said)
    }

    /// The packets that are readable in the run's files; `inspect` ends as the run did.
    fn readable(&self, status: i32) -> u64 {
        let shown = call_json_ending(&["inspect", text(&self.path("run"))], status);
        number(&shown["readable"], "packets")
    }
}

/// Drops one datagram of RoCEv2 in `count`, each way, until the value is dropped.
fn lose_one_in(count: u32) -> Loss {
    let rule = format!("udp dport 4791 numgen random mod {count} == 0 drop");
    let hook = |hook| format!("type filter hook {hook} device \"tap0\" priority 0; {rule};");
    let (input, output) = (hook("ingress"), hook("egress"));
    let table =
        format!("table netdev rxerun {{\nchain in {{ {input} }}\nchain out {{ {output} }}\n}}");
    let status = Command::new("nft").arg(table).status().expect("nft is installed");
    assert!(status.success(), "nft refused the rules");
    Loss
}

/// Removes the rules when it is dropped.
struct Loss;

impl Drop for Loss {
    fn drop(&mut self) {
        let _ = Command::new("nft").args(["delete", "table", "netdev", "rxerun"]).status();
    }
}

fn assert_all_recorded(world: &World, document: &Value, said: &str) {
    let totals = &document["totals"];
    let sent = world.written;
    assert_eq!(
        (document["status"].as_u64(), number(totals, "recorded")),
        (Some(0), sent),
        "{said}"
    );
    assert_eq!((number(totals, "frames_expected"), number(totals, "frames_placed")), (sent, sent));
    assert_eq!((number(totals, "lost"), number(totals, "frames_lost")), (0, 0), "{said}");
    assert_eq!((number(totals, "senders_broken"), number(totals, "sender_restarts")), (0, 0));
    assert_eq!(world.readable(0), sent);
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn packets_of_a_reliable_device_are_recorded_although_the_ring_has_two_slots() {
    let Some(mut world) = World::new("rc", 2) else { return };
    world.packets(1500);
    let (document, said) = world.finish();
    assert_all_recorded(&world, &document, &said);
    let put_off = number(&document["totals"], "frames_put_off");
    println!("{put_off} frames put off (RNR)");
    assert!(put_off > 0, "{said}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn packets_of_a_reliable_device_are_recorded_over_a_network_that_loses_frames() {
    let Some(mut world) = World::new("rc", 1024) else { return };
    let loss = lose_one_in(50);
    world.packets(1500);
    drop(loss);
    let (document, said) = world.finish();
    assert_all_recorded(&world, &document, &said);
    let totals = &document["totals"];
    let repeated = number(totals, "frames_to_repeat") + number(totals, "frames_duplicate");
    println!("{repeated} frames came more than once or too early");
    assert!(repeated > 0, "{said}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn packets_of_an_unreliable_device_are_recorded() {
    let Some(mut world) = World::new("uc", 1024) else { return };
    world.packets(2000);
    let (document, said) = world.finish();
    assert_all_recorded(&world, &document, &said);
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn lost_packets_of_an_unreliable_device_are_counted_to_the_packet() {
    let Some(mut world) = World::new("uc", 1024) else { return };
    let loss = lose_one_in(20);
    world.packets(2000);
    drop(loss);
    // Losses are counted up to the last frame that comes.
    world.packets(10);
    let (document, said) = world.finish();
    let totals = &document["totals"];
    let (recorded, lost) = (number(totals, "recorded"), number(totals, "frames_lost"));
    println!("{recorded} recorded, {lost} lost");
    assert_eq!(recorded + lost, world.written, "{said}");
    assert!(lost > 10, "{said}");
    assert_eq!((number(totals, "frames_expected"), world.readable(0)), (world.written, recorded));
    // The first packets of all may be lost: no earlier number shows them to the readout.
    assert!(number(totals, "lost") <= lost, "{said}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn a_device_with_a_wrong_key_stops_and_is_named() {
    let Some(mut world) = World::new("rc", 1024) else { return };
    world.packets(20);
    let refused = world.packets_with(5, KEY ^ 1).expect_err("a wrong key");
    assert!(refused.contains("remote access error after 0"), "{refused}");
    let (document, said) = world.finish();
    let totals = &document["totals"];
    assert_eq!((number(totals, "recorded"), number(totals, "senders_broken")), (20, 1), "{said}");
    assert_eq!(document["status"], 7);
    assert!(said.contains("sender `rxe` stopped because a frame was refused"), "{said}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn a_device_whose_rnr_retries_run_out_is_named_and_what_it_wrote_is_recorded() {
    let Some(mut world) = World::with_rnr_retries("rc", 2, 0) else { return };
    let refused = world.packets_with(5000, KEY).expect_err("the ring fills");
    let done = refused.strip_prefix("RNR retry counter exceeded after ").expect(&refused);
    let done: u64 = done.parse().expect("a number");
    std::thread::sleep(Duration::from_millis(1200));
    let (document, said) = world.finish();
    let totals = &document["totals"];
    println!("{done} packets before the ring was full");
    assert_eq!((number(totals, "recorded"), world.readable(7)), (done, done), "{said}");
    assert_eq!((number(totals, "senders_broken"), number(totals, "lost")), (1, 0), "{said}");
    assert!(said.contains("because its ring was full"), "{said}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn a_device_that_dies_between_packets_leaves_what_was_acknowledged() {
    let Some(mut world) = World::new("rc", 1024) else { return };
    world.packets(300);
    world.ask("close").expect("closed");
    let (document, said) = world.finish();
    assert_all_recorded(&world, &document, &said);
}
