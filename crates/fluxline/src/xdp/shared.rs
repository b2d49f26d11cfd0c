//! Ports that share an interface, each with some of its queues and for a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::xdp::Xdp;
use crate::threads::Membership;

/// Queues whose port is gone, for the next port that looks: the card goes on filling them.
#[derive(Debug, Default)]
struct LeftQueues {
    is_any: AtomicBool,
    queues: Mutex<Vec<Xdp>>,
}

/// One port's part in an interface.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) membership: Membership,
    left: Arc<LeftQueues>,
}

impl Share {
    /// Returns the parts of `count` ports.
    pub(super) fn all(count: usize) -> impl Iterator<Item = Share> {
        let left = Arc::new(LeftQueues::default());
        let memberships = Membership::all(u32::try_from(count).unwrap_or(u32::MAX));
        memberships.map(move |membership| Share { membership, left: Arc::clone(&left) })
    }

    /// Returns true when frames or queues of other ports wait for this one.
    pub(super) fn has_waiting(&self) -> bool {
        self.membership.has_waiting() || self.left.is_any.load(Ordering::Relaxed)
    }

    /// Leaves queues to the other ports.
    pub(super) fn leave(&self, queues: &mut Vec<Xdp>) {
        let mut left = self.left.queues.lock().unwrap_or_else(PoisonError::into_inner);
        left.append(queues);
        self.left.is_any.store(true, Ordering::Relaxed);
    }

    /// Takes the queues of ports that are gone.
    #[inline]
    pub(super) fn adopt(&self, queues: &mut Vec<Xdp>) {
        if self.left.is_any.load(Ordering::Relaxed) {
            let mut left = self.left.queues.lock().unwrap_or_else(PoisonError::into_inner);
            queues.append(&mut left);
            self.left.is_any.store(false, Ordering::Relaxed);
        }
    }
}
