//! Regions that simple senders (FPGAs) write over Ethernet, configured on both sides.
//!
//! They use RDMA WRITE ONLY with immediate. Each write is a record in a slot of its sender's ring.
//! While the readout is behind, frames of unreliable senders wait in the socket's buffer; reliable
//! senders are asked to repeat theirs (RNR), which holds them back.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::landing::{SlotAnnouncer, landing_slots};
use fluxline::roce::{RoceError, RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig, WhenEmpty};
use fluxline_core::SenderAddress;
use fluxline_core::endpoint::counters::ConnectionCounters;
use fluxline_core::endpoint::{EndpointConfig, StaticPeer, StaticRegion};
use fluxline_core::fabric::{Completion, EndpointId, Fabric, RegionId, Reliability, Rights};
use fluxline_core::port::Port;
use fluxline_core::roce::{Psn, QueuePair};
use fluxline_daq::experiment::{self, Roce, Sender, SenderReliability, Source};
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters};
use serde_json::{Map, Value, json};

use super::retries::RetryWatch;
use super::{Feed, InputEnd, OpenInput};
use crate::error::Error;
use crate::monitor::{Monitor, PublishedInput};
use crate::ring::{InputRing, Landed, LandedLane};
use crate::stop::Stop;

/// Longest wait at an empty socket before the thread checks whether the run is over.
const LOOK: Duration = Duration::from_millis(20);
/// Pause of a port between two polls, so that frames gather.
const NAP: Duration = Duration::from_micros(50);
/// Fewest free slots of a ring; below, the readout reads first. Derived: one poll of the node
/// brings at most this many records (8 batches of 64). A ring shorter than twice this needs half
/// its slots.
const FREE_SLOTS: u64 = 512;
/// A socket that is never empty is drained no longer than this.
const DRAIN_MAX: Duration = Duration::from_millis(200);

/// Binds a node to the experiment's address, with the configured buffer. Without GRO the kernel
/// counts every frame that it drops.
pub(super) fn bind(name: &str, roce: &Roce) -> Result<UdpPort, Error> {
    let local = experiment::address(&roce.listen)
        .map_err(|text| Error::input(format_args!("source `{name}`: listen = {text}")))?;
    let config = UdpPortConfig {
        receive_buffer_bytes: roce.receive_buffer_bytes,
        gro: false,
        when_empty: WhenEmpty::Nap(NAP),
        ..UdpPortConfig::new(local)
    };
    UdpPort::bind(config).map_err(|error| Error::link(format_args!("source `{name}`: {error}.")))
}

/// The defaults of an endpoint of this run.
pub(super) fn config_of(name: &str) -> Result<EndpointConfig, Error> {
    let failed = |error: RoceError| Error::failed(format_args!("source `{name}`: {error}."));
    endpoint_config(name).map_err(failed)
}

/// Static senders and their rings.
struct RoceFeed {
    name: String,
    node: RoceNode,
    lanes: Vec<Lane>,
}

/// One sender.
struct Lane {
    name: String,
    endpoint: EndpointId,
    region: RegionId,
    announcer: SlotAnnouncer,
    /// Only for a reliable sender.
    retries: Option<RetryWatch>,
    records: u64,
    bytes: u64,
}

/// Binds the port and makes the senders' regions.
pub(super) fn open(source: &Source, roce: &Roce) -> Result<OpenInput, Error> {
    let name = source.name.clone();
    let port = bind(&name, roce)?;
    let (address, warning) = (port.local_address(), port.buffer().warning());
    // No peer may connect: no frame has the unspecified address as its sender.
    let nobody = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128);
    let config = EndpointConfig { allowed: vec![nobody], ..config_of(&name)? };
    let mut node = RoceNode::on(port, config);
    let (mut lanes, mut landed) = (Vec::new(), Vec::new());
    for sender in &roce.senders {
        let wrong = |error: &dyn std::fmt::Display| {
            let of = &sender.name;
            Error::link(format_args!("source `{name}`: sender `{of}`: {error}."))
        };
        let (announcer, slots) =
            landing_slots(roce.ring_bytes, roce.slot_bytes()).map_err(|error| wrong(&error))?;
        let region = node.node().register_own(announcer.memory()).map_err(|error| wrong(&error))?;
        let peer = static_peer(roce, sender, region)
            .map_err(|text| Error::input(format_args!("source `{name}`: {text}")))?;
        let endpoint =
            node.node().add_static(&peer, clock::monotonic()).map_err(|error| wrong(&error))?;
        landed.push(LandedLane { sender: SenderAddress::from(peer.address), slots });
        let name = sender.name.clone();
        let is_reliable = sender.reliability == SenderReliability::Reliable;
        let retries = is_reliable.then(RetryWatch::default);
        lanes.push(Lane { name, endpoint, region, announcer, retries, records: 0, bytes: 0 });
    }
    let ring = InputRing::Landed(Landed::new(landed, address.port()));
    let ring_bytes = roce.ring_bytes * roce.senders.len().max(1) as u64;
    let input = OpenInput::new(source, ring, ring_bytes, RoceFeed { name, node, lanes });
    let warnings = warning.into_iter().collect();
    Ok(OpenInput { listens: vec![format!("roce://{address}")], warnings, ..input })
}

impl Feed for RoceFeed {
    /// Places frames until the run is over, then those that the socket still has.
    fn run(mut self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let mut over: Option<Instant> = None;
        loop {
            if over.is_none() && stop.is_over() {
                over = Some(Instant::now());
            }
            let taken = self.take();
            self.watch(monitor);
            monitor.publish_input(|| self.published());
            let drained = taken == 0 && self.has_room();
            if over.is_some_and(|since| drained || since.elapsed() > DRAIN_MAX) {
                break;
            }
            if !drained {
                // There is more, or the readout is behind: frames wait in the socket's buffer.
                if taken == 0 {
                    std::thread::sleep(NAP);
                }
            } else if let Err(error) = self.node.wait(LOOK) {
                monitor.note(Some(format!("source `{}`: {error}", self.name)));
                break;
            }
        }
        self.announce_rest();
        self.end(monitor)
    }
}

impl RoceFeed {
    /// Returns true when the next poll's frames of unreliable senders find free slots.
    fn has_room(&self) -> bool {
        self.lanes.iter().filter(|lane| lane.retries.is_none()).all(|lane| {
            let slots = lane.announcer.slots();
            lane.announcer.free() >= FREE_SLOTS.min(slots.div_ceil(2))
        })
    }

    /// Polls the node until it has no frames or the readout is behind; returns the number of
    /// records.
    fn take(&mut self) -> u64 {
        let mut taken = 0;
        loop {
            if self.node.node().waiting() == 0 {
                // All written and notified records are announced.
                self.lanes.iter_mut().for_each(|lane| lane.announcer.next_round());
                if !self.has_room() {
                    return taken;
                }
            }
            match self.node.next_completion() {
                Some(Completion::Notified { endpoint, region, offset, bytes, .. }) => {
                    taken += self.announce(endpoint, region, offset, bytes);
                }
                Some(_) => {}
                None => return taken,
            }
        }
    }

    /// Reports reliable senders whose retries ran out.
    fn watch(&mut self, monitor: &Monitor) {
        let (now, node) = (clock::monotonic(), self.node.node());
        for lane in &mut self.lanes {
            let Some(retries) = &mut lane.retries else { continue };
            let restarts = node.connection_counters(lane.endpoint).map_or(0, |of| of.restarts);
            if let Some(reason) = retries.look(node.awaited_repeat(lane.endpoint), restarts, now) {
                let (source, sender) = (&self.name, &lane.name);
                monitor.note(Some(format!("source `{source}`: sender `{sender}` {reason}")));
            }
        }
    }

    /// Announces the records that were written before the end.
    fn announce_rest(&mut self) {
        self.node.node().settle(clock::monotonic());
        while self.node.node().waiting() > 0 {
            let completion = self.node.next_completion();
            if let Some(Completion::Notified { endpoint, region, offset, bytes, .. }) = completion {
                self.announce(endpoint, region, offset, bytes);
            }
        }
    }

    /// Announces a written record; returns the number of records, 1 or 0.
    fn announce(&mut self, endpoint: EndpointId, region: RegionId, offset: u64, bytes: u64) -> u64 {
        // Endpoints are numbered as senders are, from the first.
        let first = self.lanes.first().map_or(0, |lane| lane.endpoint.0);
        let lane = self.lanes.get_mut(endpoint.0.wrapping_sub(first) as usize);
        let Some(lane) = lane.filter(|lane| lane.endpoint == endpoint && lane.region == region)
        else {
            return 0;
        };
        let there = lane.announcer.announce(offset, bytes);
        lane.records += u64::from(there);
        lane.bytes += if there { bytes } else { 0 };
        u64::from(there)
    }

    fn end(mut self, monitor: &Monitor) -> InputEnd {
        self.end_watches(monitor);
        let published = self.published();
        monitor.publish_input_end(published.clone());
        let PublishedInput { counters, remote } = published;
        let mut end = InputEnd { counters, remote, ..InputEnd::default() };
        let mut connections = Vec::new();
        for lane in &self.lanes {
            let endpoint = lane.endpoint;
            let Some(counters) = self.node.node().connection_counters(endpoint) else { continue };
            if counters.frames_received == 0 {
                monitor.note(Some(format!(
                    "source `{}`: no frame of sender `{}` came; compare address, queue-pair and \
                     the sender's own configuration",
                    self.name, lane.name
                )));
            }
            let rows = counters.rows().map(|(row, value)| (row.name.to_string(), value.into()));
            let rows = Value::Object(Map::from_iter(rows));
            connections.push(json!({
                "sender": lane.name, "records": lane.records,
                "overrun": lane.announcer.overrun(), "counters": rows,
            }));
        }
        end.connections = Some(connections.into());
        end
    }

    /// Counts the reliable senders that were broken at the end.
    fn end_watches(&mut self, monitor: &Monitor) {
        let now = clock::monotonic();
        for lane in &mut self.lanes {
            let Some(retries) = &mut lane.retries else { continue };
            let awaited = self.node.node().awaited_repeat(lane.endpoint);
            if let Some(reason) = retries.end(awaited, now) {
                let (source, sender) = (&self.name, &lane.name);
                monitor.note(Some(format!("source `{source}`: sender `{sender}` {reason}")));
            }
        }
    }

    /// Returns the counters so far.
    fn published(&mut self) -> PublishedInput {
        let mut remote = self.counters();
        let bytes = self.lanes.iter().map(|lane| lane.bytes).sum();
        let mut counters =
            InputCounters { datagrams: remote.records, bytes, ..InputCounters::default() };
        let dropped = self.node.node().port().counters().frames_dropped;
        // The kernel does not say whose frames it dropped.
        match self.lanes.iter().all(|lane| lane.retries.is_some()) {
            true => remote.frames_socket_dropped = dropped,
            false => counters.socket_dropped = dropped,
        }
        PublishedInput { counters, remote }
    }

    fn counters(&mut self) -> RemoteWriteCounters {
        let node = self.node.node();
        let mut all = RemoteWriteCounters {
            frames: node.port().counters().frames_received,
            ..RemoteWriteCounters::default()
        };
        let of_node = node.counters();
        all.frames_wrong_check = of_node.wrong_check;
        all.frames_unknown_pair = of_node.unknown_pair;
        all.frames_wrong_sender = of_node.wrong_sender;
        all.frames_other = of_node.too_short + of_node.unknown_kind + of_node.not_allowed;
        for lane in &self.lanes {
            let (placed, overrun) = (lane.announcer.placed(), lane.announcer.overrun());
            all.frames_placed += placed;
            all.frames_unannounced += placed - lane.records;
            all.frames_overrun += overrun;
            all.records += lane.records;
            let Some(counters) = self.node.node().connection_counters(lane.endpoint) else {
                continue;
            };
            all.frames_duplicate += counters.frames_duplicate;
            all.frames_out_of_bounds += counters.frames_refused - overrun;
            all.frames_other += counters.frames_foreign;
            all.frames_expected += counters.frames_expected;
            all.sender_restarts += counters.restarts;
            match &lane.retries {
                Some(retries) => {
                    // A refused frame has a number, too.
                    all.frames_expected += overrun;
                    add_reliable(&mut all, counters, retries);
                }
                None => add_unreliable(&mut all, counters),
            }
        }
        all
    }
}

/// Adds the counters that only unreliable senders have.
fn add_unreliable(all: &mut RemoteWriteCounters, of: &ConnectionCounters) {
    all.frames_broken_off += of.frames_out_of_message + of.no_buffer;
    all.frames_lost += of.frames_lost;
    all.frames_late += of.frames_late;
}

/// Adds the counters that only reliable senders have. Their damaged frames are not lost.
fn add_reliable(all: &mut RemoteWriteCounters, of: &ConnectionCounters, retries: &RetryWatch) {
    all.frames_put_off += of.frames_put_off;
    all.frames_to_repeat += of.frames_ahead + of.frames_doubtful + of.frames_wrong_check;
    all.frames_wrong_check -= of.frames_wrong_check;
    all.frames_other += of.frames_empty;
    all.senders_broken += retries.broken();
}

fn static_peer(roce: &Roce, sender: &Sender, region: RegionId) -> Result<StaticPeer, String> {
    let ports = sender.ports()?;
    let rights = Rights::PUT;
    Ok(StaticPeer {
        name: sender.name.clone(),
        address: ports.address,
        source_port: ports.source_port,
        own_pair: QueuePair::new(sender.queue_pair),
        // To queue pair 0, nothing is sent: neither acknowledgements nor notifications.
        peer_pair: QueuePair::new(sender.peer_queue_pair.unwrap_or(0)),
        reliability: match sender.reliability {
            SenderReliability::Reliable => Reliability::Reliable,
            SenderReliability::Unreliable => Reliability::Unreliable,
        },
        peer_first: sender.first_psn.map(Psn::new),
        own_first: Psn::new(0),
        path_mtu: roce.path_mtu as usize,
        regions: vec![StaticRegion { region, key: sender.key, base: sender.base, rights }],
        remotes: Vec::new(),
    })
}
