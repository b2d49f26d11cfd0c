//! A datagram under way.

use super::datagram::Datagram;
use crate::core::interconnect::SendId;

/// A datagram, until each of its parts has arrived or was lost.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The datagram.
    pub datagram: Datagram,
    /// Its number.
    pub send: SendId,
    /// Parts that have neither arrived nor were lost.
    pub open: u32,
    /// Parts that have not left the card.
    pub unsent: u32,
    /// True if a part was lost, and the loss is reported.
    pub is_lost: bool,
}
