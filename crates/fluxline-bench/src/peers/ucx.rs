//! UCX: round trips and streams on shared memory and TCP, by ucx_perftest.
//! Source: its usage, of version 1.13.

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::listening;
use super::program::{Listens, Pair, Program, command};

const PROGRAM: Program = Program {
    names: &["ucx_perftest"],
    package: "ucx-utils",
    install: "apt-get install ucx-utils",
};

/// UCX, by these tests over these transports.
pub struct Ucx {
    presence: Presence,
    name: &'static str,
    /// Tests of round trips and of streams.
    tests: [&'static str; 2],
    transports: &'static str,
    path: Path,
    offer: Offer,
}

/// All its ways.
#[must_use]
pub fn contenders() -> Vec<Box<dyn Contender>> {
    // It does not report its version.
    let presence = PROGRAM.presence(|_| None);
    let (tag, put) = (["tag_lat", "tag_bw"], ["ucp_put_lat", "ucp_put_bw"]);
    let copied = "p50 of trips, mean of streams; copied into the receiver's buffer, where ours is \
                  put at its place";
    let silent = "the receiver gets no notification of a put: not equal work";
    let on_tcp = "p50 of trips, mean of streams; messages with tags, where ours is bare TCP";
    let equal = |note| Offer { note, is_equal: true };
    let way = |name, tests, transports, path, offer| -> Box<dyn Contender> {
        let presence = presence.clone();
        Box::new(Ucx { presence, name, tests, transports, path, offer })
    };
    let unequal = Offer { note: silent, is_equal: false };
    vec![
        way("UCX tag (posix)", tag, "posix,self", Path::Shm, equal(copied)),
        way("UCX tag (posix, cma)", tag, "posix,cma,self", Path::Shm, equal(copied)),
        way("UCX put (posix)", put, "posix,self", Path::Shm, unequal),
        way("UCX tag (tcp)", tag, "tcp,self", Path::Tcp, equal(on_tcp)),
    ]
}

impl Contender for Ucx {
    fn peer(&self) -> &'static str {
        "ucx"
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, quick: bool) -> Option<Offer> {
        let measures = matches!(cell.quantity, Quantity::Trip | Quantity::Stream);
        // Memory of another process matters to long messages alone.
        let left_out = quick && self.transports.contains("cma");
        (measures && cell.path == self.path && !left_out).then_some(self.offer)
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let at = |core: usize| {
            let mut command = command(&path, Some(core));
            command.env("UCX_TLS", self.transports).args(["-p", &port.to_string()]);
            command
        };
        let is_trip = cell.quantity == Quantity::Trip;
        let count = cell.count(run.quick);
        let mut client = at(run.cores[0]);
        client.args(["127.0.0.1", "-t", self.tests[usize::from(!is_trip)], "-f", "-v"]);
        client.args(["-s", &cell.bytes.to_string(), "-n", &count.to_string()]);
        client.args(["-w", &(count / 10).to_string()]);
        let mut pair = Pair {
            name: "ucx_perftest",
            server: at(run.cores[1]),
            listens: Listens { path: Path::Tcp, port },
            client,
            is_interrupted: false,
        };
        let [said, _] = pair.run(run)?;
        let [median_us, rate] = last_line(&said.out)?;
        Ok(if is_trip { median_us.into() } else { cell.gigabits(rate).into() })
    }
}

/// Reads half a round trip \[us\] and messages per second from the line of final numbers. It has
/// iterations, median, mean and overall time, two bandwidths, two rates.
fn last_line(text: &str) -> Result<[f64; 2], NoNumber> {
    let last = text.lines().last().unwrap_or_default();
    let fields: Vec<Option<f64>> = last.split(',').map(|word| word.trim().parse().ok()).collect();
    match fields[..] {
        [Some(_), Some(median), Some(_), Some(_), Some(_), Some(_), Some(_), Some(rate)]
            if median >= 0.0 && rate > 0.0 =>
        {
            Ok([median, rate])
        }
        _ => Err(NoNumber::Failed("ucx_perftest printed no line of 8 numbers".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPS: &str = include_str!("captured/ucx-tag-lat.txt");
    const STREAM: &str = include_str!("captured/ucx-tag-bw.txt");
    const REFUSED: &str = include_str!("captured/ucx-refused.txt");

    #[test]
    fn median_and_overall_rate_are_read() {
        assert_eq!(last_line(TRIPS).expect("numbers"), [0.491, 1_940_011.0]);
        assert_eq!(last_line(STREAM).expect("numbers"), [0.241, 2142.0]);
    }

    #[test]
    fn headings_alone_refusals_garbage_and_cut_lines_are_errors() {
        let heading = TRIPS.lines().next().expect("it has one");
        let cut = &TRIPS[..TRIPS.trim_end().len() - 9];
        for text in ["", heading, REFUSED, cut, "1,2,3,4,5,6,7,x", "1,2,3,4,5,6,7,8,9"] {
            assert!(last_line(text).is_err(), "{text}");
        }
    }
}
