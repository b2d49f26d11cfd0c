//! The receiving thread of a trial.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fluxline::pin::repin_current_thread;
use fluxline::ring::{Consumer, Producer, RingConfig, SLOT_BYTES_ANY, ring};
use fluxline::udp::{ReceiverConfig, UdpReceiver, WhenEmpty};

use super::arrivals::Arrivals;
use super::cpu;
use super::message::{ReceivePlan, Received, Receiving};

/// The pause of a receiver without datagrams: Fluxline's own default.
const NAP: Duration = Duration::from_micros(50);
/// The time between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(20);
/// Slots between the socket and the tally, in one thread: two batches, which stay in the cache.
const SLOTS: usize = 128;

/// State that the thread and its owner share.
#[derive(Debug, Default)]
pub struct Progress {
    /// Stop as soon as possible.
    pub stop: AtomicBool,
    /// Datagrams of the trial so far.
    pub arrived: AtomicU64,
}

/// An open socket that is not read yet.
pub struct Collector {
    plan: ReceivePlan,
    receiver: UdpReceiver,
    producer: Producer,
    consumer: Consumer,
    warnings: Vec<String>,
}

impl Collector {
    /// Pins the calling thread if a core is given, and binds the socket.
    ///
    /// Errors: a sentence.
    pub fn open(plan: ReceivePlan, address: SocketAddr) -> Result<Collector, String> {
        let mut warnings = Vec::new();
        if let Some(core) = plan.core {
            warnings.extend(repin_current_thread(core).err().map(|error| error.to_string()));
        }
        let mut config = ReceiverConfig::new(address);
        config.gro = plan.path.receiving == Receiving::Gro;
        config.buffer_bytes = plan.buffer_bytes;
        config.when_empty = match plan.path.receiving {
            Receiving::Blocking => WhenEmpty::Block,
            Receiving::Napping | Receiving::Gro => WhenEmpty::Nap(NAP),
        };
        let receiver = UdpReceiver::bind(config).map_err(|error| error.to_string())?;
        warnings.extend(receiver.buffer().warning());
        let slots = RingConfig { slots: SLOTS, slot_bytes: SLOT_BYTES_ANY };
        let (producer, consumer) = ring(&slots).map_err(|error| error.to_string())?;
        Ok(Collector { plan, receiver, producer, consumer, warnings })
    }

    /// Returns the socket's address, and a warning for each setting that was refused.
    #[must_use]
    pub fn opened(&self) -> (Option<SocketAddr>, Vec<String>) {
        (self.receiver.local_addresses().next(), self.warnings.clone())
    }

    /// Receives until it is asked to stop. Errors: the kernel's, in a sentence.
    pub fn run(mut self, progress: &Progress) -> Result<Received, String> {
        let plan = self.plan;
        let mut arrivals = Arrivals::new(plan.trial, plan.datagram_bytes as usize, plan.senders);
        let (mut first, mut last) = (None, Instant::now());
        let before_s = cpu::read_thread();
        while !progress.stop.load(Ordering::Relaxed) {
            let received = self.receiver.receive_into(&mut self.producer, TICK);
            received.map_err(|error| error.to_string())?;
            let filled = self.consumer.peek();
            let count = filled.len();
            for slot in filled {
                slot.datagrams().for_each(|datagram| arrivals.take(datagram.bytes));
            }
            self.consumer.release(count);
            if count > 0 {
                last = Instant::now();
                first.get_or_insert(last);
                progress.arrived.store(arrivals.tally().unique, Ordering::Relaxed);
            }
        }
        Ok(Received {
            tally: arrivals.tally(),
            seconds: first.map_or(0.0, |first| last.duration_since(first).as_secs_f64()),
            socket_drops: self.receiver.counters().socket_drops,
            thread_s: cpu::read_thread() - before_s,
            ..Received::default()
        })
    }
}
