//! The frames that request an acknowledgement.
//!
//! A Fluxline peer acknowledges such a frame at once, and others together, a little later. A peer
//! of the standard acknowledges when it wants, but at the latest such a frame.

use super::super::peer::PeerKind;
use super::super::posted::{FramePart, Report};
use super::Requester;
use super::budget::Budget;
use crate::roce::Psn;

/// Every Nth frame to a peer of the standard requests an acknowledgement.
const ACKNOWLEDGE_EACH: u32 = 32;
/// The most bytes between two requests to a Fluxline peer: about four trains \[byte\].
const BYTES_BETWEEN_MAX: u64 = 256 << 10;
/// A window has at least this many requests, so that it moves on while it is full.
const REQUESTS_A_WINDOW: u64 = 8;

/// A frame that is about to be sent.
#[derive(Clone, Copy)]
pub(super) struct FrameToSend {
    pub psn: Psn,
    pub position: PositionInWork,
    /// The part of the peer's receive buffer that it takes \[byte\].
    pub cost: u64,
    /// The same of all frames in flight before it \[byte\].
    pub flying_cost: u64,
    /// It was sent before.
    pub is_repeated: bool,
}

/// The position of a frame in the posted work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionInWork {
    /// More frames of its operation follow.
    Inside,
    /// Its operation ends with it.
    Ends,
    /// Its operation ends with it, and the program waits for it or nothing follows.
    EndsAwaited,
}

/// Decides which frames request an acknowledgement.
pub(super) struct Asking {
    peer_kind: PeerKind,
    /// Receive buffer that frames take which were sent since the last request \[byte\].
    unrequested_bytes: u64,
}

impl Asking {
    pub fn new(peer_kind: PeerKind) -> Asking {
        Asking { peer_kind, unrequested_bytes: 0 }
    }

    /// Returns true when a frame of a reliable connection has to request an acknowledgement.
    #[inline]
    pub fn asks(&mut self, budget: &Budget, frame: &FrameToSend) -> bool {
        // No later frame would request it.
        let is_last = budget.is_last(frame.flying_cost, frame.cost);
        if !self.peer_kind.is_fluxline() {
            return is_last
                || frame.position != PositionInWork::Inside
                || frame.psn.get().is_multiple_of(ACKNOWLEDGE_EACH);
        }
        self.unrequested_bytes += frame.cost;
        let bytes_between = BYTES_BETWEEN_MAX.min(budget.limit() / REQUESTS_A_WINDOW);
        let asks = is_last
            || frame.is_repeated
            || frame.position == PositionInWork::EndsAwaited
            || self.unrequested_bytes >= bytes_between;
        if asks {
            self.unrequested_bytes = 0;
        }
        asks
    }
}

impl Requester {
    /// Returns the position of a frame of the operation `number`.
    pub(super) fn position(&self, number: u64, part: FramePart) -> PositionInWork {
        if matches!(part, FramePart::First | FramePart::Middle) {
            return PositionInWork::Inside;
        }
        let is_awaited = self.queue.get(number).report == Report::End;
        let next = self.queue.find(number + 1);
        match is_awaited || next.is_none_or(|next| next.is_without_frames()) {
            true => PositionInWork::EndsAwaited,
            false => PositionInWork::Ends,
        }
    }
}
