//! Execution of posted work, in the order of posting.
//!
//! SCI keeps no order between packets, so order is made here, as programs over SISCI make it: all
//! stores are answered before the next piece, or the flag that says they are there, is written.
//! If the adapter keeps jobs in order, several puts are under way at the same time, and a put is
//! one job with its notification. All other work begins when everything before it is placed.

use fluxline_core::fabric::{Completion, EndpointId, Level, Reliability, Status};

use super::{Driver, Purpose, Then};
use crate::Duration;
use crate::fabric::adapter::{Action, Failure, Hands, Repeat};
use crate::fabric::address::AddressRange;
use crate::fabric::endpoint::{Act, Endpoint, Queued, Running};
use crate::fabric::message::Message;
use crate::host;

/// A message for which no buffer came for so long completes as [`Status::NoBuffer`]. A choice,
/// the same as on other links.
pub const NO_BUFFER_WAIT: Duration = Duration::from_us(10_000);

/// The result of beginning a piece of work.
enum Begun {
    /// A job, or a message, that will end.
    Under(u64),
    /// All of it is done.
    Ended(Result<u64, Status>),
    /// It must wait for a buffer.
    Waits,
}

/// The result of starting a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    /// It is under way or done.
    Yes,
    /// It waits for a buffer, first in the queue.
    Waits,
}

/// Returns true if a piece of work can begin: all before it is placed, or it is a put behind puts
/// whose order the adapter keeps.
fn can_begin(end: &Endpoint, queued: &Queued, keeps_order: bool) -> bool {
    let is_put = |act: &Act| matches!(act, Act::Put { from, .. } if from.bytes() > 0);
    let follows = || end.running.iter().all(|running| is_put(&running.queued.act));
    end.running.is_empty() || keeps_order && is_put(&queued.act) && follows()
}

impl Driver {
    /// Begins new work at once if nothing is before it: then the queue needs no memory.
    pub fn take(&mut self, hands: &mut dyn Hands, endpoint: EndpointId, queued: Queued) {
        let end = &mut self.endpoints[endpoint.0 as usize];
        if !end.queue.is_empty() || !can_begin(end, &queued, self.keeps_order) {
            end.queue.push_back(queued);
            return;
        }
        if self.start(hands, endpoint, queued) == Started::Yes {
            self.advance(hands, endpoint);
        }
    }

    /// Begins what can begin.
    pub fn advance(&mut self, hands: &mut dyn Hands, endpoint: EndpointId) {
        loop {
            let keeps_order = self.keeps_order;
            let Some(end) = self.open(endpoint) else { return };
            let Some(queued) = end.queue.pop_front() else { return };
            if !can_begin(end, &queued, keeps_order) {
                return end.queue.push_front(queued);
            }
            if self.start(hands, endpoint, queued) == Started::Waits {
                return;
            }
        }
    }

    /// Begins one piece of work.
    fn start(&mut self, hands: &mut dyn Hands, endpoint: EndpointId, queued: Queued) -> Started {
        match self.begin(hands, endpoint, &queued) {
            Begun::Under(job) => {
                let end = &mut self.endpoints[endpoint.0 as usize];
                end.running.push_back(Running { queued, job, reported: false });
            }
            Begun::Ended(result) => self.complete_or_keep(endpoint, &queued, result, false),
            Begun::Waits => {
                let end = &mut self.endpoints[endpoint.0 as usize];
                end.queue.push_front(queued);
                if end.waits_since.is_none() {
                    end.waits_since = Some(hands.now());
                    hands.wait_for_buffer(endpoint, NO_BUFFER_WAIT);
                }
                return Started::Waits;
            }
        }
        Started::Yes
    }

    fn begin(&mut self, hands: &mut dyn Hands, endpoint: EndpointId, queued: &Queued) -> Begun {
        let end = &mut self.endpoints[endpoint.0 as usize];
        let (peer, other) = (end.peer, end.other);
        let action = match &queued.act {
            Act::Flush => return Begun::Ended(end.failed.take().map_or(Ok(0), Err)),
            Act::Send { .. } => return self.begin_message(hands, endpoint, queued),
            Act::Put { from, to, notify } => match from.take(hands.memory(), u64::MAX) {
                Err(status) => return Begun::Ended(Err(status)),
                Ok(bytes) if bytes.is_empty() => {
                    self.notify(hands, endpoint, *to, *notify);
                    return Begun::Ended(Ok(0));
                }
                Ok(data) => {
                    let notify = notify.filter(|_| self.keeps_order);
                    let place = *to;
                    let word = |value| Message::Notify { endpoint: other, place, value }.write();
                    Action::Write { offset: to.offset, data, word: notify.map(word) }
                }
            },
            Act::Get { from, .. } if from.bytes == 0 => return Begun::Ended(Ok(0)),
            Act::Get { from, .. } => Action::Read { offset: from.offset, bytes: from.bytes },
            Act::FetchAdd { at, add } => Action::FetchAdd { offset: *at, add: *add },
            &Act::CompareSwap { at: offset, expected, desired } => {
                Action::CompareSwap { offset, expected, desired }
            }
        };
        let repeat = self.repeat(endpoint);
        Begun::Under(self.submit(hands, Purpose::Work(endpoint), peer, action, repeat))
    }

    fn repeat(&self, endpoint: EndpointId) -> Repeat {
        match self.endpoints[endpoint.0 as usize].reliability {
            Reliability::Reliable => Repeat::Yes,
            Reliability::Unreliable => Repeat::No,
        }
    }

    /// A message goes straight into the buffer that the peer has named.
    fn begin_message(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        queued: &Queued,
    ) -> Begun {
        let repeat = self.repeat(endpoint);
        let end = &mut self.endpoints[endpoint.0 as usize];
        let Act::Send { from } = &queued.act else { return Begun::Ended(Ok(0)) };
        let Some(&buffer) = end.buffers.front() else { return Begun::Waits };
        end.waits_since = None;
        match from.take(hands.memory(), buffer.bytes) {
            Err(status) => Begun::Ended(Err(status)),
            Ok(bytes) if bytes.is_empty() => {
                self.message_written(hands, endpoint, from.bytes(), Ok(()));
                Begun::Under(0)
            }
            Ok(data) => {
                let (peer, of, bytes) = (end.peer, from.bytes(), data.len() as u64);
                let filled = Message::Filled { endpoint: end.other, bytes, of, withdrawn: false };
                // A message that may be lost without a trace is not announced by itself.
                let is_announced = self.keeps_order && repeat == Repeat::Yes;
                let word = is_announced.then(|| filled.write());
                let action = Action::Write { offset: buffer.offset, data, word };
                Begun::Under(self.submit(hands, Purpose::Work(endpoint), peer, action, repeat))
            }
        }
    }

    /// Ends a message whose bytes are in its buffer, with the word for the peer's driver, or have
    /// failed, or whose driver is still to be notified.
    fn send_ended(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        of: u64,
        result: Result<(), Failure>,
    ) {
        let is_announced = self.keeps_order && self.repeat(endpoint) == Repeat::Yes;
        if !is_announced || result.is_err() {
            return self.message_written(hands, endpoint, of, result);
        }
        let buffer = self.endpoints[endpoint.0 as usize].buffers.pop_front();
        let is_whole = buffer.is_some_and(|buffer| of <= buffer.bytes);
        let ended = if is_whole { Ok(0) } else { Err(Status::TooLong) };
        self.end_running(hands, endpoint, ended);
    }

    /// Ends a message whose bytes are in its buffer, or have failed: notifies the peer's driver,
    /// and completes the work.
    fn message_written(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        of: u64,
        result: Result<(), Failure>,
    ) {
        let end = &mut self.endpoints[endpoint.0 as usize];
        let Some(buffer) = end.buffers.pop_front() else { return };
        let (peer, other) = (end.peer, end.other);
        let bytes = of.min(buffer.bytes);
        let (withdrawn, status) = match result {
            Ok(()) if of > bytes => (false, Status::TooLong),
            Ok(()) => (false, Status::Done),
            Err(Failure::Refused(_)) => (true, Status::NoBuffer),
            Err(Failure::Lost) => (true, Status::Transport),
        };
        let message = Message::Filled { endpoint: other, bytes, of, withdrawn };
        self.send(hands, peer, message, Then::End(endpoint, status));
    }

    fn notify(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        place: AddressRange,
        notify: Option<u32>,
    ) {
        let end = &self.endpoints[endpoint.0 as usize];
        let (peer, other) = (end.peer, end.other);
        if let Some(value) = notify {
            let message = Message::Notify { endpoint: other, place, value };
            self.send(hands, peer, message, Then::Nothing);
        }
    }

    /// Handles the end of a job.
    pub fn job_ended(&mut self, hands: &mut dyn Hands, job: u64, result: Result<Vec<u8>, Failure>) {
        match self.jobs.remove(job) {
            Some(Purpose::Work(endpoint)) => self.work_ended(hands, endpoint, job, result),
            Some(Purpose::Message(Then::End(endpoint, status))) if result.is_ok() => {
                let ended = if status == Status::Done { Ok(0) } else { Err(status) };
                self.end_running(hands, endpoint, ended);
            }
            // A message that could not be brought: its peer is about to be given up.
            Some(Purpose::Message(_)) | None => {}
        }
    }

    /// Handles a put whose bytes are on their way: completes it if the program asked only for that.
    pub fn copied(&mut self, job: u64) {
        let Some(&Purpose::Work(endpoint)) = self.jobs.get(job) else { return };
        let Some(end) = self.open(endpoint) else { return };
        let reliable = end.reliability == Reliability::Reliable;
        let Some(running) = end.running.iter_mut().find(|of| of.job == job) else { return };
        let is_put = matches!(running.queued.act, Act::Put { .. });
        if !(reliable && is_put && running.queued.level == Some(Level::Copied)) {
            return;
        }
        running.reported = true;
        let (tag, operation) = (running.queued.tag, running.queued.operation());
        let status = Status::Done;
        self.complete(Completion::Done { endpoint, tag, operation, status, value: 0 });
    }

    fn work_ended(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        job: u64,
        result: Result<Vec<u8>, Failure>,
    ) {
        let keeps_order = self.keeps_order;
        let Some(end) = self.open(endpoint) else { return };
        let reliable = end.reliability == Reliability::Reliable;
        // Jobs of one end are over in order.
        let Some(running) = end.running.front().filter(|of| of.job == job) else { return };
        if reliable && result == Err(Failure::Lost) {
            return; // the peer is about to be given up, and this work flushed
        }
        let status_of = |failure| match failure {
            Failure::Refused(host::Status::Address) => Status::Withdrawn,
            Failure::Refused(host::Status::Rights) => Status::Rights,
            Failure::Refused(_) | Failure::Lost => Status::Transport,
        };
        let ended = match &running.queued.act {
            Act::Send { from } => {
                let of = from.bytes();
                return self.send_ended(hands, endpoint, of, result.map(|_| ()));
            }
            Act::Put { to, notify, .. } => {
                let (to, notify) = (*to, notify.filter(|_| !keeps_order));
                if result.is_ok() {
                    self.notify(hands, endpoint, to, notify);
                }
                result.map(|_| 0).map_err(status_of)
            }
            Act::Get { into, .. } => {
                let own = hands.memory().region(into.region).map_err(|_| Status::Withdrawn);
                let into = into.offset;
                result.map_err(status_of).and_then(|bytes| {
                    own?.words.write(into, &bytes).map_err(|_| Status::OutOfRegion).map(|()| 0)
                })
            }
            Act::FetchAdd { .. } | Act::CompareSwap { .. } => {
                result.map_err(status_of).and_then(|bytes| {
                    let word = bytes.first_chunk::<8>().ok_or(Status::Transport)?;
                    Ok(u64::from_le_bytes(*word))
                })
            }
            Act::Flush => Ok(0),
        };
        self.end_running(hands, endpoint, ended);
    }

    fn end_running(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        result: Result<u64, Status>,
    ) {
        let Some(end) = self.open(endpoint) else { return };
        let Some(running) = end.running.pop_front() else { return };
        self.progress += 1;
        self.complete_or_keep(endpoint, &running.queued, result, running.reported);
        self.advance(hands, endpoint);
    }

    /// Reports the end of work if the program requested it. A failure after the report "copied" is
    /// kept for the next flush.
    fn complete_or_keep(
        &mut self,
        endpoint: EndpointId,
        queued: &Queued,
        result: Result<u64, Status>,
        reported: bool,
    ) {
        let (status, value) = match result {
            Ok(value) => (Status::Done, value),
            Err(status) => (status, 0),
        };
        if reported {
            let end = &mut self.endpoints[endpoint.0 as usize];
            end.failed = end.failed.or(result.err());
        } else if queued.level.is_some() || status != Status::Done {
            let (tag, operation) = (queued.tag, queued.operation());
            self.complete(Completion::Done { endpoint, tag, operation, status, value });
        }
    }

    /// A message has been waiting for its buffer for long enough, if it is still the same.
    pub fn no_buffer(&mut self, hands: &mut dyn Hands, endpoint: EndpointId) {
        let now = hands.now();
        let Some(end) = self.open(endpoint) else { return };
        if end.waits_since.is_none_or(|since| now.since(since) < NO_BUFFER_WAIT) {
            return; // another message waits now, with an entry of its own
        }
        end.waits_since = None;
        if let Some(queued) = end.queue.pop_front() {
            self.complete_or_keep(endpoint, &queued, Err(Status::NoBuffer), false);
        }
        self.advance(hands, endpoint);
    }
}
