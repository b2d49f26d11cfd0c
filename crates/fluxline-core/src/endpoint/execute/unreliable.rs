//! Frames of an unreliable peer: other frames of their operation may be lost.

use super::super::context::Context;
use super::{Check, Executor, Outcome};
use crate::fabric::{Rights, Status};
use crate::roce::{Body, Packet, Psn, Reth, SendPart, WritePart};

impl Executor {
    /// Checks a frame of an unreliable peer: key, rights, bounds and lengths, and for a part of an
    /// operation the parts before it. Changes nothing.
    pub fn check(&self, psn: Psn, packet: &Packet<'_>, context: &Context<'_>) -> Check {
        let bytes = packet.payload().len() as u64;
        match packet.headers().body {
            Body::Write(_, WritePart::First(reth)) => Executor::check_range(&reth, bytes, context),
            Body::Write(_, WritePart::Only(reth, _)) => match bytes == u64::from(reth.bytes) {
                true => Executor::check_range(&reth, bytes, context),
                false => Check::Refused,
            },
            Body::Write(_, part) => {
                let Some(writing) = self.writing.as_ref().filter(|of| of.next == psn) else {
                    return Check::Unusable;
                };
                let left = writing.bytes - writing.done;
                let ends = matches!(part, WritePart::Last(_));
                let is_there = context.regions.get(writing.region).is_ok();
                match is_there && bytes <= left && (!ends || bytes == left) {
                    true => Check::Fits,
                    false => Check::Refused,
                }
            }
            Body::Send(_, SendPart::First | SendPart::Only(_)) => {
                let has_buffer = self.receiving.is_some() || !self.receives.is_empty();
                if has_buffer { Check::Fits } else { Check::Unusable }
            }
            Body::Send(..) => match self.receiving.as_ref().is_some_and(|of| of.next == psn) {
                true => Check::Fits,
                false => Check::Unusable,
            },
            _ => Check::Refused,
        }
    }

    fn check_range(reth: &Reth, payload_bytes: u64, context: &Context<'_>) -> Check {
        let bytes = u64::from(reth.bytes);
        let range = context.granted_range((*reth).into(), |rights: Rights| rights.put);
        let fits = range
            .is_ok_and(|range| payload_bytes <= bytes && range.memory.admits(range.offset, bytes));
        if fits { Check::Fits } else { Check::Refused }
    }

    /// Counts a frame that [`Executor::check`] found unfit.
    pub fn count_unfit(&self, check: Check, packet: &Packet<'_>, context: &mut Context<'_>) {
        let begins_message =
            matches!(packet.headers().body, Body::Send(_, SendPart::First | SendPart::Only(_)));
        match check {
            Check::Fits => {}
            Check::Refused => context.counters.frames_refused += 1,
            Check::Unusable if begins_message => context.counters.no_buffer += 1,
            Check::Unusable => context.counters.frames_out_of_message += 1,
        }
    }

    /// Does the request of a frame, unless other parts of its operation were lost.
    pub fn take_unreliable(&mut self, psn: Psn, packet: &Packet<'_>, context: &mut Context<'_>) {
        let done = match packet.headers().body {
            Body::Write(_, part) => {
                let begins = matches!(part, WritePart::First(_) | WritePart::Only(..));
                let fits = self.writing.as_ref().is_some_and(|writing| writing.next == psn);
                if !begins && !fits {
                    context.counters.frames_out_of_message += 1;
                    self.writing = None;
                    return;
                }
                self.write(psn, part, packet.payload(), context)
            }
            Body::Send(_, part) => {
                let begins = matches!(part, SendPart::First | SendPart::Only(_));
                let fits = self.receiving.as_ref().is_some_and(|of| of.next == psn);
                if !begins && !fits {
                    context.counters.frames_out_of_message += 1;
                    return;
                }
                self.receive(psn, part, packet.payload(), context)
            }
            _ => Err(Outcome::Refused(Status::Transport)),
        };
        match done {
            Ok(()) => {}
            Err(Outcome::NotReady) => {
                self.waits_since = None;
                context.counters.no_buffer += 1;
            }
            Err(_) => context.counters.frames_refused += 1,
        }
    }
}
