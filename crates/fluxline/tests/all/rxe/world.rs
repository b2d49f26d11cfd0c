//! A node of ours connected to the device's peer program, and what both are asked to do.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::UdpPortConfig;
use fluxline_core::endpoint::{StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Memory, Name, Operation, RegionId, Reliability, RemoteId,
    Rights, Slice, Status, Work,
};
use fluxline_core::roce::{Psn, QueuePair};

/// An emulated processor is slow; nothing takes longer than this.
pub const SLOW: Duration = Duration::from_secs(90);
/// The port of RoCEv2. Source: InfiniBand specification 1.4, A17.
const ROCE_PORT: u16 = 4791;
const OWN_KEY: u32 = 0x1357_9BDF;
const OWN_BASE: u64 = 0x7F00_0000_0000;
const OWN_FIRST_PSN: u32 = 0x00FF_FFF0;
const PEER_FIRST_PSN: u32 = 0x0012_3456;
const PATH_MTU: usize = 1024;

/// The same pattern as the peer's: xorshift64 from the seed.
pub fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let mut out = Vec::with_capacity(bytes as usize + 8);
    while (out.len() as u64) < bytes {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend(x.to_le_bytes());
    }
    out.truncate(bytes as usize);
    out
}

/// FNV-1a, as the peer computes it.
pub fn hash(bytes: &[u8]) -> u64 {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// A node, the device's peer program, and a connection between the two.
pub struct World {
    node: RoceNode,
    peer: TcpStream,
    answered: Vec<u8>,
    completions: Vec<Completion>,
    endpoint: EndpointId,
    memory: Arc<dyn Memory>,
    pub region: RegionId,
    pub remote: RemoteId,
}

/// Connects a node to the device; regions of both ends have `bytes`. `None`: there is no device.
pub fn world(reliability: Reliability, bytes: u64) -> Option<World> {
    let Ok(words) = std::env::var("FLUXLINE_RXE") else {
        println!("skipped: tools/rxe/test.sh runs this test");
        return None;
    };
    let [own, device, port] = words.split(' ').collect::<Vec<_>>()[..] else {
        panic!("FLUXLINE_RXE=`OWN DEVICE PORT`, not `{words}`");
    };
    let [own, device] = [own, device].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let control = SocketAddr::new(device, port.parse().expect("a port"));
    let peer = TcpStream::connect(control).expect("the peer program listens");
    peer.set_nonblocking(true).expect("possible");
    peer.set_nodelay(true).expect("possible");
    let config = endpoint_config("test").expect("random numbers");
    let port = UdpPortConfig::new(SocketAddr::new(own, ROCE_PORT));
    let port = fluxline::udp::UdpPort::bind(port).expect("a free port");
    let mut node = RoceNode::on(port, config);
    let region = node.register(bytes).expect("memory");
    let memory = node.memory(region).expect("own");
    let completions = Vec::new();
    let (endpoint, remote) = (EndpointId(0), RemoteId(0));
    let answered = Vec::new();
    let mut world = World { node, peer, answered, completions, endpoint, memory, region, remote };
    world.join(own, device, reliability, bytes);
    Some(world)
}

impl World {
    fn join(&mut self, own: IpAddr, device: IpAddr, reliability: Reliability, bytes: u64) {
        static NEXT_PAIR: AtomicU32 = AtomicU32::new(0x0004_5002);
        let kind = match reliability {
            Reliability::Reliable => "rc",
            Reliability::Unreliable => "uc",
        };
        let region = self.ask(&format!("region {bytes}")).expect("memory");
        let [base, key] = [&region[0], &region[1]].map(|word| word.parse::<u64>().expect("number"));
        let pair = self.ask_number(&format!("pair {kind} {PEER_FIRST_PSN}")) as u32;
        let own_pair = NEXT_PAIR.fetch_add(1, Ordering::Relaxed);
        let rights = Rights::ALL;
        let peer = StaticPeer {
            name: "rxe".into(),
            address: SocketAddr::new(device, ROCE_PORT),
            source_port: None,
            own_pair: QueuePair::new(own_pair),
            peer_pair: QueuePair::new(pair),
            reliability,
            peer_first: Some(Psn::new(PEER_FIRST_PSN)),
            own_first: Psn::new(OWN_FIRST_PSN),
            path_mtu: PATH_MTU,
            regions: vec![StaticRegion {
                region: self.region,
                key: OWN_KEY,
                base: OWN_BASE,
                rights,
            }],
            remotes: vec![StaticRemote { name: "x".into(), key: key as u32, base, bytes, rights }],
        };
        let now = clock::monotonic();
        self.endpoint = self.node.node().add_static(&peer, now).expect("legal");
        let name = Name::parse("x").expect("legal");
        self.remote = self.node.import(self.endpoint, name, Key(key)).expect("possible");
        let connect = format!("connect {own_pair} {OWN_FIRST_PSN} {own} {PATH_MTU}");
        self.ask(&connect).expect("connected");
        self.wait_for(|of| matches!(of, Completion::Imported { .. }).then_some(()));
    }

    /// The words of the own region's beginning in the peer's requests: address and key.
    pub fn own_address(&self) -> String {
        format!("{OWN_BASE} {OWN_KEY}")
    }

    /// The address and the key of the own region.
    pub fn own_place(&self) -> (u64, u32) {
        (OWN_BASE, OWN_KEY)
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory.write(offset, bytes).expect("inside");
    }

    pub fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let mut into = vec![0; bytes as usize];
        self.memory.read(offset, &mut into).expect("inside");
        into
    }

    pub fn post(&mut self, tag: u64, work: Work<'_>) {
        self.node.post(self.endpoint, tag, work).expect("room");
    }

    pub fn post_receive(&mut self, tag: u64, offset: u64, bytes: u64) {
        let into = Slice { region: self.region, offset, bytes };
        self.node.post_receive(self.endpoint, tag, into).expect("room");
    }

    fn poll(&mut self) {
        while let Some(completion) = self.node.next_completion() {
            self.completions.push(completion);
        }
    }

    /// Waits for a completion, which is taken out.
    pub fn wait_for<T>(&mut self, wanted: impl Fn(&Completion) -> Option<T>) -> T {
        let end = Instant::now() + SLOW;
        loop {
            self.poll();
            let found = self.completions.iter().enumerate();
            let found = found.filter_map(|(at, of)| wanted(of).map(|value| (at, value))).next();
            if let Some((at, value)) = found {
                self.completions.remove(at);
                return value;
            }
            assert!(Instant::now() < end, "not in time; what came: {:?}", self.completions);
        }
    }

    /// Waits for the completion of the work with this tag.
    pub fn completed(&mut self, tag: u64) -> (Operation, Status, u64) {
        self.wait_for(|of| match *of {
            Completion::Done { tag: of, operation, status, value, .. } if of == tag => {
                Some((operation, status, value))
            }
            _ => None,
        })
    }

    /// Asks the peer for something while the node is polled. Returns the words of its answer.
    pub fn ask(&mut self, request: &str) -> Result<Vec<String>, String> {
        self.peer.write_all(format!("{request}\n").as_bytes()).expect("it listens");
        let end = Instant::now() + SLOW;
        loop {
            self.poll();
            if let Some(at) = self.answered.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.answered.drain(..=at).collect();
                let line = String::from_utf8(line).expect("text");
                return match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                    ("ok", rest) => Ok(rest.split_whitespace().map(String::from).collect()),
                    (_, reason) => Err(reason.to_string()),
                };
            }
            let mut bytes = [0; 256];
            match self.peer.read(&mut bytes) {
                Ok(0) => panic!("the peer program ended at `{request}`"),
                Ok(count) => self.answered.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("`{request}`: {error}"),
            }
            assert!(Instant::now() < end, "no answer to `{request}`");
        }
    }

    /// Asks for one number.
    pub fn ask_number(&mut self, request: &str) -> u64 {
        let words = self.ask(request).unwrap_or_else(|reason| panic!("`{request}`: {reason}"));
        words[0].parse().expect("a number")
    }

    /// Drops one datagram of RoCEv2 in `count`, each way, until the value is dropped.
    pub fn lose_one_in(&self, count: u32) -> Loss {
        lose_one_in(count)
    }
}

/// Drops one datagram of RoCEv2 in `count`, each way, until the value is dropped.
pub fn lose_one_in(count: u32) -> Loss {
    let rule = format!("udp dport {ROCE_PORT} numgen random mod {count} == 0 drop");
    let hook = |hook| format!("type filter hook {hook} device \"tap0\" priority 0; {rule};");
    let chains = format!(
        "table netdev rxe {{\nchain in {{ {} }}\nchain out {{ {} }}\n}}",
        hook("ingress"),
        hook("egress")
    );
    let status = Command::new("nft").arg(chains).status().expect("nft is installed");
    assert!(status.success(), "nft refused the rules");
    Loss
}

/// Removes the rules when it is dropped.
pub struct Loss;

impl Drop for Loss {
    fn drop(&mut self) {
        let _ = Command::new("nft").args(["delete", "table", "netdev", "rxe"]).status();
    }
}
