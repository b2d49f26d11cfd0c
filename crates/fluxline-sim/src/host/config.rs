//! The configuration of a machine. Presets: [`super::preset`].

use crate::{Clock, Duration};

/// The configuration of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its processor.
    pub cpu: Cpu,
    /// Its PCI bus and host bridge.
    pub bus: Bus,
    /// Its SCI card.
    pub card: Card,
    /// The card's DMA engine.
    pub engine: Engine,
    /// The costs of drivers and operating system.
    pub software: Software,
}

/// A processor, from the card's point of view: one instruction stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Fixed cost of a store, load or lock call: the call and its loop.
    pub call: Duration,
    /// Bytes of one store or load instruction.
    pub word_bytes: u32,
    /// Time for one store instruction to device memory, without the bus.
    pub store_word: Duration,
    /// Write-combining buffers; `None`: every store goes to the host bridge separately.
    pub combining: Option<Combining>,
    /// Slow-down of computing while the DMA engine has work \[percent of the speed\].
    pub slow_down_percent: u32,
    /// Time from "in memory" to "a polling program has seen it": one cache miss.
    pub poll_notice: Duration,
}

/// Write-combining buffers of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combining {
    /// Bytes of a buffer; a power of two, at most a stream.
    pub bytes: u32,
    /// The number of buffers.
    pub buffers: u32,
    /// Time without a store after which a buffer is written out.
    pub linger: Duration,
}

/// A PCI bus with its host bridge. An overhead is the number of bus clocks of a burst beyond those
/// of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The bus clock.
    pub clock: Clock,
    /// Bytes carried in one clock.
    pub width_bytes: u32,
    /// Longest burst that the host bridge makes from stores without write combining \[byte\].
    pub store_burst_bytes: u32,
    /// Bursts that the host bridge holds before the processor must wait.
    pub posted_bursts: u32,
    /// Overhead of a burst of stores \[clock\].
    pub store_clocks: u32,
    /// Overhead of a load, without the wait for the network \[clock\].
    pub load_clocks: u32,
    /// Pause between a refused store and its repetition \[clock\].
    pub retry_clocks: u32,
    /// Longest burst from the card into memory \[byte\].
    pub write_burst_bytes: u32,
    /// Overhead of it \[clock\].
    pub write_clocks: u32,
    /// Longest burst from memory to the card \[byte\].
    pub read_burst_bytes: u32,
    /// Overhead of it \[clock\].
    pub read_clocks: u32,
}

/// An SCI card: PCI-to-SCI bridge, internal bus (B-Link) and link controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Number of write streams (buffers) that stores may use at once, those that are "combined".
    pub streams: u32,
    /// Bytes of a stream; a power of two, at least 16.
    pub stream_bytes: u32,
    /// Time to bind a stream to a new block.
    pub claim: Duration,
    /// Time without a store after which a gathering stream is sent.
    pub gather_timeout: Duration,
    /// The packets that carry stores.
    pub posting: Posting,
    /// True if loads fetch a whole stream ahead.
    pub prefetch: bool,
    /// Latency from the bus to the link, before the serial part.
    pub out_latency: Duration,
    /// Latency from the link to the bus, before the serial part.
    pub in_latency: Duration,
    /// Rate of the internal bus, which each packet crosses as a whole \[MB/s\].
    pub internal_mb_per_s: u32,
    /// Requests from the network that the card holds at once.
    pub incoming_slots: u32,
    /// The address translation cache.
    pub translation: Translation,
}

/// The packets that carry stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// Writes: a stream is busy until the response.
    Write,
    /// Moves: a stream is busy until the echo.
    MoveUntilEcho,
    /// Moves: a stream is free as soon as the packet has left the card.
    Move,
}

/// The card's cache of address translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Number of pages that it holds.
    pub entries: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The cost of a miss.
    pub miss: Duration,
}

/// A DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The control of the engine.
    pub control: Control,
    /// Processor time to write a descriptor into registers, or to start a list.
    pub kick: Duration,
    /// Time from the start of an idle engine to its first bus access.
    pub start: Duration,
    /// Time of the engine itself for each block of up to 64 bytes, besides the bus.
    pub block: Duration,
    /// Number of streams that it writes with at once.
    pub writes_outstanding: u32,
    /// Most reads between their request and the memory.
    pub reads_outstanding: u32,
}

/// The control of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The processor writes each descriptor into a set of registers.
    Registers {
        /// The number of sets: descriptors that the engine holds, the current one included.
        depth: u32,
    },
    /// The engine itself fetches descriptors from memory.
    List {
        /// Bytes of a descriptor.
        bytes: u32,
    },
}

/// The costs of drivers and operating system, in processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// Time from the program into the driver.
    pub kernel_entry: Duration,
    /// Time from the driver back to the program.
    pub kernel_return: Duration,
    /// Time from an interrupt to the program that waits for it.
    pub interrupt: Duration,
    /// Time to read the engine's status register once.
    pub status_read: Duration,
    /// Time of the error check itself, after the streams are idle.
    pub check: Duration,
}

/// A reason why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// A value is 0 that must not be 0.
    #[error("host: {0} is 0; give at least 1")]
    Zero(&'static str),
    /// A size is not a power of two, or is out of range.
    #[error("host: {name} is {bytes} B; give a power of two from {least} to {most} B")]
    Size {
        /// The name of the value.
        name: &'static str,
        /// The value \[byte\].
        bytes: u32,
        /// The smallest allowed value \[byte\].
        least: u32,
        /// The largest allowed value \[byte\].
        most: u32,
    },
    /// The slow-down leaves the processor no speed.
    #[error("host: the slow-down by DMA is {0} %; give less than 100 %")]
    SlowDown(u32),
}

impl Config {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`BadConfig`]: the first thing that is wrong.
    pub fn check(&self) -> Result<(), BadConfig> {
        let counts = [
            ("the number of streams", self.card.streams),
            ("the rate of the card's internal bus", self.card.internal_mb_per_s),
            ("the number of incoming slots", self.card.incoming_slots),
            ("the number of cached translations", self.card.translation.entries),
            ("the number of posted bursts", self.bus.posted_bursts),
            ("the number of DMA writes at once", self.engine.writes_outstanding),
            ("the number of DMA reads at once", self.engine.reads_outstanding),
            ("the page of a translation", self.card.translation.page_bytes.min(1) as u32),
            ("the engine's depth", self.engine.control.depth_or(1)),
            ("the number of combining buffers", self.cpu.combining.map_or(1, |wc| wc.buffers)),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(BadConfig::Zero(name));
        }
        let stream = self.card.stream_bytes;
        let sizes = [
            ("a stream", stream, 16, 64),
            ("a word of the processor", self.cpu.word_bytes, 1, 16),
            ("a combining buffer", self.cpu.combining.map_or(16, |wc| wc.bytes), 4, stream),
            ("the width of the bus", self.bus.width_bytes, 4, 16),
            ("a burst of stores", self.bus.store_burst_bytes, 4, stream),
            ("a burst into memory", self.bus.write_burst_bytes, 4, 4096),
            ("a burst out of memory", self.bus.read_burst_bytes, 4, 4096),
        ];
        for (name, bytes, least, most) in sizes {
            if !bytes.is_power_of_two() || !(least..=most).contains(&bytes) {
                return Err(BadConfig::Size { name, bytes, least, most });
            }
        }
        match self.cpu.slow_down_percent {
            percent if percent < 100 => Ok(()),
            percent => Err(BadConfig::SlowDown(percent)),
        }
    }
}

impl Control {
    /// Returns the number of register sets of the engine, or `list` for an engine with a list.
    const fn depth_or(self, list: u32) -> u32 {
        match self {
            Control::Registers { depth } => depth,
            Control::List { .. } => list,
        }
    }
}
