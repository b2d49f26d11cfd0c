//! A producer of this process that pushes packets of formats/counter.toml into a run's ring, step
//! by step.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::roce::RoceNode;
use fluxline::udp::UdpPortConfig;
use fluxline_core::fabric::push::PushRefused;
use fluxline_core::fabric::push::puts::{
    CREDIT_BYTES, HEADER_BYTES, Producer, ProducerPlaces, credit_name,
};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, RegionId, Reliability, RemoteId,
    Rights, Status, Target, Work,
};

/// The ring's key.
pub const KEY: u64 = 77_000_077;
/// The ring's size \[byte\].
pub const RING_BYTES: u64 = 65_536;
/// The key of the producer's own region.
const OWN_KEY: Key = Key(0x0C4E_D175);
/// Whatever is waited for comes within this time.
pub const END: Duration = crate::support::PATIENCE;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// A packet of formats/counter.toml of 400 bytes.
pub fn packet(number: u64) -> [u8; 400] {
    let mut packet = [0_u8; 400];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[8..12].copy_from_slice(&(number as u32).to_le_bytes());
    packet[14] = 1; // one packet is the whole fragment
    packet[16..24].copy_from_slice(&number.to_le_bytes());
    packet
}

/// A node that is not connected yet, and where its credit word is.
pub fn open(from: u16) -> (RoceNode, RegionId) {
    let own = UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], from)));
    let mut node = RoceNode::open("board", own).expect("a free port");
    let credit = node.register(CREDIT_BYTES).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: OWN_KEY };
    node.export(credit, credit_name(OWN_KEY), grant).expect("free");
    (node, credit)
}

/// The next thing that happens.
pub fn completion(node: &mut RoceNode) -> Completion {
    let began = Instant::now();
    loop {
        if let Some(completion) = node.next_completion() {
            return completion;
        }
        assert!(began.elapsed() < END, "nothing came in time");
        node.wait(Duration::from_millis(5)).expect("waited");
    }
}

/// Connects to a run.
pub fn connect(node: &mut RoceNode, to: SocketAddr) -> Result<EndpointId, Status> {
    let endpoint = node.connect(&to.to_string(), Reliability::Reliable).expect("a way");
    match completion(node) {
        Completion::Broken { status, .. } => Err(status),
        _ => Ok(endpoint),
    }
}

/// Imports the ring.
pub fn import(node: &mut RoceNode, endpoint: EndpointId, key: u64) -> Result<RemoteId, Status> {
    let remote = node.import(endpoint, name("ring"), Key(key)).map_err(|_| Status::Flushed)?;
    match completion(node) {
        Completion::Imported { status: Status::Done, .. } => Ok(remote),
        Completion::Imported { status, .. } | Completion::Broken { status, .. } => Err(status),
        other => panic!("{other:?}"),
    }
}

/// A producer that the run knows.
pub struct Board {
    pub node: RoceNode,
    pub endpoint: EndpointId,
    pub remote: RemoteId,
    pub ring: Producer,
}

/// Connects with the key, and sends the key of its own region.
pub fn board_from(from: u16, to: SocketAddr, key: u64) -> Result<Board, Status> {
    let (mut node, credit) = open(from);
    let endpoint = connect(&mut node, to)?;
    let remote = import(&mut node, endpoint, key)?;
    let memory = node.memory(credit).expect("own");
    let places = ProducerPlaces { endpoint, ring: remote, size: RING_BYTES, credit: memory };
    let ring = Producer::new(&node, places).expect("sound");
    ring.greet(&mut node, OWN_KEY).expect("room");
    Ok(Board { node, endpoint, remote, ring })
}

/// The same from any port.
pub fn board(to: SocketAddr, key: u64) -> Result<Board, Status> {
    board_from(0, to, key)
}

/// The producer before may still be counted as connected for a moment.
pub fn board_when_free(from: u16, to: SocketAddr) -> Board {
    let began = Instant::now();
    loop {
        match board_from(from, to, KEY) {
            Ok(board) => return board,
            Err(status) => assert!(began.elapsed() < END, "{status}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A link's full queue counts as a full ring.
fn full_unless(done: bool) -> Result<(), PushRefused> {
    if done { Ok(()) } else { Err(PushRefused::Full) }
}

impl Board {
    fn until_done(
        &mut self,
        mut act: impl FnMut(&mut Producer, &mut RoceNode) -> Result<(), PushRefused>,
    ) {
        let began = Instant::now();
        loop {
            match act(&mut self.ring, &mut self.node) {
                Ok(()) => return,
                Err(PushRefused::Full) => {
                    while let Some(completion) = self.node.next_completion() {
                        assert!(!matches!(completion, Completion::Broken { .. }), "{completion:?}");
                    }
                    self.node.wait(Duration::from_micros(100)).expect("waited");
                }
                Err(error) => panic!("{error}"),
            }
            assert!(began.elapsed() < END, "the ring stays full");
        }
    }

    /// Pushes packets and waits until they are in the ring.
    pub fn push(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let packet = packet(number);
            self.until_done(|ring, node| ring.push(node, None, &packet));
        }
        self.until_done(|ring, node| full_unless(ring.publish(node)?));
        self.flush();
    }

    /// Waits until all that was posted is in place.
    pub fn flush(&mut self) {
        let endpoint = self.endpoint;
        self.until_done(|_, node| full_unless(node.post(endpoint, 7, Work::Flush).is_ok()));
        while !matches!(completion(&mut self.node), Completion::Done { tag: 7, .. }) {}
    }

    /// Puts bytes anywhere into the ring's region, as a producer with a defect does.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let to = Target { remote: self.remote, offset };
        let put = Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at: None };
        self.node.post(self.endpoint, 0, put).expect("room");
    }

    /// The beginning of a record, without its end and without a tail.
    pub fn put_half_a_record(&mut self) {
        self.put(HEADER_BYTES, &400_u64.to_le_bytes());
        self.put(HEADER_BYTES + 8, &packet(1_000_000)[..100]);
        self.flush();
    }
}
