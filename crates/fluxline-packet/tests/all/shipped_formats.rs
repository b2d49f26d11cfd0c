//! Hand-written packets of every shipped format: the bytes follow the public layouts, not this
//! crate, so that a wrong offset, order or width in a description shows.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::shipped::{names, shipped};
use fluxline_packet::{Description, Parsed, Reject, RejectReason};

use crate::hand_written::{all, bytes_of};

fn load(name: &str) -> Description {
    let text = shipped(name).unwrap_or_else(|| panic!("no format {name}"));
    Description::load(name, text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn parse(name: &str, packet: &str) -> Result<Parsed, (Reject, String)> {
    let description = load(name);
    let bytes = bytes_of(packet);
    let sender = SenderAddress::from("10.0.0.2:4000".parse::<SocketAddr>().expect("an address"));
    let datagram = Datagram { bytes: &bytes, sender, port: 9000, time: Moment::from_ns(0) };
    let parsed = description.program().parse(&datagram);
    parsed.map_err(|reject| (reject, description.rule_name(reject)))
}

#[test]
fn a_packet_written_by_hand_is_read_as_its_public_layout_says() {
    for expected in all() {
        let (format, kind) = (expected.format, expected.kind);
        let parsed = parse(format, expected.packet)
            .unwrap_or_else(|(reject, rule)| panic!("{format} {kind}: {reject:?} {rule}"));
        let description = load(format);
        assert_eq!(description.packet_types()[usize::from(parsed.packet)].name, kind, "{format}");
        let label = description.source_label(&parsed.source, parsed.packet);
        assert_eq!(label, expected.label, "{format} {kind}");
        assert_eq!(parsed.sequence, expected.sequence, "{format} {kind}: sequence");
        assert_eq!(parsed.event, expected.event, "{format} {kind}: event");
        assert_eq!(parsed.part, expected.part, "{format} {kind}: part");
        assert_eq!(parsed.sensor_time_ns, expected.time_ns, "{format} {kind}: time");
        let payload = (parsed.payload_start, parsed.payload_bytes);
        assert_eq!(payload, expected.payload, "{format} {kind}: payload");
    }
}

#[test]
fn every_shipped_packet_type_has_a_packet_written_by_hand() {
    let listed = all();
    for name in names() {
        for packet in load(name).packet_types() {
            let there = listed.iter().any(|row| row.format == name && row.kind == packet.name);
            // DIFI's three types differ in one constant.
            assert!(there || name == "difi", "{name} {} has no packet", packet.name);
        }
    }
}

#[test]
fn a_flipped_bit_breaks_the_check_sum_of_a_lidar_packet() {
    let packet = "0100 0307 767c6c 264cbf731c 00*20 e803000000000000 2000 0100 00*60 00*24";
    let (reject, rule) = parse("ouster", &format!("{packet} dec00000efbeaddf")).unwrap_err();
    assert_eq!((reject.reason, rule.as_str()), (RejectReason::Checksum, "packet `lidar`, `crc`"));
}

#[test]
fn packets_of_other_senders_are_rejected_by_name() {
    let rule = |format, packet| parse(format, packet).unwrap_err().1;
    assert_eq!(rule("srs-vmm3", "00*4 564d3420 00*8"), "packet `data`, field `magic`");
    assert_eq!(rule("sls", "00*47 01"), "packet `data`, field `version`");
    assert_eq!(rule("hispec", "00*4103"), "packet `data`, `size`");
    assert_eq!(rule("spead", "00*64"), "format `spead`");
    let beyond = "464c5843 01 00 0700 04030201 0300 0300 00*16";
    assert_eq!(rule("counter", beyond), "packet `data`, `fragment`");
}

#[test]
fn srs_records_distinguish_hits_from_markers() {
    use fluxline_packet::decode::Value;
    let description = load("srs-vmm3");
    let packet = &description.packet_types()[0];
    // A hit: offset 1, VMM 3, ADC 5, Gray code 3 (is 2), over threshold, channel 63, TDC 255;
    // then a trigger marker: VMM 17, time 1 << 10 | 2.
    let payload = bytes_of("08c05003 ffff 00000001 4402");
    let columns: Vec<String> = packet.record_columns().into_iter().map(|c| c.name).collect();
    let mut records = packet.records_in(&payload);
    let mut values = Vec::new();
    let mut next = || {
        assert!(records.decode_next(&mut values), "a record");
        let named = columns.iter().cloned().zip(values.iter().copied());
        named.map(|(name, value)| (name, format!("{value:?}"))).collect::<BTreeMap<_, _>>()
    };
    let shown = |value: u64| format!("{:?}", Value::U64(value));
    let hit = next();
    for (name, value) in
        [("vmm", 3), ("adc", 5), ("bcid", 2), ("channel", 63), ("tdc", 255), ("time_offset", 1)]
    {
        assert_eq!(hit[name], shown(value), "{name}");
    }
    assert_eq!(hit["timestamp42"], "Null");
    let marker = next();
    assert_eq!(marker["timestamp42"], shown(1026));
    assert_eq!(marker["is_trigger"], shown(1));
    assert_eq!(marker["channel"], "Null");
}
