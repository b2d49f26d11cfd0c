//! Trams (TU Chemnitz, 1999): stores against DMA from user level and through the kernel, on two
//! Pentium IIs with D310 cards.

use super::super::pair::{BadStand, Pair, link_lc2};
use super::super::set::{Curve, Facts, Number, Run};
use crate::host::{Bus, Call, Config, Descriptor, Direction, Level, Notice, Tag, preset};
use crate::{Duration, Instant};

/// Message sizes \[byte\]; the first stands for "no data": only a flag word crosses.
const SIZES: [u32; 15] =
    [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Bytes of a burst of stores: the write-combining buffer of a Pentium II.
const COMBINED_BYTES: u32 = 32;

/// A way of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
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
fn one_way_us(way: Way, bytes: u32) -> Result<f64, BadStand> {
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
fn cpu_lost_us(way: Way, bytes: u32) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    // Longer than any message takes.
    let work = Duration::from_us(50 + u64::from(bytes) / 10);
    submit(&mut pair, way, bytes, Notice::Word);
    let (end, _) = pair.complete(Call::Compute(work));
    Ok(end.as_ps() as f64 / 1e6 - work.as_us())
}

/// Returns the time until the sender knows that its DMA is done \[us\].
fn dma_us(way: Way, bytes: u32, notice: Notice) -> Result<f64, BadStand> {
    let mut pair = Pair::new(&preset::trams(), link_lc2())?;
    let tag = submit(&mut pair, way, bytes, notice);
    Ok(pair.wait(tag).0.as_ps() as f64 / 1e6)
}

/// Runs the machines.
pub fn run(facts: &Facts, run: &mut Run) -> Result<(), BadStand> {
    run.numbers.extend(levels()?);
    run.numbers.extend(rates(facts, &preset::trams())?);
    run.numbers.push(("trams-bus", bus_gap(preset::trams().bus)));
    run.numbers.push(("trams-slow-down", slow_down_percent()?));
    let of = |way: Way, name| Curve::of(name, SIZES, |bytes| one_way_us(way, bytes));
    let latency = WAYS.map(|(way, name)| of(way, name));
    let latency = latency.into_iter().collect::<Result<Vec<Curve>, BadStand>>()?;
    let bandwidth = latency.iter().map(|curve| curve.map(|bytes, us| bytes / us)).collect();
    let stream = |way| move |bytes| stream_rate(&preset::trams(), way, bytes);
    let streams = vec![
        Curve::of("processor's stores", SIZES, stream(Way::Stores))?,
        Curve::of("DMA, user level", SIZES, stream(Way::UserDma))?,
    ];
    run.figures.extend([
        ("trams-1", latency),
        ("trams-2", bandwidth),
        ("trams-3", streams),
        ("trams-cpu", cpu_left()?),
    ]);
    Ok(())
}

/// Compares messages without data.
fn levels() -> Result<Vec<Number>, BadStand> {
    let [stores, user, kernel] = WAYS.map(|(way, _)| one_way_us(way, 4));
    let (stores, user, kernel) = (stores?, user?, kernel?);
    let spin = |way| dma_us(way, 4, Notice::Spin);
    let returned = spin(Way::KernelDma)? - spin(Way::UserDma)? - (kernel - user);
    Ok(vec![
        ("trams-user", user),
        ("trams-kernel", kernel),
        ("trams-return", returned),
        ("trams-short", stores / user),
    ])
}

/// Compares rates.
fn rates(facts: &Facts, config: &Config) -> Result<Vec<Number>, BadStand> {
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
        ("trams-stores", facts.worst("trams-stores", stores)),
        ("trams-reverse", dma / long),
        ("trams-levels", least),
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

fn cpu_left() -> Result<Vec<Curve>, BadStand> {
    let left = |during: Way, way: Way, bytes: u32| {
        Ok((dma_us(during, bytes, Notice::Word)? - cpu_lost_us(way, bytes)?).max(0.0))
    };
    let (user, kernel) = (Way::UserDma, Way::KernelDma);
    let curves = [
        ("stores, while a user-level DMA would run", user, Way::Stores),
        ("DMA, user level", user, user),
        ("stores, while a kernel DMA would run", kernel, Way::Stores),
        ("DMA, kernel", kernel, kernel),
    ];
    let curve = |(name, during, way)| Curve::of(name, SIZES, |bytes| left(during, way, bytes));
    curves.into_iter().map(curve).collect()
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

/// The engine's own time for a block \[ns\], with the reason for it.
const ENGINE: [(u64, &str); 4] = [
    (0, "the bus alone limits the engine"),
    (280, "75 MB/s: DMA of D310 cards at 70 to 85 MB/s (background)"),
    (660, "52 MB/s: as far below stores as bus-master reads are above (assumed)"),
    (850, "the engine of SCINET's card (the preset)"),
];

/// Returns the rows of variants: how slow the engine of the card is.
pub fn engines(facts: &Facts) -> Result<Vec<Vec<String>>, BadStand> {
    let mut rows = Vec::new();
    for (ns, reason) in ENGINE {
        let mut config = preset::trams();
        config.engine.block = Duration::from_ns(ns);
        let numbers = rates(facts, &config)?;
        let mut row = vec![format!("{ns} ns"), reason.to_string()];
        for id in ["trams-reverse", "trams-levels"] {
            let of = numbers.iter().find(|number| number.0 == id).expect("a rate");
            row.push(facts.shown(id, of.1));
        }
        rows.push(row);
    }
    Ok(rows)
}
