//! The load of an experiment on a host, as far as a check needs it.

use std::net::{IpAddr, SocketAddr};

use super::text;

/// The path by which a stream's packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// UDP sockets.
    Udp,
    /// RoCEv2 over a UDP socket.
    Roce,
    /// Shared memory that another process writes.
    Shared,
    /// Files, or emulators that write into the ring: nothing of the host can lose them.
    Inside,
}

/// One `[[source]]` of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Its name in the experiment.
    pub name: String,
    /// The path by which its packets arrive.
    pub link: Link,
    /// The number of sensors.
    pub senders: u64,
    /// Packets per second of one sender; none where the experiment does not say.
    pub rate_hz: Option<f64>,
    /// Payload of a packet \[byte\].
    pub packet_bytes: u64,
    /// The size is a guess: nothing is changed because of it.
    pub is_size_assumed: bool,
    /// Sockets that share the traffic.
    pub sockets: u64,
    /// Receive buffer that each socket asks for, or size of the shared ring \[byte\].
    pub buffer_bytes: u64,
    /// Own addresses and ports; an unspecified address stands for all interfaces, port 0 for one
    /// that is not known before.
    pub listen: Vec<SocketAddr>,
    /// The senders' addresses, as far as known.
    pub peers: Vec<IpAddr>,
    /// The interface by name, where the experiment says it.
    pub interface: Option<String>,
    /// Busy polling that the sockets ask for \[us\].
    pub busy_poll_us: u32,
}

/// The load of an experiment on a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// The name of the experiment.
    pub name: String,
    /// Its sources.
    pub streams: Vec<Stream>,
    /// Cores that its threads are pinned to.
    pub cores: Vec<usize>,
    /// Memory that it may come to use \[byte\].
    pub memory_bytes: u64,
    /// The assumptions for missing values, one sentence each.
    pub assumptions: Vec<String>,
}

impl Stream {
    /// Returns true if it goes through the kernel's network stack.
    #[must_use]
    pub fn uses_sockets(&self) -> bool {
        matches!(self.link, Link::Udp | Link::Roce)
    }

    /// Returns true if it may come from another host.
    #[must_use]
    pub fn uses_cards(&self) -> bool {
        let inside = !self.listen.is_empty() && self.listen.iter().all(|at| at.ip().is_loopback());
        self.uses_sockets() && !inside
    }

    /// Packets per second of all senders; 0 before the assumptions are made.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        self.senders as f64 * self.rate_hz.unwrap_or(0.0)
    }

    /// Payload of all senders \[byte/s\].
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.packets_per_second() * self.packet_bytes as f64
    }

    /// Returns the time that the sockets' buffers of `granted` bytes each last while nobody reads
    /// \[s\].
    #[must_use]
    pub fn lasts_seconds(&self, granted: u64) -> f64 {
        (granted as f64 * self.sockets.max(1) as f64) / self.bytes_per_second().max(1.0)
    }

    /// In words: `8 sources x 1000 B at 100 kHz`.
    #[must_use]
    pub fn describe(&self) -> String {
        let rate = text::hertz(self.rate_hz.unwrap_or(0.0));
        let size = text::bytes(self.packet_bytes as f64);
        match self.senders {
            1 => format!("1 source x {size} at {rate}"),
            senders => format!("{senders} sources x {size} at {rate}"),
        }
    }
}

impl Load {
    /// The streams that go through the kernel's network stack.
    pub(super) fn socket_streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(|stream| stream.uses_sockets())
    }

    /// The streams that may come from other hosts.
    pub(super) fn card_streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(|stream| stream.uses_cards())
    }

    /// The streams on shared memory.
    pub(super) fn shared_streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(|stream| stream.link == Link::Shared)
    }

    /// Packets per second through the kernel's network stack.
    pub(super) fn packets_per_second(&self) -> f64 {
        self.socket_streams().map(Stream::packets_per_second).sum()
    }

    /// Packets per second from other hosts.
    pub(super) fn card_packets_per_second(&self) -> f64 {
        self.card_streams().map(Stream::packets_per_second).sum()
    }

    /// Describes the packets that arrive during a pause \[s\]: `712 packets of boards, 700 KiB`.
    pub(super) fn while_away(&self, seconds: f64) -> String {
        let bytes: f64 = self.socket_streams().map(Stream::bytes_per_second).sum();
        let packets = self.packets_per_second() * seconds;
        format!("{} packets ({}) come", text::count(packets), text::bytes(bytes * seconds))
    }
}
