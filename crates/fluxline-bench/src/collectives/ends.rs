//! The two ends of a trial: each is a rank of a group that joins, runs the operation and leaves.

use fluxline_core::fabric::group::{
    BarrierPath, Collected, Group, GroupConfig, GroupError, Outcome, Reduction, Request, Source,
    Values,
};
use fluxline_core::fabric::{Completion, Fabric, Key, Local, Name};
use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::pingpong::Measured;
use crate::role::{Role, Side, Site, Step, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "collectives", make };
/// The longest message or vector \[byte\].
const BYTES_MAX: u64 = 16 << 20;
/// While it joins, an end looks again after this time.
const JOIN_EVERY: Span = Span::from_ms(1);

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A message there and back.
    Message,
    /// A barrier.
    Barrier,
    /// The sum of floats.
    AllReduce,
}

/// A call of a group.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub operation: Operation,
    /// The length of the message, or of the floats \[byte\].
    pub bytes: u64,
    pub barrier: BarrierPath,
}

/// The parameters of a trial.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    operation: Operation,
    bytes: u64,
    /// True: barriers go by the counter.
    by_counter: bool,
    repeats: u64,
    trials: u32,
}

impl Call {
    /// Returns the parameters of a trial.
    pub fn parameters(self, repeats: u64, trials: u32) -> Value {
        let Call { operation, bytes, barrier } = self;
        let by_counter = barrier == BarrierPath::Counter;
        json!(Parameters { operation, bytes, by_counter, repeats, trials })
    }
}

/// Makes one end. Errors: parameters that make no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let parameters: Parameters = serde_json::from_value(parameters.clone())
        .map_err(|error| Error::Input(format!("a trial of a group: {error}")))?;
    let Parameters { bytes, repeats, trials, .. } = parameters;
    if bytes > BYTES_MAX || repeats == 0 || trials == 0 {
        return Err(Error::Input(format!("a trial of a group cannot be {parameters:?}")));
    }
    let floats = vec![1.0; (bytes / 8) as usize];
    Ok(Box::new(End {
        parameters,
        side,
        group: None,
        phase: Phase::Joins,
        open: Open::Nothing,
        message: vec![b'a'; bytes as usize],
        values: Values::F64(floats),
        trial: 0,
        done: 0,
        began: Moment::default(),
        measured: Measured::default(),
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Joins,
    /// A barrier that is not timed: both ends are ready after it.
    Syncs,
    Runs,
    Leaves,
}

/// The call under way.
#[derive(Clone, Copy)]
enum Open {
    Nothing,
    Collective,
    Sending(Request),
    Receiving(Request),
}

struct End {
    parameters: Parameters,
    side: Side,
    group: Option<Group>,
    phase: Phase,
    open: Open,
    message: Vec<u8>,
    values: Values,
    trial: u32,
    /// Calls done in this trial; a message there and back is two.
    done: u64,
    began: Moment,
    measured: Measured,
}

fn failed(error: GroupError) -> Error {
    match error {
        GroupError::RankGone { status, .. } => Error::PeerGone { how: status.to_string() },
        other => Error::Refused(other.to_string()),
    }
}

impl End {
    /// The rank: the far end has the lower one, to which the near end connects.
    fn rank(&self) -> usize {
        usize::from(self.side == Side::Near)
    }

    fn join(&self, site: &Site, fabric: &mut dyn Fabric) -> Result<Group, Error> {
        let name = Name::parse(&format!("bench-group-{}", site.number))?;
        // The arena's key protects the link; the group is one trial's.
        let members = vec![site.peer.clone(); 2];
        let config = GroupConfig::new(name, Key(u64::from(site.number)), self.rank(), members);
        let barrier = match self.parameters.by_counter {
            true => BarrierPath::Counter,
            false => BarrierPath::Messages,
        };
        Group::new(fabric, GroupConfig { barrier, ..config }).map_err(failed)
    }

    /// Begins the next call.
    fn begin(&mut self, group: &mut Group, fabric: &mut dyn Fabric) -> Result<(), GroupError> {
        let peer = 1 - self.rank();
        self.open = match (self.phase, self.parameters.operation) {
            (Phase::Syncs, _) | (_, Operation::Barrier) => {
                group.start_barrier(fabric)?;
                Open::Collective
            }
            (_, Operation::AllReduce) => {
                group.start_all_reduce(fabric, &self.values, Reduction::Sum)?;
                Open::Collective
            }
            // The near end sends the even ones.
            (_, Operation::Message) if self.done.is_multiple_of(2) == (self.side == Side::Near) => {
                Open::Sending(group.start_send(fabric, peer, 1, Local::Bytes(&self.message))?)
            }
            (_, Operation::Message) => {
                let longest = self.parameters.bytes;
                Open::Receiving(group.start_receive(
                    fabric,
                    Source::Rank(peer),
                    Some(1),
                    longest,
                )?)
            }
        };
        Ok(())
    }

    /// Returns true if the call under way is over.
    fn is_over(&mut self, group: &mut Group) -> Result<bool, GroupError> {
        let is_over = match self.open {
            Open::Nothing => return Ok(false),
            Open::Collective => match group.collected().transpose()? {
                Some(Collected::AllReduced(_) | Collected::Barrier) => true,
                Some(_) => return Err(GroupError::Busy),
                None => false,
            },
            Open::Sending(request) => group.finished(request).transpose()?.is_some(),
            Open::Receiving(request) => match group.finished(request).transpose()? {
                Some(Outcome::Received(message)) => {
                    self.message = message.bytes;
                    true
                }
                Some(Outcome::Sent) => return Err(GroupError::UnknownRequest),
                None => false,
            },
        };
        if is_over {
            self.open = Open::Nothing;
        }
        Ok(is_over)
    }

    /// Counts a call that is over.
    fn count(&mut self, now: Moment) {
        if self.phase == Phase::Syncs {
            (self.phase, self.done, self.began) = (Phase::Runs, 0, now);
            return;
        }
        self.done += 1;
        let each = if self.parameters.operation == Operation::Message { 2 } else { 1 };
        if self.done < each * self.parameters.repeats {
            return;
        }
        let elapsed_s = now.since(self.began).as_ns() as f64 / 1e9;
        self.measured.seconds.push(elapsed_s / self.parameters.repeats as f64);
        self.trial += 1;
        self.phase =
            if self.trial == self.parameters.trials { Phase::Leaves } else { Phase::Syncs };
    }

    /// Goes on with the group; returns true if a call began or ended.
    fn work(
        &mut self,
        group: &mut Group,
        fabric: &mut dyn Fabric,
        now: Moment,
    ) -> Result<bool, GroupError> {
        match self.phase {
            Phase::Joins => {
                let has_joined = group.has_joined()?;
                if has_joined {
                    self.phase = Phase::Syncs;
                }
                Ok(has_joined)
            }
            Phase::Leaves => Ok(false),
            Phase::Syncs | Phase::Runs => {
                if matches!(self.open, Open::Nothing) {
                    self.begin(group, fabric)?;
                }
                let is_over = self.is_over(group)?;
                if is_over {
                    self.count(now);
                    if self.phase == Phase::Leaves {
                        group.start_leave();
                    }
                }
                Ok(is_over)
            }
        }
    }
}

impl Role for End {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut group = match self.group.take() {
            Some(group) => group,
            None => self.join(site, fabric)?,
        };
        while let Some(what) = group.poll(fabric, now) {
            if let Completion::Broken { endpoint, status } = what
                && endpoint == site.endpoint
            {
                return Err(Error::PeerGone { how: status.to_string() });
            }
        }
        let worked = self.work(&mut group, fabric, now).map_err(failed)?;
        if self.phase == Phase::Leaves && group.has_left(fabric).map_err(failed)? {
            group.close(fabric);
            return Ok(Step::Done);
        }
        self.group = Some(group);
        Ok(match (self.phase, worked) {
            (_, true) => Step::Worked,
            (Phase::Joins, false) => Step::Idle(Some(now + JOIN_EVERY)),
            (_, false) => Step::Idle(None),
        })
    }

    fn outcome(&mut self) -> Value {
        serde_json::to_value(&self.measured).unwrap_or_default()
    }
}
