//! What an experiment asks of a host: its packets' sizes and rates, its buffers, cores, memory.
//!
//! What the experiment does not say is taken from the description, then from the command line,
//! then assumed; each of these is said.

use std::net::{Ipv4Addr, SocketAddr};

use fluxline_doctor::{Link, Load, Stream};

use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use fluxline_daq::experiment::{EmulatorLink, Experiment, Roce, Source, Udp};
use fluxline_daq::formats;

/// Slots with GRO hold any train of datagrams \[byte\].
const SLOT_BYTES: u64 = fluxline::ring::SLOT_BYTES_ANY as u64;
/// Fastest rate of one sender that is believed \[Hz\]: shortest frames on 400 Gb/s.
const RATE_MAX_HZ: f64 = 1e9;

/// The experiment as a load; rates that nothing says stay open ([`Load::assume`]).
pub fn load_of(experiment: &Experiment, arguments: &DoctorArguments) -> Result<Load, Failure> {
    check(arguments)?;
    let mut load = Load { name: experiment.name.clone(), ..Load::default() };
    for source in &experiment.sources {
        let mut sizes = Sizes::of(source)?;
        let stream = stream_of(source, &mut sizes, arguments);
        let what = &source.name;
        load.assumptions
            .extend(sizes.assumed.into_iter().map(|text| format!("source `{what}`: {text}")));
        load.streams.push(stream);
    }
    let pinned = experiment.sources.iter().filter_map(|source| source.core);
    load.cores = pinned.chain(experiment.readout_core).chain(experiment.recorder_core).collect();
    load.cores.sort_unstable();
    load.cores.dedup();
    load.memory_bytes = memory_of(experiment, &load);
    Ok(load)
}

fn check(arguments: &DoctorArguments) -> Result<(), Failure> {
    if let Some(rate) = arguments.rate.filter(|rate| !(*rate > 0.0 && *rate <= RATE_MAX_HZ)) {
        return Err(Failure::input(format_args!(
            "--rate {rate} is out of range; write packets per second, above 0 and up to 1e9."
        )));
    }
    for (flag, value) in [("senders", arguments.senders), ("packet-bytes", arguments.packet_bytes)]
    {
        if value.is_some_and(|value| !(1..=1 << 20).contains(&value)) {
            return Err(Failure::input(format_args!("--{flag}: write 1 to 1048576.")));
        }
    }
    Ok(())
}

/// Sizes that a description knows.
struct Sizes {
    head_bytes: u64,
    payload_bytes: u64,
    assumed: Vec<String>,
}

impl Sizes {
    fn of(source: &Source) -> Result<Sizes, Failure> {
        let format = formats::load(&source.format, &source.parameters)?;
        let types = format.description.packet_types();
        let emulated = source.emulator.as_ref().and_then(|emulator| emulator.packet.as_deref());
        let named = types.iter().find(|of| Some(of.name.as_str()) == emulated);
        let counted = || types.iter().find(|of| of.sequence.is_some() || of.event.is_some());
        let packet = named.or_else(counted).or(types.first());
        Ok(Sizes {
            head_bytes: packet.map_or(0, |of| of.header.min_bytes.into()),
            payload_bytes: packet.map_or(0, |of| of.emulate_payload_bytes),
            assumed: Vec::new(),
        })
    }

    fn packet_bytes(&self) -> u64 {
        (self.head_bytes + self.payload_bytes).clamp(1, SLOT_BYTES)
    }
}

/// Senders and sizes, where an experiment says neither: of the command line, or assumed.
fn unstated(source: &Source, sizes: &mut Sizes, arguments: &DoctorArguments) -> (u64, u64) {
    let bytes = arguments.packet_bytes.unwrap_or_else(|| {
        let bytes = sizes.packet_bytes();
        sizes.assumed.push(format!(
            "packets of {bytes} byte assumed, as its description `{}` makes them; --packet-bytes \
             says other ones.",
            source.format
        ));
        bytes
    });
    let senders = arguments.senders.unwrap_or_else(|| {
        sizes.assumed.push("one sender assumed; --senders says more.".into());
        1
    });
    (senders, bytes)
}

fn stream_of(source: &Source, sizes: &mut Sizes, arguments: &DoctorArguments) -> Stream {
    let mut stream = Stream {
        name: source.name.clone(),
        link: Link::Inside,
        senders: 1,
        rate_hz: None,
        packet_bytes: sizes.packet_bytes(),
        is_size_assumed: false,
        sockets: 0,
        buffer_bytes: 0,
        listen: Vec::new(),
        peers: Vec::new(),
        interface: None,
        busy_poll_us: 0,
    };
    if let Some(emulator) = &source.emulator {
        sizes.payload_bytes = emulator.payload_bytes.map_or(sizes.payload_bytes, u64::from);
        stream.packet_bytes = sizes.packet_bytes();
        stream.senders = emulator.sources.into();
        // 0: as fast as possible, which nothing says a number of.
        stream.rate_hz = Some(emulator.rate).filter(|rate| *rate > 0.0);
        if emulator.link == EmulatorLink::Udp {
            stream.link = Link::Udp;
            stream.sockets = 1;
            stream.buffer_bytes = Udp::default().receive_buffer_bytes as u64;
            stream.listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        }
        return stream;
    }
    stream.rate_hz = arguments.rate;
    stream.is_size_assumed = arguments.packet_bytes.is_none();
    if let Some(udp) = &source.udp {
        (stream.senders, stream.packet_bytes) = unstated(source, sizes, arguments);
        take_udp(&mut stream, udp);
    } else if let Some(roce) = &source.roce {
        (stream.senders, stream.packet_bytes) = unstated_of_roce(source, roce, sizes, arguments);
        take_roce(&mut stream, roce);
    } else if let Some(shm) = &source.shm {
        (stream.senders, stream.packet_bytes) = (1, sizes.packet_bytes());
        (stream.link, stream.buffer_bytes) = (Link::Shared, shm.ring_bytes);
    }
    stream
}

fn take_udp(stream: &mut Stream, udp: &Udp) {
    // Names are not looked up here: a name stands for every interface; its port is its port.
    let address = |text: &String| {
        let port = || text.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
        text.parse().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, port()).into())
    };
    stream.link = Link::Udp;
    stream.sockets = udp.listen.len() as u64;
    stream.buffer_bytes = udp.receive_buffer_bytes as u64;
    stream.listen = udp.listen.iter().map(address).collect();
    stream.interface = udp.interface.clone();
    stream.busy_poll_us = udp.busy_poll_us;
}

fn take_roce(stream: &mut Stream, roce: &Roce) {
    let address = |text: &String| text.parse::<SocketAddr>().ok();
    stream.link = Link::Roce;
    stream.sockets = 1;
    stream.buffer_bytes = roce.receive_buffer_bytes.into();
    stream.listen = address(&roce.listen).into_iter().collect();
    stream.peers = roce.senders.iter().filter_map(|of| Some(address(&of.address)?.ip())).collect();
    stream.peers.sort_unstable();
    stream.peers.dedup();
}

/// Of memory that is written remotely the senders are known, and the longest frame is.
fn unstated_of_roce(
    source: &Source,
    roce: &Roce,
    sizes: &mut Sizes,
    arguments: &DoctorArguments,
) -> (u64, u64) {
    /// RoCEv2 heads and check of a WRITE ONLY with immediate \[byte\]: BTH 12, RETH 16,
    /// immediate 4, ICRC 4. Source: IBTA specification, volume 1, chapter 9; annex A17.
    const ROCE_BYTES: u64 = 12 + 16 + 4 + 4;
    match (roce.senders.len() as u64, arguments.packet_bytes) {
        (0, _) => unstated(source, sizes, arguments),
        (senders, Some(bytes)) => (senders, bytes),
        (senders, None) => {
            let bytes = roce.slot_bytes() + ROCE_BYTES;
            sizes.assumed.push(format!("frames of {bytes} byte assumed, a whole slot each."));
            (senders, bytes)
        }
    }
}

/// Memory that the configuration bounds \[byte\]: rings, events, batches, sockets' buffers.
fn memory_of(experiment: &Experiment, load: &Load) -> u64 {
    let ring = |source: &Source| match (&source.udp, &source.shm, &source.roce) {
        (Some(udp), _, _) if !udp.gro => {
            u64::from(source.ring_slots).saturating_mul(udp.datagram_bytes_max as u64)
        }
        (_, Some(shm), _) => shm.ring_bytes,
        (_, _, Some(roce)) => roce.ring_bytes.saturating_mul(roce.senders.len().max(1) as u64),
        _ => u64::from(source.ring_slots).saturating_mul(SLOT_BYTES),
    };
    let sockets = load.streams.iter().filter(|stream| stream.uses_sockets());
    let buffers = sockets.map(|stream| stream.buffer_bytes.saturating_mul(stream.sockets));
    let record = &experiment.record;
    let batches = record.batch_bytes.saturating_mul(u64::from(record.batches_max) + 1);
    let rings = experiment.sources.iter().map(ring).chain(buffers);
    rings.fold(batches.saturating_add(experiment.events.bytes_max), u64::saturating_add)
}
