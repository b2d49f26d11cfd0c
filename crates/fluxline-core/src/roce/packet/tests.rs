//! Every kind of packet to bytes and back, and malformed packets.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::roce::{Msn, Syndrome};

fn aeth() -> impl Strategy<Value = Aeth> {
    let known: Vec<Syndrome> = (0..=255).filter_map(Syndrome::from_byte).collect();
    (prop::sample::select(known), any::<u32>())
        .prop_map(|(syndrome, msn)| Aeth { syndrome, msn: Msn::new(msn) })
}

fn reth() -> impl Strategy<Value = Reth> {
    any::<(u64, u32, u32)>().prop_map(|(address, key, bytes)| Reth { address, key, bytes })
}

fn atomic() -> impl Strategy<Value = AtomicEth> {
    any::<(u64, u32, u64, u64)>().prop_map(|(address, key, swap_or_add, compare)| AtomicEth {
        address,
        key,
        swap_or_add,
        compare,
    })
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Reliable), Just(Transport::Unreliable)]
}

fn body() -> impl Strategy<Value = Body> {
    let send = prop_oneof![
        Just(SendPart::First),
        Just(SendPart::Middle),
        any::<Option<u32>>().prop_map(SendPart::Last),
        any::<Option<u32>>().prop_map(SendPart::Only),
    ];
    let write = prop_oneof![
        reth().prop_map(WritePart::First),
        Just(WritePart::Middle),
        any::<Option<u32>>().prop_map(WritePart::Last),
        (reth(), any::<Option<u32>>()).prop_map(|(reth, now)| WritePart::Only(reth, now)),
    ];
    let read = prop_oneof![
        aeth().prop_map(ReadPart::First),
        Just(ReadPart::Middle),
        aeth().prop_map(ReadPart::Last),
        aeth().prop_map(ReadPart::Only),
    ];
    prop_oneof![
        6 => (transport(), send).prop_map(|(transport, part)| Body::Send(transport, part)),
        6 => (transport(), write).prop_map(|(transport, part)| Body::Write(transport, part)),
        4 => read.prop_map(Body::ReadResponse),
        1 => reth().prop_map(Body::ReadRequest),
        1 => aeth().prop_map(Body::Acknowledge),
        1 => (aeth(), any::<u64>()).prop_map(|(aeth, original)| {
            Body::AtomicAcknowledge(aeth, AtomicAckEth { original })
        }),
        1 => atomic().prop_map(Body::CompareSwap),
        1 => atomic().prop_map(Body::FetchAdd),
        1 => Just(Body::CongestionNotification),
    ]
}

fn headers() -> impl Strategy<Value = Headers> {
    (body(), any::<(u32, u32, u16)>(), any::<[bool; 5]>()).prop_map(|(body, numbers, flags)| {
        let [acknowledge_request, solicited_event, migration_request, forward, backward] = flags;
        Headers {
            destination: QueuePair::new(numbers.0),
            psn: Psn::new(numbers.1),
            acknowledge_request,
            solicited_event,
            migration_request,
            forward_congestion: forward,
            backward_congestion: backward,
            partition: numbers.2,
            body,
        }
    })
}

fn emitted(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = vec![0xAA; packet.bytes() + 3];
    let used = packet.emit(&mut bytes);
    assert_eq!(used, packet.bytes());
    assert_eq!(bytes[used..], [0xAA; 3], "nothing is written behind the packet");
    bytes.truncate(used);
    bytes
}

/// Returns a parsed packet with reserved bits and padding as zeros.
fn without_reserved(bytes: &[u8], packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[4] &= 0xC0;
    bytes[8] &= 0x80;
    let used = if packet.opcode() == Opcode::CongestionNotification {
        BTH_BYTES
    } else {
        packet.headers().bytes() + packet.payload().len()
    };
    bytes[used..].fill(0);
    bytes
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_emitted_is_parsed_as_it_was(
        headers in headers(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let allowed = headers.opcode().allows_payload();
        prop_assert_eq!(Packet::new(headers, &payload).is_ok(), allowed || payload.is_empty());
        let payload = if allowed { &payload[..] } else { &[] };
        let packet = Packet::new(headers, payload).expect("allowed");
        let bytes = emitted(&packet);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(bytes[0], headers.opcode().byte());
        prop_assert_eq!(headers.bytes(), headers.opcode().header_bytes());
        prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
    }

    #[test]
    fn a_cut_packet_is_refused_or_shorter_by_whole_words_of_payload(headers in headers()) {
        let payload = if headers.opcode().allows_payload() { &[7; 9][..] } else { &[] };
        let bytes = emitted(&Packet::new(headers, payload).expect("allowed"));
        for length in 0..bytes.len() {
            match Packet::parse(&bytes[..length]) {
                Err(ParseError::TooShort { bytes, needed }) => {
                    prop_assert_eq!(bytes, length);
                    prop_assert!(length < needed && needed <= headers.bytes());
                }
                Err(ParseError::Unaligned { bytes }) => prop_assert!(bytes % 4 != 0),
                Err(ParseError::PadTooLong { pad, bytes }) => prop_assert!(bytes < pad),
                Err(other) => prop_assert!(false, "{}", other),
                Ok(cut) => {
                    prop_assert_eq!(cut.headers(), &headers);
                    prop_assert!(payload.starts_with(cut.payload()));
                }
            }
        }
    }

    #[test]
    fn random_bytes_never_panic_and_what_parses_is_emitted_again(
        opcode in prop::sample::select(Opcode::ALL),
        known: bool,
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let (true, [first, flags, ..]) = (known, &mut bytes[..]) {
            *first = opcode.byte();
            *flags &= 0xF0;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(emitted(&packet), without_reserved(&bytes, &packet));
        }
    }
}

/// Enough cases that each opcode comes often.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn a_write_reads_as_the_specification_draws_it() {
    let bytes =
        hex("0b f0 1234 40 00abcd 80 fffffe  0000aabb ccddeeff 11223344 00000005  deadbeef \
         0102030405 000000");
    let packet = Packet::parse(&bytes).expect("a packet");
    let reth = Reth { address: 0xAABB_CCDD_EEFF, key: 0x1122_3344, bytes: 5 };
    let body = Body::Write(Transport::Reliable, WritePart::Only(reth, Some(0xDEAD_BEEF)));
    let mut expected = Headers::new(QueuePair::new(0xABCD), Psn::new(0xFF_FFFE), body);
    expected.solicited_event = true;
    expected.migration_request = true;
    expected.backward_congestion = true;
    expected.acknowledge_request = true;
    expected.partition = 0x1234;
    assert_eq!(packet.headers(), &expected);
    assert_eq!(packet.payload(), [1, 2, 3, 4, 5]);
    assert_eq!(emitted(&packet), bytes);
}

#[test]
fn an_acknowledgement_and_an_atomic_read_as_the_specification_draws_them() {
    let bytes = hex("11 00 ffff 00 000011 00 000102  1f 000003");
    let packet = Packet::parse(&bytes).expect("a packet");
    let aeth =
        Aeth { syndrome: Syndrome::Ack(crate::roce::CreditCode::UNLIMITED), msn: Msn::new(3) };
    let body = Body::Acknowledge(aeth);
    assert_eq!(*packet.headers(), Headers::new(QueuePair::new(0x11), Psn::new(0x102), body));
    let bytes = hex("13 00 ffff 00 000011 80 000007  0000000000001000 0000002a 00000000000000ff \
         0000000000000001");
    let packet = Packet::parse(&bytes).expect("a packet");
    let atomic = AtomicEth { address: 0x1000, key: 42, swap_or_add: 0xFF, compare: 1 };
    assert_eq!(packet.headers().body, Body::CompareSwap(atomic));
    assert_eq!(emitted(&packet), bytes);
}

#[test]
fn each_fault_has_its_name() {
    let parse = |text: &str| Packet::parse(&hex(text)).map(|_| ());
    let bth = "00 ffff 00 000001 00 000000";
    assert_eq!(parse("04 00 ff"), Err(ParseError::TooShort { bytes: 3, needed: 12 }));
    assert_eq!(
        parse(&alloc::format!("0a {bth} 00000000")),
        Err(ParseError::TooShort { bytes: 16, needed: 28 })
    );
    assert_eq!(parse("04 01 ffff 00 000001 00 000000"), Err(ParseError::Version { version: 1 }));
    for opcode in [0x15, 0x16, 0x17, 0x2C, 0x64, 0xFF] {
        let text = alloc::format!("{opcode:02x} {bth} 00000000");
        assert_eq!(parse(&text), Err(ParseError::UnknownOpcode { opcode }));
    }
    assert_eq!(
        parse(&alloc::format!("11 {bth} 40000000")),
        Err(ParseError::UnknownSyndrome { syndrome: 0x40 })
    );
    assert_eq!(
        parse("04 30 ffff 00 000001 00 000000"),
        Err(ParseError::PadTooLong { pad: 3, bytes: 0 })
    );
    assert_eq!(parse(&alloc::format!("04 {bth} 0000")), Err(ParseError::Unaligned { bytes: 2 }));
    assert_eq!(
        parse(&alloc::format!("11 {bth} 00000000 00000000")),
        Err(ParseError::Payload { opcode: Opcode::RcAcknowledge, bytes: 4 })
    );
    let headers = Headers::congestion_notification(QueuePair::new(1));
    let refused = PayloadError { opcode: Opcode::CongestionNotification, bytes: 1 };
    assert_eq!(Packet::new(headers, &[1]), Err(refused));
}
