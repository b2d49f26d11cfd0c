//! Tests of perftest's exchange on loopback: both roles of every program, clients that die in each
//! phase or send nonsense, and servers that do.
//!
//! tools/rxe/test.sh runs the same exchange against the real programs.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fluxline_bench::Stop;
use fluxline_bench::perftest::{Error, Operation, Outcome, Phase, Plan, Program, Server, connect};
use fluxline_core::fabric::Reliability;

/// Two addresses of loopback that no other test uses.
fn addresses() -> [IpAddr; 2] {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    [1, 2].map(|last| IpAddr::from([127, 91, number, last]))
}

fn never() -> Stop {
    Stop::on(Default::default())
}

fn program(name: &str) -> Program {
    Program::named(name).expect("a program")
}

/// A plan for tests, of a server whose client is at this address.
fn plan_for(program: Program, client: IpAddr) -> Plan {
    let limit = Duration::from_secs(20);
    Plan { peer: Some(client), operations: 300, limit, ..Plan::of(program) }
}

/// A server that runs in a thread.
struct Serving {
    address: SocketAddr,
    result: Receiver<Result<Outcome, Error>>,
    reports: Receiver<String>,
}

impl Serving {
    fn start(at: IpAddr, plan: Plan) -> Serving {
        let server = Server::bind(SocketAddr::new(at, 0), plan).expect("free addresses");
        let address = server.address().expect("bound");
        let (done, result) = channel();
        let (say, reports) = channel();
        std::thread::spawn(move || {
            let report = |sentence: &str| drop(say.send(sentence.to_owned()));
            let _ = done.send(server.serve(&never(), &report));
        });
        Serving { address, result, reports }
    }

    fn result(self) -> Result<Outcome, Error> {
        self.result.recv_timeout(Duration::from_secs(180)).expect("a server ends")
    }

    /// Connects a client that speaks the exchange by hand.
    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENT)).expect("possible");
        stream
    }
}

/// Returns the results of server and client.
fn both(program: Program, reliability: Reliability) -> [Outcome; 2] {
    let [at, client] = addresses();
    let plan = Plan { reliability, ..plan_for(program, client) };
    let serving = Serving::start(at, plan.clone());
    let plan = Plan { own: Some(client), peer: None, ..plan };
    let near = connect(serving.address, &plan, &never());
    let far = serving.result();
    match (far, near) {
        (Ok(far), Ok(near)) => [far, near],
        (far, near) => panic!("{program}: the server {far:?}, the client {near:?}"),
    }
}

#[test]
fn every_program_runs_between_two_ends_of_ours() {
    for program in Program::all() {
        let [far, near] = both(program, Reliability::Reliable);
        // An end of ours reads one frame at a time: 16 make 64 KiB.
        let reads = if program == self::program("ib_read_bw") { 16 } else { 1 };
        assert_eq!((far.operations, near.operations), (300 * reads, 300), "{program}");
        let bytes = Some(program.bytes());
        assert_eq!((far.bytes, near.bytes), (bytes.filter(|_| reads == 1), bytes), "{program}");
        assert_eq!(near.latency.is_some(), program.is_latency, "{program}");
        assert!(near.mb_per_s().is_some_and(|rate| rate > 0.0), "{program}");
        assert_eq!((near.peer.version.as_str(), near.peer.path_mtu), ("6.06", 4096));
        if let Some(of) = near.latency {
            assert!(0.0 < of.least_us && of.least_us <= of.median_us, "{of:?}");
            assert!(of.median_us <= of.high_us && of.high_us <= of.most_us, "{of:?}");
        }
    }
}

#[test]
fn unreliable_programs_run_between_two_ends_of_ours() {
    for name in ["ib_write_bw", "ib_write_lat", "ib_send_lat"] {
        let [far, near] = both(program(name), Reliability::Unreliable);
        // An end of ours writes each frame by itself: 16 to a message of 64 KiB.
        let frames = if name == "ib_write_bw" { 16 } else { 1 };
        assert_eq!(near.operations, 300, "{name}");
        assert!(far.operations <= 300 * frames && far.operations > 0, "{name}: {}", far.operations);
    }
}

/// A key message of a client at this address.
fn key(pair: u32, at: IpAddr) -> Vec<u8> {
    let IpAddr::V4(at) = at else { panic!("IPv4") };
    let gid: Vec<String> =
        at.to_ipv6_mapped().octets().iter().map(|byte| format!("{byte:02x}:")).collect();
    let mut bytes =
        format!("0000:0001:{pair:06x}:05463f:0000039b:00007f6ce10da000:{}00000000:", gid.concat())
            .into_bytes();
    bytes.push(0);
    assert_eq!(bytes.len(), 108);
    bytes
}

const VERSION: &[u8; 16] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";

/// Sends a message and returns the answer of the same length; `None`: the server has closed.
fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(bytes).ok()?;
    let mut answer = vec![0; bytes.len()];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

fn greet(stream: &mut TcpStream) {
    assert_eq!(exchange(stream, VERSION).as_deref(), Some(VERSION.as_slice()));
    for message in [&[0, 0, 16, 0][..], &[0, 0, 0, 64], b"3\0"] {
        exchange(stream, message).expect("a greeting");
    }
}

/// The patience of a server whose client is not silent.
const PATIENT: Duration = Duration::from_secs(60);
/// The patience of a server whose client falls silent: longer than this thread may be held up.
const IMPATIENT: Duration = Duration::from_secs(2);

/// Serves a client that speaks by hand; returns the server's error.
fn failure_of(name: &str, speak: impl FnOnce(&mut TcpStream, IpAddr)) -> Error {
    failure_within(PATIENT, name, speak)
}

fn failure_within(
    limit: Duration,
    name: &str,
    speak: impl FnOnce(&mut TcpStream, IpAddr),
) -> Error {
    let [at, client] = addresses();
    let plan = Plan { limit, ..plan_for(program(name), client) };
    let serving = Serving::start(at, plan);
    let mut stream = serving.client();
    greet(&mut stream);
    speak(&mut stream, client);
    serving.result().expect_err("the client is wrong")
}

#[test]
fn a_client_that_dies_is_named_with_the_phase() {
    let error = failure_within(IMPATIENT, "ib_write_bw", |_, _| {});
    assert!(matches!(error, Error::Silent { phase: Phase::Keys, .. }), "{error}");
    let error = failure_of("ib_write_bw", |stream, _| {
        stream.shutdown(std::net::Shutdown::Both).expect("possible");
    });
    assert!(matches!(error, Error::Ended { phase: Phase::Keys }), "{error}");
    for name in ["ib_write_bw", "ib_send_bw", "ib_read_lat"] {
        let barriers = if name == "ib_write_bw" { 2 } else { 3 };
        let error = failure_of(name, |stream, client| {
            for _ in 0..=barriers {
                exchange(stream, &key(7, client)).expect("an answer");
            }
            stream.shutdown(std::net::Shutdown::Both).expect("possible");
        });
        assert!(matches!(error, Error::Ended { phase: Phase::Test }), "{name}: {error}");
    }
    let error = failure_of("ib_write_bw", |stream, client| {
        for _ in 0..4 {
            exchange(stream, &key(7, client)).expect("an answer");
        }
        exchange(stream, &65_536_u64.to_be_bytes()).expect("an answer");
        stream.shutdown(std::net::Shutdown::Both).expect("possible");
    });
    assert!(matches!(error, Error::Ended { phase: Phase::End }), "{error}");
}

#[test]
fn a_silent_client_is_given_up_and_the_sentence_says_what_to_do() {
    let mut kept = None;
    let error = failure_within(IMPATIENT, "ib_read_bw", |stream, client| {
        for _ in 0..3 {
            exchange(stream, &key(7, client)).expect("an answer");
        }
        kept = stream.try_clone().ok();
    });
    assert!(matches!(error, Error::Silent { phase: Phase::Test, .. }), "{error}");
    assert!(error.to_string().contains("same program, message size"), "{error}");
}

#[test]
fn a_write_to_a_client_without_a_queue_pair_ends_in_an_error() {
    // Nothing answers at the client's UDP port.
    let [at, client] = addresses();
    let plan = plan_for(program("ib_write_lat"), client);
    let serving = Serving::start(at, plan);
    let mut stream = serving.client();
    greet(&mut stream);
    for _ in 0..4 {
        exchange(&mut stream, &key(7, client)).expect("an answer");
    }
    let error = serving.result().expect_err("nobody answers");
    assert!(matches!(error, Error::Broken { phase: Phase::Test, .. }), "{error}");
}

#[test]
fn a_test_without_an_operation_is_an_error() {
    let error = failure_of("ib_read_bw", |stream, client| {
        for _ in 0..4 {
            exchange(stream, &key(7, client)).expect("an answer");
        }
        for _ in 0..5 {
            exchange(stream, &[0; 8]).expect("an answer");
        }
        exchange(stream, &key(7, client)).expect("an answer");
        exchange(stream, b"done\0").expect("an answer");
    });
    assert!(matches!(error, Error::Nothing { .. }), "{error}");
}

#[test]
fn wrong_key_messages_are_named() {
    let with = |change: fn(&mut Vec<u8>)| {
        failure_of("ib_write_bw", move |stream, client| {
            let mut bytes = key(7, client);
            change(&mut bytes);
            let _ = stream.write_all(&bytes);
        })
    };
    let error = with(|bytes| bytes[10] = b'x');
    assert!(matches!(error, Error::Garbled { .. }), "{error}");
    let error = with(|bytes| bytes[98..106].copy_from_slice(b"00000009"));
    assert!(matches!(error, Error::SharedQueue), "{error}");
    let error = with(|bytes| {
        for at in (50..98).step_by(3) {
            bytes[at..at + 2].copy_from_slice(b"00");
        }
    });
    assert!(matches!(error, Error::NoGid), "{error}");
    let error = with(|bytes| bytes[95..97].copy_from_slice(b"63"));
    assert!(matches!(error, Error::Gid { .. }), "{error}");
    assert!(error.to_string().contains(".99 is") || error.to_string().contains(".99 here"));
}

#[test]
fn a_client_with_too_many_queue_pairs_is_refused() {
    let error = failure_of("ib_send_lat", |stream, client| {
        exchange(stream, &key(7, client)).expect("an answer");
        exchange(stream, &key(7, client)).expect("an answer");
        let _ = stream.write_all(&key(8, client));
    });
    assert!(matches!(error, Error::Pairs { max: 1, .. }), "{error}");
    let error = failure_of("ib_write_bw", |stream, client| {
        for pair in 1..=64 {
            exchange(stream, &key(pair, client)).expect("an answer");
        }
        let _ = stream.write_all(&key(65, client));
    });
    assert!(matches!(error, Error::Pairs { max: 64, .. }), "{error}");
}

#[test]
fn strangers_are_reported_and_the_next_client_is_served() {
    let [at, client] = addresses();
    let plan = plan_for(program("ib_write_bw"), client);
    let serving = Serving::start(at, plan.clone());
    let said = || serving.reports.recv_timeout(PATIENT).expect("a sentence");
    drop(serving.client());
    assert!(said().contains("closed its TCP connection before its version"));
    serving.client().write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it listens");
    let sentence = said();
    assert!(sentence.contains("`GET / HTTP/1.1\\r\\n`") && sentence.contains("ib_write_bw"));
    let mut old = serving.client();
    exchange(&mut old, b"5.33\0\0\0\0\0\0\0\0\0\0\0\0");
    assert!(said().contains("version 5.33"));
    let mut mtu = serving.client();
    for message in [&VERSION[..], &[0, 0, 16, 0], &[0, 0, 0, 64]] {
        exchange(&mut mtu, message).expect("a greeting");
    }
    let _ = mtu.write_all(b"9\0");
    assert!(said().contains("`9\\0`"));
    let silent = serving.client();
    // A machine that is busy sees the silence later.
    let sentence = said();
    assert!(sentence.contains("silent for"), "{sentence}");
    drop(silent);
    let plan = Plan { own: Some(client), peer: None, ..plan };
    connect(serving.address, &plan, &never()).expect("served");
    assert_eq!(serving.result().expect("served").operations, 300);
}

/// A small generator of random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_clients_never_hang_or_stop_a_server_with_a_panic() {
    let mut random = Random(fluxline_core::random::test_seed!(7) | 1);
    for round in 0..8 {
        let programs: Vec<Program> = Program::all().collect();
        let program = programs[random.next() as usize % programs.len()];
        let [at, client] = addresses();
        let plan = Plan { limit: PATIENT, ..plan_for(program, client) };
        let serving = Serving::start(at, plan);
        let mut stream = serving.client();
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("possible");
        greet(&mut stream);
        for _ in 0..random.next() % 12 {
            let mut message = match random.next() % 4 {
                0 => 8_u64.to_be_bytes().to_vec(),
                1 => b"done\0".to_vec(),
                _ => key((random.next() % 3) as u32 + 1, client),
            };
            if random.next().is_multiple_of(3) {
                let at = random.next() as usize % message.len();
                message[at] = random.next() as u8;
            }
            exchange(&mut stream, &message);
        }
        drop(stream);
        let result = serving.result();
        assert!(result.is_err(), "round {round}, {program}: no operation was done");
    }
}

/// Answers a client with these messages, one for each of its own.
fn script(at: IpAddr, answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::new(at, 0)).expect("free");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        for answer in answers {
            let mut asked = vec![0; answer.len()];
            if stream.read_exact(&mut asked).is_err() || stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn a_server_that_dies_or_lies_is_named() {
    let run = |answers: Vec<Vec<u8>>| {
        let [at, client] = addresses();
        let plan =
            Plan { own: Some(client), peer: None, ..plan_for(program("ib_read_lat"), client) };
        connect(script(at, answers), &plan, &never()).expect_err("wrong")
    };
    let greeting = || -> Vec<Vec<u8>> {
        vec![VERSION.to_vec(), vec![0, 0, 16, 0], vec![0, 0, 0, 64], b"5\0".to_vec()]
    };
    let error = run(vec![]);
    assert!(matches!(error, Error::Ended { phase: Phase::Greeting }), "{error}");
    let error = run(vec![b"2.0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()]);
    assert!(matches!(error, Error::Version { .. }), "{error}");
    let error = run(greeting());
    assert!(matches!(error, Error::Ended { phase: Phase::Keys }), "{error}");
    let error = run([greeting(), vec![vec![b'z'; 108]]].concat());
    assert!(matches!(error, Error::Garbled { .. }), "{error}");
    let [nowhere, _] = addresses();
    let error = run([greeting(), vec![key(7, nowhere)]].concat());
    assert!(matches!(error, Error::Gid { .. }), "{error}");
}

#[test]
fn a_client_without_a_server_says_what_to_start() {
    let [at, client] = addresses();
    let plan = Plan { own: Some(client), ..Plan::of(program("ib_write_bw")) };
    let error = connect(SocketAddr::new(at, 9), &plan, &never());
    let error = error.expect_err("nobody listens").to_string();
    assert!(error.contains("nobody listens") && error.contains("start ib_write_bw there"));
}

#[test]
fn a_message_longer_than_its_buffer_is_named() {
    let [at, client] = addresses();
    let plan = Plan { bytes: 100, ..plan_for(program("ib_send_bw"), client) };
    let serving = Serving::start(at, plan.clone());
    let plan = Plan { bytes: 101, own: Some(client), peer: None, ..plan };
    assert!(connect(serving.address, &plan, &never()).is_err());
    let error = serving.result().expect_err("too long");
    assert!(matches!(error, Error::TooLong { bytes: 100 }), "{error}");
    assert_eq!(plan.program.operation, Operation::Send);
}
