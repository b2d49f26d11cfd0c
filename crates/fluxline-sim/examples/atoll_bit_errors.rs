//! Goodput of an ATOLL link whose bits are damaged: the model beside a closed form.
//!
//! One process sends messages of 64 KiB over one cable as fast as the link takes them. Each message
//! has a number; the receiver checks that every number comes once, in order. Run:
//! `cargo run --release -p fluxline-sim --example atoll_bit_errors`; with QUICK=1 a hundredth of
//! the data is sent.

use fluxline_core::random::test_seed;
use fluxline_sim::core::interconnect::{Class, Interconnect, Report};
use fluxline_sim::net::atoll::{Cable, Config, Network, Parcel, Wiring};
use fluxline_sim::{Agenda, Instant};

const BYTES: u32 = 1 << 16;
/// Messages under way.
const WINDOW: u64 = 8;
/// Data of each row \[bytes\]: at the lowest rate, some packets are damaged.
const DATA: u64 = 1 << 30;
const RATES: [f64; 7] = [0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// The counts and the rate of a transfer.
struct Row {
    goodput: f64,
    damaged: u64,
    repeated: u64,
}

/// Sends messages from node 0 to node 1.
///
/// # Panics
/// When a message is missing, doubled or out of order.
fn transfer(config: &Config, messages: u64) -> Row {
    let mut network = <Network<_>>::new(config.clone()).expect("a network");
    let mut agenda = Agenda::default();
    let parcel = |number| Parcel { target: 1, port: 0, bytes: BYTES, number };
    let (mut sent, mut expected) = (0, 0);
    while sent < WINDOW.min(messages) {
        network.send(0, parcel(sent), &mut agenda).expect("an empty queue");
        sent += 1;
    }
    let mut first = None;
    while let Some(entry) = agenda.take(Instant::NEVER) {
        network.handle(entry, &mut agenda);
        while let Some(report) = network.next_report() {
            match report {
                Report::Received { node, .. } => {
                    while let Some(got) = network.take(node, Class::Request, &mut agenda) {
                        assert_eq!(got.number, expected, "each message once, in order");
                        expected += 1;
                        first.get_or_insert(agenda.now());
                    }
                }
                Report::Done { .. } if sent < messages => {
                    network.send(0, parcel(sent), &mut agenda).expect("room for one more");
                    sent += 1;
                }
                Report::Lost { .. } => panic!("no fault, so nothing is lost"),
                _ => {}
            }
        }
    }
    assert_eq!(expected, messages, "every message arrives");
    network.conserve().expect("every packet is in one place");
    let seconds = agenda.now().since(first.expect("a message")).as_ps() as f64 / 1e12;
    let counts = network.counts();
    Row {
        goodput: (messages - 1) as f64 * f64::from(BYTES) / seconds / 1e6,
        damaged: counts.damaged,
        repeated: counts.repeated,
    }
}

/// Returns the goodput \[MB/s\]: each damaged packet costs its own time and that of the packets
/// which the link sends until it has the negative acknowledgement.
fn closed_form(config: &Config) -> f64 {
    let symbols = f64::from(config.packet_bytes + config.overhead_symbols);
    let survival = (1.0 - config.bit_error_rate).powf(9.0 * symbols);
    let until = symbols + 2.0 * config.cable_clocks() as f64 + f64::from(config.ack_clocks);
    let lost = (until / symbols).ceil() * symbols;
    let clocks = symbols + (1.0 - survival) / survival * lost;
    let share = f64::from(BYTES) / f64::from(BYTES + config.header_bytes);
    share * f64::from(config.packet_bytes) / clocks * config.clock.hertz() as f64 / 1e6
}

fn main() {
    let seed = test_seed!(1);
    let data = if std::env::var_os("QUICK").is_some() { DATA / 100 } else { DATA };
    println!("| bit error rate | damaged packets | sent again | goodput [MB/s] | closed form |");
    println!("| --- | --- | --- | --- | --- |");
    for bit_error_rate in RATES {
        let wiring = Wiring::of(2, &[Cable { from: 0, to: 1 }]).expect("a cable");
        let config = Config { bit_error_rate, seed, ..Config::new(wiring) };
        let Row { goodput, damaged, repeated } = transfer(&config, data / u64::from(BYTES));
        let expected = closed_form(&config);
        println!(
            "| {bit_error_rate:.0e} | {damaged} | {repeated} | {goodput:.3} | {expected:.3} |"
        );
    }
}
