//! An interface with two threads: each connection belongs to one, and one goes on alone.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::{RoceNode, Waiting};
use fluxline::udp::UdpPortConfig;
use fluxline::xdp::{XdpConfig, XdpPort};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, RegionId, Reliability, Rights,
    Slice, Target, Work,
};
use fluxline_core::roce::UDP_PORT;

const KEY: Key = Key(0x5EED);
const BYTES: u64 = 200_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// The value of the notification after which a thread ends.
const END: u32 = 1;

fn config(own: IpAddr) -> XdpConfig {
    XdpConfig { addresses: vec![own], ..XdpConfig::new("veth") }
}

fn nodes(own: IpAddr, count: usize) -> Vec<RoceNode<XdpPort>> {
    RoceNode::open_xdp_threads("threads", &config(own), count).unwrap_or_else(|error| {
        panic!("{error}");
    })
}

fn name() -> Name {
    Name::parse("x").expect("legal")
}

fn export<P: Waiting>(node: &mut RoceNode<P>) -> RegionId {
    let region = node.register(BYTES).expect("memory");
    node.export(region, name(), Grant { rights: Rights::ALL, key: KEY }).expect("free");
    region
}

/// Returns the bytes that a writer writes.
fn content(of: u32) -> Vec<u8> {
    (0..BYTES as u32).map(|index| (index * 13 + of * 7 + index / 256) as u8).collect()
}

/// Serves on two queues of the interface, or on two sockets, until both threads were asked to end.
pub(crate) fn serve(own: IpAddr, say_ready: impl Fn()) {
    if std::env::var("SOCKET").is_ok() {
        let config = UdpPortConfig::new(SocketAddr::new(own, UDP_PORT));
        return serve_on(RoceNode::open_threads("threads", &config, 2).expect("free"), say_ready);
    }
    let error = XdpPort::open_threads(&config(own), 3).expect_err("two queues").to_string();
    assert!(error.contains("no receive queue 2"), "{error}");
    let error = XdpPort::open_threads(&config(own), 0).expect_err("none").to_string();
    assert!(error.contains("threads = 0: it must be 1 to 64"), "{error}");
    serve_on(nodes(own, 2), say_ready);
}

/// Serves until both threads were asked to end; the first ends while the second goes on.
fn serve_on<P: Waiting>(nodes: Vec<RoceNode<P>>, say_ready: impl Fn()) {
    let mut nodes: Vec<Option<_>> = nodes.into_iter().map(Some).collect();
    let regions: Vec<RegionId> = nodes.iter_mut().flatten().map(export).collect();
    say_ready();
    let began = Instant::now();
    let mut seen = [0; 2];
    while nodes.iter().any(Option::is_some) {
        assert!(began.elapsed() < PATIENCE, "nobody asks to end: {seen:?} writes");
        for (index, entry) in nodes.iter_mut().enumerate() {
            let Some(node) = entry else { continue };
            let mut ends = false;
            while let Some(completion) = node.poll(clock::monotonic()) {
                let Completion::Notified { value, .. } = completion else { continue };
                let mut found = vec![0; BYTES as usize];
                node.memory(regions[index]).expect("own").read(0, &mut found).expect("inside");
                assert!(found == content(value), "write {value} at thread {index}");
                seen[index] += 1;
                ends |= value == END + index as u32;
            }
            if ends {
                *entry = None;
            }
        }
    }
    println!("writes by thread: {seen:?}");
}

/// Polls all callers until `wanted` finds something at one.
fn until<T>(
    nodes: &mut [RoceNode<XdpPort>],
    mut wanted: impl FnMut(usize, Completion) -> Option<T>,
) -> T {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for (index, node) in nodes.iter_mut().enumerate() {
            while let Some(completion) = node.poll(clock::monotonic()) {
                if let Some(found) = wanted(index, completion) {
                    return found;
                }
            }
        }
    }
    panic!("nothing came in time");
}

/// Connects from one caller; returns the endpoint and the target.
fn connect(nodes: &mut [RoceNode<XdpPort>], of: usize, to: IpAddr) -> (EndpointId, Target) {
    let endpoint = nodes[of].connect(&to.to_string(), Reliability::Reliable).expect("an address");
    until(nodes, |index, completion| match completion {
        Completion::Connected { endpoint: found, .. } if index == of && found == endpoint => {
            Some(())
        }
        Completion::Broken { endpoint: found, status } if found == endpoint => panic!("{status}"),
        _ => None,
    });
    let remote = nodes[of].import(endpoint, name(), KEY).expect("connected");
    let status = until(nodes, |_, completion| match completion {
        Completion::Imported { status, .. } => Some(status),
        _ => None,
    });
    assert!(status.is_done(), "{status}");
    (endpoint, Target { remote, offset: 0 })
}

fn write(nodes: &mut [RoceNode<XdpPort>], of: usize, to: (EndpointId, Target), value: u32) {
    let region = nodes[of].register(BYTES).expect("memory");
    nodes[of].memory(region).expect("own").write(0, &content(value)).expect("inside");
    let from = Local::Region(Slice { region, offset: 0, bytes: BYTES });
    let put = Work::Put { from, to: to.1, notify: Some(value), complete_at: Some(Level::Placed) };
    nodes[of].post(to.0, 1, put).expect("room");
    let status = until(nodes, |_, completion| match completion {
        Completion::Done { status, .. } => Some(status),
        _ => None,
    });
    assert!(status.is_done(), "{status}");
}

/// Calls both threads, ends the first, and works on with the second.
pub(crate) fn call(own: IpAddr, peer: IpAddr) {
    let count = std::env::var("CALLERS").expect("given").parse().expect("a number");
    let mut callers = nodes(own, count);
    if count == 1 {
        // Its connections meet one thread; which one is random.
        let to = connect(&mut callers, 0, peer);
        for round in 0..8 {
            write(&mut callers, 0, to, 100 + round);
        }
        // Both threads end when one of them has got both values.
        return ends_both(&mut callers, peer, to);
    }
    let links = [connect(&mut callers, 0, peer), connect(&mut callers, 1, peer)];
    for round in 0..8 {
        for (of, link) in links.into_iter().enumerate() {
            write(&mut callers, of, link, 100 + round * 2 + of as u32);
        }
    }
    if std::env::var("SOCKET").is_ok() {
        // The kernel there sends all answers through one queue.
        let handed = callers.iter_mut().map(|of| of.node().port().frames_handed_over());
        assert!(handed.sum::<u64>() > 0, "each thread got its own frames only");
    }
    write(&mut callers, 0, links[0], END);
    let over = until(&mut callers, |of, completion| {
        matches!(completion, Completion::Broken { .. }).then_some(of)
    });
    assert_eq!(over, 0, "the other goes on");
    for round in 0..8 {
        write(&mut callers, 1, links[1], 200 + round);
    }
    // The first queue there is served by the second thread now.
    let anew = connect(&mut callers, 0, peer);
    write(&mut callers, 0, anew, 300);
    write(&mut callers, 1, links[1], END + 1);
}

/// Asks the thread of the connection to end, and then the other one.
fn ends_both(callers: &mut [RoceNode<XdpPort>], peer: IpAddr, to: (EndpointId, Target)) {
    let mut to = to;
    let mut values = vec![END, END + 1];
    while let Some(value) = values.pop() {
        write(callers, 0, to, value);
        let began = Instant::now();
        let mut is_over = false;
        while began.elapsed() < Duration::from_millis(300) && !is_over {
            while let Some(completion) = callers[0].poll(clock::monotonic()) {
                is_over |= matches!(completion, Completion::Broken { .. });
            }
        }
        if is_over && !values.is_empty() {
            to = connect(callers, 0, peer);
        } else if is_over {
            return;
        } else {
            values.insert(0, value);
        }
    }
}
