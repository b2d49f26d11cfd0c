//! Bit errors, deadlocks, cut cables and dead nodes.

use super::*;
use crate::core::fault::FaultKind;

/// Sends from all nodes to random targets, each message with a number of its own.
fn load(bench: &mut Bench, draw: &mut Draw, count: u64) {
    let nodes = u64::from(bench.network.nodes());
    for number in 0..count {
        let source = draw.below(nodes) as u32;
        let (target, port) = (draw.below(nodes) as u32, draw.below(4) as u8);
        let parcel = Parcel { target, port, bytes: draw.below(2000) as u32, number };
        // A full queue, or a dead node: not sent.
        let _ = bench.network.send(source, parcel, &mut bench.agenda);
    }
}

fn grid(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: false }).expect("a grid")
}

#[test]
fn with_bit_errors_every_message_arrives_once_and_in_order() {
    let seed = test_seed!(7);
    for bit_error_rate in [1e-9, 1e-6, 1e-5, 1e-4, 1e-3] {
        let mut config = Config::new(grid(3, 3));
        (config.bit_error_rate, config.seed) = (bit_error_rate, seed);
        let mut bench = Bench::new(config);
        let mut sent = Vec::new();
        for number in 0..60 {
            for node in 0..9_u32 {
                let target = (node * 2 + 1) % 9;
                let parcel = Parcel { target, port: (number % 2) as u8, bytes: 700, number };
                let send = bench.network.send(node, parcel, &mut bench.agenda);
                sent.extend(send.ok());
            }
            let until = bench.agenda.now() + Duration::from_us(30);
            bench.run(until);
            bench.check();
        }
        bench.run(Instant::NEVER);
        assert_eq!(bench.done.len(), sent.len(), "{bit_error_rate}");
        assert_eq!(bench.lost.len(), 0);
        for node in 0..9 {
            for parity in [0, 1] {
                let of = bench.arrived.iter().filter(|arrival| arrival.node == node);
                let numbers: Vec<u64> =
                    of.map(|arrival| arrival.number).filter(|of| of % 2 == parity).collect();
                assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice: {numbers:?}");
            }
        }
        let counts = bench.network.counts();
        println!("{bit_error_rate}: {counts:?}");
        if bit_error_rate >= 1e-4 {
            // 708 bytes in 12 packets of 8 more symbols and a short route: 603 bits each.
            let expected = 1.0 - (-603.0 * bit_error_rate).exp();
            let found = counts.damaged as f64 / (counts.hops + counts.damaged) as f64;
            assert!((found / expected - 1.0).abs() < 0.1, "{found}, not {expected}");
            assert!(counts.repeated >= counts.damaged);
        }
    }
}

#[test]
fn an_error_costs_a_round_trip_and_the_packet() {
    // Of 20 seeds, those with one error in the single packet.
    let mut found = 0;
    for seed in 0..20 {
        let mut config = Config::new(line(2));
        (config.bit_error_rate, config.seed) = (1e-3, seed);
        let round_trip = 2 * config.cable_clocks() + u64::from(config.ack_clocks);
        let mut bench = Bench::new(config);
        bench.send(0, parcel(1, 40, 1));
        bench.run(Instant::NEVER);
        let damaged = bench.network.counts().damaged;
        found += damaged;
        let alone = bench.network.ticks.from(Instant::START + bench.network.zero_load(1, 40));
        let late = bench.network.ticks.from(bench.arrived[0].at) - alone;
        assert_eq!(late, damaged * (40 + 8 + 8 + 1 + round_trip), "seed {seed}");
    }
    assert!(found > 0);
}

/// Long messages over two links each, all at once: on a ring each worm holds one link and waits for
/// the next.
fn circle(wiring: Wiring) -> Bench {
    let nodes = wiring.nodes();
    let mut bench = Bench::new(Config::new(wiring));
    for node in 0..nodes {
        bench.send(node, parcel((node + 2) % nodes, 10_000, node.into()));
    }
    bench.run(Instant::NEVER);
    bench.check();
    bench
}

#[test]
fn a_circle_of_worms_is_reported_with_its_inputs() {
    let mut ring = circle(Wiring::ring(5).expect("a ring"));
    let deadlock = ring.network.deadlock().expect("all wait");
    // From link to network port to link: a worm at a link waits for the output of a local one.
    assert_eq!(deadlock.cycle.len(), 10, "{deadlock}");
    assert!(ring.arrived.is_empty());
    assert!(deadlock.to_string().contains("circle of (node, input): (0, 1)"), "{deadlock}");
    assert_eq!(ring.network.conserve().expect_err("stuck"), deadlock.to_string());
    // A cut cable removes the worms on it, and the others go on.
    assert!(ring.network.set_cable(2, 0, Cut::Yes, &mut ring.agenda));
    ring.follow();
    ring.run(Instant::NEVER);
    ring.network.conserve().expect("nothing waits");
    assert_eq!((ring.lost.len(), ring.arrived.len()), (2, 3));
}

#[test]
fn dimension_order_on_a_grid_has_no_circles() {
    let bench = circle(grid(5, 2));
    assert_eq!(bench.network.deadlock(), None);
    assert_eq!(bench.arrived.len(), 10);
}

#[test]
fn under_random_faults_every_message_ends_exactly_once() {
    let seed = test_seed!(300);
    for seed in seed..seed + test_count!(40) {
        println!("seed {seed}");
        let run = |seed| {
            let mut draw = Draw::new(seed);
            let mut config = Config::new(random_wiring(&mut draw));
            config.bit_error_rate = [0.0, 1e-4][draw.below(2) as usize];
            let mut bench = Bench::new(config);
            let nodes = u64::from(bench.network.nodes());
            for round in 0..30 {
                load(&mut bench, &mut draw, 20);
                bench.run(bench.agenda.now() + Duration::from_ns(draw.below(8_000)));
                let node = draw.below(nodes) as u32;
                match draw.below(8) {
                    0 if round > 20 => {
                        bench.network.fault(FaultKind::Power(node), &mut bench.agenda);
                    }
                    1 => {
                        bench.network.fault(FaultKind::Cable(node), &mut bench.agenda);
                    }
                    2 => {
                        bench.network.fault(FaultKind::Repair(node), &mut bench.agenda);
                    }
                    kind => {
                        let cut = if kind % 2 == 0 { Cut::Yes } else { Cut::No };
                        let port = draw.below(4) as u32;
                        bench.network.set_cable(node, port, cut, &mut bench.agenda);
                    }
                }
                bench.follow();
                bench.check();
            }
            bench.run(Instant::NEVER);
            bench.check();
            bench
        };
        let bench = run(seed);
        let counts = bench.network.counts();
        let mut ended: Vec<u64> = bench.done.iter().chain(&bench.lost).copied().collect();
        ended.sort_unstable();
        let is_stuck = bench.network.deadlock().is_some();
        assert!(ended.is_sorted_by(|a, b| a < b), "a message ended twice");
        assert!(is_stuck || ended.len() as u64 == counts.sent, "{counts:?}");
        assert_eq!(run(seed).fingerprint, bench.fingerprint, "the same again");
    }
}

#[test]
fn traffic_flows_again_after_a_repair() {
    let mut bench = Bench::new(Config::new(line(3)));
    bench.send(0, parcel(2, 100_000, 1));
    bench.run(Instant::from_ps(50_000_000));
    assert!(bench.network.fault(FaultKind::Cable(0), &mut bench.agenda));
    bench.follow();
    assert_eq!(bench.lost, [1]);
    bench.send(0, parcel(2, 10, 2));
    bench.send(1, parcel(2, 10, 3));
    bench.run(Instant::from_ps(100_000_000));
    assert_eq!((bench.lost.len(), bench.arrived.len()), (2, 1));
    assert!(bench.network.fault(FaultKind::Repair(0), &mut bench.agenda));
    bench.send(0, parcel(2, 10, 4));
    bench.run(Instant::NEVER);
    let numbers: Vec<u64> = bench.arrived.iter().map(|arrival| arrival.number).collect();
    assert_eq!(numbers, [3, 4]);
    // A fault of a node that does not exist, or of a crashed program, changes nothing here.
    assert!(!bench.network.fault(FaultKind::Cable(3), &mut bench.agenda));
    assert!(!bench.network.fault(FaultKind::Host(1), &mut bench.agenda));
}
