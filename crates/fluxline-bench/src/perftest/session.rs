//! One test's TCP connection and its node, driven together.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::{RoceNode, endpoint_config, long_enough, random_key};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::endpoint::{StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Memory, Name, RegionId, RemoteId, Rights,
};
use fluxline_core::port::Port;
use fluxline_core::roce::{HEADER_BYTES_MAX, ICRC_BYTES, Psn, QueuePair, UDP_PORT};
use fluxline_core::text::printable;

use super::error::{Error, Phase, address_of};
use super::message::{
    DONE, KEY_BYTES, KeyMessage, Mtu, NUMBER_BYTES, begins_key_message, gid_of, is_supported,
    mtu_that_fits, parse_version, version,
};
use super::outcome::{Frames, PeerTerms, Progress};
use super::plan::Plan;
use crate::Stop;

/// The name of the peer's memory.
const MEMORY: &str = "peer";
/// The address of the own memory in the messages of this end.
const BASE: u64 = 0x7f00_0000_0000;
/// Reads and atomics that this end answers at a time. Source: the queue of the endpoint.
const READS: u16 = 128;
/// The most queue pairs of a test.
const PAIRS_MAX: usize = 64;
/// A size for buffers and one of cache lines, which the ends exchange. Source: as observed.
const SIZES: [u32; 2] = [4096, 64];
/// An end that had something to do within this time is polled, and not waited for.
const BUSY: Duration = Duration::from_micros(200);
/// The longest sleep: the TCP connection does not wake it.
const NAP: Duration = Duration::from_millis(1);
/// Bytes of a peer that are quoted.
const QUOTED_MAX: usize = 24;

/// The side of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends each message first.
    Client,
    /// Answers each message.
    Server,
}

/// A queue pair of both ends.
pub struct Pair {
    pub endpoint: EndpointId,
    /// The peer's memory, if it has some.
    pub remote: Option<RemoteId>,
    pub ours: KeyMessage,
    theirs: KeyMessage,
    /// Requests done so far, as the endpoint counts them.
    requests: u32,
}

/// The answer to a key message.
pub struct Accepted {
    pub ours: KeyMessage,
    /// The queue pair was known.
    pub is_barrier: bool,
}

/// A message of the peer after the greeting.
#[derive(Debug)]
pub enum Message {
    /// A queue pair, or a barrier.
    Key(KeyMessage),
    /// The first number of the results.
    Number([u8; NUMBER_BYTES]),
    /// The last message.
    Done,
}

/// A test: the TCP connection, the node, and its queue pairs.
pub struct Session<'a> {
    pub plan: &'a Plan,
    pub node: &'a mut RoceNode,
    pub phase: Phase,
    pub pairs: Vec<Pair>,
    /// The own memory, which the peer may use.
    pub memory: RegionId,
    /// Completions that the test has not looked at.
    pub completions: VecDeque<Completion>,
    /// Requests of the peer that were done.
    pub done: Progress,
    side: Side,
    stream: TcpStream,
    inbox: Vec<u8>,
    is_closed: bool,
    mtu: Mtu,
    version: String,
    heard: u64,
    last_progress: Instant,
    stop: &'a Stop,
}

/// Opens a node for remote memory at an address of this machine.
pub fn open_node(address: IpAddr) -> Result<RoceNode, Error> {
    if address.is_unspecified() {
        return Err(Error::Unspecified(address));
    }
    let config = endpoint_config("perftest")?;
    let port = UdpPortConfig::new(SocketAddr::new(address, UDP_PORT));
    let port = UdpPort::bind(port).map_err(fluxline::roce::RoceError::from)?;
    Ok(RoceNode::on(long_enough(port)?, config))
}

/// The parts that a session is made of.
pub struct Parts<'a> {
    pub plan: &'a Plan,
    pub node: &'a mut RoceNode,
    pub stream: TcpStream,
    pub side: Side,
    pub stop: &'a Stop,
}

impl<'a> Session<'a> {
    /// Greets the peer: exchanges versions, sizes and the path MTU, within `limit`.
    pub fn greet(parts: Parts<'a>, limit: Duration) -> Result<Session<'a>, Error> {
        let Parts { plan, node, stream, side, stop } = parts;
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)
        };
        set().map_err(Error::host("the TCP connection"))?;
        let frame_bytes = node.node().port().limits().frame_bytes_max;
        let payload_bytes = frame_bytes.saturating_sub(HEADER_BYTES_MAX + ICRC_BYTES);
        let short = fluxline::roce::RoceError::ShortFrames { frame_bytes };
        let own = mtu_that_fits(payload_bytes).ok_or(Error::Node(short))?;
        let memory = RegionId(0);
        let mut session = Session {
            plan,
            node,
            phase: Phase::Greeting,
            pairs: Vec::new(),
            memory,
            completions: VecDeque::new(),
            done: Progress::default(),
            side,
            stream,
            inbox: Vec::new(),
            is_closed: false,
            mtu: own,
            version: String::new(),
            heard: 0,
            last_progress: Instant::now(),
            stop,
        };
        session.agree(own, limit)?;
        session.memory = session.node.register(plan.memory_bytes())?;
        Ok(session)
    }

    fn agree(&mut self, own: Mtu, limit: Duration) -> Result<(), Error> {
        let theirs = self.exchange(version(), limit)?;
        self.version = parse_version(&theirs).ok_or_else(|| self.garbled(&theirs))?;
        if !is_supported(&self.version) {
            return Err(Error::Version { theirs: self.version.clone() });
        }
        for size in SIZES {
            self.exchange(size.to_be_bytes(), limit)?;
        }
        let theirs = self.exchange(own.message(), limit)?;
        self.mtu = own.agreed(theirs).ok_or_else(|| self.garbled(&theirs))?;
        self.phase = Phase::Keys;
        Ok(())
    }

    /// Sends a message and takes the peer's, in the order of this side.
    pub fn exchange<const N: usize>(
        &mut self,
        ours: [u8; N],
        limit: Duration,
    ) -> Result<[u8; N], Error> {
        if self.side == Side::Client {
            self.send(&ours)?;
        }
        let theirs = self.take::<N>(limit)?;
        if self.side == Side::Server {
            self.send(&ours)?;
        }
        Ok(theirs)
    }

    // ---- queue pairs ----

    /// Takes a key message of a client. A known queue pair is a barrier, a new one is connected.
    pub fn accept_key(&mut self, theirs: &KeyMessage) -> Result<Accepted, Error> {
        let known = self.pairs.iter().find(|pair| pair.theirs.pair == theirs.pair);
        if let Some(known) = known {
            return Ok(Accepted { ours: known.ours, is_barrier: true });
        }
        let max = if self.plan.program.is_latency { 1 } else { PAIRS_MAX };
        if self.pairs.len() == max {
            let (pairs, program) = (max + 1, self.plan.program);
            return Err(Error::Pairs { pairs, max, program });
        }
        let ours = self.own_key()?;
        self.join(ours, *theirs)?;
        Ok(Accepted { ours, is_barrier: false })
    }

    /// Exchanges the key messages of one queue pair with a server.
    pub fn offer_pair(&mut self) -> Result<(), Error> {
        let ours = self.own_key()?;
        self.send(&ours.emit())?;
        let theirs = self.take_key()?;
        self.join(ours, theirs)?;
        self.barrier()?;
        self.phase = Phase::Test;
        Ok(())
    }

    /// Sends the first key message to a server and waits for its answer.
    pub fn barrier(&mut self) -> Result<(), Error> {
        let ours = self.pairs[0].ours.emit();
        self.send(&ours)?;
        self.take_key().map(|_| ())
    }

    fn take_key(&mut self) -> Result<KeyMessage, Error> {
        let bytes = self.take::<KEY_BYTES>(self.plan.limit)?;
        KeyMessage::parse(&bytes).ok_or_else(|| self.garbled(&bytes))
    }

    fn own_key(&mut self) -> Result<KeyMessage, Error> {
        let random = random_key()?.0;
        let address = self.stream.local_addr().map_err(Error::host("the TCP connection"))?.ip();
        // The low bits of a queue pair are its index; 0 and 1 are reserved.
        let index = 2 + self.pairs.len() as u32;
        Ok(KeyMessage {
            reads: READS,
            pair: QueuePair::new((random as u32) << 10 | index),
            first: Psn::new((random >> 24) as u32),
            key: ((random >> 32) as u32).max(1),
            address: BASE,
            gid: gid_of(self.own_address().unwrap_or(address)),
            shared_queue: 0,
        })
    }

    /// Returns the address of the node.
    fn own_address(&mut self) -> Option<IpAddr> {
        let peer = self.stream.peer_addr().ok()?.ip();
        let peer = self.plan.peer.unwrap_or(peer);
        self.node.node().port().local(peer).map(|local| local.ip())
    }

    /// Connects a queue pair of both ends.
    fn join(&mut self, ours: KeyMessage, theirs: KeyMessage) -> Result<(), Error> {
        let address = self.peer_address(&theirs)?;
        let rights = Rights::ALL;
        let (key, base) = (theirs.key, theirs.address);
        let bytes = self.plan.bytes;
        let remote = StaticRemote { name: MEMORY.to_owned(), key, base, bytes, rights };
        let peer = StaticPeer {
            name: "perftest".to_owned(),
            address: SocketAddr::new(address, UDP_PORT),
            source_port: None,
            own_pair: ours.pair,
            peer_pair: theirs.pair,
            reliability: self.plan.reliability,
            peer_first: Some(theirs.first),
            own_first: ours.first,
            path_mtu: self.mtu.bytes,
            regions: vec![StaticRegion {
                region: self.memory,
                key: ours.key,
                base: ours.address,
                rights,
            }],
            remotes: if key == 0 { Vec::new() } else { vec![remote] },
        };
        let endpoint = self.node.node().add_static(&peer, clock::monotonic())?;
        let remote = match key {
            0 => None,
            key => {
                let name = Name::parse(MEMORY)?;
                Some(self.node.import(endpoint, name, Key(u64::from(key)))?)
            }
        };
        self.pairs.push(Pair { endpoint, remote, ours, theirs, requests: 0 });
        Ok(())
    }

    /// Returns the peer's address for remote memory, which a stranger may not choose freely.
    fn peer_address(&self, theirs: &KeyMessage) -> Result<IpAddr, Error> {
        if theirs.shared_queue != 0 {
            return Err(Error::SharedQueue);
        }
        if theirs.gid.is_unspecified() {
            return Err(Error::NoGid);
        }
        let gid = address_of(theirs.gid);
        let peer = self.stream.peer_addr().map_err(Error::host("the TCP connection"))?;
        let address = self.plan.peer.unwrap_or(peer.ip()).to_canonical();
        if gid == address { Ok(address) } else { Err(Error::Gid { gid, address }) }
    }

    /// Returns the memory that the peer may use.
    pub fn own_memory(&self) -> Result<std::sync::Arc<dyn Memory>, Error> {
        Ok(self.node.memory(self.memory)?)
    }

    // ---- messages ----

    /// Sends a message. A peer takes each by one read, so it is one write here.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        let until = Instant::now() + self.plan.limit;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(NAP);
                }
                Err(_) => return Err(Error::Ended { phase: self.phase }),
            }
        }
        Ok(())
    }

    /// Waits for bytes of the peer.
    pub fn take<const N: usize>(&mut self, limit: Duration) -> Result<[u8; N], Error> {
        self.last_progress = Instant::now();
        loop {
            if let Some(found) = self.inbox.first_chunk::<N>() {
                let found = *found;
                self.inbox.drain(..N);
                return Ok(found);
            }
            if self.is_closed {
                return Err(Error::Ended { phase: self.phase });
            }
            self.step(limit)?;
        }
    }

    /// Returns the next message after the greeting, if it is there.
    pub fn message(&mut self) -> Result<Option<Message>, Error> {
        if self.inbox.starts_with(&DONE) {
            self.inbox.drain(..DONE.len());
            return Ok(Some(Message::Done));
        }
        let Some(first) = self.inbox.first_chunk::<NUMBER_BYTES>().copied() else {
            return Ok(None);
        };
        if !begins_key_message(&first) {
            self.inbox.drain(..NUMBER_BYTES);
            return Ok(Some(Message::Number(first)));
        }
        if self.inbox.len() < KEY_BYTES {
            return Ok(None);
        }
        self.take_key().map(|key| Some(Message::Key(key)))
    }

    /// Returns true when the peer has closed its connection. Whole messages were taken before; the
    /// beginning of one will not become whole.
    pub fn is_over(&self) -> bool {
        self.is_closed
    }

    fn garbled(&self, bytes: &[u8]) -> Error {
        let quoted = &bytes[..bytes.len().min(QUOTED_MAX)];
        let what = printable(&String::from_utf8_lossy(quoted), QUOTED_MAX);
        Error::Garbled { what: format!("`{what}`"), program: self.plan.program }
    }

    // ---- time ----

    /// Does what is due: frames, completions, bytes of the peer. Sleeps a little when there is
    /// nothing to do. Errors: no progress for `limit`, a broken connection, Ctrl-C.
    pub fn step(&mut self, limit: Duration) -> Result<(), Error> {
        if self.stop.is_over() {
            return Err(Error::Interrupted);
        }
        let before = self.completions.len();
        while let Some(completion) = self.node.next_completion() {
            match completion {
                Completion::Broken { status, .. } => {
                    return Err(Error::Broken { phase: self.phase, status });
                }
                Completion::Connected { .. } | Completion::Imported { .. } => {}
                completion => self.completions.push_back(completion),
            }
        }
        let has_read = self.read();
        if self.count() || has_read || self.completions.len() > before {
            self.last_progress = Instant::now();
            return Ok(());
        }
        let idle = self.last_progress.elapsed();
        if idle > limit {
            return Err(self.silence(idle));
        }
        if idle > BUSY && self.node.wait(NAP).is_err() {
            std::thread::sleep(NAP); // a socket that cannot be waited for is polled
        }
        Ok(())
    }

    /// Reads bytes of the peer; returns true when there were some.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 1024];
        // A peer cannot make this grow: it sends a message only after the answer to the last one.
        if self.is_closed || self.inbox.len() > 4 * KEY_BYTES {
            return false;
        }
        match self.stream.read(&mut bytes) {
            Ok(0) => {
                self.is_closed = true;
                true
            }
            Ok(count) => {
                self.inbox.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => {
                self.is_closed =
                    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                self.is_closed
            }
        }
    }

    /// Counts requests of the peer that were done; returns true when frames have come.
    fn count(&mut self) -> bool {
        let (mut heard, mut operations) = (0, 0);
        for pair in &mut self.pairs {
            let node = self.node.node();
            let done = node.requests_done(pair.endpoint).unwrap_or(pair.requests);
            operations += u64::from(done.wrapping_sub(pair.requests));
            pair.requests = done;
            if let Some(of) = node.connection_counters(pair.endpoint) {
                heard += of.frames_received + of.acknowledgements_received;
            }
        }
        if operations > 0 {
            self.done.add(operations);
        }
        std::mem::replace(&mut self.heard, heard) != heard
    }

    fn silence(&mut self, waited: Duration) -> Error {
        let hint = match self.phase {
            Phase::Greeting | Phase::Keys => {
                format!("start {} there, without -z and -R", self.plan.program)
            }
            _ => self.hint(),
        };
        Error::Silent { phase: self.phase, waited, hint }
    }

    /// Returns the likely reason why no operation was done.
    pub fn hint(&mut self) -> String {
        let unknown = self.node.node().counters().unknown_kind;
        match self.frames().foreign + unknown {
            0 => "start both ends with the same program, message size and number of operations, \
                  without -a and -b, and let UDP port 4791 through the firewall"
                .to_owned(),
            frames => format!(
                "{frames} frames of another transport came: start it with -c RC, or with -c UC \
                 and this end with --unreliable"
            ),
        }
    }

    // ---- results ----

    /// Returns lost and repeated frames so far.
    pub fn frames(&mut self) -> Frames {
        let mut frames = Frames::default();
        for pair in &self.pairs {
            if let Some(of) = self.node.node().connection_counters(pair.endpoint) {
                frames = frames.plus(Frames::of(of));
            }
        }
        frames
    }

    /// Returns the peer's side of the terms.
    pub fn terms(&self) -> PeerTerms {
        let gid = self.pairs.first().map(|pair| address_of(pair.theirs.gid));
        let address = gid.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let (version, path_mtu) = (self.version.clone(), self.mtu.bytes);
        PeerTerms { address, version, path_mtu, pairs: self.pairs.len() }
    }
}
