//! SCI ringlets and tori against what can be calculated of them. Expectations that are only
//! remembered (BACKGROUND) are tested as they came out; a comment says what was expected.

use crate::support::sci_load::{Load, Source, Target, wide};
use fluxline_sim::Agenda;
use fluxline_sim::net::sci::{
    Bus, Command, Config, Entry, Faults, Loss, Network, NodeId, NodeIndex, Packet, Priority,
    Report, Retry, Status, Topology,
};

/// Sends a symbol time that a ring of any size can carry when all targets are as likely: a send of
/// 40 symbols and an echo of 4, an idle behind each.
const BOUND_64: f64 = 2.0 / (41.0 + 5.0);

fn saturated(nodes: u32, flow_control: bool) -> f64 {
    let mut load = Load::uniform(&wide(nodes, flow_control), None, Command::Move64, 7);
    load.run(20_000);
    let before = load.total();
    load.run(120_000);
    (load.total() - before) as f64 / 100_000.0 / BOUND_64
}

#[test]
fn a_uniform_load_without_flow_control_fills_the_ring_to_its_bound_and_never_beyond() {
    let shares: Vec<f64> = [2, 4, 8, 16].map(|nodes| saturated(nodes, false)).to_vec();
    println!("share of the bound without flow control, 2 4 8 16 nodes: {shares:.3?}");
    assert!(shares.iter().all(|&share| (0.95..1.005).contains(&share)), "{shares:.3?}");
    let (low, high) =
        (shares.iter().cloned().fold(2.0, f64::min), shares.iter().cloned().fold(0.0, f64::max));
    assert!(high - low < 0.03, "{shares:.3?}");
}

/// Expected (BACKGROUND): 5 to 10 % with four nodes, 10 to 30 % with sixteen. It comes out as 18 %
/// for both: what turns cost in which every node sends once.
#[test]
fn flow_control_costs_a_part_of_the_bound() {
    let shares: Vec<f64> = [2, 4, 8, 16].map(|nodes| saturated(nodes, true)).to_vec();
    println!("share of the bound with flow control, 2 4 8 16 nodes: {shares:.3?}");
    assert!(shares.iter().all(|&share| (0.5..1.005).contains(&share)), "{shares:.3?}");
}

fn starvation(flow_control: bool) -> Vec<u64> {
    let to = |nodes: &[u32]| Source { target: Target::Among(nodes.to_vec()), rate: None };
    let sources = vec![to(&[1, 2, 3]), to(&[2, 3]), to(&[1, 3]), to(&[1, 2])];
    let mut load = Load::new(&wide(4, flow_control), sources, Command::Move64, 3);
    load.run(200_000);
    load.received_from.clone()
}

/// Expected (BACKGROUND-H): with flow control all alike within 10 %.
#[test]
fn a_node_that_nobody_sends_to_starves_without_flow_control_and_not_with_it() {
    let (without, with) = (starvation(false), starvation(true));
    println!("packets of nodes 0 to 3 without flow control {without:?}, with {with:?}");
    let mean = |counts: &[u64]| counts.iter().sum::<u64>() as f64 / 4.0;
    assert!((without[0] as f64) < 0.1 * mean(&without), "{without:?}");
    assert!(with.iter().all(|&one| (one as f64 / mean(&with) - 1.0).abs() < 0.01), "{with:?}");
}

/// Expected (BACKGROUND-M): nothing at light load, costs only near saturation (0.0054 a node).
#[test]
fn flow_control_costs_little_delay_below_saturation() {
    let delay = |rate: f64, flow_control: bool| {
        let config = wide(8, flow_control);
        let mut load = Load::uniform(&config, Some(rate), Command::Move64, 5);
        load.run(200_000);
        (0..8).map(|node| load.mean_delay(node)).sum::<f64>() / 8.0
    };
    for (rate, most) in [(0.0002, 1.02), (0.001, 1.05), (0.003, 1.15)] {
        let (without, with) = (delay(rate, false), delay(rate, true));
        println!("rate {rate}: delay without flow control {without:.1}, with {with:.1} symbols");
        assert!(with < without * most, "rate {rate}: {without:.1}, {with:.1}");
    }
}

fn hot_sender(flow_control: bool) -> Vec<f64> {
    let nodes = 4;
    let mut sources = vec![Source { target: Target::Uniform, rate: Some(0.004) }; nodes];
    sources[0].rate = None;
    let mut load = Load::new(&wide(nodes as u32, flow_control), sources, Command::Move64, 11);
    load.run(400_000);
    (0..nodes).map(|node| load.mean_delay(node)).collect()
}

#[test]
fn a_hot_sender_hurts_its_downstream_neighbour_most_and_flow_control_evens_that_out() {
    let (without, with) = (hot_sender(false), hot_sender(true));
    println!("mean delay behind a hot node 0 without flow control {without:.0?}, with {with:.0?}");
    assert!(without[1] > without[2] && without[2] > without[3], "{without:.1?}");
    let spread = |delays: &[f64]| delays[1] / delays[3];
    assert!(spread(&with) < 1.3 && spread(&without) > 1.5, "{without:.1?} {with:.1?}");
}

fn hot_receiver(retry: Retry) -> (Vec<u64>, u64, u64) {
    let config = Config { request_queue: 2, retry, unacknowledged: 2, ..wide(8, true) };
    let mut sources = vec![Source { target: Target::Node(0), rate: None }; 8];
    sources[0].target = Target::Silent;
    let mut load = Load::new(&config, sources, Command::Move64, 5);
    load.service = 200;
    load.run(400_000);
    let longest = load.delay_max.iter().copied().max().unwrap_or(0);
    (load.received_from[1..].to_vec(), load.network.total().retries, longest)
}

#[test]
fn ageing_serves_the_senders_of_a_hot_receiver_alike() {
    let (plain, plain_retries, plain_wait) = hot_receiver(Retry::Plain { delay: 0 });
    let (aged, aged_retries, aged_wait) = hot_receiver(Retry::Aged);
    println!("hot receiver, plain: {plain:?}, {plain_retries} retries, longest {plain_wait}");
    println!("hot receiver, aged: {aged:?}, {aged_retries} retries, longest {aged_wait}");
    let ratio = |counts: &[u64]| {
        let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        *high as f64 / (*low).max(1) as f64
    };
    assert!(ratio(&aged) <= 2.0, "{aged:?}");
}

fn packet(from: u16, to: u16, command: Command) -> Packet {
    let (target, source) = (NodeId(to), NodeId(from));
    let status = Status::Normal;
    Packet { target, source, command, transaction: 0, offset: 0, status, data: Vec::new() }
}

/// Runs to the end; all reports with their ticks.
fn to_the_end(network: &mut Network, agenda: &mut Agenda<Entry>) -> Vec<(u64, Report)> {
    let mut reports = Vec::new();
    while let Some(entry) = agenda.take(fluxline_sim::Instant::NEVER) {
        network.handle(entry, agenda);
        while let Some(report) = network.next_report() {
            reports.push((network.config().clock.tick_from(agenda.now()), report));
        }
    }
    network.check_conservation().expect("all is accounted for");
    reports
}

#[test]
fn a_packet_to_nobody_comes_back_as_a_none_echo_within_two_circulations() {
    let mut network = Network::new(&Config::ring(8)).expect("a ring");
    let mut agenda = Agenda::default();
    let sent = network.send(NodeIndex(3), packet(3, 99, Command::Move64), &mut agenda);
    let send = sent.expect("space");
    let reports = to_the_end(&mut network, &mut agenda);
    let (tick, report) = &reports[0];
    assert_eq!(*report, Report::Lost { node: NodeIndex(3), send, why: Loss::NoSuchNode });
    assert!(*tick <= 2 * 8 * 4 + 40 + 10, "{tick}");
    assert_eq!((reports.len(), network.pending()), (1, 0));
}

#[test]
fn a_cut_cable_and_a_dead_node_end_every_send_with_a_report() {
    for kill in [false, true] {
        let mut network = Network::new(&Config::ring(6)).expect("a ring");
        let mut agenda = Agenda::default();
        let mut open = 0;
        for node in 0..6_u16 {
            for step in [1, 3, 5] {
                let to = (node + step) % 6;
                let packet = packet(node, to, Command::Move64);
                open +=
                    usize::from(network.send(NodeIndex(node.into()), packet, &mut agenda).is_ok());
            }
        }
        match kill {
            true => network.kill_node(NodeIndex(2), &mut agenda),
            false => network.cut_cable(NodeIndex(2), 0, &mut agenda),
        }
        let reports = to_the_end(&mut network, &mut agenda);
        let ends = reports
            .iter()
            .filter(|(_, report)| matches!(report, Report::Done { .. } | Report::Lost { .. }));
        assert_eq!((ends.count(), network.pending()), (open, 0), "kill {kill}");
    }
}

#[test]
fn lost_go_bits_are_put_in_again_by_the_scrubber() {
    let mut network = Network::new(&Config::ring(5)).expect("a ring");
    let mut agenda = Agenda::default();
    network.lose_go_bits();
    for node in 0..5_u16 {
        let packet = packet(node, (node + 2) % 5, Command::Move64);
        network.send(NodeIndex(node.into()), packet, &mut agenda).expect("space");
    }
    let reports = to_the_end(&mut network, &mut agenda);
    let done = reports.iter().filter(|(_, report)| matches!(report, Report::Done { .. }));
    assert_eq!((done.count(), network.total().gos_injected), (5, 1));
}

#[test]
fn high_sends_go_first_and_leave_a_tenth_to_the_low_ones() {
    let config = Config { send_queue: 8, unacknowledged: 8, ..wide(4, true) };
    let mut network = Network::new(&config).expect("a ring");
    let mut agenda: Agenda<Entry> = Agenda::default();
    let end = network.config().clock.at(100_000);
    let (mut high, mut done, mut step) = (std::collections::BTreeSet::new(), [0_u32; 2], 0);
    loop {
        for (node, priority) in (0..4).flat_map(|n| [(n, Priority::Low), (n, Priority::High)]) {
            step = (step + 1) % 3;
            let packet = packet(node, (node + 1 + step) % 4, Command::Move64);
            let sent = network.send_at(NodeIndex(node.into()), packet, priority, &mut agenda);
            high.extend(sent.ok().filter(|_| priority == Priority::High));
        }
        let Some(entry) = agenda.take(end) else { break };
        network.handle(entry, &mut agenda);
        while let Some(report) = network.next_report() {
            match report {
                Report::Done { send, .. } => done[usize::from(high.remove(&send))] += 1,
                Report::Received { node, .. } => drop(network.take_request(node, &mut agenda)),
                _ => {}
            }
        }
    }
    let share = f64::from(done[0]) / f64::from(done[0] + done[1]);
    println!("low and high sends done {done:?}: {:.1} % low", 100.0 * share);
    assert!((0.05..0.2).contains(&share), "{done:?}");
}

/// Node 0 always has sends of both priorities and classes; node 1 takes what comes.
#[test]
fn no_class_starves_behind_high_sends() {
    let config = Config { send_queue: 8, ..wide(3, true) };
    let mut network = Network::new(&config).expect("a ring");
    let mut agenda: Agenda<Entry> = Agenda::default();
    let end = network.config().clock.at(50_000);
    let kinds = [Priority::Low, Priority::High]
        .map(|priority| [Command::Move64, Command::Response64].map(|command| (priority, command)));
    let (mut sends, mut done) = (std::collections::BTreeMap::new(), [0_u32; 4]);
    loop {
        for (kind, &(priority, command)) in kinds.iter().flatten().enumerate() {
            let packet = packet(0, 1, command);
            let sent = network.send_at(NodeIndex(0), packet, priority, &mut agenda);
            sends.extend(sent.ok().map(|send| (send, kind)));
        }
        let Some(entry) = agenda.take(end) else { break };
        network.handle(entry, &mut agenda);
        while let Some(report) = network.next_report() {
            match report {
                Report::Done { send, .. } => done[sends[&send]] += 1,
                Report::Received { node, response: false } => {
                    drop(network.take_request(node, &mut agenda));
                }
                Report::Received { node, .. } => drop(network.take_response(node, &mut agenda)),
                _ => {}
            }
        }
    }
    println!("low requests and responses, high requests and responses done: {done:?}");
    assert!(done[0].abs_diff(done[1]) <= 2 && done[0] > 30, "{done:?}");
    assert!(done[2].abs_diff(done[3]) <= 2, "{done:?}");
}

#[test]
fn events_reach_their_node_past_full_queues_and_end_without_an_echo() {
    let config = Config { request_queue: 1, ..Config::ring(4) };
    let mut network = Network::new(&config).expect("a ring");
    let mut agenda = Agenda::default();
    for (to, command) in [(2, Command::Write64), (2, Command::Event00), (77, Command::Event00)] {
        network.send(NodeIndex(0), packet(0, to, command), &mut agenda).expect("space");
    }
    let reports = to_the_end(&mut network, &mut agenda);
    let count = |what: fn(&Report) -> bool| reports.iter().filter(|(_, r)| what(r)).count();
    assert_eq!(count(|report| matches!(report, Report::Done { .. })), 3);
    assert_eq!(count(|report| matches!(report, Report::Event { .. })), 1);
    let total = network.total();
    assert_eq!((total.events, total.echoes_made, total.stale_sends), (2, 1, 1));
    assert_eq!(network.pending(), 0);
}

/// Every node one event to every other; each arrives once, also where its way turns.
#[test]
fn events_find_their_way_across_tori_and_switches() {
    let switch = Topology::switch(3, 2);
    for topology in [Topology::Torus { sizes: vec![3, 3] }, switch] {
        let hosts: u16 = if matches!(topology, Topology::Torus { .. }) { 9 } else { 6 };
        let config = Config { send_queue: 16, ..Config::ring(2).joined(topology) };
        let mut network = Network::new(&config).expect("a network");
        let mut agenda = Agenda::default();
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if from != to {
                let event = packet(from, to, Command::Event64);
                network.send(NodeIndex(from.into()), event, &mut agenda).expect("space");
            }
        }
        let mut came: Vec<(u32, u16)> = Vec::new();
        for (_, report) in to_the_end(&mut network, &mut agenda) {
            match report {
                Report::Event { node, packet } => came.push((node.0, packet.source.0)),
                Report::Done { .. } | Report::Space { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        came.sort_unstable();
        let all = (0..hosts).flat_map(|to| (0..hosts).map(move |from| (u32::from(to), from)));
        let expected: Vec<(u32, u16)> = all.filter(|pair| pair.0 != u32::from(pair.1)).collect();
        assert_eq!(came, expected);
        assert_eq!(network.pending(), 0);
    }
}

/// A slow bus and a flood: packets without room are dropped, and each drop is reported.
#[test]
fn events_that_flood_a_bus_are_delivered_or_reported_dropped_one_by_one() {
    let bus = Some(Bus { bytes_per_second: 1_000_000, delay: 10 });
    let topology = Topology::Torus { sizes: vec![4, 2] };
    let config = Config { bus, send_queue: 200, ..Config::ring(2).joined(topology) };
    let mut network = Network::new(&config).expect("a torus");
    let mut agenda: Agenda<Entry> = Agenda::default();
    // Three nodes flood one, whose bus is as slow as each of theirs.
    let mut sent = 0;
    for _ in 0..150 {
        for from in [0, 1, 3_u16] {
            let event = packet(from, 2, Command::Event00);
            sent += u64::from(network.send(NodeIndex(from.into()), event, &mut agenda).is_ok());
        }
    }
    let reports = to_the_end(&mut network, &mut agenda);
    let count = |what: fn(&Report) -> bool| {
        reports.iter().filter(|(_, report)| what(report)).count() as u64
    };
    let came = count(|report| matches!(report, Report::Event { .. }));
    let dropped = count(|report| matches!(report, Report::Dropped { why: Loss::NoPlace, .. }));
    println!("{sent} events sent, {came} came, {dropped} dropped");
    assert!(dropped > 0 && came > 0);
    assert_eq!((came + dropped, network.pending()), (sent, 0));
}

/// Events, strobes and requests, wrong bits, and a cable or a node that goes in the middle.
fn broken_world_with_events(seed: u64) {
    let faults = Faults { bit_error_rate: [0.0, 1e-4][(seed % 2) as usize], seed };
    let is_torus = seed % 4 == 3;
    let base = if is_torus { torus(&[3, 3], true) } else { Config::ring(2 + (seed % 7) as u32) };
    let queues = Config { request_queue: 1000, response_queue: 1000, send_queue: 200, ..base };
    let config = Config { faults, ..queues };
    let nodes = config.addresses.len() as u64;
    let mut network = Network::new(&config).expect("a network");
    let mut agenda: Agenda<Entry> = Agenda::default();
    let mut draw = fluxline_core::random::Draw::new(seed);
    let commands = [
        Command::Event00,
        Command::Strobe,
        Command::Event256,
        Command::Event16,
        Command::Move64,
        Command::Response16,
    ];
    let (mut open, mut ended) = (0, 0);
    for step in 0..200 {
        let from = draw.below(nodes);
        let to = (from + 1 + draw.below(nodes - 1)) % nodes;
        let command = commands[draw.below(6) as usize];
        let sent = network.send(
            NodeIndex(from as u32),
            packet(from as u16, to as u16, command),
            &mut agenda,
        );
        open += usize::from(sent.is_ok());
        let node = NodeIndex(draw.below(nodes) as u32);
        match (step, seed % 3) {
            (100, 0) => network.kill_node(node, &mut agenda),
            (100, 1) => network.cut_cable(node, 0, &mut agenda),
            _ => {}
        }
        let until = config.clock.at(step * 15);
        while let Some(entry) = agenda.take(until) {
            network.handle(entry, &mut agenda);
        }
        network.check_conservation().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let rest = to_the_end(&mut network, &mut agenda).into_iter().map(|(_, report)| report);
    let reports = rest.chain(std::iter::from_fn(|| network.next_report()));
    for report in reports {
        ended += usize::from(matches!(report, Report::Done { .. } | Report::Lost { .. }));
    }
    assert_eq!((ended, network.pending()), (open, 0), "seed {seed}");
}

#[test]
fn with_events_among_them_every_send_still_ends_once_and_all_is_accounted_for() {
    (0..90).for_each(broken_world_with_events);
}

#[test]
fn a_strobe_is_noted_by_every_node_it_passes_and_by_its_sender_at_last() {
    let mut network = Network::new(&Config::ring(5)).expect("a ring");
    let mut agenda = Agenda::default();
    let strobe = Packet { offset: 77, ..packet(3, 0, Command::Strobe) };
    network.send(NodeIndex(3), strobe, &mut agenda).expect("space");
    let mut noted = Vec::new();
    for (_, report) in to_the_end(&mut network, &mut agenda) {
        if let Report::Strobe { node, passage } = report {
            assert_eq!((passage.source, passage.number), (NodeId(3), 77));
            assert_eq!((passage.delayed, passage.waited), (0, 0));
            noted.push((node.0, passage.arrived));
        }
    }
    // It starts in symbol 1; a hop has 4.
    assert_eq!(noted, [(4, 5), (0, 9), (1, 13), (2, 17), (3, 21)]);
    let total = network.total();
    assert_eq!((total.events, total.events_taken, total.stale_sends), (1, 1, 0));
}

#[test]
fn whatever_breaks_when_every_send_ends_in_one_report() {
    for seed in 0..40_u64 {
        let nodes = 2 + (seed % 7) as u32;
        let faults = Faults { bit_error_rate: [0.0, 1e-4][(seed % 2) as usize], seed };
        let retry = if seed % 3 == 0 { Retry::Aged } else { Retry::Plain { delay: 20 } };
        let config = Config { faults, retry, request_queue: 2, ..Config::ring(nodes) };
        let mut load = Load::uniform(&config, Some(0.01), Command::Write64, seed);
        load.service = 60;
        load.run(2_000 + 13 * seed);
        let node = NodeIndex((seed % u64::from(nodes)) as u32);
        match seed % 3 {
            0 => load.network.kill_node(node, &mut load.agenda),
            _ => load.network.cut_cable(node, 0, &mut load.agenda),
        }
        load.drain();
        let left = (load.open(), load.network.pending());
        assert_eq!(left, (0, 0), "seed {seed}");
        assert!(load.lost > 0, "seed {seed}");
    }
}

/// After a lost echo, the arrival of the packet is unknown: the received packets lie between those
/// done and those done or lost.
#[test]
fn in_200_worlds_of_bit_errors_and_breaks_every_send_ends_once() {
    for seed in 0..200_u64 {
        let rate = [0.0, 1e-6, 1e-5, 1e-4, 1e-3][(seed % 5) as usize];
        let faults = Faults { bit_error_rate: rate, seed };
        let is_torus = seed % 4 == 3;
        let nodes = 2 + (seed % 7) as u32;
        let base = if is_torus { torus(&[3, 3], true) } else { Config::ring(nodes) };
        let count = base.addresses.len() as u64;
        let plain = Retry::Plain { delay: 20 };
        let retry = if seed % 3 == 0 { Retry::Aged } else { plain };
        let config = Config { faults, retry, request_queue: 2, send_queue: 8, ..base };
        let mut load = Load::uniform(&config, Some(0.005), Command::Write64, seed);
        load.service = 60;
        load.run(1_500 + 7 * seed);
        let node = NodeIndex((seed % count) as u32);
        match seed % 6 {
            0 | 3 => load.network.kill_node(node, &mut load.agenda),
            1 => load.network.cut_cable(node, 0, &mut load.agenda),
            _ => {}
        }
        load.drain();
        let (done, received) = (load.done.iter().sum::<u64>(), load.total());
        assert_eq!((load.open(), load.network.pending()), (0, 0), "seed {seed}");
        if !is_torus {
            let range = done..=done + load.lost;
            assert!(range.contains(&received), "seed {seed}: {received} not in {range:?}");
        }
    }
}

#[test]
fn a_send_whose_packet_or_echo_was_hit_is_reported_lost_and_nothing_else_suffers() {
    let faults = Faults { bit_error_rate: 1e-5, seed: 9 };
    let mut load =
        Load::uniform(&Config { faults, ..wide(6, true) }, Some(0.003), Command::Move64, 13);
    load.run(300_000);
    load.drain();
    let total = load.network.total();
    println!("{} tries, {} CRC errors, {} lost", total.tries, total.crc_errors, load.lost);
    assert_eq!(load.open(), 0);
    assert!(total.crc_errors > 50 && load.lost <= total.crc_errors, "{total:?}");
    assert_eq!(load.lost, total.bad_sends + total.bad_echoes - overlap(&total));
}

/// A bad send makes a bad echo: counted twice.
fn overlap(total: &fluxline_sim::net::sci::Counters) -> u64 {
    total.bad_sends
}

fn torus(sizes: &[u32], flow_control: bool) -> Config {
    let topology = Topology::Torus { sizes: sizes.to_vec() };
    let nodes: u32 = sizes.iter().product();
    let addresses = (0..nodes).map(|node| NodeId(node as u16)).collect();
    // A bus that is never the limit: the bounds are those of links.
    let bus = Some(Bus { bytes_per_second: 100_000_000_000, delay: 0 });
    Config { topology, addresses, bus, ..wide(2, flow_control) }
}

#[test]
fn tori_carry_what_their_links_bound_and_never_more() {
    // Sends of 64 bytes a node, in bytes over link bytes: payload 32 symbols.
    for (sizes, bound) in [(vec![4, 4], 0.435), (vec![8, 8], 0.196), (vec![4, 4, 4], 0.457)] {
        for flow_control in [false, true] {
            let config = torus(&sizes, flow_control);
            let nodes = config.addresses.len() as f64;
            let mut load = Load::uniform(&config, None, Command::Move64, 17);
            load.run(6_000);
            let before = load.total();
            load.run(16_000);
            let rate = (load.total() - before) as f64 * 32.0 / 10_000.0 / nodes;
            println!("torus {sizes:?} flow control {flow_control}: {rate:.3} of bound {bound}");
            assert!(rate <= bound * 1.01, "{sizes:?}: {rate}");
            assert!(rate >= bound * 0.5, "{sizes:?}: {rate}");
        }
    }
}

#[test]
fn a_switch_passes_packets_between_its_ringlets() {
    let topology = Topology::switch(4, 2);
    let addresses = (0..9).map(NodeId).collect();
    let bus = Some(Bus { bytes_per_second: 640_000_000, delay: 50 });
    let config = Config { topology, addresses, bus, ..Config::ring(2) };
    let mut sources =
        vec![Source { target: Target::Among((0..8).collect()), rate: Some(0.001) }; 8];
    sources.push(Source { target: Target::Silent, rate: None });
    let mut load = Load::new(&config, sources, Command::Write64, 23);
    load.run(100_000);
    load.drain();
    let done: u64 = load.done.iter().sum();
    assert_eq!((load.open(), load.lost, load.network.pending()), (0, 0, 0));
    assert!(done > 500 && load.total() == done, "{done} done, {} received", load.total());
}

#[test]
fn a_torus_of_4096_nodes_delivers_everything() {
    let config = torus(&[16, 16, 16], true);
    let mut load = Load::uniform(&config, Some(0.0005), Command::Move64, 29);
    load.run(1_500);
    load.drain();
    let done: u64 = load.done.iter().sum();
    println!("4,096 nodes: {done} packets");
    assert_eq!((load.open(), load.lost, load.total()), (0, 0, done));
}

#[test]
fn a_configuration_that_contradicts_itself_is_refused_with_its_reason() {
    let cases = [
        (Config { send_queue: 0, ..Config::ring(4) }, "at least 1"),
        (Config { topology: Topology::Ring { nodes: 5 }, ..Config::ring(4) }, "5 nodes need"),
        (Config { addresses: vec![NodeId(1); 2], ..Config::ring(2) }, "two nodes"),
        (Config { circulations: 1, ..Config::ring(2) }, "circulations"),
        (Config { topology: Topology::Ring { nodes: 1 }, ..Config::ring(1) }, "at least 2"),
    ];
    for (config, part) in cases {
        let error = Network::new(&config).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}
