//! The messages of perftest's exchange as bytes.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use fluxline_core::roce::{Psn, QueuePair};

/// The version that this end says. Source: the one that was observed.
const VERSION: &str = "6.06";
/// The lowest version with this exchange. Source: perftest, `check_version_compatibility`.
const VERSION_LEAST: f64 = 5.7;
/// A version \[byte\].
pub const VERSION_BYTES: usize = 16;
/// A key message \[byte\]: nine fields and the terminating zero.
pub const KEY_BYTES: usize = 108;
/// One number of the results \[byte\].
pub const NUMBER_BYTES: usize = 8;
/// The last message.
pub const DONE: [u8; 5] = *b"done\0";
/// The smallest and the largest path MTU as codes: 256 to 4096 bytes. Source: `enum ibv_mtu`.
const MTU_CODES: [u8; 5] = *b"12345";

/// Returns the version as a message.
pub fn version() -> [u8; VERSION_BYTES] {
    let mut bytes = [0; VERSION_BYTES];
    bytes[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    bytes
}

/// Returns the version of a message: digits and points. `None`: it is not a version.
pub fn parse_version(bytes: &[u8; VERSION_BYTES]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let is_version = text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|of| of.is_ascii_digit() || of == '.');
    is_version.then(|| text.to_owned())
}

/// Returns true when a peer of this version has the exchange of this module.
pub fn is_supported(version: &str) -> bool {
    // As perftest compares it: `6.06.1` counts as 6.06.
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    format!("{major}.{minor}").parse::<f64>().is_ok_and(|number| number >= VERSION_LEAST)
}

/// Returns the code of the largest path MTU whose frames fit, and its size \[byte\]. `None`: none.
pub fn mtu_that_fits(payload_bytes: usize) -> Option<Mtu> {
    MTU_CODES.into_iter().filter_map(Mtu::of).rev().find(|mtu| mtu.bytes <= payload_bytes)
}

/// A path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    code: u8,
    /// Its size \[byte\].
    pub bytes: usize,
}

impl Mtu {
    fn of(code: u8) -> Option<Mtu> {
        let power = MTU_CODES.iter().position(|of| *of == code)?;
        Some(Mtu { code, bytes: 256 << power })
    }

    /// Returns it as a message.
    pub fn message(self) -> [u8; 2] {
        [self.code, 0]
    }

    /// Returns the smaller of this one and that of a message; `None`: it is not a path MTU.
    pub fn agreed(self, theirs: [u8; 2]) -> Option<Mtu> {
        let theirs = Mtu::of(theirs[0]).filter(|_| theirs[1] == 0)?;
        Some(if theirs.bytes < self.bytes { theirs } else { self })
    }
}

/// A queue pair and its memory, as a key message has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMessage {
    /// Reads and atomics that it answers at a time.
    pub reads: u16,
    /// The queue pair.
    pub pair: QueuePair,
    /// Its first PSN.
    pub first: Psn,
    /// The R_Key; 0: no memory.
    pub key: u32,
    /// The address of the memory.
    pub address: u64,
    /// The address of the RDMA device.
    pub gid: Ipv6Addr,
    /// The shared receive queue of XRC or DC; 0: none.
    pub shared_queue: u32,
}

impl KeyMessage {
    /// Returns the message.
    pub fn emit(&self) -> [u8; KEY_BYTES] {
        let mut text = format!(
            "0000:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:",
            self.reads,
            self.pair.get(),
            self.first.get(),
            self.key,
            self.address
        );
        for byte in self.gid.octets() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}:");
        }
        let _ = write!(text, "{:08x}:", self.shared_queue);
        let mut bytes = [0; KEY_BYTES];
        for (into, from) in bytes.iter_mut().zip(text.bytes()) {
            *into = from;
        }
        bytes
    }

    /// Reads a message; `None`: it is malformed.
    pub fn parse(bytes: &[u8; KEY_BYTES]) -> Option<KeyMessage> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
        let mut fields = text.strip_suffix(':')?.split(':');
        let mut next = || {
            let field = fields.next()?;
            let is_hexadecimal = field.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_hexadecimal && !field.is_empty()).then_some(field)
        };
        let mut number = |bits: u32| {
            let value = u64::from_str_radix(next()?, 16).ok()?;
            (bits == 64 || value >> bits == 0).then_some(value)
        };
        number(16)?; // the LID of InfiniBand
        let reads = number(16)? as u16;
        let pair = QueuePair::new(number(24)? as u32);
        let first = Psn::new(number(24)? as u32);
        let (key, address) = (number(32)? as u32, number(64)?);
        let mut octets = [0; 16];
        for octet in &mut octets {
            *octet = number(8)? as u8;
        }
        let shared_queue = number(32)? as u32;
        let gid = Ipv6Addr::from(octets);
        fields.next().is_none().then_some(KeyMessage {
            reads,
            pair,
            first,
            key,
            address,
            gid,
            shared_queue,
        })
    }
}

/// Returns true when bytes begin as a key message: four digits and a colon.
pub fn begins_key_message(bytes: &[u8; NUMBER_BYTES]) -> bool {
    bytes[..4].iter().all(u8::is_ascii_hexdigit) && bytes[4] == b':'
}

/// Returns an address as a GID.
pub fn gid_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The results of a bandwidth test: five numbers, each a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The size of an operation \[byte\].
    pub bytes: u64,
    /// The number of operations.
    pub operations: u64,
    /// The rate \[MiB/s\].
    pub mib_per_s: f64,
    /// The rate \[million/s\].
    pub million_per_s: f64,
}

impl Report {
    /// Returns the five messages: size, operations, peak, average, rate of operations.
    pub fn messages(&self) -> [[u8; NUMBER_BYTES]; 5] {
        let Report { bytes, operations, mib_per_s, million_per_s } = *self;
        [
            bytes.to_be_bytes(),
            operations.to_be_bytes(),
            mib_per_s.to_be_bytes(),
            mib_per_s.to_be_bytes(),
            million_per_s.to_be_bytes(),
        ]
    }

    /// Reads the five messages.
    pub fn parse(messages: &[[u8; NUMBER_BYTES]; 5]) -> Report {
        Report {
            bytes: u64::from_be_bytes(messages[0]),
            operations: u64::from_be_bytes(messages[1]),
            mib_per_s: f64::from_be_bytes(messages[3]),
            million_per_s: f64::from_be_bytes(messages[4]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key message of perftest 6.06, as it was observed.
    const OBSERVED: &[u8; KEY_BYTES] = b"0000:0080:000015:5708f9:00000793:00007f96e5465000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:02:00000000:\0";

    #[test]
    fn a_key_message_of_perftest_is_read_and_written() {
        let key = KeyMessage::parse(OBSERVED).expect("well-formed");
        assert_eq!((key.reads, key.pair.get(), key.first.get()), (128, 0x15, 0x57_08f9));
        assert_eq!((key.key, key.address), (0x793, 0x7f96_e546_5000));
        assert_eq!(key.gid.to_canonical().to_string(), "10.77.0.2");
        assert_eq!(&key.emit(), OBSERVED);
    }

    #[test]
    fn every_changed_byte_is_rejected_or_read_as_another_number() {
        let key = KeyMessage::parse(OBSERVED).expect("well-formed");
        for at in 0..KEY_BYTES {
            for byte in [0, b' ', b':', b'0', b'a', b'F', b'g', b'+', b'-', 0x80, 0xff] {
                let mut changed = *OBSERVED;
                changed[at] = byte;
                if let Some(other) = KeyMessage::parse(&changed) {
                    // The LID is not kept, and letters may be capitals.
                    let again = KeyMessage::parse(&other.emit()).expect("our own");
                    assert_eq!(again, other, "byte {at}");
                    let is_same = changed.eq_ignore_ascii_case(OBSERVED);
                    assert!(at < 4 || is_same == (other == key), "byte {at} is {byte}");
                }
            }
        }
        assert_eq!(KeyMessage::parse(&[b'0'; KEY_BYTES]), None);
        assert_eq!(KeyMessage::parse(&[b':'; KEY_BYTES]), None);
        assert_eq!(KeyMessage::parse(&[0; KEY_BYTES]), None);
    }

    #[test]
    fn versions_are_compared_as_perftest_does() {
        let of = |text: &str| {
            let mut bytes = [0; VERSION_BYTES];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            parse_version(&bytes)
        };
        assert_eq!(parse_version(&version()).as_deref(), Some("6.06"));
        assert!(is_supported("6.06") && is_supported("5.70") && is_supported("25.04.0"));
        assert!(!is_supported("5.33") && !is_supported("5.5") && !is_supported(""));
        assert_eq!(of("6.23"), Some("6.23".to_owned()));
        for wrong in ["", "GET / HTTP/1.1", "6.06 ", "-1", ".5"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(parse_version(&[b'6'; VERSION_BYTES]), None, "not terminated");
    }

    #[test]
    fn the_smaller_path_mtu_is_agreed() {
        let own = mtu_that_fits(1440).expect("fits");
        assert_eq!((own.bytes, own.message()), (1024, *b"3\0"));
        assert_eq!(own.agreed(*b"5\0").map(|mtu| mtu.bytes), Some(1024));
        assert_eq!(own.agreed(*b"1\0").map(|mtu| mtu.bytes), Some(256));
        for wrong in [*b"0\0", *b"6\0", *b"33", [0, 0], [3, 0]] {
            assert_eq!(own.agreed(wrong), None);
        }
        assert_eq!(mtu_that_fits(255), None);
        assert_eq!(mtu_that_fits(9000).map(|mtu| mtu.bytes), Some(4096));
    }

    #[test]
    fn results_and_key_messages_are_told_apart() {
        let report =
            Report { bytes: 65_536, operations: 5000, mib_per_s: 26.6, million_per_s: 4e-4 };
        let messages = report.messages();
        assert_eq!(Report::parse(&messages), report);
        assert!(!begins_key_message(&messages[0]));
        assert!(begins_key_message(OBSERVED.first_chunk().expect("longer")));
        assert!(!begins_key_message(b"done\0\0\0\0"));
    }
}
