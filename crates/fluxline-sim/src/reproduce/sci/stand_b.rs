//! Figures 9 to 16: stores through 1, 2, 4 and 8 write streams on two Pentiums.
//!
//! Assumed benchmark: it writes a block to the same address again and again. So a block of one
//! stream waits for its own response before it can be written again, and n streams need n times 64
//! B.

use super::super::fact::Finding;
use super::super::figure::{Curve, Figure, Point, bytes_axis, points, rate_axis, time_axis};
use super::super::pair::{BadStand, Pair};
use super::super::wire::link_lc1;
use super::facts;
use crate::Duration;
use crate::host::{Call, Config, Outcome, Status, preset};

/// Block sizes \[byte\].
const SIZES: [u32; 22] = [
    4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 576, 640, 768, 1024, 4096,
    16_384, 65_536,
];
/// Bytes of a write stream.
const STREAM_BYTES: u32 = 64;
/// Most blocks that are written before the measurement, and most that are measured: more than the
/// buffers on the way hold. One long block is enough.
const BLOCKS_MAX: u32 = 8;

/// The wait of the driver behind each group of streams that it has filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No wait: only the card waits.
    None,
    /// Until the streams are idle.
    Barrier,
    /// For the answer to a load of one word, which pushes all stores before it.
    ReadBack,
    /// For a fixed time.
    Time(Duration),
}

/// A variant of stand B.
#[derive(Clone, Copy)]
pub struct Stand {
    /// Returns the machine with a number of combined streams.
    pub config: fn(u32) -> Config,
    /// The driver's wait.
    pub wait: Wait,
}

impl Stand {
    /// The stand of the figures.
    pub const PRESET: Stand = Stand { config: preset::test_stand_b, wait: Wait::None };

    fn pair(self, streams: u32) -> Result<Pair, BadStand> {
        Pair::new(&(self.config)(streams), link_lc1())
    }

    /// Writes a block, with the driver's waits.
    fn write(self, pair: &mut Pair, streams: u32, bytes: u32) {
        let group = if self.wait == Wait::None { bytes } else { streams * STREAM_BYTES };
        let mut offset = 0;
        while offset < bytes {
            let length = group.min(bytes - offset);
            pair.complete(store(offset, length));
            match self.wait {
                Wait::None => {}
                Wait::Barrier => _ = pair.complete(Call::Barrier),
                Wait::ReadBack => {
                    pair.complete(Call::Flush);
                    pair.complete(Call::Load { to: 1, offset: 0, bytes: 4 });
                }
                Wait::Time(time) => _ = pair.complete(Call::Compute(time)),
            }
            offset += length;
        }
    }

    /// Returns the mean time for one block of `bytes` \[us\].
    fn block_us(self, streams: u32, bytes: u32) -> Result<f64, BadStand> {
        mean_us(self.pair(streams)?, bytes, |pair| self.write(pair, streams, bytes))
    }

    /// Returns the same with the error check behind each block.
    fn checked_us(self, streams: u32, bytes: u32) -> Result<f64, BadStand> {
        mean_us(self.pair(streams)?, bytes, |pair| _ = checked_block(pair, bytes))
    }

    /// Returns the time from the store of a block to the peer's poll of its last byte \[us\]. The
    /// block was written once before.
    fn end_to_end_us(self, streams: u32, bytes: u32) -> Result<f64, BadStand> {
        let mut pair = self.pair(streams)?;
        pair.complete(store(0, bytes));
        pair.drain();
        let begin = pair.now();
        pair.submit(store(0, bytes));
        pair.complete(Call::Flush);
        pair.drain();
        let poll = (self.config)(streams).cpu.poll_notice;
        Ok((pair.written_at(1) + poll).since(begin).as_us())
    }
}

/// Returns the mean time of some blocks of `bytes`, behind as many that are not measured \[us\].
fn mean_us(mut pair: Pair, bytes: u32, mut write: impl FnMut(&mut Pair)) -> Result<f64, BadStand> {
    let measured = (16_384 / bytes.max(1)).clamp(1, BLOCKS_MAX);
    (0..measured).for_each(|_| write(&mut pair));
    let begin = pair.now();
    (0..measured).for_each(|_| write(&mut pair));
    Ok(pair.now().since(begin).as_us() / f64::from(measured))
}

fn store(offset: u32, bytes: u32) -> Call {
    let data = (offset..offset + bytes).map(|at| (at % 251) as u8 + 1).collect();
    Call::Store { to: 1, offset: u64::from(offset), data }
}

/// Writes a block and checks it; repeats the write while the check finds a failure. Returns the
/// number of writes.
pub fn checked_block(pair: &mut Pair, bytes: u32) -> u32 {
    // A limit for dead links.
    const TRIES_MAX: u32 = 16;
    for tries in 1..TRIES_MAX {
        pair.complete(store(0, bytes));
        if pair.complete(Call::Check).1 == Outcome::Done(Status::Normal) {
            return tries;
        }
    }
    TRIES_MAX
}

/// The times of blocks \[us\], by streams.
pub struct Times {
    one: Curve,
    checked: Curve,
    two: Curve,
    four: Curve,
    eight: Curve,
    /// The most of 64 B from store to poll \[us\].
    end_to_end_us: f64,
}

fn curve(name: &str, of: impl Fn(u32) -> Result<f64, BadStand>) -> Result<Curve, BadStand> {
    let points = SIZES.iter().map(|bytes| Ok((f64::from(*bytes), of(*bytes)?)));
    Ok(Curve { name: name.to_string(), points: points.collect::<Result<_, BadStand>>()? })
}

fn rates(times: &Curve) -> Curve {
    let points = times.points.iter().map(|(bytes, us)| (*bytes, bytes / us)).collect();
    Curve { name: times.name.clone(), points }
}

impl Times {
    /// Runs a variant of the stand.
    ///
    /// # Errors
    /// [`BadStand`]: the preset cannot be.
    pub fn of(stand: Stand) -> Result<Times, BadStand> {
        let mut end_to_end_us = 0.0_f64;
        for streams in [1, 2, 4, 8] {
            let us = stand.end_to_end_us(streams, STREAM_BYTES)?;
            end_to_end_us = end_to_end_us.max(us);
        }
        Ok(Times {
            one: curve("1 stream", |bytes| stand.block_us(1, bytes))?,
            checked: curve("1 stream, checked", |bytes| stand.checked_us(1, bytes))?,
            two: curve("2 streams", |bytes| stand.block_us(2, bytes))?,
            four: curve("4 streams", |bytes| stand.block_us(4, bytes))?,
            eight: curve("8 streams", |bytes| stand.block_us(8, bytes))?,
            end_to_end_us,
        })
    }

    /// Returns the facts with the model's numbers.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let one = rates(&self.one);
        let from_64 = one.points.iter().filter(|point| point.0 >= 64.0 && point.0 % 64.0 == 0.0);
        let least = from_64.map(|point| point.1).fold(f64::INFINITY, f64::min);
        let (two, four, eight) = (rates(&self.two), rates(&self.four), rates(&self.eight));
        let small = |curve: &Curve| [curve.at(4), curve.at(16)];
        let linear = (two.most() / 2.0).min(four.most() / 4.0) / one.most();
        let sizes = [two.first_at(0.97) / 128.0, four.first_at(0.97) / 256.0];
        let beyond = (two.at(160) / two.at(128)).max(four.at(320) / four.at(256));
        let long = [1024, 4096, 16_384, 65_536].map(|bytes| eight.at(bytes));
        vec![
            facts::ONE_STREAM.model(one.at(64)),
            facts::ONE_STREAM_FLAT.model(least / one.most()),
            facts::CHECKED_LATE.model(rates(&self.checked).first_at(0.99)),
            facts::SMALL_BLOCKS.model(facts::SMALL_BLOCKS.worst(small(&self.one))),
            facts::SMALL_CHECKED.model(facts::SMALL_CHECKED.worst(small(&self.checked))),
            facts::LINEAR.model(linear),
            facts::PEAK_SIZES.model(facts::PEAK_SIZES.worst(sizes)),
            facts::PEAKS_STAND.model(beyond),
            facts::MOST_B.model(eight.most()),
            facts::SATURATION.model(eight.most() / four.most()),
            facts::FALL_AT_512.model(eight.at(512)),
            facts::FALL_ABOVE_512.model(facts::FALL_ABOVE_512.worst(long)),
            facts::END_TO_END.model(self.end_to_end_us),
        ]
    }

    /// Returns figures 9 to 16.
    #[must_use]
    pub fn figures(self) -> Vec<Figure> {
        let (one, checked) = (rates(&self.one), rates(&self.checked));
        let rate = |id, title, curves, points| Figure {
            id,
            title,
            x: bytes_axis(),
            y: rate_axis(),
            curves,
            points,
        };
        let time = |id, title, curves, points: Vec<Point>| Figure {
            id,
            title,
            x: bytes_axis(),
            y: time_axis(true),
            curves,
            points,
        };
        let fall = points([(512, &facts::FALL_AT_512), (65_536, &facts::FALL_ABOVE_512)]);
        let small = points([(4, &facts::SMALL_BLOCKS), (4, &facts::SMALL_CHECKED)]);
        let both = "1 stream, and with error check and retry, stand B";
        let peak = points([(64, &facts::ONE_STREAM)]);
        let (two, four, eight) = (rates(&self.two), rates(&self.four), rates(&self.eight));
        vec![
            rate("scinet-9", both, vec![one, checked], peak),
            time("scinet-10", "Time for a block, stand B", vec![self.one, self.checked], small),
            rate("scinet-11", "2 streams combined, stand B", vec![two], Vec::new()),
            rate("scinet-12", "4 streams combined, stand B", vec![four], Vec::new()),
            rate("scinet-13", "8 streams combined, stand B", vec![eight], fall),
            time("scinet-14", "Time for a block, 2 streams", vec![self.two], Vec::new()),
            time("scinet-15", "Time for a block, 4 streams", vec![self.four], Vec::new()),
            time("scinet-16", "Time for a block, 8 streams", vec![self.eight], Vec::new()),
        ]
    }
}
