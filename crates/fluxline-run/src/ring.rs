//! The rings that the readout reads, one for each input.
//!
//! ```text
//!   Slots     a thread of this process fills slots; live
//!   OnDemand  the same, of an input that waits for its reader: files, emulators without a rate
//!   Shared    another process pushes records into shared memory
//!   Remote    a producer on Ethernet pushes records
//!   Landed    FPGAs on Ethernet write slots
//! ```
//!
//! Packets are read in place, but for shared memory: another process can still write there, so its
//! records are copied first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fluxline::landing::{RingRecords, SlotReader};
use fluxline::push::{Broken, NextError, PushConsumer, PushCounters};
use fluxline::ring::{Consumer, SlotView, Waited};
use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::merge::Times;

use crate::stop::Stop;

/// Pause at empty slots that a peer writes.
const NAP: Duration = Duration::from_micros(100);
/// Slots of an on-demand ring that are read before they go back to the thread that fills them.
const SLOTS_PER_RELEASE: usize = 64;

/// The ring of one input.
pub(crate) enum InputRing {
    /// Slots that a thread of this process fills.
    Slots(Consumer),
    /// Slots of an input that waits for its reader.
    OnDemand(OnDemandRing),
    /// Records that another process pushes into shared memory.
    Shared(Box<Records<SharedRing>>),
    /// Records that a producer on Ethernet pushes.
    Remote(Box<Records<RingRecords>>),
    /// Slots that peers on Ethernet write.
    Landed(Landed),
}

/// A packet as it lies in a ring.
pub(crate) enum Arrival<'a> {
    /// A complete packet.
    Whole(Datagram<'a>),
    /// The beginning of a packet that did not fit into its slot, with its length \[byte\].
    Truncated(usize),
}

/// A ring that was read: how many slots or records, and how full it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadSlots {
    /// Slots or records.
    pub count: usize,
    /// Their share of the ring's slots \[%\]; 0 where it is not known.
    pub ring_percent: usize,
}

impl InputRing {
    /// Hands at most `most` slots or records to `take`, of each region where there are several.
    ///
    /// Errors: a producer broke the ring; the ring is then over.
    pub fn read(
        &mut self,
        most: usize,
        now: Moment,
        mut take: impl FnMut(Arrival<'_>),
    ) -> Result<ReadSlots, Broken> {
        let count = match self {
            InputRing::Slots(ring) => {
                let count = read_slots(ring, most, take);
                return Ok(ReadSlots { count, ring_percent: count * 100 / ring.slots() });
            }
            InputRing::OnDemand(ring) => ring.read_up_to(most, take),
            InputRing::Shared(records) => records.read(most, now, |of| take(Arrival::Whole(of)))?,
            InputRing::Remote(records) => records.read(most, now, |of| take(Arrival::Whole(of)))?,
            InputRing::Landed(landed) => landed.read(most, now, |of| take(Arrival::Whole(of))),
        };
        Ok(ReadSlots { count, ring_percent: 0 })
    }

    /// Waits for packets, at most `timeout`; returns true when more may come.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        match self {
            InputRing::Slots(ring) => ring.wait(timeout) != Waited::Closed,
            InputRing::OnDemand(ring) => ring.wait(timeout) != Waited::Closed,
            InputRing::Shared(records) => records.wait(timeout),
            InputRing::Remote(records) => records.wait(timeout),
            InputRing::Landed(landed) => landed.wait(timeout),
        }
    }
}

#[inline]
fn read_slots(ring: &mut Consumer, most: usize, mut take: impl FnMut(Arrival<'_>)) -> usize {
    let mut slots = 0;
    for slot in ring.peek().take(most) {
        slots += 1;
        take_slot(&slot, &mut take);
    }
    ring.release(slots);
    slots
}

/// Hands the packets of a slot to `take`; of a truncated slot the last one is incomplete.
#[inline]
fn take_slot(slot: &SlotView<'_>, take: &mut impl FnMut(Arrival<'_>)) {
    let mut left = slot.meta.datagram_count();
    for datagram in slot.datagrams() {
        left -= 1;
        match slot.meta.truncated && left == 0 {
            true => take(Arrival::Truncated(datagram.bytes.len())),
            false => take(Arrival::Whole(datagram)),
        }
    }
}

/// The ring of an input that waits for its reader.
pub(crate) struct OnDemandRing {
    ring: Consumer,
    /// Slots read and not yet given back.
    read: usize,
    /// Presence of capture times in its packets.
    pub times: Times,
    /// Speed of the replay.
    pub replay: Replay,
    /// The input's name, which decides the order between equal ones.
    pub name: String,
}

/// Speed of the replay of an input that waits for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// At the speed of its own thread.
    AtOnce,
    /// With the recorded gaps, by the clock that all such inputs share.
    Recorded,
}

/// The head of an on-demand ring.
pub(crate) enum Head {
    /// A packet of this time.
    Packet(Moment),
    /// Nothing yet.
    Nothing,
    /// Nothing, and the input has ended.
    Ended,
}

impl OnDemandRing {
    /// Reads from `ring`.
    pub fn new(name: &str, ring: Consumer, times: Times, replay: Replay) -> OnDemandRing {
        OnDemandRing { ring, read: 0, times, replay, name: name.to_string() }
    }

    /// Returns the next packet's time, if there is one.
    pub fn head(&mut self) -> Head {
        if let Some(slot) = self.ring.shown().get(self.read) {
            return Head::Packet(slot.meta.time);
        }
        self.release();
        if let Some(slot) = self.ring.peek().get(0) {
            return Head::Packet(slot.meta.time);
        }
        match self.ring.wait(Duration::ZERO) {
            Waited::Closed => Head::Ended,
            Waited::Ready | Waited::TimedOut => Head::Nothing,
        }
    }

    /// Returns the length of the next packet, which [`Self::head`] has shown \[byte\].
    pub fn head_bytes(&self) -> usize {
        self.ring.shown().get(self.read).map_or(0, |slot| slot.bytes.len())
    }

    /// Hands the next packet, which [`Self::head`] has shown, to `take`.
    pub fn read(&mut self, mut take: impl FnMut(&Datagram<'_>)) {
        if let Some(slot) = self.ring.shown().get(self.read) {
            slot.datagrams().for_each(|datagram| take(&datagram));
            self.read += 1;
        }
        if self.read >= SLOTS_PER_RELEASE {
            self.release();
        }
    }

    /// Waits for packets, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Waited {
        self.ring.wait(timeout)
    }

    /// Returns its fill level \[%\].
    pub fn percent(&self) -> usize {
        (self.ring.occupied() - self.read) * 100 / self.ring.slots()
    }

    fn read_up_to(&mut self, most: usize, take: impl FnMut(Arrival<'_>)) -> usize {
        self.release();
        read_slots(&mut self.ring, most, take)
    }

    fn release(&mut self) {
        self.ring.release(std::mem::take(&mut self.read));
    }
}

/// Slots that peers write, a region each; read until the thread that announces them ends.
pub(crate) struct Landed {
    lanes: Vec<LandedLane>,
    port: u16,
    turn: usize,
}

/// The region of one peer.
pub(crate) struct LandedLane {
    /// The peer's address.
    pub sender: SenderAddress,
    /// Its slots.
    pub slots: SlotReader,
}

impl Landed {
    /// Reads these regions, which were written through `port`.
    pub fn new(lanes: Vec<LandedLane>, port: u16) -> Landed {
        Landed { lanes, port, turn: 0 }
    }

    fn read(&mut self, most: usize, time: Moment, mut take: impl FnMut(Datagram<'_>)) -> usize {
        let (lanes, port) = (self.lanes.len(), self.port);
        self.turn = self.turn.wrapping_add(1);
        let mut done = 0;
        for lane in 0..lanes {
            let LandedLane { sender, slots } = &mut self.lanes[(self.turn + lane) % lanes];
            for _ in 0..most {
                let Some(bytes) = slots.next() else { break };
                take(Datagram { bytes, sender: *sender, port, time });
                done += 1;
            }
        }
        done
    }

    fn wait(&self, timeout: Duration) -> bool {
        std::thread::sleep(timeout.min(NAP));
        !self.lanes.iter().all(|lane| lane.slots.is_over())
    }
}

/// A ring of records.
pub(crate) trait RecordRing {
    /// Returns the next record, if any.
    fn next(&mut self) -> Result<Option<&[u8]>, Broken>;
    /// Waits for a record, at most `timeout`.
    fn wait(&mut self, timeout: Duration);
}

/// The end of a ring on shared memory, for the thread that looks after its connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingFate(Arc<[AtomicU64; 2]>);

impl RingFate {
    fn set(&self, counters: &PushCounters) {
        self.0[0].store(counters.died, Ordering::Relaxed);
        self.0[1].store(counters.broken, Ordering::Relaxed);
    }

    /// Returns the number of producers that died before they closed it.
    pub fn producers_died(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Returns 1 if a producer broke it.
    pub fn broken(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

/// A push ring on shared memory.
pub(crate) struct SharedRing {
    ring: PushConsumer,
    /// The record that is being read.
    copy: Vec<u8>,
    fate: RingFate,
}

impl SharedRing {
    /// Reads from `ring`, and reports its end in the fate.
    pub fn new(ring: PushConsumer) -> (SharedRing, RingFate) {
        let fate = RingFate::default();
        (SharedRing { ring, copy: Vec::new(), fate: fate.clone() }, fate)
    }
}

impl RecordRing for SharedRing {
    fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        let ended = match self.ring.next() {
            Ok(None) => return Ok(None),
            Ok(Some(record)) => {
                record.copy_to(&mut self.copy);
                return Ok(Some(&self.copy));
            }
            Err(ended) => ended,
        };
        self.fate.set(self.ring.counters());
        match ended {
            NextError::Gone => Ok(None), // another producer may come
            NextError::Broken(broken) => Err(broken),
        }
    }

    fn wait(&mut self, timeout: Duration) {
        self.ring.wait(timeout);
    }
}

impl RecordRing for RingRecords {
    fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        Ok(RingRecords::next(self))
    }

    fn wait(&mut self, timeout: Duration) {
        if self.unread_bytes() == 0 {
            std::thread::sleep(timeout.min(NAP));
        }
    }
}

/// Records of another process, until the run is over.
pub(crate) struct Records<R> {
    ring: R,
    stop: Stop,
    ring_bytes: u64,
    /// Bytes that may still be read once the run is over. So the ring's content at that time is not
    /// lost, and a producer that never pauses does not keep the run from its end.
    left_bytes: Option<u64>,
    broken: bool,
}

impl<R: RecordRing> Records<R> {
    /// Reads a ring of `ring_bytes` until `stop` is over.
    pub fn new(ring: R, stop: Stop, ring_bytes: u64) -> Records<R> {
        Records { ring, stop, ring_bytes, left_bytes: None, broken: false }
    }

    fn read(
        &mut self,
        most: usize,
        time: Moment,
        mut take: impl FnMut(Datagram<'_>),
    ) -> Result<usize, Broken> {
        if self.left_bytes.is_none() && self.stop.is_over() {
            self.left_bytes = Some(self.ring_bytes);
        }
        for done in 0..most {
            if self.left_bytes == Some(0) || self.broken {
                return Ok(done);
            }
            let next = self.ring.next().inspect_err(|_| self.broken = true)?;
            let Some(bytes) = next else {
                if self.left_bytes.is_some() {
                    self.left_bytes = Some(0);
                }
                return Ok(done);
            };
            let record_bytes = 8 + bytes.len() as u64;
            take(Datagram { bytes, sender: SenderAddress::NONE, port: 0, time });
            if let Some(left) = &mut self.left_bytes {
                *left = left.saturating_sub(record_bytes);
            }
        }
        Ok(most)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let is_over = self.broken || self.left_bytes == Some(0);
        if !is_over && !timeout.is_zero() {
            self.ring.wait(timeout);
        }
        !is_over
    }
}
