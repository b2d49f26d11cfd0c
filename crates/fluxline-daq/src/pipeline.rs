//! Pipeline of readout and builder: datagrams in, batches of events out, every datagram counted.
//!
//! It owns no clock, socket or thread. So the same pipeline runs on live sockets, on captures as
//! fast as they can be read, and in tests.

use fluxline_core::{Datagram, Moment};
use fluxline_packet::{Description, Parsed, Program, Reject};

use crate::builder::{Builder, BuilderConfig, Mode, Position, Said, Scope, WindowClock};
use crate::counters::SourceCounters;
use crate::event::EventBatch;
use crate::readout::sequence::SequenceRule;
use crate::readout::{Accepted, FormatRules, PacketRule, Readout, ReadoutLimits};
use crate::times::Times;

/// A source that appeared, with its number and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSource {
    /// Its number in the run's table of sources.
    pub number: u32,
    /// Number of the input that it came by.
    pub input: u16,
    /// Its label in reports.
    pub label: String,
}

/// One input's share of the readout's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputTaken {
    /// Datagrams taken from the input's ring.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, rejected by the description.
    pub rejected: u64,
    /// Of these, of sources beyond the limit.
    pub refused: u64,
    /// Of these, cut to the length of a slot.
    pub truncated: u64,
}

/// An input with the description of its packets.
struct Input {
    description: Description,
    program: Program,
    taken: InputTaken,
}

/// Takes datagrams of several inputs, each with its description.
pub struct Pipeline {
    inputs: Vec<Input>,
    readout: Readout,
    builder: Builder,
    mode: Mode,
    /// Names inputs in labels where there is more than one.
    names: Vec<String>,
    labelled: u32,
    new_sources: Vec<NewSource>,
}

impl Pipeline {
    /// Makes a pipeline for these inputs (name and description), numbered in this order.
    #[must_use]
    pub fn new(
        inputs: Vec<(String, Description)>,
        limits: ReadoutLimits,
        builder: BuilderConfig,
    ) -> Pipeline {
        let rules = inputs.iter().map(|(_, description)| rules_of(description)).collect();
        let (names, descriptions): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        Pipeline {
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

    /// Takes one datagram of input number `input`, one of those given, at `now`.
    ///
    /// The datagram is in an event or counted afterwards. Cost: one run of the packet program, one
    /// look-up, one copy of the packet; no allocation in steady state.
    ///
    /// # Panics
    /// Panics if there is no such input: the datagram could not be counted.
    pub fn take(&mut self, input: u16, now: Moment, datagram: &Datagram<'_>) {
        let of = self.inputs.get_mut(usize::from(input)).expect("one of the inputs given");
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

    /// Counts a datagram of input `input` whose end did not fit into its slot, and drops it.
    ///
    /// # Panics
    /// Panics if there is no such input.
    pub fn take_truncated(&mut self, input: u16, bytes: usize) {
        let of = self.inputs.get_mut(usize::from(input)).expect("one of the inputs given");
        of.taken.datagrams += 1;
        of.taken.bytes += bytes as u64;
        of.taken.truncated += 1;
    }

    /// Returns the position of input `input` in the order of events; `None` before its first packet
    /// with a position. One packet with a wrong key does not move it.
    #[must_use]
    pub fn position(&self, input: u16) -> Option<Position> {
        self.builder.position(input)
    }

    /// Returns true when packets of input `input` have positions in an order of events that all
    /// inputs share: by event keys or by sensors' times.
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

    /// Declares that input `input` is read on demand, in the order of events. No event closes
    /// before the input has passed it or has ended. All inputs of a run are then read like this.
    pub fn read_on_demand(&mut self, input: u16, times: Times) {
        if self.has_positions(input) {
            self.builder.read_on_demand(input, times);
        }
    }

    /// Ends input `input`: from now on no event waits for its sources.
    pub fn end_input(&mut self, input: u16) {
        self.builder.end_input(input);
    }

    /// Records whether datagrams of input `input` wait to be taken. While some wait, silence is
    /// measured by the times of arrival of the datagrams taken, so that a reader that stalls makes
    /// no source silent. Inputs that are read on demand, such as files, have unread datagrams until
    /// they end.
    #[inline]
    pub fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.builder.note_backlog(input, has_unread);
    }

    /// Returns true when the builder has memory for a datagram of `bytes`. Otherwise take a batch
    /// first, so that inputs that can wait lose nothing.
    #[inline]
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.builder.has_room(bytes)
    }

    /// Returns the messages to the user that are due at `now`: each once, and at most one a second
    /// of each kind.
    pub fn reports(&mut self, now: Moment) -> impl Iterator<Item = Said> + '_ {
        self.builder.reports(now)
    }

    /// Returns the messages that are left at the end of the run.
    pub fn last_reports(&mut self) -> impl Iterator<Item = Said> + '_ {
        self.builder.last_reports()
    }

    /// Closes events whose time is over at `now`.
    #[inline]
    pub fn poll(&mut self, now: Moment) {
        self.builder.poll(now);
    }

    /// Ends the run: packets kept aside are taken, and all events close. Take the last batch then.
    pub fn finish(&mut self, now: Moment) {
        let builder = &mut self.builder;
        self.readout.finish(|accepted, datagram, parsed| {
            builder.push(now, accepted, datagram, parsed);
        });
        builder.finish(now);
    }

    /// Returns the sources that appeared since the last call. Record them before the next batch.
    pub fn new_sources(&mut self) -> impl Iterator<Item = NewSource> + '_ {
        self.new_sources.drain(..)
    }

    /// Returns true when a batch should be taken at `now`.
    #[inline]
    #[must_use]
    pub fn batch_is_due(&self, now: Moment) -> bool {
        self.builder.batch_is_due(now)
    }

    /// Returns the events closed so far, and uses the memory of `spare` for the next ones.
    #[must_use]
    pub fn take_batch(&mut self, spare: EventBatch) -> EventBatch {
        self.builder.take_batch(spare)
    }

    /// Returns the readout with its sources, trackers and rejects.
    #[must_use]
    pub fn readout(&self) -> &Readout {
        &self.readout
    }

    /// Returns the builder with its counters.
    #[must_use]
    pub fn builder(&self) -> &Builder {
        &self.builder
    }

    /// Returns the readout's counts for input number `input`.
    #[must_use]
    pub fn taken(&self, input: u16) -> InputTaken {
        self.inputs.get(usize::from(input)).map_or(InputTaken::default(), |of| of.taken)
    }

    /// Returns the description of input number `input`.
    #[must_use]
    pub fn description(&self, input: u16) -> Option<&Description> {
        self.inputs.get(usize::from(input)).map(|of| &of.description)
    }

    /// Returns a broken rule in words.
    #[must_use]
    pub fn rule_name(&self, input: u16, reject: Reject) -> String {
        self.description(input).map_or(String::new(), |description| description.rule_name(reject))
    }

    /// Returns the counters of each source: the readout's and the builder's shares together.
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

/// Returns the label of a packet's source; `names` has the names of the inputs, which stand before
/// it where there is more than one.
#[must_use]
pub fn label_of(
    names: &[String],
    input: u16,
    description: &Description,
    parsed: &Parsed,
) -> String {
    let label = description.source_label(&parsed.source, parsed.packet);
    match names {
        [_] => label,
        _ => format!("{}/{label}", names[usize::from(input)]),
    }
}

/// Returns the readout's rules for a description's packet types. Types whose counters count alike
/// share one counter per source; a description that counts them separately names `packet` in
/// `source`.
#[must_use]
pub fn rules_of(description: &Description) -> FormatRules {
    let mut packets: Vec<PacketRule> = Vec::new();
    let types = description.packet_types();
    let steps_by_packet = |number: usize| {
        types[number].sequence.as_ref().is_some_and(|sequence| sequence.step_of.is_some())
    };
    for (number, packet) in types.iter().enumerate() {
        let sequence = packet.sequence.as_ref().map(|sequence| SequenceRule {
            last: sequence.last,
            step: sequence.step,
            timestamp_step_ns: sequence.timestamp_step_ns,
            timestamp_wrap_ns: packet.timestamp.as_ref().and_then(|stamp| stamp.wrap_ns),
        });
        // Where the types have different time stamps, the counter is still one.
        let counts =
            |rule: Option<SequenceRule>| rule.map(|r| (r.last, r.step, r.timestamp_step_ns));
        let class = packets.iter().enumerate().position(|(other, rule)| {
            counts(rule.sequence) == counts(sequence)
                && steps_by_packet(other) == steps_by_packet(number)
        });
        packets.push(PacketRule {
            sequence,
            sequence_class: class.unwrap_or(packets.len()) as u8,
            event_bits: packet.event.as_ref().map_or(0, |event| event.bits),
            count_bits: packet.counts.as_ref().map_or(0, |counts| counts.bits),
            spill_bits: packet
                .event
                .as_ref()
                .map_or(0, |event| event.spill.as_ref().map_or(0, |spill| spill.bits)),
        });
    }
    FormatRules { packets }
}
