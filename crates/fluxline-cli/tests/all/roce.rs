//! Remote writes through the whole program: emulated FPGAs with faults, producers that push, and
//! what a user gets wrong.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::board::{board, board_when_free, packet};
use crate::remote::{
    Killed, PUSH, WATCHED, experiment, finish, frame, start, start_with, wait_for_frames,
};
use crate::support::{call, call_json, call_json_ending, free_ports, number, refused, text};
use fluxline_core::fabric::Status;
use fluxline_core::roce::{Body, Headers, IcrcContext, Psn, QueuePair, Reth, Transport, WritePart};
use serde_json::Value;

const INPUT: i32 = 3;
const LINK: i32 = 6;

fn senders(first_port: u16, count: u16) -> String {
    (0..count)
        .map(|sender| {
            format!(
                "[[source.roce.sender]]\nname = 'fpga-{sender}'\n\
                 address = '127.0.0.1:{}'\nqueue-pair = {}\nfirst-psn = 16777200\nkey = 77000077\n\
                 base = 4096\n",
                first_port + sender,
                256 + sender
            )
        })
        .collect()
}

/// RDMA cards send from a port of their choice.
#[test]
fn a_sender_without_a_port_is_recorded_from_whatever_port_it_sends() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let first = free_ports(1);
    let config = senders(first, 1).replace(&format!("127.0.0.1:{first}"), "127.0.0.1");
    let (running, to) = start(scratch.path(), &config);
    let truth = emulate(to, first, &["--rate", "4000", "--packets", "500"]);
    let (document, _) = finish(scratch.path(), running);
    assert_eq!(number(&document["totals"], "recorded"), sum(&truth, "frames"));
    assert_eq!(number(&document["totals"], "recorded"), 500);
    let wrong = config.replace("'127.0.0.1'", "'here'");
    std::fs::write(scratch.path().join("wrong.toml"), experiment(&wrong)).expect("written");
    let said = refused(&call(&["run", text(&scratch.path().join("wrong.toml"))]), INPUT);
    assert!(said.contains("write for example \"10.0.0.7:4800\""), "{said}");
}

fn emulate(to: SocketAddr, from: u16, more: &[&str]) -> Value {
    let (to, from) = (format!("udp://{to}"), format!("127.0.0.1:{from}"));
    let fixed = [
        "emulate",
        "counter",
        "--roce",
        "--to",
        &to,
        "--from",
        &from,
        "--first-psn",
        "16777200",
        "--key",
        "77000077",
        "--base",
        "4096",
        "--payload-bytes",
        "800",
    ];
    call_json(&[&fixed, more].concat())
}

fn sum(truth: &Value, key: &str) -> u64 {
    truth["roce"].as_array().expect("writers").iter().map(|writer| number(writer, key)).sum()
}

#[test]
fn what_fpgas_sent_equals_what_the_ledger_says_to_the_frame() {
    for seed in ["1", "2"] {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let first = free_ports(3);
        let (running, to) = start(scratch.path(), &senders(first, 3));
        let faults = [
            "--sources",
            "3",
            "--rate",
            "4000",
            "--packets",
            "8000",
            "--seed",
            seed,
            "--drop",
            "0.004",
            "--duplicate",
            "0.004",
            "--reorder",
            "0.004",
            "--corrupt",
            "0.004",
        ];
        let truth = emulate(to, first, &faults);
        let (document, _) = finish(scratch.path(), running);
        let totals = &document["totals"];
        assert_eq!(number(totals, "socket_dropped"), 0, "the rate is far below the host's");
        let equal = ["frames_wrong_check", "frames_duplicate", "frames_late", "frames_lost"];
        for key in ["frames"].iter().chain(&equal) {
            assert_eq!(number(totals, key), sum(&truth, key), "{key}, seed {seed}");
        }
        for key in equal {
            assert!(number(totals, key) > 20, "{key}");
        }
        let whole = sum(&truth, "frames") - sum(&truth, "frames_wrong_check");
        let records = whole - sum(&truth, "frames_duplicate");
        assert_eq!(number(totals, "recorded"), records);
        assert_eq!((number(totals, "datagrams"), number(totals, "parsed")), (records, records));
        assert_eq!(number(totals, "lost"), sum(&truth, "frames_lost"), "packet counters agree");
        assert_eq!((number(totals, "rejected"), number(totals, "duplicate")), (0, 0));
        assert_eq!(
            number(&document["lost_places"], "frames"),
            number(totals, "frames_wrong_check")
        );
        for (lane, writer) in truth["roce"].as_array().expect("writers").iter().enumerate() {
            let counters = &document["inputs"][0]["connections"][lane]["counters"];
            for key in ["frames_duplicate", "frames_late", "frames_lost"] {
                assert_eq!(number(counters, key), number(writer, key), "fpga-{lane}: {key}");
            }
        }
        let stored = std::fs::read_to_string(scratch.path().join("run/run.json")).expect("there");
        assert!(!stored.contains("77000077"), "keys are not stored");
    }
}

#[test]
fn frames_are_counted_on_the_live_page_while_the_run_goes_on() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let first = free_ports(1);
    let more = ["--serve", "127.0.0.1:0"];
    let (running, to) = start_with(scratch.path(), &senders(first, 1), &more);
    let truth = emulate(to, first, &["--rate", "4000", "--packets", "2000", "--drop", "0.01"]);
    let run = scratch.path().join("run");
    let began = std::time::Instant::now();
    let live = loop {
        let live = call_json(&["ctl", "--run", text(&run), "status", "--json"]);
        let input = live["inputs"][0].clone();
        if input["frames"].as_u64() == Some(sum(&truth, "frames")) {
            break live;
        }
        assert!(began.elapsed() < crate::support::PATIENCE, "{live:#}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let input = &live["inputs"][0];
    assert_eq!(number(input, "frames_lost"), sum(&truth, "frames_lost"), "{input}");
    assert!(number(input, "frames_lost") > 0, "{input}");
    let (document, _) = finish(scratch.path(), running);
    assert_eq!(number(&document["totals"], "frames"), number(input, "frames"));
}

#[test]
fn a_burst_longer_than_the_ring_is_overrun_and_nothing_read_is_torn() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let first = free_ports(1);
    let short = format!("ring-bytes = 4096\n{}", senders(first, 1));
    let (running, to) = start(scratch.path(), &short);
    let more = ["--rate", "0", "--packets", "20000", "--ring-bytes", "4096"];
    let truth = emulate(to, first, &more);
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    let (recorded, overrun) = (number(totals, "recorded"), number(totals, "frames_overrun"));
    let dropped = number(totals, "socket_dropped");
    println!("{recorded} recorded, {overrun} overrun, {dropped} dropped by the kernel");
    assert_eq!(recorded + overrun + dropped, sum(&truth, "frames"));
    assert!(overrun > 0 && recorded > 0, "{said}");
    assert_eq!(number(totals, "rejected"), 0, "a torn packet would be rejected");
}

#[test]
fn frames_that_are_not_right_are_each_in_a_place_of_their_own() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let own = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let from = own.local_addr().expect("bound");
    let (running, to) = start_with(scratch.path(), &senders(from.port(), 1), &WATCHED);
    let write = |psn: u32, (pair, key, address): (u32, u32, u64), immediate: Option<u32>| {
        let reth = Reth { address, key, bytes: 400 };
        let body = Body::Write(Transport::Unreliable, WritePart::Only(reth, immediate));
        Headers::new(QueuePair::new(pair), Psn::new(16_777_200 + psn), body)
    };
    let good = (256, 77_000_077, 4096);
    let icrc = IcrcContext::new(from, to).expect("one family");
    let send = |headers: &Headers| {
        own.send_to(&frame(&icrc, headers, &packet(1)), to).expect("sent");
    };
    send(&write(0, good, Some(1)));
    send(&write(0, good, Some(1))); // duplicate
    send(&write(1, (256, 77_000_078, 4096), Some(1))); // key
    send(&write(2, (256, 77_000_077, 4000), Some(1))); // before the region
    send(&write(3, (256, 77_000_077, 4100), Some(1))); // between two slots
    send(&write(4, (257, 77_000_077, 4096), Some(1))); // queue pair
    send(&write(5, (256, 77_000_077, 8192), None)); // without a notification
    let mut wrong = frame(&icrc, &write(6, good, Some(1)), &packet(1));
    wrong[60] ^= 1;
    own.send_to(&wrong, to).expect("sent");
    own.send_to(b"short", to).expect("sent");
    let other = Body::Write(Transport::Reliable, WritePart::Middle);
    send(&Headers::new(QueuePair::new(256), Psn::new(0), other)); // transport
    let parts = Body::Write(Transport::Unreliable, WritePart::Last(Some(1)));
    send(&Headers::new(QueuePair::new(256), Psn::new(16_777_207), parts)); // no beginning
    let of_stranger = IcrcContext::new(stranger.local_addr().expect("bound"), to);
    let of_stranger = of_stranger.expect("one family");
    let from_stranger = frame(&of_stranger, &write(8, good, None), &[]);
    stranger.send_to(&from_stranger, to).expect("sent");
    wait_for_frames(scratch.path(), 12);
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    for (key, count) in [
        ("frames", 12),
        ("frames_placed", 2),
        ("frames_unannounced", 1),
        ("records", 1),
        ("frames_duplicate", 1),
        ("frames_out_of_bounds", 3),
        ("frames_unknown_pair", 1),
        ("frames_wrong_check", 1),
        ("frames_other", 2),
        ("frames_broken_off", 1),
        ("frames_wrong_sender", 1),
        // The PSNs 1 to 4: what is wrong shows no number that could be believed.
        ("frames_lost", 4),
        ("frames_expected", 6),
        ("sender_restarts", 0),
        ("recorded", 1),
    ] {
        assert_eq!(number(totals, key), count, "{key} in {said}");
    }
}

#[test]
fn records_that_producers_push_one_after_the_other_are_recorded_whole() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), PUSH);
    assert_eq!(board(to, 1).err(), Some(Status::WrongKey));
    let began = Instant::now();
    let mut first = board_when_free(0, to);
    first.push(0..20_000);
    println!("20000 records in {:.3} s", began.elapsed().as_secs_f64());
    drop(first);
    let mut second = board_when_free(0, to);
    second.push(20_000..30_000);
    drop(second);
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert_eq!((number(totals, "records"), number(totals, "recorded")), (30_000, 30_000), "{said}");
    assert_eq!((number(totals, "lost"), number(totals, "rejected")), (0, 0));
    assert_eq!((number(totals, "puts_refused"), number(totals, "producers_gone")), (0, 0));
    assert!(!said.contains("vanished"), "{said}");
}

/// Set for the test binary when it is to be the producer that is killed.
const PRODUCER_TO: &str = "FLUXLINE_TEST_ROCE_PRODUCER";
/// The line that it prints after each hundred records.
const PUSHED: &str = "pushed";

#[test]
fn a_producer_that_is_killed_leaves_what_it_published_and_is_named() {
    if let Ok(to) = std::env::var(PRODUCER_TO) {
        let mut board = board_when_free(0, to.parse().expect("an address"));
        for round in 0.. {
            board.push(round * 100..round * 100 + 100);
            println!("{PUSHED}");
        }
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (mut running, to) = start(scratch.path(), PUSH);
    let this = std::env::current_exe().expect("a path");
    let test = "roce::a_producer_that_is_killed_leaves_what_it_published_and_is_named";
    let mut command = Command::new(this);
    command.args([test, "--exact", "--nocapture"]).env(PRODUCER_TO, to.to_string());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let mut child = Killed(child);
    let out = BufReader::new(child.0.stdout.take().expect("piped"));
    let pushed = out.lines().filter(|line| line.as_ref().is_ok_and(|line| line.contains(PUSHED)));
    assert_eq!(pushed.take(10).count(), 10, "it pushes");
    drop(child);
    running.wait_for("producer `board` vanished");
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert!(said.contains("producer `board` vanished (the peer is gone)"), "{said}");
    assert_eq!(number(totals, "producers_gone"), 1);
    let recorded = number(totals, "recorded");
    println!("{recorded} records before it was killed");
    assert!(recorded > 0 && recorded == number(totals, "records"));
    assert_eq!(number(totals, "lost"), 0);
    let inspected = call_json_ending(&["inspect", text(&scratch.path().join("run"))], 7);
    assert_eq!(number(&inspected["readable"], "events"), recorded);
}

fn refused_with(roce: &str, status: i32) -> String {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("roce.toml");
    std::fs::write(&file, experiment(roce)).expect("written");
    refused(&call(&["run", text(&file), "--folder", text(&scratch.path().join("run"))]), status)
}

#[test]
fn mistakes_of_the_user_are_reported_in_one_sentence() {
    let fpga = senders(4800, 2);
    let listen = |address: &str| {
        let text = experiment(&fpga).replace("127.0.0.1:0", address);
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let file = scratch.path().join("roce.toml");
        std::fs::write(&file, text).expect("written");
        let folder = scratch.path().join("run");
        call(&["run", file.to_str().expect("UTF-8"), "--folder", folder.to_str().expect("UTF-8")])
    };
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("bound").to_string();
    let cases: Vec<(String, &[&str])> = vec![
        (refused(&listen(&address), LINK), &["boards", "in use"]),
        (refused(&listen("192.0.2.77:4791"), LINK), &["192.0.2.77", "not an address of this"]),
        (refused(&listen("nowhere"), INPUT), &["nowhere", "127.0.0.1:4791"]),
        (refused_with(&format!("ring-bytes = 5000\n{fpga}"), INPUT), &["5000", "power of two"]),
        (refused_with(&format!("ring-bytes = 512\n{fpga}"), INPUT), &["512", "a packet of 1024"]),
        (refused_with(&format!("path-mtu = 1500\n{fpga}"), INPUT), &["1500", "4096"]),
        (refused_with(&format!("slot-bytes = 2000\n{fpga}"), INPUT), &["2000", "1 to 1024"]),
        (refused_with(&fpga.replace("77000077", "0"), INPUT), &["fpga-0", "key = 0"]),
        (refused_with(&fpga.replace("= 257", "= 1280"), INPUT), &["fpga-1", "fpga-0", "1280"]),
        (refused_with(&fpga.replace("127.0.0.1:4801", "board"), INPUT), &["fpga-1", "board"]),
        (refused_with("", INPUT), &["source.roce.sender", "source.roce.push"]),
        (
            refused_with(&format!("{fpga}{PUSH}").replace("ring-bytes = 65536\n", ""), INPUT),
            &["either"],
        ),
        (refused_with(&fpga.replace("key =", "rkey ="), INPUT), &["rkey", "key"]),
        (refused_with("[source.roce.push]\nkey = 1\nregion = '/'\n", LINK), &["\"/\"", "name"]),
        (refused_with("[source.roce.push]\nkey = 0\n", INPUT), &["key = 0", "draws"]),
        (refused_with(&format!("allow = ['10.0.0.0/33']\n{PUSH}"), INPUT), &["10.0.0.0/33", "/24"]),
        (refused_with(&format!("allow = ['board']\n{PUSH}"), INPUT), &["\"board\"", "10.0.0.7"]),
        (refused_with(&format!("allow = ['10.0.0.0/8']\n{fpga}"), INPUT), &["push ring"]),
    ];
    for (message, words) in cases {
        for word in words {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
    }
}
