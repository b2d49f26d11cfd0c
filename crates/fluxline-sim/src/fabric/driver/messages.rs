//! Messages from other drivers.

use fluxline_core::fabric::{
    Completion, EndpointId, Key, Operation, Reliability, RemoteId, Rights, Status,
};

use super::{Driver, ENDPOINTS_MAX, Then};
use crate::fabric::adapter::Hands;
use crate::fabric::address::AddressRange;
use crate::fabric::endpoint::{Endpoint, Phase};
use crate::fabric::message::{Message, Verdict};

/// A receive buffer that the peer has written.
#[derive(Clone, Copy, Debug)]
struct Filled {
    /// Bytes in the buffer.
    bytes: u64,
    /// Bytes of the message.
    of: u64,
    /// True: the buffer could not be written.
    is_withdrawn: bool,
}

impl Driver {
    /// Acts on a message of the driver of `source`. A message that makes no sense is ignored.
    pub fn message(&mut self, hands: &mut dyn Hands, source: u32, message: &[u8]) {
        let Some(message) = Message::read(message) else { return };
        let known = |driver: &Driver, endpoint: u32| {
            let end = driver.endpoints.get(endpoint as usize)?;
            (end.peer == source && end.phase != Phase::Over).then_some(EndpointId(endpoint))
        };
        match message {
            Message::Connect { endpoint, reliable } => {
                self.asked(hands, source, endpoint, reliable);
            }
            Message::Accept { endpoint, own } => self.accepted(hands, source, endpoint, own),
            Message::Refuse { endpoint } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.close(hands, endpoint, Status::NoRoom);
                }
            }
            Message::Disconnect { endpoint } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.close(hands, endpoint, Status::Disconnected);
                }
            }
            Message::Import { endpoint, number, key, name } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.import_asked(hands, endpoint, number, Key(key), &name);
                }
            }
            Message::Imported { endpoint, number, verdict, region } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.import_decided(endpoint, number, verdict, region);
                }
            }
            Message::Notify { endpoint, place, value } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.notified(hands, endpoint, place, value);
                }
            }
            Message::Buffer { endpoint, place } => {
                if let Some(endpoint) = known(self, endpoint) {
                    self.endpoints[endpoint.0 as usize].buffers.push_back(place);
                    self.advance(hands, endpoint);
                }
            }
            Message::Filled { endpoint, bytes, of, withdrawn } => {
                if let Some(endpoint) = known(self, endpoint) {
                    let filled = Filled { bytes, of, is_withdrawn: withdrawn };
                    self.filled(hands, endpoint, filled);
                }
            }
        }
    }

    fn asked(&mut self, hands: &mut dyn Hands, source: u32, endpoint: u32, reliable: bool) {
        if self.endpoints_open() >= ENDPOINTS_MAX as usize {
            self.send(hands, source, Message::Refuse { endpoint }, Then::Nothing);
            return;
        }
        let reliability = if reliable { Reliability::Reliable } else { Reliability::Unreliable };
        let own = self.add(Endpoint::new(Phase::Open, source, endpoint, reliability));
        let peer = source.to_string();
        self.complete(Completion::Connected { endpoint: own, peer, reliability });
        self.send(hands, source, Message::Accept { endpoint, own: own.0 }, Then::Nothing);
    }

    fn accepted(&mut self, hands: &mut dyn Hands, source: u32, endpoint: u32, own: u32) {
        let peer = source.to_string();
        let end = self.endpoints.get_mut(endpoint as usize);
        match end.filter(|end| end.peer == source && end.phase == Phase::Connecting) {
            Some(end) => {
                (end.phase, end.other) = (Phase::Open, own);
                let (endpoint, reliability) = (EndpointId(endpoint), end.reliability);
                self.complete(Completion::Connected { endpoint, peer, reliability });
            }
            None => {
                self.send(hands, source, Message::Disconnect { endpoint: own }, Then::Nothing);
            }
        }
    }

    fn import_asked(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        number: u32,
        key: Key,
        name: &str,
    ) {
        let end = &mut self.endpoints[endpoint.0 as usize];
        let (peer, other) = (end.peer, end.other);
        let nowhere = AddressRange::default();
        let memory = hands.memory();
        let (verdict, region) = match memory.exported(name) {
            None => (Verdict::NoSuchRegion, nowhere),
            Some(id) => {
                let found = memory.region(id).ok();
                let grant = found.and_then(|region| region.exported.as_ref()).map(|of| of.1);
                match grant.filter(|grant| grant.key == key).zip(found) {
                    None => (Verdict::WrongKey, nowhere),
                    Some((grant, region)) => {
                        let place =
                            AddressRange { offset: region.base, bytes: region.words.bytes() };
                        memory.grant(peer, id);
                        end.granted.push(id);
                        (Verdict::Granted { rights: bits(grant.rights) }, place)
                    }
                }
            }
        };
        let answer = Message::Imported { endpoint: other, number, verdict, region };
        self.send(hands, peer, answer, Then::Nothing);
    }

    fn import_decided(
        &mut self,
        endpoint: EndpointId,
        number: u32,
        verdict: Verdict,
        at: AddressRange,
    ) {
        let remote = RemoteId(number);
        let import = self.imports.get_mut(number as usize);
        let Some(import) = import.filter(|import| import.endpoint == endpoint) else { return };
        let (status, bytes) = match verdict {
            Verdict::Granted { rights } => {
                (import.region, import.rights) = (Some(at), rights_of(rights));
                (Status::Done, at.bytes)
            }
            Verdict::NoSuchRegion => (Status::NoSuchRegion, 0),
            Verdict::WrongKey => (Status::WrongKey, 0),
        };
        self.complete(Completion::Imported { remote, status, bytes });
    }

    fn notified(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        place: AddressRange,
        value: u32,
    ) {
        if let Some((region, offset)) = hands.memory().find(place.offset) {
            let bytes = place.bytes;
            self.complete(Completion::Notified { endpoint, region, offset, bytes, value });
        }
    }

    fn filled(&mut self, hands: &mut dyn Hands, endpoint: EndpointId, filled: Filled) {
        let Filled { bytes, of, is_withdrawn } = filled;
        let end = &mut self.endpoints[endpoint.0 as usize];
        let Some(receive) = end.receives.pop_front() else { return };
        hands.memory().close_buffer(end.peer, receive.place);
        let gone = is_withdrawn || hands.memory().region(receive.into.region).is_err();
        let (status, value) = match gone {
            true => (Status::Withdrawn, 0),
            false if of > bytes => (Status::TooLong, bytes),
            false => (Status::Done, bytes),
        };
        let (tag, operation) = (receive.tag, Operation::Receive);
        self.complete(Completion::Done { endpoint, tag, operation, status, value });
    }
}

fn bits(rights: Rights) -> u8 {
    u8::from(rights.put) | u8::from(rights.get) << 1 | u8::from(rights.atomic) << 2
}

fn rights_of(bits: u8) -> Rights {
    Rights { put: bits & 1 != 0, get: bits & 2 != 0, atomic: bits & 4 != 0 }
}
