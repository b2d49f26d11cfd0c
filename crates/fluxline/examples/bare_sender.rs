//! A bare paced UDP sender: the other end of `bare_receiver`.
//!
//! demonstrates: UdpSender with a Pacer, single datagrams or trains.
//!
//!     cargo run --release -p fluxline --example bare_sender -- \
//!         127.0.0.1:6006 1472 300000 5 [single]
//!
//! Arguments: destination, payload \[byte\], rate \[datagram/s\] (0: as fast as possible), seconds,
//! then `single` for datagrams as an FPGA sends them instead of trains. Prints one line of JSON.

use std::time::Instant;

use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::udp::{Pacer, SenderConfig, UdpSender};

/// Datagrams handed over at once.
const BURST: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [destination, bytes, rate, seconds, words @ ..] = arguments.as_slice() else {
        return Err("usage: bare_sender ADDRESS:PORT BYTES RATE SECONDS [single]".into());
    };
    let mut config = SenderConfig::new(destination.parse()?);
    config.segmentation = !words.iter().any(|word| word == "single");
    if let Some(&core) = allowed_cores().first() {
        pin_current_thread(core)?;
    }
    let seconds: f64 = seconds.parse()?;
    let payload = vec![0x5A_u8; bytes.parse()?];
    let datagrams = [payload.as_slice(); BURST];
    let mut pacer = Pacer::new(rate.parse()?, BURST);
    let mut sender = UdpSender::open(config)?;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        sender.send_paced(&datagrams, &mut pacer)?;
    }
    let span_s = start.elapsed().as_secs_f64();
    let counters = sender.counters();
    println!(
        "{{\"datagrams\":{},\"trains\":{},\"refused\":{},\"buffer_full\":{},\
         \"datagrams_per_s\":{:.0}}}",
        counters.datagrams,
        counters.trains,
        counters.refused,
        counters.buffer_full,
        counters.datagrams as f64 / span_s,
    );
    Ok(())
}
