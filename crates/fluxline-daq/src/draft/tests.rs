//! Drafts of emulated captures: they load, every packet fits, and the counter is the right one.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_packet::layout::Origin;
use fluxline_packet::{Description, expression::Expr, shipped};

use super::Draft;
use crate::emulator::{Emulator, EmulatorConfig, Faults, Pattern, sender_address};

/// A packet, owned.
struct Packet {
    bytes: Vec<u8>,
    sender: SenderAddress,
    time: Moment,
}

impl Packet {
    fn datagram(&self) -> Datagram<'_> {
        Datagram { bytes: &self.bytes, sender: self.sender, port: 6006, time: self.time }
    }
}

fn load(text: &str) -> Description {
    Description::load("draft.toml", text, &BTreeMap::new())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn emulated(description: &Description, pattern: Pattern, faults: Faults) -> Vec<Packet> {
    let config = EmulatorConfig {
        sources: 2,
        packet: None,
        payload_bytes: None,
        pattern,
        rate: 1000.0,
        jitter: 0.0,
        packets: 6000,
        seed: 3,
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000),
        faults,
    };
    let start = config.epoch_start;
    let mut emulator = Emulator::new(description, config).expect("emulated");
    let mut packets = Vec::new();
    while let Some(emission) = emulator.next() {
        // Every source has a sender of its own, as boards have.
        let sender = SenderAddress::from(sender_address(Ipv4Addr::LOCALHOST, emission.source));
        let time = start + emission.at;
        packets.push(Packet { bytes: emission.bytes.to_vec(), sender, time });
    }
    packets
}

fn drafted(packets: &[Packet]) -> String {
    let mut draft = Draft::default();
    packets.iter().for_each(|packet| draft.add(&packet.datagram()));
    draft.describe("a test").expect("there are packets")
}

/// Returns true when the first packet type with a counter has it in one field or in bits of one.
fn has_plain_counter(description: &Description) -> bool {
    let mut types = description.packet_types().iter();
    let Some(packet) = types.find(|of| of.sequence.is_some() || of.event.is_some()) else {
        return false;
    };
    match packet.sequence.as_ref().map(|sequence| &sequence.value) {
        Some(Expr::Value(id)) => {
            !matches!(packet.header.values[*id].origin, Origin::Computed { .. })
        }
        _ => false,
    }
}

#[test]
fn the_counter_of_each_shipped_format_is_found_in_its_emulated_packets() {
    let mut judged = Vec::new();
    for (name, pattern) in shipped::names()
        .flat_map(|name| [Pattern::Noise, Pattern::Counter, Pattern::Zero].map(|of| (name, of)))
    {
        let text = shipped::shipped(name).expect("shipped");
        let description = load(text);
        if !has_plain_counter(&description) {
            continue;
        }
        let drops = Faults { drop: 0.01, ..Faults::default() };
        let packets = emulated(&description, pattern, drops);
        let text = drafted(&packets);
        let draft = load(&text);
        for packet in &packets {
            let datagram = packet.datagram();
            let meant = description.program().parse(&datagram).expect("it fits").sequence;
            let found = draft.program().parse(&datagram);
            let found =
                found.unwrap_or_else(|reject| panic!("{name}: {reject:?}\n{text}")).sequence;
            // The draft's counter may be narrower or wider than what moved in the capture.
            let wraps = [&draft, &description].map(|of| {
                let types = of.packet_types();
                types.iter().find_map(|of| of.sequence.as_ref()).map_or(0, |s| s.last)
            });
            let ones = wraps[0].min(wraps[1]);
            assert_eq!(
                found.map(|number| number & ones),
                meant.map(|number| number & ones),
                "{name} {pattern:?}\n{text}"
            );
        }
        judged.push(name);
    }
    judged.dedup();
    assert!(judged.len() >= 10, "{judged:?}");
}

#[test]
fn every_draft_of_a_shipped_formats_packets_loads_and_fits_all_of_them() {
    for name in shipped::names() {
        let description = load(shipped::shipped(name).expect("shipped"));
        let packets = emulated(&description, Pattern::Noise, Faults::default());
        let text = drafted(&packets);
        let draft = load(&text);
        for packet in &packets {
            let parsed = draft.program().parse(&packet.datagram());
            assert!(parsed.is_ok(), "{name}: {parsed:?}\n{text}");
        }
    }
}

#[test]
fn a_board_with_everything_is_drafted_with_all_its_parts() {
    let board = r#"
name = "board"
about = "x"
reference = "x"
byte-order = "big"
[[packet]]
name = "data"
fields = [
  { name = "magic", type = "u32", equals = 0xF10A0B0C },
  { name = "board", type = "u16" },
  { name = "counter", type = "u16" },
  { name = "time", type = "u64" },
  { name = "event", type = "u32" },
  { name = "part", type = "u32" },
]
source = ["board"]
sequence = { value = "counter" }
event = { key = "event" }
fragment = { index = "part", count = 4 }
timestamp = { ticks = "time", unit = "8 ns", epoch = "start" }
"#;
    let packets = emulated(&load(board), Pattern::Noise, Faults::default());
    let text = drafted(&packets);
    for part in [
        "byte-order = \"big\"",
        "{ name = \"magic\", type = \"u32\", equals = 0xf10a0b0c }",
        "the same in all packets of a sender",
        "{ name = \"counter\", type = \"u16\" }",
        "{ name = \"time_8\", type = \"u64\" }",
        "{ name = \"key_16\", type = \"u32\" }",
        "grows by one every 4.0 packets",
        "# timestamp = { ticks = \"time_8\", unit = \"8 ns\", epoch = \"start\" }",
        "# event = { key = \"key_16\" }",
        "Every packet has 1048 bytes",
    ] {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "`{part}` is not in\n{text}");
    }
}

#[test]
fn boards_behind_one_address_are_split_by_the_byte_that_holds_their_number() {
    let description = load(shipped::shipped("counter").expect("shipped"));
    let mut packets = emulated(&description, Pattern::Noise, Faults::default());
    packets.iter_mut().for_each(|packet| packet.sender = SenderAddress::NONE);
    let text = drafted(&packets);
    let draft = load(&text);
    let mut sources = BTreeMap::<_, Vec<u64>>::new();
    for packet in &packets {
        let parsed = draft.program().parse(&packet.datagram()).expect("it fits");
        sources.entry(parsed.source).or_default().extend(parsed.sequence);
    }
    assert_eq!(sources.len(), 2, "{text}");
    for numbers in sources.values() {
        assert!(numbers.iter().copied().eq(0..6000), "{text}");
    }
}

#[test]
fn sizes_that_differ_name_the_word_that_holds_them() {
    let mut draft = Draft::default();
    let packets: Vec<Vec<u8>> = (0..200_u16)
        .map(|number| {
            let size = 20 + number % 7;
            let mut bytes = [&size.to_le_bytes()[..], &(size - 4).to_be_bytes()].concat();
            bytes.extend(number.to_be_bytes());
            bytes.resize(usize::from(size), 0x55);
            bytes
        })
        .collect();
    for (bytes, number) in packets.iter().zip(0..) {
        let time = Moment::default() + Span::from_ms(number);
        draft.add(&Datagram { bytes, sender: SenderAddress::NONE, port: 1, time });
    }
    let text = draft.describe("x").expect("packets");
    assert!(text.contains("Bytes 0..2 (little-endian) hold the packet's size less 0"), "{text}");
    assert!(text.contains("size = { min = 20, max = 26 }"), "{text}");
    load(&text);
}

#[test]
fn no_packets_few_packets_and_empty_ones_are_no_panic() {
    assert_eq!(Draft::default().describe("x"), None);
    for lengths in [vec![0], vec![1], vec![3, 0], vec![1, 2, 3], vec![70; 3], vec![9; 40]] {
        let mut draft = Draft::default();
        for length in &lengths {
            let bytes = vec![9; *length];
            let datagram = Datagram {
                bytes: &bytes,
                sender: SenderAddress::NONE,
                port: 1,
                time: Moment::default(),
            };
            draft.add(&datagram);
        }
        let text = draft.describe("x");
        assert_eq!(text.is_some(), !lengths.contains(&0), "{lengths:?}");
        text.iter().for_each(|text| drop(load(text)));
    }
}

#[test]
fn random_packets_make_a_draft_that_loads_and_fits_them() {
    use rand_core::{RngCore, SeedableRng};
    for seed in 0..200 {
        let mut random = rand_xoshiro::Xoshiro256StarStar::seed_from_u64(seed);
        let (spread, packets) = (random.next_u64() % 80, 1 + random.next_u64() % 60);
        let packets: Vec<Vec<u8>> = (0..packets)
            .map(|_| {
                let size = 1 + random.next_u64() % (spread + 1);
                // Few values, so that constants, keys and counters appear by chance.
                (0..size).map(|_| (random.next_u32() % 3) as u8).collect()
            })
            .collect();
        let mut draft = Draft::default();
        let datagram = |bytes| {
            let (sender, time) = (SenderAddress::NONE, Moment::default());
            Datagram { bytes, sender, port: 1, time }
        };
        packets.iter().for_each(|bytes| draft.add(&datagram(bytes)));
        let text = draft.describe("x").expect("packets");
        let description = load(&text);
        for bytes in &packets {
            let parsed = description.program().parse(&datagram(bytes));
            assert!(parsed.is_ok(), "seed {seed}: {parsed:?}\n{text}");
        }
    }
}

/// Packets of 16 bytes whose words are functions of their number.
fn numbered(words: impl Fn(u32) -> [u32; 4]) -> Vec<Packet> {
    let packet = |number: u32| Packet {
        bytes: words(number).iter().flat_map(|word| word.to_be_bytes()).collect(),
        sender: SenderAddress::from(sender_address(Ipv4Addr::LOCALHOST, 0)),
        time: Moment::from_ns(1_700_000_000_000_000_000 + u64::from(number) * 1_000_000),
    };
    (0..2000).map(packet).collect()
}

#[test]
fn the_lowest_bits_of_a_time_are_no_counter_of_4_bits() {
    // In steps of 17, the lowest four bits count by one.
    for step in [17, 1_000_001] {
        let text = drafted(&numbered(|number| [7, number * step + 5, 0xABCD, 0]));
        assert!(!text.lines().any(|line| line.starts_with("sequence")), "{step}: {text}");
        assert!(text.contains("# No packet counter was found"), "{step}: {text}");
        load(&text);
    }
}

#[test]
fn a_number_in_steps_is_a_proposal_behind_a_mark() {
    // Its times of arrival are irregular, so that it is not a time.
    let mut packets = numbered(|number| [7, number * 100 + 3, 0xABCD, 0]);
    for (number, packet) in packets.iter_mut().enumerate() {
        packet.time = Moment::from_ns(1_700_000_000_000_000_000 + (number as u64).pow(3));
    }
    let text = drafted(&packets);
    let proposal = text.lines().find(|line| line.starts_with("# sequence")).expect("a proposal");
    assert!(proposal.ends_with(", step = 100 }"), "{text}");
    assert!(text.contains("grows by 100 in 100.0 % of the steps"), "{text}");
    // The proposal is right once the mark is gone.
    load(&text.replace("# sequence", "sequence"));
}

#[test]
fn no_draft_has_a_negative_zero() {
    let text = drafted(&numbered(|number| [number, 0, 0, 0]));
    assert!(!text.contains("-0.0"), "{text}");
}
