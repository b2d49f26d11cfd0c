//! One end of a trial: a state machine over a fabric and the time.
//!
//! It neither waits nor reads a clock. So the same role runs on a real link, polled without a
//! pause, and in virtual time on a simulated cluster.

mod far_end;
mod join;

use std::sync::Arc;

use fluxline_core::fabric::group::is_group_tag;
use fluxline_core::fabric::{
    Capabilities, Completion, EndpointId, Fabric, Local, Memory, PostError, RegionId, RemoteId,
    Slice, Target, Work,
};
use fluxline_core::{Moment, Span};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
pub use far_end::{Answer, Answers, Arrival, FarEnd, Silence};
pub use join::{JoinConfig, Joining};

/// The end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The end that measures.
    Near,
    /// The other end.
    Far,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The role worked; step again at once.
    Worked,
    /// The role computed. In virtual time that takes as long as given here, in real time as long as
    /// it took. Step again at once.
    Computed(Span),
    /// No work until this moment (`None`: until something arrives).
    Idle(Option<Moment>),
    /// This end is done; it is not stepped again.
    Done,
}

impl Step {
    /// Returns [`Step::Worked`], or otherwise idle until something arrives.
    #[must_use]
    pub fn worked_if(worked: bool) -> Step {
        if worked { Step::Worked } else { Step::Idle(None) }
    }
}

/// One end of a trial.
///
/// A role that is done leaves nothing behind: its buffers are used, and its work is complete.
pub trait Role {
    /// Does the work that is possible now. Errors end the trial.
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error>;

    /// Returns the measurement; called once, after [`Step::Done`].
    fn outcome(&mut self) -> Value;
}

/// Makes one end of a trial from its parameters.
pub type Make = fn(&Value, Side) -> Result<Box<dyn Role>, Error>;

/// A kind of trial: a name for both sides, and a function that makes either end.
pub struct TrialKind {
    /// The name between the two sides.
    pub name: &'static str,
    /// Makes one end. Errors: parameters that make no sense.
    pub make: Make,
}

/// The connection that a trial runs over, and a region at each end that both sides may use.
///
/// Each region, the arena, has two halves: the peer writes the first, the owner sends from the
/// second. It is made once, so that a trial needs no set-up of memory.
#[derive(Clone)]
pub struct Site {
    /// The end that this is.
    pub side: Side,
    /// The connection: reliable.
    pub endpoint: EndpointId,
    /// The peer's name, to connect to it once more.
    pub peer: String,
    /// The own arena.
    pub own: RegionId,
    /// Its memory.
    pub memory: Arc<dyn Memory>,
    /// The peer's arena.
    pub remote: RemoteId,
    /// Half an arena \[byte\].
    pub half_bytes: u64,
    /// The capabilities of the link.
    pub capabilities: Capabilities,
    /// The number of the trial, in the upper eight bits of each notification: a late notification
    /// of an earlier trial is recognized.
    pub number: u8,
}

/// The bits of a notification's value that the caller may use.
const VALUE_BITS: u32 = 24;

impl Site {
    /// Makes a notification's value for this trial; `value` counts modulo 2^24.
    #[must_use]
    pub fn notice(&self, value: u32) -> u32 {
        u32::from(self.number) << VALUE_BITS | value & ((1 << VALUE_BITS) - 1)
    }

    /// Returns the caller's part of a notification's value; `None`: it is another trial's.
    #[must_use]
    pub fn noticed(&self, value: u32) -> Option<u32> {
        (value >> VALUE_BITS == u32::from(self.number)).then_some(value & ((1 << VALUE_BITS) - 1))
    }

    /// Returns a piece of the half that this side sends from.
    #[must_use]
    pub fn outgoing(&self, offset: u64, bytes: u64) -> Slice {
        Slice { region: self.own, offset: self.half_bytes + offset, bytes }
    }

    /// Returns a piece of the half that the peer writes.
    #[must_use]
    pub fn incoming(&self, offset: u64, bytes: u64) -> Slice {
        Slice { region: self.own, offset, bytes }
    }

    /// Returns an offset in the half that this side writes, at the peer.
    #[must_use]
    pub fn there(&self, offset: u64) -> Target {
        Target { remote: self.remote, offset }
    }

    /// Polls the next completion. Errors: the operation failed, or the connection broke.
    pub fn poll(&self, fabric: &mut dyn Fabric, now: Moment) -> Result<Option<Completion>, Error> {
        let what = fabric.poll(now);
        match &what {
            Some(Completion::Broken { endpoint, status }) if *endpoint == self.endpoint => {
                Err(Error::PeerGone { how: status.to_string() })
            }
            // Work of a group that was closed ends with its connections.
            Some(Completion::Done { tag, operation, status, .. })
                if !status.is_done() && !is_group_tag(*tag) =>
            {
                Err(Error::Refused(format!("{operation:?}: {status}")))
            }
            _ => Ok(what),
        }
    }

    /// Polls up to `most` completions and passes each to `handle`. Returns true if there was one.
    ///
    /// Errors: as [`Site::poll`], or of `handle`.
    pub fn poll_each(
        &self,
        fabric: &mut dyn Fabric,
        now: Moment,
        most: u32,
        mut handle: impl FnMut(Completion, &mut dyn Fabric) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        for count in 0..most {
            let Some(completion) = self.poll(fabric, now)? else { return Ok(count > 0) };
            handle(completion, fabric)?;
        }
        Ok(most > 0)
    }

    /// Sends the peer a word: a notification, with a byte to the begin of its half, where messages
    /// lie. Returns false if the queue is full. Errors: refused.
    pub fn say(&self, fabric: &mut dyn Fabric, word: u32) -> Result<bool, Error> {
        Transfer::new(0, 0, 1, word).step(self, fabric)
    }

    /// Sends the peer a word beside its messages: a notification, with a byte to the end of its
    /// half. Returns false if the queue is full. Errors: refused.
    pub fn note(&self, fabric: &mut dyn Fabric, word: u32) -> Result<bool, Error> {
        let to = self.there(self.half_bytes - 1);
        let notify = Some(self.notice(word));
        let work = Work::Put { from: Local::Bytes(&[1]), to, notify, complete_at: None };
        self.post(fabric, 0, work)
    }

    /// Posts work; `false`: the queue is full, poll and post again. Errors: refused.
    pub fn post(&self, fabric: &mut dyn Fabric, tag: u64, work: Work<'_>) -> Result<bool, Error> {
        match fabric.post(self.endpoint, tag, work) {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The notification that ends the far end of a one-way trial; never the number of a message.
pub const END: u32 = (1 << VALUE_BITS) - 1;

/// Makes a histogram of times \[ns\], with three digits, up to a minute.
#[must_use]
pub fn times() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, 60_000_000_000, 3);
    made.unwrap_or_else(|error| unreachable!("bounds that are constants: {error}"))
}

/// A transfer of any length by puts, each as long as the link takes; the last one notifies.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The offset in the outgoing half.
    pub from: u64,
    /// The offset in the peer's incoming half.
    pub to: u64,
    /// The length \[byte\].
    pub bytes: u64,
    /// Value of the notification; see [`Site::notice`].
    pub notice: u32,
    /// The bytes posted so far.
    posted: u64,
    over: bool,
}

impl Transfer {
    /// A transfer that has not begun.
    #[must_use]
    pub fn new(from: u64, to: u64, bytes: u64, notice: u32) -> Transfer {
        Transfer { from, to, bytes, notice, posted: 0, over: false }
    }

    /// Posts as much as the queue takes; `true`: everything is posted. Errors: refused.
    pub fn step(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        while !self.over {
            let left = self.bytes - self.posted;
            let bytes = left.min(site.capabilities.operation_bytes_max);
            let last = bytes == left;
            let work = Work::Put {
                from: Local::Region(site.outgoing(self.from + self.posted, bytes)),
                to: site.there(self.to + self.posted),
                notify: last.then(|| site.notice(self.notice)),
                complete_at: None,
            };
            if !site.post(fabric, 0, work)? {
                return Ok(false);
            }
            self.posted += bytes;
            self.over = last;
        }
        Ok(true)
    }
}
