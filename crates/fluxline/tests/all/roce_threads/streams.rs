//! Many connections to two and three threads: each arrives at its thread only, and entire.

use std::thread;

use fluxline::roce::RoceNode;
use fluxline::udp::UdpPort;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Level, Local, Name, RegionId, Reliability, RemoteId,
    Rights, Target, Work,
};
use fluxline_core::port::lossy::{Faults, Lossy};

use super::ends::{
    KEY, PART_BYTES, Server, address, any_port, check_part, config, content, join, open, ports,
    seed, until, write_part,
};

/// The link of the serving threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quality {
    Clean,
    Lossy,
}

/// Single nodes, of which each has several connections; returns what each thread saw.
fn writers(server: Server, quality: Quality, nodes: u64, connections: u64) {
    let seed = seed();
    let (at, memory) = (server.at, server.memory.clone());
    let writers: Vec<_> = (0..nodes)
        .map(|node| {
            thread::spawn(move || {
                let port = ports(any_port(), 1).remove(0);
                let mut own = RoceNode::on(port, config("writer"));
                for connection in 0..connections {
                    let joined = join(&mut own, at);
                    write_part(&mut own, joined, node * connections + connection, seed);
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    let served = server.stop();
    for part in 0..nodes * connections {
        check_part(&memory, part, seed);
    }
    let mut all: Vec<u64> = served.iter().flat_map(|of| of.notified.iter().copied()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..nodes * connections).collect::<Vec<u64>>(), "{served:?}");
    for of in &served {
        assert_eq!(u64::from(of.connected), of.notified.len() as u64, "{served:?}");
        // Damage changes queue pairs, too, and a duplicate may come after the end.
        assert!(of.unknown_pair == 0 || quality == Quality::Lossy, "{served:?}");
        // All connections of a node meet one thread.
        let begun = |part: &&u64| part.is_multiple_of(connections);
        let of_nodes = of.notified.iter().filter(begun).count() as u64;
        assert_eq!(of_nodes * connections, of.notified.len() as u64, "{served:?}");
    }
}

fn clean_server(threads: usize, parts: u64) -> Server {
    let ports = ports(any_port(), threads);
    Server::start(ports[0].local_address(), ports, parts)
}

#[test]
fn many_connections_to_two_threads_arrive_once_and_entire() {
    writers(clean_server(2, 24), Quality::Clean, 8, 3);
}

#[test]
fn many_connections_to_three_threads_arrive_once_and_entire() {
    writers(clean_server(3, 24), Quality::Clean, 12, 2);
}

#[test]
fn with_loss_damage_and_reordering_they_arrive_all_the_same() {
    let seed = seed();
    let faults = Faults { drop: 0.03, duplicate: 0.03, corrupt: 0.01, ..Faults::default() };
    let ports = ports(any_port(), 3);
    let at = ports[0].local_address();
    let lossy = |(port, number): (UdpPort, u64)| Lossy::new(port, faults, seed + number);
    let ports = ports.into_iter().zip(0..).map(lossy).collect();
    writers(Server::start(at, ports, 12), Quality::Lossy, 6, 2);
}

#[test]
fn threads_with_one_index_meet() {
    let seed = seed();
    let server = clean_server(3, 3);
    let at = server.at;
    let writers: Vec<_> = open(any_port(), 3)
        .into_iter()
        .zip(0..)
        .map(|(mut node, part)| {
            thread::spawn(move || {
                let joined = join(&mut node, at);
                write_part(&mut node, joined, part, seed);
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    let memory = server.memory.clone();
    for (index, served) in (0..).zip(server.stop()) {
        assert_eq!((served.notified, served.unknown_pair), (vec![index], 0));
        check_part(&memory, index, seed);
    }
}

/// A region of a thread, and the connection of a single node to it.
struct Link {
    endpoint: EndpointId,
    remote: RemoteId,
    region: RegionId,
}

/// Lets a thread call the single node, which imports a region of the thread.
fn called_by(server: &mut RoceNode, single: &mut RoceNode) -> Link {
    let region = server.register(PART_BYTES).expect("memory");
    let (name, grant) = (Name::parse("x").expect("legal"), Grant { rights: Rights::ALL, key: KEY });
    server.export(region, name.clone(), grant).expect("free");
    let at = address(single).to_string();
    server.connect(&at, Reliability::Reliable).expect("an address");
    let endpoint = until(&mut [server, single], |of, completion| match completion {
        Completion::Connected { endpoint, .. } if of == 1 => Some(*endpoint),
        _ => None,
    });
    let remote = single.import(endpoint, name, KEY).expect("connected");
    let status = until(&mut [server, single], |_, completion| match completion {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    });
    assert!(status.is_done(), "{status}");
    Link { endpoint, remote, region }
}

/// A single node sends to both threads of one address. Its frames leave in common trains, so that
/// each thread gets frames of the other.
#[test]
fn trains_to_both_threads_are_taken_apart() {
    let seed = seed();
    let mut servers = open(any_port(), 2);
    let mut single = open(any_port(), 1).remove(0);
    let links: Vec<Link> =
        servers.iter_mut().map(|server| called_by(server, &mut single)).collect();
    for round in 0..40 {
        for (link, part) in links.iter().zip(0..) {
            let bytes = content(seed + round, part);
            let to = Target { remote: link.remote, offset: 0 };
            let (from, notify) = (Local::Bytes(&bytes), Some(round as u32));
            let put = Work::Put { from, to, notify, complete_at: Some(Level::Placed) };
            single.post(link.endpoint, round, put).expect("room");
        }
        let [first, second] = &mut servers[..] else { panic!("two") };
        let mut placed = [false; 2];
        until(&mut [first, second, &mut single], |of, completion| match completion {
            Completion::Notified { .. } => {
                placed[of] = true;
                (placed == [true; 2]).then_some(())
            }
            Completion::Broken { status, .. } => panic!("{status}"),
            _ => None,
        });
        for ((link, server), part) in links.iter().zip(&servers).zip(0..) {
            let mut found = vec![0; PART_BYTES as usize];
            server.memory(link.region).expect("own").read(0, &mut found).expect("inside");
            assert!(found == content(seed + round, part), "round {round}");
        }
    }
    let counters = servers.iter_mut().map(|server| server.node().counters().unknown_pair);
    assert_eq!(counters.sum::<u64>(), 0);
    let handed = servers.iter_mut().map(|server| server.node().port().frames_handed_over());
    assert!(handed.sum::<u64>() > 0, "no train had frames of both");
}
