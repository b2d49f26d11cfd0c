//! Dumps of simulated networks: they agree with the counters of the run under all faults, repeat to
//! the byte, and do not change the run. A short reader of its own checks the writer.

use crate::support::sci_load::{Load, Source, Target};
use fluxline_core::random::test_seed;
use fluxline_sim::core::dump::Dump;
use fluxline_sim::net::sci::{
    Bus, Command, Config, Entry, Faults, Network, NodeId, NodeIndex, Packet, Report, Retry, Status,
    Topology,
};
use fluxline_sim::scenario::Scenario;
use fluxline_sim::world::Cluster;
use fluxline_sim::{Agenda, Instant};

/// A packet as the reader finds it.
#[derive(Debug)]
struct Seen {
    interface: usize,
    ps: u64,
    bytes: Vec<u8>,
    comment: String,
    flags: u32,
}

impl Seen {
    fn is_echo(&self) -> bool {
        self.bytes[2] & 1 == 1
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Interfaces' names, and packets.
fn read(file: &[u8]) -> (Vec<String>, Vec<Seen>) {
    let (mut names, mut seen, mut at) = (Vec::new(), Vec::new(), 0);
    while at < file.len() {
        let length = word(file, at + 4) as usize;
        let body = &file[at + 8..at + length - 4];
        match word(file, at) {
            1 => names.push(String::from_utf8(option(&body[8..], 2)).expect("UTF-8")),
            6 => {
                let bytes = word(body, 12) as usize;
                let options = &body[20 + bytes.next_multiple_of(4)..];
                seen.push(Seen {
                    interface: word(body, 0) as usize,
                    ps: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
                    bytes: body[20..20 + bytes].to_vec(),
                    comment: String::from_utf8(option(options, 1)).expect("UTF-8"),
                    flags: word(&option(options, 2), 0),
                });
            }
            _ => {}
        }
        at += length;
    }
    (names, seen)
}

fn option(options: &[u8], wanted: u16) -> Vec<u8> {
    let mut at = 0;
    loop {
        let half = |at: usize| u16::from_le_bytes([options[at], options[at + 1]]);
        let (code, length) = (half(at), usize::from(half(at + 2)));
        match code {
            code if code == wanted => return options[at + 4..at + 4 + length].to_vec(),
            0 => return Vec::new(),
            _ => at += 4 + length.next_multiple_of(4),
        }
    }
}

/// Ends the dump of a network, and holds it against the network's counters.
fn read_and_count(network: &mut Network) -> Vec<Seen> {
    let (file, written) = network.end_dump().expect("begun").finish();
    let (names, seen) = read(&file);
    assert_eq!((written.packets, written.left_out), (seen.len() as u64, 0));
    assert!(seen.windows(2).all(|pair| pair[0].ps <= pair[1].ps), "packets are out of order");
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    for (port, name) in names.iter().enumerate() {
        let on_link = seen.iter().filter(|packet| packet.interface == port);
        let (echoes, sends): (Vec<_>, Vec<_>) = on_link.partition(|packet| packet.is_echo());
        let counters = network.counters(port as u32);
        let all = [sends.len() as u64, (sends.len() + echoes.len()) as u64];
        assert_eq!(all, [counters.sends_out, counters.packets_out], "{}", name);
        let bytes = sends.iter().chain(&echoes).map(|packet| packet.bytes.len() as u64);
        assert_eq!(bytes.sum::<u64>(), 2 * counters.symbols_out, "{}", name);
    }
    seen
}

fn count_of(seen: &[Seen], what: &str) -> usize {
    seen.iter().filter(|packet| packet.comment.contains(what)).count()
}

/// All that a network does to packets: refused with and without ageing, damaged, across ringlets.
#[test]
fn every_send_and_echo_of_every_link_is_there_once_whatever_happens_to_them() {
    let seed = test_seed!(1);
    let mut ring = Config::lc2(6);
    ring.faults = Faults { bit_error_rate: 1e-5, seed };
    let torus = Config {
        topology: Topology::Torus { sizes: vec![3, 2] },
        bus: Some(Bus { bytes_per_second: 400_000_000, delay: 10 }),
        ..ring.clone()
    };
    let switch = Config {
        topology: Topology::switch(2, 3),
        addresses: (0..7).map(|node| NodeId(0x100 * node)).collect(),
        ..torus.clone()
    };
    for retry in [Retry::Aged, Retry::Plain { delay: 1 }] {
        for config in [&ring, &torus, &switch] {
            let config = Config { retry, ..config.clone() };
            let mut sources = vec![Source { target: Target::Node(1), rate: None }; 6];
            sources[1].target = Target::Among(vec![0, 2]);
            let mut load = Load::new(&config, sources, Command::Write64, seed);
            load.service = 100;
            load.network.begin_dump(Dump::new(1 << 30));
            load.run(60_000);
            let total = load.network.total();
            let seen = read_and_count(&mut load.network);
            let bad = seen.iter().filter(|packet| packet.flags & 1 << 24 != 0).count();
            assert_eq!(bad > 0, total.crc_errors > 0, "damaged packets are marked");
            assert_eq!(bad, count_of(&seen, "damaged"));
            assert_eq!(count_of(&seen, "refused") > 0, total.busies > 0);
            let crosses = !matches!(config.topology, Topology::Ring { .. });
            assert_eq!(count_of(&seen, "comes from another ringlet") > 0, crosses);
            if retry == Retry::Aged && total.retries > 0 {
                assert!(count_of(&seen, "refused into generation A") > 0);
            }
        }
    }
}

fn one_way(source: u16, target: u16) -> Packet {
    Packet {
        target: NodeId(target),
        source: NodeId(source),
        command: Command::Move16,
        transaction: 9,
        offset: 0x1234_5678_9ABC,
        status: Status::Normal,
        data: (1..=16).collect(),
    }
}

fn run_to_the_end(network: &mut Network, agenda: &mut Agenda<Entry>) {
    while let Some(entry) = agenda.take(Instant::from_ps(u64::MAX / 2)) {
        network.handle(entry, agenda);
        while let Some(report) = network.next_report() {
            if let Report::Received { node, .. } = report {
                network.take_request(node, agenda);
            }
        }
    }
}

#[test]
fn a_packet_to_nobody_goes_round_gets_old_and_comes_back_as_a_scrubbed_echo() {
    let mut network = Network::new(&Config::ring(4)).expect("a ring");
    let mut agenda = Agenda::default();
    network.begin_dump(Dump::new(1 << 20));
    network.send(NodeIndex(2), one_way(2, 99), &mut agenda).expect("space");
    run_to_the_end(&mut network, &mut agenda);
    let seen = read_and_count(&mut network);
    // From node 2 by 3 to the scrubber at 0, round once more, and its echo from there to 2.
    let ways: Vec<(usize, bool)> =
        seen.iter().map(|packet| (packet.interface, packet.is_echo())).collect();
    let sends = [2, 3, 0, 1, 2, 3].map(|link| (link, false));
    assert_eq!(ways, [&sends[..], &[(0, true), (1, true)]].concat());
    assert_eq!(count_of(&seen, "marked old by the scrubber"), 4);
    assert_eq!(count_of(&seen, "scrubbed: nobody took the send"), 2);
    assert_eq!(seen[7].bytes[..6], [0, 2, 0x05, 0x09, 0, 0], "to 2, none, of 9, from 0");
}

#[test]
fn bytes_on_the_wire_are_those_of_the_packet_and_times_those_of_its_symbols() {
    let mut network = Network::new(&Config::ring(4)).expect("a ring");
    let mut agenda = Agenda::default();
    network.begin_dump(Dump::new(1 << 20));
    network.send(NodeIndex(1), one_way(1, 3), &mut agenda).expect("space");
    run_to_the_end(&mut network, &mut agenda);
    let (symbol, hop) = (2_000, {
        let config = network.config();
        u64::from(config.pass_symbols + config.cable_symbols) * 2_000
    });
    let seen = read_and_count(&mut network);
    let header = [0, 3, 0x04, 0x48, 0, 1, 0, 9, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC];
    assert_eq!(seen[0].bytes[..14], header);
    assert_eq!(seen[0].bytes[14..30], (1..=16).collect::<Vec<u8>>());
    assert_eq!(seen[0].bytes, seen[1].bytes);
    let times: Vec<u64> = seen.iter().map(|packet| packet.ps - seen[0].ps).collect();
    // The echo takes the place of the last four of 16 symbols.
    assert_eq!(times, [0, hop, 2 * hop + 12 * symbol, 3 * hop + 12 * symbol]);
}

#[test]
fn what_is_put_on_a_cut_cable_is_shown_as_destroyed() {
    let mut network = Network::new(&Config::ring(4)).expect("a ring");
    let mut agenda = Agenda::default();
    network.begin_dump(Dump::new(1 << 20));
    network.cut_cable(NodeIndex(1), 0, &mut agenda);
    network.send(NodeIndex(0), one_way(0, 3), &mut agenda).expect("space");
    run_to_the_end(&mut network, &mut agenda);
    let seen = read_and_count(&mut network);
    assert_eq!(count_of(&seen, "destroyed: this cable is cut"), 1, "{seen:?}");
}

#[test]
fn a_run_with_a_dump_is_the_same_run() {
    let load = |dump: bool| {
        let config = Config::lc2(5);
        let mut load = Load::uniform(&config, None, Command::Move64, 7);
        if dump {
            load.network.begin_dump(Dump::new(2_000));
        }
        load.run(20_000);
        (load.entries, load.network.total())
    };
    assert_eq!(load(true), load(false));
}

const ATOLL: &str = "[network]\nkind = \"atoll-torus\"\nside = 3";

fn scenario(text: &str) -> Scenario {
    Scenario::parse("scenario.toml", text).expect("a scenario")
}

#[test]
fn one_seed_gives_the_same_file_and_another_does_not() {
    for network in ["[network]\nnodes = 4", "[network]\nkind = \"torus\"\nside = 3", ATOLL] {
        let file = |seed: u64| {
            let scenario = scenario(&format!("seed = {seed}\n{network}\n"));
            scenario.dump(0.1, 20.0, 1 << 24).expect("a scenario that runs").finish().0
        };
        assert_eq!(file(1), file(1), "{network}");
        assert_ne!(file(1), file(2), "{network}");
    }
}

#[test]
fn each_packet_of_routers_crosses_each_link_of_its_way_once() {
    for kind in ["torus", "mesh"] {
        let text = format!("[network]\nkind = \"{kind}\"\nside = 3\n[traffic]\nbytes = 150\n");
        let (file, _) = scenario(&text).dump(0.1, 20.0, 1 << 24).expect("runs").finish();
        let (names, seen) = read(&file);
        // 9 routers: the links to their nodes, and both ways along two dimensions.
        assert_eq!(names.len(), if kind == "torus" { 9 + 36 } else { 9 + 24 }, "{names:?}");
        assert!(seen.len() > 100 && seen.iter().all(|packet| packet.bytes.len() == 28));
        let number = |packet: &Seen, at: usize| {
            u32::from_be_bytes(packet.bytes[at..at + 4].try_into().expect("four"))
        };
        for packet in &seen {
            let name = &names[packet.interface];
            let is_last = name.ends_with(":node");
            let at_target = name.starts_with(&format!("router{}:", number(packet, 8)));
            assert_eq!(is_last, at_target, "{name}: {packet:?}");
        }
    }
}

/// Every transmission of an ATOLL link is there: whole, damaged, rejected and repeated ones.
#[test]
fn packets_of_atoll_links_agree_with_the_counts_of_the_network() {
    use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size, Traffic};
    use fluxline_sim::load::{Loaded, Settings};
    use fluxline_sim::net::atoll::{self, Grid, Wiring, Worms};
    use fluxline_sim::{Fingerprint, core::interconnect::Interconnect, core::model};
    let seed = test_seed!(1);
    let wiring = Wiring::grid(Grid { columns: 3, rows: 3, is_torus: false }).expect("a grid");
    let config = atoll::Config { bit_error_rate: 1e-4, seed, ..atoll::Config::new(wiring) };
    let run = |with_dump: bool| {
        let mut network = <atoll::Network<_>>::new(config.clone()).expect("a network");
        if with_dump {
            assert!(network.begin_dump(Dump::new(1 << 26)));
        }
        let plan = Plan {
            nodes: 9,
            pattern: Pattern::Uniform,
            arrivals: Arrivals::Poisson { bytes_per_s: 50e6 },
            size: Size::Fixed(300),
            seed,
        };
        let (mut agenda, traffic) = (Agenda::default(), Traffic::new(plan).expect("a plan"));
        let mut model = Loaded::new(network, Worms, traffic, &Settings::default(), &mut agenda);
        let mut print = Fingerprint::default();
        model::run(&mut model, &mut agenda, &mut print, Instant::from_ps(400_000_000));
        let counts = model.network().counts();
        (print.to_string(), counts, model.network_mut().end_dump())
    };
    let (print, counts, dump) = run(true);
    assert_eq!(print, run(false).0, "a dump does not change the run");
    let (file, written) = dump.expect("begun").finish();
    let (names, seen) = read(&file);
    assert_eq!((names.len(), written.left_out), (24, 0), "{names:?}");
    let count = |what: &str| count_of(&seen, what) as u64;
    let (damaged, rejected) = (count("damaged on this link"), count("rejected behind"));
    assert!(damaged > 20 && rejected > 10, "{damaged} {rejected}");
    assert_eq!(damaged, counts.damaged);
    assert_eq!(count("sent again"), counts.repeated);
    assert_eq!(seen.len() as u64, counts.hops + damaged + rejected);
    let flagged = seen.iter().filter(|packet| packet.flags & 1 << 24 != 0);
    assert_eq!(flagged.count() as u64, damaged);
    assert!(seen.windows(2).all(|pair| pair[0].ps <= pair[1].ps), "packets are out of order");
    // Each link sends one packet at a time: none begins before the end of the one before.
    let symbols = |packet: &Seen| {
        u64::from(u32::from_be_bytes(packet.bytes[16..20].try_into().expect("four")))
    };
    let mut free = vec![0; names.len()];
    for packet in &seen {
        assert!(packet.ps >= free[packet.interface], "{packet:?}");
        free[packet.interface] = packet.ps + 4000 * symbols(packet);
    }
}

#[test]
fn the_bytes_of_a_put_are_in_the_dump_of_a_cluster() {
    use fluxline_conformance::{Joined, Pair};
    use fluxline_core::fabric::{Level, Local, Target, Work};
    use fluxline_core::{Moment, Span};
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-dump");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("put.pcapng");
    let url = format!("sim:sci?nodes=2&model=lc2&dump={}", file.display());
    let cluster = Cluster::open(&url).expect("a right URL");
    let again = Cluster::open(&url).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(again.contains("name a file that does not exist yet"), "{again}");
    let (mut now, data) = (Moment::default(), [0xC3; 64]);
    let mut joined = Joined::new(Pair {
        left: Box::new(cluster.node(0)),
        right: Box::new(cluster.node(1)),
        right_name: "1".into(),
        right_again: None, // a dead machine stays dead
        now: Box::new(move || {
            now = now + Span::from_ns(500);
            now
        }),
    });
    let (_, remote) = joined.shared("samples", 1 << 16);
    let (to, complete_at) = (Target { remote, offset: 0 }, Some(Level::Placed));
    let put = Work::Put { from: Local::Bytes(&data), to, notify: None, complete_at };
    joined.pair.left.post(joined.left, 1, put).expect("room");
    joined.done(1);
    let written = cluster.end_dump().expect("written").expect("begun");
    let (_, seen) = read(&std::fs::read(&file).expect("a file"));
    assert_eq!((written.packets, written.left_out), (seen.len() as u64, 0));
    let with_data = seen.iter().filter(|packet| packet.bytes.get(14..78) == Some(&data[..]));
    assert_eq!(with_data.count(), 1, "one write of 64 bytes, from node 0 to its neighbour");
}
