//! The two ends of an exchange on a fabric: ping-pong, stream, and both ways at once.
//!
//! Both ends are the same state machine and differ only in when they may send. A trial begins with
//! a word there and back that is not timed (NetPIPE's Sync): then both ends are ready.

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, Fabric, Local, Operation, Work};
use hdrhistogram::Histogram;
use serde_json::Value;

use super::buffer::{CacheFlush, MessageId};
use super::{Measured, Mode, Task, Way};
use crate::Error;
use crate::role::{self, Role, Side, Site, Step, Transfer, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "exchange", make };
/// The notification of the word before a trial; never the number of a message.
const SYNC: u32 = 0xFF_FFFF;
/// The notification by which the near end cuts the exchange short; never the number of a message.
const CUT: u32 = 0xFF_FFFE;
/// Completions handled, and messages posted, in one step at most.
const STEP_MAX: u32 = 64;

/// Makes one end. Errors: a task that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let task = Task::read(parameters)?;
    Ok(Box::new(Exchange::new(task, side)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The word before a trial has to be sent.
    Greets,
    /// The peer's word has to arrive.
    Awaits,
    /// Messages are exchanged.
    Runs,
    /// The word that cuts the trial short has to be sent.
    Cuts,
    /// All trials are over.
    Over,
}

struct Exchange {
    task: Task,
    side: Side,
    phase: Phase,
    /// The number of the trial, and of the messages sent and received in it.
    trial: u32,
    sent: u64,
    received: u64,
    /// True: a buffer waits for the next message.
    posted: bool,
    /// A message that is not posted whole.
    going: Option<Transfer>,
    began: Moment,
    before: Moment,
    trips: Histogram<u64>,
    measured: Measured,
    flush: CacheFlush,
    scratch: Vec<u8>,
}

impl Exchange {
    fn new(task: Task, side: Side) -> Exchange {
        let phase = if side == Side::Near { Phase::Greets } else { Phase::Awaits };
        Exchange {
            task,
            side,
            phase,
            trial: 0,
            sent: 0,
            received: 0,
            posted: false,
            going: None,
            began: Moment::default(),
            before: Moment::default(),
            trips: role::times(),
            measured: Measured::default(),
            flush: CacheFlush::new(&task),
            scratch: Vec::new(),
        }
    }

    fn sends(&self) -> bool {
        self.task.mode != Mode::Stream || self.side == Side::Near
    }

    fn receives(&self) -> bool {
        self.task.mode != Mode::Stream || self.side == Side::Far
    }

    fn may_send(&self) -> bool {
        self.sent < self.task.repeats
            && match (self.task.mode, self.side) {
                (Mode::PingPong, Side::Far) => self.sent < self.received,
                (Mode::Stream, Side::Near) => true,
                (Mode::Stream, Side::Far) => false,
                _ => self.sent == self.received,
            }
    }

    fn is_trial_over(&self) -> bool {
        let all = self.task.repeats;
        (!self.sends() || self.sent == all && self.going.is_none())
            && (!self.receives() || self.received == all)
    }

    /// A transfer of one byte as the word before a trial.
    fn greet(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        if self.going.is_none() {
            self.flush.flush();
            self.going = Some(Transfer::new(0, 0, 1, SYNC));
        }
        self.go_on(site, fabric)
    }

    /// Posts more of the message under way; `true`: all of it is posted.
    fn go_on(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let Some(transfer) = &mut self.going else { return Ok(true) };
        if !transfer.step(site, fabric)? {
            return Ok(false);
        }
        self.going = None;
        Ok(true)
    }

    fn send(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let offset = self.task.offset(self.sent);
        if self.task.checked {
            self.fill(site, offset)?;
        }
        match self.task.way {
            Way::Put => {
                let notice = (self.sent % u64::from(CUT)) as u32;
                self.going = Some(Transfer::new(offset, offset, self.task.bytes, notice));
                self.sent += 1;
                self.go_on(site, fabric)
            }
            Way::Message => {
                let from = Local::Region(site.outgoing(offset, self.task.bytes));
                let work = Work::Send { from, complete_at: None };
                let taken = site.post(fabric, 0, work)?;
                self.sent += u64::from(taken);
                Ok(taken)
            }
        }
    }

    /// Posts the buffer for the next message, if that is needed.
    fn post_buffer(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<(), Error> {
        let expects = self.received < self.task.repeats || self.trial + 1 < self.task.trials;
        if self.task.way == Way::Message && !self.posted && expects {
            let number = if self.received < self.task.repeats { self.received } else { 0 };
            let into = site.incoming(self.task.offset(number), self.task.bytes);
            fabric.post_receive(site.endpoint, 0, into)?;
            self.posted = true;
        }
        Ok(())
    }

    fn arrived(&mut self, site: &Site, now: Moment) -> Result<(), Error> {
        if self.task.checked {
            self.compare(site, self.task.offset(self.received))?;
        }
        self.received += 1;
        // The least that is recorded: a histogram has no zero.
        let trip = now.since(self.before).as_ns().max(1);
        self.trips.saturating_record(trip);
        self.before = now;
        Ok(())
    }

    fn message(&self, number: u64) -> MessageId {
        MessageId { trial: self.trial, number }
    }

    fn fill(&mut self, site: &Site, offset: u64) -> Result<(), Error> {
        let pattern = self.message(self.sent).pattern();
        self.scratch.clear();
        self.scratch.extend((0..self.task.bytes as usize).map(pattern));
        site.memory.write(site.half_bytes + offset, &self.scratch)?;
        Ok(())
    }

    fn compare(&mut self, site: &Site, offset: u64) -> Result<(), Error> {
        self.scratch.resize(self.task.bytes as usize, 0);
        site.memory.read(offset, &mut self.scratch)?;
        let checked = self.message(self.received).check(&self.scratch);
        checked.map_err(|what| Error::Defect { what })?;
        self.measured.compared_bytes += self.task.bytes;
        Ok(())
    }

    fn handle(&mut self, what: &Completion, site: &Site, now: Moment) -> Result<(), Error> {
        match *what {
            Completion::Notified { value, .. } => match site.noticed(value) {
                Some(SYNC) => self.synced(now),
                Some(CUT) => {
                    self.end_cut(now);
                    self.phase = Phase::Over;
                    Ok(())
                }
                Some(number) if self.task.way == Way::Put => {
                    let expected = self.received % u64::from(CUT);
                    if u64::from(number) != expected {
                        let what = format!("message {number} came instead of {expected}");
                        return Err(Error::Defect { what });
                    }
                    self.arrived(site, now)
                }
                _ => Ok(()),
            },
            Completion::Done { operation: Operation::Receive, value, .. } => {
                self.posted = false;
                if value != self.task.bytes {
                    let what = format!("{value} B came instead of {}", self.task.bytes);
                    return Err(Error::Defect { what });
                }
                self.arrived(site, now)
            }
            _ => Ok(()),
        }
    }

    fn synced(&mut self, now: Moment) -> Result<(), Error> {
        if self.phase != Phase::Awaits {
            return Err(Error::Defect { what: "a trial began twice".to_owned() });
        }
        // The far side answers first.
        self.phase = if self.side == Side::Near { Phase::Runs } else { Phase::Greets };
        (self.began, self.before) = (now, now);
        Ok(())
    }

    fn end_trial(&mut self, now: Moment) {
        let repeats = self.task.repeats as f64;
        self.measured.seconds.push(now.since(self.began).as_ns() as f64 / 1e9 / repeats);
        (self.sent, self.received) = (0, 0);
        self.trial += 1;
        self.phase = match (self.trial == self.task.trials, self.side) {
            (true, _) => Phase::Over,
            (false, Side::Near) => Phase::Greets,
            (false, Side::Far) => Phase::Awaits,
        };
    }

    /// Returns true if the trial lasts too long: another program has a core most of the time.
    /// Not with messages: a buffer would stay behind.
    fn is_too_long(&self, now: Moment) -> bool {
        let limit_ns = self.task.limit_ms.saturating_mul(1_000_000);
        let is_between = self.task.mode == Mode::Stream || self.sent == self.received;
        limit_ns > 0
            && self.side == Side::Near
            && self.task.way == Way::Put
            && self.sent > 0
            && is_between
            && self.going.is_none()
            && now.since(self.began).as_ns() > limit_ns
    }

    /// The time of a repeat from those that were done.
    fn end_cut(&mut self, now: Moment) {
        let done = if self.receives() { self.received } else { self.sent };
        if done > 0 {
            let elapsed_ns = now.since(self.began).as_ns() as f64;
            self.measured.seconds.push(elapsed_ns / 1e9 / done as f64);
        }
    }

    /// Sends the messages that may be sent; returns true if there was one.
    fn run(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if !self.go_on(site, fabric)? || !self.may_send() || self.is_too_long(now) {
                break;
            }
            // The buffer for the answer first.
            self.post_buffer(site, fabric)?;
            if !self.send(site, fabric)? {
                break;
            }
            worked = true;
        }
        Ok(worked)
    }
}

impl Role for Exchange {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        if self.trial == 0 && self.received == 0 {
            self.check_space(site)?;
        }
        let mut worked = false;
        self.post_buffer(site, fabric)?;
        for _ in 0..STEP_MAX {
            let Some(what) = site.poll(fabric, now)? else { break };
            worked = true;
            self.handle(&what, site, now)?;
            // Messages after the trial's last belong to the next trial.
            if self.phase == Phase::Runs && (self.may_send() || self.is_trial_over()) {
                break;
            }
        }
        if self.phase == Phase::Greets && self.greet(site, fabric)? {
            self.phase = if self.side == Side::Near { Phase::Awaits } else { Phase::Runs };
            worked = true;
        }
        if self.phase == Phase::Runs {
            worked |= self.run(site, fabric, now)?;
            if self.is_trial_over() {
                self.end_trial(now);
            } else if self.is_too_long(now) {
                self.end_cut(now);
                self.going = Some(Transfer::new(0, 0, 1, CUT));
                self.phase = Phase::Cuts;
            }
        }
        if self.phase == Phase::Cuts && self.go_on(site, fabric)? {
            self.phase = Phase::Over;
        }
        Ok(match (self.phase, worked) {
            (Phase::Over, _) => Step::Done,
            (_, true) => Step::Worked,
            (_, false) => Step::Idle(None),
        })
    }

    fn outcome(&mut self) -> Value {
        // Several messages of a stream arrive in one poll:
        // the time between two of them says nothing.
        if self.task.mode == Mode::PingPong && !self.trips.is_empty() {
            let at = |part| self.trips.value_at_quantile(part);
            self.measured.repeat_ns = Some([at(0.5), at(0.99), at(0.999), self.trips.max()]);
        }
        serde_json::to_value(&self.measured).unwrap_or_default()
    }
}

impl Exchange {
    fn check_space(&self, site: &Site) -> Result<(), Error> {
        let bytes = self.task.bytes;
        let max = match self.task.way {
            Way::Put => site.half_bytes,
            Way::Message => site.half_bytes.min(site.capabilities.message_bytes_max),
        };
        if bytes > max {
            return Err(Error::Input(format!(
                "messages of {bytes} B are too long here; ask for at most {max} B (--sizes)"
            )));
        }
        Ok(())
    }
}
