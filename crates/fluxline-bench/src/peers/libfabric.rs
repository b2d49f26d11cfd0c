//! libfabric: round trips on shared memory, UDP and TCP, by fi_pingpong.
//! Source: fi_pingpong(1), of version 1.17.

use super::contender::{Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run};
use super::listening;
use super::program::{Listens, Pair, Program, command, on_path, own_version};

const PROGRAM: Program = Program {
    names: &["fi_pingpong"],
    package: "libfabric-bin",
    install: "apt-get install libfabric-bin",
};
/// The longest message of its UDP provider \[byte\]: 1500 of Ethernet less 20 and 8 of headers.
const UDP_BYTES_MAX: u64 = 1472;

/// The peer fi_pingpong.
pub struct Libfabric {
    presence: Presence,
}

impl Libfabric {
    /// Finds the installed program.
    #[must_use]
    pub fn find() -> Libfabric {
        // fi_info reports the version.
        let own = |_: &_| own_version(&on_path("fi_info")?, "--version");
        Libfabric { presence: PROGRAM.presence(own) }
    }
}

/// Provider, kind of endpoint, kind of message.
fn provider(path: Path) -> [&'static str; 3] {
    match path {
        Path::Shm => ["shm", "rdm", "tagged"],
        Path::Udp => ["udp", "dgram", "msg"],
        Path::Tcp => ["tcp", "msg", "msg"],
    }
}

impl Contender for Libfabric {
    fn peer(&self) -> &'static str {
        "libfabric"
    }

    fn name(&self) -> &'static str {
        "libfabric (fi_pingpong)"
    }

    fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        let fits = cell.path != Path::Udp || cell.bytes <= UDP_BYTES_MAX;
        match cell.path {
            _ if cell.quantity != Quantity::Trip || !fits => None,
            Path::Udp => Offer::equal("mean, not p50; a datagram: nothing is acknowledged"),
            _ => Offer::equal("mean, not p50; copied into the receiver's buffer"),
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let path = PROGRAM.find().ok_or_else(|| NoNumber::Failed("it is gone".to_owned()))?;
        let port = listening::free_port()?;
        let [provider, endpoint, message] = provider(cell.path);
        let at = |place: &str, core: usize| {
            let mut command = command(&path, Some(core));
            command.args(["-p", provider, "-e", endpoint, "-m", message, place]);
            command.args([&port.to_string(), "-I", &cell.count(run.quick).to_string()]);
            command.args(["-S", &cell.bytes.to_string()]);
            command
        };
        let mut client = at("-P", run.cores[0]);
        client.arg("127.0.0.1");
        let mut pair = Pair {
            name: "fi_pingpong",
            server: at("-B", run.cores[1]),
            listens: Listens { path: Path::Tcp, port },
            client,
            is_interrupted: false,
        };
        Ok(trip_us(&pair.run(run)?[0].out, cell.bytes)?.into())
    }
}

/// Writes a size as the program prints it: in whole KiB or MiB if possible.
fn shown(bytes: u64) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..0x10_0000 => format!("{}k", bytes >> 10),
        _ => format!("{}m", bytes >> 20),
    }
}

/// Reads the time of a transfer \[us\] from the printed time, or from the printed speed, which has
/// more digits for short transfers.
fn trip_us(text: &str, bytes: u64) -> Result<f64, NoNumber> {
    let words: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let is_size = words.first() == Some(&shown(bytes).as_str());
    // bytes, sent, acknowledged, total, time, MB/s, us, millions a second
    let found = match (words.len(), number(5), number(6)) {
        (8, Some(speed), Some(time)) if is_size => {
            Some(if speed > time { bytes as f64 / speed } else { time })
        }
        _ => None,
    };
    let missing = || NoNumber::Failed(format!("fi_pingpong printed no line of {bytes} bytes"));
    found.filter(|us| *us > 0.0 && us.is_finite()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHM: &str = include_str!("captured/libfabric-shm.txt");
    const UDP: &str = include_str!("captured/libfabric-udp.txt");

    #[test]
    fn the_time_of_a_transfer_is_read_with_as_many_digits_as_there_are() {
        assert!((trip_us(SHM, 64).expect("a time") - 53.25).abs() < 1e-9);
        assert!((trip_us(UDP, 64).expect("a time") - 445.75).abs() < 1e-9);
        let fast = "8  1k  =1k  15k  0.00s  3.99  2.01  0.50";
        assert!((trip_us(fast, 8).expect("a time") - 8.0 / 3.99).abs() < 1e-9);
    }

    #[test]
    fn long_sizes_are_known_by_their_unit() {
        assert_eq!([64, 1024, 8192, 1 << 20].map(shown), ["64", "1k", "8k", "1m"]);
        let long = "8k      50      =50     800k        0.01s     82.13      99.75       0.01";
        assert!((trip_us(long, 8192).expect("a time") - 99.75).abs() < 1e-9);
    }

    #[test]
    fn headings_errors_garbage_and_other_sizes_are_no_times() {
        let heading = SHM.lines().next().expect("it has one");
        let refused = "[error] util/pingpong.c:408 : failed to connect: Connection refused";
        for text in ["", heading, refused, "64 1k =1k 125k 0.11s x y z"] {
            assert!(trip_us(text, 64).is_err(), "{text}");
        }
        assert!(trip_us(SHM, 65).is_err());
        assert!(trip_us("64 0 =0 0 0.00s 0.00 0.00 0.00", 64).is_err());
    }
}
