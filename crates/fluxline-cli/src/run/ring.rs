//! What the readout reads: slots that a thread of this program fills, records that another process
//! pushes, or slots that a peer on Ethernet writes. All are read in place, but for those that
//! another process can still write: these are copied out first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fluxline::landing::{RingRecords, SlotReader};
use fluxline::push::{Broken, NextError, PushConsumer, PushCounters};
use fluxline::ring::{Consumer, Waited};
use fluxline_core::{Datagram, Moment, SenderAddress};

use super::held::HeldRing;
use super::stop::Stop;

/// How long slots that a peer writes are left alone when they are empty.
const NAP: Duration = Duration::from_micros(100);

/// One input's ring.
pub enum Ring {
    /// Of an input that goes on whether it is read or not.
    Live(LiveRing),
    /// Of an input that can wait.
    Held(HeldRing),
}

/// The ring of a live input.
pub enum LiveRing {
    /// Slots of this process.
    Slots(Consumer),
    /// Records of another.
    Records(Box<Records>),
    /// Slots that peers write.
    Landed(Landed),
}

/// The ring that records of another process lie in.
pub enum RecordRing {
    /// On shared memory.
    Shared(PushConsumer),
    /// Filled over Ethernet.
    Remote(RingRecords),
}

/// What a ring on shared memory has come to, for the thread that looks after its connections.
#[derive(Clone, Debug, Default)]
pub struct RingFate(Arc<[AtomicU64; 2]>);

impl RingFate {
    fn set(&self, counters: &PushCounters) {
        self.0[0].store(counters.died, Ordering::Relaxed);
        self.0[1].store(counters.broken, Ordering::Relaxed);
    }

    /// Producers that died before they closed it.
    pub fn producers_died(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// 1 if a producer broke it.
    pub fn broken(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

impl RecordRing {
    /// The next record, in place or in `copy`; `None`: there is none now.
    fn next<'a>(
        &'a mut self,
        copy: &'a mut Vec<u8>,
        fate: &RingFate,
    ) -> Result<Option<&'a [u8]>, Broken> {
        let ring = match self {
            RecordRing::Shared(ring) => ring,
            RecordRing::Remote(ring) => return Ok(ring.next()),
        };
        let ended = match ring.next() {
            Ok(None) => return Ok(None),
            Ok(Some(record)) => {
                record.copy_to(copy);
                return Ok(Some(copy));
            }
            Err(ended) => ended,
        };
        fate.set(ring.counters());
        match ended {
            NextError::Gone => Ok(None), // another producer may come
            NextError::Broken(broken) => Err(broken),
        }
    }

    fn wait(&mut self, timeout: Duration) {
        match self {
            RecordRing::Shared(ring) => ring.wait(timeout),
            RecordRing::Remote(ring) if ring.unread_bytes() == 0 => {
                std::thread::sleep(timeout.min(NAP));
            }
            RecordRing::Remote(_) => {}
        }
    }
}

/// Slots that peers write, a region each; read until the thread that announces them ends.
pub struct Landed {
    lanes: Vec<(SenderAddress, SlotReader)>,
    port: u16,
    turn: usize,
}

impl Landed {
    /// Regions with the addresses that write them, and the port that they came to.
    pub fn new(lanes: Vec<(SenderAddress, SlotReader)>, port: u16) -> Landed {
        Landed { lanes, port, turn: 0 }
    }

    /// Hands up to `count` records of each region to `take`; how many there were.
    pub fn read(
        &mut self,
        count: usize,
        time: Moment,
        mut take: impl FnMut(&Datagram<'_>),
    ) -> usize {
        let (lanes, port) = (self.lanes.len(), self.port);
        self.turn = self.turn.wrapping_add(1);
        let mut done = 0;
        for lane in 0..lanes {
            let (sender, reader) = &mut self.lanes[(self.turn + lane) % lanes];
            for _ in 0..count {
                let Some(bytes) = reader.next() else { break };
                take(&Datagram { bytes, sender: *sender, port, time });
                done += 1;
            }
        }
        done
    }
}

/// Records of another process, until the run is over.
pub struct Records {
    ring: RecordRing,
    stop: Stop,
    ring_bytes: u64,
    /// When the run is over: how much may still be read. What was in the ring then is not lost,
    /// and a producer that never pauses does not keep the run from its end.
    left_bytes: Option<u64>,
    broken: bool,
    /// The record that is being read, where it is not read in place.
    copy: Vec<u8>,
    fate: RingFate,
}

impl Records {
    /// A ring of so many bytes, read until `stop` is over.
    pub fn new(ring: RecordRing, stop: Stop, ring_bytes: u64) -> Records {
        let (copy, fate) = (Vec::new(), RingFate::default());
        Records { ring, stop, ring_bytes, left_bytes: None, broken: false, copy, fate }
    }

    /// What the ring has come to, now and later.
    pub fn fate(&self) -> RingFate {
        self.fate.clone()
    }

    /// Hands up to `count` records to `take`; how many there were.
    pub fn read(
        &mut self,
        count: usize,
        now: Moment,
        mut take: impl FnMut(&Datagram<'_>),
    ) -> Result<usize, Broken> {
        if self.left_bytes.is_none() && self.stop.is_over() {
            self.left_bytes = Some(self.ring_bytes);
        }
        for done in 0..count {
            if self.left_bytes == Some(0) || self.broken {
                return Ok(done);
            }
            let next = self.ring.next(&mut self.copy, &self.fate);
            let next = next.inspect_err(|_| self.broken = true)?;
            let Some(bytes) = next else {
                if self.left_bytes.is_some() {
                    self.left_bytes = Some(0);
                }
                return Ok(done);
            };
            take(&Datagram { bytes, sender: SenderAddress::NONE, port: 0, time: now });
            if let Some(left) = &mut self.left_bytes {
                *left = left.saturating_sub(8 + bytes.len() as u64);
            }
        }
        Ok(count)
    }

    fn is_over(&self) -> bool {
        self.broken || self.left_bytes == Some(0)
    }
}

impl LiveRing {
    /// Waits for data, at most `timeout`; whether more may come.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        match self {
            LiveRing::Slots(ring) => ring.wait(timeout) != Waited::Closed,
            LiveRing::Landed(landed) => {
                std::thread::sleep(timeout.min(NAP));
                !landed.lanes.iter().all(|(_, reader)| reader.is_over())
            }
            LiveRing::Records(records) if records.is_over() => false,
            LiveRing::Records(records) => {
                if !timeout.is_zero() {
                    records.ring.wait(timeout);
                }
                true
            }
        }
    }
}
