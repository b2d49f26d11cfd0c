//! Generated traffic between hosts: each message is a call to send, and over when its datagram has
//! been received.

use super::hosts::Hosts;
use crate::load::traffic::Message;
use crate::load::{Arrived, Carrier};
use crate::net::ethernet;
use crate::net::ethernet::datagram::Datagram;

/// The carrier of generated traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages;

impl Carrier for Messages {
    type Network = Hosts;

    fn pack(&mut self, message: &Message, hosts: &Hosts) -> Datagram {
        ethernet::Messages.pack(message, hosts.wire())
    }

    fn arrived(&mut self, node: u32, datagram: Datagram, hosts: &Hosts) -> Arrived<Datagram> {
        ethernet::Messages.arrived(node, datagram, hosts.wire())
    }
}
