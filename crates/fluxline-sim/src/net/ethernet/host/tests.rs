//! Closed forms, exact losses, and random hosts against the law of conservation.

use fluxline_core::random::{Draw, test_count, test_seed};

use super::bench::{Bench, Cable, Length, Stream, Streamed};
use super::hosts::{Entry, Hosts};
use super::{
    Buffers, BusConfig, Card, Coalescing, Config, Cores, Costs, Driver, Pcie, Place, preset,
    true_bytes,
};
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect};
use crate::load::traffic::Message;
use crate::net::ethernet::{self, Datagram, Network, Payload};
use crate::{Agenda, Clock, Duration, Instant, host};

const TEN_GIGABITS: u64 = 10_000_000_000;

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

/// Returns a host whose steps take no time but the bus and the least of a call to send. Calls wait
/// for room, so that they do not outrun the cable.
fn free() -> Config {
    let host = preset::galli(1);
    let card = Card { receive: Coalescing::Off, transmit: Coalescing::Off, ..host.card };
    let buffers = Buffers { send_bytes: 256 << 10, ..host.buffers };
    Config { costs: Costs { send_call: ns(10), ..Costs::default() }, card, buffers, ..host }
}

fn with_costs(costs: Costs) -> Config {
    let send_call = costs.send_call.max(ns(10));
    Config { costs: Costs { send_call, ..costs }, ..free() }
}

fn pair(mtu: u32, sender: Config, receiver: Config) -> Bench {
    let cable = Cable { bits_per_s: TEN_GIGABITS, mtu };
    Bench::new(cable, sender, receiver).expect("a right host")
}

fn length() -> Length {
    Length { warm_up: Duration::from_us(500), measured: Duration::from_us(2_000) }
}

fn flat_out(bench: &mut Bench, bytes: u32) -> Streamed {
    bench.stream(&Stream { bytes, period: Duration::ZERO, length: length() })
}

/// Asserts that two numbers differ by at most a part of the second one.
fn assert_near(found: f64, expected: f64, part: f64) {
    let off = (found - expected).abs();
    assert!(off <= part * expected.abs(), "{found}, expected {expected} within {part}");
}

#[test]
fn the_sender_is_as_fast_as_the_work_of_its_core() {
    for (bytes, call, byte) in [(18, 3_000, 0), (1472, 2_000, 1_000), (8972, 5_000, 700)] {
        let send_byte = Duration::from_ps(byte);
        let costs = Costs { user: ns(100), send_call: ns(call), send_byte, ..Costs::default() };
        let mut bench = pair(9000, with_costs(costs), free());
        let streamed = flat_out(&mut bench, bytes);
        let cost_us = (100 + call) as f64 / 1e3 + f64::from(bytes) * byte as f64 / 1e6;
        // The measured time ends within a datagram.
        assert_near(streamed.kilohertz(), 1e3 / cost_us, 0.006);
        assert_near(streamed.sender[1].total(), 1.0, 0.006);
        assert_near(streamed.sender[1].user, 0.1 / cost_us, 0.01);
        assert_eq!(streamed.loss(), 0.0);
    }
}

#[test]
fn the_bus_is_as_fast_as_its_packets() {
    let pcie = |payload_bytes| Pcie {
        bytes_per_s: 1_000_000_000,
        overhead_bytes: 20,
        payload_bytes: 256,
        completion_bytes: payload_bytes,
        request_bytes: 4096,
        requests: 8,
        latency: ns(600),
    };
    for payload in [64, 128, 256] {
        let card = Card { bus: BusConfig::Pcie(pcie(payload)), ..free().card };
        let sender = Config { card, ..free() };
        let mut bench = pair(9000, sender, free());
        // 8,150 bytes of payload are two full read requests.
        let streamed = flat_out(&mut bench, 8150);
        let expected = 8.0 * pcie(payload).read_efficiency() * 8150.0 / 8192.0;
        assert_near(streamed.gigabits_per_s(), expected, 0.005);
    }
}

#[test]
fn the_cable_is_the_limit_of_hosts_that_cost_nothing() {
    for (mtu, bytes, expected) in [(1500, 1472, 9.571), (9000, 8972, 9.927)] {
        let mut sender = free();
        if let BusConfig::Pcie(bus) = &mut sender.card.bus {
            // One request at a time would be slower than the cable for short frames.
            bus.requests = 8;
        }
        let streamed = flat_out(&mut pair(mtu, sender, free()), bytes);
        assert_near(streamed.gigabits_per_s(), expected, 0.006);
    }
}

#[test]
fn a_delay_costs_every_message_its_time_and_a_throttle_costs_nothing() {
    let with = |receive| {
        let host = preset::galli(1);
        // Sent frames must not meet received ones in the softirq.
        let transmit = Coalescing::Delay { time: Duration::from_us(900), events: 0 };
        let costs = Costs { clean_frame: Duration::ZERO, ..host.costs };
        let host = Config { costs, card: Card { receive, transmit, ..host.card }, ..host };
        let mut bench = pair(1500, host.clone(), host);
        (bench.one_way(64), bench.round_trip(64, 64))
    };
    let (one_way, round_trip) = with(Coalescing::Off);
    for us in [5, 25, 100] {
        let time = Duration::from_us(us);
        let delayed = with(Coalescing::Delay { time, events: 0 });
        assert_eq!(delayed, (one_way + time, round_trip + time + time));
        assert_eq!(with(Coalescing::Throttle { gap: time }), (one_way, round_trip));
        let first = with(Coalescing::Delay { time, events: 1 });
        assert_eq!(first, (one_way, round_trip), "one event is enough");
    }
}

#[test]
fn the_gradient_is_two_copies_two_buses_and_the_wire() {
    let plain = host::config::Bus {
        clock: Clock::from_hertz(125_000_000),
        width_bytes: 8,
        write_clocks: 20,
        read_clocks: 40,
        write_burst_bytes: 4096,
        read_burst_bytes: 4096,
        ..host::preset::pci_x_133()
    };
    let copy = Duration::from_ps(625);
    let costs = Costs { send_byte: copy, receive_byte: copy, ..free().costs };
    let card = Card { bus: BusConfig::Parallel(plain), ..free().card };
    let host = Config { costs, card, ..free() };
    let mut bench = pair(1500, host.clone(), host);
    // Both lengths fill whole clocks.
    let times = [102, 1382].map(|bytes| bench.one_way(bytes).as_us());
    let slope_ns = (times[1] - times[0]) * 1e3 / 1280.0;
    assert_near(slope_ns, 2.0 * 0.625 + 2.0 * 1.0 + 0.8, 1e-6);
}

/// A burst of small datagrams to a receiver; returns the lost ones by place.
fn burst(receiver: Config, count: u64) -> [u64; Place::ALL.len()] {
    let mut bench = pair(1500, free(), receiver);
    bench.burst(count, 18);
    bench.hosts().conserve().expect("every datagram is somewhere");
    let counters = *bench.hosts().machine(1).expect("a host").counters();
    assert_eq!(counters.arrived, count);
    assert_eq!(counters.received + counters.lost_receiving.iter().sum::<u64>(), count);
    counters.lost_receiving
}

#[test]
fn a_backlog_loses_exactly_what_it_cannot_hold() {
    // The softirq needs longer for one datagram than the burst lasts.
    let costs = Costs { receive_frame: Duration::from_us(10_000), ..Costs::default() };
    let receiver = Config { driver: Driver::Backlog { frames: 100 }, ..with_costs(costs) };
    let mut lost = [0; Place::ALL.len()];
    assert_eq!(burst(receiver.clone(), 101), lost, "one is in the softirq");
    lost[Place::Backlog as usize] = 399;
    assert_eq!(burst(receiver, 500), lost);
}

#[test]
fn a_ring_loses_exactly_what_it_cannot_hold() {
    let costs = Costs { receive_frame: Duration::from_us(10_000), ..Costs::default() };
    let host = with_costs(costs);
    let receiver = Config { card: Card { receive_slots: 64, ..host.card }, ..host };
    let mut lost = [0; Place::ALL.len()];
    lost[Place::Ring as usize] = 500 - 64 - 1;
    assert_eq!(burst(receiver, 500), lost);
}

#[test]
fn a_socket_loses_exactly_what_it_cannot_hold() {
    let costs = Costs { receive_call: Duration::from_us(10_000), ..Costs::default() };
    let host = with_costs(costs);
    // A frame of 1,518 bytes takes a buffer of 2,048 bytes and its header.
    assert_eq!(true_bytes(1518), 2304);
    let buffers = Buffers { receive_bytes: 50 * 2304 + 2303, ..host.buffers };
    let mut lost = [0; Place::ALL.len()];
    lost[Place::Socket as usize] = 450;
    assert_eq!(burst(Config { buffers, ..host }, 500), lost);
}

#[test]
fn a_card_loses_what_a_slow_bus_leaves_in_its_buffer() {
    let Config { card, .. } = free();
    let bus = BusConfig::Parallel(host::preset::pci_32_33());
    let receiver = Config { card: Card { bus, receive_bytes: 8 << 10, ..card }, ..free() };
    let mut bench = pair(1500, free(), receiver);
    bench.burst(1000, 1472);
    let lost = bench.hosts().machine(1).expect("a host").counters().lost_receiving;
    assert!(lost[Place::CardBuffer as usize] > 800, "{lost:?}");
    assert_eq!(lost.iter().sum::<u64>(), lost[Place::CardBuffer as usize]);
}

#[test]
fn a_driver_queue_loses_what_a_slow_cable_leaves_in_it() {
    let cable = Cable { bits_per_s: 100_000_000, mtu: 1500 };
    let host = free();
    let buffers = Buffers { queue_frames: 10, send_bytes: 1 << 30, ..host.buffers };
    let sender = Config { buffers, ..host };
    let mut bench = Bench::new(cable, sender, free()).expect("a right host");
    bench.burst(5000, 1472);
    let counters = *bench.hosts().machine(0).expect("a host").counters();
    assert!(counters.lost_sending[Place::Queue as usize] > 3000, "{counters:?}");
    assert_eq!(counters.sent + counters.lost(Place::Queue), 5000);
    // A short send buffer makes the calls wait instead.
    let host = free();
    let buffers = Buffers { send_bytes: 16 << 10, ..host.buffers };
    let sender = Config { buffers, ..host };
    let mut bench = Bench::new(cable, sender, free()).expect("a right host");
    bench.burst(5000, 1472);
    let counters = *bench.hosts().machine(0).expect("a host").counters();
    assert_eq!((counters.sent, counters.lost(Place::Queue)), (5000, 0));
    assert!(counters.waits > 4000, "{}", counters.waits);
}

#[test]
fn a_process_beside_the_softirq_receives_more_than_one_that_shares_its_core() {
    let stream = |process| {
        let host = preset::galli(1);
        let cores = Cores { interrupts: 0, processes: vec![process] };
        let mut bench = pair(1500, preset::galli(2), Config { cores, ..host });
        let got = flat_out(&mut bench, 400);
        assert!(got.receiver.iter().all(|core| core.total() < 1.01), "{got:?}");
        got.kilohertz()
    };
    let (own, shared) = (stream(1), stream(0));
    assert!(shared < 0.6 * own, "own core {own}, shared core {shared}");
}

#[test]
fn fragments_fill_rings_and_are_one_datagram_for_the_process() {
    let mut bench = pair(1500, preset::galli(1), preset::galli(1));
    let streamed = flat_out(&mut bench, 8972);
    assert!(streamed.received > 100 && streamed.loss() == 0.0, "{streamed:?}");
    bench.drain();
    let received = bench.hosts().machine(1).expect("a host").counters().received;
    assert_eq!(received, bench.hosts().machine(0).expect("a host").counters().taken);
}

/// Two fast senders to one receiver: the switch loses frames, or stops the senders.
#[test]
fn pause_frames_move_the_loss_from_the_switch_to_the_hosts() {
    let lost = |pause| {
        let network = ethernet::Config { queue_bytes: 64 << 10, ..ethernet::Config::new(3) };
        let pause = if pause { network.lossless_pause() } else { None };
        let network = Network::new(ethernet::Config { pause, ..network }).expect("right");
        let hosts = [Some(preset::galli(1)), Some(preset::galli(1)), Some(preset::galli(1))];
        let mut hosts = Hosts::new(network, &hosts).expect("right");
        let mut agenda: Agenda<Entry> = Agenda::default();
        let mut calls = 0_u64;
        while agenda.now() < Instant::from_ps(5_000_000_000) {
            for source in [0, 1] {
                let at = agenda.now();
                let message = Message { at, source, to: 2, bytes: 1472, event: 0 };
                let payload = Payload::Message(message);
                let datagram = Datagram { source, target: 2, payload };
                calls += u64::from(hosts.send(source, datagram, &mut agenda).is_ok());
            }
            let Some(entry) = agenda.take(Instant::NEVER) else { break };
            hosts.handle(entry, &mut agenda);
            while hosts.next_report().is_some() {}
            while hosts.take(2, Class::Request, &mut agenda).is_some() {}
        }
        hosts.conserve().expect("every datagram is somewhere");
        assert!(calls > 2_000, "{calls}");
        hosts.wire().counters().lost()
    };
    let (without, with) = (lost(false), lost(true));
    assert!(without > 0 && with == 0, "{without} lost without pause, {with} with it");
}

#[test]
fn a_dead_receiver_loses_and_a_restarted_one_receives() {
    for (kind, mend) in [
        (FaultKind::Power(1), FaultKind::Restart(1)),
        (FaultKind::Host(1), FaultKind::Restart(1)),
        (FaultKind::Cable(1), FaultKind::Repair(1)),
    ] {
        let mut bench = pair(1500, preset::galli(1), preset::galli(1));
        flat_out(&mut bench, 1000);
        bench.fault(kind);
        flat_out(&mut bench, 1000);
        let dead = flat_out(&mut bench, 1000);
        assert_eq!(dead.received, 0, "{kind:?}");
        assert!(dead.lost.iter().sum::<u64>() + dead.lost_on_wire > 0, "{kind:?}");
        bench.fault(mend);
        flat_out(&mut bench, 1000);
        assert!(flat_out(&mut bench, 1000).received > 100, "{mend:?}");
        bench.drain();
        bench.hosts().conserve().expect("every datagram is somewhere");
    }
}

#[test]
fn a_dead_sender_frees_its_calls() {
    for kind in [FaultKind::Power(0), FaultKind::Host(0), FaultKind::Cable(0)] {
        let mut bench = pair(1500, preset::galli(2), preset::galli(1));
        flat_out(&mut bench, 1000);
        bench.fault(kind);
        flat_out(&mut bench, 1000);
        bench.drain();
        bench.hosts().conserve().expect("every datagram is somewhere");
        let counters = bench.hosts().machine(0).expect("a host").counters();
        let lost: u64 = counters.lost_sending.iter().sum();
        assert_eq!(counters.taken, counters.sent + lost, "{kind:?}");
    }
}

fn coalescing(draw: &mut Draw) -> Coalescing {
    match draw.below(3) {
        0 => Coalescing::Off,
        1 => {
            let events = draw.below(20) as u32;
            Coalescing::Delay { time: ns(draw.below(100_000)), events }
        }
        _ => Coalescing::Throttle { gap: ns(draw.below(100_000)) },
    }
}

/// Returns a host of any costs, buffers and rings.
fn any_host(draw: &mut Draw) -> Config {
    let mut cost = || ns(draw.below(4000));
    let costs = Costs {
        user: cost(),
        send_call: ns(10) + cost(),
        send_frame: cost(),
        receive_call: cost(),
        wake: cost(),
        interrupt: cost(),
        backlog_frame: cost(),
        softirq: cost(),
        receive_frame: cost(),
        clean_frame: cost(),
        send_byte: Duration::from_ps(draw.below(1000)),
        receive_byte: Duration::from_ps(draw.below(1000)),
        receive_frame_byte: Duration::from_ps(draw.below(500)),
    };
    let processes = (0..=draw.below(3)).map(|_| draw.below(4) as u32).collect();
    let mut room = |most: u64| 1 + draw.below(most);
    let buffers = Buffers {
        send_bytes: room(100_000),
        receive_bytes: 20_000 + room(200_000),
        queue_frames: room(200) as u32,
    };
    let (transmit_slots, receive_slots) = (room(100) as u32, room(100) as u32);
    let driver = match draw.below(2) {
        0 => Driver::Poll,
        _ => Driver::Backlog { frames: 1 + draw.below(100) as u32 },
    };
    let bus = match draw.below(2) {
        0 => BusConfig::Parallel(host::preset::pci_64_66()),
        _ => preset::galli(1).card.bus,
    };
    let card = Card {
        bus,
        transmit_slots,
        receive_slots,
        receive_bytes: 10_000 + draw.below(100_000),
        delay: ns(draw.below(5000)),
        receive: coalescing(draw),
        transmit: coalescing(draw),
    };
    let cores = Cores { interrupts: draw.below(4) as u32, processes };
    Config { costs, cores, buffers, driver, card }
}

/// Streams through two random hosts with faults; returns every number of the run.
fn any_run(seed: u64) -> Vec<Streamed> {
    let mut draw = Draw::new(seed);
    let (sender, receiver) = (any_host(&mut draw), any_host(&mut draw));
    let faults = ethernet::Faults { bit_error_rate: 1e-6, loss: 0.01 };
    let mtu = 1500 + 7500 * draw.below(2) as u32;
    let network = ethernet::Config { faults, seed, mtu, ..ethernet::Config::new(2) };
    let mut bench = Bench::on(network, sender, receiver).expect("a right host");
    let mut all = Vec::new();
    for _ in 0..6 {
        let bytes = 1 + draw.below(12_000) as u32;
        let period = ns(draw.below(2) * draw.below(20_000));
        all.push(bench.stream(&Stream { bytes, period, length: length() }));
        bench.hosts().conserve().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let node = draw.below(2) as u32;
        let kinds = [FaultKind::Power(node), FaultKind::Host(node), FaultKind::Cable(node)];
        if draw.below(3) == 0 {
            bench.fault(kinds[draw.below(3) as usize]);
            bench.fault(FaultKind::Repair(node));
            bench.fault(FaultKind::Restart(node));
        }
    }
    bench.drain();
    bench.hosts().conserve().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let machines = [0, 1].map(|node| *bench.hosts().machine(node).expect("a host").counters());
    let lost = |counts: &[u64]| counts.iter().sum::<u64>();
    let [first, second] = machines;
    assert_eq!(first.taken, first.sent + lost(&first.lost_sending), "seed {seed}");
    assert_eq!(second.arrived, second.received + lost(&second.lost_receiving), "seed {seed}");
    all
}

#[test]
fn every_datagram_is_in_one_place_on_random_hosts() {
    let seed = test_seed!(1);
    let mut received = 0;
    for seed in seed..seed + test_count!(40) {
        let run = any_run(seed);
        received += run.iter().map(|streamed| streamed.received).sum::<u64>();
        assert_eq!(any_run(seed), run, "seed {seed} does not repeat");
    }
    assert!(received > 1000, "{received}");
}

#[test]
fn a_wrong_host_is_answered_with_its_correction() {
    let host = preset::galli(1);
    let cores = |processes| Cores { interrupts: 0, processes };
    let buffers = |receive_bytes| Buffers { receive_bytes, ..host.buffers };
    for (wrong, says) in [
        (Config { cores: cores(vec![]), ..host.clone() }, "needs a process"),
        (Config { cores: cores(vec![999]), ..host.clone() }, "at most 256 cores"),
        (Config { costs: Costs::default(), ..host.clone() }, "write 10.000 ns or more"),
        (Config { buffers: buffers(100), ..host.clone() }, "which takes 2304"),
        (Config { driver: Driver::Backlog { frames: 0 }, ..host.clone() }, "a backlog of 0"),
        (
            Config { card: Card { receive_slots: 0, ..host.card }, ..host.clone() },
            "1 to 1048576 slots",
        ),
        (Config { card: Card { receive_bytes: 0, ..host.card }, ..host.clone() }, "holds no frame"),
    ] {
        let cable = Cable { bits_per_s: TEN_GIGABITS, mtu: 1500 };
        let error = Bench::new(cable, wrong, host.clone()).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
}
