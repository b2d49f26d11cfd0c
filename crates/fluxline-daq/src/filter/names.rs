//! The names that every filter knows: of the event, of the packet, and of aggregates.

/// A property of an event: `event.key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventName {
    Key,
    Generation,
    Status,
    Complete,
    Packets,
    Sources,
    Bytes,
    DurationNs,
    TimeNs,
}

/// The names of an event's properties.
pub(super) const EVENT_NAMES: [(&str, EventName); 9] = [
    ("event.key", EventName::Key),
    ("event.generation", EventName::Generation),
    ("event.status", EventName::Status),
    ("event.complete", EventName::Complete),
    ("event.packets", EventName::Packets),
    ("event.sources", EventName::Sources),
    ("event.bytes", EventName::Bytes),
    ("event.duration_ns", EventName::DurationNs),
    ("event.time_ns", EventName::TimeNs),
];

/// A property of a packet: `packet.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketName {
    Source,
    Input,
    Type,
    Bytes,
    PayloadBytes,
    Sequence,
    Part,
}

/// The names of a packet's properties.
pub(super) const PACKET_NAMES: [(&str, PacketName); 7] = [
    ("packet.source", PacketName::Source),
    ("packet.input", PacketName::Input),
    ("packet.type", PacketName::Type),
    ("packet.bytes", PacketName::Bytes),
    ("packet.payload_bytes", PacketName::PayloadBytes),
    ("packet.sequence", PacketName::Sequence),
    ("packet.part", PacketName::Part),
];

/// An aggregate: one value of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Any,
    All,
    Count,
    Sum,
    Minimum,
    Maximum,
    Mean,
    Sources,
}

/// The names of aggregates.
pub(super) const AGGREGATES: [(&str, Aggregate); 8] = [
    ("any", Aggregate::Any),
    ("all", Aggregate::All),
    ("count", Aggregate::Count),
    ("sum", Aggregate::Sum),
    ("min", Aggregate::Minimum),
    ("max", Aggregate::Maximum),
    ("mean", Aggregate::Mean),
    ("sources", Aggregate::Sources),
];

/// Returns the item of that name.
pub(super) fn find<T: Copy>(table: &[(&'static str, T)], name: &str) -> Option<T> {
    table.iter().find(|row| row.0 == name).map(|row| row.1)
}
