//! Figures 9 to 16: stores through 1, 2, 4 and 8 write streams on two Pentiums.
//!
//! Assumed benchmark: it writes a block to the same address again and again. So a block of one
//! stream waits for its own response before it can be written again, and n streams need n times 64
//! B.

use super::super::figure::{Curve, Fact, Figure, bytes_axis, rate_axis, time_axis};
use super::super::pair::{BadStand, Pair};
use super::super::wire::link_lc1;
use crate::host::{Call, Outcome, Status, preset};

/// Block sizes \[byte\].
const SIZES: [u32; 22] = [
    4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 576, 640, 768, 1024, 4096,
    16_384, 65_536,
];
/// The upper end of a range without one.
const NO_END: f64 = f64::INFINITY;
/// Most blocks that are written before the measurement, and most that are measured: more than the
/// buffers on the way hold. One long block is enough.
const BLOCKS_MAX: u32 = 8;

/// Returns the mean time for one block of `bytes` \[us\], with or without the error check after
/// each block.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn block_us(streams: u32, bytes: u32, check: bool) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::test_stand_b(streams), link_lc1())?;
    let measured = (16_384 / bytes.max(1)).clamp(1, BLOCKS_MAX);
    let mut begin = pair.now();
    for number in 0..2 * measured {
        if number == measured {
            begin = pair.now();
        }
        if check {
            checked_block(&mut pair, bytes);
        } else {
            pair.complete(block(bytes));
        }
    }
    Ok(pair.now().since(begin).as_us() / f64::from(measured))
}

fn block(bytes: u32) -> Call {
    let data = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
    Call::Store { to: 1, offset: 0, data }
}

/// Writes a block and checks it; repeats the write while the check finds a failure. Returns the
/// number of writes.
pub fn checked_block(pair: &mut Pair, bytes: u32) -> u32 {
    // A limit for dead links.
    const TRIES_MAX: u32 = 16;
    for tries in 1..TRIES_MAX {
        pair.complete(block(bytes));
        if pair.complete(Call::Check).1 == Outcome::Done(Status::Normal) {
            return tries;
        }
    }
    TRIES_MAX
}

/// Returns the time from the store of a block to the peer's poll of its last byte \[us\]. The block
/// was written once before.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn end_to_end_us(streams: u32, bytes: u32) -> Result<f64, BadStand> {
    let config = preset::test_stand_b(streams);
    let mut pair = Pair::new(&config, link_lc1())?;
    pair.complete(block(bytes));
    pair.drain();
    let begin = pair.now();
    pair.submit(block(bytes));
    pair.complete(Call::Flush);
    pair.drain();
    Ok((pair.written_at(1) + config.cpu.poll_notice).since(begin).as_us())
}

fn times(streams: u32, check: bool) -> Result<Curve, BadStand> {
    let plural = if streams == 1 { "" } else { "s" };
    let name = format!("{streams} stream{plural}{}", if check { ", checked" } else { "" });
    let points =
        SIZES.iter().map(|bytes| Ok((f64::from(*bytes), block_us(streams, *bytes, check)?)));
    Ok(Curve { name, points: points.collect::<Result<_, BadStand>>()? })
}

fn rates(times: &Curve) -> Curve {
    let points = times.points.iter().map(|(bytes, us)| (*bytes, bytes / us)).collect();
    Curve { name: times.name.clone(), points }
}

fn throughput(
    id: &'static str,
    title: &'static str,
    curves: Vec<Curve>,
    facts: Vec<Fact>,
) -> Figure {
    Figure { id, title, x: bytes_axis(), y: rate_axis(), curves, facts }
}

fn latency(id: &'static str, title: &'static str, curves: Vec<Curve>, facts: Vec<Fact>) -> Figure {
    Figure { id, title, x: bytes_axis(), y: time_axis(true), curves, facts }
}

/// Figures 9 to 16.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn figures() -> Result<Vec<Figure>, BadStand> {
    let (one, checked) = (times(1, false)?, times(1, true)?);
    let (two, four, eight) = (times(2, false)?, times(4, false)?, times(8, false)?);
    let one_rate = rates(&one);
    let four_most = rates(&four).most();
    Ok(vec![
        figure_9(&one_rate, rates(&checked)),
        figure_10(&one, &checked),
        figure_11(&one_rate, rates(&two)),
        figure_12(&one_rate, rates(&four)),
        figure_13(rates(&eight), four_most),
        later_latency("scinet-14", "Time for a block, 2 streams", &one, two, 2)?,
        later_latency("scinet-15", "Time for a block, 4 streams", &one, four, 4)?,
        later_latency("scinet-16", "Time for a block, 8 streams", &one, eight, 8)?,
    ])
}

fn figure_9(one: &Curve, checked: Curve) -> Figure {
    let from_64 = one.points.iter().filter(|point| point.0 >= 64.0 && point.0 % 64.0 == 0.0);
    let least = from_64.map(|point| point.1).fold(f64::INFINITY, f64::min);
    let facts = vec![
        Fact::number("1 stream at 64 B, MB/s", 12.0..=12.0, one.at(64)).at(64).calibrated(),
        Fact::shape(
            "1 stream, blocks of whole streams, least over most: flat, 0.9 or more",
            0.9..=1.0,
            least / one.most(),
        ),
        Fact::number("1 stream checked, 64 KB, MB/s", 12.0..=12.0, checked.at(65_536))
            .at(65_536)
            .calibrated(),
        Fact::shape(
            "smallest block that has 99 % of it when checked, B: 64 KB or more",
            65_536.0..=NO_END,
            checked.first_at(0.99),
        ),
    ];
    let title = "1 stream, and with error check and retry, stand B";
    throughput("scinet-9", title, vec![one.clone(), checked], facts)
}

fn figure_10(one: &Curve, checked: &Curve) -> Figure {
    let facts = vec![
        Fact::number("1 stream, 4 B, us", 2.0..=3.0, one.at(4)).at(4),
        Fact::number("1 stream, 16 B, us", 2.0..=3.0, one.at(16)).at(16),
        Fact::number("1 stream checked, 4 B, us", 11.0..=12.0, checked.at(4)).at(4).calibrated(),
        Fact::number("1 stream checked, 16 B, us", 11.0..=12.0, checked.at(16)).at(16),
    ];
    let title = "Time for a block, 1 stream, stand B";
    latency("scinet-10", title, vec![one.clone(), checked.clone()], facts)
}

fn figure_11(one: &Curve, two: Curve) -> Figure {
    let facts = vec![
        Fact::number(
            "most of 2 streams over most of 1: nearly linear",
            2.0..=2.0,
            two.most() / one.most(),
        ),
        Fact::shape("smallest block with 97 % of the most, B", 128.0..=128.0, two.first_at(0.97)),
        Fact::shape(
            "160 B over 128 B: a peak stands at 128 B, below 0.95",
            0.0..=0.95,
            two.at(160) / two.at(128),
        ),
    ];
    throughput("scinet-11", "2 streams combined, stand B", vec![two], facts)
}

fn figure_12(one: &Curve, four: Curve) -> Figure {
    let facts = vec![
        // The paper also states a maximum of 45 MB/s, which is 3.75 times 12 MB/s.
        Fact::number(
            "most of 4 streams over most of 1: nearly linear",
            3.75..=4.0,
            four.most() / one.most(),
        ),
        Fact::shape("smallest block with 97 % of the most, B", 256.0..=256.0, four.first_at(0.97)),
        Fact::shape(
            "320 B over 256 B: a peak stands at 256 B, below 0.95",
            0.0..=0.95,
            four.at(320) / four.at(256),
        ),
    ];
    throughput("scinet-12", "4 streams combined, stand B", vec![four], facts)
}

fn figure_13(eight: Curve, four_most: f64) -> Figure {
    let facts = vec![
        Fact::number("most, MB/s", 45.0..=45.0, eight.most()).calibrated(),
        Fact::shape(
            "most of 8 streams over most of 4: saturation, below 1.1",
            0.95..=1.1,
            eight.most() / four_most,
        ),
        Fact::number("blocks of 512 B, MB/s", 34.0..=34.0, eight.at(512)).at(512),
        Fact::number("blocks of 1024 B, MB/s", 34.0..=34.0, eight.at(1024)).at(1024).calibrated(),
        Fact::number("blocks of 64 KB, MB/s", 34.0..=34.0, eight.at(65_536))
            .at(65_536)
            .calibrated(),
    ];
    throughput("scinet-13", "8 streams combined, stand B", vec![eight], facts)
}

/// Figures 14 to 16: the source has curves without numbers; the headline has "under 5 us end to
/// end".
fn later_latency(
    id: &'static str,
    title: &'static str,
    one: &Curve,
    times: Curve,
    streams: u32,
) -> Result<Figure, BadStand> {
    let facts = vec![
        Fact::shape(
            "64 B from the store to the peer's poll, us: under 5",
            0.0..=5.0,
            end_to_end_us(streams, 64)?,
        ),
        Fact::shape(
            "4 B against 1 stream: the same, more streams do not help one block",
            0.95..=1.05,
            times.at(4) / one.at(4),
        ),
    ];
    Ok(latency(id, title, vec![times], facts))
}
