//! A node without its port: it takes frames and time, and drives the connections.

use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};

use super::config::EndpointConfig;
use super::connection::{Connection, SendTurn};
use super::context::{CompletionQueue, ReceivedFrame};
use super::counters::NodeCounters;
use super::endpoints::{EndpointState, Endpoints};
use super::frames::{Kind, SETUP_PAIR, Selective, Setup, destination_of, kind_of};
use super::handshake::{Handshake, Leaving};
use super::imports::Imports;
use super::managed::Managed;
use super::numbered::SLOTS_MAX;
use super::regions::Regions;
use super::responder::is_request;
use super::wire::IcrcCheck;
use crate::Moment;
use crate::fabric::{Capabilities, EndpointId, Status};
use crate::port::{Incoming, IncomingTrain, Member, Port};
use crate::roce::header::BTH_BYTES;
use crate::roce::{ICRC_BYTES, Opcode, Packet, QueuePair};

/// The most own regions, and the most imports.
pub(super) const REGIONS_MAX: u32 = SLOTS_MAX as u32;
/// Completions not yet polled. When this many wait, the node stops receiving.
pub(super) const RECEIVE_COMPLETIONS_MAX: usize = 4096;
/// The most operations that wait in one endpoint.
pub(super) const QUEUE_MAX: usize = 1024;
/// The share of the receive buffer for requests. Set-up and acknowledgements have the rest.
const CREDIT_NUMERATOR: u64 = 3;
const CREDIT_DENOMINATOR: u64 = 4;
/// Frames that a connection may always have in flight.
const CREDIT_FRAMES_MIN: u64 = 8;

/// Limits of the port and of the configuration.
pub(super) struct Limits {
    pub capabilities: Capabilities,
    pub frame_bytes: usize,
    /// Receive buffer that a frame takes beside its bytes \[byte\].
    pub frame_cost: usize,
    pub receive_buffer_bytes: usize,
    /// The port sends equal frames as trains.
    pub in_trains: bool,
    pub member: Member,
}

/// A node without its port.
pub(super) struct Core {
    pub config: EndpointConfig,
    pub limits: Limits,
    pub regions: Regions,
    pub endpoints: Endpoints,
    pub imports: Imports,
    pub handshake: Handshake,
    /// Connections with programs of rdma_cm.
    pub managed: Managed,
    pub completions: CompletionQueue,
    pub counters: NodeCounters,
    /// Acknowledgements wait for the next poll, so that they share frames with posted work.
    pub acknowledgements_wait: bool,
    /// Work was posted since the last poll. It leaves before arrived frames are taken.
    pub has_new_work: bool,
    /// The time of the last poll.
    pub now: Moment,
}

impl Core {
    pub fn new(config: EndpointConfig, limits: Limits) -> Core {
        Core {
            handshake: Handshake::new(config.secret),
            endpoints: Endpoints::new(limits.member),
            config,
            limits,
            regions: Regions::default(),
            imports: Imports::default(),
            managed: Managed::default(),
            completions: CompletionQueue::new(),
            counters: NodeCounters::default(),
            acknowledgements_wait: false,
            has_new_work: false,
            now: Moment::default(),
        }
    }

    /// Returns the endpoint's connection, if it is open.
    pub fn open(&mut self, endpoint: EndpointId) -> Option<&mut Connection> {
        self.endpoints.open_mut(endpoint)
    }

    /// Returns a queue pair for the endpoint, if one is free.
    pub fn new_pair(&mut self, endpoint: EndpointId) -> Option<QueuePair> {
        self.endpoints.new_pair(self.handshake.secrets.number() as u32, endpoint)
    }

    /// Returns a random number for a call, whose answers come to this node.
    pub fn new_nonce(&mut self) -> u64 {
        let secrets = &mut self.handshake.secrets;
        let byte = self.limits.member.nonce_byte(secrets.byte());
        secrets.number() & !0xFF | u64::from(byte)
    }

    /// Returns a random identifier of a connection with a program of rdma_cm.
    pub fn new_id(&mut self) -> u32 {
        self.limits.member.number(self.handshake.secrets.number() as u32)
    }

    /// Returns the bytes that a peer may have in flight to this node.
    pub fn credit_bytes(&self) -> u64 {
        let share = self.limits.receive_buffer_bytes as u64 / CREDIT_DENOMINATOR * CREDIT_NUMERATOR;
        let least = (self.limits.frame_bytes + self.limits.frame_cost) as u64 * CREDIT_FRAMES_MIN;
        (share / self.endpoints.living().len().max(1) as u64).max(least)
    }

    fn is_allowed(&self, address: IpAddr) -> bool {
        let allowed = &self.config.allowed;
        allowed.is_empty() || allowed.iter().any(|&(of, bits)| is_within(address, of, bits))
    }

    // ---- frames ----

    /// Takes received frames in order.
    pub fn take_train(&mut self, now: Moment, train: &IncomingTrain<'_>) {
        let mut index = 0;
        while let Some(frame) = train.frame(index) {
            self.take(now, &frame);
            index += 1;
            index += self.take_run(now, train, index);
        }
    }

    /// Takes the frames of a train from index `from` on that can be predicted; returns how many.
    fn take_run(&mut self, now: Moment, train: &IncomingTrain<'_>, from: usize) -> usize {
        let Some(frame) = train.frame(from).filter(|frame| can_be_predicted(frame.bytes)) else {
            return 0;
        };
        let Some(pair) = destination_of(frame.bytes) else { return 0 };
        let Core { endpoints, regions, completions, .. } = self;
        let Some(endpoint) = endpoints.find(pair) else { return 0 };
        let Some(open) = endpoints.open_mut(endpoint) else { return 0 };
        if completions.len() >= RECEIVE_COMPLETIONS_MAX {
            return 0;
        }
        open.take_run(now, train, from, regions, completions)
    }

    /// Takes a received frame.
    pub fn take(&mut self, now: Moment, frame: &Incoming<'_>) {
        let long_enough = frame.bytes.len() >= BTH_BYTES + ICRC_BYTES;
        let Some(pair) = destination_of(frame.bytes).filter(|_| long_enough) else {
            self.counters.too_short += 1;
            return;
        };
        let kind = kind_of(frame.bytes);
        if pair == SETUP_PAIR {
            if !self.is_allowed(frame.from.ip()) {
                self.counters.not_allowed += 1;
            } else if kind == Some(Kind::Setup) {
                self.take_setup(now, frame);
            } else if self.managed.is_used() {
                self.take_management(now, frame);
            } else {
                self.counters.unknown_kind += 1;
            }
            return;
        }
        let Some(endpoint) = self.endpoints.find(pair) else {
            self.counters.unknown_pair += 1;
            if kind == Some(Kind::Setup) && self.is_allowed(frame.from.ip()) {
                self.take_stray(frame);
            }
            return;
        };
        match self.endpoints.state(endpoint) {
            Some(EndpointState::Open(_)) => self.take_open(now, endpoint, kind, frame),
            Some(EndpointState::Leaving(_)) if kind == Some(Kind::Setup) => {
                self.take_leaving(endpoint, frame);
            }
            // Frames for a call that is not answered yet, or data after a farewell: both are late.
            _ => {}
        }
    }

    /// Takes a frame of an open connection.
    fn take_open(
        &mut self,
        now: Moment,
        endpoint: EndpointId,
        kind: Option<Kind>,
        frame: &Incoming<'_>,
    ) {
        let Core { endpoints, completions, counters, .. } = self;
        let Some(open) = endpoints.open_mut(endpoint) else { return };
        let is_fluxline = open.peer.kind.is_fluxline();
        if !open.route.ends.is_sender(frame.from) {
            counters.wrong_sender += 1;
            return;
        }
        let check = open.icrc_check();
        let is_required = check.is_required || kind == Some(Kind::Setup);
        let check = IcrcCheck { is_required, ..check };
        let Some(bytes) = open.route.ends.opened(frame, check) else {
            counters.wrong_check += 1;
            open.counters.frames_wrong_check += u64::from(open.repeats_frames());
            return;
        };
        let over = match kind {
            // A static peer speaks only the standard.
            Some(_) if !is_fluxline => {
                open.counters.frames_foreign += 1;
                return;
            }
            None => match Packet::parse(bytes) {
                Ok(packet) => self.take_packet(now, endpoint, frame, &packet, bytes),
                Err(_) => {
                    counters.unknown_kind += 1;
                    return;
                }
            },
            Some(Kind::Selective) => {
                open.hear(now);
                if let Some(ack) = Selective::parse(bytes) {
                    open.counters.acknowledgements_received += 1;
                    open.responder.acknowledgement.take_question(ack.question);
                    open.requester.selective(now, &ack, completions);
                }
                Ok(())
            }
            Some(Kind::Setup) => {
                open.hear(now);
                match Setup::parse(bytes) {
                    Some(setup) => self.take_control(endpoint, &setup),
                    None => self.counters.unknown_kind += 1,
                }
                return;
            }
        };
        if let Err(status) = over {
            self.end(endpoint, status);
        } else {
            self.note_withdrawn(endpoint);
        }
    }

    /// Takes a packet of the standard; `bytes`: its frame without ICRC. `Err`: the connection is
    /// over.
    #[inline]
    fn take_packet(
        &mut self,
        now: Moment,
        endpoint: EndpointId,
        frame: &Incoming<'_>,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let Core { endpoints, regions, completions, counters, .. } = self;
        let Some(open) = endpoints.open_mut(endpoint) else { return Ok(()) };
        // Completions are bounded: the sender repeats a request that is dropped here.
        if completions.len() >= RECEIVE_COMPLETIONS_MAX && is_request(&packet.headers().body) {
            return Ok(());
        }
        if !open.route.ends.is_pinned() {
            if !open.expects(now, packet, regions, completions) {
                counters.wrong_sender += 1;
                return Ok(());
            }
            open.route.ends.pin(frame.from);
        }
        let frame = ReceivedFrame { packet, bytes, is_marked: frame.congestion };
        open.take(now, &frame, regions, completions)
    }

    /// Marks the imports that the peer has withdrawn: they take no more work.
    fn note_withdrawn(&mut self, endpoint: EndpointId) {
        let Core { endpoints, imports, .. } = self;
        let Some(open) = endpoints.open_mut(endpoint) else { return };
        for remote in open.requester.withdrawn.drain(..) {
            imports.mark_withdrawn(remote);
        }
    }

    // ---- time ----

    /// Notes that a host sent a frame back: the peers at `address` may have ended.
    pub fn refused(&mut self, now: Moment, address: SocketAddr) {
        let peers = self.endpoints.connections_mut();
        let there = peers.filter(|open| open.peer_address() == address);
        there.for_each(|open| open.refuse(now));
    }

    /// Does what is due by time.
    pub fn on_time(&mut self, now: Moment) {
        self.manage(now);
        for index in (0..self.endpoints.living().len()).rev() {
            // From the last one: an end removes no other endpoint.
            let endpoint = self.endpoints.living()[index];
            let death = self.config.death;
            let Core { endpoints, regions, completions, .. } = self;
            match endpoints.state_mut(endpoint) {
                Some(EndpointState::Open(open)) => {
                    if let Err(status) = open.on_time(now, death, regions, completions) {
                        self.end(endpoint, status);
                    }
                }
                Some(EndpointState::Calling(_)) => self.calling_on_time(now, endpoint),
                Some(EndpointState::Leaving(leaving)) => {
                    if leaving.is_over(now) {
                        self.endpoints.remove(endpoint);
                    }
                }
                Some(EndpointState::Between) | None => {}
            }
        }
    }

    /// Gives each endpoint its turn of sending; returns how many frames.
    pub fn send<P: Port>(&mut self, now: Moment, port: &mut P) -> usize {
        let turn = SendTurn {
            now,
            credit_bytes: self.credit_bytes(),
            death: self.config.death,
            acknowledgements_wait: self.acknowledgements_wait,
        };
        let count = self.endpoints.living().len();
        let first = self.endpoints.next_turn();
        let mut sent = 0;
        for step in 0..count {
            let endpoint = self.endpoints.living()[first.wrapping_add(step) % count];
            let Core { endpoints, completions, .. } = self;
            sent += match endpoints.state_mut(endpoint) {
                Some(EndpointState::Open(open)) => open.send(&turn, port, completions),
                Some(EndpointState::Calling(_)) => self.call(now, endpoint, port),
                Some(EndpointState::Leaving(leaving)) => leaving.send(now, port),
                Some(EndpointState::Between) | None => 0,
            };
        }
        sent
    }

    /// Ends a connection: flushes its work and forgets its imports.
    pub fn end(&mut self, endpoint: EndpointId, status: Status) {
        let Core { endpoints, completions, handshake, now, .. } = self;
        let Some(open) = endpoints.open_mut(endpoint) else { return };
        open.end(status, completions);
        let peer_knows = matches!(status, Status::Disconnected | Status::PeerGone);
        let leaving = match endpoints.take(endpoint) {
            Some(EndpointState::Open(open)) if open.peer.kind.is_fluxline() => {
                handshake.ended.note(*now, open.peer_address(), open.peer.nonce);
                (!peer_knows).then(|| Leaving::of(*open))
            }
            _ => None,
        };
        self.imports.forget_endpoint(endpoint);
        self.leave_managed(endpoint);
        match leaving {
            Some(leaving) => {
                self.endpoints.set(endpoint, EndpointState::Leaving(Box::new(leaving)))
            }
            None => self.endpoints.remove(endpoint),
        }
    }

    /// Returns when there is work although no frame arrives.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let death = self.config.death;
        let living = self.endpoints.living().iter();
        let times = living.filter_map(|&of| match self.endpoints.state(of)? {
            EndpointState::Open(open) => open.deadline(now, death),
            EndpointState::Calling(calling) => Some(calling.deadline()),
            EndpointState::Leaving(leaving) => Some(leaving.deadline()),
            EndpointState::Between => None,
        });
        times.chain(self.managed.deadline()).min()
    }
}

/// Returns true for the kinds of frames that follow one another in trains: parts of a reliable
/// write, and writes of one frame.
#[inline]
fn can_be_predicted(frame: &[u8]) -> bool {
    let kinds = [Opcode::RcWriteMiddle, Opcode::RcWriteOnly, Opcode::UcWriteOnly];
    frame.first().is_some_and(|byte| kinds.iter().any(|kind| kind.byte() == *byte))
}

/// Returns true when the first `bits` of two addresses are equal.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differs = match (address.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differs.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_takes_its_own_addresses_and_no_others() {
        let within = |address: &str, network: &str, bits| {
            is_within(address.parse().expect("address"), network.parse().expect("address"), bits)
        };
        assert!(within("10.0.0.7", "10.0.0.0", 24) && !within("10.0.1.7", "10.0.0.0", 24));
        assert!(within("10.0.0.7", "10.0.0.7", 32) && !within("10.0.0.6", "10.0.0.7", 32));
        assert!(within("1.2.3.4", "0.0.0.0", 0) && !within("1.2.3.4", "::", 0));
        assert!(within("fe80::1", "fe80::", 64) && !within("fe81::1", "fe80::", 64));
    }
}
