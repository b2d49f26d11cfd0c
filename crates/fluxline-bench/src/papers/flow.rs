//! A flow: operations of one kind and size, in batches with one doorbell each, several under way.
//!
//! A batch is posted without a poll between its operations. A link that works when it is polled, as
//! Ethernet's endpoint, then carries it with one system call, or in one train. Only its last put
//! notifies the far side (the doorbell) and completes.

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, Fabric, Level, Local, Operation, Work};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::show;
use crate::Error;
use crate::role::{self, END, FarEnd, Role, Side, Site, Step, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "flow", make };
/// Completions handled in one step at most, and batches begun.
const STEP_MAX: u32 = 64;
/// Blocks begin at multiples of this \[byte\]: a line of the cache, and SCI's buffers. Source:
/// published figure 12, blocks "aligned to 64 B".
const GRID_BYTES: u64 = 64;

/// The operation of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Writes into the peer's memory.
    Put,
    /// Reads from it.
    Get,
}

/// The parameters of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The operation.
    pub kind: Kind,
    /// The size of an operation \[byte\].
    pub bytes: u64,
    /// The number of operations in a batch.
    pub combined: u64,
    /// The largest number of batches under way.
    pub depth: u64,
    /// The number of batches.
    pub batches: u64,
}

/// The result of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flowed {
    /// From the first post to the last completion \[s\].
    pub seconds: f64,
    /// Of single batches, from post to completion: p50, p99, the longest \[ns\].
    pub batch_ns: [u64; 3],
}

impl Flowed {
    /// Time of a batch in the mean \[s\].
    #[must_use]
    pub fn of_batch(&self, flow: &Flow) -> f64 {
        self.seconds / flow.batches as f64
    }

    /// Operations per second.
    #[must_use]
    pub fn rate(&self, flow: &Flow) -> f64 {
        (flow.batches * flow.combined) as f64 / self.seconds
    }

    /// Throughput \[Gb/s\].
    #[must_use]
    pub fn gbps(&self, flow: &Flow) -> f64 {
        self.rate(flow) * flow.bytes as f64 * 8e-9
    }
}

/// Makes one end. Errors: a flow that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let flow: Flow = show::task(parameters, "a flow")?;
    let Flow { bytes, combined, depth, batches, .. } = flow;
    if [bytes, combined, depth, batches].contains(&0) || batches >= u64::from(END) {
        return Err(Error::Input(format!("a flow cannot be {flow:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(Source::new(flow)),
        Side::Far => Box::new(FarEnd::silent(if flow.kind == Kind::Put { batches } else { 0 })),
    })
}

/// The near end.
struct Source {
    flow: Flow,
    /// The number of posted batches, and of operations of the next one.
    posted: u64,
    in_batch: u64,
    /// Completions of operations that request one.
    completed: u64,
    /// The start times of the batches under way, the oldest first.
    begun: std::collections::VecDeque<Moment>,
    began: Option<Moment>,
    ended: Moment,
    times: Histogram<u64>,
    /// True: the far side was asked to end.
    said: bool,
}

impl Source {
    fn new(flow: Flow) -> Source {
        Source {
            flow,
            posted: 0,
            in_batch: 0,
            completed: 0,
            begun: std::collections::VecDeque::new(),
            began: None,
            ended: Moment::default(),
            times: role::times(),
            said: false,
        }
    }

    /// Completions that a batch brings.
    fn completions(&self) -> u64 {
        if self.flow.kind == Kind::Get { self.flow.combined } else { 1 }
    }

    fn done(&self) -> u64 {
        self.completed / self.completions()
    }

    /// Returns the offset of an operation, in either half.
    fn offset(&self, site: &Site) -> u64 {
        let stride = self.flow.bytes.next_multiple_of(GRID_BYTES);
        let places = (site.half_bytes / stride).max(1).min(self.flow.combined);
        self.in_batch % places * stride
    }

    fn work(&self, site: &Site) -> Work<'static> {
        let (at, bytes) = (self.offset(site), self.flow.bytes);
        match self.flow.kind {
            Kind::Get => Work::Get { from: site.there(at), into: site.incoming(at, bytes) },
            Kind::Put => {
                let last = self.in_batch + 1 == self.flow.combined;
                Work::Put {
                    from: Local::Region(site.outgoing(at, bytes)),
                    to: site.there(at),
                    notify: last.then(|| site.notice(self.posted as u32)),
                    complete_at: last.then_some(Level::Placed),
                }
            }
        }
    }

    /// Posts batches up to the depth; returns true if it posted.
    fn post(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if self.posted == self.flow.batches || self.posted - self.done() >= self.flow.depth {
                break;
            }
            while self.in_batch < self.flow.combined {
                if !site.post(fabric, 0, self.work(site))? {
                    return Ok(worked);
                }
                if self.in_batch == 0 {
                    self.begun.push_back(now);
                    self.began.get_or_insert(now);
                }
                self.in_batch += 1;
                worked = true;
            }
            (self.posted, self.in_batch) = (self.posted + 1, 0);
        }
        Ok(worked)
    }

    fn complete(&mut self, now: Moment) {
        self.completed += 1;
        if self.completed.is_multiple_of(self.completions())
            && let Some(begun) = self.begun.pop_front()
        {
            self.times.saturating_record(now.since(begun).as_ns().max(1));
            self.ended = now;
        }
    }

    fn check_space(&self, site: &Site) -> Result<(), Error> {
        let max = site.half_bytes.min(site.capabilities.operation_bytes_max);
        if self.flow.bytes <= max {
            return Ok(());
        }
        let bytes = self.flow.bytes;
        let what = format!("blocks of {bytes} B are too long here; at most {max} B (--sizes)");
        Err(Error::Input(what))
    }
}

impl Role for Source {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        if self.began.is_none() {
            self.check_space(site)?;
        }
        let mut worked = site.poll_each(fabric, now, STEP_MAX, |what, _| {
            let ours = [Operation::Put, Operation::Get];
            if matches!(what, Completion::Done { operation, .. } if ours.contains(&operation)) {
                self.complete(now);
            }
            Ok(())
        })?;
        worked |= self.post(site, fabric, now)?;
        if self.done() == self.flow.batches {
            if self.said {
                return Ok(Step::Done);
            }
            self.said = site.say(fabric, END)?;
            worked |= self.said;
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        let at = |part| self.times.value_at_quantile(part);
        let seconds = self.ended.since(self.began.unwrap_or_default()).as_ns() as f64 / 1e9;
        let batch_ns = [at(0.5), at(0.99), self.times.max()];
        serde_json::to_value(Flowed { seconds, batch_ns }).unwrap_or_default()
    }
}
