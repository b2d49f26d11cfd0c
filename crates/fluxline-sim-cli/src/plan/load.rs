//! The load of an experiment: the packets of its sources, as its emulators make them.

use fluxline_core::Moment;
use fluxline_daq::emulator::{self, EmulatorConfig};
use fluxline_daq::experiment::{Emulator, Experiment, Nodes, Requirements, Source};
use fluxline_daq::formats;

use crate::failure::Failure;

/// The payload with which the header of a packet is found \[byte\].
const TRIAL_BYTES: u32 = 64;

/// The packets of a source.
#[derive(Clone, Debug)]
pub struct SourceLoad {
    /// Packets a second of all its sensors.
    pub packets: f64,
    /// The size of a packet \[byte\].
    pub bytes: f64,
}

/// An experiment whose emulators make the required load, and that load.
pub struct Loaded {
    pub experiment: Experiment,
    pub sources: Vec<SourceLoad>,
    pub required: Requirements,
}

impl Loaded {
    /// Returns the number of sensors.
    pub fn sensors(&self) -> u32 {
        let sensors = |source: &Source| source.emulator.as_ref().map_or(0, |of| of.sources);
        self.experiment.sources.iter().map(sensors).sum()
    }

    /// Returns the packets and bytes a second of each readout.
    pub fn by_readout(&self, readouts: u32) -> Vec<SourceLoad> {
        let mut nodes = Nodes::default();
        nodes.readout.count = readouts;
        let lists = self.experiment.sources_by_readout(&nodes);
        lists.iter().map(|list| sum(list.iter().map(|source| &self.sources[*source]))).collect()
    }

    /// Returns the packets and bytes a second of all sources.
    pub fn all(&self) -> SourceLoad {
        sum(self.sources.iter())
    }
}

fn sum<'a>(sources: impl Iterator<Item = &'a SourceLoad>) -> SourceLoad {
    let (packets, bytes) = sources
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.packets, of.packets.mul_add(of.bytes, sum.1)));
    SourceLoad { packets, bytes: if packets > 0.0 { bytes / packets } else { 0.0 } }
}

/// Sets the emulators of an experiment to the required rate and size.
pub fn prepare(mut experiment: Experiment) -> Result<Loaded, Failure> {
    let required = experiment.requirements.clone().unwrap_or_default();
    let mut sources = Vec::new();
    for (number, source) in experiment.sources.iter_mut().enumerate() {
        sources.push(set(source, &required, number)?);
    }
    let loaded = Loaded { experiment, sources, required };
    match loaded.required.sensors.filter(|sensors| *sensors != loaded.sensors()) {
        Some(sensors) => Err(Failure::input(format_args!(
            "[requirements] sensors = {sensors}, and the emulators of the experiment have {}; a \
             plan simulates these, so make both equal.",
            loaded.sensors()
        ))),
        None => Ok(loaded),
    }
}

fn set(source: &mut Source, required: &Requirements, number: usize) -> Result<SourceLoad, Failure> {
    let name = source.name.clone();
    let format = formats::load(&source.format, &source.parameters)?;
    let Some(of) = &mut source.emulator else {
        return Err(Failure::input(format_args!(
            "source `{name}` has no [source.emulator]: a plan makes its own packets; write one with \
             their rate and size in the place of its link."
        )));
    };
    of.rate = required.rate_hz.unwrap_or(of.rate);
    if of.rate <= 0.0 {
        return Err(Failure::input(format_args!(
            "source `{name}` sends as fast as possible: a plan needs a rate; write `rate-hz` below \
             [requirements], or `rate` below [source.emulator]."
        )));
    }
    of.seed.get_or_insert(number as u64 + 1);
    of.faults = emulator::Faults::default();
    let bytes_of = |of: &Emulator| -> Result<f64, Failure> {
        let config = EmulatorConfig {
            sources: of.sources,
            packet: of.packet.clone(),
            payload_bytes: of.payload_bytes,
            pattern: of.pattern,
            rate: of.rate,
            jitter: of.jitter,
            packets: 1,
            seed: 1,
            epoch_start: Moment::default(),
            faults: of.faults,
        };
        let made = emulator::Emulator::new(&format.description, config);
        let mut made =
            made.map_err(|error| Failure::input(format_args!("source `{name}`: {error}")))?;
        Ok(made.next().map_or(0.0, |packet| packet.bytes.len() as f64))
    };
    if let Some(wanted) = required.packet_bytes {
        of.payload_bytes = Some(TRIAL_BYTES);
        let header = bytes_of(of)? - f64::from(TRIAL_BYTES);
        of.payload_bytes = Some((wanted - header).clamp(0.0, 65_000.0) as u32);
        let bytes = bytes_of(of)?;
        if (bytes - wanted).abs() > wanted * 0.02 {
            return Err(Failure::input(format_args!(
                "[requirements] packet-bytes = {wanted}: packets of source `{name}` cannot have \
                 that size, the nearest is {bytes}; write that."
            )));
        }
    }
    Ok(SourceLoad { packets: of.rate * f64::from(of.sources), bytes: bytes_of(of)? })
}
