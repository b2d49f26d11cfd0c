//! The row of the table of peers: a program that measures cells, and the number it returns.

use std::time::Duration;

use crate::{Error, Stop};

/// The medium between the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Memory that two processes share.
    Shm,
    /// UDP over loopback.
    Udp,
    /// TCP over loopback.
    Tcp,
}

impl Path {
    /// Returns its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Path::Shm => "shm",
            Path::Udp => "udp",
            Path::Tcp => "tcp",
        }
    }
}

/// The quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Half a round trip \[us\].
    Trip,
    /// Messages one way, as fast as possible \[Gb/s\].
    Stream,
    /// Datagrams sent as fast as possible: the rate of those that arrive \[Gb/s\], and the loss.
    Flood,
    /// The highest rate of datagrams at which none is lost \[Gb/s\].
    LossFree,
}

impl Quantity {
    /// Returns its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Trip => "half round trip",
            Quantity::Stream => "one way",
            Quantity::Flood => "datagrams that arrive",
            Quantity::LossFree => "loss-free rate",
        }
    }

    /// Returns its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        if self == Quantity::Trip { "us" } else { "Gb/s" }
    }
}

/// One number to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The quantity.
    pub quantity: Quantity,
    /// The medium.
    pub path: Path,
    /// Size of a message, or a datagram's payload \[byte\].
    pub bytes: u64,
}

impl Cell {
    /// Converts half a round trip \[ns\], or messages per second, into the quantity's unit.
    #[must_use]
    pub fn number(&self, value: f64) -> Number {
        match self.quantity {
            Quantity::Trip => (value / 1e3).into(),
            _ => self.gigabits(value).into(),
        }
    }

    /// Converts messages per second into Gb/s.
    #[must_use]
    pub fn gigabits(&self, messages_per_second: f64) -> f64 {
        messages_per_second * self.bytes as f64 * 8e-9
    }

    /// Returns the number of messages: enough for a median, few enough for a busy machine.
    ///
    /// Assumed: 200 round trips in a first look, since on shared cores each may take a time slice;
    /// else 10 000; a tenth for long ones. Streams have 32 MiB, or 256 MiB, and at least 50 or 200
    /// messages.
    #[must_use]
    pub fn count(&self, quick: bool) -> u64 {
        let is_large = self.bytes > 64 << 10;
        match (self.quantity, quick, is_large) {
            (Quantity::Trip, true, false) => 200,
            (Quantity::Trip, true, true) => 50,
            (Quantity::Trip, false, false) => 10_000,
            (Quantity::Trip, false, true) => 1000,
            (_, true, _) => ((32 << 20) / self.bytes.max(1)).clamp(50, 20_000),
            (_, false, _) => ((256 << 20) / self.bytes.max(1)).clamp(200, 100_000),
        }
    }
}

/// The cells of a run: a few for a first look.
#[must_use]
pub fn cells(quick: bool) -> Vec<Cell> {
    const PATHS: [Path; 3] = [Path::Shm, Path::Udp, Path::Tcp];
    let mut cells = Vec::new();
    let mut add = |quantity, paths: &[Path], sizes: &[u64]| {
        for path in paths {
            cells.extend(sizes.iter().map(|bytes| Cell { quantity, path: *path, bytes: *bytes }));
        }
    };
    if quick {
        add(Quantity::Trip, &PATHS, &[64]);
        add(Quantity::Stream, &[Path::Shm, Path::Tcp], &[64 << 10]);
        add(Quantity::Flood, &[Path::Udp], &[1472, 8972]);
    } else {
        add(Quantity::Trip, &PATHS, &[64, 1024]);
        add(Quantity::Trip, &[Path::Shm, Path::Tcp], &[8192]);
        add(Quantity::Trip, &[Path::Shm], &[8, 1 << 20]);
        add(Quantity::Stream, &[Path::Shm], &[8]);
        add(Quantity::Stream, &[Path::Shm, Path::Tcp], &[64, 4096, 64 << 10, 1 << 20]);
        add(Quantity::Stream, &[Path::Udp], &[1 << 20]);
        add(Quantity::Flood, &[Path::Udp], &[1472, 8972]);
        add(Quantity::LossFree, &[Path::Udp], &[1472, 8972]);
    }
    cells.sort();
    cells
}

/// The parameters of a run.
pub struct Run<'a> {
    /// The core that sends and measures, and the other's.
    pub cores: [usize; 2],
    /// True: a first look.
    pub quick: bool,
    /// Set when the user interrupts.
    pub stop: &'a Stop,
    /// The time limit of a program for one cell.
    pub limit: Duration,
}

/// The time limit of a peer for a cell. Assumed: twenty times its time on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The same with `--quick`, which must not wait long for a peer that hangs.
const QUICK_LIMIT: Duration = Duration::from_secs(15);

impl<'a> Run<'a> {
    /// Makes the parameters of a run on these cores, until `stop`.
    #[must_use]
    pub fn new(cores: [usize; 2], quick: bool, stop: &'a Stop) -> Run<'a> {
        Run { cores, quick, stop, limit: if quick { QUICK_LIMIT } else { LIMIT } }
    }
}

/// The number of a contender in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// In the quantity's unit.
    pub value: f64,
    /// The share of lost datagrams \[%\], where datagrams may be lost.
    pub lost: Option<f64>,
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number { value, lost: None }
    }
}

/// The reason for a missing number.
#[derive(Debug)]
pub enum NoNumber {
    /// It failed; the reason in a few words.
    Failed(String),
    /// The benchmark is over.
    Over(Error),
}

impl From<Error> for NoNumber {
    fn from(error: Error) -> NoNumber {
        match error {
            Error::Interrupted => NoNumber::Over(error),
            error => NoNumber::Failed(error.to_string()),
        }
    }
}

/// The presence of a contender on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is installed in this version.
    Version(String),
    /// It is not installed, and how to install it.
    Absent(String),
}

/// The way a contender measures a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The differences of its work from ours; empty: none is known.
    pub note: &'static str,
    /// True: its work equals ours, so the two may be ranked.
    pub is_equal: bool,
}

impl Offer {
    /// Offers equal work, apart from the note.
    #[must_use]
    pub const fn equal(note: &'static str) -> Option<Offer> {
        Some(Offer { note, is_equal: true })
    }

    /// Offers other work: shown, and not ranked.
    #[must_use]
    pub const fn unequal(note: &'static str) -> Option<Offer> {
        Some(Offer { note, is_equal: false })
    }
}

/// A program or library that measures cells.
pub trait Contender {
    /// Returns its name for `--only`: `ucx`. One peer may have several contenders.
    fn peer(&self) -> &'static str;

    /// Returns the name of its rows: `UCX tag (posix)`.
    fn name(&self) -> &'static str;

    /// Returns its version, or how to install it.
    fn presence(&self) -> Presence;

    /// Offers to measure a cell; `None`: it cannot. With `quick` it may leave out slow cells.
    fn offer(&self, cell: &Cell, quick: bool) -> Option<Offer>;

    /// Measures a cell that it offers.
    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber>;
}

/// The name of ours for `--only`; ours is always measured.
pub const OURS: &str = "fluxline";
