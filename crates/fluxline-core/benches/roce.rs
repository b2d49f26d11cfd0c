//! The cost of RoCEv2 per packet: reading and writing headers, and the ICRC beside a copy of the
//! same bytes.
//!
//! All cases run in turns, and the median of the turns counts. With LEAST=1 the minimum counts,
//! which a busy machine disturbs less. Run: `cargo bench -p fluxline-core --bench roce`.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::disallowed_methods, reason = "a benchmark is where the clock is read")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

use fluxline_core::roce::{
    Aeth, Body, CreditCode, HEADER_BYTES_MAX, Headers, IcrcContext, Msn, Packet, Psn, QueuePair,
    Reth, SendPart, Syndrome, Transport, Verdict, WritePart,
};
use median::median;

const TURNS: usize = 31;
/// The number of distinct packets, so that branches and caches see some variety.
const PACKETS: usize = 256;

fn least_wanted() -> bool {
    std::env::var_os("LEAST").is_some()
}

/// Returns the nanoseconds per call of one turn; `work` gets the number of the packet.
fn turn(rounds: usize, mut work: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        for index in 0..PACKETS {
            work(index);
        }
    }
    start.elapsed().as_nanos() as f64 / (rounds * PACKETS) as f64
}

fn write_only(index: usize) -> Body {
    let reth = Reth { address: index as u64 * 4096, key: 7, bytes: 64 };
    Body::Write(Transport::Reliable, WritePart::Only(reth, None))
}

/// Returns a packet of one direction of a busy connection.
fn mixed(index: usize) -> Body {
    let syndrome = Syndrome::Ack(CreditCode::at_most(16));
    match index * 7 % 8 {
        0 => write_only(index),
        1 | 2 | 5 => Body::Write(Transport::Reliable, WritePart::Middle),
        3 => Body::Write(Transport::Reliable, WritePart::Last(Some(index as u32))),
        4 => Body::Send(Transport::Reliable, SendPart::Only(None)),
        _ => Body::Acknowledge(Aeth { syndrome, msn: Msn::new(index as u32) }),
    }
}

fn headers(body: fn(usize) -> Body) -> Vec<Headers> {
    let make = |index| Headers::new(QueuePair::new(17), Psn::new(index as u32), body(index));
    (0..PACKETS).map(make).collect()
}

fn headers_cost(name: &str, body: fn(usize) -> Body) {
    const ROUNDS: usize = 400;
    let payload = [0x5A; 64];
    let headers = headers(body);
    let packets: Vec<Vec<u8>> = headers
        .iter()
        .map(|headers| {
            let payload = if headers.opcode().allows_payload() { &payload[..] } else { &[] };
            let packet = Packet::new(*headers, payload).expect("allowed");
            let mut bytes = vec![0; packet.bytes()];
            packet.emit(&mut bytes);
            bytes
        })
        .collect();
    let (mut parses, mut emits) = (Vec::new(), Vec::new());
    let mut out = [0; HEADER_BYTES_MAX];
    for _ in 0..TURNS {
        parses.push(turn(ROUNDS, |index| {
            black_box(Packet::parse(black_box(&packets[index])).is_ok());
        }));
        emits.push(turn(ROUNDS, |index| {
            let headers = black_box(&headers[index]);
            let bytes = if headers.opcode().allows_payload() { 64 } else { 0 };
            black_box(headers.emit(bytes, black_box(&mut out)));
        }));
    }
    let (parse, emit) = (median(parses), median(emits));
    println!("{name:20} parse {parse:6.2} ns, emit headers {emit:6.2} ns");
}

fn icrc_cost(name: &str, from: &str, to: &str, bytes: usize) {
    let rounds = (1 << 24) / (PACKETS * (bytes + 200));
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let context = IcrcContext::new(address(from), address(to)).expect("one family");
    let body = Body::Write(Transport::Reliable, WritePart::Middle);
    let stride = bytes + 16;
    // As in a program: one packet after the other, aligned to 8 bytes at best.
    let mut packets = vec![0; PACKETS * stride];
    let mut identified = vec![0; PACKETS * stride];
    for index in 0..PACKETS {
        let payload: Vec<u8> = (0..bytes).map(|at| (at * 31 + index) as u8).collect();
        let headers = Headers::new(QueuePair::new(17), Psn::new(index as u32), body);
        let packet = Packet::new(headers, &payload).expect("allowed");
        for (all, identification) in [(&mut packets, 0), (&mut identified, 0x1234 + index as u16)] {
            let place = &mut all[index * stride..][..stride];
            let used = packet.emit(place);
            let icrc = context.icrc(identification, &place[..used]);
            place[used..].copy_from_slice(&icrc.to_le_bytes());
        }
    }
    let (mut copies, mut sums, mut checks, mut searches) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut out = vec![0; stride];
    let matches = |all: &[u8], index: usize| {
        let verdict = context.verify(black_box(&all[index * stride..][..stride]), 0);
        assert_ne!(verdict, Verdict::Mismatch);
    };
    for _ in 0..TURNS {
        copies.push(turn(rounds, |index| {
            out.copy_from_slice(black_box(&packets[index * stride..][..stride]));
            black_box(&mut out);
        }));
        sums.push(turn(rounds, |index| {
            let packet = &packets[index * stride..][..stride - 4];
            black_box(context.icrc(0, black_box(packet)));
        }));
        checks.push(turn(rounds, |index| matches(&packets, index)));
        searches.push(turn(rounds, |index| matches(&identified, index)));
    }
    let (copy, sum, check, search) =
        (median(copies), median(sums), median(checks), median(searches));
    let rate = |ns: f64| bytes as f64 / ns;
    println!(
        "{name} {bytes:5} B  icrc {sum:7.1} ns {:5.1} GB/s  memcpy {copy:7.1} ns {:5.1} GB/s  \
         ratio {:4.1}  verify +{:5.1} ns, with an identification +{:5.1} ns",
        rate(sum),
        rate(copy),
        sum / copy,
        check - sum,
        search - sum
    );
}

fn main() {
    let what = if least_wanted() { "least" } else { "medians" };
    println!("{what} of {TURNS} interleaved turns, {PACKETS} distinct packets");
    println!("CRC-32 by {}", crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32IsoHdlc));
    headers_cost("RDMA WRITE only", write_only);
    headers_cost("a mix of 5 kinds", mixed);
    for bytes in [4, 64, 128, 192, 256, 512, 1024, 4096, 8192] {
        icrc_cost("IPv4", "192.168.2.1:49152", "192.168.2.2:4791", bytes);
    }
    icrc_cost("IPv6", "[fe80::1]:49152", "[fe80::2]:4791", 1024);
}
