//! Real sockets over loopback: what is sent arrives whole, or is counted where it was lost.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline::ring::{Consumer, Producer, RingConfig, SLOT_BYTES_ANY, ring};
use fluxline::udp::{
    BindError, Multicast, Pacer, ReceiveError, Received, ReceiverConfig, SendError, SenderConfig,
    UdpReceiver, UdpSender, WhenEmpty, WhenFull,
};

const SOON: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(10);

fn any_port(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 0)
}

/// With the buffer that an unprivileged program gets of Linux as shipped, so that these tests pass
/// there, too.
fn stock(listen: SocketAddr) -> ReceiverConfig {
    ReceiverConfig { buffer_bytes: 212_992, ..ReceiverConfig::new(listen) }
}

fn slots(count: usize) -> (Producer, Consumer) {
    ring(&RingConfig { slots: count, slot_bytes: SLOT_BYTES_ANY }).unwrap()
}

fn receiver(ip: &str) -> UdpReceiver {
    UdpReceiver::bind(stock(any_port(ip))).unwrap()
}

fn has_ipv6() -> bool {
    let there = std::net::UdpSocket::bind("[::1]:0").is_ok();
    if !there {
        println!("skipped: this host has no IPv6 loopback");
    }
    there
}

/// Payloads of the given sizes, each beginning with its number where it has room.
fn payloads(sizes: &[usize]) -> Vec<Vec<u8>> {
    let one = |(number, &size): (usize, &usize)| {
        let mut bytes = vec![number as u8; size];
        let head = size.min(8);
        bytes[..head].copy_from_slice(&(number as u64).to_le_bytes()[..head]);
        bytes
    };
    sizes.iter().enumerate().map(one).collect()
}

fn send_all(sender: &mut UdpSender, payloads: &[Vec<u8>]) {
    let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices).unwrap().accepted, slices.len());
}

/// Receives until `wanted` datagrams have come or nothing more comes.
fn collect(
    receiver: &mut UdpReceiver,
    (producer, consumer): (&mut Producer, &mut Consumer),
    wanted: usize,
) -> Vec<(SocketAddr, u16, Vec<u8>)> {
    let mut seen = Vec::new();
    let start = Instant::now();
    while seen.len() < wanted && start.elapsed() < LONG {
        let idle = receiver.receive_into(producer, SOON).unwrap() == Received::Idle;
        if idle && consumer.occupied() == 0 {
            break;
        }
        let filled = consumer.peek();
        let count = filled.len();
        for view in filled {
            for datagram in view.datagrams() {
                let sender = SocketAddr::new(datagram.sender.ip(), datagram.sender.port());
                seen.push((sender, datagram.port, datagram.bytes.to_vec()));
            }
        }
        consumer.release(count);
    }
    seen
}

fn roundtrip(listen: &str, to: &str, segmentation: bool, gro: bool, connect: bool) {
    let config = ReceiverConfig { gro, ..stock(any_port(listen)) };
    let mut receiver = UdpReceiver::bind(config).unwrap();
    let port = receiver.local_addresses().next().unwrap().port();
    let destination = SocketAddr::new(to.parse().unwrap(), port);
    let config = SenderConfig { segmentation, connect, ..SenderConfig::new(destination) };
    let mut sender = UdpSender::open(config).unwrap();
    let sizes: Vec<usize> =
        (0..300).map(|n| [1472, 1472, 1472, 0, 1, 8972, 700][n / 9 % 7]).collect();
    let sent = payloads(&sizes);
    let (mut producer, mut consumer) = slots(64);
    let mut seen = Vec::new();
    for part in sent.chunks(30) {
        send_all(&mut sender, part);
        seen.extend(collect(&mut receiver, (&mut producer, &mut consumer), part.len()));
    }
    assert_eq!(seen.len(), sent.len(), "{listen} {to} {segmentation} {gro} {connect}");
    for ((from, to_port, bytes), expected) in seen.iter().zip(&sent) {
        assert_eq!(bytes, expected);
        assert_eq!(*to_port, port);
        assert_eq!(from.port(), sender.local_address().port());
        assert_eq!(from.ip(), to.parse::<IpAddr>().unwrap());
    }
    let counters = receiver.counters().clone();
    assert_eq!(counters.datagrams, sent.len() as u64);
    assert_eq!(counters.bytes, sizes.iter().sum::<usize>() as u64);
    assert_eq!((counters.socket_drops, counters.truncated, counters.ring_full), (0, 0, 0));
    assert_eq!(counters.trains > 0, segmentation && gro, "{counters:?}");
    assert_eq!(sender.counters().datagrams, sent.len() as u64);
    assert_eq!(sender.counters().trains > 0, segmentation);
}

#[test]
fn ipv4_datagrams_and_trains_with_odd_tails_arrive_whole() {
    for segmentation in [false, true] {
        for gro in [false, true] {
            roundtrip("127.0.0.1", "127.0.0.1", segmentation, gro, true);
            roundtrip("0.0.0.0", "127.0.0.1", segmentation, gro, false);
        }
    }
}

#[test]
fn ipv6_and_dual_sockets_distinguish_both_families() {
    if has_ipv6() {
        roundtrip("::1", "::1", true, true, true);
        roundtrip("::", "::1", false, true, false);
        roundtrip("::", "127.0.0.1", true, true, true);
    }
}

#[test]
fn every_train_length_and_tail_splits_right() {
    let mut receiver = receiver("127.0.0.1");
    let destination = receiver.local_addresses().next().unwrap();
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    let (mut producer, mut consumer) = slots(128);
    for size in [1, 2, 700, 1472, 8972] {
        // More than that does not fit the buffer.
        for count in [1, 2, 3, 7, 63, 64, 65].into_iter().filter(|count| count * size < 100_000) {
            for tail in [1, size / 2, size - 1, size] {
                let mut sizes = vec![size; count];
                sizes.extend((tail > 0).then_some(tail));
                let sent = payloads(&sizes);
                send_all(&mut sender, &sent);
                let seen = collect(&mut receiver, (&mut producer, &mut consumer), sent.len());
                let seen: Vec<Vec<u8>> = seen.into_iter().map(|(_, _, bytes)| bytes).collect();
                assert!(seen == sent, "{count} of {size} byte and a tail of {tail}");
            }
        }
    }
    assert!(receiver.counters().trains > 0);
}

#[test]
fn datagrams_carry_the_kernels_time() {
    let mut receiver = receiver("127.0.0.1");
    let destination = receiver.local_addresses().next().unwrap();
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    let before = fluxline::clock::now();
    send_all(&mut sender, &payloads(&[100]));
    let sent = fluxline::clock::now();
    std::thread::sleep(Duration::from_millis(30));
    let (mut producer, mut consumer) = slots(8);
    assert_eq!(receiver.receive_into(&mut producer, LONG).unwrap(), Received::Slots(1));
    let time = consumer.peek().next().unwrap().meta.time;
    assert!(before <= time && time <= sent, "{before:?} {time:?} {sent:?}");
}

#[test]
fn one_receiver_listens_on_several_ports() {
    let listen = vec![any_port("127.0.0.1"), any_port("127.0.0.1"), any_port("127.0.0.1")];
    let config = ReceiverConfig { listen, ..stock(any_port("127.0.0.1")) };
    let mut receiver = UdpReceiver::bind(config).unwrap();
    let addresses: Vec<SocketAddr> = receiver.local_addresses().collect();
    for &destination in &addresses {
        let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
        send_all(&mut sender, &payloads(&[64; 200]));
    }
    let (mut producer, mut consumer) = slots(16);
    let seen = collect(&mut receiver, (&mut producer, &mut consumer), 600);
    for address in addresses {
        assert_eq!(seen.iter().filter(|(_, port, _)| *port == address.port()).count(), 200);
    }
}

#[test]
fn what_a_small_buffer_drops_is_counted_exactly() {
    let listen = any_port("127.0.0.1");
    let config = ReceiverConfig { buffer_bytes: 4_096, ..stock(listen) };
    let mut receiver = UdpReceiver::bind(config).unwrap();
    let destination = receiver.local_addresses().next().unwrap();
    let config = SenderConfig { segmentation: false, ..SenderConfig::new(destination) };
    let mut sender = UdpSender::open(config).unwrap();
    let (mut producer, mut consumer) = slots(128);
    let (mut sent, mut seen) = (0, 0);
    for burst in [50, 400, 1, 1000] {
        send_all(&mut sender, &payloads(&vec![1_000; burst]));
        sent += burst;
        seen += collect(&mut receiver, (&mut producer, &mut consumer), 1).len();
        while receiver.receive_into(&mut producer, Duration::ZERO).unwrap() != Received::Idle {
            let count = consumer.peek().len();
            seen += count;
            consumer.release(count);
        }
        // The last drops of a burst no packet tells; asking the socket does.
        assert_eq!(seen as u64 + receiver.counters().socket_drops, sent as u64);
    }
    assert!(receiver.counters().socket_drops > 0);
}

/// Floods a tiny buffer; returns (datagrams sent, messages sent, datagrams, messages, drops).
fn flood(segmentation: bool, gro: bool) -> (u64, u64, u64, u64, u64) {
    let listen = any_port("127.0.0.1");
    let config = ReceiverConfig { buffer_bytes: 100_000, gro, ..stock(listen) };
    let mut receiver = UdpReceiver::bind(config).unwrap();
    let destination = receiver.local_addresses().next().unwrap();
    let config = SenderConfig { segmentation, ..SenderConfig::new(destination) };
    let mut sender = UdpSender::open(config).unwrap();
    for _ in 0..30 {
        send_all(&mut sender, &payloads(&[1_000; 10]));
    }
    let messages = if segmentation { sender.counters().trains } else { 300 };
    let (mut producer, mut consumer) = slots(512);
    let seen = collect(&mut receiver, (&mut producer, &mut consumer), 300).len() as u64;
    let counters = receiver.counters();
    assert_eq!(counters.datagrams, seen);
    assert!(counters.socket_drops > 0, "{counters:?}");
    (300, messages, seen, counters.messages, counters.socket_drops)
}

#[test]
fn drops_of_single_datagrams_and_of_trains_taken_apart_are_exact() {
    for (segmentation, gro) in [(false, false), (false, true), (true, false)] {
        let (sent, _, seen, _, drops) = flood(segmentation, gro);
        assert_eq!(sent, seen + drops, "segmentation {segmentation}, gro {gro}");
    }
}

#[test]
fn a_dropped_train_counts_as_one_message() {
    let (sent, trains, seen, messages, drops) = flood(true, true);
    assert_eq!(trains, messages + drops);
    assert_eq!(sent, seen + 10 * drops);
}

#[test]
fn sockets_with_every_option_still_receive() {
    let config = ReceiverConfig {
        reuse_port: true,
        busy_poll_us: 50,
        when_empty: WhenEmpty::Spin,
        ..stock(any_port("127.0.0.1"))
    };
    let mut receiver = match UdpReceiver::bind(config.clone()) {
        Err(error @ BindError::System { .. }) => {
            println!("skipped: {error}");
            return;
        }
        bound => bound.unwrap(),
    };
    let destination = receiver.local_addresses().next().unwrap();
    let second = UdpReceiver::bind(ReceiverConfig { listen: vec![destination], ..config });
    drop(second.unwrap());
    let local = Some(any_port("127.0.0.1"));
    let config = SenderConfig { local, ..SenderConfig::new(destination) };
    send_all(&mut UdpSender::open(config).unwrap(), &payloads(&[10; 70]));
    let (mut producer, mut consumer) = slots(128);
    assert_eq!(collect(&mut receiver, (&mut producer, &mut consumer), 70).len(), 70);
}

#[test]
fn a_full_ring_either_waits_or_drops_and_counts() {
    for when_full in [WhenFull::Wait, WhenFull::Drop] {
        for segmentation in [false, true] {
            let config = ReceiverConfig {
                when_full,
                when_empty: WhenEmpty::Block,
                ..stock(any_port("127.0.0.1"))
            };
            let mut receiver = UdpReceiver::bind(config).unwrap();
            let destination = receiver.local_addresses().next().unwrap();
            let config = SenderConfig { segmentation, ..SenderConfig::new(destination) };
            let mut sender = UdpSender::open(config).unwrap();
            send_all(&mut sender, &payloads(&[500; 150]));
            let (mut producer, mut consumer) = slots(2);
            assert_eq!(receiver.receive_into(&mut producer, SOON).unwrap(), Received::Slots(2));
            assert_eq!(receiver.receive_into(&mut producer, SOON).unwrap(), Received::RingFull);
            assert!(producer.counters().full_stalls > 0);
            let seen = collect(&mut receiver, (&mut producer, &mut consumer), 150);
            let counters = receiver.counters();
            assert_eq!(counters.datagrams, seen.len() as u64 + counters.ring_full);
            assert_eq!(counters.datagrams, 150);
            assert_eq!(counters.bytes, 150 * 500);
            assert_eq!(counters.ring_full_bytes, counters.ring_full * 500);
            assert_eq!(counters.ring_full > 0, when_full == WhenFull::Drop);
        }
    }
}

#[test]
fn a_datagram_longer_than_its_slot_is_flagged_and_counted() {
    let config = ReceiverConfig { gro: false, ..stock(any_port("127.0.0.1")) };
    let mut receiver = UdpReceiver::bind(config).unwrap();
    let destination = receiver.local_addresses().next().unwrap();
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    send_all(&mut sender, &payloads(&[100, 101, 99]));
    let (mut producer, mut consumer) = ring(&RingConfig { slots: 4, slot_bytes: 100 }).unwrap();
    assert_eq!(receiver.receive_into(&mut producer, LONG).unwrap(), Received::Slots(3));
    let views: Vec<(usize, bool)> =
        consumer.peek().map(|view| (view.bytes.len(), view.meta.truncated)).collect();
    assert_eq!(views, [(100, false), (100, true), (99, false)]);
    assert_eq!(receiver.counters().truncated, 1);
    let mut with_trains = self::receiver("127.0.0.1");
    let error = with_trains.receive_into(&mut producer, SOON).unwrap_err();
    assert!(matches!(error, ReceiveError::SlotsTooSmall { slot_bytes: 100 }), "{error}");
}

#[test]
fn a_receiver_without_packets_returns_in_time_and_notices_a_gone_reader() {
    for when_empty in [WhenEmpty::Nap(Duration::from_millis(1)), WhenEmpty::Block, WhenEmpty::Spin]
    {
        let config = ReceiverConfig { when_empty, ..stock(any_port("127.0.0.1")) };
        let mut receiver = UdpReceiver::bind(config).unwrap();
        let (mut producer, consumer) = slots(4);
        let start = Instant::now();
        let short = Duration::from_millis(20);
        assert_eq!(receiver.receive_into(&mut producer, short).unwrap(), Received::Idle);
        assert!(start.elapsed() >= short && start.elapsed() < LONG);
        drop(consumer);
        assert_eq!(receiver.receive_into(&mut producer, LONG).unwrap(), Received::ReaderGone);
    }
}

#[test]
fn multicast_arrives_where_the_group_was_joined() {
    multicast("239.255.77.7", "0.0.0.0", "lo");
    multicast("239.255.77.8", "0.0.0.0", "127.0.0.1");
    if has_ipv6() {
        multicast("ff01::7777", "::", "lo");
        multicast("ff01::7778", "::", "::1");
    }
}

fn multicast(group: &str, listen: &str, interface: &str) {
    let group: IpAddr = group.parse().unwrap();
    let joined = Multicast { group, interface: Some(interface.to_owned()) };
    let config = ReceiverConfig { groups: vec![joined], ..stock(any_port(listen)) };
    let mut receiver = match UdpReceiver::bind(config) {
        Err(error @ BindError::Join { .. }) => {
            println!("skipped {group}: {error}");
            return;
        }
        bound => bound.unwrap(),
    };
    let port = receiver.local_addresses().next().unwrap().port();
    let destination = SocketAddr::new(group, port);
    let multicast_interface = Some(interface.to_owned());
    let config = SenderConfig { multicast_interface, ..SenderConfig::new(destination) };
    let sender = UdpSender::open(config);
    let sent = payloads(&[1_000; 20]);
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let outcome = sender
        .map_err(|error| error.to_string())
        .and_then(|mut sender| sender.send(&slices).map_err(|error| error.to_string()));
    if let Err(error) = outcome {
        println!("skipped {group}: {error}");
        return;
    }
    let (mut producer, mut consumer) = slots(32);
    let seen = collect(&mut receiver, (&mut producer, &mut consumer), 20);
    assert_eq!(seen.len(), 20, "{group} on {interface}");
}

#[test]
fn an_address_that_cannot_be_bound_is_reported_in_a_sentence() {
    let open = |config| UdpReceiver::bind(config).err().unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let error = open(stock(taken));
    assert!(matches!(error, BindError::PortInUse { address } if address == taken));
    assert!(error.to_string().contains(&format!("ss -lunp 'sport = :{}'", taken.port())));

    let error = open(stock("203.0.113.9:0".parse().unwrap()));
    assert!(matches!(error, BindError::AddressNotHere { .. }), "{error}");
    assert!(error.to_string().contains("203.0.113.9"));

    let base = stock(any_port("0.0.0.0"));
    let group = |group: &str, interface: Option<&str>| Multicast {
        group: group.parse().unwrap(),
        interface: interface.map(str::to_owned),
    };
    let groups = vec![group("239.1.1.1", Some("no-such-card"))];
    let error = open(ReceiverConfig { groups, ..base.clone() });
    assert!(matches!(error, BindError::NoSuchInterface { .. }), "{error}");
    let groups = vec![group("10.1.1.1", None)];
    let error = open(ReceiverConfig { groups, ..base.clone() });
    assert!(matches!(error, BindError::NotMulticast { .. }), "{error}");
    let groups = vec![group("ff02::7", None)];
    let error = open(ReceiverConfig { groups, ..base.clone() });
    assert!(matches!(error, BindError::NoSocketForGroup { .. }), "{error}");
    let error = open(ReceiverConfig { listen: Vec::new(), ..base });
    assert!(matches!(error, BindError::NoAddress), "{error}");
}

#[test]
fn two_receivers_never_share_a_port_unasked() {
    let first = receiver("127.0.0.1");
    let address = first.local_addresses().next().unwrap();
    let error = UdpReceiver::bind(stock(address)).err().unwrap();
    assert!(matches!(error, BindError::PortInUse { .. }), "{error}");
}

#[test]
fn a_buffer_smaller_than_asked_warns_with_the_command() {
    let listen = any_port("127.0.0.1");
    let config = ReceiverConfig { buffer_bytes: 1 << 20, ..stock(listen) };
    let report = UdpReceiver::bind(config).unwrap().buffer();
    assert_eq!(report.asked_bytes, 1 << 20);
    assert_eq!(report.warning().is_some(), report.granted_bytes < report.asked_bytes);
    let less = fluxline::udp::BufferReport { granted_bytes: 4096, ..report };
    assert!(less.warning().unwrap().contains("sysctl -w net.core.rmem_max=1048576"));
}

#[test]
fn a_paced_sender_sends_each_datagram_once() {
    let mut receiver = receiver("127.0.0.1");
    let destination = receiver.local_addresses().next().unwrap();
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    let sent = payloads(&[200; 300]);
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let mut pacer = Pacer::new(100_000.0, 32);
    assert_eq!(sender.send_paced(&slices, &mut pacer).unwrap().accepted, 300);
    let (mut producer, mut consumer) = slots(64);
    let seen = collect(&mut receiver, (&mut producer, &mut consumer), 300);
    assert!(seen.iter().map(|(_, _, bytes)| bytes).eq(sent.iter()));
}

#[test]
fn a_sender_reports_how_many_were_sent_before_one_that_is_too_long() {
    let receiver = receiver("127.0.0.1");
    let destination = receiver.local_addresses().next().unwrap();
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    let sent = payloads(&[100, 100, 90, 65_508, 100]);
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let error = sender.send(&slices).unwrap_err();
    assert_eq!(error.accepted(), 3);
    assert!(matches!(error, SendError::TooLong { bytes: 65_508, .. }), "{error}");
    assert_eq!(sender.counters().datagrams, 3);
}

#[test]
fn a_sender_to_nobody_goes_on_and_counts_the_refusals() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let destination = socket.local_addr().unwrap();
    drop(socket);
    let mut sender = UdpSender::open(SenderConfig::new(destination)).unwrap();
    for _ in 0..50 {
        send_all(&mut sender, &payloads(&[10]));
    }
    assert_eq!(sender.counters().datagrams, 50);
    assert!(sender.counters().refused > 0);
}
