//! The load of an experiment on a host: sizes and rates of packets, buffers, cores, memory.
//!
//! Senders, sizes and rates that the experiment does not have come from the user ([`Stated`]). A
//! size that nobody stated comes from the packet description. [`Load::assumptions`] lists each
//! assumption.

use std::net::{Ipv4Addr, SocketAddr};

use fluxline_daq::InputError;
use fluxline_daq::experiment::{EmulatorLink, Experiment, Roce, Source, Udp};
use fluxline_daq::formats;

use crate::{Link, Load, Stream};

/// Slots with GRO hold any train of datagrams \[byte\].
const SLOT_BYTES: u64 = fluxline::ring::SLOT_BYTES_ANY as u64;

/// The user's values for what an experiment file cannot know of its senders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stated {
    /// Packets per second of one sender \[Hz\].
    pub rate_hz: Option<f64>,
    /// The number of senders of each source.
    pub senders: Option<u64>,
    /// Payload of a packet \[byte\].
    pub packet_bytes: Option<u64>,
}

/// Computes the load of an experiment. Rates that are not stated stay open ([`Load::assume`]).
///
/// # Errors
/// A packet description that cannot be loaded.
pub fn load_of(experiment: &Experiment, stated: &Stated) -> Result<Load, InputError> {
    let mut load = Load { name: experiment.name.clone(), ..Load::default() };
    for source in &experiment.sources {
        let mut sizes = Sizes::of(source)?;
        let stream = stream_of(source, &mut sizes, stated);
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

/// Sizes that a description knows.
struct Sizes {
    head_bytes: u64,
    payload_bytes: u64,
    assumed: Vec<String>,
}

impl Sizes {
    fn of(source: &Source) -> Result<Sizes, InputError> {
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

/// Returns senders and size of a source whose experiment has neither: stated, or assumed.
fn unstated(source: &Source, sizes: &mut Sizes, stated: &Stated) -> (u64, u64) {
    let bytes = stated.packet_bytes.unwrap_or_else(|| {
        let bytes = sizes.packet_bytes();
        sizes.assumed.push(format!(
            "packets of {bytes} bytes assumed, from its description `{}`; --packet-bytes sets \
             another size.",
            source.format
        ));
        bytes
    });
    let senders = stated.senders.unwrap_or_else(|| {
        sizes.assumed.push("one sender assumed; --senders sets more.".into());
        1
    });
    (senders, bytes)
}

fn stream_of(source: &Source, sizes: &mut Sizes, stated: &Stated) -> Stream {
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
        // 0: as fast as possible, at an unknown rate.
        stream.rate_hz = Some(emulator.rate).filter(|rate| *rate > 0.0);
        if emulator.link == EmulatorLink::Udp {
            stream.link = Link::Udp;
            stream.sockets = 1;
            stream.buffer_bytes = Udp::default().receive_buffer_bytes as u64;
            stream.listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        }
        return stream;
    }
    stream.rate_hz = stated.rate_hz;
    stream.is_size_assumed = stated.packet_bytes.is_none();
    if let Some(udp) = &source.udp {
        (stream.senders, stream.packet_bytes) = unstated(source, sizes, stated);
        take_udp(&mut stream, udp);
    } else if let Some(roce) = &source.roce {
        (stream.senders, stream.packet_bytes) = unstated_of_roce(source, roce, sizes, stated);
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
    stream.peers =
        roce.senders.iter().filter_map(|of| Some(of.ports().ok()?.address.ip())).collect();
    stream.peers.sort_unstable();
    stream.peers.dedup();
}

/// Returns senders and size of a source of remote writes. The experiment lists its senders, and a
/// slot bounds the frame.
fn unstated_of_roce(
    source: &Source,
    roce: &Roce,
    sizes: &mut Sizes,
    stated: &Stated,
) -> (u64, u64) {
    /// RoCEv2 heads and check of a WRITE ONLY with immediate \[byte\]: BTH 12, RETH 16,
    /// immediate 4, ICRC 4. Source: IBTA specification, volume 1, chapter 9; annex A17.
    const ROCE_BYTES: u64 = 12 + 16 + 4 + 4;
    match (roce.senders.len() as u64, stated.packet_bytes) {
        (0, _) => unstated(source, sizes, stated),
        (senders, Some(bytes)) => (senders, bytes),
        (senders, None) => {
            let bytes = roce.slot_bytes() + ROCE_BYTES;
            sizes.assumed.push(format!("frames of {bytes} bytes assumed, a whole slot each."));
            (senders, bytes)
        }
    }
}

/// Returns the bound of its memory \[byte\]: rings, events, batches, sockets' buffers.
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

#[cfg(test)]
mod tests {
    use fluxline_daq::experiment::Experiment;

    use super::{Stated, load_of};
    use crate::Link;

    const BOARD: &str = "[[source]]\nname = 'board'\nformat = 'counter'\ncore = 3\n\
                         [source.udp]\nlisten = ['127.0.0.1:6006', 'board:7']\n";

    #[test]
    fn stated_values_are_taken_and_missing_ones_are_assumed_in_sentences() {
        let experiment = Experiment::parse("board.toml", BOARD).expect("an experiment");
        let stated = Stated { rate_hz: Some(1e5), senders: Some(8), packet_bytes: Some(1000) };
        let load = load_of(&experiment, &stated).expect("a load");
        let stream = &load.streams[0];
        assert_eq!((stream.senders, stream.rate_hz, stream.packet_bytes), (8, Some(1e5), 1000));
        assert_eq!((stream.link, stream.sockets), (Link::Udp, 2));
        let ports: Vec<u16> = stream.listen.iter().map(std::net::SocketAddr::port).collect();
        assert_eq!(ports, [6006, 7]);
        assert_eq!((load.cores, load.assumptions.len()), (vec![3], 0));
        let load = load_of(&experiment, &Stated::default()).expect("a load");
        assert_eq!((load.streams[0].senders, load.streams[0].rate_hz), (1, None));
        assert!(load.streams[0].is_size_assumed);
        assert_eq!(load.assumptions.len(), 2, "{:?}", load.assumptions);
        assert!(load.memory_bytes > 0);
    }
}
