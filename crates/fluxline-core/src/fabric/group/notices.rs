//! Completions and notifications, and the calls that they end.

use alloc::string::String;

use super::config::RETURNS;
use super::lane::Lane;
use super::peer::{Arrived, Farewell, Link};
use super::wire::{HEADER_BYTES, Header, HeaderKind, IDS, Notice};
use super::{COUNTER_TAG, FLUSH_TAG, GROUP_TAGS, Group, GroupError, PLAIN_TAG, is_group_tag};
use crate::fabric::{Completion, EndpointId, Fabric, Status};

impl Group {
    /// Takes a completion of the fabric; returns it when it is not the group's alone.
    ///
    /// For programs that poll the fabric themselves; they call [`Group::progress`], too.
    pub fn handle(&mut self, fabric: &mut dyn Fabric, what: Completion) -> Option<Completion> {
        match what {
            Completion::Notified { endpoint, region, offset, value, .. }
                if region == self.region =>
            {
                self.noticed(fabric, endpoint, offset, value);
                None
            }
            Completion::Done { endpoint, tag, status, value, .. } if is_group_tag(tag) => {
                self.done(endpoint, tag, status, value);
                None
            }
            Completion::Imported { .. } => (!self.imported(fabric, &what)).then_some(what),
            Completion::Connected { .. } => self.offered(what),
            Completion::Broken { endpoint, status } => self.broken(endpoint, status, what),
            _ => Some(what),
        }
    }

    /// Offers a completion to the connections that are being made.
    fn offered(&mut self, what: Completion) -> Option<Completion> {
        let mut left = Some(what);
        for peer in &mut self.peers {
            if let Link::Connecting(connector) = &mut peer.link {
                left = left.and_then(|what| connector.handle(what));
            }
        }
        left
    }

    fn broken(
        &mut self,
        endpoint: EndpointId,
        status: Status,
        what: Completion,
    ) -> Option<Completion> {
        let Some(rank) = self.ranks.get(&endpoint).copied() else { return self.offered(what) };
        let gone = match self.peers[rank].found_dead {
            // Its program ended because of that one.
            Some(dead) => GroupError::RankGone { rank: dead, status: Status::PeerGone },
            None => GroupError::RankGone { rank, status },
        };
        if !self.peers[rank].has_left && self.peers[rank].gone.is_none() {
            self.report_dead(rank, self.peers[rank].found_dead.unwrap_or(rank));
        }
        self.lose(rank, gone);
        // The program has seen `Connected` of members that connected to this one.
        (rank > self.config.rank).then_some(what)
    }

    fn done(&mut self, endpoint: EndpointId, tag: u64, status: Status, value: u64) {
        let Some(rank) = self.ranks.get(&endpoint).copied() else { return };
        if !status.is_done() {
            // Before `Broken`, which has the reason, all work ends as flushed.
            if status != Status::Flushed {
                let problem = alloc::format!("did not take a put: {status}");
                self.lose(rank, GroupError::Protocol { rank, problem });
            }
            return;
        }
        match tag {
            FLUSH_TAG => self.peers[rank].farewell = Farewell::Over,
            COUNTER_TAG => self.counter.counted(value),
            PLAIN_TAG => {}
            _ => self.requests.copied(rank, (tag - GROUP_TAGS) as u32),
        }
    }

    fn noticed(&mut self, fabric: &dyn Fabric, endpoint: EndpointId, offset: u64, value: u32) {
        let notice = Notice::parse(value);
        if notice == Some(Notice::Hello) {
            return self.greeted(fabric, endpoint, offset);
        }
        let Some(rank) = self.ranks.get(&endpoint).copied() else { return };
        if self.peers[rank].gone.is_some() {
            return;
        }
        let taken = match notice {
            Some(Notice::Slot { lane, slot }) => self.slot_written(rank, lane, slot),
            Some(Notice::Returned) => self.slots_returned(rank),
            Some(Notice::Grant { id }) => self.granted(rank, id),
            Some(Notice::Refuse { id }) => self.refused(rank, id),
            Some(Notice::Release) => {
                self.counter.released();
                Ok(())
            }
            Some(Notice::Bye) => {
                self.peers[rank].has_left = true;
                Ok(())
            }
            Some(Notice::Dead { rank: dead }) => self.found_dead(rank, dead as usize),
            Some(Notice::Hello) | None => Err("sent an unknown notification"),
        };
        if let Err(problem) = taken {
            let problem = String::from(problem);
            self.lose(rank, GroupError::Protocol { rank, problem });
        }
    }

    /// Queues the report of a dead rank for all but `rank`, which has just ended: their connections
    /// to the dead one may notice it later than the end of this program.
    fn report_dead(&mut self, rank: usize, dead: usize) {
        let notice = Notice::Dead { rank: dead as u32 };
        for (other, peer) in self.peers.iter_mut().enumerate() {
            if other != rank && other != dead && peer.is_open() {
                peer.control.push_back(notice);
            }
        }
    }

    /// Notes that a member has found another one dead. The own connection to that one decides
    /// whether it is.
    fn found_dead(&mut self, rank: usize, dead: usize) -> Result<(), &'static str> {
        if dead >= self.size() || dead == rank {
            return Err("reported the death of a rank that there is not");
        }
        if dead != self.config.rank {
            self.peers[rank].found_dead.get_or_insert(dead);
        }
        Ok(())
    }

    fn slots_returned(&mut self, rank: usize) -> Result<(), &'static str> {
        let words = self.layout.section(rank) + RETURNS;
        for (outgoing, index) in self.peers[rank].outgoing.iter_mut().zip(0_u64..) {
            let word = self.memory.load(words + index * 8).map_err(|_| "has no words")?;
            outgoing.returned(word).map_err(|_| "returned a slot that it did not have")?;
        }
        Ok(())
    }

    fn slot_written(&mut self, rank: usize, lane: Lane, slot: u32) -> Result<(), &'static str> {
        let arrived = self.peers[rank].incoming[lane as usize].arrived(slot);
        arrived.map_err(|_| "used a slot that it did not have")?;
        if lane == Lane::Bulk {
            return self.piece_arrived(rank, slot);
        }
        let header = self.header(rank, lane, slot).ok_or("sent an unknown header")?;
        self.arrivals += 1;
        let arrived = Arrived { slot, header, order: self.arrivals };
        let is_short = header.bytes <= u64::from(self.config.eager_bytes);
        match (lane, header.kind) {
            (Lane::Collectives, HeaderKind::Collective) => {
                self.peers[rank].parts.push_back(arrived);
                Ok(())
            }
            (Lane::Messages, HeaderKind::Eager) if is_short => {
                self.message_arrived(rank, arrived);
                Ok(())
            }
            (Lane::Messages, HeaderKind::Announcement) if header.id < u64::from(IDS) => {
                self.message_arrived(rank, arrived);
                Ok(())
            }
            _ => Err("sent a message of the wrong kind"),
        }
    }

    fn header(&self, rank: usize, lane: Lane, slot: u32) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES as usize];
        self.memory.read(self.layout.slot(rank, lane, slot), &mut bytes).ok()?;
        Header::parse(&bytes)
    }

    /// Reads bytes behind the header of a slot.
    pub(super) fn payload(
        &self,
        rank: usize,
        lane: Lane,
        slot: u32,
        into: &mut [u8],
    ) -> Result<(), GroupError> {
        Ok(self.memory.read(self.layout.slot(rank, lane, slot) + HEADER_BYTES, into)?)
    }
}
