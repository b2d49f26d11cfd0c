//! The program of one node. Nothing in it depends on the link.
//!
//! In each round, every node puts a block of samples into the memory of the next one, which
//! computes its hash, adds it to a word of node 0 and sends it to node 0 as a message. When all
//! messages have come, node 0 puts the sum into the memory of every node: a barrier.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use fluxline::fabric::{
    Completion, EndpointId, Grant, Key, Level, Local, Memory, RegionId, Reliability, RemoteId,
    Rights, Slice, Target, Work,
};
use fluxline::{Node, Span};

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
/// The tag of work that is waited for.
const WORK: u64 = 1;
/// The tag of a buffer for a message.
const MESSAGE: u64 = 2;

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

/// A node with its region.
struct Board {
    node: Node,
    region: RegionId,
    memory: Arc<dyn Memory>,
}

impl Board {
    /// Posts work and waits until it is done.
    fn done(&mut self, peer: Peer, work: Work<'_>) -> Result<(), Failure> {
        self.node.post(peer.endpoint, WORK, work, PATIENCE)?;
        self.node.wait_for(peer.endpoint, WORK, PATIENCE)?;
        Ok(())
    }

    /// Waits for the peer's put with this value.
    fn notified(&mut self, wanted: u64) -> Result<(), Failure> {
        Ok(self.node.wait_until("the notification", PATIENCE, |what| match *what {
            Completion::Notified { value, .. } if u64::from(value) == wanted => Some(()),
            _ => None,
        })?)
    }

    fn slice(&self, offset: u64, bytes: u64) -> Slice {
        Slice { region: self.region, offset, bytes }
    }

    /// Waits until a peer has connected; returns the connection with the peer's region.
    fn accept(&mut self) -> Result<Peer, Failure> {
        let endpoint = self.node.wait_until("a connection", PATIENCE, |what| match *what {
            Completion::Connected { endpoint, .. } => Some(endpoint),
            _ => None,
        })?;
        self.import(endpoint)
    }

    /// Connects to the node of a URL and imports its region.
    fn reach(&mut self, url: &str) -> Result<Peer, Failure> {
        let endpoint = self.node.connect(name_of(url), Reliability::Reliable, PATIENCE)?;
        self.import(endpoint)
    }

    fn import(&mut self, endpoint: EndpointId) -> Result<Peer, Failure> {
        let board = self.node.import(endpoint, "board", KEY, PATIENCE)?.remote;
        Ok(Peer { endpoint, board })
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
        let put = Work::Put { from, to, notify, complete_at: None };
        self.node.post(next.endpoint, 0, put, PATIENCE)?;
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
    let mut node = fluxline::node(&urls[place])?;
    let region = node.export("board", Grant { rights: Rights::ALL, key: KEY }, REGION_BYTES)?;
    let memory = node.fabric().memory(region)?;
    let mut board = Board { node, region, memory };
    if place == 0 { lead(&mut board, urls) } else { follow(&mut board, urls, place) }
}

/// Runs node 0, which collects the hashes.
fn lead(board: &mut Board, urls: &[String]) -> Result<Outcome, Failure> {
    // The others connect to node 0, the last one as its predecessor.
    let peers = (1..urls.len()).map(|_| board.accept()).collect::<Result<Vec<Peer>, Failure>>()?;
    let next = board.reach(&urls[1])?;
    let (mut own, mut messages) = (0_u64, 0_u64);
    let mut moments = Vec::new();
    for round in 0..=ROUNDS {
        if round > 0 {
            own = own.wrapping_add(board.exchange(next, 0, round)?);
            messages = messages.wrapping_add(collect(board, &peers)?);
        }
        let added = board.memory.load(ADDED)?;
        if added != messages {
            return Err(format!("round {round}: added {added:x}, sent {messages:x}").into());
        }
        board.memory.store(SUM, added.wrapping_add(own))?;
        // Each sends its next message after it has this sum.
        for (place, peer) in (0..).zip(&peers) {
            let into = board.slice(MESSAGES + place * 8, 8);
            board.node.fabric().post_receive(peer.endpoint, MESSAGE, into)?;
        }
        for peer in &peers {
            let (from, to) = (Local::Region(board.slice(SUM, 8)), at(*peer, SUM));
            let notify = Some(u32::try_from(sum_value(round))?);
            board.done(*peer, Work::Put { from, to, notify, complete_at: Some(Level::Placed) })?;
        }
        moments.push(board.node.fabric().now().as_ns());
    }
    // Each says goodbye when it needs node 0 no more.
    collect(board, &peers)?;
    Ok(Outcome { sum: board.memory.load(SUM)?, moments })
}

/// Takes a message of each peer, and returns the sum of their words.
fn collect(board: &mut Board, peers: &[Peer]) -> Result<u64, Failure> {
    let mut sum = 0_u64;
    for (place, peer) in (0..).zip(peers) {
        board.node.wait_for(peer.endpoint, MESSAGE, PATIENCE)?;
        sum = sum.wrapping_add(board.memory.load(MESSAGES + place * 8)?);
    }
    Ok(sum)
}

/// Runs another node than node 0.
fn follow(board: &mut Board, urls: &[String], place: usize) -> Result<Outcome, Failure> {
    let first = board.reach(&urls[0])?;
    let is_last = place + 1 == urls.len();
    let next = if is_last { first } else { board.reach(&urls[place + 1])? };
    board.notified(sum_value(0))?;
    let mut moments = vec![board.node.fabric().now().as_ns()];
    for round in 1..=ROUNDS {
        let hash = board.exchange(next, place, round)?;
        board.done(first, Work::FetchAdd { at: at(first, ADDED), add: hash })?;
        let from = Local::Bytes(&hash.to_le_bytes());
        board.done(first, Work::Send { from, complete_at: Some(Level::Placed) })?;
        board.notified(sum_value(round))?;
        moments.push(board.node.fabric().now().as_ns());
    }
    board.done(first, Work::Get { from: at(first, SUM), into: board.slice(COPY, 8) })?;
    let (sum, got) = (board.memory.load(SUM)?, board.memory.load(COPY)?);
    if sum != got {
        return Err(format!("node 0 put {sum:x}, and a get brought {got:x}").into());
    }
    // Node 0 may leave before it acknowledges this.
    let from = Local::Bytes(&[0; 8]);
    let _ = board.done(first, Work::Send { from, complete_at: Some(Level::Placed) });
    Ok(Outcome { sum, moments })
}

fn at(peer: Peer, offset: u64) -> Target {
    Target { remote: peer.board, offset }
}
