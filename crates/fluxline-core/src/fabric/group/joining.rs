//! The members of a group find each other.
//!
//! A member connects to all lower ranks, imports their regions and greets them. The greeting lies
//! in the section of the greeting rank, so its place says who has connected. The greeted member
//! imports the other region in its turn and greets back.

use alloc::format;
use alloc::string::{String, ToString};

use super::config::{GroupConfig, HELLO};
use super::peer::Link;
use super::wire::Notice;
use super::{Group, GroupError, GroupPut};
use crate::fabric::connect::Connector;
use crate::fabric::{Completion, EndpointId, Fabric, Local, Reliability, Status};
use crate::{Moment, Span};

/// The first word of a greeting: the layout of this release.
const VERSION: u64 = 0x464C_5547_524F_0001;
/// Time from one import of a region to the next.
const IMPORT_EVERY: Span = Span::from_ms(5);

/// Returns the first state of the connection to a rank.
pub(super) fn first_link(config: &GroupConfig, rank: usize, until: Moment) -> Link {
    if rank == config.rank {
        return Link::Own;
    }
    if rank > config.rank {
        return Link::Awaited;
    }
    Link::Connecting(Connector::new(&config.members[rank], Reliability::Reliable, until))
}

impl Group {
    /// Returns true when every member can send to this one and this one to all.
    ///
    /// Errors: a member did not join in time, or cannot be joined.
    pub fn has_joined(&self) -> Result<bool, GroupError> {
        if let Some(error) = self.first_gone() {
            return Err(error.clone());
        }
        Ok(self.peers.iter().all(|peer| peer.is_joined()))
    }

    /// Waits until all members have joined. Errors: as [`Group::has_joined`].
    pub fn join(&mut self, fabric: &mut dyn Fabric) -> Result<(), GroupError> {
        self.wait_for(fabric, "joining", |group| match group.has_joined() {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }

    /// Goes on with the connections that are not open yet.
    pub(super) fn progress_joining(&mut self, fabric: &mut dyn Fabric) {
        for rank in 0..self.peers.len() {
            let peer = &self.peers[rank];
            if peer.gone.is_none() && !peer.is_joined() {
                let progressed = self.progress_link(fabric, rank);
                self.check(rank, progressed);
            }
        }
    }

    fn progress_link(&mut self, fabric: &mut dyn Fabric, rank: usize) -> Result<(), GroupError> {
        let now = fabric.now();
        if let Link::Connecting(connector) = &mut self.peers[rank].link {
            let connected = connector.progress(fabric);
            let reached = connected.map_err(|reason| GroupError::NoConnection { rank, reason })?;
            if let Some(endpoint) = reached {
                self.bind(rank, endpoint, now);
            }
        }
        match self.peers[rank].link {
            Link::Importing { at } if now >= at => self.import(fabric, rank)?,
            Link::Greeting(remote) if self.greet(fabric, rank)? => {
                self.peers[rank].link = Link::Open(remote);
            }
            _ => {}
        }
        if now >= self.join_until {
            return Err(GroupError::NotJoined { rank, reason: self.step_of(rank) });
        }
        Ok(())
    }

    /// Notes the endpoint of a member, and imports its region next.
    fn bind(&mut self, rank: usize, endpoint: EndpointId, now: Moment) {
        self.ranks.insert(endpoint, rank);
        self.peers[rank].endpoint = Some(endpoint);
        self.peers[rank].link = Link::Importing { at: now };
    }

    fn import(&mut self, fabric: &mut dyn Fabric, rank: usize) -> Result<(), GroupError> {
        let Some(endpoint) = self.peers[rank].endpoint else { return Ok(()) };
        let (name, key) = (self.config.name.clone(), self.config.key);
        self.peers[rank].link = Link::Asked(fabric.import(endpoint, name, key)?);
        Ok(())
    }

    /// Takes the answer to an import. Returns false if it is not the group's.
    pub(super) fn imported(&mut self, fabric: &dyn Fabric, what: &Completion) -> bool {
        let Completion::Imported { remote, status, bytes } = *what else { return false };
        let asked = |link: &Link| matches!(link, Link::Asked(asked) if *asked == remote);
        let Some(rank) = self.peers.iter().position(|peer| asked(&peer.link)) else {
            return false;
        };
        let expected = self.layout.region_bytes();
        let problem = match status {
            Status::Done if bytes == expected => {
                self.peers[rank].link = Link::Greeting(remote);
                return true;
            }
            Status::NoSuchRegion => {
                self.peers[rank].link = Link::Importing { at: fabric.now() + IMPORT_EVERY };
                return true;
            }
            Status::Done => format!("has a region of {bytes} bytes, not {expected}"),
            _ => format!("does not give its region: {status}"),
        };
        self.lose(rank, GroupError::Protocol { rank, problem });
        true
    }

    fn greet(&self, fabric: &mut dyn Fabric, rank: usize) -> Result<bool, GroupError> {
        let [size, slots, sizes] = self.config.fingerprint();
        let mut greeting = [0; 32];
        for (to, word) in greeting.chunks_exact_mut(8).zip([VERSION, size, slots, sizes]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let to = self.layout.section(self.config.rank) + HELLO;
        let put = GroupPut { to, notice: Notice::Hello, end: None };
        self.put(fabric, rank, Local::Bytes(&greeting), put)
    }

    /// Takes a greeting: of a member that has connected, or the answer to the own one.
    pub(super) fn greeted(&mut self, fabric: &dyn Fabric, endpoint: EndpointId, offset: u64) {
        let Some(rank) = self.layout.greeter(offset) else { return };
        let is_right = match self.ranks.get(&endpoint) {
            Some(known) => *known == rank,
            // Each endpoint has one rank: a second one of a rank is nobody's.
            None => matches!(self.peers[rank].link, Link::Awaited),
        };
        if !is_right || self.peers[rank].gone.is_some() {
            return;
        }
        let [size, slots, sizes] = self.config.fingerprint();
        let expected = [VERSION, size, slots, sizes];
        let word = |index: u64| self.memory.load(self.layout.section(rank) + HELLO + index * 8);
        if (0..4).any(|index| word(index) != Ok(expected[index as usize])) {
            let problem = String::from("has another configuration of the group");
            return self.lose(rank, GroupError::Protocol { rank, problem });
        }
        self.peers[rank].has_greeted = true;
        if matches!(self.peers[rank].link, Link::Awaited) {
            self.bind(rank, endpoint, fabric.now());
        }
    }

    /// Returns the progress of a connection, for people.
    fn step_of(&self, rank: usize) -> String {
        match &self.peers[rank].link {
            Link::Awaited => String::from("it has not connected"),
            Link::Connecting(_) => format!("no connection to {}", self.config.members[rank]),
            Link::Importing { .. } | Link::Asked(_) => String::from("it has no region yet"),
            _ => "it has not greeted".to_string(),
        }
    }
}
