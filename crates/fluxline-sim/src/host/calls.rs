//! The words that a host shares with its program and its adapter: calls, accesses, reports.

use crate::Duration;

/// An access of a card to the memory of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Writes; it is answered.
    Write,
    /// Writes without an answer: done when the other side has taken it.
    Move,
    /// Reads this number of bytes: up to 16 within an aligned block of 16, or a whole block.
    Read {
        /// The number of bytes.
        bytes: u32,
    },
    /// Changes a word, and returns its old value.
    Lock(Atomic),
}

impl Access {
    /// Returns true if the other side answers.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        !matches!(self, Access::Move)
    }
}

/// An operation on a word of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds to the word.
    FetchAdd,
    /// Replaces the word if it has the expected value.
    CompareSwap,
}

/// The owner's answer to an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// The access is done.
    #[default]
    Normal,
    /// The address does not exist.
    Address,
    /// The access is not allowed there.
    Rights,
    /// The access failed for another reason.
    Failed,
}

/// The program's number of a call; [`Report::Completed`] returns it.
pub type Tag = u64;
/// The host's number of a request that it sent; `Host::finished` returns it.
pub type Handle = u64;
/// The composer's number of a request that came from the network; unique while it is served.
pub type RequestId = u64;
/// The host's number of a read of its own memory.
pub type FetchId = u64;

/// A call of a program to its processor. Calls are executed one after the other, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Stores `data` into a mapped remote region. Completed when the processor has finished it: the
    /// bytes may still be in buffers (see [`Call::Flush`]).
    Store {
        /// The node whose memory is accessed.
        to: u32,
        /// The offset there \[byte\].
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Loads `bytes` from a mapped remote region; the processor waits for each word. A load does
    /// not wait for write streams: to read back its own stores, a program needs a barrier first.
    Load {
        /// The node whose memory is accessed.
        to: u32,
        /// The offset there \[byte\].
        offset: u64,
        /// The length \[byte\].
        bytes: u32,
    },
    /// An atomic operation. The processor waits; the completion has the old value.
    Lock {
        /// The node whose memory is accessed.
        to: u32,
        /// The offset there \[byte\].
        offset: u64,
        /// The operation.
        atomic: Atomic,
        /// Its operands, as the packet carries them (at most 16 B).
        data: Vec<u8>,
    },
    /// Sends the bytes in write-combining buffers and gathering streams; does not wait for answers.
    Flush,
    /// Flushes, and waits until every write stream is idle (store barrier).
    Barrier,
    /// A barrier that also reads the card's error counters. If any store since the last check
    /// failed, the outcome is [`Outcome::Lost`] or the worst status, and the program must repeat
    /// all these stores.
    Check,
    /// Hands descriptors to the DMA engine. `notice` chooses the notice of completion.
    Dma {
        /// The transfers, done in order.
        descriptors: Vec<Descriptor>,
        /// The software that drives the engine's registers.
        level: Level,
        /// The notice of the end.
        notice: Notice,
    },
    /// Computes for a time; takes longer while the DMA engine uses memory cycles.
    Compute(Duration),
}

/// One transfer of the DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The direction of the bytes.
    pub direction: Direction,
    /// The other node.
    pub to: u32,
    /// The offset there \[byte\].
    pub offset: u64,
    /// The address in own memory \[byte\]; reports return it, and the host does not interpret it.
    pub address: u64,
    /// The length \[byte\]; 0 completes without a packet.
    pub bytes: u32,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From own memory to the other node.
    Write,
    /// From the other node into own memory.
    Read,
}

/// The software that drives the DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The program itself, through mapped registers.
    User,
    /// The operating system: one entry and one return per call.
    Kernel,
}

/// The notice that a program's DMA transfers are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The processor reads the engine's status until it is done; no later call starts before.
    Spin,
    /// A word in memory that the program reads at any time: costs no time here.
    Word,
}

/// The end of a request or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered (a move: accepted).
    Done(Status),
    /// Given up: neither an answer nor an echo came.
    Lost,
}

/// A packet that the host sends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A request. The composer gives it a transaction and reports its end by `Host::finished` (a
    /// move: when its echo came). The end of an event packet is not reported.
    Request {
        /// The host's number of it.
        handle: Handle,
        /// The receiver.
        to: u32,
        /// The access.
        access: Access,
        /// The address at the receiver.
        offset: u64,
        /// Bytes to write, operands, or nothing.
        data: Vec<u8>,
    },
    /// The answer to a request of `Host::incoming`.
    Response {
        /// The composer's number of the request.
        request: RequestId,
        /// The status.
        status: Status,
        /// The bytes read, if any.
        data: Vec<u8>,
    },
}

/// A request from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The composer's number of it.
    pub request: RequestId,
    /// The access.
    pub access: Access,
    /// The address here.
    pub offset: u64,
    /// Bytes to write, operands, or nothing.
    pub data: Vec<u8>,
}

/// A report: an event, or an access to memory that the composer must do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A call is done.
    Completed {
        /// The program's number of it.
        tag: Tag,
        /// The outcome.
        outcome: Outcome,
        /// The bytes that a load or a lock returned.
        data: Vec<u8>,
    },
    /// The processor is idle from now on.
    CpuFree,
    /// The bus transaction for a request is done: execute it on memory and call `Host::served`. A
    /// read of 64 B may reach beyond the bytes that its program wants (prefetch): answer bytes
    /// outside the memory with zeros, do not refuse them.
    Serve(Incoming),
    /// The DMA engine reads memory: call `Host::supply` with these bytes.
    Fetch {
        /// The host's number of it.
        fetch: FetchId,
        /// The address \[byte\], as in the descriptor.
        address: u64,
        /// The length \[byte\].
        bytes: u32,
    },
    /// The DMA engine wrote memory: it holds these bytes from now on.
    Placed {
        /// The address \[byte\], as in the descriptor.
        address: u64,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// The counts of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time in which the processor executed calls \[ps\].
    pub cpu_busy_ps: u64,
    /// Time in which the PCI bus was busy \[ps\].
    pub bus_busy_ps: u64,
    /// Time in which the DMA engine had work \[ps\].
    pub engine_busy_ps: u64,
    /// Bytes that calls stored.
    pub stored_bytes: u64,
    /// Bytes that left in requests, DMA included.
    pub sent_bytes: u64,
    /// Requests that left.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Streams sent before they were full.
    pub partial_streams: u64,
    /// Stores that the card refused because no stream was free (PCI retry).
    pub retries: u64,
    /// Misses of the address translation cache.
    pub translation_misses: u64,
}
