//! Figures 7 and 8: remote writes and reads with SCINET's own driver on two PentiumPros.
//!
//! The paper's curves cannot come from one measurement: with a set-up of 10 us per block (figure
//! 8), half of the maximum at 64 B (figure 7) is impossible. Assumed here: figure 8 times one
//! block; figure 7 times a queue of blocks with one set-up.

use super::super::figure::{Axis, Curve, Fact, Figure, bytes_axis, rate_axis, time_axis};
use super::super::pair::{BadStand, Pair};
use super::super::wire::link_lc1;
use crate::host::{Call, Descriptor, Direction, Level, Notice, preset};

/// Block sizes \[byte\].
const SIZES: [u32; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Blocks in a queue: enough to make the set-up negligible.
const QUEUE: usize = 256;

/// Returns the time for a queue of `blocks` blocks of `bytes` \[us\].
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn queue_us(direction: Direction, bytes: u32, blocks: usize) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::test_stand_a(), link_lc1())?;
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

fn curve(
    name: &str,
    direction: Direction,
    of: impl Fn(u32) -> Result<f64, BadStand>,
) -> Result<Curve, BadStand> {
    let name = format!("{name}{}", if direction == Direction::Write { "write" } else { "read" });
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

/// Figures 7 and 8.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn figures() -> Result<Vec<Figure>, BadStand> {
    let rate = |direction| {
        move |bytes: u32| {
            let us = queue_us(direction, bytes, QUEUE)?;
            Ok(f64::from(bytes) * QUEUE as f64 / us)
        }
    };
    let write = curve("", Direction::Write, rate(Direction::Write))?;
    let read = curve("", Direction::Read, rate(Direction::Read))?;
    let at_64 = Fact::number("write at 64 B, part of the most", 0.5..=0.5, part(&write, 64));
    let facts = vec![
        Fact::shape(
            "write at 256 B, part of the most: 0.95 or more",
            0.95..=1.0,
            part(&write, 256),
        ),
        Fact::shape("read at 256 B, part of the most: 0.95 or more", 0.95..=1.0, part(&read, 256)),
        at_64.calibrated(),
        Fact::number("most of writes over most of reads", 3.5..=3.5, write.most() / read.most()),
    ];
    let title = "Remote writes and reads, stand A";
    let (x, y) = (bytes_axis(), rate_axis());
    let figure_7 = Figure { id: "scinet-7", title, x, y, curves: vec![write, read], facts };
    Ok(vec![figure_7, figure_8()?])
}

fn figure_8() -> Result<Figure, BadStand> {
    let time = |direction| move |bytes: u32| queue_us(direction, bytes, 1);
    let write = curve("", Direction::Write, time(Direction::Write))?;
    let read = curve("", Direction::Read, time(Direction::Read))?;
    let (write_line, read_line) = (line(&write), line(&read));
    let facts = vec![
        Fact::number("set-up of a write, us", 10.0..=10.0, write_line.0).calibrated(),
        Fact::number("set-up of a read, us", 10.0..=10.0, read_line.0).calibrated(),
        Fact::shape(
            "slope of reads over slope of writes: above 1",
            1.0..=f64::INFINITY,
            read_line.1 / write_line.1,
        ),
    ];
    let x = Axis { log: false, ..bytes_axis() };
    let (id, title) = ("scinet-8", "Time for one block, stand A");
    Ok(Figure { id, title, x, y: time_axis(false), curves: vec![write, read], facts })
}

fn part(curve: &Curve, bytes: u32) -> f64 {
    curve.at(bytes) / curve.most()
}
