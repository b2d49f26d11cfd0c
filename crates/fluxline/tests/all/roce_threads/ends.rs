//! Ends with several threads, and what runs on each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::memory::OwnMemory;
use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::Span;
use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Memory, Name, Reliability, Rights,
    Status, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::random::Draw;

pub const KEY: Key = Key(0x5EED);
/// The part of the common region that each writer fills \[byte\].
pub const PART_BYTES: u64 = 300_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// The seed of a test: `SEED`, or a fixed one.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED").ok();
    let seed = match seed.as_deref() {
        Some("random") => clock::now().as_ns(),
        given => given.and_then(|text| text.parse().ok()).unwrap_or(0x7EAD),
    };
    println!("SEED={seed}");
    seed
}

pub fn any_port() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

pub fn config(name: &str) -> EndpointConfig {
    // Many threads share few cores here: one may not run for long.
    EndpointConfig {
        death: Span::from_ms(10_000),
        ..endpoint_config(name).expect("random numbers")
    }
}

pub fn ports(at: SocketAddr, count: usize) -> Vec<UdpPort> {
    UdpPort::bind_threads(&UdpPortConfig::new(at), count).expect("a free port")
}

pub fn open(at: SocketAddr, count: usize) -> Vec<RoceNode> {
    ports(at, count).into_iter().map(|port| RoceNode::on(port, config("node"))).collect()
}

pub fn address(node: &mut RoceNode) -> SocketAddr {
    node.node().port().local_address()
}

/// Polls until `wanted` finds something.
///
/// # Panics
/// When nothing is found in time.
pub fn until<T>(
    nodes: &mut [&mut dyn Fabric],
    mut wanted: impl FnMut(usize, &Completion) -> Option<T>,
) -> T {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for (index, node) in nodes.iter_mut().enumerate() {
            let now = node.now();
            while let Some(completion) = node.poll(clock::monotonic().max(now)) {
                if let Some(found) = wanted(index, &completion) {
                    return found;
                }
            }
        }
        thread::yield_now();
    }
    panic!("nothing came in time");
}

/// A number of bytes that only one writer writes.
pub fn content(seed: u64, part: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (0..PART_BYTES).map(|_| draw.bits() as u8).collect()
}

/// Observations of one serving thread.
#[derive(Debug, Default)]
pub struct Served {
    /// The parts whose last put came here, in order.
    pub notified: Vec<u64>,
    pub connected: u32,
    pub broken: Vec<Status>,
    /// Frames for queue pairs that are not here.
    pub unknown_pair: u64,
}

/// Serving threads of one address, which have one region in common.
pub struct Server {
    pub memory: Arc<OwnMemory>,
    pub at: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Served>>,
}

impl Server {
    /// Serves `parts` parts of the region on a thread for each port.
    pub fn start<P: Port + 'static>(at: SocketAddr, ports: Vec<P>, parts: u64) -> Server {
        let memory = Arc::new(OwnMemory::zeroed(parts * PART_BYTES).expect("memory"));
        let stop = Arc::new(AtomicBool::new(false));
        let serve = |port: P| {
            let (memory, stop) = (Arc::clone(&memory), Arc::clone(&stop));
            thread::spawn(move || serve(Node::new(port, config("server")), memory, &stop))
        };
        let threads = ports.into_iter().map(serve).collect();
        Server { memory, at, stop, threads }
    }

    pub fn stop(self) -> Vec<Served> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    }
}

fn serve<P: Port>(mut node: Node<P>, memory: Arc<OwnMemory>, stop: &AtomicBool) -> Served {
    let region = node.register_own(memory).expect("own memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    node.export(region, Name::parse("common").expect("legal"), grant).expect("free");
    let mut served = Served::default();
    while !stop.load(Ordering::Relaxed) {
        match node.poll(clock::monotonic()) {
            Some(Completion::Connected { .. }) => served.connected += 1,
            Some(Completion::Notified { value, .. }) => served.notified.push(value.into()),
            Some(Completion::Broken { status, .. }) => served.broken.push(status),
            Some(_) => {}
            None => thread::yield_now(),
        }
    }
    node.leave(clock::monotonic());
    served.unknown_pair = node.counters().unknown_pair;
    served
}

/// Connects and imports the common region of a server.
pub fn join(node: &mut dyn Fabric, at: SocketAddr) -> (EndpointId, Target) {
    let endpoint = node.connect(&at.to_string(), Reliability::Reliable).expect("an address");
    until(&mut [&mut *node], |_, completion| match completion {
        Completion::Connected { endpoint: of, .. } if *of == endpoint => Some(()),
        Completion::Broken { endpoint: of, status } if *of == endpoint => panic!("{status}"),
        _ => None,
    });
    let name = Name::parse("common").expect("legal");
    let remote = node.import(endpoint, name, KEY).expect("connected");
    let status = until(&mut [&mut *node], |_, completion| match completion {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    (endpoint, Target { remote, offset: 0 })
}

/// Writes a part in pieces of random lengths, the last with a notification; returns when it is
/// placed.
pub fn write_part(
    node: &mut dyn Fabric,
    (endpoint, base): (EndpointId, Target),
    part: u64,
    seed: u64,
) {
    let bytes = content(seed, part);
    let mut draw = Draw::new(seed + part);
    let (mut done, mut open) = (0, 0_u32);
    while done < bytes.len() || open > 0 {
        let piece = (1 + draw.below(20_000) as usize).min(bytes.len() - done);
        if piece > 0 && open < 100 {
            let is_last = done + piece == bytes.len();
            let to = Target { offset: part * PART_BYTES + done as u64, ..base };
            let from = Local::Bytes(&bytes[done..done + piece]);
            let (notify, complete_at) = (is_last.then_some(part as u32), Some(Level::Placed));
            if node.post(endpoint, 0, Work::Put { from, to, notify, complete_at }).is_ok() {
                (done, open) = (done + piece, open + 1);
                continue;
            }
        }
        let status = until(&mut [&mut *node], |_, completion| match completion {
            Completion::Done { status, .. } => Some(*status),
            Completion::Broken { status, .. } => panic!("part {part}: {status}"),
            _ => None,
        });
        assert_eq!(status, Status::Done, "part {part}");
        open -= 1;
    }
}

/// Compares a part of the region with what was written.
pub fn check_part(memory: &OwnMemory, part: u64, seed: u64) {
    let mut found = vec![0; PART_BYTES as usize];
    memory.read(part * PART_BYTES, &mut found).expect("inside");
    assert!(found == content(seed, part), "part {part} has other bytes");
}

/// Returns a loopback address of its own for a test that needs port 4791.
pub fn own_loopback(last: u8) -> IpAddr {
    let id = std::process::id();
    Ipv4Addr::new(127, (id >> 8) as u8 | 0x80, id as u8, last).into()
}
