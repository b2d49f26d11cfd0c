//! Writes packets of formats/counter.toml into a running `fluxline run` as a reliable, configured
//! sender does: an FPGA with an RC core, or an RDMA card.
//!
//! demonstrates: RoceNode -> add_static -> import -> notified puts, slot after slot.
//!
//!     cargo run --release -p fluxline --example roce_sender -- ADDRESS:PORT PACKETS
//!
//! The other settings are those of examples/roce-reliable.toml. Prints one line of JSON.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::RoceNode;
use fluxline::udp::UdpPortConfig;
use fluxline_core::endpoint::{StaticPeer, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Level, Local, Name, PostError, Reliability, Rights,
    Status, Target, Work,
};
use fluxline_core::roce::{Psn, QueuePair};

const OWN_PORT: u16 = 4800;
const OWN_PAIR: u32 = 17;
const RUNS_PAIR: u32 = 256;
const KEY: u32 = 7;
const FIRST_PSN: u32 = 0;
const RING_BYTES: u64 = 65_536;
const SLOT_BYTES: u64 = 1024;
/// Bytes of a packet, its head of 32 included.
const PACKET_BYTES: usize = 992;
/// Sleep of a node without work.
const NAP: Duration = Duration::from_micros(100);

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, packets] = arguments.as_slice() else {
        return Err("usage: roce_sender ADDRESS:PORT PACKETS".into());
    };
    let (run, packets) = (run.parse::<SocketAddr>()?, packets.parse::<u64>()?);
    let own = match run {
        SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], OWN_PORT)),
        SocketAddr::V6(_) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], OWN_PORT)),
    };
    let mut node = RoceNode::open("card", UdpPortConfig::new(own))?;
    let endpoint = node.node().add_static(&peer(run), clock::monotonic())?;
    let remote = node.import(endpoint, Name::parse("ring")?, Key(u64::from(KEY)))?;

    let mut packet = vec![0_u8; PACKET_BYTES];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    let (began, mut done) = (Instant::now(), 0);
    for number in 0..packets {
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        let to = Target { remote, offset: number * SLOT_BYTES % RING_BYTES };
        let (from, complete_at) = (Local::Bytes(&packet), Some(Level::Placed));
        let put = Work::Put { from, to, notify: Some(number as u32), complete_at };
        done += post(&mut node, endpoint, put)?;
    }
    while done < packets {
        done += completed(&mut node)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{{\"packets\":{packets},\"acknowledged\":{done},\"seconds\":{seconds:.3}}}");
    Ok(())
}

/// The run, as this sender is configured for it.
fn peer(run: SocketAddr) -> StaticPeer {
    let (rights, bytes) = (Rights::PUT, RING_BYTES);
    StaticPeer {
        name: "run".into(),
        address: run,
        source_port: Some(run.port()),
        own_pair: QueuePair::new(OWN_PAIR),
        peer_pair: QueuePair::new(RUNS_PAIR),
        reliability: Reliability::Reliable,
        // The run sends no requests.
        peer_first: Some(Psn::new(0)),
        own_first: Psn::new(FIRST_PSN),
        path_mtu: SLOT_BYTES as usize,
        regions: Vec::new(),
        remotes: vec![StaticRemote { name: "ring".into(), key: KEY, base: 0, bytes, rights }],
    }
}

/// Posts a put, waiting while the queue is full; returns the number of earlier ones that ended.
fn post(node: &mut RoceNode, endpoint: EndpointId, put: Work<'_>) -> Result<u64, Problem> {
    let mut done = 0;
    loop {
        match node.post(endpoint, 0, put) {
            Ok(()) => return Ok(done),
            Err(PostError::Full) => done += completed(node)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Polls the node; returns the number of puts that were acknowledged.
fn completed(node: &mut RoceNode) -> Result<u64, Problem> {
    let mut done = 0;
    while let Some(completion) = node.next_completion() {
        match completion {
            Completion::Done { status: Status::Done, .. } => done += 1,
            Completion::Done { status, .. } | Completion::Broken { status, .. } => {
                return Err(status.to_string().into());
            }
            _ => {}
        }
    }
    if done == 0 {
        node.wait(NAP)?;
    }
    Ok(done)
}
