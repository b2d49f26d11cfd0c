//! Figures 7 and 8: remote writes and reads with SCINET's own driver on two PentiumPros.
//!
//! The paper's curves cannot come from one measurement: with a set-up of 10 us per block (figure
//! 8), half of the maximum at 64 B (figure 7) is impossible. Assumed here: figure 8 times one
//! block; figure 7 times a queue of blocks with one set-up.

use super::super::fact::Finding;
use super::super::figure::{Axis, Curve, Figure, bytes_axis, points, rate_axis, time_axis};
use super::super::pair::{BadStand, Pair};
use super::super::wire::link_lc1;
use super::facts;
use crate::host::{Call, Config, Descriptor, Direction, Level, Notice, preset};

/// Block sizes \[byte\].
const SIZES: [u32; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Blocks in a queue: enough to make the set-up negligible.
const QUEUE: usize = 256;

/// Returns the time for a queue of `blocks` blocks of `bytes` \[us\].
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn queue_us(direction: Direction, bytes: u32, blocks: usize) -> Result<f64, BadStand> {
    queue_of_us(&preset::test_stand_a(), direction, bytes, blocks)
}

fn queue_of_us(
    config: &Config,
    direction: Direction,
    bytes: u32,
    blocks: usize,
) -> Result<f64, BadStand> {
    let mut pair = Pair::new(config, link_lc1())?;
    let block = |number: usize| {
        let offset = number as u64 * u64::from(bytes) % 65_536;
        Descriptor { direction, to: 1, offset, address: offset, bytes }
    };
    let descriptors = (0..blocks).map(block).collect();
    let call = Call::Dma { descriptors, level: Level::Kernel, notice: Notice::Spin };
    let begin = pair.now();
    let (end, _) = pair.complete(call);
    Ok(end.since(begin).as_us())
}

/// Returns the ratio of the rates of long writes and reads with a number of reads at once.
///
/// # Errors
/// [`BadStand`]: the number is 0.
pub fn read_ratio(reads_outstanding: u32) -> Result<f64, BadStand> {
    let mut config = preset::test_stand_a();
    config.engine.reads_outstanding = reads_outstanding;
    let us = |direction| queue_of_us(&config, direction, 4096, QUEUE);
    Ok(us(Direction::Read)? / us(Direction::Write)?)
}

fn curve(
    direction: Direction,
    of: impl Fn(u32) -> Result<f64, BadStand>,
) -> Result<Curve, BadStand> {
    let name = String::from(if direction == Direction::Write { "write" } else { "read" });
    let points = SIZES.iter().map(|bytes| Ok((f64::from(*bytes), of(*bytes)?)));
    Ok(Curve { name, points: points.collect::<Result<_, BadStand>>()? })
}

/// Returns the least-squares line through a curve: (set-up, slope).
fn line(curve: &Curve) -> (f64, f64) {
    let count = curve.points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| curve.points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = curve.points.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum();
    let square: f64 = curve.points.iter().map(|p| (p.0 - x_mean).powi(2)).sum();
    let slope = both / square;
    (y_mean - slope * x_mean, slope)
}

/// The curves of one kind.
struct Curves {
    write: Curve,
    read: Curve,
}

impl Curves {
    fn of(of: impl Fn(Direction, u32) -> Result<f64, BadStand>) -> Result<Curves, BadStand> {
        let write = curve(Direction::Write, |bytes| of(Direction::Write, bytes))?;
        let read = curve(Direction::Read, |bytes| of(Direction::Read, bytes))?;
        Ok(Curves { write, read })
    }
}

/// The results of stand A.
pub struct Results {
    /// Figures 7 and 8.
    pub figures: Vec<Figure>,
    /// The facts.
    pub findings: Vec<Finding>,
}

/// Runs stand A.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn run() -> Result<Results, BadStand> {
    let rates = Curves::of(|direction, bytes| {
        let us = queue_us(direction, bytes, QUEUE)?;
        Ok(f64::from(bytes) * QUEUE as f64 / us)
    })?;
    let times = Curves::of(|direction, bytes| queue_us(direction, bytes, 1))?;
    let findings = findings(&rates, &times);
    Ok(Results { figures: figures(rates, times), findings })
}

fn findings(rates: &Curves, times: &Curves) -> Vec<Finding> {
    let Curves { write, read } = rates;
    let part = |curve: &Curve, bytes| curve.at(bytes) / curve.most();
    let (write_line, read_line) = (line(&times.write), line(&times.read));
    vec![
        facts::PEAK_FROM_256.model(part(write, 256).min(part(read, 256))),
        facts::HALF_WRITES.model(part(write, 64)),
        facts::HALF_READS.model(part(read, 64)),
        facts::READ_RATIO.model(write.most() / read.most()),
        facts::MOST_A.model(write.most().max(read.most())),
        facts::SET_UP.model(facts::SET_UP.worst([write_line.0, read_line.0])),
        facts::READ_STEEPER.model(read_line.1 / write_line.1),
    ]
}

fn figures(rates: Curves, times: Curves) -> Vec<Figure> {
    let figure_7 = Figure {
        id: "scinet-7",
        title: "Remote writes and reads, stand A",
        x: bytes_axis(),
        y: rate_axis(),
        curves: vec![rates.write, rates.read],
        points: points([(4096, &facts::MOST_A)]),
    };
    let figure_8 = Figure {
        id: "scinet-8",
        title: "Time for one block, stand A",
        x: Axis { log: false, ..bytes_axis() },
        y: time_axis(false),
        curves: vec![times.write, times.read],
        points: Vec::new(),
    };
    vec![figure_7, figure_8]
}
