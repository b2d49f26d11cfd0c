//! Remote memory past the kernel: one process owns a region, the other uses it in every way.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::{EthernetPort, RoceNode, endpoint_config};
use fluxline::udp::UdpPortConfig;
use fluxline::xdp::XdpConfig;
use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Name, PostError, Reliability, RemoteId, Rights,
    Slice, Status, Target, Work,
};

const KEY: Key = Key(0x5EED);
const BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// A node on the interface, or on a socket where `SOCKET` says so.
fn node(own: IpAddr) -> RoceNode<EthernetPort> {
    let socket = std::env::var("SOCKET").is_ok();
    let interface = if socket { "no-such-interface" } else { "veth" };
    let config = XdpConfig { addresses: vec![own], ..XdpConfig::new(interface) };
    let local = UdpPortConfig::new(SocketAddr::new(own, 4791));
    let (port, reason) = EthernetPort::open(&config, local).expect("a port");
    assert_eq!(reason.is_some(), socket, "{reason:?}");
    RoceNode::on(port, endpoint_config("node").expect("random numbers"))
}

fn name() -> Name {
    Name::parse("samples").expect("legal")
}

/// Exports a region and gives buffers until the writer has said goodbye.
pub(crate) fn own(own: IpAddr, ready: impl FnOnce()) {
    let mut node = node(own);
    let region = node.register(BYTES).expect("memory");
    node.export(region, name(), Grant { rights: Rights::ALL, key: KEY }).expect("free");
    let inbox = node.register(4096).expect("memory");
    ready();
    let began = Instant::now();
    loop {
        match node.poll(clock::monotonic()) {
            Some(Completion::Connected { endpoint, .. }) => {
                let into = Slice { region: inbox, offset: 0, bytes: 4096 };
                node.post_receive(endpoint, 1, into).expect("room");
            }
            Some(Completion::Broken { status, .. }) => {
                assert_eq!(status, Status::Disconnected);
                return;
            }
            Some(_) => {}
            None => node.wait(Duration::from_millis(1)).expect("a port"),
        }
        assert!(began.elapsed() < PATIENCE * 3, "nobody came");
    }
}

struct Writer {
    node: RoceNode<EthernetPort>,
    endpoint: fluxline_core::fabric::EndpointId,
}

impl Writer {
    fn wait<T>(&mut self, wanted: impl Fn(&Completion) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            match self.node.poll(clock::monotonic()) {
                Some(completion) => {
                    assert!(!matches!(completion, Completion::Broken { .. }), "{completion:?}");
                    if let Some(found) = wanted(&completion) {
                        return found;
                    }
                }
                None => self.node.wait(Duration::from_millis(1)).expect("a port"),
            }
            assert!(began.elapsed() < PATIENCE, "was not notified in time");
        }
    }

    fn done(&mut self, tag: u64, work: Work<'_>) -> u64 {
        while self.node.post(self.endpoint, tag, work) == Err(PostError::Full) {
            self.node.wait(Duration::from_millis(1)).expect("a port");
        }
        let (status, value) = self.wait(|completion| match *completion {
            Completion::Done { tag: of, status, value, .. } if of == tag => Some((status, value)),
            _ => None,
        });
        assert_eq!(status, Status::Done, "{work:?}");
        value
    }

    fn import(&mut self) -> RemoteId {
        let asked = self.node.import(self.endpoint, name(), KEY).expect("connected");
        let status = self.wait(|completion| match *completion {
            Completion::Imported { remote, status, .. } if remote == asked => Some(status),
            _ => None,
        });
        assert_eq!(status, Status::Done);
        asked
    }
}

/// Puts, gets, adds, swaps and sends to the owner at `peer`.
pub(crate) fn write(own: IpAddr, peer: IpAddr) {
    let mut node = node(own);
    let endpoint = node.connect(&peer.to_string(), Reliability::Reliable).expect("there is a way");
    let mut writer = Writer { node, endpoint };
    writer.wait(|completion| matches!(completion, Completion::Connected { .. }).then_some(()));
    let remote = writer.import();
    let to = |offset| Target { remote, offset };
    let pattern: Vec<u8> = (0..BYTES).map(|at| (at * 31 + (at >> 8)) as u8).collect();
    let complete_at = Some(Level::Placed);
    let from = Local::Bytes(&pattern);
    writer.done(1, Work::Put { from, to: to(0), notify: Some(9), complete_at });
    let back = writer.node.register(BYTES).expect("memory");
    let into = Slice { region: back, offset: 0, bytes: BYTES };
    writer.done(2, Work::Get { from: to(0), into });
    let mut found = vec![0; BYTES as usize];
    writer.node.memory(back).expect("own").read(0, &mut found).expect("inside");
    assert!(found == pattern, "what was put is what is got");
    let before = u64::from_le_bytes(pattern[8..16].try_into().expect("8 byte"));
    assert_eq!(writer.done(3, Work::FetchAdd { at: to(8), add: 5 }), before);
    let expected = before.wrapping_add(5);
    let swap = Work::CompareSwap { at: to(8), expected, desired: 77 };
    assert_eq!(writer.done(4, swap), expected);
    assert_eq!(writer.done(5, Work::FetchAdd { at: to(8), add: 0 }), 77);
    let message = Local::Bytes(b"until next time");
    writer.done(6, Work::Send { from: message, complete_at });
    writer.node.disconnect(endpoint).expect("connected");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(200) {
        let _ = writer.node.poll(clock::monotonic());
    }
}
