//! A node: a port, and the connections over it.

use core::net::SocketAddr;

use super::config::{AwaitedRepeat, EndpointConfig};
use super::connection::QUANTUM;
use super::counters::{ConnectionCounters, NodeCounters};
use super::endpoints::ENDPOINTS_MAX;
use super::node_core::{Core, Limits, QUEUE_MAX, RECEIVE_COMPLETIONS_MAX, REGIONS_MAX};
use crate::fabric::{AccessError, Capabilities, EndpointId, RegionId, Status, WorkCounters};
use crate::port::{IncomingTrain, Port};
use crate::{Moment, Span};

/// Batches received, and rounds of sending, in one poll.
const BATCHES: usize = 8;
const ROUNDS: usize = 16;
/// Frames that hosts sent back, looked at in one poll.
const REFUSALS_AT_ONCE: usize = 16;
/// Rounds whose frames are sent together: the peer works on them while the next ones are made.
const ROUNDS_A_FLUSH: usize = 4;
/// Fewer frames than these are answered before the node looks for more: the look would cost a
/// system call.
const AT_ONCE_FRAMES_MIN: usize = 4;

/// The most pieces of a gather: each frame's payload is found among them.
const PIECES_MAX: u32 = 64;

/// A node on the link of the port `P`.
pub struct Node<P> {
    pub(super) port: P,
    pub(super) core: Core,
    pub(super) work_counters: WorkCounters,
}

impl<P: Port> Node<P> {
    /// Returns a node on `port`. Cost: little memory until there are regions and connections.
    #[must_use]
    pub fn new(port: P, config: EndpointConfig) -> Node<P> {
        let limits = *port.limits();
        let frame_bytes = limits.frame_bytes_max.min(config.frame_bytes_max);
        let mut capabilities = Capabilities::new(limits.port);
        capabilities.operation_bytes_max = 1 << 30;
        capabilities.message_bytes_max = 1 << 30;
        capabilities.region_bytes_max = 1 << 40;
        capabilities.regions_max = REGIONS_MAX;
        capabilities.endpoints_max = config.endpoints_max.clamp(1, ENDPOINTS_MAX);
        capabilities.queue_max = QUEUE_MAX as u32;
        capabilities.pieces_max = PIECES_MAX;
        capabilities.own_memory = true;
        capabilities.atomics = true;
        capabilities.ordered = true;
        capabilities.death_noticed_within = noticed_within(config.death);
        let limits = Limits {
            capabilities,
            frame_bytes,
            frame_cost: limits.frame_cost,
            receive_buffer_bytes: limits.receive_buffer_bytes,
            in_trains: limits.train_frames > 1,
            member: limits.member,
        };
        let core = Core::new(config, limits);
        Node { port, core, work_counters: WorkCounters::default() }
    }

    /// Sets the time after which a silent peer is gone: [`EndpointConfig::death`].
    pub fn set_death(&mut self, death: Span) {
        self.core.config.death = death;
        self.core.limits.capabilities.death_noticed_within = noticed_within(death);
    }

    /// Returns the port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// Returns the number of waiting completions. A poll reads the port only when there are none.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.core.completions.len()
    }

    /// Returns the counters of frames that reached no connection.
    #[must_use]
    pub fn counters(&self) -> &NodeCounters {
        &self.core.counters
    }

    /// Returns the counters of a connection; `None`: it is not open.
    #[must_use]
    pub fn connection_counters(&self, endpoint: EndpointId) -> Option<&ConnectionCounters> {
        self.core.endpoints.open(endpoint).map(|open| &open.counters)
    }

    /// Returns the frame that a configured, reliable peer has to repeat, if there is one.
    #[must_use]
    pub fn awaited_repeat(&self, endpoint: EndpointId) -> Option<AwaitedRepeat> {
        self.core.endpoints.open(endpoint)?.responder.awaited_repeat()
    }

    /// Lets only the next connection that shows an exported region's key import it, until this is
    /// called again. Others get [`Status::NoRoom`].
    ///
    /// Errors: [`AccessError::UnknownRegion`].
    pub fn admit_one(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.core.regions.admit_one(region)
    }

    /// Returns the connection that imported a region after [`Node::admit_one`]. It may be over
    /// already.
    #[must_use]
    pub fn importer(&self, region: RegionId) -> Option<EndpointId> {
        self.core.regions.importer(region)
    }

    /// Returns the address of an open connection's peer.
    #[must_use]
    pub fn peer_address(&self, endpoint: EndpointId) -> Option<SocketAddr> {
        self.core.endpoints.open(endpoint).map(|open| open.peer_address())
    }

    /// Returns the number of a connection's request frames that were sent and not acknowledged.
    #[must_use]
    pub fn in_flight(&self, endpoint: EndpointId) -> usize {
        self.core.endpoints.open(endpoint).map_or(0, |open| open.requester.in_flight())
    }

    /// Returns the number of requests that a connection's peer had done here, modulo 2^32; `None`:
    /// it is not open.
    #[must_use]
    pub fn requests_done(&self, endpoint: EndpointId) -> Option<u32> {
        self.core.endpoints.open(endpoint).map(|open| open.responder.executor.messages)
    }

    /// Decides about frames that may be the first after a restart of a configured, unreliable
    /// peer.
    ///
    /// Such a frame waits for the next one. Call this when no more frames will be received;
    /// completions may follow.
    pub fn settle(&mut self, now: Moment) {
        let Core { endpoints, regions, completions, .. } = &mut self.core;
        for open in endpoints.connections_mut() {
            open.settle(now, regions, completions);
        }
    }

    /// Sends all acknowledgements. Before a connection ends, its peer learns from them what has
    /// arrived, and its work completes instead of being flushed.
    pub(super) fn acknowledge(&mut self, now: Moment) {
        self.core.acknowledgements_wait = false;
        for open in self.core.endpoints.connections_mut() {
            open.responder.acknowledgement.hurry();
        }
        self.core.send(now, &mut self.port);
        self.port.flush(now);
    }

    /// Ends all connections and sends their peers one goodbye, without waiting for an answer. For a
    /// program that ends.
    pub fn leave(&mut self, now: Moment) {
        self.acknowledge(now);
        for endpoint in self.core.endpoints.living().to_vec() {
            self.core.end(endpoint, Status::Done);
        }
        self.core.send_management(&mut self.port);
        self.core.send(now, &mut self.port);
        self.port.flush(now);
    }

    /// Does all that is due: sends new work, takes arrived frames, then what is due by time, then
    /// sends what follows from it.
    pub(super) fn drive(&mut self, now: Moment) {
        self.core.now = now;
        if core::mem::take(&mut self.core.has_new_work) {
            self.core.acknowledgements_wait = false;
            self.send_all(now);
        }
        let Node { port, core, .. } = self;
        for _ in 0..BATCHES {
            let room = core.completions.len() < RECEIVE_COMPLETIONS_MAX;
            let mut take = |train: IncomingTrain<'_>| core.take_train(now, &train);
            if !room || port.receive_trains(now, &mut take) < AT_ONCE_FRAMES_MIN {
                break;
            }
        }
        for _ in 0..REFUSALS_AT_ONCE {
            let Some(address) = port.refused() else { break };
            core.refused(now, address);
        }
        core.on_time(now);
        core.reply(port);
        core.send_management(port);
        core.acknowledgements_wait = !core.acknowledgements_wait && !core.completions.is_empty();
        self.send_all(now);
    }

    /// Sends until the connections have nothing more, or have had a fair share of turns.
    ///
    /// Several turns are flushed together, because a train goes on from one turn to the next.
    fn send_all(&mut self, now: Moment) {
        for round in 1..=ROUNDS {
            let sent = self.core.send(now, &mut self.port);
            if sent < QUANTUM || round % ROUNDS_A_FLUSH == 0 {
                // Also where the port has no room, and waits for this call.
                self.port.flush(now);
            }
            if sent == 0 {
                break;
            }
        }
        self.port.flush(now);
    }
}

/// Returns the time within which a peer's death is noticed: questions have intervals.
fn noticed_within(death: Span) -> Span {
    Span::from_ns(death.as_ns() / 4 * 5)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::fabric::{
        Completion, Fabric, Grant, Key, Level, Local, Name, Reliability, Rights, Target, Work,
    };
    use crate::port::network::{Network, NetworkPort};

    /// Polls both nodes `turns` times; returns their completions.
    fn run(nodes: &mut [Node<NetworkPort>; 2], now: &mut Moment, turns: u32) -> Vec<Completion> {
        let mut completions = Vec::new();
        for _ in 0..turns {
            *now = *now + Span::from_ns(20_000);
            for node in nodes.iter_mut() {
                completions.extend(core::iter::from_fn(|| node.poll(*now)));
            }
        }
        completions
    }

    #[test]
    fn work_that_arrived_before_its_owner_left_completes_and_is_not_flushed() {
        for leaves in [true, false] {
            let network = Network::new();
            let mut nodes = [1, 2].map(|last| {
                let at = SocketAddr::from(([10, 0, 0, last], 4791));
                Node::new(network.port(at, 300), EndpointConfig::new("node", [last; 16]))
            });
            let mut now = Moment::from_ns(1);
            let region = nodes[0].register(64).expect("memory");
            let name = Name::parse("x").expect("legal");
            let grant = Grant { rights: Rights::ALL, key: Key(5) };
            nodes[0].export(region, name.clone(), grant).expect("free");
            let endpoint = nodes[1].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
            run(&mut nodes, &mut now, 4);
            let remote = nodes[1].import(endpoint, name, Key(5)).expect("open");
            run(&mut nodes, &mut now, 3);
            let to = Target { remote, offset: 0 };
            let (from, complete_at) = (Local::Bytes(b"last"), Some(Level::Placed));
            let put = Work::Put { from, to, notify: Some(1), complete_at };
            nodes[1].post(endpoint, 9, put).expect("room");
            while nodes[1].poll(now).is_some() {}
            // The owner sees the notification, and leaves at once.
            now = now + Span::from_ns(20_000);
            let seen = core::iter::from_fn(|| nodes[0].poll(now));
            let (mut notified, mut theirs) = (false, None);
            for completion in seen {
                if let Completion::Notified { endpoint, .. } = completion {
                    (notified, theirs) = (true, Some(endpoint));
                    break;
                }
            }
            assert!(notified);
            match leaves {
                true => nodes[0].leave(now),
                false => nodes[0].disconnect(theirs.expect("notified")).expect("open"),
            }
            let completions = run(&mut nodes, &mut now, 10);
            let done = |of: &Completion| match *of {
                Completion::Done { tag: 9, status, .. } => Some(status),
                _ => None,
            };
            assert_eq!(completions.iter().find_map(done), Some(Status::Done), "{completions:?}");
        }
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_connections_that_ever_were() {
        let network = Network::new();
        let mut nodes = [1, 2].map(|last| {
            let at = SocketAddr::from(([10, 0, 0, last], 4791));
            Node::new(network.port(at, 300), EndpointConfig::new("node", [last; 16]))
        });
        let mut now = Moment::from_ns(1);
        for round in 0..5000 {
            let region = nodes[0].register(64).expect("memory");
            let name = Name::parse("x").expect("legal");
            let grant = Grant { rights: Rights::ALL, key: Key(5) };
            nodes[0].export(region, name.clone(), grant).expect("free");
            let endpoint = nodes[1].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
            let completions = run(&mut nodes, &mut now, 4);
            let connected =
                completions.iter().filter(|of| matches!(of, Completion::Connected { .. }));
            assert_eq!(connected.count(), 2, "round {round}: {completions:?}");
            nodes[1].import(endpoint, name, Key(5)).expect("open");
            let completions = run(&mut nodes, &mut now, 2);
            let done = |of: &Completion| matches!(of, Completion::Imported { bytes: 64, .. });
            assert!(completions.iter().any(done), "round {round}: {completions:?}");
            nodes[1].disconnect(endpoint).expect("open");
            nodes[0].withdraw(region).expect("own");
            run(&mut nodes, &mut now, 3);
        }
        for node in &nodes {
            let Core { endpoints, imports, regions, .. } = &node.core;
            let kept = endpoints.slots() + imports.slots() + regions.slots();
            assert!(kept <= 3 * 64, "{kept} places after 5000 connections");
            assert_eq!(endpoints.living().len(), 0);
        }
    }
}
