//! The sending budget: the peer's credit, the congestion window and the configured rate.

use super::super::posted::Terms;
use super::super::timing::{Acknowledged, Pacer, Window};
use super::in_flight::Arrived;
use crate::{Moment, Span};

/// Receive buffer that a frame takes beside its payload, at least \[byte\].
const COST_BYTES_MIN: usize = 64;

/// The limits of the bytes in flight.
pub(super) struct Budget {
    /// The peer's free receive buffer \[byte\].
    credit_bytes: u64,
    /// Receive buffer that each frame takes beside its bytes \[byte\].
    frame_cost: u64,
    /// The cost of the longest frame \[byte\].
    cost_max: u64,
    /// Congestion marks that the peer has counted so far.
    marks_seen: u32,
    /// A frame waited for the window since the last acknowledgement.
    is_limited: bool,
    window: Window,
    pacer: Pacer,
}

impl Budget {
    pub fn new(terms: &Terms) -> Budget {
        Budget {
            credit_bytes: terms.credit_bytes,
            frame_cost: terms.frame_cost,
            cost_max: terms.shape.frame_bytes as u64 + terms.frame_cost,
            marks_seen: 0,
            is_limited: false,
            window: Window::new(terms.shape.frame_bytes as u64 + terms.frame_cost),
            pacer: Pacer::new(terms.bytes_per_s),
        }
    }

    pub fn set_credit(&mut self, credit_bytes: u64) {
        self.credit_bytes = credit_bytes;
    }

    /// Returns the receive buffer that a frame occupies at the peer \[byte\].
    #[inline]
    pub fn cost(&self, frame_bytes: usize, payload_bytes: u64) -> u64 {
        // A request is short; its answer takes as much of this side's buffer.
        frame_bytes.min(payload_bytes as usize + COST_BYTES_MIN) as u64 + self.frame_cost
    }

    /// Returns the receive buffer that frames in flight may take: credit and window \[byte\].
    #[inline]
    pub fn limit(&self) -> u64 {
        self.credit_bytes.min(self.window.bytes())
    }

    /// Returns true when one more frame fits credit and window. One frame always does.
    #[inline]
    pub fn admits(&mut self, flying_cost: u64, cost: u64) -> bool {
        let admitted = flying_cost == 0 || flying_cost + cost <= self.limit();
        self.is_limited |= !admitted;
        admitted
    }

    /// Returns how many more frames fit credit and window.
    pub fn room(&self, flying_cost: u64, cost: u64) -> usize {
        (self.limit().saturating_sub(flying_cost) / cost.max(1)) as usize
    }

    /// Returns true when a configured rate limits the frames.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.pacer.is_limited()
    }

    /// Returns true when credit and window may have no room for another frame after this one.
    #[inline]
    pub fn is_last(&self, flying_cost: u64, cost: u64) -> bool {
        flying_cost + cost + self.cost_max > self.limit()
    }

    /// Returns when the rate allows the next frame; `None`: now.
    #[inline]
    pub fn paced_until(&self, now: Moment) -> Option<Moment> {
        self.pacer.waits_until(now)
    }

    #[inline]
    pub fn sent(&mut self, now: Moment, bytes: u64) {
        self.pacer.sent(now, bytes);
    }

    /// Takes the peer's running count of congestion marks; returns the new ones.
    pub fn new_marks(&mut self, marks: u32) -> u64 {
        // Fewer than before: a later acknowledgement overtook this one.
        let new = (marks.wrapping_sub(self.marks_seen) as i32).max(0) as u32;
        self.marks_seen = self.marks_seen.wrapping_add(new);
        u64::from(new)
    }

    pub fn acknowledged(&mut self, arrived: &Arrived, round_trip: Span, marked: u64) {
        self.window.acknowledged(&Acknowledged {
            now: arrived.now,
            round_trip,
            frames: arrived.frames,
            bytes: arrived.bytes,
            marked,
            limited: self.is_limited,
        });
        self.is_limited = false;
    }

    pub fn lost(&mut self, frames: u64) {
        self.window.lost(frames);
    }

    /// Shrinks the window after a silence or a congestion notification.
    pub fn congested(&mut self) {
        self.window.timed_out();
    }
}
