//! Congestion notifications (CNP) to a peer of the standard whose frames a switch has marked, so
//! that its card slows down.
//!
//! Source: Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (DCQCN), SIGCOMM
//! 2015, section 3.1: a notification point sends one CNP per flow in 50 us, while marks arrive.

use super::wire::Wire;
use crate::port::Port;
use crate::roce::Headers;
use crate::{Moment, Span};

/// The shortest time between two notifications of one connection.
const INTERVAL: Span = Span::from_ns(50_000);

/// The notifications of one connection.
#[derive(Default)]
pub(super) struct CongestionNotices {
    /// A marked frame has come since the last notification.
    is_due: bool,
    sent: Option<Moment>,
}

impl CongestionNotices {
    /// Notes a frame; `is_marked`: by a switch.
    #[inline]
    pub fn note(&mut self, is_marked: bool) {
        self.is_due |= is_marked;
    }

    /// Returns when the next notification may be sent.
    pub fn deadline(&self) -> Option<Moment> {
        let at = self.sent.map_or(Moment::default(), |sent| sent + INTERVAL);
        self.is_due.then_some(at)
    }

    /// Sends the notification that is due; returns true when it was sent.
    pub fn send<P: Port>(&mut self, now: Moment, wire: &mut Wire<'_, P>) -> bool {
        let is_time = self.deadline().is_some_and(|at| at <= now);
        if !is_time {
            return false;
        }
        let is_sent = wire.packet(&Headers::congestion_notification(wire.to()), 0, |_| {});
        if is_sent {
            (self.is_due, self.sent) = (false, Some(now));
        }
        is_sent
    }
}
