//! Ports with faults that [`fluxline_core::port::lossy`] does not have.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use fluxline_core::Moment;
use fluxline_core::port::{Identification, Incoming, Outgoing, Port, PortCounters, PortLimits};

/// A port whose incoming frames are lost where `keep` says no.
pub struct Filter<P> {
    pub inner: P,
    pub keep: Box<dyn FnMut(&Incoming<'_>) -> bool + Send>,
}

impl<P: Port> Port for Filter<P> {
    fn limits(&self) -> &PortLimits {
        self.inner.limits()
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        self.inner.local(peer)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        self.inner.frame(to, bytes)
    }

    fn flush(&mut self, now: Moment) {
        self.inner.flush(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let Filter { inner, keep } = self;
        inner.receive(now, &mut |frame| {
            if keep(&frame) {
                take(frame);
            }
        })
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.deadline()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}

struct Held {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    congestion: bool,
}

/// A socket with a small receive buffer. [`Tight::arrive`] plays the kernel: it fills the buffer
/// although the program does not read, and drops frames that do not fit.
pub struct Tight<P> {
    inner: P,
    limits: PortLimits,
    held: VecDeque<Held>,
    held_bytes: usize,
    pub held_bytes_max_seen: usize,
    pub dropped: u64,
}

impl<P: Port> Tight<P> {
    pub fn new(inner: P, receive_buffer_bytes: usize, frame_cost: usize) -> Tight<P> {
        let limits = PortLimits { receive_buffer_bytes, frame_cost, ..*inner.limits() };
        let held = VecDeque::new();
        Tight { inner, limits, held, held_bytes: 0, held_bytes_max_seen: 0, dropped: 0 }
    }

    pub fn arrive(&mut self, now: Moment) {
        let Tight { inner, limits, held, held_bytes, dropped, held_bytes_max_seen } = self;
        let mut take = |frame: Incoming<'_>| {
            let cost = frame.bytes.len() + limits.frame_cost;
            if *held_bytes + cost > limits.receive_buffer_bytes {
                *dropped += 1;
                return;
            }
            *held_bytes += cost;
            *held_bytes_max_seen = (*held_bytes_max_seen).max(*held_bytes);
            let Incoming { from, to, congestion, .. } = frame;
            held.push_back(Held { from, to, bytes: frame.bytes.to_vec(), congestion });
        };
        while inner.receive(now, &mut take) > 0 {}
    }
}

impl<P: Port> Port for Tight<P> {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        self.inner.local(peer)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        self.inner.frame(to, bytes)
    }

    fn flush(&mut self, now: Moment) {
        self.inner.flush(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        self.arrive(now);
        let count = self.held.len().min(64);
        for Held { from, to, bytes, congestion } in self.held.drain(..count) {
            self.held_bytes -= bytes.len() + self.limits.frame_cost;
            take(Incoming {
                from,
                to,
                bytes: &bytes,
                identification: Identification::Seen(0),
                congestion,
            });
        }
        count
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.deadline()
    }

    fn counters(&self) -> PortCounters {
        PortCounters { frames_dropped: self.dropped, ..self.inner.counters() }
    }
}
