//! The 48 bits of address of one node: its memory, and what its adapter uses itself.
//!
//! ```text
//!   regions      from 4 GiB on ............. fabric/memory.rs has the rights
//!   mailboxes    one page for each source .. messages between drivers
//!   credits      one word for each source .. how many messages the peer has read
//!   registers    answer every read: a sign of life
//! ```

use std::collections::BTreeSet;

use super::address::{CREDIT_AT, MAIL_AT, REGISTERS_AT};
use super::mailbox::{MAILBOX_BYTES, Mailbox};
use super::responder::Space;
use crate::fabric::address::REGIONS_END;
use crate::fabric::memory::NodeMemory;
use crate::host::Atomic;
use crate::net::sci::packet::Lock;
use crate::net::sci::{NodeId, Status};

/// The part of one source.
#[derive(Debug, Default)]
struct Share {
    mailbox: Mailbox,
    /// The number of messages that it has read, as it wrote here.
    credit: u32,
}

/// Mailboxes and credits of one node.
#[derive(Debug, Default)]
pub struct Control {
    /// The sources' parts by address, up to the highest address so far.
    shares: Vec<Share>,
    /// Sources whose mailbox or credit was written since it was looked at.
    rung: BTreeSet<NodeId>,
    /// Sources that are not answered any more.
    deaf: BTreeSet<NodeId>,
}

impl Control {
    /// Stops answering a source that was given up, so that the source notices it, too.
    pub fn give_up(&mut self, source: NodeId) {
        self.deaf.insert(source);
    }

    /// Returns true if a source is answered.
    #[must_use]
    pub fn hears(&self, source: NodeId) -> bool {
        !self.deaf.contains(&source)
    }

    /// Returns the next source that has written a message or a credit.
    pub fn next_rung(&mut self) -> Option<NodeId> {
        // Nearly always empty: an empty tree that is searched costs a wait for its memory.
        if self.rung.is_empty() { None } else { self.rung.pop_first() }
    }

    /// Returns the mailbox of a source.
    pub fn mailbox(&mut self, source: NodeId) -> &mut Mailbox {
        &mut self.share(source).mailbox
    }

    fn share(&mut self, source: NodeId) -> &mut Share {
        let place = usize::from(source.0);
        if place >= self.shares.len() {
            self.shares.resize_with(place + 1, Share::default);
        }
        &mut self.shares[place]
    }

    /// Returns the number of messages a peer has read, as it wrote here.
    #[must_use]
    pub fn credit(&self, source: NodeId) -> u32 {
        self.shares.get(usize::from(source.0)).map_or(0, |share| share.credit)
    }

    fn write(&mut self, source: NodeId, offset: u64, data: &[u8]) -> Result<(), Status> {
        let mail = MAIL_AT + u64::from(source.0) * MAILBOX_BYTES as u64;
        let credit = CREDIT_AT + u64::from(source.0) * 8;
        if (mail..mail + MAILBOX_BYTES as u64).contains(&offset) {
            let at = (offset - mail) as usize;
            self.mailbox(source).write(at, data).map_err(|_| Status::Address)?;
        } else if offset == credit {
            let word = data.try_into().map_err(|_| Status::Address)?;
            let (read, known) = (u32::from_le_bytes(word), &mut self.share(source).credit);
            // Credits only grow: an earlier one that comes late says nothing new.
            if read.wrapping_sub(*known) <= u32::MAX / 2 {
                *known = read;
            }
        } else {
            return Err(Status::Address);
        }
        self.rung.insert(source);
        Ok(())
    }
}

/// All that other nodes can reach of one node.
pub struct NodeSpace<'a> {
    /// Mailboxes and credits.
    pub control: &'a mut Control,
    /// Memory that other nodes can reach.
    pub memory: &'a mut NodeMemory,
    /// The number of the source, by which the memory knows it.
    pub source: u32,
}

impl Space for NodeSpace<'_> {
    fn write(&mut self, source: NodeId, offset: u64, data: &[u8]) -> Result<(), Status> {
        if offset >= REGIONS_END {
            return self.control.write(source, offset, data);
        }
        Ok(self.memory.write(self.source, offset, data)?)
    }

    fn read(&mut self, _: NodeId, offset: u64, into: &mut [u8]) -> Result<usize, Status> {
        if offset >= REGISTERS_AT {
            return Ok(into.len()); // an answer proves that the peer is alive
        }
        Ok(self.memory.read(self.source, offset, into)?)
    }

    fn lock(
        &mut self,
        _: NodeId,
        offset: u64,
        kind: Lock,
        arguments: [u64; 2],
    ) -> Result<u64, Status> {
        let atomic = match kind {
            Lock::FetchAdd => Atomic::FetchAdd,
            Lock::CompareSwap => Atomic::CompareSwap,
            Lock::MaskSwap | Lock::BoundedAdd | Lock::WrapAdd => return Err(Status::Type),
        };
        Ok(self.memory.lock(self.source, offset, atomic, arguments)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{CREDIT_AT, Control, MAIL_AT, NodeSpace, Space};
    use crate::fabric::memory::NodeMemory;
    use crate::net::sci::packet::Lock;
    use crate::net::sci::{NodeId, Status};

    const PEER: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    fn space<'a>(control: &'a mut Control, memory: &'a mut NodeMemory) -> NodeSpace<'a> {
        NodeSpace { control, memory, source: 1 }
    }

    #[test]
    fn nobody_writes_into_the_mailbox_or_the_credits_of_another() {
        let (mut control, mut memory) = (Control::default(), NodeMemory::default());
        let mut space = space(&mut control, &mut memory);
        let own = MAIL_AT + u64::from(PEER.0) * 4096;
        assert_eq!(space.write(PEER, own, &[0; 64]), Ok(()));
        assert_eq!(space.write(OTHER, own, &[0; 64]), Err(Status::Address));
        assert_eq!(space.write(PEER, CREDIT_AT + 8, &8_u32.to_le_bytes()), Ok(()));
        assert_eq!(space.write(OTHER, CREDIT_AT + 8, &9_u32.to_le_bytes()), Err(Status::Address));
        assert_eq!(space.write(PEER, CREDIT_AT + 8, &7_u32.to_le_bytes()), Ok(()));
        assert_eq!(space.lock(PEER, own, Lock::FetchAdd, [1, 0]), Err(Status::Address));
        assert_eq!(control.credit(PEER), 8, "an older credit that came late changes nothing");
        assert_eq!(control.next_rung(), Some(PEER));
    }
}
