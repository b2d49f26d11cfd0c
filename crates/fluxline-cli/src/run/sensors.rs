//! Emulated sensors as a source: over real UDP sockets, or straight into the push ring.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::ring::Producer;
use fluxline::udp::{SenderConfig, UdpSender};
use fluxline_daq::emulator::{self, EmulatorConfig, SourceTruth};
use fluxline_daq::ledger::InputCounters;
use fluxline_proto::{Datagram, SenderAddress, Span};

use super::file;
use super::live::Live;
use super::stop::Stop;
use crate::experiment::{Emulator, Pattern};
use crate::failure::Failure;
use crate::formats::LoadedFormat;

/// Datagrams of all sensors that are gathered before they are sent together.
const BATCH_DATAGRAMS: usize = 64;
/// Datagrams that are due within this time go together.
const GATHER: Duration = Duration::from_micros(100);
/// Sensors with sockets of their own at most.
const SOCKETS_MAX: u32 = 4096;

/// Emulated sensors with the sockets that they send from.
pub struct Sensors {
    emulator: emulator::Emulator,
    outlets: Vec<Outlet>,
    train: bool,
}

/// One socket, and what is to be sent from it; the memory of sent datagrams is used again.
struct Outlet {
    sender: UdpSender,
    datagrams: Vec<Vec<u8>>,
    filled: usize,
}

/// What the sensors really sent: the truth that a ledger can be held against.
pub struct SensorsTruth {
    /// Per sensor.
    pub sources: Vec<SourceTruth>,
    /// Datagrams that the kernel did not take.
    pub not_sent: u64,
    /// The seed that makes the same again.
    pub seed: u64,
}

impl Sensors {
    /// Makes the sensors; a seed is drawn where the experiment gives none.
    pub fn new(name: &str, from: &Emulator, format: &LoadedFormat) -> Result<Sensors, Failure> {
        let faults = &from.faults;
        let config = EmulatorConfig {
            sources: from.sources,
            packet: from.packet.clone(),
            payload_bytes: from.payload_bytes,
            pattern: match from.pattern {
                Pattern::Counter => emulator::Pattern::Counter,
                Pattern::Noise => emulator::Pattern::Noise,
                Pattern::Zero => emulator::Pattern::Zero,
            },
            rate: from.rate,
            jitter: from.jitter,
            packets: from.packets,
            seed: from.seed.unwrap_or_else(|| clock::now().as_ns()),
            epoch_start: clock::now(),
            faults: emulator::Faults {
                drop: faults.drop,
                duplicate: faults.duplicate,
                reorder: faults.reorder,
                reorder_distance: if faults.reorder_distance == 0 { 4 } else { faults.reorder_distance },
                corrupt: faults.corrupt,
                stall: faults.stall,
                stall_time: Span::from_ms(faults.stall_ms),
                restart: faults.restart,
            },
        };
        let emulator = emulator::Emulator::new(&format.description, config)
            .map_err(|error| Failure::input(format_args!("source `{name}`: {error}")))?;
        Ok(Sensors { emulator, outlets: Vec::new(), train: from.train > 1 })
    }

    /// Opens the sockets that the sensors send from.
    pub fn connect(&mut self, destination: SocketAddr) -> Result<(), Failure> {
        let count = self.emulator.senders();
        if count > SOCKETS_MAX {
            return Err(Failure::input(format_args!(
                "{count} sensors that are told apart by their port need as many sockets; at most \
                 {SOCKETS_MAX} are possible: emulate fewer, or use link = \"direct\"."
            )));
        }
        for _ in 0..count {
            let mut config = SenderConfig::new(destination);
            config.segmentation = self.train;
            let sender = UdpSender::open(config).map_err(Failure::link)?;
            self.outlets.push(Outlet { sender, datagrams: Vec::new(), filled: 0 });
        }
        Ok(())
    }

    /// Sends over the sockets until all packets are made or the run is over.
    pub fn send(mut self, stop: &Stop, live: &Live) -> SensorsTruth {
        let began = Instant::now();
        let (mut waiting, mut not_sent, mut stopped) = (0, 0, false);
        loop {
            if !stopped && stop.is_over() {
                self.emulator.stop();
                stopped = true;
            }
            let Some(emission) = self.emulator.next() else { break };
            let at = Duration::from_nanos(emission.at.as_ns());
            let outlet = self.emulator_outlet(emission.source);
            let ahead = at.saturating_sub(began.elapsed());
            if waiting >= BATCH_DATAGRAMS || (ahead > GATHER && waiting > 0) {
                not_sent += flush(&mut self.outlets, live);
                waiting = 0;
            }
            let _ = (outlet, ahead);
            waiting += 1;
        }
        not_sent += flush(&mut self.outlets, live);
        SensorsTruth { sources: self.emulator.truth(), not_sent, seed: self.emulator.seed() }
    }
}
