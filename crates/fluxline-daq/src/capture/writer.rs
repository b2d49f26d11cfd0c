//! Writes datagrams into a pcapng file, so that an emulated sensor can be examined and replayed.
//!
//! One section, one Ethernet interface with nanosecond times. A payload beyond the usual MTU is in
//! one large frame, like in captures on hosts with segmentation offload. Source:
//! draft-ietf-opsawg-pcapng.

use std::io::{self, Write};
use std::net::SocketAddr;

use etherparse::PacketBuilder;
use fluxline_core::Moment;

/// Addresses of the synthetic Ethernet headers: locally administered.
const SOURCE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
const DESTINATION_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
/// Hops of the synthetic IP headers.
const HOPS: u8 = 64;

/// A pcapng file under way.
pub struct CaptureWriter<W: Write> {
    out: W,
    frame: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<CaptureWriter<W>> {
        // Byte-order magic, version 1.0, section length unknown.
        let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        block(&mut out, 0x0A0D_0D0A, &section)?;
        // Link type Ethernet, no snap length, if_tsresol (option 9) = 10^-9 s, end of options.
        let interface = [1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        block(&mut out, 1, &interface)?;
        Ok(CaptureWriter { out, frame: Vec::new() })
    }

    /// Writes one datagram. Both addresses must be of one family. Errors: those of the file, and
    /// `InvalidInput` for a payload that no datagram can carry.
    pub fn write(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        payload: &[u8],
        time: Moment,
    ) -> io::Result<()> {
        let ethernet = PacketBuilder::ethernet2(SOURCE_MAC, DESTINATION_MAC);
        let ip = match (from, to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                ethernet.ipv4(from.ip().octets(), to.ip().octets(), HOPS)
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                ethernet.ipv6(from.ip().octets(), to.ip().octets(), HOPS)
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "two address families")),
        };
        self.frame.clear();
        ip.udp(from.port(), to.port())
            .write(&mut self.frame, payload)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let length = self.frame.len() as u32;
        let mut packet = Vec::with_capacity(self.frame.len() + 24);
        packet.extend(0_u32.to_le_bytes());
        packet.extend(((time.as_ns() >> 32) as u32).to_le_bytes());
        packet.extend((time.as_ns() as u32).to_le_bytes());
        packet.extend(length.to_le_bytes());
        packet.extend(length.to_le_bytes());
        packet.extend(&self.frame);
        block(&mut self.out, 6, &packet)
    }

    /// Ends the file; it is complete when this returns.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// One block: type, length, body padded to 4 bytes, length again.
fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padding = body.len().wrapping_neg() % 4;
    let length = (12 + body.len() + padding) as u32;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(body)?;
    out.write_all(&[0; 3][..padding])?;
    out.write_all(&length.to_le_bytes())
}
