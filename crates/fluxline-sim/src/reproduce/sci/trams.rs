//! Trams (TU Chemnitz, 1999): stores against DMA from user level and through the kernel, on two
//! Pentium IIs with D310 cards.

use super::super::fact::Finding;
use super::super::figure::{Curve, Figure, bytes_axis, points, rate_axis, time_axis};
use super::super::pair::{BadStand, Pair};
use super::super::wire::link_lc2;
use super::facts;
use crate::host::{Bus, Call, Config, Descriptor, Direction, Level, Notice, Tag, preset};
use crate::{Duration, Instant};

/// Message sizes \[byte\]; the first stands for "no data": only a flag word crosses.
const SIZES: [u32; 15] =
    [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Step of the sizes at which a crossing of two curves is searched \[byte\].
const CROSSING_STEP: u32 = 8;
/// Bytes of a burst of stores: the write-combining buffer of a Pentium II.
const COMBINED_BYTES: u32 = 32;
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
    message_us(&preset::trams(), way, bytes)
}

fn message_us(config: &Config, way: Way, bytes: u32) -> Result<f64, BadStand> {
    let mut pair = Pair::new(config, link_lc2())?;
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

/// The results of the machines.
pub struct Results {
    /// The figures.
    pub figures: Vec<Figure>,
    /// The facts.
    pub findings: Vec<Finding>,
}

/// Runs the machines.
///
/// # Errors
/// [`BadStand`]: the preset cannot be.
pub fn run() -> Result<Results, BadStand> {
    let mut findings = levels()?;
    findings.extend(rates(&preset::trams())?);
    findings.push(facts::BUS_GAP.model(bus_gap(preset::trams().bus)));
    findings.push(facts::SLOW_DOWN.model(slow_down_percent()?));
    findings.push(facts::SMALL_CROSSING.model(crossing_bytes(Way::UserDma)?));
    Ok(Results { figures: vec![latency()?, bandwidth()?, streams()?, cpu_left()?], findings })
}

/// Compares messages without data.
fn levels() -> Result<Vec<Finding>, BadStand> {
    let [stores, user, kernel] = WAYS.map(|(way, _)| one_way_us(way, 4));
    let (stores, user, kernel) = (stores?, user?, kernel?);
    let spin = |way| dma_us(way, 4, Notice::Spin);
    let returned = spin(Way::KernelDma)? - spin(Way::UserDma)? - (kernel - user);
    Ok(vec![
        facts::USER_DMA.model(user),
        facts::KERNEL_DMA.model(kernel),
        facts::KERNEL_RETURN.model(returned),
        facts::STORES_FIRST.model(stores / user),
    ])
}

/// Compares rates.
///
/// # Errors
/// [`BadStand`]: the configuration cannot be.
pub fn rates(config: &Config) -> Result<Vec<Finding>, BadStand> {
    let sizes = SIZES.into_iter().filter(|bytes| *bytes >= 64);
    let stores = sizes.map(|bytes| stream_rate(config, Way::Stores, bytes));
    let stores = stores.collect::<Result<Vec<f64>, BadStand>>()?;
    let dma = stream_rate(config, Way::UserDma, 65_536)?;
    let long = stores.last().copied().unwrap_or(0.0);
    let mut least = f64::INFINITY;
    for bytes in SIZES.into_iter().filter(|bytes| (128..=4096).contains(bytes)) {
        let time = |way| message_us(config, way, bytes);
        least = least.min(100.0 * (time(Way::KernelDma)? / time(Way::UserDma)? - 1.0));
    }
    Ok(vec![
        facts::STORES.model(facts::STORES.worst(stores)),
        facts::SCI_REVERSED.model(dma / long),
        facts::USER_BEATS_KERNEL.model(least),
    ])
}

/// Returns the rate of bus-master reads less that of stores, on the bus alone \[MB/s\].
fn bus_gap(config: crate::host::config::Bus) -> f64 {
    const BYTES: u32 = 65_536;
    let (mut reads, mut stores) = (Bus::new(config), Bus::new(config));
    let read = reads.read(Instant::START, BYTES);
    let line = COMBINED_BYTES;
    let bursts = (0..BYTES / line).map(|_| stores.store(Instant::START, line, Duration::ZERO));
    let stored = bursts.last().unwrap_or(Instant::START);
    let rate = |end: Instant| f64::from(BYTES) / end.since(Instant::START).as_us();
    rate(read) - rate(stored)
}

fn latency() -> Result<Figure, BadStand> {
    let curves = WAYS.iter().map(|(way, name)| curve(name, |bytes| one_way_us(*way, bytes)));
    Ok(Figure {
        id: "trams-1",
        title: "Half a ping-pong: stores, DMA from user level, DMA through the kernel",
        x: bytes_axis(),
        y: time_axis(true),
        curves: curves.collect::<Result<_, _>>()?,
        points: points([(4, &facts::USER_DMA), (4, &facts::KERNEL_DMA)]),
    })
}

fn bandwidth() -> Result<Figure, BadStand> {
    let rate = |way, bytes| Ok(f64::from(bytes) / one_way_us(way, bytes)?);
    let curves = WAYS.iter().map(|(way, name)| curve(name, |bytes| rate(*way, bytes)));
    Ok(Figure {
        id: "trams-2",
        title: "Ping-pong bandwidth of the three ways",
        x: bytes_axis(),
        y: rate_axis(),
        curves: curves.collect::<Result<_, _>>()?,
        points: points([(65_536, &facts::STORES)]),
    })
}

/// Returns the rate of 64 messages of `bytes` one after the other \[MB/s\].
fn stream_rate(config: &Config, way: Way, bytes: u32) -> Result<f64, BadStand> {
    const MESSAGES: u64 = 64;
    let mut pair = Pair::new(config, link_lc2())?;
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

fn streams() -> Result<Figure, BadStand> {
    let of = |way| move |bytes| stream_rate(&preset::trams(), way, bytes);
    Ok(Figure {
        id: "trams-3",
        title: "Streams of messages: processor's stores, and the engine",
        x: bytes_axis(),
        y: rate_axis(),
        curves: vec![
            curve("processor's stores", of(Way::Stores))?,
            curve("DMA, user level", of(Way::UserDma))?,
        ],
        points: points([(64, &facts::STORES), (65_536, &facts::STORES)]),
    })
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
    let (user, kernel) = (Way::UserDma, Way::KernelDma);
    Ok(Figure {
        id: "trams-cpu",
        title: "Processor time left over while the message is sent",
        x: bytes_axis(),
        y: time_axis(true),
        curves: vec![
            curve("stores, while a user-level DMA would run", |b| left(user, Way::Stores, b))?,
            curve("DMA, user level", |b| left(user, user, b))?,
            curve("stores, while a kernel DMA would run", |b| left(kernel, Way::Stores, b))?,
            curve("DMA, kernel", |b| left(kernel, kernel, b))?,
        ],
        points: Vec::new(),
    })
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
