//! RoCEv2 packets in other programs: tshark and scapy read ours, and we read scapy's.
//!
//! A test whose tool is missing prints that and passes, unless FLUXLINE_REQUIRE_TOOLS=1.
//! FLUXLINE_PYTHON names another python.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use fluxline_core::Span;
use fluxline_core::roce::{
    Aeth, AtomicAckEth, AtomicEth, Body, CreditCode, Extended, Headers, IcrcContext, Msn, NakCode,
    Opcode, Packet, Psn, QueuePair, ReadPart, Reth, RnrTimer, SendPart, Syndrome, Transport,
    Verdict, WritePart, split_icrc,
};

const ADDRESSES: [(&str, &str); 2] =
    [("10.0.0.2:49152", "10.0.0.3:4791"), ("[fd00::2]:49153", "[fd00::3]:4791")];

/// Returns true when a tool is present. Prints when it is missing, and fails when it is required.
fn has(program: &str, arguments: &[&str]) -> bool {
    let found = Command::new(program).args(arguments).output();
    let there = found.is_ok_and(|output| output.status.success());
    let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(there || !required, "`{program} {}` does not work here", arguments.join(" "));
    if !there {
        println!("skipped: `{program} {}` does not work here", arguments.join(" "));
    }
    there
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roce");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder.join(name)
}

fn python() -> String {
    std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| String::from("python3"))
}

/// Returns the lines that a script prints, cut at tabs.
fn run_scapy(name: &str, source: &str, arguments: &[&Path]) -> Vec<Vec<String>> {
    let script = file(name);
    std::fs::write(&script, source).expect("written");
    let output = Command::new(python()).arg(&script).args(arguments).output().expect("python");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    rows(&output.stdout)
}

fn rows(shown: &[u8]) -> Vec<Vec<String>> {
    let shown = String::from_utf8_lossy(shown);
    shown.lines().map(|line| line.split('\t').map(String::from).collect()).collect()
}

fn hexed(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhexed(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(pair).collect()
}

/// Returns a body of each opcode and of each kind of answer.
fn bodies() -> Vec<Body> {
    let reth = Reth { address: 0x0123_4567_89AB_CDEF, key: 0xFEDC_BA98, bytes: 0x1020_3040 };
    let atomic = AtomicEth {
        address: 0x1122_3344_5566_7788,
        key: 0xA1B2_C3D4,
        swap_or_add: 0x99AA_BBCC_DDEE_FF00,
        compare: 0x0F1E_2D3C_4B5A_6978,
    };
    let now = Some(0xCAFE_F00D);
    let answer = |syndrome| Aeth { syndrome, msn: Msn::new(0x00AB_CDEF) };
    let ack = answer(Syndrome::Ack(CreditCode::at_most(48)));
    let mut bodies = Vec::new();
    for transport in [Transport::Reliable, Transport::Unreliable] {
        let send = [
            SendPart::First,
            SendPart::Middle,
            SendPart::Last(None),
            SendPart::Last(now),
            SendPart::Only(None),
            SendPart::Only(now),
        ];
        let write = [
            WritePart::First(reth),
            WritePart::Middle,
            WritePart::Last(None),
            WritePart::Last(now),
            WritePart::Only(reth, None),
            WritePart::Only(reth, now),
        ];
        bodies.extend(send.map(|part| Body::Send(transport, part)));
        bodies.extend(write.map(|part| Body::Write(transport, part)));
    }
    let read = [ReadPart::First(ack), ReadPart::Middle, ReadPart::Last(ack), ReadPart::Only(ack)];
    bodies.extend(read.map(Body::ReadResponse));
    let rnr = RnrTimer::at_least(Span::from_ms(1));
    let nak = Syndrome::Nak(NakCode::RemoteAccessError);
    for syndrome in [ack.syndrome, Syndrome::RnrNak(rnr), nak] {
        bodies.push(Body::Acknowledge(answer(syndrome)));
    }
    bodies.extend([
        Body::ReadRequest(reth),
        Body::AtomicAcknowledge(ack, AtomicAckEth { original: 0xDEAD_BEEF_0BAD_F00D }),
        Body::CompareSwap(atomic),
        Body::FetchAdd(atomic),
        Body::CongestionNotification,
    ]);
    bodies
}

struct Sample {
    headers: Headers,
    payload: Vec<u8>,
    identification: u16,
    addresses: (&'static str, &'static str),
}

impl Sample {
    fn packet(&self) -> Packet<'_> {
        Packet::new(self.headers, &self.payload).expect("a payload only where one is allowed")
    }

    /// The UDP payload with its ICRC.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.packet().bytes()];
        self.packet().emit(&mut bytes);
        let icrc = context(self.addresses).icrc(self.identification, &bytes);
        bytes.extend(icrc.to_le_bytes());
        bytes
    }
}

fn context((from, to): (&str, &str)) -> IcrcContext {
    let address = |text: &str| text.parse().expect("an address");
    IcrcContext::new(address(from), address(to)).expect("one family")
}

/// Returns packets of every kind over both families, with all paddings and flags.
fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for addresses in ADDRESSES {
        for (index, body) in bodies().into_iter().enumerate() {
            let number = index as u32;
            let mut headers = Headers::new(
                QueuePair::new(0x00A0_0011 + number),
                Psn::new(0x00FF_FFF0u32.wrapping_add(number)),
                body,
            );
            headers.solicited_event = index % 2 == 1;
            headers.migration_request = index % 3 == 1;
            headers.acknowledge_request = index % 5 == 1;
            headers.forward_congestion = index % 4 == 1;
            headers.backward_congestion = index % 7 == 1;
            headers.partition = 0x8000 | index as u16;
            let allowed = headers.opcode().allows_payload();
            let bytes = if allowed { 40 + index % 9 } else { 0 };
            let payload = (0..bytes).map(|at| 0xE0 ^ (at * 29) as u8).collect();
            let identification = 0xFFF0_u16.wrapping_add(index as u16);
            samples.push(Sample { headers, payload, identification, addresses });
        }
    }
    let kinds = samples.iter().map(|sample| sample.headers.opcode().byte());
    let kinds: std::collections::BTreeSet<u8> = kinds.collect();
    assert_eq!(kinds.len(), Opcode::ALL.len(), "every opcode is among them");
    samples
}

/// Returns an Ethernet frame. Its type of service and time to live must be masked by the ICRC.
fn frame(sample: &Sample) -> Vec<u8> {
    let payload = sample.bytes();
    let [from, to] = [sample.addresses.0, sample.addresses.1]
        .map(|text| text.parse::<SocketAddr>().expect("an address"));
    let udp_bytes = payload.len() as u16 + 8;
    let mut frame = vec![2; 12];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0x6A]);
            frame.extend((udp_bytes + 20).to_be_bytes());
            frame.extend(sample.identification.to_be_bytes());
            frame.extend([0x40, 0, 63, 17, 0, 0]);
            frame.extend(from.octets().into_iter().chain(to.octets()));
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xDD, 0x66, 0xA1, 0x23, 0x45]);
            frame.extend(udp_bytes.to_be_bytes());
            frame.extend([17, 63]);
            frame.extend(from.octets().into_iter().chain(to.octets()));
        }
        _ => unreachable!("one family"),
    }
    for word in [from.port(), to.port(), udp_bytes, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

fn capture(name: &str, samples: &[Sample]) -> PathBuf {
    let mut bytes = Vec::new();
    for word in [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for sample in samples {
        let frame = frame(sample);
        for word in [1, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let path = file(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// The fields of tshark that are compared, in the order of [`fields`]. tshark 4.0 finds the ICRC
/// and does not compute it; scapy does.
const FIELDS: [&str; 22] = [
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.immdt",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.syndrome.credit_count",
    "infiniband.aeth.syndrome.timer",
    "infiniband.aeth.syndrome.error_code",
    "infiniband.aeth.msn",
    "infiniband.atomicacketh.origremdt",
    "infiniband.atomiceth.swapdt",
    "infiniband.atomiceth.cmpdt",
    "infiniband.invariant.crc",
    "_ws.expert.message",
];

/// Returns the expected fields of a sample, a number or nothing each; `FIELDS` without the last.
fn fields(sample: &Sample) -> Vec<Option<u64>> {
    let headers = &sample.headers;
    let (mut reth, mut immediate, mut aeth) = (None, None, None);
    let (mut original, mut atomic) = (None, None);
    match headers.body {
        Body::Send(_, SendPart::Last(now) | SendPart::Only(now))
        | Body::Write(_, WritePart::Last(now)) => immediate = now,
        Body::Write(_, WritePart::Only(to, now)) => (reth, immediate) = (Some(to), now),
        Body::Write(_, WritePart::First(to)) | Body::ReadRequest(to) => reth = Some(to),
        Body::Acknowledge(now)
        | Body::ReadResponse(ReadPart::First(now) | ReadPart::Last(now) | ReadPart::Only(now)) => {
            aeth = Some(now);
        }
        Body::AtomicAcknowledge(now, ack) => (aeth, original) = (Some(now), Some(ack.original)),
        Body::CompareSwap(now) | Body::FetchAdd(now) => atomic = Some(now),
        _ => {}
    }
    // In tshark, address and key of AtomicETH have the names of those of RETH.
    let region = reth.map(|of| (of.address, of.key)).or(atomic.map(|of| (of.address, of.key)));
    let (mut credits, mut timer, mut code) = (None, None, None);
    match aeth.map(|of| of.syndrome) {
        Some(Syndrome::Ack(of)) => credits = Some(u64::from(of.code())),
        Some(Syndrome::RnrNak(of)) => timer = Some(u64::from(of.code())),
        Some(Syndrome::Nak(of)) => code = Some(of as u64),
        None => {}
    }
    let bytes = sample.bytes();
    let icrc = bytes.last_chunk::<4>().map(|icrc| u32::from_be_bytes(*icrc).into());
    // tshark 4.0 does not know the headers after this kind's base header.
    let icrc = icrc.filter(|_| headers.body != Body::CongestionNotification);
    vec![
        Some(headers.opcode().byte().into()),
        Some(headers.solicited_event.into()),
        Some(headers.migration_request.into()),
        Some((4 - sample.payload.len() as u64 % 4) % 4),
        Some(headers.partition.into()),
        Some(headers.destination.get().into()),
        Some(headers.acknowledge_request.into()),
        Some(headers.psn.get().into()),
        region.map(|of| of.0),
        region.map(|of| of.1.into()),
        reth.map(|of| of.bytes.into()),
        immediate.map(u64::from),
        aeth.map(|of| of.syndrome.byte().into()),
        credits,
        timer,
        code,
        aeth.map(|of| of.msn.get().into()),
        original,
        atomic.map(|of| of.swap_or_add),
        atomic.map(|of| of.compare),
        icrc,
    ]
}

/// Parses a number as tshark writes it: with 0x, as bytes, or decimal.
fn number(field: &str, text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or((field == "infiniband.immdt").then_some(text));
    match hex {
        _ if text.is_empty() => None,
        Some(hex) => Some(u64::from_str_radix(hex, 16).expect("hexadecimal")),
        None => Some(text.parse().unwrap_or_else(|_| panic!("{field}: {text}"))),
    }
}

#[test]
fn tshark_reads_every_kind_of_packet_as_it_was_meant() {
    if !has("tshark", &["--version"]) {
        return;
    }
    let samples = samples();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture("tshark.pcap", &samples)).args(["-T", "fields"]);
    // tshark shows immediate data twice, as a header and as the field in it.
    command.args(["-E", "occurrence=f"]);
    // Dissectors that guess the payload are switched off.
    for guess in ["rpcordma", "smc", "smb_direct", "nvme-rdma", "lnet", "iser", "infiniband_sdp"] {
        command.args(["--disable-protocol", guess]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = rows(&output.stdout);
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(&samples) {
        let name = sample.headers.opcode().name();
        let shown: Vec<_> =
            row.iter().zip(&FIELDS[..21]).map(|(text, field)| number(field, text)).collect();
        for ((field, shown), meant) in FIELDS.iter().zip(shown).zip(fields(sample)) {
            assert_eq!(shown, meant, "{name} {field}: {row:?}");
        }
        let complaint = row.get(21).map_or("", String::as_str);
        assert!(!complaint.contains("Malformed"), "{name}: {complaint}");
    }
}

const READ_BY_SCAPY: &str = r#"
import sys
from scapy.all import Ether, IP, UDP, rdpcap
from scapy.contrib.roce import AETH, BTH
for packet in rdpcap(sys.argv[1]):
    frame = bytes(packet)
    bth = packet[BTH]
    values = [bth.opcode, bth.solicited, bth.migreq, bth.padcount, bth.version, bth.pkey,
              bth.fecn, bth.becn, bth.dqpn, bth.ackreq, bth.psn]
    if AETH in packet:
        values += [packet[AETH].syndrome, packet[AETH].msn]
    follow = bytes(bth.payload).hex()
    bth.icrc = None
    again = bytes(packet)
    print(*values, sep=" ", end="\t")
    print(follow, frame[-4:].hex(), again[-4:].hex(), sep="\t")
"#;

#[test]
fn scapy_reads_every_kind_of_packet_and_computes_the_same_icrc() {
    if !has(&python(), &["-c", "import scapy.contrib.roce"]) {
        return;
    }
    let samples = samples();
    let rows = run_scapy("read.py", READ_BY_SCAPY, &[&capture("scapy.pcap", &samples)]);
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(&samples) {
        let (headers, bytes) = (&sample.headers, sample.bytes());
        let name = headers.opcode().name();
        let mut values = vec![
            u32::from(headers.opcode().byte()),
            headers.solicited_event.into(),
            headers.migration_request.into(),
            (4 - sample.payload.len() as u32 % 4) % 4,
            0,
            headers.partition.into(),
            headers.forward_congestion.into(),
            headers.backward_congestion.into(),
            headers.destination.get(),
            headers.acknowledge_request.into(),
            headers.psn.get(),
        ];
        if let Body::Acknowledge(aeth) = headers.body {
            values.extend([u32::from(aeth.syndrome.byte()), aeth.msn.get()]);
        }
        let values: Vec<String> = values.iter().map(u32::to_string).collect();
        assert_eq!(row[0], values.join(" "), "{name}");
        assert_eq!(row[1], hexed(&bytes[12..bytes.len() - 4]), "{name}");
        assert_eq!(row[2], row[3], "{name}: scapy's ICRC is the second");
    }
}

const MADE_BY_SCAPY: &str = r#"
from scapy.all import IP, IPv6, Raw, UDP
from scapy.contrib.roce import AETH, BTH, _bth_opcodes, cnp
import struct
REGION = struct.pack(">QII", 0x1000, 0x2000, 0x3000)
NOW = struct.pack(">I", 0x77)
ANSWER = bytes(AETH(syndrome=0x05, msn=0x123456))
ATOMIC = struct.pack(">QIQQ", 0x1000, 0x2000, 0x4000, 0x5000)
for over in [lambda i: IP(src="10.0.0.2", dst="10.0.0.3", id=i * 1000, flags="DF", tos=2, ttl=9),
             lambda i: IPv6(src="fd00::2", dst="fd00::3", tc=2, fl=77, hlim=9)]:
    for i, (opcode, name) in enumerate(sorted(_bth_opcodes.items())):
        if not name.startswith(("RC", "UC", "CNP")):
            continue
        follow = b""
        if "WRITE_FIRST" in name or "WRITE_ONLY" in name or "READ_REQUEST" in name:
            follow += REGION
        if name.endswith("IMMEDIATE"):
            follow += NOW
        if "ACKNOWLEDGE" in name or "RESPONSE" in name and not name.endswith("MIDDLE"):
            follow += ANSWER
        if "ATOMIC_ACK" in name:
            follow += struct.pack(">Q", 0x6000)
        if name.endswith(("SWAP", "ADD")):
            follow += ATOMIC
        loaded = "SEND" in name or "WRITE" in name or "RESPONSE" in name
        load = bytes(range(i)) if loaded else b""
        pad = -len(load) % 4
        bth = BTH(opcode=opcode, dqpn=0x100 + i, psn=0x200 + i, ackreq=i % 2, pkey=0xffff,
                  padcount=pad) / Raw(follow + load + bytes(pad))
        if name == "CNP":
            bth = cnp(0x100 + i)
        ports = (49152, 4791) if over(0).version == 4 else (49153, 4791)
        packet = over(i) / UDP(sport=ports[0], dport=ports[1]) / bth
        print(over(0).version, i, opcode, len(load), bytes(packet[UDP].payload).hex(), sep="\t")
"#;

/// Checks a packet that scapy's script made against that script.
fn as_scapy_made(body: &Body) {
    let reth = Reth { address: 0x1000, key: 0x2000, bytes: 0x3000 };
    let aeth = Aeth {
        syndrome: Syndrome::from_byte(5).expect("an acknowledgement"),
        msn: Msn::new(0x12_3456),
    };
    let atomic = AtomicEth { address: 0x1000, key: 0x2000, swap_or_add: 0x4000, compare: 0x5000 };
    match *body {
        Body::Write(_, WritePart::First(of) | WritePart::Only(of, None))
        | Body::ReadRequest(of) => assert_eq!(of, reth),
        Body::Write(_, WritePart::Only(of, now)) => assert_eq!((of, now), (reth, Some(0x77))),
        Body::Send(_, SendPart::Last(Some(now)) | SendPart::Only(Some(now)))
        | Body::Write(_, WritePart::Last(Some(now))) => assert_eq!(now, 0x77),
        Body::ReadResponse(ReadPart::First(of) | ReadPart::Last(of) | ReadPart::Only(of))
        | Body::Acknowledge(of) => assert_eq!(of, aeth),
        Body::AtomicAcknowledge(of, was) => {
            assert_eq!((of, was.original), (aeth, 0x6000));
        }
        Body::CompareSwap(of) | Body::FetchAdd(of) => assert_eq!(of, atomic),
        _ => {}
    }
}

#[test]
fn packets_made_by_scapy_are_read_as_it_made_them() {
    if !has(&python(), &["-c", "import scapy.contrib.roce"]) {
        return;
    }
    let rows = run_scapy("make.py", MADE_BY_SCAPY, &[]);
    assert_eq!(rows.len(), 2 * Opcode::ALL.len(), "every opcode over both families");
    for row in rows {
        let number = |at: usize| row[at].parse::<u32>().expect("a number");
        let (version, index, payload_bytes) = (number(0), number(1), number(3));
        let ipv4 = version == 4;
        let bytes = unhexed(&row[4]);
        let packet = split_icrc(&bytes).map(|(packet, _)| Packet::parse(packet));
        let packet = packet.expect("an ICRC").unwrap_or_else(|error| panic!("{row:?}: {error}"));
        let name = packet.opcode().name();
        let identification = if ipv4 { (index * 1000) as u16 } else { 0 };
        let verdict = context(ADDRESSES[usize::from(!ipv4)]).verify(&bytes, 0);
        assert_eq!(verdict, Verdict::Match { identification }, "{name}");
        assert_eq!(u32::from(packet.opcode().byte()), number(2));
        let headers = packet.headers();
        assert_eq!(headers.destination.get(), 0x100 + index, "{name}");
        if packet.opcode().extended() == Extended::Zeros {
            assert!(headers.backward_congestion);
            continue;
        }
        assert_eq!(headers.psn.get(), 0x200 + index, "{name}");
        assert_eq!(headers.acknowledge_request, index % 2 == 1, "{name}");
        let payload: Vec<u8> = (0..payload_bytes as u8).collect();
        assert_eq!(packet.payload(), payload, "{name}");
        as_scapy_made(&headers.body);
    }
}
