//! Code that several targets share with the maker of their seeds.

use std::collections::BTreeMap;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::emulator::{EmulatorConfig, Faults, Pattern};
use fluxline_packet::Description;
use fluxline_packet::shipped::{names, shipped};
use fluxline_serve::Server;

/// The formats of the packets in a fuzzed run file, by number of their source: fixed records,
/// records with two layouts, records of varying length, CRC.
pub const RUN_FORMATS: [&str; 4] = ["counter", "srs-vmm3", "ess-readout", "spead"];

/// Every shipped format, first with its defaults, then with all parameters at their least: packets
/// whose size is a product of parameters are then short enough to be found by mutation.
///
/// # Panics
/// When a shipped format does not load.
#[must_use]
pub fn formats() -> Vec<Description> {
    let mut formats = Vec::new();
    for name in names() {
        let text = shipped(name).expect("a listed name");
        let load = |parameters| Description::load(name, text, &parameters).expect("a right format");
        let usual = load(BTreeMap::new());
        let parameters = &usual.document().parameters;
        let least: BTreeMap<_, _> =
            parameters.iter().map(|(name, of)| (name.clone(), of.min)).collect();
        if !least.is_empty() {
            formats.push(load(least));
        }
        formats.push(usual);
    }
    formats
}

/// A datagram from nobody, for a program.
#[must_use]
pub fn datagram(bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 9, time: Moment::from_ns(0) }
}

/// A few packets of one type, the same each time; without a payload size, the description's.
#[must_use]
pub fn few_packets(packet: &str, payload_bytes: Option<u32>) -> EmulatorConfig {
    EmulatorConfig {
        sources: 2,
        packet: Some(packet.to_owned()),
        payload_bytes,
        pattern: Pattern::Counter,
        rate: 0.0,
        jitter: 0.0,
        packets: 3,
        seed: 7,
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000),
        faults: Faults::default(),
    }
}

/// Memory, where there is such a folder: thousands of runs per second go through it.
///
/// # Errors
/// The host's.
pub fn scratch() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// The longest wait for bytes of an answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// An answer of a page.
pub struct Answer {
    /// Its status; 0 where the connection was closed without one.
    pub status: u16,
    /// Head and body; of a stream, its begin.
    pub text: String,
}

/// The part of a connection that a client closes behind its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// None: the answer is waited for.
    Open,
    /// Its own: a request that lacks its end is not waited for.
    Closed,
}

/// Sends bytes to a page, in which `HOST` stands for its address; returns the answer.
///
/// # Panics
/// The page takes no connection, or sends nothing for a minute.
#[must_use]
pub fn ask(server: &Server, request: &[u8], behind: Behind) -> Answer {
    let address = server.address();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("the page takes connections");
    stream.set_read_timeout(Some(ANSWER_PATIENCE)).expect("a valid time");
    let host = request.windows(4).position(|part| part == b"HOST");
    let request = host.map_or_else(
        || request.to_vec(),
        |at| [&request[..at], address.as_bytes(), &request[at + 4..]].concat(),
    );
    // A request that is refused early may close the connection before all of it is sent.
    let _ = stream.write_all(&request);
    if behind == Behind::Closed {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer"),
            Err(_) => break,
        }
        if answer.windows(17).any(|part| part == b"text/event-stream") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.unwrap_or(0), text }
}
