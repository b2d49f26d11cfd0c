//! Emulated sensors that send RoCEv2 frames, as a simple FPGA does.

use std::net::SocketAddr;
use std::time::Duration;

use fluxline::clock;
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_core::port::Port;
use fluxline_core::roce::{Psn, QueuePair};
use fluxline_daq::emulator::Emulator;
use fluxline_daq::emulator::roce::{Writer, WriterConfig, WriterTruth};

use super::paced::{Paced, sleep_until};
use super::sensors::{BATCH_DATAGRAMS, Sensors};
use super::truth::SensorsTruth;
use crate::error::Error;
use crate::stop::Stop;

/// Longest wait for a full send buffer at a time.
const WAIT: Duration = Duration::from_millis(5);
/// Most sensors: each has a port and a queue pair of its own.
const SENSORS_MAX: u32 = 256;
/// Small, since no frames are received here.
const RECEIVE_BUFFER_BYTES: u32 = 4096;

/// Addresses of emulated FPGAs and their receiver; each has the next port and queue pair.
#[derive(Clone, Copy, Debug)]
pub struct RoceSensorsConfig {
    /// The receiver.
    pub to: SocketAddr,
    /// The first one's own address.
    pub from: SocketAddr,
    /// The first one's queue pair.
    pub queue_pair: u32,
    /// The first PSN of each one.
    pub first_psn: u32,
    /// The R_Key.
    pub key: u32,
    /// The address of the region's first byte.
    pub base: u64,
    /// Size of a region \[byte\].
    pub ring_bytes: u64,
    /// Distance of two packets in it \[byte\].
    pub slot_bytes: u64,
    /// Send equal frames as trains.
    pub train: bool,
}

/// Emulated FPGAs with their ports.
pub struct RoceSensors {
    emulator: Emulator,
    outlets: Vec<(UdpPort, Writer)>,
}

impl RoceSensors {
    /// Binds a port for each sensor.
    pub fn open(sensors: Sensors, config: &RoceSensorsConfig) -> Result<RoceSensors, Error> {
        let (bytes, count) = (sensors.packet_bytes() as u64, sensors.sources());
        let RoceSensorsConfig { ring_bytes, slot_bytes, .. } = *config;
        if bytes > slot_bytes || slot_bytes > ring_bytes {
            return Err(Error::input(format_args!(
                "a packet of {bytes} bytes does not fit slots of {slot_bytes} in a ring of \
                 {ring_bytes}; make --slot-bytes or --ring-bytes larger, or packets shorter."
            )));
        }
        let first = u32::from(config.from.port());
        if count > SENSORS_MAX || first == 0 || first + count > u32::from(u16::MAX) {
            return Err(Error::input(format_args!(
                "{count} sensors from port {} on: at most {SENSORS_MAX} are possible, from a port \
                 of 1 or more.",
                config.from.port(),
            )));
        }
        let outlets = (0..count).map(|number| outlet(config, number as u16));
        let outlets = outlets.collect::<Result<_, _>>()?;
        Ok(RoceSensors { emulator: sensors.into_emulator(), outlets })
    }

    /// Sends until all packets are made or the run is over.
    pub fn send(self, stop: &Stop) -> (SensorsTruth, Vec<WriterTruth>) {
        let RoceSensors { emulator, mut outlets } = self;
        let mut paced = Paced::start(emulator, stop);
        let mut waiting = 0;
        while let Some((emission, due)) = paced.next() {
            if waiting > 0 && (due.is_some() || waiting >= BATCH_DATAGRAMS) {
                outlets.iter_mut().for_each(|(port, _)| port.flush(clock::monotonic()));
                waiting = 0;
            }
            if let Some(due) = due {
                sleep_until(due, stop);
            }
            let (port, writer) = &mut outlets[emission.source as usize];
            while !writer.send(&emission, port) {
                port.flush(clock::monotonic());
                if port.pending() && port.wait(WAIT).is_err() {
                    break;
                }
            }
            waiting += 1;
        }
        let mut not_sent = 0;
        for (port, _) in &mut outlets {
            port.flush(clock::monotonic());
            while port.pending() && port.wait(WAIT).is_ok() {
                port.flush(clock::monotonic());
            }
            not_sent += port.counters().frames_refused;
        }
        (paced.truth(not_sent), outlets.iter().map(|(_, writer)| writer.truth()).collect())
    }
}

fn outlet(config: &RoceSensorsConfig, number: u16) -> Result<(UdpPort, Writer), Error> {
    let RoceSensorsConfig { to, key, base, slot_bytes, .. } = *config;
    let from = SocketAddr::new(config.from.ip(), config.from.port() + number);
    let port = UdpPort::bind(UdpPortConfig {
        receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
        segmentation: config.train,
        ..UdpPortConfig::new(from)
    });
    let port = port.map_err(|error| Error::link(format_args!("emulate: {error}.")))?;
    let no_way = || Error::input(format_args!("no route from {from} to {to}."));
    let from = port.local(to.ip()).ok_or_else(no_way)?;
    let writer = WriterConfig {
        to,
        queue_pair: QueuePair::new(config.queue_pair + u32::from(number)),
        first_psn: Psn::new(config.first_psn),
        key,
        base,
        slot_bytes,
        slots: config.ring_bytes / slot_bytes,
    };
    Ok((port, Writer::new(from, writer).ok_or_else(no_way)?))
}
