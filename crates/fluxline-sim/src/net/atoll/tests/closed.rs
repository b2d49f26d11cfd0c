//! Times and rates that have a closed form.

use super::*;
use crate::Clock;

#[test]
fn one_message_takes_27_clocks_for_each_chip_the_cables_and_its_symbols() {
    let mut draw = Draw::new(test_seed!(1));
    for _ in 0..200 {
        let mut config = Config::new(line(10));
        config.clock = Clock::from_hertz([243_000_000, 250_000_000][draw.below(2) as usize]);
        config.cable = Duration::from_ns(draw.below(100));
        config.fifo_bytes = 512;
        let (links, bytes) = (draw.below(10) as u32, draw.below(700) as u32);
        let (cable, clock) = (config.cable_clocks(), config.clock);
        let mut bench = Bench::new(config);
        bench.send(0, parcel(links, bytes, 1));
        bench.run(Instant::NEVER);
        // By hand: a chip more than cables, then 8 bytes of header and 8 symbols for each packet.
        let packets = (u64::from(bytes) + 8).div_ceil(64);
        let route = if packets > 1 { u64::from(links) } else { 0 };
        let links_64 = u64::from(links);
        let clocks = (links_64 + 1) * 27 + links_64 * cable + u64::from(bytes) + 8 + packets * 8;
        let expected = clock.at(clocks + route);
        assert_eq!(bench.arrived, [Arrival { number: 1, node: links, at: expected }]);
        assert_eq!(Instant::START + bench.network.zero_load(links, bytes), expected);
        bench.check();
    }
}

#[test]
fn a_link_carries_64_bytes_in_72_clocks_whatever_its_clock_and_length() {
    for (megahertz, ns) in [(250, 25), (243, 25), (125, 100), (500, 200)] {
        let mut config = Config::new(line(3));
        config.clock = Clock::from_hertz(megahertz * 1_000_000);
        config.cable = Duration::from_ns(ns);
        config.fifo_bytes = 1024;
        config.window = 8;
        let mut bench = Bench::new(config);
        bench.send(0, parcel(2, (1 << 20) - 8, 1));
        bench.run(Instant::NEVER);
        let rate = f64::from(1 << 20) / (bench.arrived[0].at.as_ps() as f64 / 1e6);
        let expected = megahertz as f64 * 64.0 / 72.0;
        assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} MB/s, not {expected}");
    }
}

#[test]
fn a_small_retransmission_buffer_limits_a_long_link_to_a_window_a_round_trip() {
    let mut config = Config::new(line(2));
    (config.window, config.cable, config.fifo_bytes) = (1, Duration::from_ns(400), 512);
    let round_trip = 72 + 2 * config.cable_clocks() + u64::from(config.ack_clocks);
    let mut bench = Bench::new(config);
    bench.send(0, parcel(1, 64 * 1000 - 8, 1));
    bench.run(Instant::NEVER);
    let clocks = bench.network.ticks.from(bench.arrived[0].at);
    let head = 2 * 27 + bench.network.config.cable_clocks();
    assert_eq!(clocks, head + 999 * round_trip + 1 + 72, "the head has a route symbol more");
}

#[test]
fn four_processes_share_a_link_fairly_message_by_message() {
    let mut bench = Bench::new(Config::new(line(2)));
    for number in 0..40 {
        for port in 0..4 {
            bench.send(
                0,
                Parcel { target: 1, port, bytes: 1000, number: number * 4 + u64::from(port) },
            );
        }
    }
    bench.run(Instant::NEVER);
    // Their first messages come in the order of the ports, and so do all others.
    let numbers: Vec<u64> = bench.arrived.iter().map(|arrival| arrival.number).collect();
    assert_eq!(numbers, (0..160).collect::<Vec<u64>>());
    assert_eq!(bench.network.deadlock(), None);
}

#[test]
fn one_node_uses_its_four_links_at_once() {
    let mut bench = Bench::new(Config::new(Wiring::full(5).expect("five nodes")));
    for port in 0..4 {
        let target = u32::from(port) + 1;
        bench.send(0, Parcel { target, port, bytes: 65_536 - 8, number: u64::from(port) });
    }
    bench.run(Instant::NEVER);
    let alone = Instant::START + bench.network.zero_load(1, 65_536 - 8);
    assert_eq!(bench.arrived.len(), 4);
    assert!(bench.arrived.iter().all(|arrival| arrival.at == alone), "no worm delays another");
}

#[test]
fn a_full_queue_rejects_a_message_and_reports_space() {
    let mut config = Config::new(line(2));
    config.queue_messages = 2;
    let mut bench = Bench::new(config);
    let mut rejected = 0;
    for number in 0..5 {
        let result = bench.network.send(0, parcel(1, 100, number), &mut bench.agenda);
        rejected += u32::from(result.is_err());
    }
    assert_eq!(rejected, 3, "none has left its port yet");
    let mut has_space = false;
    while let Some(Due::Network(entry)) = bench.agenda.take(Instant::NEVER) {
        bench.network.handle(entry, &mut bench.agenda);
        while let Some(report) = bench.network.next_report() {
            has_space |= report == Report::Space { node: 0 };
        }
    }
    assert!(has_space);
    let wrong = Parcel { target: 2, port: 0, bytes: 1, number: 0 };
    let refused = bench.network.send(0, wrong, &mut bench.agenda).expect_err("no node 2");
    assert_eq!(refused.why, crate::core::interconnect::Refusal::Never);
    let wrong = Parcel { target: 1, port: 4, bytes: 1, number: 0 };
    assert!(bench.network.send(0, wrong, &mut bench.agenda).is_err(), "ports are 0 to 3");
    let wrong = Parcel { target: 1, port: 0, bytes: u32::MAX, number: 0 };
    assert!(bench.network.send(0, wrong, &mut bench.agenda).is_err(), "no room for a header");
}
