//! Trams (TU Chemnitz, 1999): stores against DMA from user level and through the kernel, on two
//! Pentium IIs with D310 cards.

use super::figure::{Curve, Fact, Figure, bytes_axis, rate_axis, time_axis};
use super::pair::{BadStand, Pair};
use super::wire::link_lc2;
use crate::Duration;
use crate::host::{Call, Descriptor, Direction, Level, Notice, Tag, preset};

/// Message sizes \[byte\]; the first stands for "no data": only a flag word crosses.
const SIZES: [u32; 15] =
    [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Step of the sizes at which a crossing of two curves is searched \[byte\].
const CROSSING_STEP: u32 = 8;
/// Largest size at which a crossing is searched \[byte\].
const CROSSING_MAX: u32 = 2048;

/// A way of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The processor's stores, then a flush of its write-combining buffers.
    Stores,
    /// The DMA engine, driven from user level.
    UserDma,
    /// The DMA engine, through the kernel.
    KernelDma,
}

/// All ways, with their names.
const WAYS: [(Way, &str); 3] = [
    (Way::Stores, "shared memory"),
    (Way::UserDma, "DMA, user level"),
    (Way::KernelDma, "DMA, kernel"),
];

/// Sends a message; returns the tag of the last call.
fn submit(pair: &mut Pair, way: Way, bytes: u32, notice: Notice) -> Tag {
    let level = if way == Way::KernelDma { Level::Kernel } else { Level::User };
    let (direction, to) = (Direction::Write, 1);
    if way == Way::Stores {
        pair.submit(Call::Store { to, offset: 0, data: vec![1; bytes as usize] });
        pair.submit(Call::Flush)
    } else {
        let descriptor = Descriptor { direction, to, offset: 0, address: 0, bytes };
        let descriptors = vec![descriptor];
        pair.submit(Call::Dma { descriptors, level, notice })
    }
}

/// Returns the time of half a ping-pong, from the call to the peer's poll \[us\].
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn one_way_us(way: Way, bytes: u32) -> Result<f64, BadStand> {
    let config = preset::trams();
    let mut pair = Pair::new(&config, link_lc2())?;
    submit(&mut pair, way, bytes, Notice::Word);
    pair.drain();
    Ok((pair.written_at(1) + config.cpu.poll_notice).as_ps() as f64 / 1e6)
}

/// Returns the processor time that sending a message takes from a concurrent computation \[us\]:
/// calls, waiting, and the slow-down while the engine runs.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn cpu_lost_us(way: Way, bytes: u32) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    // Longer than any message takes.
    let work = Duration::from_us(50 + u64::from(bytes) / 10);
    submit(&mut pair, way, bytes, Notice::Word);
    let (end, _) = pair.complete(Call::Compute(work));
    Ok(end.as_ps() as f64 / 1e6 - work.as_us())
}

/// Returns the time until the sender knows that its DMA is done \[us\].
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn dma_us(way: Way, bytes: u32, notice: Notice) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    let tag = submit(&mut pair, way, bytes, notice);
    Ok(pair.wait(tag).0.as_ps() as f64 / 1e6)
}

fn curve(name: &str, of: impl Fn(u32) -> Result<f64, BadStand>) -> Result<Curve, BadStand> {
    let points = SIZES.iter().map(|bytes| Ok((f64::from(*bytes), of(*bytes)?)));
    Ok(Curve { name: name.to_string(), points: points.collect::<Result<_, BadStand>>()? })
}

/// Returns the three figures and the comparison of processor time.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn figures() -> Result<Vec<Figure>, BadStand> {
    Ok(vec![latency()?, bandwidth()?, bus()?, cpu_left()?])
}

fn latency() -> Result<Figure, BadStand> {
    let curves = WAYS.iter().map(|(way, name)| curve(name, |bytes| one_way_us(*way, bytes)));
    let curves: Vec<Curve> = curves.collect::<Result<_, _>>()?;
    let (user, kernel) = (curves[1].at(4), curves[2].at(4));
    let spin = |way| dma_us(way, 4, Notice::Spin);
    let returned = spin(Way::KernelDma)? - spin(Way::UserDma)? - (kernel - user);
    let facts = vec![
        Fact::number("DMA without data, user level, us", 7.0..=7.0, user).at(4).calibrated(),
        Fact::number("DMA without data, kernel, us", 11.5..=11.5, kernel).at(4).calibrated(),
        Fact::number("the kernel's way back, us", 3.0..=3.0, returned).calibrated(),
        Fact::shape(
            "stores over user-level DMA, no data: stores are faster, below 1",
            0.0..=1.0,
            curves[0].at(4) / user,
        ),
    ];
    let title = "Half a ping-pong: stores, DMA from user level, DMA through the kernel";
    let (x, y) = (bytes_axis(), time_axis(true));
    Ok(Figure { id: "trams-1", title, x, y, curves, facts })
}

fn bandwidth() -> Result<Figure, BadStand> {
    let rate = |way, bytes| Ok(f64::from(bytes) / one_way_us(way, bytes)?);
    let curves = WAYS.iter().map(|(way, name)| curve(name, |bytes| rate(*way, bytes)));
    let curves: Vec<Curve> = curves.collect::<Result<_, _>>()?;
    let facts = vec![
        Fact::number("stores, long messages, MB/s", 82.0..=82.0, curves[0].most())
            .at(65_536)
            .calibrated(),
        Fact::shape(
            "kernel over user level at 64 KB: no difference for long messages, 0.98 or more",
            0.98..=1.0,
            curves[2].at(65_536) / curves[1].at(65_536),
        ),
    ];
    let title = "Ping-pong bandwidth of the three ways";
    Ok(Figure { id: "trams-2", title, x: bytes_axis(), y: rate_axis(), curves, facts })
}

/// Returns the rate of 64 messages of `bytes` one after the other \[MB/s\].
fn stream_rate(way: Way, bytes: u32) -> Result<f64, BadStand> {
    const MESSAGES: u64 = 64;
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    let to = 1;
    let at = |number: u64| number * u64::from(bytes) % 65_536;
    if way == Way::Stores {
        for number in 0..MESSAGES {
            let data = vec![1; bytes as usize];
            pair.submit(Call::Store { to, offset: at(number), data });
        }
        pair.submit(Call::Flush);
    } else {
        let one = |number| {
            let (offset, direction) = (at(number), Direction::Write);
            Descriptor { direction, to, offset, address: offset, bytes }
        };
        let descriptors = (0..MESSAGES).map(one).collect();
        pair.submit(Call::Dma { descriptors, level: Level::User, notice: Notice::Word });
    }
    pair.drain();
    let us = pair.written_at(1).as_ps() as f64 / 1e6;
    Ok(f64::from(bytes) * MESSAGES as f64 / us)
}

fn bus() -> Result<Figure, BadStand> {
    let stores = curve("processor's stores", |bytes| stream_rate(Way::Stores, bytes))?;
    let reads = curve("bus-master reads", |bytes| stream_rate(Way::UserDma, bytes))?;
    let gap = stores.at(65_536) - reads.at(65_536);
    let facts = vec![
        Fact::number("streams of 64 B stores, MB/s", 82.0..=82.0, stores.at(64)).at(64),
        Fact::number("gap at 64 KB, MB/s", 30.0..=30.0, gap).calibrated(),
    ];
    let title = "The PCI bus: processor's stores against the card's reads of memory";
    let (x, y, curves) = (bytes_axis(), rate_axis(), vec![stores, reads]);
    Ok(Figure { id: "trams-3", title, x, y, curves, facts })
}

/// Returns the message size \[byte\] from which a DMA takes less processor time than stores. The
/// curves have steps (a partial block is several packets), so the last crossing counts. Infinite
/// without a crossing up to 2 KB.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn crossing_bytes(way: Way) -> Result<f64, BadStand> {
    let mut bytes = CROSSING_MAX;
    while bytes > 0 && cpu_lost_us(way, bytes)? < cpu_lost_us(Way::Stores, bytes)? {
        bytes -= CROSSING_STEP;
    }
    Ok(if bytes == CROSSING_MAX { f64::INFINITY } else { f64::from(bytes + CROSSING_STEP) })
}

fn cpu_left() -> Result<Figure, BadStand> {
    let left = |during: Way, way: Way, bytes: u32| {
        Ok((dma_us(during, bytes, Notice::Word)? - cpu_lost_us(way, bytes)?).max(0.0))
    };
    let user = Way::UserDma;
    let curves = vec![
        curve("stores, while a user-level DMA would run", |b| left(user, Way::Stores, b))?,
        curve("DMA, user level", |b| left(user, user, b))?,
        curve("stores, while a kernel DMA would run", |b| left(Way::KernelDma, Way::Stores, b))?,
        curve("DMA, kernel", |b| left(Way::KernelDma, Way::KernelDma, b))?,
    ];
    let (user_at, kernel_at) = (crossing_bytes(user)?, crossing_bytes(Way::KernelDma)?);
    let facts = vec![
        Fact::shape(
            "message from which user-level DMA leaves more time, B: \"surprisingly small\", to 1 KB",
            1.0..=1024.0,
            user_at,
        ),
        Fact::shape(
            "the same through the kernel over user level: later, above 1",
            1.0..=f64::INFINITY,
            kernel_at / user_at,
        ),
        Fact::number("slow-down by DMA, percent", 15.0..=15.0, slow_down_percent()?).calibrated(),
    ];
    let title = "Processor time left over while the message is sent";
    let (x, y) = (bytes_axis(), time_axis(true));
    Ok(Figure { id: "trams-cpu", title, x, y, curves, facts })
}

/// Returns the slowdown of a computation beside a DMA \[percent of the speed\].
fn slow_down_percent() -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    submit(&mut pair, Way::UserDma, 65_536, Notice::Word);
    // Well inside the 1.2 ms of the transfer, and after its start.
    let begin = pair.complete(Call::Compute(Duration::from_us(10))).0;
    let end = pair.complete(Call::Compute(Duration::from_us(500))).0;
    Ok(100.0 * (1.0 - 500.0 / end.since(begin).as_us()))
}
