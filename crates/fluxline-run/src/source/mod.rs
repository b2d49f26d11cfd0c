//! Sources: each is opened in the caller's thread, where errors can be returned, and then fills its
//! ring in a thread of its own.

mod end;
pub(crate) mod file;
mod paced;
pub(crate) mod program;
mod push;
mod retries;
mod roce;
mod roce_push;
pub(crate) mod sensors;
pub(crate) mod sensors_roce;
mod shared;
pub mod truth;
mod udp;
mod window;

use std::thread::JoinHandle;

use fluxline::pin;
use fluxline::ring::{Consumer, Producer, RingConfig, ring};
use fluxline_daq::experiment::{EmulatorLink, Source};
use fluxline_daq::formats::LoadedFormat;

use crate::error::Error;
use crate::limits::ExpectedTraffic;
use crate::monitor::{Monitor, PublishedInput};
use crate::ring::InputRing;
use crate::stop::Stop;

pub(crate) use end::InputEnd;
use program::FeedHandle;
use sensors::Sensors;

/// Fills a ring, or serves the peers that fill it.
pub(crate) trait Feed: Send {
    /// Works until the source has ended or the run is over.
    fn run(self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd;
}

/// An input that is open and not yet started.
pub(crate) struct OpenInput {
    /// The source's name in the experiment.
    pub name: String,
    /// Memory of its ring \[byte\].
    pub ring_bytes: u64,
    /// Addresses or the URL that senders reach it by.
    pub listens: Vec<String>,
    /// Warnings before the run, such as a socket buffer that is smaller than asked.
    pub warnings: Vec<String>,
    /// A key that was drawn for this run, for its producer alone.
    pub drawn_key: Option<u64>,
    /// The configured traffic; zero where it is not known.
    pub expected: ExpectedTraffic,
    /// The end for the program that fills it.
    pub feeder: Option<FeedHandle>,
    core: Option<usize>,
    ring: InputRing,
    feed: Box<dyn Feed>,
}

/// The part of an input that a thread runs.
pub(crate) struct InputThread {
    core: Option<usize>,
    feed: Box<dyn Feed>,
}

/// Opens a source.
pub(crate) fn open(source: &Source, format: &LoadedFormat) -> Result<OpenInput, Error> {
    if let Some(udp) = &source.udp {
        return udp::open(source, udp);
    }
    if let Some(shm) = &source.shm {
        return shared::open(source, shm);
    }
    if let Some(roce) = &source.roce {
        return match &roce.push {
            Some(push) => roce_push::open(source, roce, push),
            None => roce::open(source, roce),
        };
    }
    if let Some(program) = &source.program {
        return program::open(source, program);
    }
    if let Some(emulator) = &source.emulator {
        let sensors = Sensors::new(&source.name, emulator, format)?;
        return match emulator.link {
            EmulatorLink::Direct => sensors::open_direct(source, sensors),
            EmulatorLink::Udp => udp::open_loopback(source, sensors),
        };
    }
    file::open(source)
}

/// Makes the ring of a source that a thread of this process fills.
fn new_ring(source: &Source, slot_bytes: usize) -> Result<(RingConfig, Producer, Consumer), Error> {
    let config = RingConfig { slots: source.ring_slots as usize, slot_bytes };
    let (producer, consumer) = ring(&config)
        .map_err(|error| Error::failed(format_args!("source `{}`: {error}.", source.name)))?;
    Ok((config, producer, consumer))
}

impl OpenInput {
    /// Returns an input without addresses, with a ring of `ring_bytes`.
    fn new(
        source: &Source,
        ring: InputRing,
        ring_bytes: u64,
        feed: impl Feed + 'static,
    ) -> OpenInput {
        OpenInput {
            name: source.name.clone(),
            ring_bytes,
            listens: Vec::new(),
            warnings: Vec::new(),
            drawn_key: None,
            expected: ExpectedTraffic::default(),
            feeder: None,
            core: source.core,
            ring,
            feed: Box::new(feed),
        }
    }

    /// Separates the readout's end from the thread's.
    pub fn split(self) -> (InputRing, InputThread) {
        (self.ring, InputThread { core: self.core, feed: self.feed })
    }
}

impl InputThread {
    /// Starts the thread.
    pub fn start(self, stop: Stop, monitor: Monitor) -> JoinHandle<InputEnd> {
        std::thread::spawn(move || {
            if let Some(core) = self.core {
                monitor.note(pin::pin_current_thread(core).err());
            }
            let end = self.feed.run(&stop, &monitor);
            // Other inputs have no counters of their own: the readout's are theirs.
            if end.receiver.is_some() {
                let (counters, remote) = (end.counters.clone(), end.remote.clone());
                monitor.publish_input_end(PublishedInput { counters, remote });
            }
            end
        })
    }
}
