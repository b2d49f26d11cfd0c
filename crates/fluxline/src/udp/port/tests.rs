//! Lengths, order, trains, marks and drops of the UDP port, over loopback.

use super::*;
use crate::sys::{allocations, port_socket::OutgoingMessage, port_socket::WireAddress};

const NOW: Moment = Moment::from_ns(0);

fn port_with(change: impl FnOnce(&mut UdpPortConfig)) -> UdpPort {
    let mut config = UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    change(&mut config);
    UdpPort::bind(config).unwrap()
}

#[test]
fn a_port_may_move_to_another_thread() {
    fn moves<T: Send>(_: &T) {}
    moves(&port());
}

fn port() -> UdpPort {
    port_with(|_| {})
}

/// A frame whose bytes hold its number.
fn put(port: &mut UdpPort, to: SocketAddr, len: usize, number: usize) -> u16 {
    let out = port.frame(to, len).expect("room");
    assert_eq!(out.bytes.len(), len);
    for (index, byte) in out.bytes.iter_mut().enumerate() {
        *byte = (number * 31 + index) as u8;
    }
    out.identification
}

fn is_frame(bytes: &[u8], number: usize) -> bool {
    bytes.iter().enumerate().all(|(index, byte)| *byte == (number * 31 + index) as u8)
}

/// A copy of a frame that arrived.
#[derive(Debug)]
struct Got {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    congestion: bool,
}

/// Returns all arrivals until `count` frames have come, or nothing comes for a second.
fn collect(port: &mut UdpPort, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    while got.len() < count && port.wait(Duration::from_secs(1)).unwrap() {
        port.receive(NOW, &mut |frame| {
            assert!(matches!(frame.identification, Identification::Likely(_)));
            let Incoming { from, to, congestion, .. } = frame;
            got.push(Got { from, to, bytes: frame.bytes.to_vec(), congestion });
        });
    }
    got
}

#[test]
fn frames_of_all_lengths_arrive_as_they_were_and_longer_ones_are_refused() {
    for segmentation in [true, false] {
        let (mut a, mut b) = (port_with(|config| config.segmentation = segmentation), port());
        let to = b.local_address();
        let max = a.limits().frame_bytes_max;
        assert_eq!(max, 65_507);
        assert!(a.frame(to, 0).is_none() && a.frame(to, max + 1).is_none());
        let lens: Vec<usize> =
            (1..300).step_by(3).chain([1472, 1472, 4154, 8972, 60_000, max, 1]).collect();
        for (number, &len) in lens.iter().enumerate() {
            put(&mut a, to, len, number);
        }
        a.flush(NOW);
        let got = collect(&mut b, lens.len());
        assert_eq!(got.iter().map(|frame| frame.bytes.len()).collect::<Vec<_>>(), lens);
        for (number, frame) in got.iter().enumerate() {
            assert!(is_frame(&frame.bytes, number), "frame {number}");
            assert_eq!((frame.from, frame.to), (a.local_address(), to));
            assert!(!frame.congestion);
        }
        let (sent, received) = (a.counters(), b.counters());
        let bytes: usize = lens.iter().sum();
        assert_eq!((sent.frames_sent, sent.bytes_sent), (lens.len() as u64, bytes as u64));
        assert_eq!(received.frames_received, sent.frames_sent);
        assert_eq!(received.bytes_received, sent.bytes_sent);
        assert_eq!((sent.frames_refused, received.frames_dropped), (0, 0));
    }
}

#[test]
fn order_holds_per_destination_when_lengths_and_destinations_are_mixed() {
    let (mut a, mut peers) = (port(), [port(), port(), port()]);
    let addresses = peers.each_ref().map(UdpPort::local_address);
    let mut numbers = [0_usize; 3];
    let mut state = 7_u64;
    for _ in 0..1000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let peer = (state >> 40) as usize % 3;
        let len = [64, 64, 64, 63, 1472][(state >> 50) as usize % 5];
        put(&mut a, addresses[peer], len, numbers[peer]);
        numbers[peer] += 1;
    }
    a.flush(NOW);
    assert!(!a.pending());
    for (peer, port) in peers.iter_mut().enumerate() {
        let got = collect(port, numbers[peer]);
        assert_eq!(got.len(), numbers[peer]);
        assert!(got.iter().enumerate().all(|(number, frame)| is_frame(&frame.bytes, number)));
    }
}

#[test]
fn a_train_is_one_message_and_its_identifications_count_up() {
    let (mut a, mut b) = (port(), port());
    let to = b.local_address();
    let accepted: Vec<u16> = (0..130).map(|number| put(&mut a, to, 100, number)).collect();
    assert_eq!(accepted, (0..130).map(|number| number % 64).collect::<Vec<u16>>());
    a.flush(NOW);
    assert_eq!(a.counters().calls_sending, 1);
    // Three trains: the port looks for one message, then for two.
    let mut frames = 0;
    let counts = [0; 2].map(|_| b.receive(NOW, &mut |_| frames += 1));
    assert_eq!((counts, frames, b.counters().calls_receiving), ([64, 66], 130, 3));
    // A receiver without GRO gets the same frames, cut by the kernel.
    let mut c = port_with(|config| config.gro = false);
    for number in 0..50 {
        put(&mut a, c.local_address(), 100, number);
    }
    a.flush(NOW);
    let got = collect(&mut c, 50);
    assert!(got.len() == 50 && got.iter().enumerate().all(|(n, got)| is_frame(&got.bytes, n)));
    let mut single = port_with(|config| config.segmentation = false);
    assert!((0..9).all(|number| put(&mut single, to, 100, number) == 0));
}

#[test]
fn ipv6_frames_arrive_and_have_no_identification() {
    let local: SocketAddr = "[::1]:0".parse().unwrap();
    let mut a = port_with(|config| config.local = local);
    let mut b = port_with(|config| config.local = "[::]:0".parse().unwrap());
    let to: SocketAddr = format!("[::1]:{}", b.local_address().port()).parse().unwrap();
    let max = a.limits().frame_bytes_max;
    for (number, len) in [max, max, 100, 100].into_iter().enumerate() {
        assert_eq!(put(&mut a, to, len, number), 0);
    }
    a.flush(NOW);
    let got = collect(&mut b, 4);
    assert_eq!(a.counters().frames_refused, 0);
    assert!(got.len() == 4 && got.iter().enumerate().all(|(n, got)| is_frame(&got.bytes, n)));
    assert!(got.iter().all(|frame| frame.to == to && frame.from == a.local_address()));
    assert_eq!(b.local(to.ip()), Some(to));
    assert_eq!(b.local([127, 0, 0, 1].into()), None);
}

#[test]
fn a_wildcard_port_reports_which_of_its_addresses_a_frame_was_sent_to() {
    let mut a = port();
    let mut b = port_with(|config| config.local = "0.0.0.0:0".parse().unwrap());
    let number = b.local_address().port();
    let targets: Vec<SocketAddr> =
        (1..5).map(|last| SocketAddr::from(([127, 0, 0, last], number))).collect();
    for (number, &to) in targets.iter().enumerate() {
        put(&mut a, to, 40, number);
    }
    a.flush(NOW);
    let got = collect(&mut b, 4);
    assert_eq!(got.iter().map(|frame| frame.to).collect::<Vec<_>>(), targets);
    assert_eq!(b.local([127, 0, 0, 1].into()), Some(([127, 0, 0, 1], number).into()));
    assert_eq!(a.local([127, 0, 0, 9].into()), Some(a.local_address()));
}

#[test]
fn a_congestion_mark_is_seen_on_its_frames_alone() {
    for wildcard in ["127.0.0.1:0", "[::1]:0"] {
        let local: SocketAddr = wildcard.parse().unwrap();
        let mut b = port_with(|config| config.local = local);
        let plain = Socket::new(local.ip()).unwrap();
        let class = if local.is_ipv4() { Flag::TrafficClassV4 } else { Flag::TrafficClassV6 };
        let marks = [0b11, 0b10, 0b1000_0011, 0b01, 0];
        for mark in marks {
            plain.set(class, mark).unwrap();
            let to = WireAddress::new(b.local_address());
            let part = OutgoingMessage { to, start: 0, len: 3, segment_bytes: 0 };
            assert_eq!(plain.send_parts(b"abc", &[part]).unwrap(), 1);
        }
        let seen: Vec<bool> = collect(&mut b, 5).iter().map(|frame| frame.congestion).collect();
        assert_eq!(seen, [true, false, true, false, false], "{local}");
    }
}

#[test]
fn sent_frames_say_that_their_transport_heeds_marks_unless_configured_otherwise() {
    for ecn in [true, false] {
        let (mut a, b) = (port_with(|config| config.ecn = ecn), port());
        put(&mut a, b.local_address(), 10, 0);
        a.flush(NOW);
        let mut arena = Arena::new();
        let mut bytes = [0; 64];
        assert_eq!(b.socket.receive(&mut arena, [&mut bytes[..]].into_iter()).unwrap(), 1);
        assert_eq!(arena.message(0).traffic_class, if ecn { 0b10 } else { 0 });
    }
}

#[test]
fn what_a_full_buffer_drops_is_counted_to_the_frame_without_gro() {
    for train in [false, true] {
        let mut a = port_with(|config| config.segmentation = train);
        let mut b = port_with(|config| {
            config.gro = false;
            config.receive_buffer_bytes = 64 << 10;
        });
        for number in 0..5000 {
            put(&mut a, b.local_address(), 500, number);
        }
        a.flush(NOW);
        let before = b.counters().frames_dropped;
        assert!(before > 1000, "{before}");
        let mut received = 0;
        while b.receive(NOW, &mut |_| received += 1) > 0 {}
        assert_eq!(received + b.counters().frames_dropped, 5000);
        assert_eq!(a.counters().frames_sent, 5000);
    }
}

#[test]
fn with_gro_a_dropped_train_counts_as_one() {
    let mut a = port();
    let mut b = port_with(|config| config.receive_buffer_bytes = 64 << 10);
    for number in 0..6400 {
        put(&mut a, b.local_address(), 900, number);
    }
    a.flush(NOW);
    let mut received = 0;
    while b.receive(NOW, &mut |_| received += 1) > 0 {}
    assert!(received % 64 == 0 && received < 6400, "{received}");
    assert_eq!(received / 64 + b.counters().frames_dropped, 100);
}

#[test]
fn what_the_limits_promise_fits_the_buffer_even_while_it_is_half_read() {
    for len in [1, 64, 600, 1472, 2100, 4154, 8972] {
        let mut a = port_with(|config| config.segmentation = false);
        let mut b = port_with(|config| {
            config.gro = false;
            config.receive_buffer_bytes = 1 << 20;
        });
        let limits = *b.limits();
        let fit = limits.receive_buffer_bytes / (len + limits.frame_cost);
        assert!(fit > 8, "{fit} frames of {len} bytes");
        let mut outstanding = 0;
        for number in 0..fit * 4 {
            if outstanding == fit {
                outstanding -= b.receive(NOW, &mut |_| {});
            }
            put(&mut a, b.local_address(), len, number);
            a.flush(NOW);
            outstanding += 1;
        }
        assert_eq!(b.counters().frames_dropped, 0, "frames of {len} bytes");
    }
}

#[test]
fn no_frame_costs_more_than_the_limits_say() {
    let (mut a, mut b) = (port_with(|config| config.segmentation = false), port());
    for len in (1..9000).chain((9000..65_507).step_by(97)) {
        put(&mut a, b.local_address(), len, 0);
        a.flush(NOW);
        let cost = (b.socket.buffered() as usize).saturating_sub(len);
        assert!(cost <= frame_cost(len), "{cost} bytes for a frame of {len}");
        assert_eq!(b.receive(NOW, &mut |_| {}), 1);
    }
}

#[test]
fn refused_frames_are_counted_and_do_not_hold_up_the_others() {
    let (mut a, mut b) = (port(), port());
    let good = b.local_address();
    // 127.0.0.1 has no route out of the host; port 0 is not a valid port; IPv6 is another family.
    let bad = ["203.0.113.7:4791", "127.0.0.1:0", "[::1]:4791"];
    for (number, bad) in bad.iter().enumerate() {
        put(&mut a, good, 50, number);
        for _ in 0..3 {
            put(&mut a, bad.parse().unwrap(), 50, 9);
        }
    }
    put(&mut a, good, 50, 3);
    a.flush(NOW);
    assert_eq!((a.counters().frames_refused, a.counters().frames_sent), (9, 4));
    assert!(a.segmentation(), "an address that is refused says nothing about trains");
    let got = collect(&mut b, 4);
    assert!(got.len() == 4 && got.iter().enumerate().all(|(n, got)| is_frame(&got.bytes, n)));
}

#[test]
fn where_trains_are_refused_their_frames_leave_one_by_one() {
    let (mut a, mut b) = (port(), port());
    // Without checksums the kernel refuses trains (EINVAL), as a device without segmentation may.
    a.socket.set(Flag::NoChecksum, 1).unwrap();
    for number in 0..100 {
        put(&mut a, b.local_address(), 80 - number % 3, number);
    }
    a.flush(NOW);
    assert!(!a.segmentation() && !a.pending());
    assert_eq!((a.counters().frames_sent, a.counters().frames_refused), (100, 0));
    let got = collect(&mut b, 100);
    assert!(got.len() == 100 && got.iter().enumerate().all(|(n, got)| is_frame(&got.bytes, n)));
    put(&mut a, b.local_address(), 80, 0);
    assert_eq!(put(&mut a, b.local_address(), 80, 1), 0, "no trains any more");
}

#[test]
fn what_the_kernel_has_no_room_for_stays_and_waiting_does_not_spin_on_it() {
    let (mut a, mut b) = (port(), port());
    for (number, errno) in [libc::EAGAIN, libc::ENOBUFS].into_iter().enumerate() {
        put(&mut a, b.local_address(), 10, number);
        assert!(!a.goes_on(&io::Error::from_raw_os_error(errno)));
        assert!(a.pending());
        let start = Instant::now();
        assert!(a.wait(Duration::from_secs(5)).unwrap());
        assert!(errno == libc::EAGAIN || start.elapsed() >= QUEUE_FULL_PAUSE);
        a.flush(NOW);
        assert!(!a.pending() && a.counters().frames_refused == 0);
    }
    assert_eq!(collect(&mut b, 2).len(), 2);
}

#[test]
fn waiting_ends_when_a_frame_comes_or_the_time_has_passed() {
    let modes = [WhenEmpty::Block, WhenEmpty::Spin, WhenEmpty::Nap(Duration::from_micros(50))];
    for when_empty in modes {
        let mut b = port_with(|config| {
            config.when_empty = when_empty;
            config.spin = Duration::from_micros(100);
        });
        let start = Instant::now();
        assert!(!b.wait(Duration::from_millis(20)).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(20));
        let mut a = port();
        put(&mut a, b.local_address(), 10, 0);
        a.flush(NOW);
        assert!(b.wait(Duration::from_secs(5)).unwrap());
        assert_eq!(b.receive(NOW, &mut |_| {}), 1);
        assert!(!b.wait(Duration::from_millis(1)).unwrap());
    }
}

#[test]
fn nothing_is_allocated_per_frame() {
    let (mut a, mut b) = (port(), port_with(|config| config.local = "0.0.0.0:0".parse().unwrap()));
    let to = SocketAddr::from(([127, 0, 0, 1], b.local_address().port()));
    let mut frames = 0;
    let mut round = |count: usize| {
        for number in 0..count {
            put(&mut a, to, 200 - number % 2, number);
        }
        a.flush(NOW);
        b.wait(Duration::from_secs(1)).unwrap();
        while b.receive(NOW, &mut |_| frames += 1) > 0 {}
        (a.counters(), b.counters(), b.local(to.ip()))
    };
    round(10);
    let before = allocations::of_this_thread();
    for _ in 0..100 {
        round(100);
    }
    assert_eq!(allocations::of_this_thread() - before, 0);
    assert_eq!(frames, 10_010);
}

// ---- several threads at one port ----

/// Frames of every kind that names a node, with random numbers.
fn frames_of_all_kinds(seed: u64) -> Vec<Vec<u8>> {
    use fluxline_core::endpoint::owner::{at, value};
    let mut draw = fluxline_core::random::Draw::new(seed);
    let mut frames = Vec::new();
    for round in 0..400_u64 {
        let mut frame: Vec<u8> = (0..64).map(|_| draw.bits() as u8).collect();
        if round % 4 > 0 {
            frame[at::PAIR_WORD..][..4].copy_from_slice(&[draw.bits() as u8, 0, 0, 1]);
        }
        match round % 4 {
            1 => (frame[0], frame[at::SETUP_KIND]) = (value::SETUP, draw.below(7) as u8),
            2 => frame[0] = value::MANAGEMENT,
            _ => {}
        }
        if round % 8 == 2 {
            frame[at::RECEIVER_ID..][..4].fill(0);
        }
        frames.push(frame);
    }
    frames
}

/// Takes all messages out of the socket, as the kernel put them there.
fn arrived(port: &mut UdpPort) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut place = vec![0; 2048];
    while port.socket.receive_one(&mut port.arena, 0, &mut place).is_ok() {
        all.push(place[..port.arena.message(0).sent_bytes].to_vec());
    }
    all
}

#[test]
fn the_kernel_chooses_the_thread_that_owns_the_frame() {
    use fluxline_core::endpoint::Owner;
    let config = UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (count, gone) in [(2, None), (3, None), (3, Some(0)), (3, Some(2)), (64, Some(63))] {
        let ports = UdpPort::bind_threads(&config, count).unwrap();
        let at = ports[0].local_address();
        let mut ports: Vec<Option<UdpPort>> = ports.into_iter().map(Some).collect();
        if let Some(gone) = gone {
            ports[gone] = None;
        }
        let mut seen = 0;
        for frame in frames_of_all_kinds(count as u64) {
            sender.send_to(&frame, at).unwrap();
            let owner = Owner::of(&frame).index(count as u32) as usize;
            let owner = if Some(owner) == gone { (owner + 1) % count } else { owner };
            let port = ports[owner].as_mut().expect("it lives");
            assert_eq!(arrived(port), [frame], "{count} threads without {gone:?}");
            seen += 1;
        }
        assert_eq!(seen, 400);
    }
}

#[test]
fn a_thread_that_sleeps_is_woken_for_a_frame_that_another_got() {
    let config = UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut ports = UdpPort::bind_threads(&config, 2).unwrap();
    let (mut second, mut first) = (ports.pop().unwrap(), ports.pop().unwrap());
    let mut sender = port();
    // One train: two frames to the first, then one to the second.
    for pair in [8, 8, 9] {
        let frame = sender.frame(first.local_address(), 40).expect("room").bytes;
        frame.fill(pair);
        frame[4..8].copy_from_slice(&[0, 0, 0, pair]);
    }
    sender.flush(NOW);
    let sleeper = std::thread::spawn(move || {
        let woken = second.wait(Duration::from_secs(20)).unwrap();
        (woken, collect(&mut second, 1), second)
    });
    let got = collect(&mut first, 2);
    assert_eq!(got.iter().map(|got| got.bytes[39]).collect::<Vec<u8>>(), [8, 8]);
    let began = Instant::now();
    let (woken, got, mut second) = sleeper.join().unwrap();
    assert!(woken && began.elapsed() < Duration::from_secs(10));
    assert_eq!(
        got.iter().map(|got| (got.bytes[39], got.from)).collect::<Vec<_>>(),
        [(9, sender.local_address())]
    );
    assert_eq!((first.frames_handed_over(), second.frames_handed_over()), (1, 0));
    // The wake-up itself does not count as a frame.
    assert_eq!(second.receive(NOW, &mut |_| panic!("no frame")), 0);
}
