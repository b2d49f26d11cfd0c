//! spead2: heaps in UDP datagrams, by its own bench, which searches the highest rate that lasts.
//! Source: spead2/tools/bench_asyncio.py of version 4.5.1; the program of C++ has the same words.

use std::time::Duration;

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::listening;
use super::program::{Listens, Pair, Program, command};

const PROGRAM: Program = Program {
    names: &["spead2_bench", "spead2_bench.py"],
    package: "",
    install: "pip install spead2 (in an environment whose bin is on the path)",
};
/// It sends 1 GB or for a second, five times, at each of some seven rates.
const LIMIT: Duration = Duration::from_secs(600);
/// Payload of its datagrams with its headers \[byte\]: as ours on an MTU of 9000.
const PACKET_BYTES: &str = "8972";

/// The peer spead2_bench.
pub struct Spead2 {
    presence: Presence,
}

impl Spead2 {
    /// Finds the installed program.
    #[must_use]
    pub fn find() -> Spead2 {
        // It does not report its version.
        Spead2 { presence: PROGRAM.presence(|_| None) }
    }
}

impl Contender for Spead2 {
    fn peer(&self) -> &'static str {
        "spead2"
    }

    fn name(&self) -> &'static str {
        "spead2 heaps"
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, quick: bool) -> Option<Offer> {
        // Its bench takes minutes.
        if quick || cell.quantity != Quantity::Stream || cell.path != Path::Udp {
            return None;
        }
        Offer::unequal(
            "the highest rate at which its bench loses no heap, without acknowledgements; ours is \
             acknowledged, and repeats lost data",
        )
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let mut server = command(&path, Some(run.cores[1]));
        server.args(["agent", &port.to_string()]);
        let mut client = command(&path, Some(run.cores[0]));
        client.args(["master", "--packet", PACKET_BYTES]);
        client.args(["--heap-size", &cell.bytes.to_string(), &format!("127.0.0.1:{port}")]);
        for command in [&mut server, &mut client] {
            command.env("PYTHONUNBUFFERED", "1");
        }
        let mut pair = Pair {
            name: "spead2_bench",
            server,
            listens: Listens { path: Path::Tcp, port },
            client,
            is_interrupted: true,
        };
        let run = Run { limit: LIMIT, ..*run };
        Ok(gigabits(&pair.run(&run)?[0].out)?.into())
    }
}

/// The rate that lasts \[Gb/s\].
fn gigabits(text: &str) -> Result<f64, NoNumber> {
    let found = text.lines().rev().find_map(|line| {
        let words = line.trim().strip_prefix("Sustainable rate:")?;
        words.trim().strip_suffix("Gbps")?.trim().parse::<f64>().ok()
    });
    let missing = || NoNumber::Failed("spead2_bench found no rate that lasts".to_owned());
    found.filter(|rate| *rate > 0.0).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: &str = include_str!("captured/spead2-cut.txt");

    #[test]
    fn the_rate_that_lasts_is_read_and_none_of_those_tried() {
        let whole = format!("{CUT}Sustainable rate: 0.305 Gbps\n");
        assert!((gigabits(&whole).expect("a rate") - 0.305).abs() < 1e-9);
    }

    #[test]
    fn a_search_that_was_cut_off_found_nothing_or_garbage_is_no_rate() {
        for text in ["", CUT, "Sustainable rate: 0.000 Gbps", "Sustainable rate: x Gbps", "\u{0}"] {
            assert!(gigabits(text).is_err(), "{text}");
        }
    }
}
