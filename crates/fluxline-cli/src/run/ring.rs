//! What the readout reads: slots that a thread of this program fills, records that another process
//! pushes, or slots that a peer on Ethernet writes. All are read in place.

use std::time::Duration;

use fluxline::landing::{RingRecords, SlotReader};
use fluxline::push::{Broken, PushConsumer};
use fluxline::ring::{Consumer, Waited};
use fluxline_proto::{Datagram, Moment, SenderAddress};

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
    Records(Records),
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

impl RecordRing {
    fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        match self {
            RecordRing::Shared(ring) => ring.next(),
            RecordRing::Remote(ring) => ring.next(),
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
}

impl Records {
    /// A ring of so many bytes, read until `stop` is over.
    pub fn new(ring: RecordRing, stop: Stop, ring_bytes: u64) -> Records {
        Records { ring, stop, ring_bytes, left_bytes: None, broken: false }
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
            let next = self.ring.next().inspect_err(|_| self.broken = true)?;
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
