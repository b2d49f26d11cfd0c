//! Ports of one process: frames arrive unchanged, and faults are the configured ones.

use std::net::SocketAddr;

use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::port::tap::{PCAP_HEADER, Tap};
use fluxline_core::port::{Outgoing, Port};
use fluxline_core::{Moment, Span};

const FRAMES: u64 = 10_000;

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 4791))
}

fn ends() -> (NetworkPort, NetworkPort) {
    let network = Network::new();
    (network.port(address(1), 1500), network.port(address(2), 1500))
}

fn send(port: &mut impl Port, number: u64) {
    let Outgoing { bytes, .. } = port.frame(address(2), 100).expect("room");
    bytes.fill(0x55);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    port.flush(Moment::default());
}

/// Sends one frame each microsecond; returns the arrivals with their times and marks.
fn through(faults: Faults, seed: u64) -> (Vec<(u64, Moment, bool)>, Lossy<NetworkPort>) {
    let (mut sender, receiver) = ends();
    let mut receiver = Lossy::new(receiver, faults, seed);
    let mut arrived = Vec::new();
    let mut take = |receiver: &mut Lossy<NetworkPort>, now| {
        while receiver.receive(now, &mut |frame| {
            let number = u64::from_le_bytes(frame.bytes[..8].try_into().expect("8 byte"));
            arrived.push((number, now, frame.congestion));
        }) > 0
        {}
    };
    for number in 0..FRAMES {
        send(&mut sender, number);
        take(&mut receiver, Moment::from_ns(number * 1000));
    }
    while let Some(due) = receiver.deadline() {
        take(&mut receiver, due);
    }
    (arrived, receiver)
}

#[test]
fn without_faults_all_frames_arrive_in_order() {
    let (arrived, port) = through(Faults::default(), 1);
    assert!(arrived.iter().map(|frame| frame.0).eq(0..FRAMES));
    assert_eq!(port.faults(), Default::default());
    assert_eq!(port.counters().frames_received, FRAMES);
}

#[test]
fn each_fault_befalls_as_many_frames_as_its_probability_says_and_is_counted() {
    let near = |count: u64| (900..1100).contains(&count);
    let (arrived, port) = through(Faults { drop: 0.1, ..Faults::default() }, 2);
    assert!(near(port.faults().dropped));
    assert_eq!(arrived.len() as u64, FRAMES - port.faults().dropped);

    let (arrived, port) = through(Faults { duplicate: 0.1, ..Faults::default() }, 3);
    assert!(near(port.faults().duplicated));
    assert_eq!(arrived.len() as u64, FRAMES + port.faults().duplicated);

    let reorder_delay = Span::from_ns(20_000);
    let (arrived, port) = through(Faults { reorder: 0.1, reorder_delay, ..Faults::default() }, 4);
    assert!(near(port.faults().reordered));
    let behind = arrived.windows(2).filter(|pair| pair[1].0 < pair[0].0).count() as u64;
    assert!(behind > 500 && behind <= port.faults().reordered, "{behind}");
    assert_eq!(arrived.len() as u64, FRAMES);

    let (_, port) = through(Faults { corrupt: 0.1, ..Faults::default() }, 5);
    assert!(near(port.faults().corrupted));
}

#[test]
fn a_seed_repeats_its_faults() {
    let reorder_delay = Span::from_ns(20_000);
    let faults =
        Faults { drop: 0.1, duplicate: 0.1, reorder: 0.1, reorder_delay, ..Faults::default() };
    assert_eq!(through(faults, 6).0, through(faults, 6).0);
    assert_ne!(through(faults, 6).0, through(faults, 7).0);
}

#[test]
fn a_bottleneck_lets_through_its_rate_marks_and_then_drops() {
    // 100 bytes come each microsecond, and half of them pass.
    let (rate, queue_bytes, mark_bytes) = (50_000_000, 10_000, 5_000);
    let faults = Faults { rate, queue_bytes, mark_bytes, ..Faults::default() };
    let (arrived, port) = through(faults, 8);
    let last = arrived.last().expect("some").1.as_ns();
    let passed = arrived.len() as u64 * 100;
    assert!(passed <= rate * last / 1_000_000_000 + 100 && passed > 495_000, "{passed} in {last}");
    assert_eq!(port.faults().queue_dropped + arrived.len() as u64, FRAMES);
    let marked = arrived.iter().filter(|frame| frame.2).count() as u64;
    assert_eq!(marked, port.faults().marked);
    assert!(marked > FRAMES / 3, "the queue is above its mark nearly always: {marked}");
}

#[test]
fn a_cut_loses_what_comes_while_it_lasts() {
    let cut = Some((Moment::from_ns(1_000_000), Moment::from_ns(2_000_000)));
    let (arrived, _) = through(Faults { cut, ..Faults::default() }, 9);
    assert!(arrived.iter().map(|frame| frame.0).eq((0..1000).chain(2000..FRAMES)));
}

#[test]
fn a_tap_shows_both_directions_as_pcap_records() {
    let (left, mut right) = ends();
    let file = fluxline_core::lock::Lock::new(PCAP_HEADER.to_vec());
    let mut left = Tap::new(left, |record: &[u8]| file.lock().extend_from_slice(record));
    send(&mut left, 7);
    assert_eq!(right.receive(Moment::default(), &mut |_| {}), 1);
    right.frame(address(1), 30).expect("room").bytes.fill(9);
    right.flush(Moment::default());
    assert_eq!(left.receive(Moment::from_ns(3_000_000_005), &mut |_| {}), 1);
    let file = file.lock();
    assert_eq!(file.len(), 24 + 16 + 28 + 100 + 16 + 28 + 30);
    let second = &file[24 + 16 + 128..];
    assert_eq!(second[..8], [3, 0, 0, 0, 5, 0, 0, 0], "seconds and nanoseconds");
    assert_eq!(second[8], 58);
    assert_eq!(second[16..20], [0x45, 0, 0, 58]);
    assert_eq!(second[28..36], [10, 0, 0, 2, 10, 0, 0, 1]);
    assert_eq!(second[44..], [9; 30]);
    // The sum over the whole header, checksum included, is all ones.
    let words = second[16..36].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
}

#[test]
fn a_port_that_is_gone_swallows_frames_and_a_full_one_counts_them() {
    let network = Network::new();
    let mut sender = network.port(address(1), 100);
    let receiver = network.port(address(2), 100);
    assert!(sender.frame(address(2), 101).is_none(), "too long");
    assert!(sender.frame(address(2), 0).is_none(), "nothing");
    for _ in 0..5000 {
        sender.frame(address(2), 1).expect("room");
        sender.flush(Moment::default());
    }
    assert_eq!(receiver.counters().frames_dropped, 5000 - 4096);
    drop(receiver);
    sender.frame(address(2), 1).expect("room");
    sender.flush(Moment::default());
    assert_eq!(sender.counters().frames_sent, 5001);
}
