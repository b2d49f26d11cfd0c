//! The short programs of the documentation, on every link; and the ways in which they end badly.

#[path = "../../examples/short/program.rs"]
mod program;

use std::net::UdpSocket;

use fluxline::fabric::push::{FanOut, Follower, Lag, PushRefused, RingAddress};
use fluxline::fabric::{Grant, Key, Level, Local, Name, Reliability, Rights, Target, Work};
use fluxline::{NodeError, Span};

const RECORDS: u32 = 3000;
const SECOND: Span = Span::from_s(1);
/// A time that no honest end takes.
const PATIENCE: Span = Span::from_s(60);

/// URLs of a consumer and a sensor on every link, and the name by which the sensor finds the other.
fn links(test: &str) -> Vec<[String; 3]> {
    fluxline_sim::register();
    let group = format!("{test}-{}", std::process::id());
    let sim = |network: &str, keys: &str| {
        let url = |node: &str| format!("sim:{network}/{group}-{network}/{node}?{keys}");
        [url("consumer"), url("sensor"), "consumer".to_owned()]
    };
    let port = free_port();
    vec![
        [format!("shm://{group}/consumer"), format!("shm://{group}/sensor"), "consumer".into()],
        [
            format!("udp://127.0.0.1:{port}"),
            "udp://127.0.0.1:0".into(),
            format!("127.0.0.1:{port}"),
        ],
        sim("sci", "nodes=2"),
        sim("ethernet", "nodes=2&fault=loss:0.01"),
        sim("myrinet", "nodes=2"),
    ]
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("bound").port()
}

#[test]
fn a_record_of_the_short_programs_is_lost_or_doubled_on_some_link() {
    let expected: u64 = (0..RECORDS).map(|number| u64::from(number as u8)).sum();
    for [consumer, sensor, peer] in links("short") {
        let read = std::thread::scope(|scope| {
            let reading = scope.spawn(|| program::consumer(&consumer));
            program::sensor(&sensor, &peer, RECORDS).unwrap_or_else(|e| panic!("{sensor}: {e}"));
            reading.join().expect("no panic").unwrap_or_else(|e| panic!("{consumer}: {e}"))
        });
        assert_eq!(read, (RECORDS, expected), "{consumer}");
    }
}

/// Reads both ends of a fan-out; the second reader joins when the first has half of the records.
fn read_twice(url: &str) -> Vec<Vec<u64>> {
    let mut node = fluxline::node(url).expect("opened");
    let first = node.receiver("first", Key(7), 64, 64).expect("made");
    let (mut second, mut got) = (None, vec![Vec::new(), Vec::new()]);
    let mut followers = [Follower::default(), Follower::default()];
    while let Some(record) =
        node.next_numbered(first, &mut followers[0], PATIENCE).expect("a record")
    {
        assert_eq!(record.bytes, record.number.to_le_bytes());
        got[0].push(record.number);
        if record.number == u64::from(RECORDS / 2) {
            second = Some(node.receiver("second", Key(7), 8192, 64).expect("made"));
        }
    }
    let second = second.expect("the first reader got half");
    while let Some(record) =
        node.next_numbered(second, &mut followers[1], PATIENCE).expect("a record")
    {
        assert_eq!(record.bytes, record.number.to_le_bytes());
        got[1].push(record.number);
    }
    assert_eq!(followers.map(|follower| follower.missed()), [0, 0], "{url}");
    got
}

#[test]
fn a_reader_that_joins_a_fan_out_late_holds_the_first_or_gets_gaps() {
    for [consumer, sensor, peer] in links("fan-out") {
        let [first, second] = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_twice(&consumer));
            let mut node = fluxline::node(&sensor).expect("opened");
            let mut fan = FanOut::new();
            let branches = ["first", "second"].map(|ring| {
                let name = Name::parse(ring).expect("a name");
                fan.add(RingAddress { peer: peer.clone(), name, key: Key(7) }, Lag::Waits)
            });
            node.wait_joined(&mut fan, branches[0], PATIENCE).expect("the first reader");
            // Enough for the first half; the rest once the second reader is there.
            for number in 0..2 * u64::from(RECORDS) {
                if number == u64::from(RECORDS) {
                    node.wait_joined(&mut fan, branches[1], PATIENCE).expect("the second");
                }
                node.fan_out(&mut fan, &number.to_le_bytes(), PATIENCE).expect("pushed");
            }
            node.finish_fan_out(&mut fan, PATIENCE).expect("the readers are there");
            drop(node); // virtual time waits for a node that does not call
            let got = reading.join().expect("no panic");
            for (branch, got) in branches.into_iter().zip(&got) {
                let state = fan.state(branch);
                assert_eq!(state.pushed, got.len() as u64, "{sensor}");
                assert_eq!(state.pushed + state.missed, 2 * u64::from(RECORDS), "{sensor}");
            }
            <[Vec<u64>; 2]>::try_from(got).expect("two")
        });
        assert!(first.iter().copied().eq(0..2 * u64::from(RECORDS)), "{consumer}");
        let joined = *second.first().expect("it joined");
        assert!((u64::from(RECORDS / 2)..=u64::from(RECORDS)).contains(&joined), "{joined}");
        assert!(second.iter().copied().eq(joined..2 * u64::from(RECORDS)), "{consumer}");
    }
}

#[test]
fn a_call_that_waits_in_vain_does_not_name_the_peer_and_the_remedy() {
    for [consumer, sensor, peer] in links("in-vain") {
        std::thread::scope(|scope| {
            let (done, until_done) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let mut node = fluxline::node(&consumer).expect("opened");
                let none = node.receiver("other", Key(7), 8, 64).expect("made");
                let late = node.next_record(none, Span::from_ms(50)).expect_err("nobody pushes");
                assert!(late.to_string().contains("ring other"), "{late}");
                while until_done.try_recv().is_err() {
                    let _ = node.next_completion(Span::from_ms(20)); // connections of the sensor
                }
            });
            let mut node = fluxline::node(&sensor).expect("opened");
            let short = Span::from_ms(300);
            let late = node.sender(&peer, "samples", Key(7), short).expect_err("no such ring");
            let text = late.to_string();
            assert!(
                matches!(late, NodeError::Push { reason: PushRefused::NotOpen(_), .. }),
                "{text}"
            );
            assert!(text.contains(&peer) && text.contains("look at the name"), "{text}");
            let wrong = node.sender(&peer, "other", Key(8), PATIENCE).expect_err("another key");
            assert!(wrong.to_string().contains("the key is not the region's"), "{wrong}");
            let late = node.connect("nobody", Reliability::Reliable, Span::from_ms(50));
            assert!(late.expect_err("nobody").to_string().contains("nobody"));
            let endpoint = node.connect(&peer, Reliability::Reliable, PATIENCE).expect("there");
            let late = node.wait_for(endpoint, 1, Span::from_ms(20)).expect_err("no work 1");
            let text = late.to_string();
            assert!(text.contains(&peer) && text.contains("complete_at"), "{text}");
            done.send(()).expect("it runs");
        });
    }
}

#[test]
fn a_put_that_was_waited_for_is_not_in_the_owners_memory() {
    for [owner, writer, peer] in links("put") {
        std::thread::scope(|scope| {
            let owning = scope.spawn(move || {
                let mut node = fluxline::node(&owner).expect("opened");
                let grant = Grant { rights: Rights::ALL, key: Key(7) };
                let region = node.export("words", grant, 64).expect("exported");
                let came = node.wait_notified(region, PATIENCE).expect("notified");
                let mut bytes = [0; 6];
                let memory = node.fabric().memory(region).expect("own");
                memory.read(came.offset, &mut bytes).expect("inside");
                assert_eq!((&bytes, came.value), (b"sample", 42));
                while node.next_completion(SECOND).is_ok() {}
            });
            let mut node = fluxline::node(&writer).expect("opened");
            let endpoint = node.connect(&peer, Reliability::Reliable, PATIENCE).expect("there");
            let remote = node.import(endpoint, "words", Key(7), PATIENCE).expect("exported");
            assert_eq!(remote.bytes, 64);
            let (from, to) = (Local::Bytes(b"sample"), Target { remote: remote.remote, offset: 8 });
            let put = Work::Put { from, to, notify: Some(42), complete_at: Some(Level::Placed) };
            node.post(endpoint, 1, put, PATIENCE).expect("posted");
            node.wait_for(endpoint, 1, PATIENCE).expect("placed");
            let wrong = node.import(endpoint, "words", Key(8), PATIENCE).expect_err("another key");
            assert!(matches!(wrong, NodeError::Import { .. }), "{wrong}");
            assert!(wrong.to_string().contains(&peer), "{wrong}");
            drop(node);
            owning.join().expect("no panic");
        });
    }
}
