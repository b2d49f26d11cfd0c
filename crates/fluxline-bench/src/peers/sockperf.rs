//! sockperf: round trips by UDP and TCP, datagrams over UDP.
//! Source: sockperf(3), of version 3.7.

use std::process::Command;

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::flow::{Flow, loss_free};
use super::iperf3::buffer_bytes;
use super::listening;
use super::program::{Listens, Pair, Program, Said, command, own_version};

const PROGRAM: Program =
    Program { names: &["sockperf"], package: "sockperf", install: "apt-get install sockperf" };
/// Its least message, for its header, and its longest \[byte\].
const BYTES: std::ops::RangeInclusive<u64> = 14..=65_507;
/// The time that it sends \[s\]: it takes whole seconds.
const SECONDS: &str = "1";

/// The peer sockperf.
pub struct Sockperf {
    presence: Presence,
}

impl Sockperf {
    /// Finds the installed program.
    #[must_use]
    pub fn find() -> Sockperf {
        Sockperf { presence: PROGRAM.presence(|path| own_version(path, "--version")) }
    }

    /// Runs client and server, and returns their output; the client does `what`.
    fn run(&self, cell: &Cell, what: &[&str], run: &Run<'_>) -> Result<[Said; 2], NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let at = |kind: &[&str], core: usize| -> Command {
            let mut command = command(&path, Some(core));
            command.args(kind).args(["-i", "127.0.0.1", "-p", &port.to_string()]);
            if cell.path == Path::Tcp {
                command.arg("--tcp");
            } else {
                command.args(["--buffer-size", &buffer_bytes().to_string()]);
            }
            command
        };
        let mut client = at(what, run.cores[0]);
        client.args(["-t", SECONDS, "-m", &cell.bytes.to_string()]);
        let mut pair = Pair {
            name: "sockperf",
            server: at(&["sr"], run.cores[1]),
            listens: Listens { path: cell.path, port },
            client,
            is_interrupted: true,
        };
        pair.run(run)
    }

    fn flow(&self, cell: &Cell, rate: Option<f64>, run: &Run<'_>) -> Result<Flow, NoNumber> {
        let rate = rate.map_or("max".to_owned(), |rate| (rate as u64).max(1).to_string());
        let what = ["tp", "--dontwarmup", &format!("--mps={rate}")];
        let [client, server] = self.run(cell, &what, run)?;
        flow(&client.out, &server.out)
    }
}

impl Contender for Sockperf {
    fn peer(&self) -> &'static str {
        "sockperf"
    }

    fn name(&self) -> &'static str {
        "sockperf"
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        if !BYTES.contains(&cell.bytes) {
            return None;
        }
        match (cell.quantity, cell.path) {
            (Quantity::Trip, Path::Udp) => Offer::equal(
                "p50; a bare datagram there and back: nothing is acknowledged, checked or put at \
                 its place",
            ),
            (Quantity::Trip, Path::Tcp) => Offer::equal("p50"),
            (Quantity::Flood | Quantity::LossFree, Path::Udp) => Offer::equal(
                "a system call for each datagram, both ends; its buffer has at most the \
                 host's limit for every user; trials of a second",
            ),
            _ => None,
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        match cell.quantity {
            Quantity::Trip => Ok(trip_us(&self.run(cell, &["pp"], run)?[0].out)?.into()),
            Quantity::LossFree => loss_free(cell, |rate| self.flow(cell, rate, run)),
            _ => Ok(self.flow(cell, None, run)?.number(cell)),
        }
    }
}

/// The first number behind these words.
fn behind(text: &str, words: &str) -> Option<f64> {
    let rest = &text[text.find(words)? + words.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

/// The median of half a round trip \[us\].
fn trip_us(text: &str) -> Result<f64, NoNumber> {
    let found = behind(text, "percentile 50.000 =").filter(|us| *us > 0.0);
    found.ok_or_else(|| NoNumber::Failed(no_number(text)))
}

/// It ends well also when nobody answers it.
fn no_number(text: &str) -> String {
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.unwrap_or("it said nothing").trim_start_matches("sockperf: ");
    format!("sockperf: no number ({last})")
}

/// Reads the counts of the client, and of the server, which prints them when it is interrupted.
fn flow(client: &str, server: &str) -> Result<Flow, NoNumber> {
    let sent = behind(client, "Total of");
    let seconds = behind(client, "messages sent in").filter(|seconds| *seconds > 0.0);
    let sent = sent.zip(seconds).ok_or_else(|| NoNumber::Failed(no_number(client)))?;
    let arrived = behind(server, "sockperf: Total");
    let arrived = arrived.ok_or_else(|| NoNumber::Failed(no_number(server)))?;
    Ok(Flow { sent: sent.0 as u64, arrived: arrived as u64, seconds: sent.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPS: &str = include_str!("captured/sockperf-pp.txt");
    const SENT: &str = include_str!("captured/sockperf-tp.txt");
    const SERVER: &str = include_str!("captured/sockperf-server.txt");
    const NOBODY: &str = include_str!("captured/sockperf-nobody.txt");

    #[test]
    fn the_median_and_not_the_mean_is_read() {
        assert!((trip_us(TRIPS).expect("a median") - 22.603).abs() < 1e-9);
    }

    #[test]
    fn both_ends_of_a_flood_are_read() {
        let flow = flow(SENT, SERVER).expect("a flow");
        assert_eq!((flow.sent, flow.arrived), (40_385, 6313));
        assert!((flow.seconds - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_does_not_answer_is_an_error_although_the_client_ends_well() {
        let Err(NoNumber::Failed(why)) = trip_us(NOBODY) else { panic!("a number of nothing") };
        assert!(why.contains("Is the server down?"), "{why}");
    }

    #[test]
    fn garbage_nothing_and_half_of_it_are_errors() {
        let half = &TRIPS[..TRIPS.find("percentile 50.000").expect("it has one")];
        for text in ["", "\u{FFFD}percentile 50.000 = ", "percentile 50.000 = x", half] {
            assert!(trip_us(text).is_err(), "{text:.60}");
            assert!(flow(text, SERVER).is_err() && flow(SENT, text).is_err(), "{text:.60}");
        }
    }
}
