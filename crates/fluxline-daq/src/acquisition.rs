//! Readout and builder joined: datagrams in, batches of events out, every datagram accounted.
//!
//! It owns no clock, socket or thread, so that the same acquisition runs on live sockets, on
//! captures as fast as they can be read, and in tests.

use fluxline_core::{Datagram, Moment};
use fluxline_packet::{Description, Parsed, Program, Reject};

use crate::builder::{Builder, BuilderConfig, Mode, Position, Said, Scope, WindowClock};
use crate::event::EventBatch;
use crate::ledger::SourceCounters;
use crate::merge::Times;
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
}

/// Takes datagrams of several inputs, each with its description.
pub struct Acquisition {
    inputs: Vec<Input>,
    readout: Readout,
    builder: Builder,
    mode: Mode,
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
        let (names, descriptions): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        Acquisition {
            inputs: descriptions
                .into_iter()
                .map(|description| Input {
                    program: description.program().clone(),
                    description,
                    taken: InputTaken::default(),
                })
                .collect(),
            readout: Readout::new(rules, limits),
            mode: builder.mode,
            builder: Builder::new(builder),
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
        let parsed = match of.program.parse(datagram) {
            Ok(parsed) => parsed,
            Err(reject) => {
                of.taken.rejected += 1;
                self.readout.reject(input, reject, datagram);
                return;
            }
        };
        let (builder, labelled) = (&mut self.builder, self.labelled);
        let mut appeared = None;
        let deliver = |accepted: &Accepted, datagram: &Datagram<'_>, parsed: &Parsed| {
            if accepted.source >= labelled && appeared.is_none() {
                let label = label_of(&self.names, input, &of.description, parsed);
                builder.name_source(accepted.source, &label);
                appeared = Some((accepted.source, label));
            }
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

    /// Returns how far input `input` has come in the order of events; `None` before its first
    /// packet with a place there. One packet with a wrong key does not move it.
    #[must_use]
    pub fn position(&self, input: u16) -> Option<Position> {
        self.builder.position(input)
    }

    /// Returns whether packets of input `input` have places in an order of events that is the same
    /// in all inputs: by event keys that sources share, or by sensors' times.
    #[must_use]
    pub fn has_positions(&self, input: u16) -> bool {
        let Some(of) = self.inputs.get(usize::from(input)) else { return false };
        let mut types = of.description.packet_types().iter();
        match self.mode {
            Mode::Key(Scope::Global) => types.any(|packet| packet.event.is_some()),
            Mode::Window { clock: WindowClock::Sensor, .. } => {
                types.any(|packet| packet.timestamp.is_some())
            }
            Mode::Packet | Mode::Key(Scope::PerSource) | Mode::Window { .. } => false,
        }
    }

    /// Says that input `input` is read on demand, in the order of events, as all inputs are then:
    /// no event closes before the input has passed it or has ended.
    pub fn read_on_demand(&mut self, input: u16, times: Times) {
        if self.has_positions(input) {
            self.builder.read_on_demand(input, times);
        }
    }

    /// Input `input` will give no more packets: no event waits for its sources from now on.
    pub fn end_input(&mut self, input: u16) {
        self.builder.end_input(input);
    }

    /// Says whether datagrams of input `input` wait to be taken. While they do, silence is measured
    /// by the times of arrival of what was taken: a reader that stalls makes no source silent.
    /// Inputs that are read on demand, as files are, always have some until they end.
    pub fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.builder.note_backlog(input, has_unread);
    }

    /// Whether a datagram of `bytes` would still be taken. Where not, take a batch first: the
    /// inputs that can be held back are not to lose anything.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.builder.has_room(bytes)
    }

    /// Changes that a user should know, that are due at `now`: each once, and at most one a second
    /// of each kind.
    pub fn reports(&mut self, now: Moment) -> impl Iterator<Item = Said> + '_ {
        self.builder.reports(now)
    }

    /// The changes that are left at the end of the run.
    pub fn last_reports(&mut self) -> impl Iterator<Item = Said> + '_ {
        self.builder.last_reports()
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
            last: sequence.last,
            step: sequence.step,
            timestamp_step_ns: sequence.timestamp_step_ns,
            timestamp_wrap_ns: packet.timestamp.as_ref().and_then(|stamp| stamp.wrap_ns),
        });
        // Where the types have different time stamps, the counter is still one.
        let counts =
            |rule: Option<SequenceRule>| rule.map(|r| (r.last, r.step, r.timestamp_step_ns));
        let class = packets.iter().position(|other| counts(other.sequence) == counts(sequence));
        packets.push(PacketRule {
            sequence,
            sequence_class: class.unwrap_or(packets.len()) as u8,
            event_bits: packet.event.as_ref().map_or(0, |event| event.bits),
            spill_bits: packet
                .event
                .as_ref()
                .map_or(0, |event| event.spill.as_ref().map_or(0, |spill| spill.bits)),
        });
    }
    FormatRules { packets }
}
