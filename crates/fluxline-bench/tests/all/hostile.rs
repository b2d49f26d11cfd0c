//! Strangers and dying benchmarks at the far side's control connection: scans, silence, garbage,
//! guesses, and benchmarks that are gone after any step. Who has the key is served all the same.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fluxline_bench::control::{Channel, Greeting, MESSAGE_BYTES_MAX, Message, take_message};
use fluxline_bench::environment::{Environment, Plan};
use fluxline_bench::real::{Near, Until};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, Stop, registry};
use fluxline_core::random::{Draw, test_seed};
use serde_json::{Value, json};

use crate::support::{self, Far, KEY, LIMIT, alone};

impl Far {
    fn connected(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    /// A connection that has said hello with this key.
    fn hello(&self, key: &str) -> Channel {
        let mut channel = Channel::new(self.connected()).expect("a socket");
        let (greeting, link) = (Greeting::ours(), "tcp://127.0.0.1".to_owned());
        channel.send(&Message::Hello { greeting, key: key.to_owned(), link }).expect("sent");
        channel
    }
}

fn connect(far: &Far, url: &str) -> Result<Near, Error> {
    support::connect(url, far.address, KEY)
}

/// Connects as a person would who has the key: again, while another benchmark is served.
fn served(far: &Far, url: &str) -> Near {
    let began = Instant::now();
    loop {
        match connect(far, url) {
            Ok(near) => return near,
            Err(error) => assert!(began.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn measure(near: &mut Near, url: &str) {
    let plan = Plan { rounds: 1, sizes: [1, 64], ..Plan::quick() };
    support::measure(near, url, &["integrity"], &plan);
}

#[test]
fn a_port_scan_does_not_end_serving_once() {
    let _alone = alone();
    let far = Far::start(Until::FirstEnds);
    for _ in 0..20 {
        drop(far.connected());
    }
    far.connected().write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let mut near = connect(&far, "shm://").expect("it still serves");
    measure(&mut near, "shm://");
    drop(near);
    let began = Instant::now();
    while !far.is_over() {
        assert!(began.elapsed() < LIMIT, "one benchmark was served");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn silent_connections_delay_nobody_who_has_the_key() {
    let far = Far::start(Until::Stopped);
    let silent: Vec<TcpStream> = (0..8).map(|_| far.connected()).collect();
    // Another limit would give up first: five seconds for each of the silent ones are too many.
    let near = connect(&far, "tcp://127.0.0.1").expect("served beside them");
    drop(near);
    let more: Vec<TcpStream> = (0..300).map(|_| far.connected()).collect();
    let near = served(&far, "tcp://127.0.0.1");
    drop((near, silent, more));
}

#[test]
fn who_guesses_the_key_waits() {
    let far = Far::start(Until::Stopped);
    let (began, mut answers) = (Instant::now(), 0);
    let mut guesses: Vec<Channel> = (0..4).map(|_| far.hello("guess")).collect();
    while answers < 4 {
        assert!(began.elapsed() < LIMIT, "{answers} answers");
        for guess in &mut guesses {
            match guess.poll() {
                Ok(None) => {}
                Ok(Some(Message::Refused { why })) => {
                    assert!(why.contains("the key is wrong"), "{why}");
                    answers += 1;
                    *guess = far.hello("guess");
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Err(_) => *guess = far.hello("guess"),
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // 0.1 + 0.2 + 0.4 s of waiting are between the first four.
    let least = Duration::from_millis(700);
    assert!(began.elapsed() >= least, "{answers} guesses in {:?}", began.elapsed());
    drop(guesses);
    served(&far, "tcp://127.0.0.1");
}

#[test]
fn a_second_benchmark_is_rejected_while_the_first_is_served() {
    let far = Far::start(Until::Stopped);
    let first = connect(&far, "tcp://127.0.0.1").expect("served");
    let why = connect(&far, "tcp://127.0.0.1").err().expect("refused").to_string();
    assert!(why.contains("it serves a benchmark of 127.0.0.1"), "{why}");
    drop(first);
    served(&far, "tcp://127.0.0.1");
}

/// The ends of a link are not polled while a service runs: nobody is dead.
#[test]
fn a_service_that_takes_longer_than_the_death_of_a_peer_breaks_no_link() {
    let _alone = alone();
    let far = Far::start(Until::FirstEnds);
    let mut near = connect(&far, "udp://127.0.0.1").expect("it serves");
    measure(&mut near, "udp://127.0.0.1");
    let parameters = json!({ "address": "127.0.0.1" });
    let tcp = registry::service("tcp-exchange").expect("there");
    let outcome = near.call(tcp, &parameters, &mut |conversation| {
        let told = conversation.receive(LIMIT)?.unwrap_or_default();
        let port = told["port"].as_u64().expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port as u16)).expect("it listens");
        std::thread::sleep(Duration::from_secs(4));
        conversation.send(&Value::Null)?;
        drop(stream);
        Ok(Value::Null)
    });
    outcome.expect("it was done");
    measure(&mut near, "udp://127.0.0.1");
}

/// One thing that a stranger, or a benchmark that dies, does.
fn act(far: &Far, draw: &mut Draw) -> Option<TcpStream> {
    let mut stream = far.connected();
    let mut bytes = vec![0; draw.below(2000) as usize];
    bytes.fill_with(|| draw.bits() as u8);
    let orders = [
        Message::Open { url: String::new(), half_bytes: 0, key: 1, core: None },
        Message::Open { url: "shm://".into(), half_bytes: u64::MAX, key: 1, core: Some(9999) },
        Message::Open { url: "\u{1b}[31m://".into(), half_bytes: 4096, key: 1, core: None },
        Message::Begin { number: 1, trial: "pingpong".into(), parameters: json!([1e300, null]) },
        Message::Call { service: "no\u{7}ne".into(), parameters: json!({}) },
        Message::Call { service: "tcp-exchange".into(), parameters: json!({ "address": "::" }) },
        Message::Call { service: "datagrams".into(), parameters: json!({ "kind": -1 }) },
        Message::Ready,
        Message::Tell { value: json!(vec![7; 100]) },
        Message::Finished { outcome: json!(null) },
    ];
    match draw.below(7) {
        // A scan.
        0 => return None,
        1 => return Some(stream),
        2 => stream.write_all(&bytes).ok()?,
        // The beginning of a message.
        3 => {
            let head = (draw.below(2 * MESSAGE_BYTES_MAX as u64) as u32).to_le_bytes();
            stream.write_all(&head).and_then(|()| stream.write_all(&bytes)).ok()?;
        }
        4 => drop(far.hello("wrong")),
        _ => {
            let mut channel = far.hello(KEY);
            for _ in 0..draw.below(4) {
                let order = &orders[draw.below(orders.len() as u64) as usize];
                channel.send(order).ok()?;
            }
            let linger = Duration::from_millis(draw.below(150));
            // Whatever the answer.
            let _ = channel.wait(linger, &Stop::default());
            return None;
        }
    }
    (draw.below(2) == 0).then_some(stream)
}

#[test]
fn whatever_strangers_and_dying_benchmarks_do_the_next_one_is_served() {
    let _alone = alone();
    let mut draw = Draw::new(test_seed!(1));
    let far = Far::start(Until::Stopped);
    for round in 0..3 {
        let kept: Vec<TcpStream> =
            (0..1 + draw.below(12)).filter_map(|_| act(&far, &mut draw)).collect();
        assert!(!far.is_over(), "round {round}: {:?}", far.said());
        let mut near = served(&far, "shm://");
        measure(&mut near, "shm://");
        drop((near, kept));
    }
    for line in far.said() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn a_stranger_is_given_no_memory_for_a_long_message() {
    let far = Far::start(Until::Stopped);
    let mut stream = far.connected();
    stream.write_all(&5000_u32.to_le_bytes()).expect("sent");
    stream.set_read_timeout(Some(LIMIT)).expect("set");
    // Cut off at once, and not when the message has not come.
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    served(&far, "tcp://127.0.0.1");
}

#[test]
fn any_bytes_are_messages_or_refused() {
    let first = test_seed!(1);
    let mut draw = Draw::new(first);
    let good =
        Message::Begin { number: 3, trial: "stream".into(), parameters: json!({ "a": [1] }) };
    let body = serde_json::to_vec(&good).expect("JSON");
    let mut whole = (body.len() as u32).to_le_bytes().to_vec();
    whole.extend(body);
    for _ in 0..5_000 {
        let mut bytes = whole.clone();
        for _ in 0..draw.below(4) {
            let place = draw.below(bytes.len() as u64) as usize;
            bytes[place] = draw.bits() as u8;
        }
        bytes.truncate(draw.below(bytes.len() as u64 + 1) as usize);
        let before = bytes.len();
        match take_message(&mut bytes, 4096) {
            Ok(Some(_)) => assert!(bytes.len() < before),
            Ok(None) => assert_eq!(bytes.len(), before),
            Err(error) => assert!(!error.to_string().chars().any(char::is_control)),
        }
        // Errors are a value too.
        let _ = Report::parse(&bytes);
    }
}
