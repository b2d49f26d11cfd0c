//! Threads that end while others go on, and ports that others have.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use fluxline::roce::RoceNode;
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Local, Name, Reliability, Rights, Status, Target, Work,
};

use super::ends::{KEY, address, any_port, open, until};

/// Connects two nodes; returns the endpoints of both.
fn connect(caller: &mut RoceNode, callee: &mut RoceNode) -> [EndpointId; 2] {
    let at = address(callee).to_string();
    caller.connect(&at, Reliability::Reliable).expect("an address");
    let mut ends = [None; 2];
    until(&mut [caller, callee], |of, completion| {
        if let Completion::Connected { endpoint, .. } = completion {
            ends[of] = Some(*endpoint);
        }
        (ends[0].is_some() && ends[1].is_some()).then_some(())
    });
    ends.map(|end| end.expect("connected"))
}

/// Puts a value into a fresh region of the callee.
fn still_works(caller: &mut RoceNode, callee: &mut RoceNode, endpoint: EndpointId, text: &str) {
    let region = callee.register(64).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    let name = Name::parse(text).expect("legal");
    callee.export(region, name.clone(), grant).expect("free");
    let remote = caller.import(endpoint, name, KEY).expect("connected");
    let status = until(&mut [caller, callee], |of, completion| match completion {
        Completion::Imported { status, .. } if of == 0 => Some(*status),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    let to = Target { remote, offset: 0 };
    let from = Local::Bytes(text.as_bytes());
    let put = Work::Put { from, to, notify: Some(7), complete_at: None };
    caller.post(endpoint, 1, put).expect("room");
    until(&mut [caller, callee], |of, completion| match completion {
        Completion::Notified { value: 7, .. } if of == 1 => Some(()),
        Completion::Broken { status, .. } => panic!("{status}"),
        _ => None,
    });
    let mut found = vec![0; text.len()];
    callee.memory(region).expect("own").read(0, &mut found).expect("inside");
    assert_eq!(found, text.as_bytes());
}

/// One thread of three ends; the connections of the others go on, and callers of the thread that
/// ended reach another.
fn one_ends(gone: usize, end: impl Fn(RoceNode)) {
    let mut callers = open(any_port(), 3);
    let mut servers: Vec<Option<RoceNode>> = open(any_port(), 3).into_iter().map(Some).collect();
    let mut ends = Vec::new();
    for (caller, server) in callers.iter_mut().zip(&mut servers) {
        let server = server.as_mut().expect("open");
        let [near, _] = connect(caller, server);
        ends.push(near);
    }
    end(servers[gone].take().expect("open"));
    let status = until(&mut [&mut callers[gone]], |_, completion| match completion {
        Completion::Broken { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Status::Disconnected);
    for index in (0..3).filter(|index| *index != gone) {
        let server = servers[index].as_mut().expect("open");
        still_works(&mut callers[index], server, ends[index], "on");
    }
    let next = (gone + 1) % 3;
    let server = servers[next].as_mut().expect("open");
    let [near, _] = connect(&mut callers[gone], server);
    still_works(&mut callers[gone], server, near, "anew");
    // The first connections of that node are as they were.
    still_works(&mut callers[next], server, ends[next], "yet");
}

#[test]
fn each_thread_may_end_and_the_others_go_on() {
    for gone in 0..3 {
        one_ends(gone, drop);
    }
}

#[test]
fn a_thread_that_panics_leaves_the_others_alone() {
    one_ends(1, |node| {
        let ended = std::thread::spawn(move || {
            let _node = node;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(ended.join().is_err());
    });
}

#[test]
fn the_port_is_free_again_when_the_last_thread_has_ended() {
    // An address of its own: other tests may get the number of a port that is free again.
    let mut nodes = open("127.0.77.1:0".parse().expect("an address"), 3);
    let at = address(&mut nodes[0]);
    nodes.truncate(1);
    assert!(UdpSocket::bind(at).is_err(), "one is left");
    drop(nodes);
    // A process that another test starts has copies of all sockets until its program begins.
    let began = Instant::now();
    while let Err(error) = UdpSocket::bind(at) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody is left: {error}");
        thread::yield_now();
    }
}

#[test]
fn a_port_that_another_has_is_refused_in_both_orders() {
    let alone = UdpSocket::bind(any_port()).expect("a port");
    let config = UdpPortConfig::new(alone.local_addr().expect("bound"));
    let error = UdpPort::bind_threads(&config, 2).err().expect("taken").to_string();
    assert!(error.contains("in use by another program"), "{error}");

    // A second start of the same program, which would share the port if it could.
    let mut nodes = open(any_port(), 2);
    let config = UdpPortConfig::new(address(&mut nodes[0]));
    let error = UdpPort::bind_threads(&config, 2).err().expect("taken").to_string();
    assert!(error.contains("in use by another program"), "{error}");
    let error = UdpPort::bind(config).err().expect("taken").to_string();
    assert!(error.contains("in use by another program"), "{error}");
}

#[test]
fn a_socket_of_the_same_user_that_joins_the_port_gets_nothing() {
    let mut nodes = open(any_port(), 2);
    let config = UdpPortConfig { reuse_port: true, ..UdpPortConfig::new(address(&mut nodes[0])) };
    let mut stranger = UdpPort::bind(config).expect("the same user");
    let mut callers = open(any_port(), 2);
    for (caller, server) in callers.iter_mut().zip(&mut nodes) {
        let [near, _] = connect(caller, server);
        still_works(caller, server, near, "on");
    }
    assert!(!stranger.wait(Duration::ZERO).expect("a socket"));
    drop(stranger);
    for (caller, server) in callers.iter_mut().zip(&mut nodes) {
        let [near, _] = connect(caller, server);
        still_works(caller, server, near, "later");
    }
}

#[test]
fn a_wrong_number_of_threads_is_refused() {
    for count in [0, 65, 1000, usize::MAX] {
        let error = fluxline::open_threads("udp://127.0.0.1:0/x", count).err();
        let error = error.expect("refused").to_string();
        assert!(error.contains("1 to 64") && error.contains(&count.to_string()), "{error}");
    }
    for url in ["shm://threads/x", "sim:sci/lab/a?nodes=2"] {
        let error = fluxline::open_threads(url, 2).err().expect("refused").to_string();
        assert!(error.contains("udp:// and xdp:// can") && error.contains(url), "{error}");
    }
    let shm = format!("shm://threads-{}/x", std::process::id());
    assert_eq!(fluxline::open_threads(&shm, 1).expect("one is possible").len(), 1);
    assert_eq!(fluxline::open_threads("udp://127.0.0.1:0/x", 64).expect("free").len(), 64);
}
