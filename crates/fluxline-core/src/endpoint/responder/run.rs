//! The frames of a train that go on with a write: the header of each is known before it is read.

use super::super::context::Context;
use super::super::wire::TrainCheck;
use super::Responder;
use crate::port::IncomingTrain;
use crate::roce::header::BTH_BYTES;
use crate::roce::{
    Body, HeaderTemplate, Headers, ICRC_BYTES, QueuePair, Transport, WritePart, pad_of,
};

impl Responder {
    /// Takes the frames of a train from index `from` on, as long as each is the expected next part
    /// of a Fluxline peer's reliable write and its ICRC is right; returns how many. The frame after
    /// them is not taken, whatever it is.
    pub fn take_run(
        &mut self,
        train: &IncomingTrain<'_>,
        from: usize,
        own_pair: QueuePair,
        check: &TrainCheck,
        context: &mut Context<'_>,
    ) -> usize {
        let is_regular = self.transport == Transport::Reliable
            && self.peer_kind.is_fluxline()
            && self.refused.is_none()
            && !train.congestion
            && !self.order.holds_frames();
        let padded_bytes = train.frame_bytes.saturating_sub(BTH_BYTES + ICRC_BYTES);
        let Some(pad) = train.frame(from).and_then(|frame| pad_of(frame.bytes)) else { return 0 };
        if !is_regular || padded_bytes <= pad || !padded_bytes.is_multiple_of(4) {
            return 0;
        }
        let payload_bytes = padded_bytes - pad;
        let first = self.order.expected_psn();
        let Some(mut run) = self.executor.write_run(context.regions) else { return 0 };
        let body = Body::Write(Transport::Reliable, WritePart::Middle);
        let expected = HeaderTemplate::new(&Headers::new(own_pair, first, body), payload_bytes);
        let (mut taken, mut asks) = (0, false);
        while let Some(frame) = train.frame(from + taken as usize) {
            let psn = first.plus(taken);
            let is_whole = frame.bytes.len() == train.frame_bytes;
            let Some(asked) = expected.asked_by(psn, frame.bytes).filter(|_| is_whole) else {
                break;
            };
            let payload = &frame.bytes[BTH_BYTES..][..payload_bytes];
            if !check.accepts(&frame) || !run.place(psn, payload) {
                break;
            }
            asks |= asked;
            taken += 1;
        }
        if taken == 0 {
            return 0;
        }
        context.counters.frames_received += u64::from(taken);
        context.counters.payload_placed += run.placed_bytes;
        self.order.advance(taken);
        self.heard = context.now;
        if asks {
            self.acknowledgement.is_due = true;
        } else {
            self.acknowledgement.owe(context.now);
        }
        taken as usize
    }
}
