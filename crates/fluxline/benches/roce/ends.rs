//! The node that both ends of a trial open, and the settings on their command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use fluxline::pin::allowed_cores;
use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig, WhenEmpty};
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Name, RegionId, Reliability, RemoteId, Rights,
};
use fluxline_core::port::Port;

pub const KEY: Key = Key(0x5EED);
/// The region that puts go to, and the one that they are from, unless `region` says more \[byte\].
/// Twice the largest put: a small window used again is the fastest, on every side.
const REGION_BYTES: u64 = 2 << 20;

pub fn region_bytes(settings: &Settings) -> u64 {
    settings.get::<u64>("region").max(REGION_BYTES)
}

/// `name=value` of a command line.
#[derive(Clone, Debug, Default)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    pub fn parse(arguments: &[String]) -> Settings {
        let pairs = arguments.iter().filter_map(|text| text.split_once('='));
        Settings(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Settings {
        self.0.insert(name.to_owned(), value.to_string());
        self
    }

    /// Returns the given value, or the default.
    pub fn get<T: FromStr + Default>(&self, name: &str) -> T {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub fn address(&self, name: &str) -> IpAddr {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or(IpAddr::from([127, 0, 0, 1]))
    }

    /// The address on which the other end listens.
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.address("to"), self.get("port"))
    }

    pub fn seconds(&self) -> Duration {
        Duration::from_secs_f64(self.get("seconds"))
    }

    pub fn arguments(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

/// The number of threads of an end, at least one.
pub fn threads(settings: &Settings) -> usize {
    settings.get::<usize>("threads").max(1)
}

/// The core of a thread of this end: those of the other end lie between.
pub fn core(settings: &Settings, thread: usize) -> usize {
    let (cores, first) = (allowed_cores(), settings.get("core"));
    let place = cores.iter().position(|core| *core == first).unwrap_or_default();
    cores.get((place + 2 * thread) % cores.len().max(1)).copied().unwrap_or(first)
}

pub fn open(settings: &Settings, name: &str, ip: IpAddr) -> RoceNode {
    open_all(settings, name, ip).remove(0)
}

/// Opens the nodes of all threads of an end, at one address.
pub fn open_all(settings: &Settings, name: &str, ip: IpAddr) -> Vec<RoceNode> {
    let mut port = UdpPortConfig::new(SocketAddr::new(ip, 0));
    let single: bool = settings.get("single");
    (port.segmentation, port.gro) = (!single, !single);
    let nap_us: u64 = settings.get("nap");
    if nap_us > 0 {
        port.when_empty = WhenEmpty::Nap(Duration::from_micros(nap_us));
    }
    let frame_bytes: usize = settings.get("frame");
    let config = || EndpointConfig {
        checked: settings.get("checked"),
        // Shorter frames than 128 byte are made by short puts; nobody agrees on such a limit.
        frame_bytes_max: if frame_bytes == 0 { usize::MAX } else { frame_bytes.max(128) },
        bytes_per_s: settings.get("pace"),
        ..endpoint_config(name).expect("random numbers")
    };
    let ports = UdpPort::bind_threads(&port, threads(settings)).expect("a port");
    ports.into_iter().map(|port| RoceNode::on(port, config())).collect()
}

/// Polls until something wanted comes.
pub fn wait<T>(node: &mut RoceNode, wanted: impl Fn(&Completion) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = node.next_completion().as_ref().and_then(&wanted) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "the other end is silent");
    }
}

pub fn reliability(settings: &Settings) -> Reliability {
    match settings.get("reliable") {
        true => Reliability::Reliable,
        false => Reliability::Unreliable,
    }
}

pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// An own region that the peer may write.
pub fn export(node: &mut RoceNode, called: &str, bytes: u64) -> RegionId {
    let region = node.register(bytes).expect("memory");
    node.export(region, name(called), Grant { rights: Rights::PUT, key: KEY }).expect("free");
    region
}

pub fn connected(node: &mut RoceNode) -> EndpointId {
    wait(node, |what| match what {
        Completion::Connected { endpoint, .. } => Some(*endpoint),
        Completion::Broken { status, .. } => panic!("no connection: {status}"),
        _ => None,
    })
}

pub fn import(node: &mut RoceNode, endpoint: EndpointId, called: &str) -> RemoteId {
    let remote = node.import(endpoint, name(called), KEY).expect("connected");
    let status = wait(node, |what| match what {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    });
    assert!(status.is_done(), "{status}");
    remote
}

/// Reports to the parent process that the other end may begin.
pub fn ready(node: &mut RoceNode, ip: IpAddr) {
    let local = node.node().port().local(ip).expect("bound");
    println!("ready {}", local.port());
}
