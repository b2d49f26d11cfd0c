//! The processes in the namespaces.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::xdp::{Mode, Queues, UnfinishedChecksums, XdpConfig, XdpError, XdpPort};
use fluxline_core::port::{Identification, Incoming, Port};

const PORT: u16 = 4791;
const PATIENCE: Duration = Duration::from_secs(10);
/// A server ends by itself, should nobody end it.
const LIFETIME: Duration = Duration::from_secs(90);

pub(crate) fn play() {
    let Ok(role) = std::env::var("ROLE") else { return };
    match role.as_str() {
        "owner" => super::memory::own(address("OWN"), say_ready),
        "writer" => super::memory::write(address("OWN"), address("PEER")),
        "echo" => echo(),
        "threads" => super::threads::serve(address("OWN"), say_ready),
        "callers" => super::threads::call(address("OWN"), address("PEER")),
        "socket-echo" => socket_echo(),
        "lengths" => lengths(),
        "unfinished" => unfinished(),
        "others" => others(),
        "marks" => marks(),
        "dead" => dead(),
        "full" => full(),
        "flood" => flood(),
        "follow" => follow(),
        "twice" => twice(),
        "refusals" => refusals(),
        "unprivileged" => unprivileged(),
        other => panic!("no role {other}"),
    }
}

fn config() -> XdpConfig {
    let mut config = XdpConfig::new("veth");
    if std::env::var("MODE").is_ok_and(|mode| mode == "generic") {
        config.mode = Mode::Generic;
    }
    if let Ok(bytes) = std::env::var("BUFFER") {
        config.buffer_bytes = Some(bytes.parse().expect("a number"));
    }
    if let Ok(own) = std::env::var("OWN") {
        config.addresses = vec![own.parse().expect("an address")];
    }
    if let Ok(buffers) = std::env::var("BUFFERS") {
        config.receive_buffers = buffers.parse().expect("a number");
    }
    if std::env::var("BUSY").is_ok() {
        config.busy_poll_us = 20;
    }
    if std::env::var("QUEUES").is_ok() {
        config.queues = Queues::All;
    }
    config
}

fn open() -> XdpPort {
    let config = config();
    let port = XdpPort::open(&config).unwrap_or_else(|error| panic!("{error}"));
    let granted = port.granted();
    let expected = if config.mode == Mode::Generic { Mode::Generic } else { Mode::Driver };
    assert_eq!(granted.mode, expected);
    assert!(!granted.zero_copy, "veth copies");
    if config.queues == Queues::All {
        assert_eq!(granted.queues, 2);
    }
    port
}

fn say_ready() {
    println!("ready");
    io::stdout().flush().expect("a pipe");
}

fn address(key: &str) -> IpAddr {
    std::env::var(key).expect("given").parse().expect("an address")
}

fn peer() -> SocketAddr {
    SocketAddr::new(address("PEER"), PORT)
}

/// Sends one frame; `false` when there is no room.
fn send(port: &mut XdpPort, to: SocketAddr, bytes: &[u8]) -> bool {
    let Some(frame) = port.frame(to, bytes.len()) else { return false };
    assert_eq!((frame.bytes.len(), frame.identification), (bytes.len(), 0));
    frame.bytes.copy_from_slice(bytes);
    true
}

/// Sends a byte until it comes back: neighbours are found, the other end is there.
fn warm_up(port: &mut XdpPort, to: SocketAddr) {
    let began = Instant::now();
    let mut came = 0;
    while came == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing comes back from {to}: {:?}", port.counters());
        send(port, to, &[0]);
        port.flush(clock::now());
        port.wait(Duration::from_millis(2));
        came = port.receive(clock::now(), &mut |_| ());
    }
    // What was sent more than once.
    while port.wait(Duration::from_millis(50)) {
        port.receive(clock::now(), &mut |_| ());
    }
}

/// Sends everything back to where it came from.
fn echo() {
    let mut port = open();
    say_ready();
    let began = Instant::now();
    let mut came: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    while began.elapsed() < LIFETIME {
        port.wait(Duration::from_millis(100));
        port.receive(clock::now(), &mut |frame| came.push((frame.from, frame.bytes.to_vec())));
        for (from, bytes) in came.drain(..) {
            assert!(send(&mut port, from, &bytes), "no room");
        }
        port.flush(clock::now());
    }
}

/// The same with sockets of the kernel, on the same port and another, and over TCP.
fn socket_echo() {
    let own: IpAddr = std::env::var("BIND").as_deref().unwrap_or("::").parse().expect("one");
    let socket = UdpSocket::bind((own, PORT)).expect("a free port");
    let other = UdpSocket::bind((own, PORT + 1)).expect("a free port");
    let listener = TcpListener::bind((own, PORT)).expect("a free port");
    say_ready();
    for socket in [socket, other] {
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            loop {
                let (len, from) = socket.recv_from(&mut bytes).expect("a datagram");
                let _ = socket.send_to(&bytes[..len], from);
            }
        });
    }
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("to the end");
            stream.write_all(&bytes).expect("back");
        }
    });
    std::thread::sleep(LIFETIME);
}

/// A pattern that tells lengths and places apart.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len * 13 + at / 251) as u8).collect()
}

/// Every short length, those around each limit, and the longest.
fn lengths() {
    let longest: usize = std::env::var("LONGEST").expect("given").parse().expect("a number");
    let mut port = open();
    assert_eq!(port.limits().frame_bytes_max, longest);
    let to = peer();
    let own = port.local(to.ip()).expect("a way");
    warm_up(&mut port, to);
    let limits =
        [64, 128, 256, 1024, 1454, 1472, 1792, 2048, 3750, 3840, 4096, 7680, 8192, longest];
    let near = limits.iter().flat_map(|limit| limit - 3..=limit + 3);
    let all: Vec<usize> = (1..200).chain(near).filter(|&len| len <= longest).collect();
    for batch in all.chunks(16) {
        let mut wanted: Vec<Vec<u8>> = batch.iter().map(|&len| pattern(len)).collect();
        for bytes in &wanted {
            assert!(send(&mut port, to, bytes), "no room");
        }
        port.flush(clock::now());
        wanted.reverse();
        let began = Instant::now();
        while !wanted.is_empty() {
            assert!(
                began.elapsed() < PATIENCE,
                "missing {}: {:?}",
                wanted.len(),
                port.statistics()
            );
            port.wait(Duration::from_millis(100));
            port.receive(clock::now(), &mut |frame: Incoming<'_>| {
                let expected = wanted.pop().expect("not more than was sent");
                assert!(
                    frame.bytes == expected,
                    "{} byte of {}",
                    frame.bytes.len(),
                    expected.len()
                );
                assert_eq!((frame.from, frame.to, frame.congestion), (to, own, false));
                let is_seen = matches!(frame.identification, Identification::Seen(_));
                assert_eq!(is_seen, to.is_ipv4());
            });
        }
    }
    assert!(port.frame(to, 0).is_none() && port.frame(to, 65_000).is_none());
    let counters = port.counters();
    assert_eq!(counters.frames_dropped, 0, "{:?}", port.statistics());
    assert_eq!(port.statistics().bad_descriptors, 0);
    if std::env::var("BUFFERS").is_ok() {
        assert!(port.statistics().gathered > 0, "no frame lay across the end of the memory");
    }
    println!("{:?} {:?}", port.statistics(), port.granted());
}

fn unfinished() {
    let mut config = config();
    config.unfinished_checksums = UnfinishedChecksums::Refuse;
    let mut port = XdpPort::open(&config).expect("opens");
    let began = Instant::now();
    while port.statistics().damaged == 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", port.counters());
        send(&mut port, peer(), b"answer me");
        port.flush(clock::now());
        port.wait(Duration::from_millis(5));
        let taken = port.receive(clock::now(), &mut |_| ());
        assert_eq!(taken, 0, "a kernel's datagram over veth was complete");
    }
    assert!(port.counters().frames_dropped > 0);
}

/// Sockets of the kernel beside an open port.
fn others() {
    let mut port = open();
    let to = peer();
    warm_up(&mut port, to);
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = [0; 4096];
    // Another port; our port but from another of ours; three IP fragments.
    for (port, len) in [(PORT + 1, 100), (PORT, 100), (PORT + 1, 4000)] {
        socket.send_to(&pattern(len), (to.ip(), port)).expect("sent");
        let (came, _) = socket.recv_from(&mut bytes).expect("an answer");
        assert_eq!(bytes[..came], pattern(len));
    }
    // Fragments to our port are the kernel's: they are not taken apart here.
    let same = UdpSocket::bind(("0.0.0.0", PORT)).expect("our port is free in the kernel");
    same.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    same.send_to(&pattern(4000), to).expect("sent");
    let (came, _) = same.recv_from(&mut bytes).expect("an answer");
    assert_eq!(bytes[..came], pattern(4000));
    // ICMP: a closed port is reported.
    let refused = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    refused.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    refused.connect((to.ip(), 9)).expect("connects");
    refused.send(b"?").expect("sent");
    let error = refused.recv(&mut bytes).expect_err("nobody is there");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    // TCP, to the port of the same number.
    let mut stream = TcpStream::connect(to).expect("connects");
    stream.write_all(&pattern(200_000)).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("to the end");
    assert!(back == pattern(200_000));
    assert_eq!(port.receive(clock::now(), &mut |_| ()), 0, "none of that is ours");
    warm_up(&mut port, to);
}

/// Sends until the answers stop, and on until they come again.
fn follow() {
    let mut port = open();
    let to = peer();
    warm_up(&mut port, to);
    say_ready();
    let (began, mut last, mut was_silent) = (Instant::now(), Instant::now(), false);
    loop {
        assert!(began.elapsed() < PATIENCE * 2, "silent: {was_silent}, {:?}", port.counters());
        send(&mut port, to, b"still there?");
        port.flush(clock::now());
        port.wait(Duration::from_millis(5));
        if port.receive(clock::now(), &mut |_| ()) > 0 {
            if was_silent {
                return;
            }
            last = Instant::now();
        }
        was_silent |= last.elapsed() > Duration::from_millis(200);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two times four frames, marked 0 to 3, each with its mark as payload.
fn marks() {
    let mut port = open();
    say_ready();
    let (began, mut seen) = (Instant::now(), Vec::new());
    while seen.len() < 8 {
        assert!(began.elapsed() < PATIENCE, "{seen:?} {:?}", port.statistics());
        port.wait(Duration::from_millis(100));
        port.receive(clock::now(), &mut |frame| {
            seen.push((frame.to.is_ipv6(), frame.bytes[0], frame.congestion));
        });
    }
    for (is_v6, mark, congestion) in seen {
        assert_eq!(congestion, mark == 3, "mark {mark} over IPv6: {is_v6}");
    }
}

fn dead() {
    let mut port = open();
    let (to, dead) = (peer(), SocketAddr::new(address("DEAD"), PORT));
    warm_up(&mut port, to);
    let before = port.counters();
    let began = Instant::now();
    for _ in 0..100 {
        assert!(send(&mut port, dead, b"nobody"));
        port.flush(clock::now());
    }
    assert!(began.elapsed() < Duration::from_secs(2), "a dead neighbour holds us up");
    let after = port.counters();
    assert_eq!(after.frames_refused - before.frames_refused, 100);
    assert_eq!(after.frames_sent, before.frames_sent);
    // Somewhere that no route leads to.
    let nowhere: SocketAddr = "203.0.113.7:4791".parse().expect("an address");
    assert_eq!(port.local(nowhere.ip()), None);
    assert!(send(&mut port, nowhere, b"no way"));
    assert_eq!(port.counters().frames_refused - after.frames_refused, 1);
    warm_up(&mut port, to);
}

const FLOOD: u64 = 20_000;

/// Receives nothing while the other end sends; then what there was room for.
fn full() {
    let mut config = config();
    config.receive_buffers = 256;
    let mut port = XdpPort::open(&config).expect("opens");
    say_ready();
    let began = Instant::now();
    while port.counters().frames_dropped < 1000 {
        assert!(began.elapsed() < PATIENCE, "{:?}", port.statistics());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Until no more come.
    let mut last = 0;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let dropped = port.counters().frames_dropped;
        if dropped == last {
            break;
        }
        last = dropped;
    }
    let mut taken = 0;
    while port.wait(Duration::from_millis(50)) {
        taken += port.receive(clock::now(), &mut |_| ());
    }
    println!("{:?}", port.statistics());
    assert_eq!(taken, 256, "as many as there are buffers");
    let counters = port.counters();
    assert!(counters.frames_dropped + 256 <= FLOOD, "{counters:?}");
    // The interface's own queue drops as well, and says so itself.
    assert!(counters.frames_dropped + 256 >= FLOOD / 2, "{counters:?}");
}

fn flood() {
    let mut port = open();
    let (to, began) = (peer(), Instant::now());
    while port.counters().frames_sent < FLOOD {
        assert!(began.elapsed() < PATIENCE, "{:?}", port.counters());
        send(&mut port, to, &[7; 100]);
        port.flush(clock::now());
    }
}

/// A second port at the same interface is refused; once the first is gone it opens.
fn twice() {
    let first = open();
    let error = XdpPort::open(&config()).expect_err("one program at a time");
    assert!(matches!(error, XdpError::Busy { .. }), "{error}");
    drop(first);
    drop(open());
}

type Change<'a> = &'a dyn Fn(&mut XdpConfig);

fn refusals() {
    let refusal = |change: Change| {
        let mut config = config();
        change(&mut config);
        XdpPort::open(&config).expect_err("refused").to_string()
    };
    let cases: [(&str, Change); 8] = [
        ("lo is not an Ethernet interface", &|config| config.interface = "lo".into()),
        ("no interface eth77", &|config| config.interface = "eth77".into()),
        ("no receive queue 7", &|config| config.queues = Queues::One(7)),
        ("no address 10.9.9.9", &|config| config.addresses = vec![[10, 9, 9, 9].into()]),
        ("receive_buffers = 1000", &|config| config.receive_buffers = 1000),
        ("buffer_bytes = 9000", &|config| config.buffer_bytes = Some(9000)),
        ("port = 0", &|config| config.port = 0),
        ("no receive queue 4000000000", &|config| config.queues = Queues::One(4_000_000_000)),
    ];
    for (expected, change) in cases {
        let said = refusal(change);
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    } // This program again, as nobody; where nobody may not even read it, there is nothing to see.
    let program = std::env::current_exe().expect("a path");
    let mut nobody = Command::new(program);
    nobody.args(["--exact", "xdp::child", "--include-ignored"]).env("ROLE", "unprivileged");
    match nobody.uid(65_534).status() {
        Ok(status) => assert!(status.success(), "the sentence for those who are not root"),
        Err(error) => println!("skipped for nobody: {error}"),
    }
}

fn unprivileged() {
    let error = XdpPort::open(&config()).expect_err("not for everybody");
    assert!(matches!(error, XdpError::NoPermission { .. }), "{error}");
    assert!(error.to_string().contains("setcap"), "{error}");
}
