//! Captures from strangers: any bytes end in datagrams, counts and sentences.

use std::io::Cursor;
use std::path::Path;

use fluxline_daq::capture::CaptureReader;
use fluxline_daq::capture::raw::{Framing, LengthPrefix, RawReader};

/// Any bytes as a capture, and as a file of raw payloads.
pub fn capture_input(bytes: &[u8]) {
    if let Ok(mut reader) = CaptureReader::new(Path::new("fuzz"), Cursor::new(bytes.to_vec())) {
        while let Ok(Some(datagram)) = reader.next() {
            assert!(datagram.bytes.len() <= 65_535);
        }
        let c = reader.counters();
        // Each frame is one kind; a joined datagram is counted beside its fragments.
        let kinds = c.datagrams + c.port_filtered + c.not_udp + c.not_ip + c.unknown_link;
        let kinds = kinds + c.malformed + c.cut_short + c.check_sum_wrong + c.ip_fragments;
        assert_eq!(kinds, c.frames + c.reassembled, "{c:?}");
        assert!(c.fragments_left + c.fragments_conflicting + c.reassembled <= c.ip_fragments);
    }
    for framing in [
        Framing::Fixed { bytes: 7 },
        Framing::Prefixed(LengthPrefix::U16Be),
        Framing::Prefixed(LengthPrefix::U32Le),
    ] {
        let mut reader = RawReader::new(Path::new("fuzz"), Cursor::new(bytes.to_vec()), framing);
        while let Ok(Some(_)) = reader.next() {}
    }
}
