//! Figures 9 to 16: stores through 1, 2, 4 and 8 write streams on two Pentiums.
//!
//! Assumed benchmark: it writes a block to the same address again and again. So a block of one
//! stream waits for its own response before it can be written again, and n streams need n times 64
//! B.

use super::super::pair::{BadStand, Pair, link_lc1};
use super::super::set::{Curve, Facts, Number, Run};
use crate::Duration;
use crate::host::config::Posting;
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
enum Wait {
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
struct Stand {
    /// Returns the machine with a number of combined streams.
    config: fn(u32) -> Config,
    /// The driver's wait.
    wait: Wait,
}

impl Stand {
    /// The stand of the figures.
    const PRESET: Stand = Stand { config: preset::test_stand_b, wait: Wait::None };

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
struct Times {
    one: Curve,
    checked: Curve,
    two: Curve,
    four: Curve,
    eight: Curve,
    /// The most of 64 B from store to poll \[us\].
    end_to_end_us: f64,
}

fn rates(times: &Curve) -> Curve {
    times.map(|bytes, us| bytes / us)
}

impl Times {
    /// Runs a variant of the stand.
    fn of(stand: Stand) -> Result<Times, BadStand> {
        let mut end_to_end_us = 0.0_f64;
        for streams in [1, 2, 4, 8] {
            let us = stand.end_to_end_us(streams, STREAM_BYTES)?;
            end_to_end_us = end_to_end_us.max(us);
        }
        Ok(Times {
            one: Curve::of("1 stream", SIZES, |bytes| stand.block_us(1, bytes))?,
            checked: Curve::of("1 stream, checked", SIZES, |bytes| stand.checked_us(1, bytes))?,
            two: Curve::of("2 streams", SIZES, |bytes| stand.block_us(2, bytes))?,
            four: Curve::of("4 streams", SIZES, |bytes| stand.block_us(4, bytes))?,
            eight: Curve::of("8 streams", SIZES, |bytes| stand.block_us(8, bytes))?,
            end_to_end_us,
        })
    }

    /// Returns the model's numbers for the facts.
    fn numbers(&self, facts: &Facts) -> Vec<Number> {
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
            ("scinet-9-rate", one.at(64)),
            ("scinet-9-flat", least / one.most()),
            ("scinet-9-checked", rates(&self.checked).first_at(0.99)),
            ("scinet-10-small", facts.worst("scinet-10-small", small(&self.one))),
            ("scinet-10-checked", facts.worst("scinet-10-checked", small(&self.checked))),
            ("scinet-11-linear", linear),
            ("scinet-11-sizes", facts.worst("scinet-11-sizes", sizes)),
            ("scinet-11-peaks", beyond),
            ("scinet-13-most", eight.most()),
            ("scinet-13-saturation", eight.most() / four.most()),
            ("scinet-13-fall-512", eight.at(512)),
            ("scinet-13-fall-more", facts.worst("scinet-13-fall-more", long)),
            ("scinet-latency", self.end_to_end_us),
        ]
    }
}

/// Runs stand B.
pub fn run(facts: &Facts, run: &mut Run) -> Result<(), BadStand> {
    let times = Times::of(Stand::PRESET)?;
    run.numbers.extend(times.numbers(facts));
    let rate = [&times.one, &times.checked, &times.two, &times.four, &times.eight].map(rates);
    let [one, checked, two, four, eight] = rate;
    run.figures.extend([
        ("scinet-9", vec![one, checked]),
        ("scinet-10", vec![times.one, times.checked]),
        ("scinet-11", vec![two]),
        ("scinet-12", vec![four]),
        ("scinet-13", vec![eight]),
        ("scinet-14", vec![times.two]),
        ("scinet-15", vec![times.four]),
        ("scinet-16", vec![times.eight]),
    ]);
    Ok(())
}

/// A hypothesis about stand B.
struct Variant {
    name: &'static str,
    stand: Stand,
}

fn with(posting: Posting, streams: u32) -> Config {
    let mut config = preset::test_stand_b(streams);
    config.card.posting = posting;
    config
}

fn moves(streams: u32) -> Config {
    with(Posting::Move, streams)
}

fn moves_until_echo(streams: u32) -> Config {
    with(Posting::MoveUntilEcho, streams)
}

/// Moves whose stream is busy as long as 12 MB/s need, because the card is slow.
fn slow_card(streams: u32) -> Config {
    let mut config = moves_until_echo(streams);
    config.card.out_latency = Duration::from_ns(SLOW_CARD_NS);
    config
}

/// Chosen for 12 MB/s with 1 stream \[ns\].
const SLOW_CARD_NS: u64 = 3_000;
/// Chosen for 12 MB/s with 1 stream \[ns\].
const DRIVER_NS: u64 = 3_800;

const VARIANTS: [Variant; 7] = [
    Variant { name: "writes: a stream waits for the answer (the preset)", stand: Stand::PRESET },
    Variant {
        name: "moves: a stream is free at once",
        stand: Stand { config: moves, wait: Wait::None },
    },
    Variant {
        name: "moves: a stream waits for the echo",
        stand: Stand { config: moves_until_echo, wait: Wait::None },
    },
    Variant {
        name: "the same, and the driver flushes and waits behind each group of streams",
        stand: Stand { config: moves_until_echo, wait: Wait::Barrier },
    },
    Variant {
        name: "moves: the driver reads a word back behind each group of streams",
        stand: Stand { config: moves, wait: Wait::ReadBack },
    },
    Variant {
        name: "moves: the driver takes 3.8 us behind each group of streams (chosen for 12 MB/s)",
        stand: Stand { config: moves, wait: Wait::Time(Duration::from_ns(DRIVER_NS)) },
    },
    Variant {
        name: "moves until the echo: the card takes 3.0 us to the link (chosen for 12 MB/s)",
        stand: Stand { config: slow_card, wait: Wait::None },
    },
];

/// Returns the rows of variants: what waits between two stores into a stream.
pub fn variants(facts: &Facts) -> Result<Vec<Vec<String>>, BadStand> {
    let mut rows = Vec::new();
    for variant in &VARIANTS {
        let numbers = Times::of(variant.stand)?.numbers(facts);
        let held = numbers.iter().filter(|number| facts.holds(number)).count();
        let mut row = vec![variant.name.to_string()];
        for id in [
            "scinet-9-rate",
            "scinet-10-small",
            "scinet-11-linear",
            "scinet-13-most",
            "scinet-13-fall-more",
            "scinet-latency",
        ] {
            let of = numbers.iter().find(|number| number.0 == id).expect("a number of stand B");
            row.push(facts.shown(id, of.1));
        }
        row.push(format!("{held} of {}", numbers.len()));
        rows.push(row);
    }
    Ok(rows)
}
