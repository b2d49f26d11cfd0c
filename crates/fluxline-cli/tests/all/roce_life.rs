//! Remote writes through the whole program when peers come and go: FPGAs that restart, producers
//! that are killed after any step, strangers, and producers with a defect.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::board::{Board, END, KEY, board, board_from, board_when_free, packet};
use crate::remote::{Killed, PUSH, WATCHED, finish, frame, start, start_with, wait_for_frames};
use crate::support::{number, text};
use fluxline_core::fabric::{Completion, Fabric, Reliability, Status};
use fluxline_core::port::Port;
use fluxline_core::roce::{Body, Headers, IcrcContext, Psn, QueuePair, Reth, Transport, WritePart};

// ---- FPGAs ----

fn sender(from: SocketAddr, first_psn: &str) -> String {
    format!(
        "[[source.roce.sender]]\nname = 'fpga'\naddress = '{from}'\nqueue-pair = 256\n{first_psn}\
         key = 77000077\n"
    )
}

/// An FPGA made by hand.
struct Fpga {
    socket: UdpSocket,
    to: SocketAddr,
    icrc: IcrcContext,
    scratch: PathBuf,
    sent: Cell<u64>,
}

impl Fpga {
    /// Makes the sender of a run that was started as [`WATCHED`].
    fn new(socket: UdpSocket, to: SocketAddr, scratch: &Path) -> Fpga {
        let icrc = IcrcContext::new(socket.local_addr().expect("bound"), to).expect("one family");
        Fpga { socket, to, icrc, scratch: scratch.to_owned(), sent: Cell::new(0) }
    }

    /// Waits until the run has all that was sent.
    fn settle(&self) {
        wait_for_frames(&self.scratch, self.sent.get());
    }

    fn send(&self, psn: u32, (key, address): (u32, u64), packet: &[u8]) {
        let reth = Reth { address, key, bytes: packet.len() as u32 };
        let body = Body::Write(Transport::Unreliable, WritePart::Only(reth, Some(psn)));
        let headers = Headers::new(QueuePair::new(256), Psn::new(psn), body);
        self.socket.send_to(&frame(&self.icrc, &headers, packet), self.to).expect("sent");
        self.sent.set(self.sent.get() + 1);
        // The socket's buffer has room for these, however slow the run is.
        if self.sent.get().is_multiple_of(80) {
            self.settle();
        }
    }

    /// A life of the board: packets and PSNs from 0 on, slot after slot.
    fn live(&self, packets: u32, first_number: u64) {
        for psn in 0..packets {
            let packet = packet(first_number + u64::from(psn));
            self.send(psn, (77_000_077, u64::from(psn % 4096) * 1024), &packet);
        }
        self.settle();
    }
}

#[test]
fn an_fpga_that_restarts_from_psn_0_loses_nothing_and_the_ledger_says_so() {
    for first_psn in ["first-psn = 0\n", ""] {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let from = socket.local_addr().expect("bound");
        let (running, to) = start_with(scratch.path(), &sender(from, first_psn), &WATCHED);
        let fpga = Fpga::new(socket, to, scratch.path());
        let lives = [3000, 2, 2000, 700_u32];
        let mut first = 0;
        for packets in lives {
            fpga.live(packets, first);
            first += u64::from(packets);
        }
        let (document, said) = finish(scratch.path(), running);
        let totals = &document["totals"];
        assert_eq!(number(totals, "recorded"), 5702, "{said}");
        assert_eq!(number(totals, "sender_restarts"), 3, "{said}");
        assert_eq!((number(totals, "frames_duplicate"), number(totals, "frames_lost")), (0, 0));
        let shown = crate::support::call(&["inspect", text(&scratch.path().join("run"))]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("sender restarts"), "{shown}");
    }
}

#[test]
fn a_forged_frame_with_a_wrong_key_does_not_cost_8000_genuine_ones() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let from = socket.local_addr().expect("bound");
    let (running, to) = start_with(scratch.path(), &sender(from, "first-psn = 0\n"), &WATCHED);
    let fpga = Fpga::new(socket, to, scratch.path());
    fpga.live(500, 0);
    // The forger sends from the same address.
    for psn in [8_000_000, 9000, 501] {
        fpga.send(psn, (77_000_078, 0), &packet(1_000_000));
        fpga.send(psn, (77_000_077, 1 << 40), &packet(1_000_000));
    }
    for number in 500..8500_u64 {
        let slot = number % 4096 * 1024;
        fpga.send(number as u32, (77_000_077, slot), &packet(number));
    }
    fpga.settle();
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert_eq!(number(totals, "recorded"), 8500, "{said}");
    assert_eq!(number(totals, "frames_out_of_bounds"), 6);
    assert_eq!((number(totals, "frames_lost"), number(totals, "sender_restarts")), (0, 0));
}

// ---- producers ----

/// The orders of the test binary when it is the producer: `FROM TO STEP`.
const PRODUCER: &str = "FLUXLINE_TEST_PRODUCER";
/// The line that it prints when it has done its step.
const HERE: &str = "step done";
const STEPS: [&str; 7] =
    ["calling", "connected", "imported", "introduced", "mid-record", "published", "pushing"];

/// Does the step, reports it, and then waits until it is killed.
fn produce(orders: &str) {
    let orders: Vec<&str> = orders.split(' ').collect();
    let [from, to, step] = orders[..] else { panic!("{orders:?}") };
    let from: u16 = from.parse().expect("a port");
    let to: SocketAddr = to.parse().expect("an address");
    let stay = |mut poll: Box<dyn FnMut()>| {
        println!("{HERE}");
        loop {
            poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    if step == "calling" {
        let (mut node, _) = crate::board::open(from);
        node.connect(&to.to_string(), Reliability::Reliable).expect("a way");
        while node.node().port().counters().frames_sent == 0 {
            let _ = node.next_completion();
        }
        return stay(Box::new(|| {}));
    }
    if step == "connected" || step == "imported" {
        let (mut node, _) = crate::board::open(from);
        let endpoint = crate::board::connect(&mut node, to).expect("connected");
        let began = Instant::now();
        while step == "imported" && crate::board::import(&mut node, endpoint, KEY).is_err() {
            assert!(began.elapsed() < END, "the one before is dead");
            std::thread::sleep(Duration::from_millis(20));
        }
        return stay(Box::new(move || while node.next_completion().is_some() {}));
    }
    let mut board = board_when_free(from, to);
    match step {
        "mid-record" => board.put_half_a_record(),
        "published" => board.push(0..100),
        "pushing" => {
            println!("{HERE}");
            for round in 0.. {
                board.push(1000 + round * 100..1100 + round * 100);
            }
        }
        _ => {}
    }
    stay(Box::new(move || while board.node.next_completion().is_some() {}));
}

/// Starts a producer as a process, and waits until it reports this step.
fn start_producer(from: u16, to: SocketAddr, step: &str) -> Killed {
    let this = std::env::current_exe().expect("a path");
    let test = "roce_life::a_producer_that_is_killed_after_any_step_makes_room_and_loses_nothing";
    let mut command = Command::new(this);
    command.args([test, "--exact", "--nocapture"]).env(PRODUCER, format!("{from} {to} {step}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut producer = Killed(child.expect("starts"));
    let out = producer.0.stdout.take().expect("piped");
    let mut lines = BufReader::new(out).lines();
    let came = lines.any(|line| line.is_ok_and(|line| line.contains(HERE)));
    assert!(came, "it ended before it was {step}");
    producer
}

#[test]
fn a_producer_that_is_killed_after_any_step_makes_room_and_loses_nothing() {
    if let Ok(orders) = std::env::var(PRODUCER) {
        return produce(&orders);
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), PUSH);
    let from = crate::support::free_port();
    let mut gone = 0;
    for step in STEPS {
        // Each is the successor of the one before, at the same address and port.
        drop(start_producer(from, to, step));
        gone += u64::from(!matches!(step, "calling" | "connected"));
    }
    let mut honest = board_when_free(from, to);
    // Other numbers: the same again would be duplicates of packets that came.
    honest.push(1_000_000..1_003_000);
    drop(honest);
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    let (records, recorded) = (number(totals, "records"), number(totals, "recorded"));
    println!("{records} records\n{said}");
    assert_eq!(records, number(totals, "datagrams"));
    assert_eq!((recorded, number(totals, "rejected")), (records, 0), "{said}");
    assert!(recorded >= 3000 + 100, "{said}");
    assert_eq!(number(totals, "producers_gone"), gone, "{said}");
    assert!(said.contains("producer `board` vanished (the peer is gone)"), "{said}");
    let producers = document["inputs"][0]["connections"].as_array().expect("a list");
    let of: Vec<u64> = producers.iter().map(|of| number(of, "records")).collect();
    assert_eq!(of.iter().sum::<u64>(), records, "{producers:?}");
    assert_eq!((of[of.len() - 1], of[0]), (3000, 0), "{producers:?}");
}

#[test]
fn the_first_stranger_does_not_become_the_producer_and_breaks_nothing() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), PUSH);
    let (mut idle, _) = crate::board::open(0);
    crate::board::connect(&mut idle, to).expect("connected");
    assert_eq!(board(to, KEY + 1).err(), Some(Status::WrongKey));
    let mut honest = board_when_free(0, to);
    honest.push(0..1000);
    // A second one with the key is refused while the first lives, and the first goes on.
    assert_eq!(board(to, KEY).err(), Some(Status::NoRoom));
    honest.push(1000..2000);
    drop(honest);
    let mut second = board_when_free(0, to);
    second.push(2000..3000);
    drop(second);
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert_eq!((number(totals, "records"), number(totals, "recorded")), (3000, 3000), "{said}");
    assert_eq!((number(totals, "rings_renewed"), number(totals, "producers_gone")), (0, 0));
    assert_eq!(number(totals, "keys_refused"), 1, "{said}");
}

#[test]
fn a_ring_that_a_producer_broke_is_made_anew_within_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), PUSH);
    for round in 0..4_u64 {
        let mut board: Board = board_when_free(0, to);
        board.push(round * 100..round * 100 + 100);
        match round % 2 {
            0 => board.put(0, &u64::MAX.to_le_bytes()),
            _ => {
                // A length that cannot be, where the next record is.
                let published = 100 * 408;
                board.put(64 + published, &u64::MAX.to_le_bytes());
                board.put(0, &(published + 16_u64).to_le_bytes());
            }
        }
        let began = Instant::now();
        while !matches!(board.node.next_completion(), Some(Completion::Broken { .. })) {
            assert!(began.elapsed() < END, "it is disconnected");
            board.node.wait(Duration::from_millis(5)).expect("waited");
        }
    }
    let (document, said) = finish(scratch.path(), running);
    let totals = &document["totals"];
    assert_eq!((number(totals, "records"), number(totals, "recorded")), (400, 400), "{said}");
    assert_eq!((number(totals, "rings_renewed"), number(totals, "producers_gone")), (4, 4));
    assert!(said.contains("wrote an invalid record"), "{said}");
}

#[test]
fn only_networks_that_are_allowed_may_connect() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let roce = format!("allow = ['10.0.0.0/24', '192.0.2.7']\n{PUSH}");
    let (running, to) = start(scratch.path(), &roce);
    assert_eq!(board(to, KEY).err(), Some(Status::PeerGone));
    let (document, said) = finish(scratch.path(), running);
    assert!(number(&document["totals"], "connections_refused") > 0, "{said}");

    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), &format!("allow = ['127.0.0.0/8']\n{PUSH}"));
    board_from(0, to, KEY).expect("allowed").push(0..10);
    let (document, said) = finish(scratch.path(), running);
    assert_eq!(number(&document["totals"], "recorded"), 10, "{said}");
}

#[test]
fn a_key_that_the_experiment_does_not_have_is_drawn_printed_and_not_stored() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (running, to) = start(scratch.path(), &PUSH.replace("key = 77000077\n", ""));
    let line = running.said.lines().find(|line| line.starts_with("key ")).expect("a key");
    let drawn: String =
        line.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    assert_eq!(board(to, KEY).err(), Some(Status::WrongKey));
    board(to, drawn.parse().expect("a number")).expect("the key").push(0..10);
    let (document, said) = finish(scratch.path(), running);
    assert_eq!(number(&document["totals"], "recorded"), 10, "{said}");
    let stored = std::fs::read_to_string(scratch.path().join("run/run.json")).expect("there");
    assert!(!stored.contains(&drawn), "keys are not stored");
}
