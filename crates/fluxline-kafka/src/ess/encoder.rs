//! The encoder: batches of events in, groups of messages out.

use std::collections::BTreeMap;
use std::fmt;

use flatbuffers::FlatBufferBuilder;
use fluxline_daq::event::{EventBatch, EventView, PacketRow};
use fluxline_packet::Description;
use fluxline_packet::columnar::Numbers;
use fluxline_packet::ess::{Array, LogValue, Signal};

use super::Schema;
use super::hits::{Hits, Stream, Streams};
use super::messages::Group;
use super::plan::{Decoded, TypePlan};
use super::wire::{self, Variable};

/// Makes the messages of batches; its memory is reused.
pub struct Encoder {
    formats: Vec<Vec<TypePlan>>,
    sources: Vec<Option<Source>>,
    streams: Streams,
    out: Output,
}

/// A source of packets.
#[derive(Clone, Copy, Debug)]
struct Source {
    format: usize,
    port: u16,
}

/// The messages of the present group.
struct Output {
    builder: FlatBufferBuilder<'static>,
    bytes_max: usize,
    batch: u64,
    /// Number of the next message in the batch.
    piece: u32,
    group: Group,
    /// The present event has a value in a message.
    has_values: bool,
    /// A message of the present event is larger than a record.
    too_large: bool,
    misfits: BTreeMap<String, u64>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Encoder")
            .field("formats", &self.formats.len())
            .field("sources", &self.sources.len())
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Makes an encoder for packets of these descriptions; messages have at most `bytes_max` bytes.
    #[must_use]
    pub fn new(formats: &[Description], bytes_max: usize) -> Encoder {
        Encoder {
            formats: formats.iter().map(TypePlan::of).collect(),
            sources: Vec::new(),
            streams: Streams::default(),
            out: Output {
                builder: FlatBufferBuilder::new(),
                bytes_max,
                batch: 0,
                piece: 0,
                group: Group::default(),
                has_values: false,
                too_large: false,
                misfits: BTreeMap::new(),
            },
        }
    }

    /// Adds source number `number`, whose packets are of description number `format` and were sent
    /// to this UDP port (0: unknown). Packets of unknown sources have no mapping.
    pub fn add_source(&mut self, number: u32, format: usize, port: u16) {
        let number = number as usize;
        if self.sources.len() <= number {
            self.sources.resize(number + 1, None);
        }
        self.sources[number] = Some(Source { format, port });
    }

    /// Calls `take` for each group of batch `number`, in order. Each event is in one group.
    ///
    /// Cost: one pass over the packets. Memory: one group, of about twice the largest record, or of
    /// one event if that is larger.
    pub fn encode(&mut self, number: u64, batch: &EventBatch, mut take: impl FnMut(&Group)) {
        (self.out.batch, self.out.piece) = (number, 0);
        for event in batch.views() {
            (self.out.has_values, self.out.too_large) = (false, false);
            self.event(&event);
            let group = &mut self.out.group;
            match (self.out.has_values, self.out.too_large) {
                (_, true) => group.too_large += 1,
                (true, false) => group.events += 1,
                (false, false) => group.unmapped += 1,
            }
            if group.bytes() + self.streams.bytes() >= self.out.bytes_max {
                self.flush(&mut take);
            }
        }
        self.flush(&mut take);
    }

    /// Returns the numbers of values that did not fit into a message, by name, since the last call.
    /// They are in no message.
    pub fn take_misfits(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.out.misfits)
    }

    fn flush(&mut self, take: &mut impl FnMut(&Group)) {
        let Encoder { streams, out, .. } = self;
        out.too_large = false;
        streams.drain(|stream| out.hits(stream));
        if out.too_large {
            // A name that is longer than a record: nobody knows which events it has.
            out.group.too_large += std::mem::take(&mut out.group.events);
        }
        if out.group.all_events() > 0 {
            take(&out.group);
        }
        out.group.clear();
    }

    /// Encodes an event.
    fn event(&mut self, event: &EventView<'_>) {
        let Encoder { formats, sources, streams, out } = self;
        let mut has_joined = false;
        for (row, bytes) in event.each_packet() {
            let Some((plan, port)) = plan_of(formats, sources, row) else { continue };
            let joins = plan.ess().da00.as_ref().is_some_and(|array| array.join);
            has_joined |= joins;
            if joins && plan.ess().ev44.is_none() && plan.ess().f144.is_empty() {
                continue;
            }
            let packet = plan.decode(row, bytes, port);
            out.packet(streams, &packet, event.row.key);
        }
        if has_joined {
            self.joined(event);
        }
    }

    /// Makes one array of the packets of each source and type, in the order of their parts.
    fn joined(&mut self, event: &EventView<'_>) {
        let mut packets: Vec<(&PacketRow, &[u8])> = event.each_packet().collect();
        // Stable, so that equal parts stay in the order of arrival.
        packets.sort_by_key(|(row, _)| (row.source, row.packet_type, row.part));
        for packets in packets
            .chunk_by(|(a, _), (b, _)| (a.source, a.packet_type) == (b.source, b.packet_type))
        {
            let Some((row, bytes)) = packets.first() else { continue };
            let Some((plan, port)) = plan_of(&self.formats, &self.sources, row) else { continue };
            let Some(array) = plan.ess().da00.as_ref().filter(|array| array.join) else { continue };
            let mut first = plan.decode(row, bytes, port);
            let mut payload = first.payload.to_vec();
            for (row, bytes) in &packets[1..] {
                let more = super::plan::payload_of(row, bytes);
                first.append(more);
                payload.extend_from_slice(more);
            }
            let parts = packets.iter().map(|(row, _)| row.part).collect();
            let labels = ArrayLabels { key: event.row.key, parts: Some(parts) };
            self.out.array(&first, array, &payload, labels);
        }
    }
}

/// Returns the plan of a packet and its port; `None`: it has no mapping.
fn plan_of<'a>(
    formats: &'a [Vec<TypePlan>],
    sources: &[Option<Source>],
    row: &PacketRow,
) -> Option<(&'a TypePlan, u16)> {
    let source = (*sources.get(row.source as usize)?)?;
    let plan = formats.get(source.format)?.get(usize::from(row.packet_type))?;
    (!plan.ess().is_empty()).then_some((plan, source.port))
}

/// Numbers that go with an array.
struct ArrayLabels {
    /// The event's key.
    key: Option<u64>,
    /// The parts of the fragment that the array has.
    parts: Option<Vec<u64>>,
}

impl Output {
    /// Makes the messages of a packet, except those of joined packets.
    fn packet(&mut self, streams: &mut Streams, packet: &Decoded<'_>, key: Option<u64>) {
        let ess = packet.plan.ess();
        if let Some(mapping) = &ess.ev44
            && let Some(hits) = Hits::of(packet, mapping, &mut self.misfits)
        {
            self.has_values = true;
            let stream =
                streams.get(&packet.name(&mapping.source_name), mapping.pixel_id.is_some());
            stream.extend(&hits, self.bytes_max, &mut |stream| self.hits(stream));
        }
        if let Some(array) = ess.da00.as_ref().filter(|array| !array.join) {
            self.array(packet, array, packet.payload, ArrayLabels { key, parts: None });
        }
        ess.f144.iter().for_each(|value| self.log_value(packet, value));
    }

    fn next_piece(&mut self) -> u32 {
        self.piece += 1;
        self.piece - 1
    }

    /// Puts a finished message into the group, unless it is larger than a record.
    fn push(&mut self, piece: u32, schema: Schema) {
        let message = self.builder.finished_data();
        if message.len() > self.bytes_max {
            self.too_large = true;
        } else {
            self.has_values = true;
            self.group.push(piece, schema, message);
        }
    }

    /// Makes the message of a stream, and empties it.
    fn hits(&mut self, stream: &mut Stream) {
        if stream.is_empty() {
            return;
        }
        let piece = self.next_piece();
        // Grows from message to message of a run.
        let message_id = (self.batch & 0x7FFF_FFFF) << 32 | u64::from(piece);
        wire::ev44(&mut self.builder, &stream.events(message_id as i64));
        self.push(piece, Schema::Ev44);
        stream.clear();
    }

    fn array(&mut self, packet: &Decoded<'_>, array: &Array, payload: &[u8], of: ArrayLabels) {
        let bytes;
        let samples = match array.signal {
            Signal::Record(id) => packet.samples(id),
            Signal::Payload => {
                bytes = Numbers::U8(payload.to_vec());
                Some(&bytes)
            }
        };
        let Some(samples) = samples else { return };
        let inner: u64 = array.inner_shape.iter().product();
        let count = samples.len() as u64;
        if inner == 0 || !count.is_multiple_of(inner) {
            let name = format!("{}.ess.da00.inner-shape", packet.plan.packet.name);
            *self.misfits.entry(name).or_default() += count;
            return;
        }
        let value = match array.signal {
            Signal::Record(id) => {
                packet.plan.packet.records.as_ref().and_then(|of| of.layout.values.get(id))
            }
            Signal::Payload => None,
        };
        let shape: Vec<i64> = std::iter::once(count / inner)
            .chain(array.inner_shape.iter().copied())
            .map(|size| size as i64)
            .collect();
        let axes: Vec<&str> = array.axes.iter().map(String::as_str).collect();
        let key = Numbers::U64(of.key.into_iter().collect());
        let parts = Numbers::U64(of.parts.unwrap_or_default());
        let part_count = [parts.len() as i64];
        let plain =
            Variable { name: "", unit: None, label: None, axes: &[], shape: &[], numbers: &key };
        let mut variables = vec![Variable {
            name: "signal",
            unit: value.and_then(|value| value.unit.as_deref()),
            label: value.map(|value| value.help.as_str()).filter(|help| !help.is_empty()),
            axes: &axes,
            shape: &shape,
            numbers: samples,
        }];
        if of.key.is_some() {
            variables.push(Variable { name: "event", ..plain });
        }
        if array.join {
            let (axes, shape) = (&["packet"][..], &part_count[..]);
            variables.push(Variable { name: "part", axes, shape, numbers: &parts, ..plain });
        }
        let piece = self.next_piece();
        let name = packet.name(&array.source_name);
        wire::da00(&mut self.builder, &name, packet.time(&array.timestamp), &variables);
        self.push(piece, Schema::Da00);
    }

    fn log_value(&mut self, packet: &Decoded<'_>, value: &LogValue) {
        // An absent value is not logged.
        let mut present = None;
        packet.keep_present(&value.value, &mut present);
        let is_there = present.is_none_or(|rows| rows.iter().all(|row| *row));
        let Some(numbers) = packet.numbers(&value.value).filter(|_| is_there) else { return };
        let mut misfit = |key: &str| {
            let name = format!("{}.ess.f144.{key}", packet.plan.packet.name);
            *self.misfits.entry(name).or_default() += 1;
        };
        let Ok(time) = i64::try_from(packet.time(&value.timestamp)) else {
            misfit("timestamp");
            return;
        };
        let name = packet.name(&value.source_name);
        let is_list = value.value.is_of_records();
        wire::f144(&mut self.builder, &name, time, &numbers, is_list);
        let piece = self.next_piece();
        self.push(piece, Schema::F144);
    }
}
