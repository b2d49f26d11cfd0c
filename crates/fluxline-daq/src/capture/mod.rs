//! Captures: pcap and pcapng files as a source of datagrams.
//!
//! A capture has all traffic on the wire, not only UDP payloads. Here link and IP headers are
//! removed, IP fragments joined again, and everything that is not UDP to the wanted ports is
//! counted by its kind. A file cut in the middle yields all its whole frames. Files may come from
//! strangers: memory is bounded, every length and every check sum checked. Sources:
//! draft-ietf-opsawg-pcap, -pcapng; RFC 768, 791, 8200.

mod check_sum;
mod decap;
mod layers;
pub mod parts;
pub mod raw;
mod records;
pub mod replay;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tunnel_tests;
pub mod writer;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_core::{Datagram, SenderAddress};

pub use decap::CheckSums;
use decap::{Decap, Found, Frame};
use records::{Next, Records};

/// The reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{} cannot be read: {source}.", .file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The file is not a capture.
    #[error(
        "{} is not a capture: it starts with {start}, a pcap file with d4 c3 b2 a1 (or a variant), a \
         pcapng file with 0a 0d 0d 0a.", .file.display()
    )]
    NotACapture {
        /// The file.
        file: PathBuf,
        /// Its first bytes in hex.
        start: String,
    },
    /// The file is damaged.
    #[error("{}: after {frames} frames: {problem}.", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Number of frames that were read before.
        frames: u64,
        /// The fault.
        problem: String,
    },
}

fluxline_core::counters! {
    /// Counters of the frames of a capture. Law: `frames` = `datagrams` + all other kinds, but that
    /// several `ip_fragments` make one datagram; from `erspan` on, headers are counted that were
    /// removed on the way.
    pub struct CaptureCounters {
        frames [Sum "frame"] "Frames in the capture" => "";
        datagrams [Sum "datagram"] "UDP datagrams handed over" => "";
        port_filtered [Sum "datagram"] "UDP datagrams to other ports" => "";
        not_udp [Sum "frame"] "IP packets that are not UDP (TCP, ICMP, ...)" => "";
        not_ip [Sum "frame"] "Frames that are not IP (ARP, LLDP, ...)" => "";
        unknown_link [Sum "frame"] "Frames of a link type that is not known here"
            => "Capture on an Ethernet interface, or convert the file.";
        malformed [Sum "frame"] "Frames whose IP or UDP lengths contradict each other" => "";
        cut_short [Sum "frame"] "Frames that the capture did not keep whole (snap length)"
            => "Capture with `tcpdump -s 0`.";
        check_sum_wrong [Sum "datagram"] "UDP datagrams whose check sum is wrong, dropped"
            => "Bits were turned on the way, or the sums are wrong: `check-sums = false`.";
        ip_fragments [Sum "frame"] "IP fragments" => "";
        reassembled [Sum "datagram"] "Packets joined from IP fragments" => "";
        fragments_conflicting [Sum "frame"] "IP fragments that contradict others, dropped" => "";
        fragments_left [Sum "frame"] "IP fragments whose other parts never came"
            => "The capture lost frames, or began in the middle of a datagram.";
        cut [Sum "file"] "Files that end in the middle of a frame"
            => "It was cut while it was written or copied; all whole frames were used.";
        erspan [Sum "frame"] "ERSPAN headers of mirror ports, removed" => "";
        gre [Sum "frame"] "GRE headers, removed" => "";
        vxlan [Sum "frame"] "VXLAN headers, removed" => "";
        ip_in_ip [Sum "frame"] "IP packets in IP packets, taken out" => "";
        mpls [Sum "frame"] "Stacks of MPLS labels, removed" => "";
        pppoe [Sum "frame"] "PPPoE headers, removed" => "";
    }
}

impl CaptureCounters {
    /// Returns the number of frames that are not for this input.
    #[must_use]
    pub fn other_traffic(&self) -> u64 {
        self.port_filtered + self.not_udp + self.not_ip + self.unknown_link
    }

    /// Returns the number of frames that may have been for this input and gave no datagram:
    /// damaged, cut, incomplete. Those with a wrong check sum are apart.
    #[must_use]
    pub fn unusable(&self) -> u64 {
        self.malformed
            + self.cut_short
            + self.fragments_conflicting
            + self.fragments_left
            + self.cut
    }
}

/// Reads the UDP datagrams of a capture, one after the other.
pub struct CaptureReader {
    file: PathBuf,
    records: Records,
    decap: Decap,
    ports: Vec<u16>,
    counters: CaptureCounters,
    cut: Option<String>,
    ended: bool,
    /// Files to be read after this one.
    following: VecDeque<PathBuf>,
    /// Frames of the files before this one.
    frames_before: u64,
}

impl CaptureReader {
    /// Opens a pcap or pcapng file; its first bytes show which. Errors: [`CaptureError`].
    pub fn open(path: &Path) -> Result<CaptureReader, CaptureError> {
        CaptureReader::new(path, parts::open(path)?)
    }

    /// Opens the files of one capture, to be read one after the other in this order
    /// ([`parts::by_first_frame`]). IP fragments are joined across them.
    ///
    /// Errors: [`CaptureError`] of the first file; those of the others come when they are due.
    pub fn open_parts(
        first: &Path,
        following: Vec<PathBuf>,
    ) -> Result<CaptureReader, CaptureError> {
        let mut reader = CaptureReader::open(first)?;
        reader.following = following.into();
        Ok(reader)
    }

    /// Reads a capture from any reader; `name` is its name in messages.
    pub fn new(
        name: &Path,
        read: impl Read + Send + 'static,
    ) -> Result<CaptureReader, CaptureError> {
        Ok(CaptureReader {
            file: name.to_path_buf(),
            records: Records::new(name, read)?,
            decap: Decap::default(),
            ports: Vec::new(),
            counters: CaptureCounters::default(),
            cut: None,
            ended: false,
            following: VecDeque::new(),
            frames_before: 0,
        })
    }

    /// Restricts datagrams to these UDP ports from now on; an empty list allows all.
    pub fn only_ports(&mut self, ports: &[u16]) {
        self.ports = ports.to_vec();
        self.decap.ports = ports.to_vec();
    }

    /// Sets the treatment of UDP check sums from now on; at first they are checked.
    pub fn check_sums(&mut self, check_sums: CheckSums) {
        self.decap.check_sums = check_sums;
    }

    /// Returns the next datagram, or `None` at the end. Cost: one copy of the frame.
    ///
    /// Errors: a block that no capture has; everything before it was good. The next call goes on
    /// with the next file, if there is one.
    #[allow(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Result<Option<Datagram<'_>>, CaptureError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let record = match self.records.next() {
                Ok(Next::Frame(record)) => record,
                Ok(Next::End) => {
                    self.next_file()?;
                    continue;
                }
                Ok(Next::Cut) => {
                    self.note_cut();
                    self.next_file()?;
                    continue;
                }
                Err(problem) => {
                    let (file, frames) = (self.file.clone(), self.frames_of_file());
                    self.next_file()?;
                    return Err(CaptureError::Damaged { file, frames, problem });
                }
            };
            self.counters.frames += 1;
            if record.is_short {
                self.counters.cut_short += 1;
                continue;
            }
            let time = record.time;
            let frame = Frame { link: record.link, bytes: self.records.frame(), time };
            let found = self.decap.find(frame, &mut self.counters);
            let Found::Udp { source, destination_port, payload, joined } = found else { continue };
            if !self.ports.is_empty() && !self.ports.contains(&destination_port) {
                self.counters.port_filtered += 1;
                continue;
            }
            self.counters.datagrams += 1;
            let all = if joined { self.decap.joined() } else { self.records.frame() };
            return Ok(Some(Datagram {
                bytes: &all[payload],
                sender: SenderAddress::from(SocketAddr::from(source)),
                port: destination_port,
                time,
            }));
        }
    }

    /// Goes on with the next file that can be opened; without one, the capture ends.
    fn next_file(&mut self) -> Result<(), CaptureError> {
        let Some(file) = self.following.pop_front() else {
            self.ended = true;
            self.counters.fragments_left += self.decap.fragments_waiting();
            return Ok(());
        };
        self.frames_before = self.counters.frames;
        self.records = Records::new(&file, parts::open(&file)?)?;
        self.file = file;
        Ok(())
    }

    fn frames_of_file(&self) -> u64 {
        self.counters.frames - self.frames_before
    }

    fn note_cut(&mut self) {
        self.counters.cut += 1;
        let before = self.cut.take().map_or(String::new(), |before| format!("{before} "));
        self.cut = Some(format!(
            "{before}{}: the file ends in the middle of a frame; the {} whole frames before it \
             were used.",
            self.file.display(),
            self.frames_of_file()
        ));
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> &CaptureCounters {
        &self.counters
    }

    /// Returns a sentence for each file that ended in the middle of a frame; known at the end.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        self.cut.clone()
    }
}
