//! A port behind a bad link, which loses, repeats, reorders, damages and delays frames by a seed.
//!
//! It changes received frames only. Put one on each side for faults in both directions.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{Identification, Incoming, Outgoing, Port, PortCounters, PortLimits};
use crate::random::Draw;
use crate::{Moment, Span};

/// The most frames that are held back; more are dropped and counted.
const HELD_MAX: usize = 1 << 16;

/// Faults of a network; probabilities are per frame and independent. All zero: no faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a frame is lost.
    pub drop: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a frame is held back while others overtake it.
    pub reorder: f64,
    /// Probability that one bit of a frame is flipped.
    pub corrupt: f64,
    /// The delay of every frame.
    pub delay: Span,
    /// The additional delay of a reordered frame, at most.
    pub reorder_delay: Span,
    /// Bottleneck \[byte/s\]; 0: none.
    pub rate: u64,
    /// Capacity of the bottleneck's queue \[byte\]; 0: unlimited.
    pub queue_bytes: u64,
    /// The bottleneck marks frames when its queue holds more than this \[byte\]; 0: never.
    pub mark_bytes: u64,
    /// The link is cut from the first moment to the second.
    pub cut: Option<(Moment, Moment)>,
}

/// Frames by the fault that they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Frames lost by probability, by the cut, or because too many were held.
    pub dropped: u64,
    /// Frames lost because the bottleneck's queue was full.
    pub queue_dropped: u64,
    /// Frames given twice.
    pub duplicated: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames that were damaged.
    pub corrupted: u64,
    /// Frames marked by the bottleneck.
    pub marked: u64,
}

struct Held {
    from: SocketAddr,
    to: SocketAddr,
    identification: Identification,
    congestion: bool,
    bytes: Vec<u8>,
}

/// The port `inner` behind a bad link.
pub struct Lossy<P> {
    inner: P,
    link: Link,
}

/// The link, apart from its port so that both can be borrowed.
struct Link {
    faults: Faults,
    draw: Draw,
    /// Frames by the time when they are due, and the order of their arrival.
    held: BTreeMap<(Moment, u64), Held>,
    arrivals: u64,
    /// The time at which the bottleneck has sent all that it holds.
    busy_until: Moment,
    counters: FaultCounters,
    spare: Vec<Vec<u8>>,
}

impl<P: Port> Lossy<P> {
    /// Puts `faults` before `inner`.
    #[must_use]
    pub fn new(inner: P, faults: Faults, seed: u64) -> Lossy<P> {
        let link = Link {
            faults,
            draw: Draw::new(seed),
            held: BTreeMap::new(),
            arrivals: 0,
            busy_until: Moment::default(),
            counters: FaultCounters::default(),
            spare: Vec::new(),
        };
        Lossy { inner, link }
    }

    /// Replaces the faults from now on.
    pub fn set(&mut self, faults: Faults) {
        self.link.faults = faults;
    }

    /// Returns the counts of faults so far.
    #[must_use]
    pub fn faults(&self) -> FaultCounters {
        self.link.counters
    }

    /// Returns the port behind the link.
    pub fn inner(&mut self) -> &mut P {
        &mut self.inner
    }
}

impl Link {
    fn arrive(&mut self, now: Moment, frame: &Incoming<'_>) {
        let Faults { drop, duplicate, cut, .. } = self.faults;
        let is_cut = cut.is_some_and(|(from, until)| from <= now && now < until);
        if self.draw.chance(drop) || is_cut || self.held.len() >= HELD_MAX {
            self.counters.dropped += 1;
            return;
        }
        let Some((leaves, congestion)) = self.pass_bottleneck(now, frame) else { return };
        let congestion = congestion || frame.congestion;
        self.hold(leaves, frame, congestion);
        if self.draw.chance(duplicate) {
            self.counters.duplicated += 1;
            self.hold(leaves, frame, congestion);
        }
    }

    /// Returns when the frame leaves the bottleneck, and whether it is marked; `None`: the queue is
    /// full.
    fn pass_bottleneck(&mut self, now: Moment, frame: &Incoming<'_>) -> Option<(Moment, bool)> {
        let Faults { rate, queue_bytes, mark_bytes, .. } = self.faults;
        if rate == 0 {
            return Some((now, false));
        }
        let time = |bytes: u64| Span::from_ns(bytes.saturating_mul(1_000_000_000) / rate);
        let waits = self.busy_until.max(now).since(now).as_ns();
        let queued = (u128::from(waits) * u128::from(rate) / 1_000_000_000) as u64;
        if queue_bytes > 0 && queued + frame.bytes.len() as u64 > queue_bytes {
            self.counters.queue_dropped += 1;
            return None;
        }
        let marked = mark_bytes > 0 && queued > mark_bytes;
        self.counters.marked += u64::from(marked);
        self.busy_until = self.busy_until.max(now) + time(frame.bytes.len() as u64);
        Some((self.busy_until, marked))
    }

    fn hold(&mut self, leaves: Moment, frame: &Incoming<'_>, congestion: bool) {
        let Faults { delay, reorder, reorder_delay, corrupt, .. } = self.faults;
        let mut due = leaves + delay;
        if self.draw.chance(reorder) {
            self.counters.reordered += 1;
            due = due + Span::from_ns(self.draw.below(reorder_delay.as_ns().max(1)));
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        if !bytes.is_empty() && self.draw.chance(corrupt) {
            self.counters.corrupted += 1;
            let bit = self.draw.below(bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let Incoming { from, to, identification, .. } = *frame;
        self.arrivals += 1;
        let held = Held { from, to, identification, congestion, bytes };
        self.held.insert((due, self.arrivals), held);
    }
}

impl<P: Port> Port for Lossy<P> {
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
        let Lossy { inner, link } = self;
        let arrived = inner.receive(now, &mut |frame| link.arrive(now, &frame));
        let mut given = 0;
        while let Some(first) = link.held.first_entry().filter(|first| first.key().0 <= now) {
            let Held { from, to, identification, congestion, bytes } = first.remove();
            take(Incoming { from, to, bytes: &bytes, identification, congestion });
            link.spare.push(bytes);
            given += 1;
        }
        // Frames that arrived and are held back are progress too: more may be behind them.
        given.max(usize::from(arrived > 0))
    }

    fn refused(&mut self) -> Option<SocketAddr> {
        self.inner.refused()
    }

    fn deadline(&self) -> Option<Moment> {
        let held = self.link.held.first_key_value().map(|(key, _)| key.0);
        held.into_iter().chain(self.inner.deadline()).min()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}
