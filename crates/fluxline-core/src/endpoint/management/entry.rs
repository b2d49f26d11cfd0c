//! One connection as connection management sees it.

use alloc::boxed::Box;
use core::net::IpAddr;

use super::mad::{Ids, MAD_BYTES, Queue};
use crate::Moment;
use crate::fabric::EndpointId;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A request came, and the program has not decided.
    Asked,
    /// The acceptance was sent, and not confirmed.
    Replied,
    /// A request was sent, and not answered.
    Calling,
    /// Both ends know of the connection.
    Open,
    /// The end was announced, and not confirmed.
    Leaving,
    /// It is over; late messages are answered as before.
    Over,
}

/// A connection.
pub struct Entry {
    pub state: State,
    /// The identifier of this end, and the peer's, 0 while it is not known.
    pub ids: Ids,
    pub peer: IpAddr,
    pub endpoint: Option<EndpointId>,
    /// The number of the request, which its answers repeat.
    pub transaction: u64,
    /// The queue pair of this end, once it has one.
    pub own: Option<Queue>,
    /// The peer's queue pair, once it is known.
    pub theirs: Option<Queue>,
    /// The last message that is repeated.
    pub last: Option<Box<[u8; MAD_BYTES]>>,
    /// The number of times that it was sent.
    pub tries: u32,
    /// The time to send it again, to give it up, or to forget this.
    pub due: Moment,
}

impl Entry {
    /// Returns true while the program or the peer has not decided about the connection.
    pub fn is_half_open(&self) -> bool {
        matches!(self.state, State::Asked | State::Replied)
    }

    /// Returns true when a message of this peer with these identifiers belongs to it.
    pub fn is_named(&self, peer: IpAddr, ids: Ids) -> bool {
        let is_theirs = self.ids.theirs == ids.own || self.ids.theirs == 0;
        self.peer == peer && self.ids.own == ids.theirs && is_theirs
    }
}
