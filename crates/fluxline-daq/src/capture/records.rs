//! Frames of a capture file with their link type and time, for each kind of file.

use std::io::Read;
use std::path::Path;

use fluxline_core::Moment;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use super::CaptureError;

/// Bytes that are read at a time, and the longest block \[byte\]: twice tcpdump's largest snap
/// length.
const BUFFER_BYTES: usize = 512 << 10;
/// Most interfaces of one section; a hostile file could name any number.
const INTERFACES_MAX: usize = 4096;

/// The result of a step.
pub(super) enum Next {
    /// A frame, in [`Records::frame`].
    Frame(Record),
    /// The end of the file.
    End,
    /// The end of the file, in the middle of a block.
    Cut,
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Link type, as tcpdump.org numbers them.
    pub(super) link: i32,
    /// The time of capture.
    pub(super) time: Moment,
    /// The capture kept only its beginning.
    pub(super) is_short: bool,
}

/// An interface of a pcapng section, or the whole of a pcap file.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: i32,
    /// Ticks per second.
    resolution: u128,
    offset_s: i64,
    snap_bytes: u32,
}

/// A capture file.
pub(super) struct Records {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    /// Byte order of the section, which the parser does not apply to `if_tsoffset`.
    is_big_endian: bool,
    frame: Vec<u8>,
}

impl Records {
    pub(super) fn new(
        name: &Path,
        mut read: impl Read + Send + 'static,
    ) -> Result<Records, CaptureError> {
        let mut start = [0; 8];
        let mut known = 0;
        while known < start.len() {
            match read.read(&mut start[known..]) {
                Ok(0) => break,
                Ok(count) => known += count,
                Err(source) => return Err(CaptureError::Open { file: name.into(), source }),
            }
        }
        let head = start[..known].to_vec();
        let hex: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let start = if hex.is_empty() { "nothing".to_string() } else { hex.join(" ") };
        // The parser examines its first read only, so that read gets as much as possible.
        let mut first = head;
        if let Err(source) = read.by_ref().take(BUFFER_BYTES as u64 / 2).read_to_end(&mut first) {
            return Err(CaptureError::Open { file: name.into(), source });
        }
        let all = std::io::Cursor::new(first).chain(read);
        let reader = create_reader(BUFFER_BYTES, all)
            .map_err(|_| CaptureError::NotACapture { file: name.into(), start })?;
        Ok(Records { reader, interfaces: Vec::new(), is_big_endian: false, frame: Vec::new() })
    }

    /// Returns the frame that `next` found.
    pub(super) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Goes to the next frame; the error names the fault of the file.
    pub(super) fn next(&mut self) -> Result<Next, String> {
        loop {
            match self.reader.next() {
                Ok((length, block)) => {
                    let record = take(
                        &mut self.interfaces,
                        &mut self.is_big_endian,
                        &mut self.frame,
                        &block,
                    );
                    self.reader.consume(length);
                    if let Some(record) = record? {
                        return Ok(Next::Frame(record));
                    }
                }
                Err(PcapError::Eof) => return Ok(Next::End),
                Err(PcapError::UnexpectedEof) => return Ok(Next::Cut),
                Err(PcapError::Incomplete(_)) => {
                    if self.reader.reader_exhausted() {
                        let nothing = self.reader.data().is_empty();
                        return Ok(if nothing { Next::End } else { Next::Cut });
                    }
                    match self.reader.refill() {
                        Ok(()) => {}
                        Err(PcapError::BufferTooSmall) => return Err(too_long()),
                        Err(_) => return Err("the file cannot be read further".into()),
                    }
                }
                Err(PcapError::BufferTooSmall) => return Err(too_long()),
                Err(_) => return Err("a block contradicts itself".into()),
            }
        }
    }
}

fn too_long() -> String {
    format!("a block is longer than {BUFFER_BYTES} bytes")
}

/// Takes one block; a frame is copied out.
fn take(
    interfaces: &mut Vec<Interface>,
    is_big_endian: &mut bool,
    frame: &mut Vec<u8>,
    block: &PcapBlockOwned<'_>,
) -> Result<Option<Record>, String> {
    let mut keep = |bytes: &[u8]| {
        frame.clear();
        frame.extend_from_slice(bytes);
    };
    let unknown = |number: u32| format!("a frame names interface {number}, which is not declared");
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let resolution =
                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            // The upper half shows whether frames end with a check sum: draft-ietf-opsawg-pcap §4.
            let link = header.network.0 & 0xFFFF;
            *interfaces = vec![Interface { link, resolution, offset_s: 0, snap_bytes: 0 }];
            Ok(None)
        }
        PcapBlockOwned::Legacy(packet) => {
            let of = *interfaces.first().ok_or_else(|| unknown(0))?;
            let kept = packet.data.len().min(packet.caplen as usize);
            keep(&packet.data[..kept]);
            let ticks = u64::from(packet.ts_sec).saturating_mul(of.resolution as u64);
            let ticks = ticks.saturating_add(packet.ts_usec.into());
            Ok(Some(of.record(ticks, packet.caplen < packet.origlen)))
        }
        PcapBlockOwned::NG(Block::SectionHeader(header)) => {
            interfaces.clear();
            *is_big_endian = header.big_endian();
            Ok(None)
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
            if interfaces.len() >= INTERFACES_MAX {
                return Err(format!("a section has more than {INTERFACES_MAX} interfaces"));
            }
            interfaces.push(Interface {
                link: about.linktype.0,
                resolution: resolution(about.if_tsresol)?,
                offset_s: if *is_big_endian {
                    about.if_tsoffset.swap_bytes()
                } else {
                    about.if_tsoffset
                },
                snap_bytes: about.snaplen,
            });
            Ok(None)
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let of = *interfaces.get(packet.if_id as usize).ok_or_else(|| unknown(packet.if_id))?;
            keep(packet.packet_data());
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            Ok(Some(of.record(ticks, packet.caplen < packet.origlen)))
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let of = *interfaces.first().ok_or_else(|| unknown(0))?;
            let kept = (packet.origlen as usize).min(packet.data.len());
            keep(&packet.data[..kept]);
            let snapped = of.snap_bytes != 0 && packet.origlen > of.snap_bytes;
            Ok(Some(of.record(0, snapped || kept < packet.origlen as usize)))
        }
        PcapBlockOwned::NG(_) => Ok(None),
    }
}

/// Returns the ticks per second of an `if_tsresol`: a power of ten, or of two where the highest bit
/// is set.
fn resolution(code: u8) -> Result<u128, String> {
    let base: u128 = if code & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(code & 0x7F))
        .ok_or_else(|| format!("an interface's time resolution (if_tsresol {code}) is too fine"))
}

impl Interface {
    fn record(self, ticks: u64, is_short: bool) -> Record {
        let ns = u128::from(ticks) * 1_000_000_000 / self.resolution;
        let ns = i128::from(self.offset_s) * 1_000_000_000 + ns as i128;
        let time = Moment::from_ns(u64::try_from(ns.max(0)).unwrap_or(u64::MAX));
        Record { link: self.link, time, is_short }
    }
}
