//! iperf3: datagrams over UDP, a stream over TCP. Its own document is read (`-J`).
//! Source: iperf3(1), of version 3.12.

use std::ffi::OsString;
use std::fs;

use serde_json::Value;

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::flow::{Flow, loss_free};
use super::listening;
use super::program::{Listens, Pair, Program, command, own_version};

const PROGRAM: Program =
    Program { names: &["iperf3"], package: "iperf3", install: "apt-get install iperf3" };
/// The time of sending \[s\]: whole seconds only.
const SECONDS: &str = "1";
/// The requested buffer \[byte\], as ours; the host may limit it.
const BUFFER_BYTES: u64 = 64 << 20;

/// The peer iperf3.
pub struct Iperf3 {
    presence: Presence,
}

impl Iperf3 {
    /// Finds the installed program.
    #[must_use]
    pub fn find() -> Iperf3 {
        Iperf3 { presence: PROGRAM.presence(|path| own_version(path, "--version")) }
    }

    fn run(&self, cell: &Cell, rate: Option<f64>, run: &Run<'_>) -> Result<String, NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let mut server = command(&path, Some(run.cores[1]));
        server.args(["-s", "-1", "-p", &port.to_string()]);
        let mut client = command(&path, Some(run.cores[0]));
        client.args(arguments(cell, rate, port));
        let mut pair = Pair {
            name: "iperf3",
            server,
            listens: Listens { path: Path::Tcp, port },
            client,
            is_interrupted: false,
        };
        Ok(pair.run(run)?[0].out.clone())
    }
}

/// Returns the client's arguments. A rate is in bits of payload per second; 0: unlimited.
fn arguments(cell: &Cell, rate: Option<f64>, port: u16) -> Vec<OsString> {
    let [port, bytes] = [port.to_string(), cell.bytes.to_string()];
    let mut words: Vec<OsString> =
        ["-c", "127.0.0.1", "-p", &port, "-l", &bytes, "-t", SECONDS, "-J"].map(Into::into).into();
    if cell.path == Path::Udp {
        let bits = rate.map_or(0, |rate| (rate * cell.bytes as f64 * 8.0) as u64);
        let [bits, buffer] = [bits.to_string(), buffer_bytes().to_string()];
        words.extend(["-u", "-b", &bits, "-w", &buffer].map(Into::into));
    }
    words
}

/// A buffer that any program of this host is given when it asks \[byte\].
#[must_use]
pub fn buffer_bytes() -> u64 {
    let most = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse().unwrap_or(212_992)
    };
    BUFFER_BYTES.min(most("rmem_max")).min(most("wmem_max"))
}

impl Contender for Iperf3 {
    fn peer(&self) -> &'static str {
        "iperf3"
    }

    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        match (cell.quantity, cell.path) {
            (Quantity::Flood | Quantity::LossFree, Path::Udp) => Offer::equal(
                "a system call for each datagram, both ends; its buffer has at most the \
                 host's limit for every user; trials of a second",
            ),
            (Quantity::Stream, Path::Tcp) => Offer::equal(
                "a stream written in pieces of this size, without waiting for messages",
            ),
            _ => None,
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let flow = |rate| flow(&self.run(cell, rate, run)?, cell.bytes);
        match cell.quantity {
            Quantity::Stream => Ok((bits(&self.run(cell, None, run)?)? * 1e-9).into()),
            Quantity::LossFree => loss_free(cell, flow),
            _ => Ok(flow(None)?.number(cell)),
        }
    }
}

fn document(text: &str) -> Result<Value, NoNumber> {
    let wrong = |why: &str| NoNumber::Failed(format!("iperf3: {why}"));
    let document: Value =
        serde_json::from_str(text).map_err(|_| wrong("printed no whole document"))?;
    match document["error"].as_str() {
        Some(error) => Err(wrong(error)),
        None => Ok(document),
    }
}

/// Reads the rate of a stream at its receiver \[bit/s\].
fn bits(text: &str) -> Result<f64, NoNumber> {
    let document = document(text)?;
    let found = document["end"]["sum_received"]["bits_per_second"].as_f64();
    let missing = || NoNumber::Failed("iperf3: its document has no received rate".to_owned());
    found.filter(|bits| *bits > 0.0).ok_or_else(missing)
}

/// Reads the datagrams sent and received. Its receiver reports losses before the last datagram that
/// arrived; losses after that show only in the sender's count, so both counts are read.
fn flow(text: &str, bytes: u64) -> Result<Flow, NoNumber> {
    let document = document(text)?;
    let end = |side: &str, name: &str| document["end"][side][name].as_f64();
    let found = end("sum_sent", "packets")
        .zip(end("sum_received", "bytes"))
        .zip(end("sum_sent", "seconds").filter(|seconds| *seconds > 0.0));
    let missing = || NoNumber::Failed("iperf3: its document has no datagrams".to_owned());
    let ((sent, received), seconds) = found.ok_or_else(missing)?;
    Ok(Flow { sent: sent as u64, arrived: received as u64 / bytes.max(1), seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAMS: &str = include_str!("captured/iperf3-udp.json");
    const REFUSED: &str = include_str!("captured/iperf3-refused.json");

    fn why(error: NoNumber) -> String {
        match error {
            NoNumber::Failed(why) => why,
            NoNumber::Over(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_was_sent_and_what_arrived_are_read_at_their_ends() {
        let flow = flow(DATAGRAMS, 1472).expect("datagrams");
        // 57 246 080 and 6 654 912 bytes of 1472.
        assert_eq!((flow.sent, flow.arrived), (38_890, 4521));
        assert!((flow.seconds - 1.039_813).abs() < 1e-9);
        assert!(bits(DATAGRAMS).is_ok_and(|bits| (bits - 50_434_721.98).abs() < 1.0));
    }

    #[test]
    fn errors_that_it_ends_well_with_are_errors() {
        assert!(why(flow(REFUSED, 1472).expect_err("none")).contains("Connection refused"));
    }

    #[test]
    fn half_a_document_none_and_another_are_errors() {
        for text in ["", "null", "{}", "garbage \u{0}", &DATAGRAMS[..DATAGRAMS.len() / 2]] {
            assert!(flow(text, 1472).is_err() && bits(text).is_err(), "{text:.40}");
        }
        let no_time =
            r#"{"end":{"sum_sent":{"packets":1,"seconds":0},"sum_received":{"bytes":1}}}"#;
        assert!(flow(no_time, 0).is_err());
    }

    #[test]
    fn a_rate_is_given_in_bits() {
        let cell = Cell { quantity: Quantity::Flood, path: Path::Udp, bytes: 1000 };
        let words = arguments(&cell, Some(125.0), 7);
        let at = words.iter().position(|word| word == "-b").expect("a rate");
        assert_eq!(words[at + 1], "1000000");
    }
}
