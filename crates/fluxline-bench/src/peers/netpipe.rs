//! NetPIPE over TCP (NPtcp): round trips and streams of one size.
//! Source: its usage, of version 3.7.2.

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::listening;
use super::program::{Listens, Pair, Program, command};

const PROGRAM: Program = Program {
    names: &["NPtcp", "NPtcp.netpipe"],
    package: "netpipe-tcp",
    install: "apt-get install netpipe-tcp",
};

/// The peer NPtcp.
pub struct Netpipe {
    presence: Presence,
}

impl Netpipe {
    /// Finds the installed program.
    #[must_use]
    pub fn find() -> Netpipe {
        // It does not report its version.
        Netpipe { presence: PROGRAM.presence(|_| None) }
    }
}

impl Contender for Netpipe {
    fn peer(&self) -> &'static str {
        "netpipe"
    }

    fn name(&self) -> &'static str {
        "NetPIPE (NPtcp)"
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        match (cell.quantity, cell.path) {
            (Quantity::Trip, Path::Tcp) => Offer::equal("mean of its best trial, not p50"),
            (Quantity::Stream, Path::Tcp) => Offer::equal("its best trial; ours is our best, too"),
            _ => None,
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let [number, bytes] = [port.to_string(), cell.bytes.to_string()];
        let count = cell.count(run.quick).to_string();
        let at = |core: usize| {
            let mut command = command(&path, Some(core));
            command.args(["-l", &bytes, "-u", &bytes, "-p", "0", "-n", &count, "-P", &number]);
            command.args(["-o", "/dev/null"]);
            if cell.quantity == Quantity::Stream {
                command.arg("-s");
            }
            command
        };
        let mut client = at(run.cores[0]);
        client.args(["-h", "127.0.0.1"]);
        let mut pair = Pair {
            name: "NPtcp",
            server: at(run.cores[1]),
            listens: Listens { path: Path::Tcp, port },
            client,
            is_interrupted: false,
        };
        let [said, _] = pair.run(run)?;
        let microseconds = microseconds(&format!("{}\n{}", said.out, said.errors), cell.bytes)?;
        Ok(match cell.quantity {
            Quantity::Stream => cell.gigabits(1e6 / microseconds).into(),
            _ => microseconds.into(),
        })
    }
}

/// Time of a message, there or half of there and back \[us\], from its line of that size.
fn microseconds(text: &str, bytes: u64) -> Result<f64, NoNumber> {
    let found = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words[..] {
            [size, "bytes", _, "times", "-->", _, "Mbps", "in", time, "usec"] => {
                (size.parse() == Ok(bytes)).then_some(time.parse::<f64>().ok())?
            }
            _ => None,
        }
    });
    let missing = || NoNumber::Failed(format!("NPtcp printed no line of {bytes} bytes"));
    found.filter(|us| *us > 0.0).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = include_str!("captured/netpipe-client.txt");
    const REFUSED: &str = include_str!("captured/netpipe-refused.txt");

    #[test]
    fn the_time_of_its_size_is_read() {
        assert!((microseconds(CLIENT, 64).expect("a time") - 51.18).abs() < 1e-9);
    }

    #[test]
    fn another_size_a_refusal_garbage_and_nothing_are_errors() {
        assert!(microseconds(CLIENT, 65).is_err());
        for text in ["", REFUSED, "0: 64 bytes", "0: 64 bytes 1 times --> x Mbps in nan? usec"] {
            assert!(microseconds(text, 64).is_err(), "{text}");
        }
        assert!(microseconds("0: 64 bytes 9 times --> 9 Mbps in 0 usec", 64).is_err());
    }
}
