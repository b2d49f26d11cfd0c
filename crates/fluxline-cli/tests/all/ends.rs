//! Ends of runs: each says the truth about what was received, by its status, its sentence and its
//! folder, also after a signal, a death or a full disk.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::shm::{Shm, ShmConfig};
use fluxline::udp::{SenderConfig, UdpSender};
use fluxline_core::fabric::{Key, Name};
use serde_json::Value;

use crate::board::packet;
use crate::shm::{attach, push};
use crate::support::{
    PATIENCE, Running, TinyDisk, call, call_json, call_json_ending, fluxline, number, refused,
    run_document, send_signal, sentence, text, wait_for_handler_of,
};

/// Sends the packets of these numbers.
fn send(port: u16, numbers: Range<u64>) {
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for number in numbers {
        sender.send_to(&packet(number), ("127.0.0.1", port)).expect("sent");
    }
}

/// Waits until a run that serves its page says so.
fn wait_for(run: &Path, passes: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let state = call_json(&["ctl", "--run", text(run), "status", "--json"]);
        if passes(&state) {
            return state;
        }
        assert!(began.elapsed() < PATIENCE, "{state:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_ctrl_c_that_a_wrapper_forwards_a_second_time_loses_no_packet() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for round in 0..5 {
        let folder = scratch.path().join(format!("run-{round}"));
        let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
        send(port, 0..400);
        running.interrupt();
        // It may have ended in between.
        let again = format!("kill -INT {} 2>&1 || true", running.id());
        Command::new("sh").args(["-c", &again]).status().expect("sh starts");
        let (code, said) = running.end();
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(number(&run_document(&folder)["totals"], "recorded"), 400, "round {round}");
    }
}

#[test]
fn a_later_signal_ends_a_run_that_hangs_at_once() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    // A standard error that is full, so that the program hangs before it can end by itself.
    let (unread, mut full) = std::io::pipe().expect("a pipe");
    full.write_all(&[b' '; 65_536]).expect("the size of a pipe");
    let mut child = fluxline()
        .args(["run", "--udp", "127.0.0.1:0", "--format", "counter", "--folder"])
        .arg(scratch.path().join("run"))
        .stderr(full)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait_for_handler_of(child.id());
    send_signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(1_500)); // longer than the time of one wish
    send_signal(child.id(), "INT");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waitable") {
            break status;
        }
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(130));
    drop(unread);
}

#[test]
fn a_run_that_received_nothing_says_where_it_listened_and_is_not_status_0() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
    running.interrupt();
    let (code, said) = running.end();
    let sentence = sentence(code, &said, 7);
    let place = format!("listened on 127.0.0.1:{port}");
    assert!(sentence.contains("received nothing") && sentence.contains(&place), "{sentence}");
    assert_eq!(call(&["inspect", text(&folder)]).status.code(), Some(7));

    let allowed = scratch.path().join("allowed");
    let arguments = ["--format", "counter", "--accept", "nothing-received", "--folder"];
    let (running, _) = Running::listen(&[&arguments[..], &[text(&allowed)]].concat());
    running.interrupt();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_multicast_group_that_is_listened_on_is_joined() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let listen = ["run", "--udp", "239.255.77.21:0", "--interface", "lo", "--format", "counter"];
    let more = ["--folder", text(&folder), "--serve", "127.0.0.1:0"];
    let running = Running::start(&[&listen[..], &more].concat(), "memory ");
    let group = SocketAddr::from(([239, 255, 77, 21], running.port()));
    let config =
        SenderConfig { multicast_interface: Some("lo".to_owned()), ..SenderConfig::new(group) };
    let packets: Vec<_> = (0..20).map(packet).collect();
    let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    UdpSender::open(config).expect("opens").send(&packets).expect("sent");
    wait_for(&folder, |state| state["flow"]["received"].as_u64() == Some(20));
    running.interrupt();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(number(&run_document(&folder)["totals"], "recorded"), 20);
}

#[test]
fn armed_and_paused_time_is_counted_apart_from_what_is_in_the_files() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let arguments = ["--format", "counter", "--events", "key", "--folder", text(&folder)];
    let served = ["--serve", "127.0.0.1:0", "--armed"];
    let (running, port) = Running::listen(&[&arguments[..], &served].concat());
    let command = |word: &str| call_json(&["ctl", "--run", text(&folder), word, "--json"]);
    let received = |count: u64| {
        wait_for(&folder, |state| {
            let events = &state["events"];
            let closed = number(events, "built") + number(events, "paused");
            state["flow"]["received"].as_u64() == Some(count) && closed == count
        })
    };
    // Armed: 3 of 100 are missing. Running: 2 of 50. Paused: 10 of 100. Running: 0 of 50.
    send(port, 0..50);
    send(port, 53..100);
    received(97);
    command("start");
    send(port, 100..120);
    send(port, 122..150);
    received(97 + 48);
    command("pause");
    send(port, 150..200);
    send(port, 210..250);
    received(97 + 48 + 90);
    command("resume");
    send(port, 250..300);
    received(97 + 48 + 90 + 50);
    running.interrupt();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");

    let document = run_document(&folder);
    let found = call_json(&["inspect", text(&folder)]);
    assert_eq!(number(&found["readable"], "events"), 98);
    let headline = document["headline"].as_str().expect("a headline");
    assert!(headline.contains("Missing by the packet counters: 2."), "{headline}");
    assert!(headline.contains("Events: 98, 0 incomplete."), "{headline}");
    assert!(headline.contains("paused: 187 events, 13 missing packets"), "{headline}");
    let periods = document["periods"].as_array().expect("a list");
    let column = |name: &str| periods.iter().map(|one| number(one, name)).collect::<Vec<_>>();
    assert_eq!(column("packets"), [97, 48, 90, 50]);
    assert_eq!(column("lost"), [3, 2, 10, 0]);
    assert_eq!(column("events"), [97, 48, 90, 50]);
    let recorded: Vec<_> = periods.iter().map(|one| one["recorded"] == true).collect();
    assert_eq!(recorded, [false, true, false, true]);
}

#[test]
fn a_run_begins_before_its_first_packet() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for round in 0..5 {
        let folder = scratch.path().join(format!("run-{round}"));
        let port = crate::support::free_port();
        let listen = format!("127.0.0.1:{port}");
        let all = ["run", "--udp", &listen, "--format", "counter", "--folder", text(&folder)];
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                for number in 0_u64.. {
                    let _ = sender.send_to(&packet(number), ("127.0.0.1", port));
                    if over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            let running = Running::start(&all, "memory ");
            running.interrupt();
            let _ = running.end();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let document = run_document(&folder);
        let first = number(&document["ledger"]["sources"][0], "first_time_ns");
        let began = number(&document, "began_ns");
        assert!(began <= first, "began {began}, first packet {first}");
    }
}

#[test]
fn a_disk_that_another_program_fills_to_its_last_byte_keeps_the_counts_of_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mount = scratch.path().join("disk");
    std::fs::create_dir(&mount).expect("made");
    let Some(disk) = TinyDisk::mount(&mount, 4 << 20) else { return };
    let folder = disk.0.join("run");
    let arguments = ["--format", "counter", "--folder", text(&folder)];
    let (running, port) = Running::listen(&[&arguments[..], &["--serve", "127.0.0.1:0"]].concat());
    send(port, 0..200);
    wait_for(&folder, |state| state["recorded_bytes"].as_u64() == Some(200 * 400));
    let mut filler = std::fs::File::create(disk.0.join("filler")).expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}
    send(port, 200..400);
    wait_for(&folder, |state| state["flow"]["received"].as_u64() == Some(400));
    running.interrupt();
    let (code, said) = running.end();
    sentence(code, &said, 5);
    let document = run_document(&folder);
    assert_eq!(document["state"], "recording-stopped");
    let totals = &document["totals"];
    assert_eq!(number(totals, "recorded") + number(totals, "write_failed"), 400);
    assert!(number(totals, "write_failed") > 0, "{totals}");
    let output = call(&["inspect", text(&folder)]);
    let sentence = refused(&output, 5);
    assert!(sentence.contains("no space left"), "{sentence}");
    let told = format!("write failed {}", number(totals, "write_failed"));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&told), "{told}: {output:?}");
}

#[test]
fn a_run_that_was_killed_is_not_status_0_until_it_is_recovered_and_says_so_afterwards() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let (running, port) = Running::listen(&[
        "--format",
        "counter",
        "--folder",
        text(&folder),
        "--serve",
        "127.0.0.1:0",
    ]);
    send(port, 0..200);
    wait_for(&folder, |state| state["recorded_bytes"].as_u64() == Some(200 * 400));
    send_signal(running.id(), "KILL");
    let _ = running.end();
    let found = call_json_ending(&["inspect", text(&folder)], 7);
    assert_eq!(number(&found["readable"], "packets"), 200);
    let sentence = refused(&call(&["export", text(&folder), "--to", "csv"]), 7);
    assert!(sentence.contains("has no end") && sentence.contains("fluxline recover"), "{sentence}");
    call_json(&["recover", text(&folder)]);
    assert!(!folder.join("run.end").exists(), "the reserve is of no more use");
    let found = call_json_ending(&["inspect", text(&folder)], 7);
    assert!(found["sentence"].as_str().is_some_and(|text| text.contains("did not end by itself")));
    call_json(&["export", text(&folder), "--to", "parquet"]);
}

/// The group of the producer that a test kills.
const PRODUCER: &str = "FLUXLINE_TEST_PRODUCER";

/// A part of the next test: pushes packets until it is killed.
#[test]
fn a_producer_to_be_killed() {
    let Ok(group) = std::env::var(PRODUCER) else { return };
    let name = |text: &str| Name::parse(text).expect("a legal name");
    let mut node = Shm::open(&name(&group), &name("board"), ShmConfig::default()).expect("opens");
    let mut ring = attach(&mut node, Key(1)).expect("the right key");
    for number in 0..100 {
        push(&mut ring, &packet(number));
    }
    ring.publish();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_killed_producer_of_shared_memory_is_not_status_0() {
    let group = format!("test-dead-{}", std::process::id());
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (file, folder) = (scratch.path().join("shm.toml"), scratch.path().join("run"));
    let experiment = format!(
        "[[source]]\nname = 'board'\nformat = 'counter'\n[source.shm]\n\
         url = 'shm://{group}/builder'\nkey = 1\nring-bytes = 65536\n[events]\nbuild = 'packet'\n"
    );
    std::fs::write(&file, experiment).expect("written");
    let run = ["run", text(&file), "--folder", text(&folder), "--serve", "127.0.0.1:0"];
    let running = Running::start(&run, "memory ");
    let mut producer = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "ends::a_producer_to_be_killed"])
        .env(PRODUCER, &group)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for(&folder, |state| state["flow"]["received"].as_u64() == Some(100));
    producer.kill().expect("killed"); // SIGKILL
    producer.wait().expect("waited");
    wait_for(&folder, |state| state["notes"].to_string().contains("a producer"));
    running.interrupt();
    let (code, said) = running.end();
    let sentence = sentence(code, &said, 7);
    assert!(sentence.contains("vanished during the run: 1"), "{sentence}");
    assert_eq!(number(&run_document(&folder)["totals"], "recorded"), 100);
}

#[test]
fn the_first_sentence_counts_the_incomplete_events_that_inspect_finds() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let more = ["--folder", text(&folder), "--serve", "127.0.0.1:0"];
    let (running, port) =
        Running::listen(&[&["--format", "counter", "--events", "key"][..], &more].concat());
    // Board 1 is in every event until it falls silent; at its next packet, its counter shows that
    // it had sent nothing meanwhile.
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let send = |board: u8, number: u64, key: u64| {
        let mut packet = packet(key);
        packet[6] = board;
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        sender.send_to(&packet, ("127.0.0.1", port)).expect("sent");
    };
    for key in 0..50 {
        send(0, key, key);
        send(1, key, key);
    }
    for key in 50..200 {
        send(0, key, key);
    }
    let closed = wait_for(&folder, |state| state["events"]["built"].as_u64() >= Some(200));
    assert!(closed["events"]["incomplete"].as_u64() > Some(0), "they were given up: {closed}");
    for (number, key) in (50..).zip(200..250) {
        send(0, key, key);
        send(1, number, key);
    }
    wait_for(&folder, |state| state["flow"]["received"].as_u64() == Some(350));
    running.interrupt();
    let (_, said) = running.end();
    let document = run_document(&folder);
    let found = call(&["--json", "inspect", text(&folder)]);
    let found: Value = serde_json::from_slice(&found.stdout).expect("one JSON document");
    let incomplete = found["events_by_status"]["incomplete"].as_u64().unwrap_or(0)
        + found["events_by_status"]["stopped"].as_u64().unwrap_or(0);
    assert_eq!(incomplete, 0, "board 1 had sent nothing: {found}");
    let headline = document["headline"].as_str().expect("a headline");
    assert!(headline.contains(", 0 incomplete"), "{headline} {said}");
}
