//! `[source.roce]`: memory of the run that FPGAs or producers write over Ethernet.

use std::net::{IpAddr, SocketAddr};

use fluxline_core::roce::UDP_PORT;
use serde::{Deserialize, Serialize};

/// Path MTUs of the standard \[byte\].
const PATH_MTUS: [u64; 5] = [256, 512, 1024, 2048, 4096];
/// Numbers of 24 bits: queue pairs, PSNs.
const NUMBER_MAX: u32 = 0x00FF_FFFF;
/// Set-up is addressed to the pairs 0 and 1, and the low 10 bits find a connection.
const PAIR_MASK: u32 = 1023;
/// Memory of all senders' rings together \[byte\].
const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// Memory that is written over Ethernet (RoCEv2): by `sender`s that are configured on both sides,
/// or by one producer at a time that connects and pushes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Roce {
    /// Own address and port.
    #[serde(default = "listen")]
    pub listen: String,
    /// Longest payload of a frame \[byte\]: 256, 512, 1024, 2048 or 4096.
    #[serde(default = "path_mtu")]
    pub path_mtu: u64,
    /// Size of each sender's region, or of the push ring \[byte\]; a power of two.
    #[serde(default = "ring_bytes")]
    pub ring_bytes: u64,
    /// Distance of two records in a sender's region \[byte\]; default: the path MTU.
    pub slot_bytes: Option<u64>,
    /// Socket receive buffer to ask for \[byte\].
    #[serde(default = "receive_buffer_bytes")]
    pub receive_buffer_bytes: u32,
    /// For a push ring: networks and addresses that may connect; empty: all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Senders that are configured on both sides, an FPGA each.
    #[serde(default, rename = "sender")]
    pub senders: Vec<Sender>,
    /// A push ring for a producer that connects.
    pub push: Option<PushRing>,
}

/// A sender that is configured on both sides: RDMA WRITE ONLY with immediate.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sender {
    /// Its name in messages.
    pub name: String,
    /// Its address, with the port that it sends from; without one, the port is learned.
    pub address: String,
    /// The queue pair that its frames are addressed to, of this run.
    pub queue_pair: u32,
    /// The promise of its connection.
    #[serde(default)]
    pub reliability: SenderReliability,
    /// Its own queue pair, for acknowledgements and congestion notifications. An unreliable sender
    /// without one gets no notifications.
    pub peer_queue_pair: Option<u32>,
    /// Its first PSN; default for unreliable senders: whatever comes first.
    pub first_psn: Option<u32>,
    /// The R_Key in its frames; not stored with the run.
    #[serde(skip_serializing)]
    pub key: u32,
    /// The address of the region's first byte in its frames.
    #[serde(default)]
    pub base: u64,
}

/// The promise of a sender's connection.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SenderReliability {
    /// RC: frames are acknowledged; lost ones are repeated, and a full ring holds the sender back.
    Reliable,
    /// UC: the sender never waits; lost frames are counted.
    #[default]
    Unreliable,
}

/// A push ring for a producer that connects.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PushRing {
    /// Name of the ring's region.
    #[serde(default = "region")]
    pub region: String,
    /// The key that the producer must show; not stored with the run. Default: a random one, which
    /// the run prints.
    #[serde(skip_serializing)]
    pub key: Option<u64>,
}

fn listen() -> String {
    "127.0.0.1:4791".to_string()
}
fn path_mtu() -> u64 {
    1024
}
fn ring_bytes() -> u64 {
    4 << 20
}
fn receive_buffer_bytes() -> u32 {
    64 << 20
}
fn region() -> String {
    "ring".to_string()
}

impl Roce {
    /// Distance of two records in a sender's region \[byte\].
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes.unwrap_or(self.path_mtu)
    }

    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        let wrong = |text: String| Err(format!("source `{name}`: {text}"));
        address(&self.listen).map_err(|text| format!("source `{name}`: listen = {text}"))?;
        if !PATH_MTUS.contains(&self.path_mtu) {
            return wrong(format!(
                "path-mtu = {}; write 256, 512, 1024, 2048 or 4096.",
                self.path_mtu
            ));
        }
        let (ring, slot) = (self.ring_bytes, self.slot_bytes());
        if !ring.is_power_of_two() || !(256..=MEMORY_BYTES_MAX).contains(&ring) {
            return wrong(format!("ring-bytes = {ring}; write a power of two of 256 or more."));
        }
        self.allowed().map_err(|text| format!("source `{name}`: {text}"))?;
        match (&self.push, self.senders.is_empty()) {
            (Some(_), true) => return self.check_push(name),
            (None, false) => {}
            _ => {
                return wrong(
                    "write either [[source.roce.sender]] tables or one [source.roce.push].".into(),
                );
            }
        }
        if !self.allow.is_empty() {
            return wrong(
                "allow is for a push ring: senders are let in by their address; leave it out."
                    .into(),
            );
        }
        if !(1..=self.path_mtu).contains(&slot) {
            return wrong(format!(
                "slot-bytes = {slot}; write 1 to {}: one frame is one record.",
                self.path_mtu
            ));
        }
        if ring < slot {
            return wrong(format!(
                "ring-bytes = {ring} is smaller than a packet of {slot} bytes; make it larger."
            ));
        }
        if (self.senders.len() as u64).saturating_mul(ring) > MEMORY_BYTES_MAX {
            return wrong("the senders' rings together are larger than 1 TiB.".into());
        }
        self.senders.iter().enumerate().try_for_each(|(number, sender)| {
            sender
                .check(&self.senders[..number])
                .map_err(|text| format!("source `{name}`: sender `{}`: {text}", sender.name))
        })
    }

    /// Returns the networks that may connect, as addresses and the length of their common prefix
    /// \[bit\].
    pub fn allowed(&self) -> Result<Vec<(IpAddr, u8)>, String> {
        self.allow.iter().map(|text| network(text)).collect()
    }

    fn check_push(&self, name: &str) -> Result<(), String> {
        if self.push.as_ref().is_some_and(|push| push.key == Some(0)) {
            return Err(format!(
                "source `{name}`: key = 0 means no key; write another number, or leave it out \
                 and the run draws one."
            ));
        }
        if self.slot_bytes.is_some() {
            return Err(format!(
                "source `{name}`: a push ring has no slots: leave slot-bytes out."
            ));
        }
        if self.ring_bytes < 4096 {
            return Err(format!(
                "source `{name}`: ring-bytes = {}; a push ring needs 4096 or more.",
                self.ring_bytes
            ));
        }
        Ok(())
    }
}

/// Returns an address with a port, as numbers.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not an address with a port; write for example \"127.0.0.1:4791\".")
    })
}

/// Returns a network: `10.0.0.0/24`, or one address.
fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || {
        format!(
            "allow has {text:?}, which is not a network; write for example \"10.0.0.0/24\", or one \
             address, \"10.0.0.7\"."
        )
    };
    let (address, bits) = text.split_once('/').map_or((text, None), |(of, bits)| (of, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
    if bits > most { Err(wrong()) } else { Ok((address, bits)) }
}

/// The addresses of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderPorts {
    /// The destination of frames to it.
    pub address: SocketAddr,
    /// The port that its frames come from; `None`: learned from the first accepted frame.
    pub source_port: Option<u16>,
}

impl Sender {
    /// Returns its addresses. Without a port it is a peer of the standard: it receives at 4791, and
    /// sends from a port of its choice.
    ///
    /// Errors: a sentence about the address.
    pub fn ports(&self) -> Result<SenderPorts, String> {
        if let Ok(ip) = self.address.parse::<IpAddr>() {
            let address = SocketAddr::new(ip, UDP_PORT);
            return Ok(SenderPorts { address, source_port: None });
        }
        let address: SocketAddr = self.address.parse().map_err(|_| {
            format!(
                "{:?} is not an address; write for example \"10.0.0.7:4800\", or \"10.0.0.7\" for \
                 a sender that chooses its port.",
                self.address
            )
        })?;
        Ok(SenderPorts { address, source_port: Some(address.port()) })
    }

    fn check(&self, others: &[Sender]) -> Result<(), String> {
        let from = self.ports().map_err(|text| format!("address = {text}"))?.address;
        if let Some(pair) = self.peer_queue_pair.filter(|pair| !(2..=NUMBER_MAX).contains(pair)) {
            return Err(format!("peer-queue-pair = {pair}; write 2 to {NUMBER_MAX}."));
        }
        let (pair, low) = (self.queue_pair, self.queue_pair & PAIR_MASK);
        if !(2..=NUMBER_MAX).contains(&pair) || low == 1 {
            return Err(format!(
                "queue-pair = {pair}; write 2 to {NUMBER_MAX} whose low 10 bits are not 1."
            ));
        }
        if let Some(other) = others.iter().find(|of| of.queue_pair & PAIR_MASK == low) {
            return Err(format!(
                "queue-pair = {pair} has the low 10 bits of `{}`'s; write another number.",
                other.name
            ));
        }
        if others.iter().any(|other| other.name == self.name) {
            return Err("its name is given twice; give each `name` once.".into());
        }
        if from.port() == 0 {
            return Err(format!("address = {:?} lacks the sender's port.", self.address));
        }
        if self.first_psn.is_some_and(|psn| psn > NUMBER_MAX) {
            return Err(format!("first-psn is larger than {NUMBER_MAX}."));
        }
        if self.key == 0 {
            return Err("key = 0 means no key; write another number.".into());
        }
        self.check_reliable()
    }

    /// Checks the keys that a reliable sender needs.
    fn check_reliable(&self) -> Result<(), String> {
        let missing = match (self.reliability, self.peer_queue_pair, self.first_psn) {
            (SenderReliability::Reliable, None, _) => {
                "peer-queue-pair, the number of the sender's own queue pair: acknowledgements go \
                 there"
            }
            (SenderReliability::Reliable, _, None) => {
                "first-psn, the PSN of the sender's first frame: frames before it would never be \
                 repeated"
            }
            _ => return Ok(()),
        };
        Err(format!("reliability = \"reliable\" needs {missing}; write it."))
    }
}
