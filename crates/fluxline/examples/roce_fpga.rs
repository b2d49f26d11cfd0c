//! An FPGA's frames: RoCEv2 put together by hand, on a bare socket.
//!
//! demonstrates: roce::Headers -> RDMA WRITE ONLY with immediate -> invariant CRC -> UDP.
//!
//!     cargo run --release -p fluxline --example roce_fpga -- \
//!         TO FROM QUEUE_PAIR KEY RING_BYTES PACKETS
//!
//! TO and FROM are addresses with ports, as the run's experiment has them. Prints one line of JSON.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fluxline_core::roce::{
    Body, Headers, ICRC_BYTES, IcrcContext, Psn, QueuePair, Reth, Transport, WritePart,
};

/// A packet fills a slot \[byte\]: a multiple of 4, so there is no padding.
const SLOT_BYTES: usize = 1024;
/// Packets that are sent at once, and the pause after them: 64 Mbyte/s.
const BURST: u64 = 16;
const PAUSE: Duration = Duration::from_micros(250);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [to, from, pair, key, ring_bytes, packets] = arguments.as_slice() else {
        return Err("usage: roce_fpga TO FROM QUEUE_PAIR KEY RING_BYTES PACKETS".into());
    };
    let (to, from): (SocketAddr, SocketAddr) = (to.parse()?, from.parse()?);
    let (pair, key) = (QueuePair::new(pair.parse()?), key.parse()?);
    let (ring_bytes, packets): (u64, u64) = (ring_bytes.parse()?, packets.parse()?);
    let slots = (ring_bytes / SLOT_BYTES as u64).max(1);
    let socket = UdpSocket::bind(from)?;
    let icrc = IcrcContext::new(from, to)?;

    let mut frame = vec![0_u8; 2048];
    let began = Instant::now();
    for number in 0..packets {
        let address = number % slots * SLOT_BYTES as u64;
        let reth = Reth { address, key, bytes: SLOT_BYTES as u32 };
        let part = WritePart::Only(reth, Some(number as u32));
        let body = Body::Write(Transport::Unreliable, part);
        let headers = Headers::new(pair, Psn::new(number as u32), body);
        let start = headers.emit(SLOT_BYTES, &mut frame);
        let packet = &mut frame[start..start + SLOT_BYTES];
        packet[..5].copy_from_slice(b"FLXC\x01");
        packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        packet[14] = 1; // one packet is the whole fragment
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        let end = start + SLOT_BYTES;
        // Linux writes the identification 0 where a datagram must not be cut.
        let check = icrc.icrc(0, &frame[..end]).to_le_bytes();
        frame[end..end + ICRC_BYTES].copy_from_slice(&check);
        socket.send_to(&frame[..end + ICRC_BYTES], to)?;
        if number % BURST == BURST - 1 {
            std::thread::sleep(PAUSE);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{{\"packets\":{packets},\"seconds\":{seconds:.3}}}");
    Ok(())
}
