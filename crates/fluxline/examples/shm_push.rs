//! Pushes packets of formats/counter.toml into a running `fluxline run` over shared memory.
//!
//! demonstrates: Shm -> connect -> import -> PushProducer, in batches, waiting for room.
//!
//!     cargo run --release -p fluxline --example shm_push -- GROUP NODE KEY PACKETS
//!
//! Prints one line of JSON.

use std::time::Instant;

use fluxline::push::PushRefused;
use fluxline::shm::{Shm, ShmConfig};
use fluxline_core::fabric::{Completion, Fabric, Key, Name, Reliability, Status};

/// Bytes of a packet, its head of 32 included.
const PACKET_BYTES: usize = 1472;
/// Packets that are published together.
const BATCH: u64 = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [group, node, key, packets] = arguments.as_slice() else {
        return Err("usage: shm_push GROUP NODE KEY PACKETS".into());
    };
    let (key, packets) = (Key(key.parse()?), packets.parse::<u64>()?);
    let own = Name::parse(&format!("board-{}", std::process::id()))?;
    let mut shm = Shm::open(&Name::parse(group)?, &own, ShmConfig::default())?;
    let endpoint = shm.connect(node, Reliability::Reliable)?;
    next(&mut shm)?;
    let remote = shm.import(endpoint, Name::parse("ring")?, key)?;
    next(&mut shm)?;
    let mut ring = shm.push_producer(remote)?;

    let mut packet = vec![0_u8; PACKET_BYTES];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    let began = Instant::now();
    for number in 0..packets {
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        while let Err(refused) = ring.push(&packet) {
            if refused != PushRefused::Full {
                return Err(refused.into());
            }
            std::thread::yield_now();
        }
        if number % BATCH == BATCH - 1 {
            ring.publish();
        }
    }
    ring.publish();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{{\"packets\":{packets},\"full\":{},\"seconds\":{seconds:.3}}}",
        ring.counters().full
    );
    Ok(())
}

/// The next thing that happens, unless it is a refusal.
fn next(shm: &mut Shm) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        match shm.poll(shm.now()) {
            Some(Completion::Broken { status, .. }) => return Err(status.to_string().into()),
            Some(Completion::Imported { status, .. }) if status != Status::Done => {
                return Err(status.to_string().into());
            }
            Some(_) => return Ok(()),
            None => std::hint::spin_loop(),
        }
    }
}
