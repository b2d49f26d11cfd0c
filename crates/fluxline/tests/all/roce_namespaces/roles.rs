//! The processes inside the namespaces.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::Span;
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, PostError, RegionId,
    Reliability, RemoteId, Rights, Slice, Status, Target, Work,
};

const KEY: Key = Key(0x5EED);
const PATIENCE: Duration = Duration::from_secs(50);
/// Each put has its own place: what one wrote is looked at when its notification comes.
const SLOT_BYTES: u64 = 16 << 10;
const SLOTS: u64 = 1024;
/// Behind the slots: the word of the atomics.
const WORD_AT: u64 = SLOTS * SLOT_BYTES;
const MESSAGE_BYTES: u64 = 4096;
const BUFFERS: u64 = 32;
/// A message, an atomic and a get follow every Nth put.
const MESSAGE_EACH: u32 = 4;
const ATOMIC_EACH: u32 = 3;
const GET_EACH: u32 = 5;
/// Notification that says that all is sent.
const END: u32 = u32::MAX;

/// The owner's counts for a number of puts.
pub fn total(puts: u32) -> String {
    format!("{puts} puts, {} messages, word {}", puts / MESSAGE_EACH, puts / ATOMIC_EACH)
}

pub fn play(role: &str) {
    match role {
        "owner" => Owner::new().run(),
        "works" => works(),
        "streams" => streams(),
        other => panic!("no role {other}"),
    }
}

fn say(what: &str) {
    println!("says: {what}");
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> u32 {
    text(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn open(called: &str) -> RoceNode {
    let local: SocketAddr = text("LOCAL").expect("given").parse().expect("an address");
    let death = Span::from_ms(u64::from(number("DEATH_MS").max(1)));
    let config = endpoint_config(called).expect("random numbers");
    let port = UdpPort::bind(UdpPortConfig::new(local)).expect("a port");
    RoceNode::on(port, EndpointConfig { death, ..config })
}

/// Bytes of put or message `of`: no two have many in common.
fn pattern(of: u32, bytes: u64) -> Vec<u8> {
    let mut state = u64::from(of) << 32 | bytes;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    });
    let mut made: Vec<u8> = words.collect();
    made.truncate(bytes as usize);
    made
}

/// Lengths from one byte to a whole slot, so that some puts are one frame and some are many.
fn bytes_of(put: u32) -> u64 {
    1 + u64::from(put).wrapping_mul(2_654_435_761) % SLOT_BYTES
}

fn slot_of(put: u32) -> u64 {
    u64::from(put) % SLOTS * SLOT_BYTES
}

// ---- the owner ----

/// Owns the memory, and checks all arrivals.
struct Owner {
    node: RoceNode,
    memory: RegionId,
    mail: RegionId,
    puts: u32,
    messages: u32,
}

impl Owner {
    fn new() -> Owner {
        let mut node = open("owner");
        let memory = node.register(WORD_AT + 8).expect("memory");
        let grant = Grant { rights: Rights::ALL, key: KEY };
        node.export(memory, name("memory"), grant).expect("a free name");
        let mail = node.register(BUFFERS * MESSAGE_BYTES).expect("memory");
        Owner { node, memory, mail, puts: 0, messages: 0 }
    }

    fn run(mut self) {
        say("ready");
        let began = Instant::now();
        while began.elapsed() < PATIENCE * 2 {
            while let Some(what) = self.node.next_completion() {
                self.take(what);
            }
            self.node.wait(Duration::from_millis(10)).expect("a working socket");
        }
    }

    fn take(&mut self, what: Completion) {
        match what {
            Completion::Connected { endpoint, .. } => {
                (self.puts, self.messages) = (0, 0);
                for buffer in 0..BUFFERS {
                    self.give_buffer(endpoint, buffer);
                }
            }
            Completion::Notified { endpoint, value: END, .. } => {
                let counters = self.node.node().connection_counters(endpoint).expect("open");
                let (ahead, duplicate) = (counters.frames_ahead, counters.frames_duplicate);
                say(&format!("ahead {ahead}"));
                say(&format!("duplicate {duplicate}"));
                let memory = self.node.memory(self.memory).expect("own");
                let word = memory.load(WORD_AT).expect("inside");
                say(&format!("total {} puts, {} messages, word {word}", self.puts, self.messages));
            }
            Completion::Notified { offset, bytes, value, .. } => {
                assert_eq!(value, self.puts, "puts come in order, each once");
                assert_eq!((offset, bytes), (slot_of(value), bytes_of(value)));
                assert!(self.read(self.memory, offset, bytes) == pattern(value, bytes), "{value}");
                self.puts += 1;
            }
            Completion::Done { endpoint, tag, status: Status::Done, value, .. } => {
                let got = self.read(self.mail, tag * MESSAGE_BYTES, value);
                assert!(got == message(self.messages), "message {}", self.messages);
                self.messages += 1;
                self.give_buffer(endpoint, tag);
            }
            Completion::Broken { status, .. } => say(&format!("broken {status}")),
            _ => {}
        }
    }

    fn read(&self, region: RegionId, offset: u64, bytes: u64) -> Vec<u8> {
        let mut into = vec![0; bytes as usize];
        self.node.memory(region).expect("own").read(offset, &mut into).expect("inside");
        into
    }

    fn give_buffer(&mut self, endpoint: EndpointId, tag: u64) {
        let (region, offset) = (self.mail, tag * MESSAGE_BYTES);
        let into = Slice { region, offset, bytes: MESSAGE_BYTES };
        self.node.post_receive(endpoint, tag, into).expect("connected");
    }
}

fn message(number: u32) -> Vec<u8> {
    pattern(!number, 1 + u64::from(number) * 37 % MESSAGE_BYTES)
}

// ---- the asker ----

struct Asker {
    node: Box<RoceNode>,
    endpoint: EndpointId,
    remote: RemoteId,
}

/// Connects and imports; `None`: the connection broke on the way.
fn reach(mut node: Box<RoceNode>) -> Result<Asker, Box<RoceNode>> {
    let peer = text("PEER").expect("given");
    let endpoint = node.connect(&peer, Reliability::Reliable).expect("an address");
    let connected = wait(&mut node, |what| match what {
        Completion::Connected { .. } => Some(true),
        Completion::Broken { .. } => Some(false),
        _ => None,
    });
    if !connected {
        return Err(node);
    }
    let remote = node.import(endpoint, name("memory"), KEY).expect("connected");
    let status = wait(&mut node, |what| match what {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    Ok(Asker { node, endpoint, remote })
}

/// Connects and imports until it works: on a machine at its limit, the first connection may break.
fn reach_in_time(mut node: Box<RoceNode>) -> Asker {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match reach(node) {
            Ok(asker) => return asker,
            Err(again) => node = again,
        }
    }
    panic!("the owner is not there");
}

fn wait<T>(node: &mut RoceNode, wanted: impl Fn(&Completion) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        while let Some(what) = node.next_completion() {
            if let Some(found) = wanted(&what) {
                return found;
            }
        }
        assert!(began.elapsed() < PATIENCE, "nothing came in time");
        node.wait(Duration::from_millis(10)).expect("a working socket");
    }
}

/// Does all kinds of work, looks at what comes back, and says how many frames were repeated.
fn works() {
    let Asker { mut node, endpoint, remote } = reach_in_time(Box::new(open("asker")));
    say("working");
    say_payload(&mut node, (endpoint, remote));
    let back = node.register(SLOT_BYTES).expect("memory");
    let pause = Duration::from_micros(u64::from(number("PAUSE_US")));
    let (puts, mut words) = (number("PUTS"), 0);
    for put in 0..puts {
        let (bytes, offset) = (pattern(put, bytes_of(put)), slot_of(put));
        let to = Target { remote, offset };
        let from = Local::Bytes(&bytes);
        let work = Work::Put { from, to, notify: Some(put), complete_at: None };
        post(&mut node, endpoint, work);
        if put % MESSAGE_EACH == MESSAGE_EACH - 1 {
            let bytes = message(put / MESSAGE_EACH);
            let work = Work::Send { from: Local::Bytes(&bytes), complete_at: None };
            post(&mut node, endpoint, work);
        }
        if put % ATOMIC_EACH == ATOMIC_EACH - 1 {
            let at = Target { remote, offset: WORD_AT };
            post(&mut node, endpoint, Work::FetchAdd { at, add: 1 });
            assert_eq!(done(&mut node), words, "each addition happens once");
            words += 1;
        }
        if put % GET_EACH == GET_EACH - 1 {
            let into = Slice { region: back, offset: 0, bytes: bytes_of(put) };
            post(&mut node, endpoint, Work::Get { from: to, into });
            done(&mut node);
            let mut got = vec![0; bytes.len()];
            node.memory(back).expect("own").read(0, &mut got).expect("inside");
            assert!(got == bytes, "what was put is what is got");
        }
        nap(&mut node, pause);
    }
    let (from, to) = (Local::Bytes(&[]), Target { remote, offset: 0 });
    post(&mut node, endpoint, Work::Put { from, to, notify: Some(END), complete_at: None });
    post(&mut node, endpoint, Work::Flush);
    done(&mut node);
    finish(&mut node, endpoint);
}

/// Prints the payload per frame of a long put, which the handshake found for the path.
fn say_payload(node: &mut RoceNode, (endpoint, remote): (EndpointId, RemoteId)) {
    let (bytes, to) = (vec![1; WORD_AT as usize / 256], Target { remote, offset: 0 });
    let work = Work::Put { from: Local::Bytes(&bytes), to, notify: None, complete_at: None };
    post(node, endpoint, work);
    post(node, endpoint, Work::Flush);
    done(node);
    let counters = node.node().connection_counters(endpoint).expect("open");
    let first_time = counters.frames_sent - counters.frames_repeated;
    say(&format!("payload of a frame {}", bytes.len() as u64 / first_time));
}

fn finish(node: &mut RoceNode, endpoint: EndpointId) {
    let counters = node.node().connection_counters(endpoint).expect("open");
    let (sent, repeated) = (counters.frames_sent, counters.frames_repeated);
    say(&format!("done, sent {sent}, repeated {repeated}"));
    // Its peer may still ask for something again.
    nap(node, Duration::from_millis(300));
}

fn post(node: &mut RoceNode, endpoint: EndpointId, work: Work<'_>) {
    let began = Instant::now();
    while let Err(error) = node.post(endpoint, 0, work) {
        assert_eq!(error, PostError::Full);
        assert!(began.elapsed() < PATIENCE, "the queue stays full");
        nap(node, Duration::from_millis(1));
    }
}

/// Polls for some time.
fn nap(node: &mut RoceNode, time: Duration) {
    let began = Instant::now();
    loop {
        while let Some(what) = node.next_completion() {
            assert!(!matches!(what, Completion::Broken { .. }), "{what:?}");
        }
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        node.wait(left).expect("a working socket");
    }
}

/// The value of the one thing that completes.
fn done(node: &mut RoceNode) -> u64 {
    let (value, status) = wait(node, |what| match what {
        Completion::Done { value, status, .. } => Some((*value, *status)),
        Completion::Broken { status, .. } => Some((0, *status)),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    value
}

/// Puts until the connection breaks, sees that all that was posted completes once, connects again.
fn streams() {
    let Asker { mut node, endpoint, remote } = reach_in_time(Box::new(open("asker")));
    let (mut posted, mut completed, mut flushed) = (0_u64, 0_u64, 0_u64);
    let status = loop {
        // Small, and the same word again and again: only the end counts.
        let (from, to) = (Local::Bytes(&[1; 8]), Target { remote, offset: 0 });
        let complete_at = Some(Level::Placed);
        let work = Work::Put { from, to, notify: None, complete_at };
        while node.post(endpoint, posted, work).is_ok() {
            posted += 1;
        }
        let mut broken = None;
        while let Some(what) = node.next_completion() {
            match what {
                Completion::Done { tag, status, .. } => {
                    assert_eq!(tag, completed, "each once, in order");
                    completed += 1;
                    flushed += u64::from(status == Status::Flushed);
                    if completed == 1000 {
                        say("streaming");
                    }
                }
                Completion::Broken { status, .. } => broken = Some(status),
                _ => {}
            }
        }
        if let Some(status) = broken {
            break status;
        }
        node.wait(Duration::from_millis(5)).expect("a working socket");
    };
    say(&format!("broken {status}"));
    assert_eq!(posted, completed, "all that was posted has completed");
    assert!(flushed > 0, "queued work is reported as flushed");
    say(&format!("flushed {flushed}"));
    reach_in_time(node);
    say("connected again");
}
