//! Room for one more packet: inputs that can wait are held back while the oldest events close,
//! instead of having packets refused.

use super::Builder;
use super::slab::{Fragment, Waiting};
use crate::event::{EventStatus, PacketRow};

impl Builder {
    /// Returns whether a packet of `bytes` bytes that begins an event would be taken.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let cost = (bytes + size_of::<PacketRow>() + size_of::<Fragment>()) as u64;
        self.slab.open_count() < self.config.events_open_max
            && self.bytes_open() + cost <= self.config.bytes_open_max
    }

    /// Closes the oldest events until the open ones take at most three quarters of what they may.
    /// They go into the batch, which is then to be taken.
    pub fn make_room(&mut self) {
        let (events_max, bytes_max) = (self.config.events_open_max, self.config.bytes_open_max);
        while self.slab.open_count() > events_max - events_max.div_ceil(4)
            || self.bytes_open > bytes_max / 4 * 3
        {
            let heads = [Waiting::Optional, Waiting::Required].map(|list| self.slab.head(list));
            let Some((slot, _)) = heads.into_iter().flatten().min_by_key(|(_, due)| *due) else {
                return;
            };
            let complete = self.has_required(slot);
            let status = if complete { EventStatus::Complete } else { EventStatus::Incomplete };
            self.close(slot, status);
        }
    }
}
