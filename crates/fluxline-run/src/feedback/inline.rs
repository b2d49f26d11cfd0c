//! The decider of a builder in virtual time: it works between the builder's own steps.
//!
//! A decision takes the time of `decision-ns`. Events that close meanwhile wait, at most
//! `waiting-max` of them; beyond that, the oldest is skipped.

use std::collections::VecDeque;

use fluxline_cluster::edges::{Offered, Outlets};
use fluxline_cluster::rings::RingNode;
use fluxline_core::{Moment, Span};

use super::decider::{Asked, Decider, Outcome};
use super::part::DeciderPart;
use crate::filter::RunSource;

/// Time between two offers to an actuator without room.
const NAP: Span = Span::from_ns(10_000);
/// Offers after the end of the run in which the actuator may still make room.
const OFFERS_MAX: u32 = 100_000;

/// A decider in virtual time.
pub(crate) struct Inline {
    decider: Decider,
    cost: Span,
    waiting_max: usize,
    waiting: VecDeque<Asked>,
    /// The record in hand, and the time at which it is ready.
    in_hand: Option<InHand>,
    is_gone: bool,
    part: DeciderPart,
}

struct InHand {
    ready: Moment,
    /// `None`: nothing is to be written.
    record: Option<Vec<u8>>,
    is_decision: bool,
}

impl Inline {
    pub fn new(decider: Decider, cost: Span, waiting_max: usize) -> Inline {
        let (ready, record) = (Moment::default(), Some(decider.hello()));
        Inline {
            decider,
            cost,
            waiting_max,
            waiting: VecDeque::new(),
            in_hand: Some(InHand { ready, record, is_decision: false }),
            is_gone: false,
            part: DeciderPart::default(),
        }
    }

    pub fn part(&self) -> DeciderPart {
        self.part
    }

    pub fn add_source(&mut self, source: &RunSource) {
        self.decider.add_source(source);
    }

    /// Takes a closed event.
    pub fn ask(&mut self, asked: Asked) {
        if self.waiting.len() >= self.waiting_max {
            self.waiting.pop_front();
            self.part.skipped += 1;
        }
        self.waiting.push_back(asked);
    }

    /// Goes on as far as `now` allows; returns the time at which there is more to do. `epoch` is
    /// the time of day at which the link's time is 0.
    pub fn poll(&mut self, now: Moment, epoch: Moment, to: &mut dyn Outlets) -> Option<Moment> {
        loop {
            let Some(in_hand) = &self.in_hand else {
                let asked = self.waiting.pop_front()?;
                let ready = now + self.cost;
                let record = match self.decider.ask(&asked) {
                    Outcome::Decided(decision) => {
                        self.part.decided += 1;
                        let decided = epoch + ready.since(Moment::default());
                        Some(self.decider.record(&asked, &decision, decided))
                    }
                    Outcome::Declined => {
                        self.part.declined += 1;
                        None
                    }
                    Outcome::Undecided => {
                        self.part.undecided += 1;
                        None
                    }
                };
                self.in_hand = Some(InHand { ready, record, is_decision: true });
                continue;
            };
            if now < in_hand.ready {
                return Some(in_hand.ready);
            }
            if let Some(record) = &in_hand.record {
                match to.offer(0, record) {
                    Offered::Taken => to.progress(),
                    Offered::Full => return Some(now + NAP),
                    Offered::Gone(why) => {
                        self.part.not_written += u64::from(in_hand.is_decision);
                        say_gone(&mut self.is_gone, &self.decider, &why);
                    }
                }
            }
            self.in_hand = None;
        }
    }

    /// Decides on what waits, and ends the writes.
    pub fn finish(&mut self, epoch: Moment, to: &mut RingNode) {
        let (mut offers, mut says_end) = (0, true);
        loop {
            if let Some(until) = self.poll(to.now(), epoch, to) {
                offers += 1;
                if offers > OFFERS_MAX {
                    self.part.not_written += self.in_hand.take().map_or(0, |in_hand| {
                        u64::from(in_hand.is_decision && in_hand.record.is_some())
                    });
                }
                rest(to, until);
            } else if std::mem::take(&mut says_end) {
                let record = Some(self.decider.end());
                self.in_hand = Some(InHand { ready: to.now(), record, is_decision: false });
            } else {
                break;
            }
        }
        let mut rests = 0;
        while !to.finish() && rests < OFFERS_MAX {
            rests += 1;
            let until = to.now() + NAP;
            rest(to, until);
        }
    }
}

/// Sleeps until a time of the link, at most, and drives it.
fn rest(node: &mut RingNode, until: Moment) {
    node.rest_until(until);
    node.drive();
}

/// Says once that the actuator has gone.
pub(super) fn say_gone(is_gone: &mut bool, decider: &Decider, why: &str) {
    if !std::mem::replace(is_gone, true) {
        decider.monitor().fault(format_args!(
            "actuator-0 is gone for builder-{} ({why}): from here on its decisions are counted and \
             not written; the recording goes on",
            decider.builder()
        ));
    }
}
