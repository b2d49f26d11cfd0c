//! The program of one node. Nothing in it depends on the link.
//!
//! In each round, every node puts a block of samples into the memory of the next one, which
//! computes its hash, adds it to a word of node 0 and sends it to node 0 as a message. When all
//! messages have come, node 0 puts the sum into the memory of every node: a barrier.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use fluxline::Span;
use fluxline::fabric::connect::Connector;
use fluxline::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Memory, Name, Operation, RegionId,
    Reliability, RemoteId, Rights, Slice, Status, Target, Work,
};

/// Rounds of the computation.
const ROUNDS: u64 = 20;
/// The samples of a round \[byte\].
const BLOCK: usize = 6000;
/// Offset of the word to which the others add, at node 0.
const ADDED: u64 = 0;
/// Offset of the sum: at node 0, and as node 0 puts it into the memory of the others.
const SUM: u64 = 8;
/// Offset of the copy of the sum that a node gets.
const COPY: u64 = 16;
/// Offset of the block of the predecessor.
const BLOCK_IN: u64 = 64;
/// Offset of the own block.
const BLOCK_OUT: u64 = 8192;
/// Offset of the buffers for messages, 8 bytes for each peer.
const MESSAGES: u64 = 16_384;
const REGION_BYTES: u64 = 32_768;
/// The longest time for anything that must come.
const PATIENCE: Span = Span::from_ms(20_000);
const KEY: Key = Key(0x5EED);

type Failure = Box<dyn Error>;

/// The result of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sum of all hashes, the same on every link.
    pub sum: u64,
    /// The time at which each round ended \[ns of the link's clock\].
    pub moments: Vec<u64>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.moments.first(), self.moments.last());
        let took = last.zip(first).map_or(0, |(last, first)| last - first);
        let rounds = self.moments.len() - 1;
        write!(out, "sum {:016x}, {rounds} rounds in {:.1} us", self.sum, took as f64 / 1e3)
    }
}

/// Returns the name by which peers connect to the node of a URL.
fn name_of(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

/// FNV-1a, of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// A connection to a peer, and the peer's region.
#[derive(Clone, Copy)]
struct Peer {
    endpoint: EndpointId,
    board: RemoteId,
}

/// A node with its region, and the completions that came before they were wanted.
struct Node {
    fabric: Box<dyn Fabric>,
    region: RegionId,
    memory: Arc<dyn Memory>,
    kept: Vec<Completion>,
}

impl Node {
    /// Returns the first completion that `wanted` accepts; the others are kept.
    fn next<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(&Completion) -> Option<T>,
    ) -> Result<T, Failure> {
        let limit = self.fabric.now() + PATIENCE;
        loop {
            if let Some(place) = self.kept.iter().position(|of| wanted(of).is_some()) {
                return wanted(&self.kept.remove(place)).ok_or_else(|| what.into());
            }
            let now = self.fabric.now();
            match self.fabric.poll(now) {
                Some(completion) => self.kept.push(completion),
                None if now >= limit => return Err(format!("no {what} came").into()),
                None => self.fabric.wait(limit),
            }
        }
    }

    /// Posts work and waits until it is done.
    fn done(&mut self, peer: Peer, work: Work<'_>) -> Result<(), Failure> {
        const TAG: u64 = 1;
        self.fabric.post(peer.endpoint, TAG, work)?;
        let status = self.next("completion", |what| match *what {
            Completion::Done { endpoint, tag: TAG, operation, status, .. }
                if endpoint == peer.endpoint && operation != Operation::Receive =>
            {
                Some(status)
            }
            _ => None,
        })?;
        if status.is_done() { Ok(()) } else { Err(status.into()) }
    }

    /// Waits for the peer's put with this value.
    fn notified(&mut self, wanted: u64) -> Result<(), Failure> {
        self.next("notification", |what| match *what {
            Completion::Notified { value, .. } if u64::from(value) == wanted => Some(()),
            _ => None,
        })
    }

    fn slice(&self, offset: u64, bytes: u64) -> Slice {
        Slice { region: self.region, offset, bytes }
    }

    /// Connects to a peer, which may not be there yet.
    fn connect(&mut self, peer: &str) -> Result<EndpointId, Failure> {
        let limit = self.fabric.now() + PATIENCE;
        let connector = Connector::new(peer, Reliability::Reliable, limit);
        Ok(connector.finish(&mut *self.fabric, &mut self.kept)?)
    }

    /// Imports the region of a peer, which may not have exported it yet.
    fn import(&mut self, endpoint: EndpointId) -> Result<RemoteId, Failure> {
        let limit = self.fabric.now() + PATIENCE;
        loop {
            let asked = self.fabric.import(endpoint, Name::parse("board")?, KEY)?;
            let status = self.next("import", |what| match *what {
                Completion::Imported { remote, status, .. } if remote == asked => Some(status),
                _ => None,
            })?;
            match status {
                Status::Done => return Ok(asked),
                Status::NoSuchRegion if self.fabric.now() < limit => self.pause(),
                status => return Err(status.into()),
            }
        }
    }

    /// Lets a millisecond pass, in which the link works on.
    fn pause(&mut self) {
        let until = self.fabric.now() + Span::from_ms(1);
        while self.fabric.now() < until {
            let now = self.fabric.now();
            match self.fabric.poll(now) {
                Some(completion) => self.kept.push(completion),
                None => self.fabric.wait(until),
            }
        }
    }

    /// Waits until a peer has connected; returns the connection with the peer's region.
    fn accept(&mut self) -> Result<Peer, Failure> {
        let endpoint = self.next("peer", |what| match *what {
            Completion::Connected { endpoint, .. } => Some(endpoint),
            _ => None,
        })?;
        Ok(Peer { endpoint, board: self.import(endpoint)? })
    }

    /// Connects to the node of a URL and imports its region.
    fn reach(&mut self, url: &str) -> Result<Peer, Failure> {
        let endpoint = self.connect(name_of(url))?;
        Ok(Peer { endpoint, board: self.import(endpoint)? })
    }

    /// Puts the samples of a round into the memory of the next node, waits for those of the
    /// predecessor, and returns their hash.
    fn exchange(&mut self, next: Peer, place: usize, round: u64) -> Result<u64, Failure> {
        let sample = |at: u64| (round * 7919 + place as u64 * 104_729 + at * at) as u8;
        let block: Vec<u8> = (0..BLOCK as u64).map(sample).collect();
        self.memory.write(BLOCK_OUT, &block)?;
        let from = Local::Region(self.slice(BLOCK_OUT, BLOCK as u64));
        let to = Target { remote: next.board, offset: BLOCK_IN };
        let notify = Some(u32::try_from(round * 2)?);
        self.fabric.post(next.endpoint, 0, Work::Put { from, to, notify, complete_at: None })?;
        self.notified(round * 2)?;
        let mut received = vec![0; BLOCK];
        self.memory.read(BLOCK_IN, &mut received)?;
        Ok(hash(&received))
    }
}

/// The value of the notification with the sum of a round; that of its block is even.
fn sum_value(round: u64) -> u64 {
    round * 2 + 1
}

/// Runs the program of node `place` among the nodes of these URLs.
pub fn run(urls: &[String], place: usize) -> Result<Outcome, Failure> {
    let mut fabric = fluxline::open(&urls[place])?;
    let region = fabric.register(REGION_BYTES)?;
    let grant = Grant { rights: Rights::ALL, key: KEY };
    fabric.export(region, Name::parse("board")?, grant)?;
    let memory = fabric.memory(region)?;
    let mut node = Node { fabric, region, memory, kept: Vec::new() };
    if place == 0 { lead(&mut node, urls) } else { follow(&mut node, urls, place) }
}

/// Runs node 0, which collects the hashes.
fn lead(node: &mut Node, urls: &[String]) -> Result<Outcome, Failure> {
    // The others connect to node 0, the last one as its predecessor.
    let peers = (1..urls.len()).map(|_| node.accept()).collect::<Result<Vec<Peer>, Failure>>()?;
    let next = node.reach(&urls[1])?;
    let (mut own, mut messages) = (0_u64, 0_u64);
    let mut moments = Vec::new();
    for round in 0..=ROUNDS {
        if round > 0 {
            own = own.wrapping_add(node.exchange(next, 0, round)?);
            messages = messages.wrapping_add(collect(node, &peers)?);
        }
        let added = node.memory.load(ADDED)?;
        if added != messages {
            return Err(format!("round {round}: added {added:x}, sent {messages:x}").into());
        }
        node.memory.store(SUM, added.wrapping_add(own))?;
        // Each sends its next message after it has this sum.
        for (place, peer) in (0..).zip(&peers) {
            node.fabric.post_receive(peer.endpoint, 2, node.slice(MESSAGES + place * 8, 8))?;
        }
        for peer in &peers {
            let (from, to) = (Local::Region(node.slice(SUM, 8)), at(*peer, SUM));
            let notify = Some(u32::try_from(sum_value(round))?);
            node.done(*peer, Work::Put { from, to, notify, complete_at: Some(Level::Placed) })?;
        }
        moments.push(node.fabric.now().as_ns());
    }
    // Each says goodbye when it needs node 0 no more.
    collect(node, &peers)?;
    Ok(Outcome { sum: node.memory.load(SUM)?, moments })
}

/// Takes a message of each peer, and returns the sum of their words.
fn collect(node: &mut Node, peers: &[Peer]) -> Result<u64, Failure> {
    let mut sum = 0_u64;
    for (place, peer) in (0..).zip(peers) {
        let status = node.next("message", |what| match *what {
            Completion::Done { endpoint, operation: Operation::Receive, status, .. }
                if endpoint == peer.endpoint =>
            {
                Some(status)
            }
            _ => None,
        })?;
        if !status.is_done() {
            return Err(status.into());
        }
        sum = sum.wrapping_add(node.memory.load(MESSAGES + place * 8)?);
    }
    Ok(sum)
}

/// Runs another node than node 0.
fn follow(node: &mut Node, urls: &[String], place: usize) -> Result<Outcome, Failure> {
    let first = node.reach(&urls[0])?;
    let is_last = place + 1 == urls.len();
    let next = if is_last { first } else { node.reach(&urls[place + 1])? };
    node.notified(sum_value(0))?;
    let mut moments = vec![node.fabric.now().as_ns()];
    for round in 1..=ROUNDS {
        let hash = node.exchange(next, place, round)?;
        node.done(first, Work::FetchAdd { at: at(first, ADDED), add: hash })?;
        let from = Local::Bytes(&hash.to_le_bytes());
        node.done(first, Work::Send { from, complete_at: Some(Level::Placed) })?;
        node.notified(sum_value(round))?;
        moments.push(node.fabric.now().as_ns());
    }
    node.done(first, Work::Get { from: at(first, SUM), into: node.slice(COPY, 8) })?;
    let (sum, got) = (node.memory.load(SUM)?, node.memory.load(COPY)?);
    if sum != got {
        return Err(format!("node 0 put {sum:x}, and a get brought {got:x}").into());
    }
    // Node 0 may leave before it acknowledges this.
    let from = Local::Bytes(&[0; 8]);
    let _ = node.done(first, Work::Send { from, complete_at: Some(Level::Placed) });
    Ok(Outcome { sum, moments })
}

fn at(peer: Peer, offset: u64) -> Target {
    Target { remote: peer.board, offset }
}
