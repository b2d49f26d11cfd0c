//! What a machine is made of, as numbers. Presets: [`super::preset`].

use crate::{Clock, Duration};

/// A machine.
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

/// A processor as the card sees it: one instruction stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Fixed cost of a store, load or lock call: loop and call.
    pub call: Duration,
    /// Bytes of one store or load instruction.
    pub word_bytes: u32,
    /// Time for one store instruction to device memory, bus not counted.
    pub store_word: Duration,
    /// Write-combining buffers; `None`: every store goes to the host bridge by itself.
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
    /// After so long without a store a buffer is written out.
    pub linger: Duration,
}

/// A PCI bus with its host bridge. All overheads are bus clocks of a burst besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The bus clock.
    pub clock: Clock,
    /// Bytes of a data clock.
    pub width_bytes: u32,
    /// Longest burst that the host bridge makes of stores without write combining \[byte\].
    pub store_burst_bytes: u32,
    /// Bursts that the host bridge holds before the processor must wait.
    pub posted_bursts: u32,
    /// Overhead of a burst of stores \[clock\].
    pub store_clocks: u32,
    /// Overhead of a load, the wait for the network not counted \[clock\].
    pub load_clocks: u32,
    /// From a refused store to its repetition \[clock\].
    pub retry_clocks: u32,
    /// Longest burst of the card into memory \[byte\].
    pub write_burst_bytes: u32,
    /// Overhead of it \[clock\].
    pub write_clocks: u32,
    /// Longest burst of the card out of memory \[byte\].
    pub read_burst_bytes: u32,
    /// Overhead of it \[clock\].
    pub read_clocks: u32,
}

/// An SCI card: PCI-to-SCI bridge, internal bus (B-Link) and link controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Write streams (buffers) that stores may use at once: how many are "combined".
    pub streams: u32,
    /// Bytes of a stream; a power of two, at least 16.
    pub stream_bytes: u32,
    /// Time to bind a stream to another block than its last.
    pub claim: Duration,
    /// A gathering stream that gets nothing for so long is sent.
    pub gather_timeout: Duration,
    /// The packets that carry stores.
    pub posting: Posting,
    /// True if loads fetch a whole stream ahead.
    pub prefetch: bool,
    /// From the bus to the link, in front of the serial part.
    pub out_latency: Duration,
    /// From the link to the bus, in front of the serial part.
    pub in_latency: Duration,
    /// Bytes a microsecond (MB/s) of the internal bus, which each packet crosses whole.
    pub internal_mb_per_s: u32,
    /// Requests from the network that the card holds at once.
    pub incoming_slots: u32,
    /// The address translation cache.
    pub translation: Translation,
}

/// The packets that carry stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// As writes: a stream is busy until the response.
    Write,
    /// As moves: a stream is busy until the echo.
    MoveUntilEcho,
    /// As moves: a stream is free as soon as the packet has left the card.
    Move,
}

/// The card's cache of address translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Pages that it holds.
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
    /// Processor time for one kick: a descriptor into registers, or the start of a list.
    pub kick: Duration,
    /// From the kick of an idle engine to its first bus access.
    pub start: Duration,
    /// Streams that it writes with at once.
    pub writes_outstanding: u32,
    /// Reads that the network has not answered at once.
    pub reads_outstanding: u32,
}

/// The control of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The processor writes each descriptor into registers, of which there are so many sets.
    Registers {
        /// Descriptors that the engine holds, the one under way included.
        depth: u32,
    },
    /// The engine fetches descriptors of so many bytes from memory by itself.
    List {
        /// Bytes of a descriptor.
        bytes: u32,
    },
}

/// The costs of drivers and operating system, in processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// From the program into the driver.
    pub kernel_entry: Duration,
    /// From the driver back to the program.
    pub kernel_return: Duration,
    /// From an interrupt to the program that waits for it.
    pub interrupt: Duration,
    /// One look at the engine's status register.
    pub status_read: Duration,
    /// The error check itself, after the streams are idle.
    pub check: Duration,
}

/// A reason why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// A number that must not be 0.
    #[error("host: {0} is 0; give at least 1")]
    Zero(&'static str),
    /// A size that is no power of two or does not fit.
    #[error("host: {name} is {bytes} B; give a power of two from {least} to {most} B")]
    Size {
        /// The name of the value.
        name: &'static str,
        /// The value \[byte\].
        bytes: u32,
        /// Least \[byte\].
        least: u32,
        /// Most \[byte\].
        most: u32,
    },
    /// A computer that stands still.
    #[error("host: the slow-down by DMA is {0} %; give less than 100 %")]
    SlowDown(u32),
}

impl Config {
    /// Checks whether a machine can be built of it.
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
    /// Descriptors that it holds when it has registers, otherwise `list`.
    const fn depth_or(self, list: u32) -> u32 {
        match self {
            Control::Registers { depth } => depth,
            Control::List { .. } => list,
        }
    }
}
