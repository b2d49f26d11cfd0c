//! The senders of a trial: they send unpaced, or busy-wait between small batches.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use fluxline::pin::repin_current_thread;
use fluxline::udp::{SenderConfig, UdpSender};

use super::arrivals::{STAMP_BYTES, Stamp};
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
#[derive(Clone, Debug)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// The time that it sent \[s\].
    pub seconds: f64,
    /// The longest delay of a batch \[ns\].
    pub late_most_ns: u64,
}

/// Runs all senders of a plan, a thread each, which begin together. `begin` is called when all are
/// ready, just before they begin.
///
/// Errors: outside those of `begin`; inside a sentence of a sender, after all have ended: no
/// socket, no such core.
pub fn run<E>(
    plan: &SendPlan,
    begin: impl FnOnce() -> Result<(), E>,
) -> Result<Result<Vec<Sent>, String>, E> {
    let gates = [Barrier::new(plan.cores.len() + 1), Barrier::new(plan.cores.len() + 1)];
    std::thread::scope(|scope| {
        let start = |index: usize| {
            let gates = &gates;
            scope.spawn(move || {
                let opened = Sender::open(plan, index);
                // Also when it failed: the others wait.
                for gate in gates {
                    gate.wait();
                }
                opened?.send()
            })
        };
        let threads: Vec<_> = (0..plan.cores.len()).map(start).collect();
        gates[0].wait();
        let begun = begin();
        gates[1].wait();
        let sent = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let sent = sent.collect();
        begun.map(|()| sent)
    })
}

/// A pinned sender with an open socket, and a batch of datagrams.
struct Sender<'a> {
    plan: &'a SendPlan,
    link: UdpSender,
    room: Vec<u8>,
    stamp: Stamp,
}

impl Sender<'_> {
    /// Pins the calling thread to that sender's core, and opens its socket.
    ///
    /// Errors: a sentence.
    fn open(plan: &SendPlan, index: usize) -> Result<Sender<'_>, String> {
        let bytes = plan.datagram_bytes;
        if !(STAMP_BYTES..=DATAGRAM_BYTES_MAX as usize).contains(&bytes) {
            return Err(format!("datagrams of {bytes} byte cannot be sent, or not stamped"));
        }
        if let Some(core) = plan.cores[index] {
            repin_current_thread(core).map_err(|error| error.to_string())?;
        }
        let (datagrams, messages) = plan.batch();
        let mut config = SenderConfig::new(plan.destination);
        config.segmentation = plan.path.sending == Sending::Trains;
        config.patience = PATIENCE;
        let link = UdpSender::open(config).map_err(|error| error.to_string())?;
        let sender = u32::try_from(index).unwrap_or(u32::MAX);
        let stamp = Stamp { trial: plan.trial, sender, number: 0 };
        Ok(Sender { plan, link, room: vec![1; datagrams * messages * bytes], stamp })
    }

    /// Sends until the plan's time has passed. Errors: a sentence.
    fn send(&mut self) -> Result<Sent, String> {
        let plan = self.plan;
        let share = plan.rate.map_or(0.0, |rate| rate / plan.cores.len() as f64);
        let mut schedule = Schedule::new(share, self.room.len() / plan.datagram_bytes);
        let start = Instant::now();
        while start.elapsed() < plan.duration {
            let now_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if schedule.take(now_ns) {
                self.send_batch()?;
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(Sent {
            datagrams: self.stamp.number,
            seconds: start.elapsed().as_secs_f64(),
            late_most_ns: schedule.late_most_ns(),
        })
    }

    fn send_batch(&mut self) -> Result<(), String> {
        let bytes = self.plan.datagram_bytes;
        for (index, datagram) in self.room.chunks_exact_mut(bytes).enumerate() {
            let number = self.stamp.number + index as u64;
            datagram[..STAMP_BYTES].copy_from_slice(&Stamp { number, ..self.stamp }.emit());
        }
        let mut batch = [[].as_slice(); BATCH_MAX];
        let mut count = 0;
        for (slice, datagram) in batch.iter_mut().zip(self.room.chunks_exact(bytes)) {
            *slice = datagram;
            count += 1;
        }
        // What was not taken is stamped anew: numbers have no gaps but lost datagrams.
        let sent = self.link.send(&batch[..count]).map_err(|error| error.to_string())?;
        self.stamp.number += sent.accepted as u64;
        Ok(())
    }
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

    #[test]
    fn a_sender_that_cannot_begin_says_so_and_holds_nobody_up() {
        let mut plan = plan(Sending::Single, Some(1_000.0));
        assert_eq!(run(&plan, || Err::<(), &str>("no")).unwrap_err(), "no");
        plan.cores[1] = Some(100_000);
        let why = run(&plan, || Ok::<(), ()>(())).unwrap().unwrap_err();
        assert!(why.contains("100000"), "{why}");
    }
}
