//! Gateware that sends the packets of a description: layout, register map, test bench.
//!
//! The hand-written part (`gateware/`: packetiser, responder, registers, simulation, tests, proofs)
//! is the same for all packets. [`gateware`] adds what follows from the description: the header as
//! a vector of bytes in wire order, sizes, and the fields for the test
//! bench. Whatever this hardware cannot send is refused, with the reason.

mod bench;
mod files;
mod fill;
mod layout;
pub mod registers;
mod verilog;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Description;
use super::layout::PacketType;

/// Bytes of Ethernet, IPv4 and UDP headers before the packet.
const FRAME_HEADER_BYTES: u64 = 42;
/// Bytes of IPv4 and UDP headers, which the MTU includes.
const DATAGRAM_HEADER_BYTES: u64 = 28;
/// Largest IP packet \[byte\].
const DATAGRAM_BYTES_MAX: u64 = 65_535;
/// Bytes of a word of samples.
const WORD_BYTES: u64 = 8;
/// Least and most bytes of the FIFO: two words; 1 MiB of block RAM.
const FIFO_BYTES: core::ops::RangeInclusive<u64> = 16..=1 << 20;
/// Most blocks in the FIFO: the ledger has 16 bits for them and for two that are on their way out.
const BLOCKS_MAX: u64 = 65_533;
/// Most header bytes of a packet: each byte of the header costs logic.
const HEADER_BYTES_MAX: u64 = 512;

/// Bytes between the UDP header and the packet in a RoCEv2 frame: base header, address, immediate.
const ROCE_HEADER_BYTES: u64 = 12 + 16 + 4;
/// Bytes of the invariant CRC.
const ICRC_BYTES: u64 = 4;
/// Path MTUs of the standard \[byte\].
const PATH_MTUS: [u64; 5] = [256, 512, 1024, 2048, 4096];

/// The way of a packet into the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewareLink {
    /// A datagram that the receiver's socket takes.
    #[default]
    Udp,
    /// An RDMA WRITE ONLY with immediate into the receiver's memory, on an unreliable connection.
    Roce,
}

/// The choices that the description leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewareOptions<'a> {
    /// The way into the receiver.
    pub link: GatewareLink,
    /// The packet type to send; `None`: the first one that has a packet counter or a key.
    pub packet: Option<&'a str>,
    /// Bytes of samples of a packet; `None`: `payload-bytes` of `[packet.emulate]`.
    pub payload_bytes: Option<u64>,
    /// The largest IP packet of the link \[byte\].
    pub mtu: u64,
    /// Bytes of samples that the FIFO holds, a power of two.
    pub fifo_bytes: u64,
}

impl Default for GatewareOptions<'_> {
    fn default() -> Self {
        GatewareOptions {
            link: GatewareLink::Udp,
            packet: None,
            payload_bytes: None,
            mtu: 1500,
            fifo_bytes: 16 * 1024,
        }
    }
}

/// A file of the gateware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewareFile {
    /// Its path below the output folder.
    pub path: &'static str,
    /// Its content.
    pub text: String,
    /// It is a program.
    pub is_program: bool,
}

/// The sizes of a packet, checked against one another.
#[derive(Clone, Copy)]
struct Sizes {
    link: GatewareLink,
    payload: u64,
    header: u64,
    fifo: u64,
}

impl Sizes {
    /// Bytes between the UDP header and the packet.
    fn link_header(&self) -> u64 {
        if self.link == GatewareLink::Roce { ROCE_HEADER_BYTES } else { 0 }
    }

    /// Bytes of a RoCEv2 frame between the packet and the ICRC, to a multiple of four.
    fn pad(&self) -> u64 {
        let packet = self.header + self.payload;
        if self.link == GatewareLink::Roce { packet.next_multiple_of(4) - packet } else { 0 }
    }

    /// The IP packet's length \[byte\].
    fn ip_packet(&self) -> u64 {
        let icrc = if self.link == GatewareLink::Roce { ICRC_BYTES } else { 0 };
        let packet = self.header.saturating_add(self.payload);
        packet + DATAGRAM_HEADER_BYTES + self.link_header() + self.pad() + icrc
    }

    /// The distance of two packets in the receiver's memory, a path MTU \[byte\]; `None`: a packet
    /// is longer than the largest.
    fn slot(&self) -> Option<u64> {
        PATH_MTUS.into_iter().find(|mtu| self.header + self.payload <= *mtu)
    }
}

/// Returns the files of gateware that sends packets of one type. `text` is that of the description.
///
/// Errors: one sentence on the first thing that hardware cannot do, and what to write instead.
pub fn gateware(
    description: &Description,
    text: &str,
    options: &GatewareOptions<'_>,
) -> Result<Vec<GatewareFile>, String> {
    let packet = choose(description, options.packet)?;
    let refuse = |message: String| format!("packet `{}`: {message}", packet.name);
    let payload = options.payload_bytes.unwrap_or(packet.emulate_payload_bytes);
    if payload > DATAGRAM_BYTES_MAX {
        return Err(refuse(format!(
            "a payload of {payload} bytes is larger than any IP packet; write --payload-bytes"
        )));
    }
    let header = fill::header(packet, payload).map_err(refuse)?;
    let sizes =
        Sizes { link: options.link, payload, header: header.bytes, fifo: options.fifo_bytes };
    check_sizes(&sizes, options.mtu).map_err(refuse)?;
    Ok(files::files(description, text, &header, &sizes))
}

fn choose<'a>(
    description: &'a Description,
    wanted: Option<&str>,
) -> Result<&'a PacketType, String> {
    let types = description.packet_types();
    let found = types.iter().find(|packet| match wanted {
        Some(name) => packet.name == name,
        None => packet.sequence.is_some() || packet.event.is_some(),
    });
    found.or(types.first().filter(|_| wanted.is_none())).ok_or_else(|| {
        let known: Vec<_> = types.iter().map(|packet| packet.name.as_str()).collect();
        format!(
            "format `{}` has no packet type `{}`; it has {}",
            description.name(),
            wanted.unwrap_or_default(),
            known.join(", ")
        )
    })
}

fn check_sizes(sizes: &Sizes, mtu: u64) -> Result<(), String> {
    let Sizes { payload, header, fifo, .. } = *sizes;
    if !FIFO_BYTES.contains(&fifo) || !fifo.is_power_of_two() {
        let (least, most) = (FIFO_BYTES.start(), FIFO_BYTES.end());
        return Err(format!(
            "a FIFO of {fifo} bytes cannot be made; write a power of two from {least} to {most}"
        ));
    }
    if header > HEADER_BYTES_MAX {
        return Err(format!("its header has {header} bytes; {HEADER_BYTES_MAX} are the most"));
    }
    if payload == 0 || !payload.is_multiple_of(WORD_BYTES) {
        let near = (payload / WORD_BYTES).max(1) * WORD_BYTES;
        return Err(format!(
            "a payload of {payload} bytes is not whole words of {WORD_BYTES} bytes; write for \
             example --payload-bytes {near}"
        ));
    }
    let datagram = sizes.ip_packet();
    if datagram > mtu {
        let room = mtu.saturating_sub(datagram - payload) / WORD_BYTES * WORD_BYTES;
        let advice = match room {
            0 => "enlarge --mtu".to_string(),
            room => format!("write --payload-bytes {room} or less, or enlarge --mtu"),
        };
        return Err(format!(
            "a payload of {payload} bytes makes an IP packet of {datagram} bytes, and the MTU is \
             {mtu}; {advice}"
        ));
    }
    if sizes.link == GatewareLink::Roce && sizes.slot().is_none() {
        let most = PATH_MTUS[PATH_MTUS.len() - 1];
        return Err(format!(
            "its {} bytes are more than one RDMA WRITE of RoCEv2 carries, {most}; write \
             --payload-bytes {} or less",
            header + payload,
            most.saturating_sub(header) / WORD_BYTES * WORD_BYTES
        ));
    }
    if payload > fifo {
        return Err(format!(
            "a block of {payload} bytes is larger than the FIFO of {fifo} bytes, so none could be \
             sent; enlarge --fifo-bytes, to twice a block or more"
        ));
    }
    if fifo / payload > BLOCKS_MAX {
        return Err(format!(
            "a FIFO of {fifo} bytes holds more blocks of {payload} bytes than the {BLOCKS_MAX} that \
             the ledger counts; write a smaller --fifo-bytes"
        ));
    }
    Ok(())
}
