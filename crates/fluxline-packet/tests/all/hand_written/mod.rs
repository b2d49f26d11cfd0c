//! Packets written by hand from the public layouts of the shipped formats, with what they hold.

use fluxline_packet::Part;

/// Hexadecimal digits with blanks; `00*16` stands for 16 bytes 00.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
        for _ in 0..times.parse().expect("a count") {
            for pair in digits.as_bytes().chunks(2) {
                let pair = std::str::from_utf8(pair).expect("ASCII");
                bytes.push(u8::from_str_radix(pair, 16).expect("hexadecimal"));
            }
        }
    }
    bytes
}

/// A packet and what it must be read as.
pub struct Expected {
    pub format: &'static str,
    pub packet: &'static str,
    pub kind: &'static str,
    pub label: &'static str,
    pub sequence: Option<u64>,
    pub event: Option<u64>,
    pub part: Part,
    pub time_ns: Option<u64>,
    /// Start and length \[byte\].
    pub payload: (u32, u32),
}

const WHOLE: Part = Part::Whole;

fn index(index: u32, count: u32) -> Part {
    Part::Index { index, count }
}

fn range(offset: u64, total: u64) -> Part {
    Part::Bytes { offset, total }
}

fn instruments() -> Vec<Expected> {
    vec![
        Expected {
            format: "counter",
            packet: "464c5843 01 00 0700 04030201 0200 0300 0807060504030201 00ca9a3b00000000 \
                     00*10",
            kind: "data",
            label: "source_id=7",
            sequence: Some(0x0102_0304),
            event: Some(0x0102_0304_0506_0708),
            part: index(2, 3),
            time_ns: Some(1_000_000_000),
            payload: (32, 10),
        },
        Expected {
            format: "reading",
            packet: "464c5852 01 00 0300 04030201 00000000 00ca9a3b00000000 000000000000f83f",
            kind: "data",
            label: "channel=3",
            sequence: Some(0x0102_0304),
            event: None,
            part: Part::Whole,
            time_ns: Some(1_000_000_000),
            payload: (32, 0),
        },
        Expected {
            format: "ess-readout",
            packet: "00 01 45535334 2800 0b 00 64000000 02000000 63000000 05000000 fefffff0 0000 \
                     01 02 0800 aabbccdd",
            kind: "version-1",
            label: "10.0.0.2 output_queue=11",
            sequence: Some(0xF0FF_FFFE),
            event: None,
            part: WHOLE,
            // Two ticks of 88.0525 MHz are 22.71 ns.
            time_ns: Some(100_000_000_022),
            payload: (32, 8),
        },
        Expected {
            format: "ess-readout",
            packet: "00 00 45535334 1e00 00 00 64000000 00000000 63000000 05000000 01000000",
            kind: "version-0",
            label: "10.0.0.2 output_queue=0",
            sequence: Some(1),
            event: None,
            part: WHOLE,
            time_ns: Some(100_000_000_000),
            payload: (30, 0),
        },
        Expected {
            format: "sls",
            packet: "0500000000000000 10000000 7f000000 00*8 0a00000000000000 0100 0200 0300 0000 \
                     00000000 0000 03 02 ab*64",
            kind: "data",
            label: "module_id=1 row=2 column=3",
            sequence: Some(5 * 128 + 127),
            event: Some(5),
            part: index(127, 128),
            time_ns: Some(1000),
            payload: (48, 64),
        },
        Expected {
            format: "dune-daqeth",
            // version 2, det 3, crate 5, slot 1, stream 0x81, seq 0xABC, block length 0x123:
            // 2 | 3<<6 | 5<<12 | 1<<22 | 0x81<<26 | 0xABC<<40 | 0x123<<52
            packet: "c2504004 02bc3a12 e803000000000000 00*16",
            kind: "data",
            label: "det_id=3 crate_id=5 slot_id=1 stream_id=129",
            sequence: Some(0xABC),
            event: None,
            part: WHOLE,
            time_ns: Some(16_000),
            payload: (16, 16),
        },
        Expected {
            format: "srs-vmm3",
            packet: "00b51622 564d3320 00000003 00000000 08c00001 8001 00000001 4002",
            kind: "data",
            label: "10.0.0.2 fec_id=2",
            sequence: Some(11_867_682),
            event: None,
            part: WHOLE,
            time_ns: Some(75),
            payload: (16, 12),
        },
        Expected {
            format: "panoseti",
            packet: "01 00 3412 0700 ff07 0000 04030201 0000 11*512",
            kind: "data",
            label: "module=1 quabo=3",
            sequence: Some(0x1234),
            event: None,
            part: WHOLE,
            time_ns: Some(1023 * 1_000_000_000 + 0x0102_0304),
            payload: (16, 512),
        },
        Expected {
            format: "dca1000",
            packet: "2a000000 060504030201 11*1456",
            kind: "data",
            label: "10.0.0.2:4000",
            sequence: Some(42),
            event: None,
            part: WHOLE,
            time_ns: None,
            payload: (10, 1456),
        },
        Expected {
            format: "piraq",
            packet: "78563412 00000000 09000000 00100000 00040000 03000000 04000000 22*1024",
            kind: "page",
            label: "10.0.0.2:4000",
            sequence: None,
            event: Some(9),
            part: index(3, 4),
            time_ns: None,
            payload: (28, 1024),
        },
        Expected {
            format: "hispec",
            packet: "0000000000000102 33*4096",
            kind: "data",
            label: "10.0.0.2:4000",
            sequence: Some(258),
            event: None,
            part: WHOLE,
            time_ns: None,
            payload: (8, 4096),
        },
    ]
}

fn segments() -> Vec<Expected> {
    let segment = |packet, kind, start| Expected {
        format: "e2sar",
        packet,
        kind,
        label: "data_id=4660",
        sequence: None,
        event: Some(9),
        part: range(1000, 2000),
        time_ns: None,
        payload: (start, 100),
    };
    let heap = |packet, kind| Expected {
        format: "spead",
        packet,
        kind,
        label: "10.0.0.2:4000",
        sequence: None,
        event: Some(77),
        part: range(200, 1000),
        time_ns: None,
        payload: (40, 100),
    };
    vec![
        segment("10 00 1234 000003e8 000007d0 0000000000000009 55*100", "segment", 20),
        segment(
            "4c42 02 01 0000 0003 0000000000000009 \
             10 00 1234 000003e8 000007d0 0000000000000009 55*100",
            "lb2",
            36,
        ),
        segment(
            "4c42 03 01 0001 0003 0000000000000009 \
             10 00 1234 000003e8 000007d0 0000000000000009 55*100",
            "lb3",
            36,
        ),
        Expected {
            format: "e2sar",
            packet: "4c43 02 00 00000007 0000000000000009 000003e8 0000000000000064",
            kind: "sync",
            label: "sync source_id=7",
            sequence: None,
            event: None,
            part: WHOLE,
            time_ns: Some(100),
            payload: (28, 0),
        },
        heap(
            "53 04 02 06 0000 0004 800100000000004d 80020000000003e8 80030000000000c8 \
             8004000000000064 66*100",
            "heap-64-48",
        ),
        heap(
            "53 04 03 05 0000 0004 800001000000004d 80000200000003e8 80000300000000c8 \
             8000040000000064 66*100",
            "heap-64-40",
        ),
        Expected {
            // No heap length: the heap ends with its packet.
            part: range(200, 300),
            payload: (32, 100),
            ..heap(
                "53 04 02 06 0000 0003 800100000000004d 80030000000000c8 8004000000000064 66*100",
                "heap-64-48",
            )
        },
    ]
}

fn radios() -> Vec<Expected> {
    let second = 1_000_000_000;
    let vrt = |packet, kind, label, time_ns, payload| Expected {
        format: "vita-49-2",
        packet,
        kind,
        label,
        sequence: Some(9),
        event: None,
        part: WHOLE,
        time_ns,
        payload,
    };
    vec![
        // Type 1, no class, trailer, UTC, picoseconds, count 9, 8 words.
        vrt(
            "14690008 0000cafe 00000064 00000000000007d0 01020304 05060708 ffffffff",
            "data",
            "10.0.0.2 data stream_id=51966",
            Some(100 * second + 2),
            (20, 8),
        ),
        // Type 0: nothing but the first word.
        vrt("00090003 01020304 05060708", "data", "10.0.0.2 data stream_id=0", None, (4, 8)),
        // Type 3 with class id and a free counter: no absolute time.
        vrt(
            "38390007 0000cafe 006a621e 00010002 0000000000000005 01020304",
            "data",
            "10.0.0.2 data stream_id=51966",
            None,
            (24, 4),
        ),
        vrt(
            "48490006 0000cafe 006a621e 00010002 00000064 80000000",
            "context",
            "10.0.0.2 context stream_id=51966",
            Some(100 * second),
            (20, 4),
        ),
        vrt("60090003 0000cafe 01020304", "command", "10.0.0.2 command stream_id=51966", None, {
            (8, 4)
        }),
        Expected {
            format: "difi",
            packet: "18690008 0000cafe f86a621e 00010002 00000064 00000000000007d0 01020304",
            kind: "data",
            label: "10.0.0.2 data stream_id=51966",
            sequence: Some(9),
            event: None,
            part: WHOLE,
            time_ns: Some(100 * second + 2),
            payload: (28, 4),
        },
        Expected {
            format: "chdr",
            // Type 7, one metadata word, sequence 0x1234, 32 bytes, destination 0x0042.
            packet: "4200 2000 3412 e1 00 0a00000000000000 1111111111111111 2222222222222222",
            kind: "data",
            label: "destination=66",
            sequence: Some(0x1234),
            event: None,
            part: WHOLE,
            // 10 ticks of 200 MHz.
            time_ns: Some(50),
            payload: (24, 8),
        },
        Expected {
            format: "chdr",
            packet: "4200 1000 0100 80 00 2222222222222222",
            kind: "other",
            label: "other packet_type=4 destination=66",
            sequence: Some(1),
            event: None,
            part: WHOLE,
            time_ns: None,
            payload: (8, 8),
        },
        Expected {
            format: "chdr-old",
            packet: "2abc 0018 00000042 000000000bebc201 2222222222222222",
            kind: "any",
            label: "packet_type=0 stream_id=66",
            sequence: Some(0xABC),
            event: None,
            part: WHOLE,
            // 200_000_001 ticks of 200 MHz.
            time_ns: Some(second + 5),
            payload: (16, 8),
        },
        // Station "AB", thread 2; frame 3 of second 100 since 2020, of 25,600 frames a second.
        Expected {
            format: "vdif",
            packet: "0700000000000000 64000000 03000028 05000000 42410204 00*16 e4e4e4e4e4e4e4e4",
            kind: "frame",
            label: "station=16706 thread=2",
            sequence: Some(7),
            event: None,
            part: WHOLE,
            time_ns: Some((1_577_836_800 + 100) * 1_000_000_000 + 117_187),
            payload: (40, 8),
        },
    ]
}

fn lidars() -> Vec<Expected> {
    let lidar = |packet, kind, part, payload| Expected {
        format: "ouster",
        packet,
        kind,
        label: "10.0.0.2:4000",
        sequence: None,
        event: Some(0x0703),
        part,
        time_ns: Some(1000),
        payload,
    };
    vec![
        // Firmware without check sums ends packets with 0xDEADBEEF0000C0DE.
        lidar(
            "0100 0307 767c6c 264cbf731c 00*20 e803000000000000 2000 0100 00*60 00*24 \
             dec00000efbeadde",
            "lidar",
            index(2, 64),
            (32, 72),
        ),
        lidar(
            "e803000000000000 f003 0307 80390100 00*12592",
            "lidar-legacy",
            index(63, 64),
            (0, 12_608),
        ),
        lidar(
            "01 b9f305 03070000 000000 d1327d761c 00*16 e803000000000000 1000 0100 00*60 00*32",
            "lidar-fusa",
            index(1, 64),
            (32, 72),
        ),
        Expected {
            format: "ouster",
            packet: "01*8 e803000000000000 03*8 0000803f*6",
            kind: "imu",
            label: "10.0.0.2:4000",
            sequence: None,
            event: None,
            part: WHOLE,
            time_ns: Some(1000),
            payload: (48, 0),
        },
    ]
}

/// A packet of a simulated network.
fn dump(format: &'static str, kind: &'static str, packet: &'static str) -> Expected {
    let payload = match kind {
        "echo" => (8, 0),
        "response" => (14, 16),
        "request" => (14, 0),
        _ => (28, 0),
    };
    let label = if format == "sci" { "source=9" } else { "source=258" };
    Expected {
        format,
        packet,
        kind,
        label,
        sequence: None,
        event: None,
        part: WHOLE,
        time_ns: None,
        payload,
    }
}

/// Packets of simulated networks; their check sums are shown, not checked.
fn dumps() -> Vec<Expected> {
    vec![
        dump("sci", "echo", "0102 0dc5 0009 1a2b"),
        dump("sci", "response", "0102 0661 0009 0005 0004 0000 0000 aa*16 1a2b"),
        dump("sci", "request", "0102 0440 0009 003f 123456789abc 1a2b"),
        dump(
            "sim-network",
            "packet",
            "01 01 0000 00000102 00000007 0000000b 00000048 00000100 00000003",
        ),
    ]
}

/// All of them.
pub fn all() -> Vec<Expected> {
    [instruments(), segments(), radios(), lidars(), dumps()].into_iter().flatten().collect()
}
