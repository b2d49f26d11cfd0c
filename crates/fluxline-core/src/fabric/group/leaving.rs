//! The end of a group: nobody goes while another one still needs it.

use super::peer::Farewell;
use super::wire::Notice;
use super::{FLUSH_TAG, Group, GroupError};
use crate::fabric::{Fabric, PostError, Work};

impl Group {
    /// Begins to leave: no message is sent afterwards. Poll until [`Group::has_left`].
    pub fn start_leave(&mut self) {
        self.is_leaving = true;
    }

    /// Returns true when all that this rank sent is in place and all others leave, too.
    ///
    /// The fabric may be dropped then. Ranks that died do not count. Errors: the link refuses work.
    pub fn has_left(&mut self, fabric: &mut dyn Fabric) -> Result<bool, GroupError> {
        if !self.is_leaving || !self.requests.has_no_sends() {
            return Ok(false);
        }
        let mut is_over = true;
        for rank in 0..self.size() {
            if self.peers[rank].is_open() {
                self.say_bye(fabric, rank)?;
                let peer = &self.peers[rank];
                is_over &= peer.farewell == Farewell::Over && peer.has_left;
            }
        }
        Ok(is_over)
    }

    /// Waits until all ranks leave, at most for the group's patience, and closes the group.
    ///
    /// Errors: [`GroupError`].
    pub fn leave(mut self, fabric: &mut dyn Fabric) -> Result<(), GroupError> {
        self.start_leave();
        let limit = fabric.now() + self.config.patience;
        while !self.has_left(fabric)? {
            let now = fabric.now();
            self.drive(fabric, now);
            if now >= limit {
                let patience = self.config.patience;
                let waits_for = alloc::string::String::from("the others' leaving");
                return Err(GroupError::Late { waits_for, patience });
            }
            if !self.has_left(fabric)? {
                self.pause(fabric, limit);
            }
        }
        self.close(fabric);
        Ok(())
    }

    /// Withdraws the region and ends the connections, whatever the other ranks do. After
    /// [`Group::has_left`] nothing is lost.
    pub fn close(self, fabric: &mut dyn Fabric) {
        for endpoint in self.ranks.keys() {
            // An error says that it is over already.
            let _ = fabric.disconnect(*endpoint);
        }
        let _ = fabric.withdraw(self.region);
    }

    fn say_bye(&mut self, fabric: &mut dyn Fabric, rank: usize) -> Result<(), GroupError> {
        let peer = &self.peers[rank];
        if peer.farewell == Farewell::Due
            && peer.control.is_empty()
            && self.notify(fabric, rank, Notice::Bye)?
        {
            self.peers[rank].farewell = Farewell::Posted;
        }
        let peer = &mut self.peers[rank];
        let (Farewell::Posted, Some(endpoint)) = (peer.farewell, peer.endpoint) else {
            return Ok(());
        };
        match fabric.post(endpoint, FLUSH_TAG, Work::Flush) {
            Ok(()) => peer.farewell = Farewell::Flushing,
            Err(PostError::Full | PostError::NotConnected) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
