//! Edges in a process: a mailbox for each builder, with a lane for each readout.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxline_core::Span;

use crate::edges::{Inlets, Offered, Outlets, Taking};

/// Makes the edges between `readouts` and `builders`; a lane holds at most `lane_bytes`, or one
/// record.
#[must_use]
pub fn mailboxes(
    readouts: usize,
    builders: usize,
    lane_bytes: usize,
) -> (Vec<MailboxOutlets>, Vec<MailboxInlets>) {
    let boxes: Vec<Arc<Mailbox>> =
        (0..builders).map(|_| Arc::new(Mailbox::new(readouts, lane_bytes))).collect();
    let outlets = (0..readouts).map(|readout| MailboxOutlets { readout, boxes: boxes.clone() });
    let inlets = boxes.iter().map(|own| MailboxInlets { own: Arc::clone(own) });
    (outlets.collect(), inlets.collect())
}

/// The records on their way to one builder.
struct Mailbox {
    lane_bytes: usize,
    state: Mutex<State>,
    /// A record came, or room was made.
    changed: Condvar,
}

struct State {
    lanes: Vec<Lane>,
    /// The builder has gone.
    is_closed: bool,
}

#[derive(Default)]
struct Lane {
    records: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// The readout has gone.
    is_closed: bool,
}

impl Mailbox {
    fn new(readouts: usize, lane_bytes: usize) -> Mailbox {
        let lanes = (0..readouts).map(|_| Lane::default()).collect();
        let state = Mutex::new(State { lanes, is_closed: false });
        Mailbox { lane_bytes, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something changes, unless `is_ready` already.
    fn rest(&self, most: Span, is_ready: impl Fn(&State) -> bool) {
        let state = self.state();
        if !is_ready(&state) {
            let most = Duration::from_nanos(most.as_ns());
            drop(self.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// A readout's ends; its lanes close when it is dropped.
pub struct MailboxOutlets {
    readout: usize,
    boxes: Vec<Arc<Mailbox>>,
}

impl Outlets for MailboxOutlets {
    fn offer(&mut self, to: u32, record: &[u8]) -> Offered {
        let to = &self.boxes[to as usize];
        let mut state = to.state();
        if state.is_closed {
            return Offered::Gone("the builder's thread has ended".to_owned());
        }
        let lane = &mut state.lanes[self.readout];
        if !lane.records.is_empty() && lane.bytes + record.len() > to.lane_bytes {
            return Offered::Full;
        }
        lane.bytes += record.len();
        lane.records.push_back(record.into());
        drop(state);
        to.changed.notify_all();
        Offered::Taken
    }

    fn progress(&mut self) {}

    fn rest(&mut self, most: Span) {
        let lane = self.readout;
        let is_full = |of: &&Arc<Mailbox>| of.state().lanes[lane].bytes >= of.lane_bytes / 2;
        if let Some(full) = self.boxes.iter().find(is_full) {
            full.rest(most, |state| state.lanes[lane].records.is_empty());
        }
    }

    fn finish(&mut self) -> bool {
        true // a builder takes what is in its mailbox, also of a dead readout
    }
}

impl Drop for MailboxOutlets {
    fn drop(&mut self) {
        for to in &self.boxes {
            to.state().lanes[self.readout].is_closed = true;
            to.changed.notify_all();
        }
    }
}

/// A builder's mailbox; when it is dropped, the readouts find it gone.
pub struct MailboxInlets {
    own: Arc<Mailbox>,
}

impl Inlets for MailboxInlets {
    fn take(&mut self, from: usize) -> Taking {
        let mut state = self.own.state();
        let lane = &mut state.lanes[from];
        let Some(record) = lane.records.pop_front() else {
            return if lane.is_closed { Taking::Gone } else { Taking::Empty };
        };
        lane.bytes -= record.len();
        drop(state);
        self.own.changed.notify_all();
        Taking::Record(record)
    }

    fn progress(&mut self) {}

    fn rest(&mut self, most: Span) {
        self.own.rest(most, |state| state.lanes.iter().any(|lane| !lane.records.is_empty()));
    }
}

impl Drop for MailboxInlets {
    fn drop(&mut self) {
        self.own.state().is_closed = true;
        self.own.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_full_takes_no_more_and_loses_nothing() {
        let (mut outlets, mut inlets) = mailboxes(2, 1, 100);
        assert_eq!(outlets[0].offer(0, &[1; 300]), Offered::Taken, "one record always fits");
        assert_eq!(outlets[0].offer(0, &[2; 10]), Offered::Full);
        assert_eq!(outlets[1].offer(0, &[3; 60]), Offered::Taken, "lanes are apart");
        let inlet = &mut inlets[0];
        assert_eq!(inlet.take(0), Taking::Record([1; 300].into()));
        assert_eq!(outlets[0].offer(0, &[2; 10]), Offered::Taken);
        assert_eq!(inlet.take(0), Taking::Record([2; 10].into()));
        assert_eq!(inlet.take(0), Taking::Empty);
        drop(outlets);
        assert_eq!(inlet.take(0), Taking::Gone);
        assert_eq!(inlet.take(1), Taking::Record([3; 60].into()), "a dead readout's records stay");
        assert_eq!(inlet.take(1), Taking::Gone);
    }

    #[test]
    fn a_builder_that_has_gone_is_told_to_its_readouts() {
        let (mut outlets, inlets) = mailboxes(1, 2, 100);
        drop(inlets);
        assert!(matches!(outlets[0].offer(1, &[0; 8]), Offered::Gone(_)));
    }
}
