//! The check sum of a UDP datagram: the ones' complement sum over a pseudo header, header and data.
//!
//! Without it, two halves of different datagrams that IP joined would count as one datagram. A sum
//! of 0 means "no check sum". On the sending host, a capture often has only the sum of the pseudo
//! header, because the network card adds the rest later. Such a partial sum does not protect the
//! data, and the datagram is accepted without a check. Sources: RFC 768, RFC 1071, RFC 8200 §8.1.

use std::net::IpAddr;

/// UDP's number among IP protocols.
const UDP: u64 = 17;

/// A UDP datagram as IP carried it.
pub(super) struct Carried<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Header and payload.
    pub udp: &'a [u8],
}

impl Carried<'_> {
    /// Returns true when the check sum is right, absent or partial.
    pub fn is_credible(&self) -> bool {
        let Some(stored) = self.udp.get(6..8).and_then(|sum| sum.first_chunk::<2>()) else {
            return false;
        };
        let stored = u16::from_be_bytes(*stored);
        let pseudo = self.pseudo_header();
        stored == 0 || fold(pseudo + sum(self.udp)) == u16::MAX || stored == fold(pseudo)
    }

    fn pseudo_header(&self) -> u64 {
        let address = |address: IpAddr| match address {
            IpAddr::V4(v4) => sum(&v4.octets()),
            IpAddr::V6(v6) => sum(&v6.octets()),
        };
        // At most 65535 bytes: the upper half of the length is 0.
        address(self.source) + address(self.destination) + UDP + self.udp.len() as u64
    }
}

/// Returns the sum of the bytes as 16-bit words, an odd last byte followed by 0.
fn sum(bytes: &[u8]) -> u64 {
    let (words, last) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + last.first().map_or(0, |last| u64::from(*last) << 8)
}

/// Returns the ones' complement sum in 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{Carried, fold, sum};

    fn datagram(stored: u16, data: &[u8]) -> Vec<u8> {
        let length = (8 + data.len()) as u16;
        let ports = [6006_u16, 6007, length, stored];
        ports.iter().flat_map(|word| word.to_be_bytes()).chain(data.iter().copied()).collect()
    }

    fn carried(udp: &[u8]) -> bool {
        let [source, destination] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse::<IpAddr>().unwrap());
        Carried { source, destination, udp }.is_credible()
    }

    #[test]
    fn a_sum_is_right_absent_or_partial_and_any_other_is_wrong() {
        // RFC 1071 §3: the sum of 00 01 f2 03 f4 f5 f6 f7 is dd f2.
        assert_eq!(fold(sum(&[0, 1, 0xF2, 3, 0xF4, 0xF5, 0xF6, 0xF7])), 0xDDF2);
        let data = b"an odd size";
        let pseudo: u16 = 0x0A00 + 1 + 0x0A00 + 2 + 17 + (8 + data.len() as u16);
        let whole = fold(u64::from(pseudo) + sum(&datagram(0, data)));
        for right in [!whole, 0, pseudo] {
            assert!(carried(&datagram(right, data)), "{right:#x}");
        }
        let rights = [!whole, 0, pseudo];
        let wrong = (1..=u16::MAX).filter(|sum| !rights.contains(sum));
        assert!(wrong.clone().count() > 65_000);
        assert_eq!(wrong.filter(|sum| carried(&datagram(*sum, data))).count(), 0);
        assert!(!carried(&[0; 7]));
    }
}
