//! Pushes packets of formats/counter.toml into a running `fluxline run`, over any link.
//!
//! demonstrates: open -> Sender -> push in batches, waiting for room -> finish.
//!
//!     cargo run --release -p fluxline --example push_packets -- URL PEER KEY PACKETS
//!
//! URL is the own node, PEER the run's: `shm://lab/board run` or `udp://127.0.0.1:0 127.0.0.1:4792`.
//! Prints one line of JSON.

use std::time::Instant;

use fluxline::fabric::{Fabric, Key, Name};
use fluxline::push::{PushRefused, RingAddress, Sender};
use fluxline_core::Span;

/// Bytes of a packet, its head of 32 included.
const PACKET_BYTES: usize = 1472;
/// Packets that are published together.
const BATCH: u64 = 32;
/// Pause while the ring is full.
const NAP: Span = Span::from_ns(100_000);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, peer, key, packets] = arguments.as_slice() else {
        return Err("usage: push_packets URL PEER KEY PACKETS".into());
    };
    let packets: u64 = packets.parse()?;
    let (name, key) = (Name::parse("ring")?, Key(key.parse()?));
    let mut fabric = fluxline::open(url)?;
    let to = RingAddress { peer: peer.clone(), name, key };
    let now = fabric.now();
    let mut ring = Sender::open(&mut *fabric, to, now)?;
    while !ring.is_open() {
        wait(&mut ring, &mut *fabric)?;
    }

    let mut packet = vec![0_u8; PACKET_BYTES];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    let began = Instant::now();
    for number in 0..packets {
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        while let Err(refused) = ring.push(&mut *fabric, &packet) {
            if refused != PushRefused::Full {
                return Err(refused.into());
            }
            wait(&mut ring, &mut *fabric)?;
        }
        if number % BATCH == BATCH - 1 {
            ring.publish(&mut *fabric)?;
            let now = fabric.now();
            ring.poll(&mut *fabric, now);
        }
    }
    while !ring.finish(&mut *fabric)? {
        wait(&mut ring, &mut *fabric)?;
    }
    let (seconds, full) = (began.elapsed().as_secs_f64(), ring.counters().full);
    println!("{{\"packets\":{packets},\"full\":{full},\"seconds\":{seconds:.3}}}");
    Ok(())
}

/// Polls, and sleeps for a moment; fails when the ring has ended.
fn wait(ring: &mut Sender, fabric: &mut dyn Fabric) -> Result<(), PushRefused> {
    let now = fabric.now();
    while ring.poll(fabric, now).is_some() {}
    if let Some(why) = ring.ended() {
        return Err(why);
    }
    if ring.is_native() {
        std::thread::yield_now(); // the other process makes room without a notification
    } else {
        fabric.wait(now + NAP);
    }
    Ok(())
}
