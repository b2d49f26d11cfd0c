//! A sender of a trial: it sends unpaced, or busy-waits between small batches.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::pin::{allowed_cores, repin_current_thread};
use fluxline::udp::{BareSender, SenderConfig, UdpSender};
use serde::{Deserialize, Serialize};

use super::arrivals::{STAMP_BYTES, Stamp};
use super::cpu::{self, ThreadTime};
use super::far::DATAGRAM_BYTES_MAX;
use super::message::{Path, Sending};
use super::pace::Schedule;

/// Messages of a system call, single datagrams. Source: as Fluxline's sender.
const BATCH: usize = 64;
/// Datagrams of a train at most. Source: UDP_MAX_SEGMENTS of <linux/udp.h> before 6.10.
const TRAIN_MAX: usize = 64;
/// Trains of a system call: 256 KiB, which stay in the cache, as in the bench `udp_port`.
const TRAINS: usize = 4;
/// The time of a paced batch \[s\]: too short to fill a receive buffer, and several times the cost
/// of a system call. (assumed)
const BATCH_SECONDS: f64 = 20e-6;
/// An unpaced sender reads the clock after each batch.
const BATCH_MAX: usize = TRAINS * TRAIN_MAX;
/// A sender whose datagrams the kernel does not take for this time gives up.
const PATIENCE: Duration = Duration::from_millis(500);

/// The plan of a sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendPlan {
    /// The receiver's address.
    pub destination: SocketAddr,
    /// The number in the stamps.
    pub trial: u32,
    /// The way.
    pub path: Path,
    /// UDP payload of each datagram \[byte\].
    pub datagram_bytes: usize,
    /// The core of each sender; `None`: not pinned.
    pub cores: Vec<Option<usize>>,
    /// Datagrams per second of all senders together; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// The time that it sends.
    pub duration: Duration,
}

/// Datagrams of a train of that size.
#[must_use]
pub fn train(datagram_bytes: usize) -> usize {
    (DATAGRAM_BYTES_MAX as usize / datagram_bytes.max(1)).clamp(1, TRAIN_MAX)
}

impl SendPlan {
    /// Datagrams of a message, and messages of a batch.
    fn batch(&self) -> (usize, usize) {
        let share = self.rate.map(|rate| rate / self.cores.len().max(1) as f64);
        match (self.path.sending, share) {
            (Sending::Single, None) => (1, BATCH),
            (Sending::Single, Some(rate)) => (1, ((rate * BATCH_SECONDS) as usize).clamp(1, BATCH)),
            (Sending::Trains, None) => (train(self.datagram_bytes), TRAINS),
            // A train is one burst; fewer than one cannot be sent.
            (Sending::Trains, Some(_)) => (train(self.datagram_bytes), 1),
        }
    }
}

/// The result of one sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// The time that it sent \[s\].
    pub seconds: f64,
    /// Times that the device's queue or the send buffer was full.
    pub waits: u64,
    /// The longest delay of a batch \[ns\].
    pub late_most_ns: u64,
    /// The thread's time.
    pub thread: ThreadTime,
    /// The time of its start \[ns since 1970\].
    pub began_ns: u64,
    /// The cores that it was allowed while it sent.
    pub cores: Vec<usize>,
    /// Its process, if it is one of its own.
    pub process: Option<u32>,
}

/// A pinned sender with an open socket.
pub(super) struct Sender<'a> {
    plan: &'a SendPlan,
    link: Either,
    stamp: Stamp,
}

impl Sender<'_> {
    /// Pins the calling thread to that sender's core, and opens its socket.
    ///
    /// Errors: a sentence.
    pub(super) fn open(plan: &SendPlan, index: usize) -> Result<Sender<'_>, String> {
        let bytes = plan.datagram_bytes;
        if !(STAMP_BYTES..=DATAGRAM_BYTES_MAX as usize).contains(&bytes) {
            return Err(format!("datagrams of {bytes} byte cannot be sent, or not stamped"));
        }
        let core = plan.cores.get(index).ok_or_else(|| format!("unknown sender {index}"))?;
        let sender = u32::try_from(index).unwrap_or(u32::MAX);
        let stamp = Stamp { trial: plan.trial, sender, number: 0 };
        Ok(Sender { plan, link: open(plan, *core)?, stamp })
    }

    /// Sends for the plan's time. Errors: a sentence.
    pub(super) fn send(&mut self) -> Result<Sent, String> {
        let (began_ns, cores) = (clock::now().as_ns(), allowed_cores());
        let sent = match &mut self.link {
            Either::Fluxline(link) => stream(self.plan, link, self.stamp),
            Either::Bare(link) => stream(self.plan, link, self.stamp),
        };
        Ok(Sent { began_ns, cores, ..sent? })
    }
}

fn open(plan: &SendPlan, core: Option<usize>) -> Result<Either, String> {
    if let Some(core) = core {
        repin_current_thread(core).map_err(|error| error.to_string())?;
    }
    let (datagrams, messages) = plan.batch();
    if plan.path.bare {
        let bare = BareSender::open(plan.destination, plan.datagram_bytes, datagrams, messages);
        return Ok(Either::Bare(bare.map_err(|error| error.to_string())?));
    }
    let mut config = SenderConfig::new(plan.destination);
    config.segmentation = plan.path.sending == Sending::Trains;
    config.patience = PATIENCE;
    let sender = UdpSender::open(config).map_err(|error| error.to_string())?;
    let room = vec![1; datagrams * messages * plan.datagram_bytes];
    Ok(Either::Fluxline(Fluxline { sender, room, datagram_bytes: plan.datagram_bytes }))
}

enum Either {
    Fluxline(Fluxline),
    Bare(BareSender),
}

/// A batch of datagrams that can be stamped and sent.
trait Link {
    /// Datagrams of the batch.
    fn datagrams(&self) -> usize;
    /// Stamps a datagram of the batch.
    fn stamp(&mut self, index: usize, stamp: [u8; STAMP_BYTES]);
    /// Sends the batch; returns how many datagrams the kernel took, the first ones.
    fn send(&mut self) -> Result<usize, String>;
    /// Times that it had to wait for room.
    fn waits(&self) -> u64;
}

struct Fluxline {
    sender: UdpSender,
    room: Vec<u8>,
    datagram_bytes: usize,
}

impl Link for Fluxline {
    fn datagrams(&self) -> usize {
        self.room.len() / self.datagram_bytes
    }

    fn stamp(&mut self, index: usize, stamp: [u8; STAMP_BYTES]) {
        let at = index * self.datagram_bytes;
        self.room[at..at + STAMP_BYTES].copy_from_slice(&stamp);
    }

    fn send(&mut self) -> Result<usize, String> {
        let mut batch = [[].as_slice(); BATCH_MAX];
        let mut count = 0;
        for (slice, datagram) in batch.iter_mut().zip(self.room.chunks_exact(self.datagram_bytes)) {
            *slice = datagram;
            count += 1;
        }
        let sent = self.sender.send(&batch[..count]);
        Ok(sent.map_err(|error| error.to_string())?.accepted)
    }

    fn waits(&self) -> u64 {
        self.sender.counters().buffer_full + self.sender.counters().queue_full
    }
}

impl Link for BareSender {
    fn datagrams(&self) -> usize {
        BareSender::datagrams(self)
    }

    fn stamp(&mut self, index: usize, stamp: [u8; STAMP_BYTES]) {
        self.write(index, &stamp);
    }

    fn send(&mut self) -> Result<usize, String> {
        let all = BareSender::datagrams(self);
        match BareSender::send(self, all) {
            Ok(sent) => Ok(sent),
            // A full queue, or a closed port's answer to an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
            Err(error) => Err(format!("the bare loop's sending failed: {error}")),
        }
    }

    fn waits(&self) -> u64 {
        0
    }
}

/// Sends until the time has passed.
fn stream(plan: &SendPlan, link: &mut impl Link, mut stamp: Stamp) -> Result<Sent, String> {
    let share = plan.rate.map_or(0.0, |rate| rate / plan.cores.len() as f64);
    let mut schedule = Schedule::new(share, link.datagrams());
    let end_ns = u64::try_from(plan.duration.as_nanos()).unwrap_or(u64::MAX);
    let (before, start) = (cpu::read_thread(), Instant::now());
    let now_ns = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut now = 0;
    while now < end_ns {
        if schedule.take(now) {
            for index in 0..link.datagrams() {
                let number = stamp.number + index as u64;
                link.stamp(index, Stamp { number, ..stamp }.emit());
            }
            // What was not taken is stamped anew: numbers have no gaps but lost datagrams.
            stamp.number += link.send()? as u64;
        } else {
            std::hint::spin_loop();
        }
        now = now_ns();
    }
    Ok(Sent {
        datagrams: stamp.number,
        seconds: start.elapsed().as_secs_f64(),
        waits: link.waits(),
        late_most_ns: schedule.late_most_ns(),
        thread: cpu::read_thread().since(&before),
        ..Sent::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::message::Receiving;

    fn plan(sending: Sending, rate: Option<f64>) -> SendPlan {
        SendPlan {
            destination: ([127, 0, 0, 1], 9).into(),
            trial: 1,
            path: Path::new(sending, Receiving::Gro),
            datagram_bytes: 1_472,
            cores: vec![None, None],
            rate,
            duration: Duration::from_millis(10),
        }
    }

    #[test]
    fn paced_batches_are_small_and_trains_are_never_cut() {
        assert_eq!(plan(Sending::Single, None).batch(), (1, 64));
        assert_eq!(plan(Sending::Single, Some(1_000_000.0)).batch(), (1, 10));
        assert_eq!(plan(Sending::Single, Some(5.0)).batch(), (1, 1));
        assert_eq!(plan(Sending::Trains, None).batch(), (44, 4));
        assert_eq!(plan(Sending::Trains, Some(5.0)).batch(), (44, 1));
        assert_eq!([64, 1_472, 8_972, 65_507].map(train), [64, 44, 7, 1]);
    }
}
