//! The frames of a train that can be predicted: parts of one write, or writes one behind the other.
//!
//! The header of each frame is known before it is read, so it is compared instead of parsed. A
//! frame that differs, or fails the check of its sum, range or memory, takes the usual path.

use super::super::context::Context;
use super::super::wire::TrainCheck;
use super::Responder;
use crate::port::{Incoming, IncomingTrain};
use crate::roce::header::BTH_BYTES;
use crate::roce::{
    Body, HeaderTemplate, Headers, ICRC_BYTES, Packet, QueuePair, Reth, Transport, WritePart,
    pad_of, split_icrc,
};

/// The frames of a train from one index on.
pub(in super::super) struct TrainRest<'a> {
    pub train: &'a IncomingTrain<'a>,
    pub from: usize,
    pub check: &'a TrainCheck,
}

impl<'a> TrainRest<'a> {
    /// Returns a frame of full length, counted from the first of the rest.
    #[inline]
    fn whole_frame(&self, index: u32) -> Option<Incoming<'a>> {
        let frame = self.train.frame(self.from + index as usize)?;
        (frame.bytes.len() == self.train.frame_bytes).then_some(frame)
    }

    /// Returns the length of the payload after headers of this length and before the padding that
    /// the first frame names \[byte\].
    fn payload_bytes(&self, header_bytes: usize) -> Option<usize> {
        let padded_bytes = self.train.frame_bytes.checked_sub(header_bytes + ICRC_BYTES)?;
        let pad = pad_of(self.whole_frame(0)?.bytes)?;
        (padded_bytes > pad && padded_bytes.is_multiple_of(4)).then(|| padded_bytes - pad)
    }
}

impl Responder {
    /// Takes the frames of the rest of a train as long as they are as predicted; returns how many.
    /// The frame after them is not taken, whatever it is.
    pub fn take_run(
        &mut self,
        rest: &TrainRest<'_>,
        own_pair: QueuePair,
        context: &mut Context<'_>,
    ) -> usize {
        let is_regular = self.peer_kind.is_fluxline()
            && self.refused.is_none()
            && !rest.train.congestion
            && !self.order.holds_frames();
        if !is_regular {
            return 0;
        }
        let (taken, asks) = match self.transport {
            Transport::Reliable => match self.take_parts(rest, own_pair, context) {
                (0, _) => self.take_writes(rest, context),
                some => some,
            },
            Transport::Unreliable => self.take_writes(rest, context),
        };
        if taken == 0 {
            return 0;
        }
        context.counters.frames_received += u64::from(taken);
        if self.transport == Transport::Reliable {
            self.order.advance(taken);
            self.heard = context.now;
            if asks {
                self.acknowledgement.is_due = true;
            } else {
                self.acknowledgement.owe(context.now);
            }
        }
        taken as usize
    }

    /// Places the middle frames of a reliable write; returns how many, and whether one of them
    /// requests an acknowledgement.
    fn take_parts(
        &mut self,
        rest: &TrainRest<'_>,
        own_pair: QueuePair,
        context: &mut Context<'_>,
    ) -> (u32, bool) {
        let Some(payload_bytes) = rest.payload_bytes(BTH_BYTES) else { return (0, false) };
        let first = self.order.expected_psn();
        let Some(mut run) = self.executor.write_run(context.regions) else { return (0, false) };
        let body = Body::Write(Transport::Reliable, WritePart::Middle);
        let expected = HeaderTemplate::new(&Headers::new(own_pair, first, body), payload_bytes);
        let (mut taken, mut asks) = (0, false);
        while let Some(frame) = rest.whole_frame(taken) {
            let psn = first.plus(taken);
            let Some(asked) = expected.asked_by(psn, 0, frame.bytes) else { break };
            let payload = &frame.bytes[BTH_BYTES..][..payload_bytes];
            if !rest.check.accepts(&frame) || !run.place(psn, payload) {
                break;
            }
            asks |= asked;
            taken += 1;
        }
        context.counters.payload_placed += run.placed_bytes;
        (taken, asks)
    }

    /// Places writes of one frame each, to addresses one behind the other; returns how many, and
    /// whether one of them requests an acknowledgement.
    fn take_writes(&mut self, rest: &TrainRest<'_>, context: &mut Context<'_>) -> (u32, bool) {
        let Some((headers, reth)) = self.first_write(rest) else { return (0, false) };
        let payload_bytes = reth.bytes as usize;
        let expected = HeaderTemplate::new(&headers, payload_bytes);
        let (mut taken, mut asks) = (0, false);
        while let Some(frame) = rest.whole_frame(taken) {
            let (psn, advance) =
                (headers.psn.plus(taken), u64::from(taken) * u64::from(reth.bytes));
            let Some(asked) = expected.asked_by(psn, advance, frame.bytes) else { break };
            let payload = &frame.bytes[expected.bytes()..][..payload_bytes];
            let Some(address) = reth.address.checked_add(advance) else { break };
            if !rest.check.accepts(&frame)
                || !self.executor.place_write(Reth { address, ..reth }, payload, context)
            {
                break;
            }
            if self.transport == Transport::Unreliable {
                self.unreliable.note_next(psn, context);
            }
            asks |= asked;
            taken += 1;
        }
        (taken, asks)
    }

    /// Returns the headers of the first frame if it is a write of one frame without a notification,
    /// has the expected number and is as long as it says.
    fn first_write(&self, rest: &TrainRest<'_>) -> Option<(Headers, Reth)> {
        let (bytes, _) = split_icrc(rest.whole_frame(0)?.bytes)?;
        let packet = Packet::parse(bytes).ok()?;
        let headers = *packet.headers();
        let Body::Write(transport, WritePart::Only(reth, None)) = headers.body else { return None };
        let expected = match self.transport {
            Transport::Reliable => Some(self.order.expected_psn()),
            Transport::Unreliable => self.unreliable.next_agreed(),
        };
        let fits = transport == self.transport
            && expected == Some(headers.psn)
            && reth.bytes > 0
            && reth.bytes as usize == packet.payload().len();
        fits.then_some((headers, reth))
    }
}
