//! Readout and builder joined: datagrams in, batches of events out, every datagram accounted.
//!
//! It owns no clock, socket or thread, so that the same acquisition runs on live sockets, on
//! captures as fast as they can be read, and in tests.

use fluxline_proto::description::{Description, Parsed, Program, Reject};
use fluxline_proto::{Datagram, Moment};

use crate::builder::{Builder, BuilderConfig};
use crate::event::EventBatch;
use crate::ledger::SourceCounters;
use crate::merge::{OrderedBy, Position};
use crate::readout::sequence::SequenceRule;
use crate::readout::{Accepted, FormatRules, PacketRule, Readout, ReadoutLimits};

/// A source that appeared: its number and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSource {
    /// Its number in the run's table of sources.
    pub number: u32,
    /// Number of the input that it came by.
    pub input: u16,
    /// What reports call it.
    pub label: String,
}

/// One input's share of the readout's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputTaken {
    /// Datagrams taken from the input's ring.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, refused by the description.
    pub rejected: u64,
    /// Of these, of sources beyond the allowed number.
    pub refused: u64,
    /// Of these, cut because they were longer than a slot.
    pub truncated: u64,
}

/// An input: what its packets are.
struct Input {
    description: Description,
    program: Program,
    taken: InputTaken,
    newest: Newest,
}

/// How far an input has come.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    /// The time of its newest datagram; the zero moment before the first.
    time: Moment,
    position: Option<Position>,
    ended: bool,
    has_unread: bool,
}

/// Takes datagrams of several inputs, each with its description.
pub struct Acquisition {
    inputs: Vec<Input>,
    readout: Readout,
    builder: Builder,
    ordered_by: OrderedBy,
    /// Names inputs in labels where there is more than one.
    names: Vec<String>,
    labelled: u32,
    new_sources: Vec<NewSource>,
}

impl Acquisition {
    /// An acquisition over these inputs (name and description), numbered in this order.
    #[must_use]
    pub fn new(
        inputs: Vec<(String, Description)>,
        limits: ReadoutLimits,
        builder: BuilderConfig,
    ) -> Acquisition {
        let rules = inputs.iter().map(|(_, description)| rules_of(description)).collect();
        let ordered_by = OrderedBy::of(builder.mode);
        let (names, descriptions): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        Acquisition {
            inputs: descriptions
                .into_iter()
                .map(|description| Input {
                    program: description.program().clone(),
                    description,
                    taken: InputTaken::default(),
                    newest: Newest::default(),
                })
                .collect(),
            readout: Readout::new(rules, limits),
            builder: Builder::new(builder),
            ordered_by,
            names,
            labelled: 0,
            new_sources: Vec::new(),
        }
    }

    /// Takes one datagram of input number `input`, which must be one of those given, at `now`.
    ///
    /// Done when it is in an event or counted. Cost: one run of the packet program, one look-up,
    /// one copy of the packet; no allocation in steady state.
    pub fn take(&mut self, input: u16, now: Moment, datagram: &Datagram<'_>) {
        let Some(of) = self.inputs.get_mut(usize::from(input)) else { return };
        of.taken.datagrams += 1;
        of.taken.bytes += datagram.bytes.len() as u64;
        of.newest.time = of.newest.time.max(datagram.time);
        let parsed = match of.program.parse(datagram) {
            Ok(parsed) => parsed,
            Err(reject) => {
                of.taken.rejected += 1;
                self.readout.reject(input, reject, datagram);
                return;
            }
        };
        let (builder, labelled) = (&mut self.builder, self.labelled);
        let (ordered_by, position) = (self.ordered_by, &mut of.newest.position);
        let mut appeared = None;
        let deliver = |accepted: &Accepted, datagram: &Datagram<'_>, parsed: &Parsed| {
            if accepted.source >= labelled && appeared.is_none() {
                let label = label_of(&self.names, input, &of.description, parsed);
                builder.name_source(accepted.source, &label);
                appeared = Some((accepted.source, label));
            }
            *position = ordered_by.advance(*position, accepted, parsed);
            builder.push(now, accepted, datagram, parsed);
        };
        let refused_before = self.readout.refused();
        self.readout.accept(input, datagram, &parsed, deliver);
        of.taken.refused += self.readout.refused() - refused_before;
        if let Some((number, label)) = appeared {
            self.labelled = number + 1;
            self.readout.set_label(number, label.clone());
            self.new_sources.push(NewSource { number, input, label });
        }
    }

    /// Counts a datagram of input `input` whose end did not fit into its slot; it goes nowhere.
    pub fn take_truncated(&mut self, input: u16, bytes: usize) {
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.taken.datagrams += 1;
            of.taken.bytes += bytes as u64;
            of.taken.truncated += 1;
        }
    }

    /// The input, of those in `candidates`, whose next packet lets most events go on: the one that
    /// holds the events of all others back. An input that gave nothing yet comes first; ties go to
    /// the earlier time of arrival, then to the lower number. `None`: there are no candidates.
    ///
    /// Cost: a pass over the candidates; no allocation.
    #[must_use]
    pub fn most_wanted(&self, candidates: &[u16]) -> Option<u16> {
        let of = |&input: &u16| self.inputs.get(usize::from(input)).map(|of| of.newest.time);
        candidates.iter().copied().min_by_key(|input| (of(input), *input))
    }

    /// Returns how far input `input` has come; `None` before its first packet with a place in the
    /// order of events.
    #[must_use]
    pub fn position(&self, input: u16) -> Option<Position> {
        self.inputs.get(usize::from(input)).and_then(|of| of.newest.position)
    }

    /// Returns whether the packets of input `input` say which event they belong to, in numbers
    /// that are the same in all inputs.
    #[must_use]
    pub fn has_positions(&self, input: u16) -> bool {
        let description = self.inputs.get(usize::from(input)).map(|of| &of.description);
        description.is_some_and(|description| self.ordered_by.has_positions(description))
    }

    /// Input `input` will give no more packets: no event waits for its sources from now on.
    pub fn end_input(&mut self, input: u16) {
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.newest.ended = true;
        }
    }

    /// Says whether datagrams of input `input` wait to be taken. While they do, silence of its
    /// sources is the reader's, and no source of it is taken for idle.
    pub fn note_backlog(&mut self, input: u16, has_unread: bool) {
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.newest.has_unread = has_unread;
        }
    }

    /// Returns whether there is memory for a packet of `bytes` bytes, so that it is not refused.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.builder.has_room(bytes)
    }

    /// Closes the oldest events to make room; the batch is then to be taken. For inputs that can
    /// wait meanwhile.
    pub fn make_room(&mut self) {
        self.builder.make_room();
    }

    /// Closes events whose time is over at `now`.
    pub fn poll(&mut self, now: Moment) {
        self.builder.poll(now);
    }

    /// The end of the run: what is kept aside goes on, all events close. Take the last batch then.
    pub fn finish(&mut self, now: Moment) {
        let builder = &mut self.builder;
        self.readout.finish(|accepted, datagram, parsed| {
            builder.push(now, accepted, datagram, parsed);
        });
        builder.finish(now);
    }

    /// Sources that appeared since the last call; to be recorded before the next batch.
    pub fn new_sources(&mut self) -> impl Iterator<Item = NewSource> + '_ {
        self.new_sources.drain(..)
    }

    /// Whether a batch should be taken at `now`.
    #[must_use]
    pub fn batch_is_due(&self, now: Moment) -> bool {
        self.builder.batch_is_due(now)
    }

    /// The events closed so far; goes on with the memory of `spare`.
    #[must_use]
    pub fn take_batch(&mut self, spare: EventBatch) -> EventBatch {
        self.builder.take_batch(spare)
    }

    /// The readout: sources, trackers, rejects.
    #[must_use]
    pub fn readout(&self) -> &Readout {
        &self.readout
    }

    /// The builder: its counters.
    #[must_use]
    pub fn builder(&self) -> &Builder {
        &self.builder
    }

    /// What was taken from input number `input`.
    #[must_use]
    pub fn taken(&self, input: u16) -> InputTaken {
        self.inputs.get(usize::from(input)).map_or(InputTaken::default(), |of| of.taken)
    }

    /// The description of input number `input`.
    #[must_use]
    pub fn description(&self, input: u16) -> Option<&Description> {
        self.inputs.get(usize::from(input)).map(|of| &of.description)
    }

    /// A broken rule in words.
    #[must_use]
    pub fn rule_name(&self, input: u16, reject: Reject) -> String {
        self.description(input).map_or(String::new(), |description| description.rule_name(reject))
    }

    /// The counters of each source: the readout's and the builder's shares together.
    #[must_use]
    pub fn source_counters(&self) -> Vec<SourceCounters> {
        let shares = self.builder.source_counters();
        let mut all: Vec<SourceCounters> =
            self.readout.sources().iter().map(|source| source.counters()).collect();
        for (counters, share) in all.iter_mut().zip(shares) {
            counters.merge(share);
        }
        all
    }
}

fn label_of(names: &[String], input: u16, description: &Description, parsed: &Parsed) -> String {
    let label = description.source_label(&parsed.source, parsed.packet);
    match names {
        [_] => label,
        _ => format!("{}/{label}", names[usize::from(input)]),
    }
}

/// What the readout must know of a description's packet types. Types whose counters count alike
/// share one counter per source; a description that counts them apart names `packet` in `source`.
fn rules_of(description: &Description) -> FormatRules {
    let mut packets: Vec<PacketRule> = Vec::new();
    for packet in description.packet_types() {
        let sequence = packet.sequence.as_ref().map(|sequence| SequenceRule {
            bits: sequence.bits,
            step: sequence.step,
            timestamp_step_ns: sequence.timestamp_step_ns,
        });
        let class = packets.iter().position(|other| other.sequence == sequence);
        packets.push(PacketRule {
            sequence,
            sequence_class: class.unwrap_or(packets.len()) as u8,
            event_bits: packet.event.as_ref().map_or(0, |event| event.bits),
        });
    }
    FormatRules { packets }
}
