//! A bare batched UDP receiver that only counts: the yardstick for what a pipeline behind it costs.
//!
//! demonstrates: UdpReceiver -> slot ring -> a reader that looks at each length and releases.
//!
//!     cargo run --release -p fluxline --example bare_receiver -- \
//!         127.0.0.1:6006 5 [block|spin] [single]
//!
//! Arguments: address, seconds after the first packet, then words: `block` or `spin` instead of a
//! nap of 50 us, `single` switches UDP_GRO off. Prints one line of JSON.

use std::time::{Duration, Instant};

use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::ring::{RingConfig, SLOT_BYTES_ANY, ring};
use fluxline::udp::{Received, ReceiverConfig, UdpReceiver, WhenEmpty};

/// Slots of the ring; read by the same thread, so a few batches are enough and stay in the cache.
const SLOTS: usize = 128;
const TICK: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let listen = arguments.first().ok_or("usage: bare_receiver ADDRESS:PORT SECONDS [words]")?;
    let seconds: f64 = arguments.get(1).map_or(Ok(5.0), |text| text.parse())?;
    let said = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut config = ReceiverConfig::new(listen.parse()?);
    config.gro = !said("single");
    if said("block") {
        config.when_empty = WhenEmpty::Block;
    } else if said("spin") {
        config.when_empty = WhenEmpty::Spin;
    }
    if let Some(&core) = allowed_cores().get(1) {
        pin_current_thread(core)?;
    }
    let mut receiver = UdpReceiver::bind(config)?;
    if let Some(warning) = receiver.buffer().warning() {
        eprintln!("{warning}");
    }
    let (mut producer, mut consumer) =
        ring(&RingConfig { slots: SLOTS, slot_bytes: SLOT_BYTES_ANY })?;
    let mut first: Option<Instant> = None;
    let (mut datagrams, mut bytes) = (0_u64, 0_u64);
    let mut last = Instant::now();
    while first.is_none_or(|first| first.elapsed().as_secs_f64() < seconds) {
        if let Received::Slots(_) = receiver.receive_into(&mut producer, TICK)? {
            last = Instant::now();
            first.get_or_insert(last);
        }
        let filled = consumer.peek();
        let count = filled.len();
        for view in filled {
            datagrams += view.meta.datagram_count();
            bytes += view.bytes.len() as u64;
        }
        consumer.release(count);
    }
    let span_s = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
    let counters = receiver.counters();
    println!(
        "{{\"datagrams\":{datagrams},\"socket_drops\":{},\"per_call\":{:.1},\
         \"seconds\":{span_s:.3},\
         \"datagrams_per_s\":{:.0},\"gbit_per_s\":{:.3}}}",
        counters.socket_drops,
        datagrams as f64 / counters.calls.max(1) as f64,
        datagrams as f64 / span_s.max(1e-9),
        bytes as f64 * 8e-9 / span_s.max(1e-9),
    );
    Ok(())
}
