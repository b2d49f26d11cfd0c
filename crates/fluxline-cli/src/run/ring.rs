//! What the readout reads: slots that a thread of this program fills, or records that another
//! process pushes into shared memory. Both are read in place.

use std::time::Duration;

use fluxline::push::{Broken, PushConsumer};
use fluxline::ring::{Consumer, Waited};
use fluxline_proto::{Datagram, Moment, SenderAddress};

use super::stop::Stop;

/// One input's ring.
pub enum Ring {
    /// Slots of this process.
    Slots(Consumer),
    /// Records of another.
    Records(Records),
}

/// Records of another process, until the run is over.
pub struct Records {
    consumer: PushConsumer,
    stop: Stop,
    ring_bytes: u64,
    /// When the run is over: how much may still be read. What was in the ring then is not lost,
    /// and a producer that never pauses does not keep the run from its end.
    left_bytes: Option<u64>,
    broken: bool,
}

impl Records {
    /// A ring of so many bytes, read until `stop` is over.
    pub fn new(consumer: PushConsumer, stop: Stop, ring_bytes: u64) -> Records {
        Records { consumer, stop, ring_bytes, left_bytes: None, broken: false }
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
            let next = self.consumer.next().inspect_err(|_| self.broken = true)?;
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

impl Ring {
    /// Waits for data, at most `timeout`; whether more may come.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        match self {
            Ring::Slots(ring) => ring.wait(timeout) != Waited::Closed,
            Ring::Records(records) if records.is_over() => false,
            Ring::Records(records) => {
                if !timeout.is_zero() {
                    records.consumer.wait(timeout);
                }
                true
            }
        }
    }
}
