//! The receiving thread of a trial.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fluxline::pin::{allowed_cores, repin_current_thread};
use fluxline::ring::{Consumer, Producer, RingConfig, SLOT_BYTES_ANY, ring};
use fluxline::udp::{BareReceiver, ReceiverConfig, UdpReceiver, WhenEmpty};

use super::arrivals::Arrivals;
use super::cpu;
use super::message::{ReceivePlan, Received, Receiving};
use super::past::Past;

/// The pause of a receiver without datagrams: Fluxline's own default.
const NAP: Duration = Duration::from_micros(50);
/// The time between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(20);
/// Slots between the socket and the tally, in one thread: two batches, which stay in the cache.
const SLOTS: usize = 128;

/// The smallest number of frames of a call past the kernel if more wait. Source: `benches/xdp`,
/// which polls in the same way.
const FULL_BATCH: usize = 64;

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
    socket: Either,
    warnings: Vec<String>,
}

enum Either {
    Fluxline(Box<UdpReceiver>, Producer, Consumer),
    Bare(BareReceiver),
    Past(Box<Past>),
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
        let gro = plan.path.receiving == Receiving::Gro;
        let said = |error: &dyn std::error::Error| error.to_string();
        let socket = if plan.path.receiving == Receiving::Xdp {
            Either::Past(Box::new(Past::open(address)?))
        } else if plan.path.bare {
            let bare = BareReceiver::bind(address, plan.buffer_bytes, gro);
            Either::Bare(bare.map_err(|error| said(&error))?)
        } else {
            let mut config = ReceiverConfig::new(address);
            config.gro = gro;
            config.buffer_bytes = plan.buffer_bytes;
            config.when_empty = match plan.path.receiving {
                Receiving::Blocking => WhenEmpty::Block,
                Receiving::Napping | Receiving::Gro | Receiving::Xdp => WhenEmpty::Nap(NAP),
            };
            let receiver = UdpReceiver::bind(config).map_err(|error| said(&error))?;
            warnings.extend(receiver.buffer().warning());
            let slots = RingConfig { slots: SLOTS, slot_bytes: SLOT_BYTES_ANY };
            let (producer, consumer) = ring(&slots).map_err(|error| said(&error))?;
            Either::Fluxline(Box::new(receiver), producer, consumer)
        };
        Ok(Collector { plan, socket, warnings })
    }

    /// Returns the socket's address, and a warning for each setting that was refused.
    #[must_use]
    pub fn opened(&self) -> (Option<SocketAddr>, Vec<String>) {
        let address = match &self.socket {
            Either::Fluxline(receiver, ..) => receiver.local_addresses().next(),
            Either::Bare(receiver) => Some(receiver.local_address()),
            Either::Past(past) => Some(past.address()),
        };
        (address, self.warnings.clone())
    }

    /// Receives until it is asked to stop. Errors: the kernel's, in a sentence.
    pub fn run(self, progress: &Progress) -> Result<Received, String> {
        let plan = self.plan;
        let mut log = Log {
            arrivals: Arrivals::new(plan.trial, plan.datagram_bytes as usize, plan.senders),
            first: None,
            last: Instant::now(),
            progress,
        };
        let before = cpu::read_thread();
        let counted = match self.socket {
            Either::Fluxline(receiver, producer, consumer) => {
                by_fluxline(*receiver, producer, consumer, &mut log)?
            }
            Either::Past(past) => by_past(*past, &mut log),
            Either::Bare(receiver) => by_bare(receiver, plan.path.receiving, &mut log)
                .map_err(|error| format!("receiving failed: {error}"))?,
        };
        let seconds = log.first.map_or(0.0, |first| log.last.duration_since(first).as_secs_f64());
        Ok(Received {
            tally: log.arrivals.tally(),
            seconds,
            thread: cpu::read_thread().since(&before),
            affinity: allowed_cores(),
            ..counted
        })
    }
}

/// The arrivals so far, and the times of the first and the last.
struct Log<'a> {
    arrivals: Arrivals,
    first: Option<Instant>,
    last: Instant,
    progress: &'a Progress,
}

impl Log<'_> {
    fn stopped(&self) -> bool {
        self.progress.stop.load(Ordering::Relaxed)
    }

    /// Counts a batch.
    fn note(&mut self) {
        self.last = Instant::now();
        self.first.get_or_insert(self.last);
        self.progress.arrived.store(self.arrivals.tally().unique, Ordering::Relaxed);
    }
}

fn by_fluxline(
    mut receiver: UdpReceiver,
    mut producer: Producer,
    mut consumer: Consumer,
    log: &mut Log<'_>,
) -> Result<Received, String> {
    while !log.stopped() {
        receiver.receive_into(&mut producer, TICK).map_err(|error| error.to_string())?;
        let filled = consumer.peek();
        let count = filled.len();
        for slot in filled {
            slot.datagrams().for_each(|datagram| log.arrivals.take(datagram.bytes));
        }
        consumer.release(count);
        if count > 0 {
            log.note();
        }
    }
    let counters = receiver.counters();
    let (calls, socket_drops) = (counters.calls, counters.socket_drops);
    Ok(Received { calls, socket_drops, ..Received::default() })
}

fn by_bare(
    mut receiver: BareReceiver,
    receiving: Receiving,
    log: &mut Log<'_>,
) -> io::Result<Received> {
    let naps = receiving != Receiving::Blocking;
    let mut calls = 0;
    while !log.stopped() {
        let count = receiver.receive()?;
        for index in 0..count {
            receiver.datagrams(index).for_each(|datagram| log.arrivals.take(datagram));
        }
        if count > 0 {
            calls += 1;
            log.note();
        }
        if count < receiver.batch() {
            let came = count > 0 || receiver.wait(TICK)?;
            if naps && came {
                std::thread::sleep(NAP);
            }
        }
    }
    Ok(Received { calls, socket_drops: receiver.drops()?.into(), ..Received::default() })
}

fn by_past(mut past: Past, log: &mut Log<'_>) -> Received {
    let mut calls = 0;
    while !log.stopped() {
        let count = past.receive(&mut |datagram| log.arrivals.take(datagram));
        if count > 0 {
            calls += 1;
            log.note();
        }
        // A batch that is not full has fetched all.
        if count < FULL_BATCH {
            past.wait(if count > 0 { Duration::ZERO } else { TICK });
            std::thread::sleep(NAP);
        }
    }
    let places = vec![("AF_XDP rings".to_owned(), past.dropped())];
    Received { calls, places, ..Received::default() }
}
