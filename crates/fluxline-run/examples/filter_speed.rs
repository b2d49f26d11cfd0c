//! Demonstrates: the speed of filters on batches of events, in ns per event: a Rust function, the
//! same function compiled behind the interface of C, and expressions.
//!
//! ```text
//! cargo run --release -p fluxline-run --example filter_speed
//! ```

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

use fluxline::compiled::{CompiledEvent, CompiledFilter, CompiledPacket};
use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, EventView, PacketRow};
use fluxline_daq::filter::{EventExpression, FilterInput};
use fluxline_daq::formats;
use fluxline_run::RunSource;
use fluxline_run::filter::{CompiledEvents, Decision, Decisions, Filter, each_event};

/// Rounds of each filter, in turns; the fastest counts.
const ROUNDS: usize = 15;
/// Bytes of the header of a packet of the format `counter`.
const HEADER: usize = 32;
/// No sample exceeds it, so every filter reads all samples.
const LIMIT: u16 = 60_000;

fn main() {
    for [packets, samples] in [[1, 0], [4, 16], [4, 512]] {
        let batch = batch(packets, samples);
        println!("events of {packets} packets with {samples} samples:");
        let mut filters: Vec<(&str, Box<dyn Filter>)> = vec![
            ("Rust function", Box::new(each_event(is_above))),
            ("compiled function", Box::new(compiled())),
            ("any(amplitude > 60000)", Box::new(Expression::of("any(amplitude > 60000)"))),
            ("event.key % 7 == 0", Box::new(Expression::of("event.key % 7 == 0"))),
            ("count(source_id == 9) > 3", Box::new(Expression::of("count(source_id == 9) > 3"))),
        ];
        let mut best = vec![f64::MAX; filters.len()];
        for _ in 0..ROUNDS {
            for ((_, filter), best) in filters.iter_mut().zip(&mut best) {
                *best = best.min(time(&mut **filter, &batch));
            }
        }
        for ((name, _), ns) in filters.iter().zip(&best) {
            println!("  {name:<26} {ns:>9.1} ns an event, rate {:.2} of Rust", best[0] / ns);
        }
    }
}

/// Returns the time of a filter on a batch [ns per event].
fn time(filter: &mut dyn Filter, batch: &EventBatch) -> f64 {
    filter.add_source(&RunSource { number: 0, input: 0, label: "board".to_owned() });
    let mut decisions = Decisions::of(batch.events.len());
    let began = Instant::now();
    filter.decide(black_box(batch), &mut decisions);
    let ns = began.elapsed().as_nanos() as f64;
    assert!(!black_box(decisions.rows()).contains(&Decision::Undecided));
    ns / batch.events.len() as f64
}

/// The Rust filter: some sample exceeds the limit.
fn is_above(event: &EventView<'_>) -> bool {
    event.each_packet().any(|(_, bytes)| {
        let samples = bytes[HEADER..].chunks_exact(2);
        samples.map(|sample| u16::from_le_bytes([sample[0], sample[1]])).any(|one| one > LIMIT)
    })
}

/// The same for the interface of C.
unsafe extern "C" fn is_above_in_c(
    event: *const CompiledEvent,
    packets: *const CompiledPacket,
    bytes: *const u8,
    _: *mut c_void,
) -> i32 {
    // SAFETY: the caller passes as many packets and bytes as the event says.
    let (packets, bytes) = unsafe {
        let event = &*event;
        let packets = std::slice::from_raw_parts(packets, event.packets as usize);
        (packets, std::slice::from_raw_parts(bytes, event.bytes as usize))
    };
    let is_above = packets.iter().any(|packet| {
        let payload = &bytes[packet.start as usize + HEADER..][..packet.payload_bytes as usize];
        let samples = payload.chunks_exact(2);
        samples.map(|sample| u16::from_le_bytes([sample[0], sample[1]])).any(|one| one > LIMIT)
    });
    is_above.into()
}

fn compiled() -> CompiledEvents {
    // SAFETY: the function lives as long as the program, and reads what it is given.
    CompiledEvents::new(unsafe { CompiledFilter::new(is_above_in_c, std::ptr::null_mut()) })
}

/// An expression as a filter.
struct Expression(EventExpression);

impl Expression {
    fn of(text: &str) -> Expression {
        let format = formats::load("counter", &BTreeMap::new()).expect("shipped");
        let inputs = [FilterInput { name: "boards", description: &format.description }];
        Expression(EventExpression::compile(text, &inputs).expect("an expression"))
    }
}

impl Filter for Expression {
    fn add_source(&mut self, source: &RunSource) {
        self.0.add_source(source.number, source.input, &source.label);
    }

    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        for (row, event) in batch.views().enumerate() {
            decisions.set(row, self.0.is_true(&event).into());
        }
    }
}

/// A batch of about 4 MiB.
fn batch(packets: usize, samples: usize) -> EventBatch {
    let bytes = HEADER + 2 * samples;
    let mut batch = EventBatch::default();
    for key in 0..(4 << 20) / (packets * bytes) as u64 {
        for source in 0..packets {
            let mut packet = vec![0; HEADER];
            packet[6] = source as u8;
            packet.extend((0..samples).flat_map(|sample| (sample as u16 + 1).to_le_bytes()));
            batch.bytes.extend(packet);
            batch.packets.push(PacketRow {
                source: 0,
                packet_type: 0,
                sequence: Some(key),
                time: Moment::from_ns(key),
                sensor_time_ns: None,
                part: 0,
                payload_start: HEADER as u32,
                payload_bytes: 2 * samples as u32,
                bytes: bytes as u32,
            });
        }
        let packets = packets as u32;
        batch.events.push(EventRow { key: Some(key), packets, ..EventRow::default() });
    }
    batch
}
