//! Pushes packets of formats/counter.toml into a running `fluxline run` over RoCEv2.
//!
//! demonstrates: RoceNode -> connect -> import -> introduce -> push in batches, waiting for room.
//!
//!     cargo run --release -p fluxline --example roce_push -- ADDRESS:PORT RING_BYTES KEY PACKETS
//!
//! Prints one line of JSON.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline::roce::{RoceNode, random_key};
use fluxline::udp::UdpPortConfig;
use fluxline_core::fabric::push::{CREDIT_BYTES, CREDIT_NAME, FabricProducer, FabricPushError};
use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Name, PostError, Reliability, Rights, Status, Work,
};

/// Bytes of a packet, its head of 32 included.
const PACKET_BYTES: usize = 1472;
/// Packets that are published together.
const BATCH: u64 = 32;
/// How long a full ring is left alone.
const NAP: Duration = Duration::from_micros(100);
/// The tag of the last work.
const LAST: u64 = 1;

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, ring_bytes, key, packets] = arguments.as_slice() else {
        return Err("usage: roce_push ADDRESS:PORT RING_BYTES KEY PACKETS".into());
    };
    let (key, packets) = (Key(key.parse()?), packets.parse::<u64>()?);
    let run: SocketAddr = run.parse()?;
    let own = if run.ip().is_loopback() { run.ip() } else { Ipv4Addr::UNSPECIFIED.into() };
    let name = format!("board-{}", std::process::id());
    let mut node = RoceNode::open(&name, UdpPortConfig::new(SocketAddr::new(own, 0)))?;

    // The run puts its progress into this region; `introduce` sends it the key.
    let (credit, own_key) = (node.register(CREDIT_BYTES)?, random_key()?);
    let grant = Grant { rights: Rights::PUT, key: own_key };
    node.export(credit, Name::parse(CREDIT_NAME)?, grant)?;
    let endpoint = node.connect(&run.to_string(), Reliability::Reliable)?;
    next(&mut node)?;
    let ring = node.import(endpoint, Name::parse("ring")?, key)?;
    next(&mut node)?;
    let memory = node.memory(credit)?;
    let producer = FabricProducer::new(endpoint, ring, ring_bytes.parse()?, memory);
    let mut producer = producer.ok_or("RING_BYTES must be the run's ring-bytes")?;
    producer.introduce(&mut node, own_key)?;

    let mut packet = vec![0_u8; PACKET_BYTES];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    let began = Instant::now();
    for number in 0..packets {
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        until_done(&mut node, |node| producer.push(node, &packet))?;
        if number % BATCH == BATCH - 1 {
            until_done(&mut node, |node| producer.publish(node))?;
        }
    }
    until_done(&mut node, |node| producer.publish(node))?;
    // When the flush completes, all packets are in the run's memory.
    until_done(&mut node, |node| Ok(node.post(endpoint, LAST, Work::Flush)?))?;
    while next(&mut node)? != Some(LAST) {}
    let (seconds, full) = (began.elapsed().as_secs_f64(), producer.counters().full);
    println!("{{\"packets\":{packets},\"full\":{full},\"seconds\":{seconds:.3}}}");
    Ok(())
}

/// Tries again while the ring or the queue of work is full.
fn until_done(
    node: &mut RoceNode,
    mut act: impl FnMut(&mut RoceNode) -> Result<(), FabricPushError>,
) -> Result<(), Problem> {
    loop {
        match act(node) {
            Ok(()) => return Ok(()),
            Err(FabricPushError::Full | FabricPushError::Post(PostError::Full)) => {
                while let Some(completion) = node.next_completion() {
                    tag_of(&completion)?;
                }
                node.wait(NAP)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the next thing that happens; its tag, where it is work. Fails when it is a refusal.
fn next(node: &mut RoceNode) -> Result<Option<u64>, Problem> {
    loop {
        match node.next_completion() {
            Some(completion) => return tag_of(&completion),
            None => node.wait(Duration::from_millis(20))?,
        }
    }
}

fn tag_of(completion: &Completion) -> Result<Option<u64>, Problem> {
    match completion {
        Completion::Broken { status, .. } => Err(status.to_string().into()),
        Completion::Imported { status, .. } | Completion::Done { status, .. }
            if *status != Status::Done =>
        {
            Err(status.to_string().into())
        }
        Completion::Done { tag, .. } => Ok(Some(*tag)),
        _ => Ok(None),
    }
}
