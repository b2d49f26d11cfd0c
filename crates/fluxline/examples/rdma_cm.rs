//! Connects with programs of rdma_cm, here `rping` of Debian's package `rdmacm-utils`.
//!
//! ```sh
//! rdma_cm serve 10.0.0.7               # there: rping -c -a 10.0.0.7 -C 10 -v
//! rdma_cm connect 10.0.0.7 10.0.0.8    # there: rping -s -a 10.0.0.8 -v
//! ```
//!
//! rping's client sends the address of a buffer, the server reads it and sends an empty message;
//! then the client sends the address of another buffer, the server writes there what it has read,
//! and sends an empty message again. Source: `examples/rping.c` of rdma-core 44.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::RoceNode;
use fluxline::udp::UdpPortConfig;
use fluxline_core::endpoint::management::mad::RejectReason;
use fluxline_core::endpoint::{CallAnswer, ManagedTerms, StaticRegion, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Level, Local, Memory, Name, Operation, RegionId, RemoteId,
    Rights, Slice, Status, Target, Work,
};

/// The port of rping.
pub const PORT: u16 = 7174;
/// A message: address, key and length of a buffer, big-endian \[byte\].
const MESSAGE_BYTES: u64 = 16;
/// The region: a received message, a message to send, data.
const TO_SEND: u64 = 64;
const DATA: u64 = 4096;
const REGION_BYTES: u64 = DATA + 65_536;
/// The region as the peer names it.
const BASE: u64 = 0x7f00_0000_0000;
const KEY: u32 = 0x0bad_cafe;

/// A buffer of a peer, as its message has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    address: u64,
    key: u32,
    bytes: u32,
}

impl Buffer {
    fn parse(message: [u8; 16]) -> Buffer {
        let number = u128::from_be_bytes(message);
        Buffer { address: (number >> 64) as u64, key: (number >> 32) as u32, bytes: number as u32 }
    }

    fn emit(self) -> [u8; 16] {
        let words = u128::from(self.key) << 32 | u128::from(self.bytes);
        (u128::from(self.address) << 64 | words).to_be_bytes()
    }
}

/// A connection with a program of rdma_cm.
struct Connection<'a> {
    node: &'a mut RoceNode,
    endpoint: EndpointId,
    region: RegionId,
    memory: Arc<dyn Memory>,
    /// The peer's buffer, and its import.
    imported: Option<(Buffer, RemoteId)>,
    until: Instant,
}

/// Makes the region, with all rights for the peer.
fn terms(node: &mut RoceNode) -> Result<(RegionId, ManagedTerms), Box<dyn Error>> {
    let region = node.register(REGION_BYTES)?;
    let own = StaticRegion { region, key: KEY, base: BASE, rights: Rights::ALL };
    Ok((region, ManagedTerms { regions: vec![own], private_data: Vec::new() }))
}

/// Serves one client of rping until it leaves, at most for `rounds_max` rounds.
///
/// Returns the number of rounds.
///
/// A client whose goodbye is lost is not missed: nothing is asked of it.
pub fn serve(
    node: &mut RoceNode,
    port: u16,
    rounds_max: u64,
    limit: Duration,
) -> Result<u64, Box<dyn Error>> {
    let until = Instant::now() + limit;
    node.node().listen(port);
    let request = loop {
        if let Some(request) = node.node().next_request() {
            break request;
        }
        if Instant::now() > until {
            return Err("no client came".into());
        }
        while node.next_completion().is_some() {}
        node.wait(Duration::from_millis(1))?;
    };
    let (region, terms) = terms(node)?;
    let endpoint = node.node().accept(&request, &terms, clock::monotonic())?;
    let memory = node.memory(region)?;
    let mut peer = Connection { node, endpoint, region, memory, imported: None, until };
    // Before the acceptance leaves: the client may send at once.
    peer.post_receive()?;
    let mut rounds = 0;
    while rounds < rounds_max {
        let Some(source) = peer.message()? else { break };
        let bytes = u64::from(source.bytes);
        let (from, into) = (peer.target(source)?, peer.data(bytes));
        peer.run(Work::Get { from, into })?;
        peer.send([0; 16])?;
        let Some(sink) = peer.message()? else { return Err("the client left in a round".into()) };
        let to = peer.target(sink)?;
        let (from, complete_at) = (Local::Region(into), Some(Level::Placed));
        peer.run(Work::Put { from, to, notify: None, complete_at })?;
        peer.send([0; 16])?;
        rounds += 1;
    }
    Ok(rounds)
}

/// Is the client of a server of rping for some rounds; compares what comes back.
pub fn connect(
    node: &mut RoceNode,
    server: SocketAddr,
    rounds: u64,
    limit: Duration,
) -> Result<(), Box<dyn Error>> {
    let until = Instant::now() + limit;
    let (region, terms) = terms(node)?;
    let now = clock::monotonic();
    let endpoint = node.node().call(server.ip(), server.port(), &terms, now)?;
    let memory = node.memory(region)?;
    let mut peer = Connection { node, endpoint, region, memory, imported: None, until };
    peer.await_connected()?;
    peer.post_receive()?;
    for round in 0..rounds {
        let (source, sink) = (DATA, DATA + 1024);
        let text = format!("rdma-ping-{round}: {}", "ABCDEFGHIJKLMNOPQRSTUVWXYZ".repeat(2));
        let mut sent = [0; 64];
        sent[..63].copy_from_slice(&text.as_bytes()[..63]);
        peer.memory.write(source, &sent)?;
        for offset in [source, sink] {
            peer.send(Buffer { address: BASE + offset, key: KEY, bytes: 64 }.emit())?;
            peer.message()?.ok_or("the server left in a round")?;
        }
        let mut echoed = [0; 64];
        peer.memory.read(sink, &mut echoed)?;
        if echoed != sent {
            return Err(format!("round {round} came back with other bytes").into());
        }
    }
    peer.node.disconnect(endpoint)?;
    peer.node.next_completion();
    Ok(())
}

impl Connection<'_> {
    /// Waits until the peer has accepted.
    fn await_connected(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            match self.completion()? {
                Completion::Connected { .. } => return Ok(()),
                Completion::Broken { .. } => return Err(self.refusal().into()),
                _ => {}
            }
        }
    }

    /// Returns the reason why the peer did not accept.
    fn refusal(&mut self) -> String {
        match self.node.node().take_answer(self.endpoint) {
            Some(CallAnswer::Refused(RejectReason::NO_SERVICE)) => "nobody listens there".into(),
            Some(CallAnswer::Refused(reason)) => format!("the peer refused (reason {})", reason.0),
            _ => "the peer has disconnected".into(),
        }
    }

    /// Waits for the next completion. Errors: the time is up, or the connection failed.
    fn completion(&mut self) -> Result<Completion, Box<dyn Error>> {
        loop {
            match self.node.next_completion() {
                Some(Completion::Broken { status, .. }) if status != Status::Disconnected => {
                    return Err(format!("the connection failed: {status}").into());
                }
                Some(completion) => return Ok(completion),
                None if Instant::now() > self.until => return Err("the peer is silent".into()),
                None => self.node.wait(Duration::from_millis(1))?,
            }
        }
    }

    /// Waits for a message of the peer; `None`: it has disconnected.
    fn message(&mut self) -> Result<Option<Buffer>, Box<dyn Error>> {
        loop {
            match self.completion()? {
                Completion::Broken { .. } => return Ok(None),
                Completion::Done { operation: Operation::Receive, status, .. } => {
                    if status == Status::Flushed {
                        continue;
                    }
                    let mut message = [0; 16];
                    self.memory.read(0, &mut message)?;
                    self.post_receive()?;
                    return Ok(Some(Buffer::parse(message)));
                }
                _ => {}
            }
        }
    }

    fn post_receive(&mut self) -> Result<(), Box<dyn Error>> {
        let into = Slice { region: self.region, offset: 0, bytes: MESSAGE_BYTES };
        Ok(self.node.post_receive(self.endpoint, 0, into)?)
    }

    fn send(&mut self, message: [u8; 16]) -> Result<(), Box<dyn Error>> {
        self.memory.write(TO_SEND, &message)?;
        let from = Slice { region: self.region, offset: TO_SEND, bytes: MESSAGE_BYTES };
        let work = Work::Send { from: Local::Region(from), complete_at: None };
        Ok(self.node.post(self.endpoint, 2, work)?)
    }

    /// Posts work and waits for its end. No message comes meanwhile: the peer waits.
    fn run(&mut self, work: Work<'_>) -> Result<(), Box<dyn Error>> {
        self.node.post(self.endpoint, 1, work)?;
        loop {
            match self.completion()? {
                Completion::Done { tag: 1, status: Status::Done, .. } => return Ok(()),
                Completion::Done { tag: 1, status, .. } => return Err(status.into()),
                Completion::Broken { status, .. } => return Err(status.into()),
                _ => {}
            }
        }
    }

    /// Returns the place of the data in the own region.
    fn data(&self, bytes: u64) -> Slice {
        let bytes = bytes.min(REGION_BYTES - DATA);
        Slice { region: self.region, offset: DATA, bytes }
    }

    /// Returns the peer's buffer as a target.
    fn target(&mut self, buffer: Buffer) -> Result<Target, Box<dyn Error>> {
        if let Some((known, remote)) = self.imported
            && known == buffer
        {
            return Ok(Target { remote, offset: 0 });
        }
        let Buffer { address: base, key, bytes } = buffer;
        let (name, rights) = ("buffer", Rights::ALL);
        let bytes = u64::from(bytes);
        let region = StaticRemote { name: name.to_owned(), key, base, bytes, rights };
        self.node.node().add_remote(self.endpoint, region)?;
        let name = Name::parse(name)?;
        let remote = self.node.import(self.endpoint, name, Key(u64::from(key)))?;
        self.imported = Some((buffer, remote));
        Ok(Target { remote, offset: 0 })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let open = |own: &str| -> Result<RoceNode, Box<dyn Error>> {
        let own = SocketAddr::new(own.parse::<IpAddr>()?, 4791);
        Ok(RoceNode::open("rping", UdpPortConfig::new(own))?)
    };
    match words[..] {
        ["serve", own] => {
            let rounds = serve(&mut open(own)?, PORT, u64::MAX, Duration::from_secs(600))?;
            println!("{rounds} rounds");
        }
        ["connect", own, server] => {
            let server = SocketAddr::new(server.parse()?, PORT);
            connect(&mut open(own)?, server, 10, Duration::from_secs(60))?;
            println!("10 rounds");
        }
        _ => return Err("rdma_cm serve OWN | rdma_cm connect OWN SERVER".into()),
    }
    Ok(())
}
