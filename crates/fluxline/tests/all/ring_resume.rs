//! A producer is killed at random points, and comes back: each record is read exactly once.

use std::process::{Child, Command};

use fluxline::fabric::Key;
use fluxline::fabric::push::ReceiverId;
use fluxline::{Node, NodeError, Span};
use fluxline_core::random::Draw;

/// A time that no honest end takes.
const PATIENCE: Span = Span::from_s(60);
/// Producers that are killed.
const KILLED: usize = 5;
/// Records of the last producer, after all that were killed.
const LAST: u64 = 500;

/// Starts a producer that pushes numbered records to `until`, from where the last one ended.
fn start(url: &str, peer: &str, until: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "ring_resume::child", "--nocapture"]);
    command.env("RESUME_URL", url).env("RESUME_PEER", peer).env("RESUME_UNTIL", until.to_string());
    command.stdout(std::process::Stdio::null()).spawn().expect("it starts")
}

/// The producer: not a test of its own.
#[test]
fn child() {
    let Ok(url) = std::env::var("RESUME_URL") else { return };
    let peer = std::env::var("RESUME_PEER").expect("a peer");
    let until: u64 = std::env::var("RESUME_UNTIL").expect("a number").parse().expect("a number");
    let mut node = fluxline::node(&url).expect("opened");
    let ring = node.sender(&peer, "numbers", Key(7), PATIENCE).expect("admitted");
    let from = node.resumes_from(ring).expect("the receiver counts");
    for number in from..until {
        let bytes = 8 + (number as usize * 37) % 200; // any lengths
        let mut record = number.to_le_bytes().to_vec();
        record.resize(bytes, number as u8);
        node.push_wait(ring, &record, PATIENCE).expect("room");
    }
    node.finish(ring, PATIENCE).expect("all are there");
}

/// The consumer, and the number of the record that must come next.
struct Reading {
    node: Node,
    ring: ReceiverId,
    next: u64,
}

impl Reading {
    /// Lets producers connect and end.
    fn drive(&mut self) {
        let _ = self.node.next_completion(Span::from_ms(5)); // nothing is as good
    }

    /// Reads up to the record with this number, whichever producer pushes it.
    fn read_to(&mut self, number: u64) {
        while self.next < number {
            if !self.read() {
                self.drive(); // a producer ended before; the next one has not come
            }
        }
    }

    /// Reads the next record; false: the producer has finished, or was found dead.
    fn read(&mut self) -> bool {
        match self.node.next_record(self.ring, PATIENCE) {
            Ok(Some(record)) => {
                let number = record.first_chunk().map(|word| u64::from_le_bytes(*word));
                assert_eq!(number, Some(self.next), "lost or doubled");
                self.next += 1;
                true
            }
            Ok(None) | Err(NodeError::SenderDied { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

fn each_record_comes_once(url: &str, near: &str, peer: &str) {
    let mut draw = Draw::new(fluxline_core::random::test_seed!(1));
    let mut node = fluxline::node(url).expect("opened");
    let ring = node.receiver("numbers", Key(7), 64, 128).expect("made");
    let mut reading = Reading { node, ring, next: 0 };
    for _ in 0..KILLED {
        let mut producer = start(near, peer, u64::MAX);
        reading.read_to(reading.next + 1 + draw.below(400));
        producer.kill().expect("killed"); // SIGKILL
        producer.wait().expect("waited");
        while reading.read() {}
    }
    let until = reading.next + LAST;
    let mut producer = start(near, peer, until);
    reading.read_to(until);
    while reading.read() {}
    let status = loop {
        match producer.try_wait().expect("a child") {
            Some(status) => break status,
            None => reading.drive(),
        }
    };
    assert!(status.success(), "{status}");
    assert_eq!(reading.next, until);
}

#[test]
fn a_killed_producer_on_shared_memory_loses_or_doubles_a_record_when_it_comes_back() {
    let group = format!("resume-{}", std::process::id());
    let url = |node: &str| format!("shm://{group}/{node}");
    each_record_comes_once(&url("consumer"), &url("producer"), "consumer");
}

#[test]
fn a_killed_producer_on_ethernet_loses_or_doubles_a_record_when_it_comes_back() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("bound").port();
    drop(socket);
    let (url, peer) = (format!("udp://127.0.0.1:{port}"), format!("127.0.0.1:{port}"));
    each_record_comes_once(&url, "udp://127.0.0.1:0", &peer);
}
