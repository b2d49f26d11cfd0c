//! Moves the bytes of a job: by stores of the processor below a size, by the DMA engine above.
//!
//! A store does not report its end, so a check follows: the processor waits until all its stores
//! are answered and reads the error counters (SISCI calls this a sequence). A job is `Copied` when
//! the processor or the engine has finished with its bytes.

use crate::core::agenda::Schedule;
use crate::core::in_order::InOrder;
use crate::fabric::adapter::{Failure, Repeat};
use crate::host::{
    Atomic, Call, Descriptor, Direction, Entry, Host, Level, Notice, Outcome, Report, Status, Tag,
};

/// The access of a job to the other node's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// A read of this number of bytes.
    Read(u64),
    /// Adds to a word.
    FetchAdd(u64),
    /// Replaces a word if it is the first by the second.
    CompareSwap(u64, u64),
}

/// Something to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The caller's number, below 2^31.
    pub number: u64,
    /// The node whose memory is accessed.
    pub to: u32,
    /// The offset in it.
    pub offset: u64,
    /// The access.
    pub action: Action,
    /// The repetition of lost requests.
    pub repeat: Repeat,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Its bytes are not needed any more.
    Copied {
        /// The job.
        job: u64,
    },
    /// It is over; with what was read.
    Ended {
        /// The job.
        job: u64,
        /// The result.
        result: Result<Vec<u8>, Failure>,
    },
}

/// The jobs of one host that are not over.
#[derive(Debug, Default)]
pub struct Mover {
    jobs: InOrder<u64, Open>,
    crossover_bytes: u64,
}

#[derive(Debug)]
struct Open {
    job: Job,
    /// The bytes that the DMA engine has read.
    brought: Vec<u8>,
    /// The worst end of a request for its bytes.
    failure: Option<Failure>,
}

impl Open {
    fn writes(&self, to: u32, offset: u64) -> bool {
        let Action::Write(data) = &self.job.action else { return false };
        let begins = self.job.offset;
        self.job.to == to && offset >= begins && offset - begins < data.len() as u64
    }
}

fn failure_of(outcome: Outcome) -> Option<Failure> {
    match outcome {
        Outcome::Done(Status::Normal) => None,
        Outcome::Done(status) => Some(Failure::Refused(status)),
        Outcome::Lost => Some(Failure::Lost),
    }
}

/// The second call of a job: the check of its stores.
const CHECK: Tag = 1;

impl Mover {
    /// A mover that stores and loads up to `crossover_bytes`, and lets the engine do the rest.
    #[must_use]
    pub fn new(crossover_bytes: u64) -> Mover {
        Mover { jobs: InOrder::default(), crossover_bytes }
    }

    /// Takes a job of at least one byte.
    pub fn submit(&mut self, job: Job, host: &mut Host, agenda: &mut impl Schedule<Entry>) {
        let (to, offset) = (job.to, job.offset);
        let tag = job.number * 2;
        let lock = |atomic, first: u64, second: u64| {
            let data = [first.to_le_bytes(), second.to_le_bytes()].concat();
            Call::Lock { to, offset, atomic, data }
        };
        let long = |bytes: u64| bytes > self.crossover_bytes;
        let call = match &job.action {
            Action::Write(data) if long(data.len() as u64) => {
                engine(&job, Direction::Write, data.len() as u64)
            }
            Action::Read(bytes) if long(*bytes) => engine(&job, Direction::Read, *bytes),
            Action::Write(data) => Call::Store { to, offset, data: data.clone() },
            Action::Read(bytes) => Call::Load { to, offset, bytes: *bytes as u32 },
            Action::FetchAdd(add) => lock(Atomic::FetchAdd, *add, 0),
            Action::CompareSwap(expected, desired) => {
                lock(Atomic::CompareSwap, *expected, *desired)
            }
        };
        let stores = matches!(call, Call::Store { .. });
        self.jobs.insert(job.number, Open { job, brought: Vec::new(), failure: None });
        host.submit(call, tag, agenda);
        if stores {
            host.submit(Call::Check, tag + CHECK, agenda);
        }
    }

    /// Returns the repetition of a lost request of the host, as its job demands.
    #[must_use]
    pub fn repeat(&self, to: u32, offset: u64) -> Repeat {
        let found = self.jobs.values().find(|open| open.writes(to, offset));
        found.map_or(Repeat::Yes, |open| open.job.repeat)
    }

    /// A request of the host has ended. The card's error counter says only that something failed
    /// since it was read last; here it is known whose bytes these were.
    pub fn request_ended(&mut self, to: u32, offset: u64, outcome: Outcome) {
        if let Some(failure) = failure_of(outcome) {
            for open in self.jobs.values_mut().filter(|open| open.writes(to, offset)) {
                open.failure = Some(failure);
            }
        }
    }

    /// Handles a report of the host about calls and the engine's memory.
    pub fn report(
        &mut self,
        report: Report,
        host: &mut Host,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Moved> {
        match report {
            Report::Completed { tag, outcome, data } => self.completed(tag, outcome, data),
            Report::Fetch { fetch, address, bytes } => {
                let data = self.bytes_at(address, bytes as usize);
                host.supply(fetch, data, agenda);
                None
            }
            Report::Placed { address, data } => {
                let (job, at) = place(address);
                let open = self.jobs.get_mut(job)?;
                let end = at + data.len();
                open.brought.resize(open.brought.len().max(end), 0);
                open.brought[at..end].copy_from_slice(&data);
                None
            }
            _ => None,
        }
    }

    fn completed(&mut self, tag: Tag, outcome: Outcome, data: Vec<u8>) -> Option<Moved> {
        let number = tag / 2;
        let job = &self.jobs.get(number)?.job;
        let long = |bytes: u64| bytes > self.crossover_bytes;
        let stored = matches!(&job.action, Action::Write(data) if !long(data.len() as u64));
        if stored && tag % 2 != CHECK {
            return Some(Moved::Copied { job: number });
        }
        let open = self.jobs.remove(number)?;
        let data = if data.is_empty() { open.brought } else { data };
        // What a check says may be the end of another job's bytes.
        let failure = open.failure.or_else(|| failure_of(outcome).filter(|_| !stored));
        let result = failure.map_or(Ok(data), Err);
        Some(Moved::Ended { job: number, result })
    }

    fn bytes_at(&self, address: u64, bytes: usize) -> Vec<u8> {
        let (job, at) = place(address);
        match self.jobs.get(job).map(|open| &open.job.action) {
            Some(Action::Write(data)) => data.get(at..at + bytes).map(<[u8]>::to_vec),
            _ => None,
        }
        .unwrap_or_default()
    }
}

/// A job's own memory, as the engine's descriptors name it: the job above, the place below.
fn place(address: u64) -> (u64, usize) {
    (address >> 32, (address & u64::from(u32::MAX)) as usize)
}

fn engine(job: &Job, direction: Direction, bytes: u64) -> Call {
    let descriptor = Descriptor {
        direction,
        to: job.to,
        offset: job.offset,
        address: job.number << 32,
        bytes: bytes as u32,
    };
    let (level, notice) = (Level::User, Notice::Word);
    Call::Dma { descriptors: vec![descriptor], level, notice }
}
