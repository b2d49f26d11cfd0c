//! One member as another one sees it.

use alloc::collections::VecDeque;

use super::config::Layout;
use super::error::GroupError;
use super::lane::LANES;
use super::slots::{Incoming, Outgoing};
use super::wire::{Header, Notice};
use crate::Moment;
use crate::fabric::connect::Connector;
use crate::fabric::{EndpointId, RemoteId};

/// The progress of the connection to a member.
#[derive(Debug)]
pub(super) enum Link {
    /// This is the own rank.
    Own,
    /// The member connects to this one.
    Awaited,
    /// This one connects to the member.
    Connecting(Connector),
    /// The next import of the member's region begins at this moment.
    Importing { at: Moment },
    /// The import is asked for.
    Asked(RemoteId),
    /// The greeting has to be sent.
    Greeting(RemoteId),
    /// Messages may be sent.
    Open(RemoteId),
}

/// A message that has arrived and was not received yet: it stays in its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub slot: u32,
    pub header: Header,
    /// Its number among all that arrived.
    pub order: u64,
}

/// The state of one member.
#[derive(Debug)]
pub(super) struct Peer {
    pub link: Link,
    pub endpoint: Option<EndpointId>,
    /// True: the member's greeting has arrived.
    pub has_greeted: bool,
    /// The reason why the member has left or died.
    pub gone: Option<GroupError>,
    pub outgoing: [Outgoing; 3],
    pub incoming: [Incoming; 3],
    /// Notifications to be sent.
    pub control: VecDeque<Notice>,
    /// Messages that nobody has received yet, in order.
    pub arrived: VecDeque<Arrived>,
    /// Parts of collective operations, in order.
    pub parts: VecDeque<Arrived>,
    /// Sends that wait for a slot, in order.
    pub queued: VecDeque<u32>,
    /// Sends whose pieces may be put, in order.
    pub granted: VecDeque<u32>,
    /// Receives whose pieces arrive, in order.
    pub filling: VecDeque<u32>,
    /// True: the member has said that it leaves.
    pub has_left: bool,
    /// The rank that the member has found dead, if any: the cause if it ends, too.
    pub found_dead: Option<usize>,
    /// The progress of the farewell to the member.
    pub farewell: Farewell,
}

/// The progress of a farewell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Nothing was posted.
    Due,
    /// The notification is posted.
    Posted,
    /// The flush behind it is posted.
    Flushing,
    /// All that was sent is in the member's memory.
    Over,
}

impl Peer {
    pub fn new(link: Link, layout: &Layout) -> Peer {
        Peer {
            link,
            endpoint: None,
            has_greeted: false,
            gone: None,
            outgoing: LANES.map(|lane| Outgoing::new(layout.slots(lane))),
            incoming: LANES.map(|lane| Incoming::new(layout.slots(lane))),
            control: VecDeque::new(),
            arrived: VecDeque::new(),
            parts: VecDeque::new(),
            queued: VecDeque::new(),
            granted: VecDeque::new(),
            filling: VecDeque::new(),
            has_left: false,
            found_dead: None,
            farewell: Farewell::Due,
        }
    }

    /// Returns true if it is the own rank, or messages can go both ways.
    pub fn is_joined(&self) -> bool {
        match self.link {
            Link::Own => true,
            Link::Open(_) => self.has_greeted,
            _ => false,
        }
    }

    /// Returns true if it is another member that is there.
    pub fn is_open(&self) -> bool {
        matches!(self.link, Link::Open(_)) && self.gone.is_none()
    }
}
