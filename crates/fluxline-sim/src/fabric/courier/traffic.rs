//! Messages of generated traffic as frames of couriers.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::frame::{Body, Frame};
use crate::core::interconnect::Interconnect;
use crate::load::traffic::Message;
use crate::load::{Arrived, Carrier};

/// Messages of generated traffic as frames of couriers: each is over when it has arrived.
#[derive(Clone, Debug)]
pub struct Messages<W> {
    /// Messages under way, by the number of their frame.
    sent: BTreeMap<u64, Message>,
    next: u64,
    wire: PhantomData<fn(W)>,
}

impl<W> Default for Messages<W> {
    fn default() -> Messages<W> {
        Messages { sent: BTreeMap::new(), next: 0, wire: PhantomData }
    }
}

impl<W: Interconnect<Frame = Frame>> Carrier for Messages<W> {
    type Network = W;

    fn pack(&mut self, message: &Message, _: &W) -> Frame {
        self.next += 1;
        self.sent.insert(self.next, *message);
        let Message { source, to, bytes, .. } = *message;
        Frame::new(source, to, self.next, Body::Load(bytes))
    }

    fn unpack(&mut self, frame: Frame) {
        self.sent.remove(&frame.request);
    }

    fn arrived(&mut self, _: u32, frame: Frame, _: &W) -> Arrived<Frame> {
        let message = self.sent.remove(&frame.request);
        Arrived { message, answer: None, over: message.map(|message| message.source) }
    }

    fn host_bytes(&self, frame: &Frame) -> u32 {
        frame.bus_bytes()
    }
}
