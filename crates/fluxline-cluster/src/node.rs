//! The readout node: datagrams in, records for the partitions out.
//!
//! Every packet goes to the partition of its key with its bytes, and to all others without them: a
//! builder must know how far each source has come. Consecutive packets for others are one short
//! entry (`followed.rs`), so a packet costs about one such entry over all partitions, however
//! many there are.

use std::collections::VecDeque;

use fluxline_core::{Datagram, Moment, Span, planted};
use fluxline_daq::builder::Mode;
use fluxline_daq::pipeline::{label_of, rules_of};
use fluxline_daq::readout::{Accepted, Readout, ReadoutLimits};
use fluxline_packet::{Description, Parsed, Program};

use crate::edge::Delivery;
use crate::entry::{Entry, RecordHead, RecordWriter};
use crate::followed::{Followed, Step};
use crate::kept::Kept;
use crate::router::Router;

/// Configuration of a readout node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The run.
    pub run: u64,
    /// The node's number, which no other node of the run has.
    pub node: u16,
    /// Number of starts of this node in this run before.
    pub start: u32,
    /// The rule by which packets become events.
    pub mode: Mode,
    /// Size at which a record is sent \[byte\].
    pub record_bytes: usize,
    /// Age at which records are sent, with the low-water mark.
    pub record_age: Span,
    /// Most memory of records that the log has not taken \[byte\].
    pub memory_bytes: usize,
}

/// Most bytes of a record above [`NodeConfig::record_bytes`]: the packets of one source that other
/// partitions store, and the longest packet.
pub const RECORD_EXCESS_MAX: usize = 160 << 10;

/// Counts of a readout node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Datagrams taken.
    pub datagrams: u64,
    /// Datagrams that the description rejected.
    pub rejected: u64,
    /// Packets handed over: stored by a partition.
    pub handed: u64,
    /// Packets dropped because the log took nothing and the memory was full.
    pub dropped: u64,
    /// Records handed over.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Bytes of packets in them.
    pub packet_bytes: u64,
}

/// One input of a node.
struct Input {
    description: Description,
    program: Program,
}

/// The part of a node for one partition.
#[derive(Default)]
struct Lane {
    writer: RecordWriter,
    /// Number of packets in the record.
    packets: u32,
    /// Number of packets in the records before.
    packets_before: u64,
    sequence: u64,
    /// Sources are named in the record.
    has_names: bool,
    /// The mark of the last record.
    mark: Moment,
    /// Records that the log took, and packets in them.
    records_handed: u64,
    packets_handed: u64,
}

/// A record that the log has not taken.
struct Waiting {
    partition: u32,
    sequence: u64,
    has_names: bool,
    bytes: Vec<u8>,
    packets: u32,
}

/// A readout node.
pub struct ReadoutNode {
    config: NodeConfig,
    inputs: Vec<Input>,
    readout: Readout,
    to_log: ToLog,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Memory of records that the log has taken, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Records that were handed over, for a successor of their builder.
    kept: Kept,
    flushed: Moment,
    /// Number of pauses and resumptions of the run.
    changes: u32,
    counts: NodeCounts,
}

/// The way of accepted packets to the records of all partitions.
struct ToLog {
    node: u16,
    router: Router,
    lanes: Vec<Lane>,
    followed: Followed,
    record_bytes: usize,
    /// Partitions whose records have reached their size.
    full: Vec<u32>,
    /// Names of the inputs, which stand before labels.
    names: Vec<String>,
    labelled: u32,
    /// Sources that appeared, with their labels.
    labels: Vec<(u32, String)>,
    packet_bytes: u64,
}

impl ToLog {
    fn deliver(
        &mut self,
        description: &Description,
        accepted: &Accepted,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
    ) {
        if accepted.source >= self.labelled {
            self.labelled = accepted.source + 1;
            self.introduce(description, accepted, parsed);
        }
        let (time, bytes) = (datagram.time, datagram.bytes);
        let source_key = (u64::from(self.node) << 32) | u64::from(accepted.source);
        let target = self.router.target(source_key, parsed, time);
        let partition = target.partition as usize;
        let lane = &mut self.lanes[partition];
        let is_followed = self.router.is_followed();
        if is_followed {
            self.followed.write(accepted.source, partition, &mut lane.writer);
        }
        lane.packets += 1;
        lane.writer.add(&Entry::Packet { accepted: *accepted, parsed: *parsed, time, bytes });
        if lane.writer.len() >= self.record_bytes {
            self.full.push(target.partition);
        }
        if is_followed {
            let step = Step { accepted, parsed, time, window: target.window };
            if self.followed.add(&step, partition) {
                self.write_source(accepted.source);
            }
        }
        self.packet_bytes += bytes.len() as u64;
    }

    /// Writes the packets of a source to all partitions that follow them.
    fn write_source(&mut self, source: u32) {
        for (partition, lane) in self.lanes.iter_mut().enumerate() {
            self.followed.write(source, partition, &mut lane.writer);
        }
        self.followed.forget(source);
        self.note_full();
    }

    /// Notes the partitions whose records have reached their size.
    fn note_full(&mut self) {
        let is_full = |lane: &Lane| lane.writer.len() >= self.record_bytes;
        let lanes = (0..).zip(&self.lanes);
        self.full.extend(lanes.filter(|(_, lane)| is_full(lane)).map(|(partition, _)| partition));
    }

    /// Names a source to all partitions before its first packet.
    fn introduce(&mut self, description: &Description, accepted: &Accepted, parsed: &Parsed) {
        let label = label_of(&self.names, accepted.input, description, parsed);
        let (source, input) = (accepted.source, accepted.input);
        for lane in &mut self.lanes {
            let format = description.name();
            lane.writer.add(&Entry::Source { source, input, label: &label, format });
            lane.has_names = true;
        }
        self.labels.push((source, label));
        self.note_full();
    }
}

impl ReadoutNode {
    /// Makes a node with these inputs (name and description) for a log of `partitions`.
    #[must_use]
    pub fn new(
        mut config: NodeConfig,
        inputs: Vec<(String, Description)>,
        partitions: u32,
    ) -> ReadoutNode {
        if planted!(27) {
            config.record_bytes = usize::MAX;
        }
        let (names, descriptions): (Vec<String>, Vec<Description>) = inputs.into_iter().unzip();
        let rules = descriptions.iter().map(rules_of).collect();
        let to_log = ToLog {
            node: config.node,
            router: Router::new(config.mode, partitions, &descriptions),
            lanes: (0..partitions.max(1)).map(|_| Lane::default()).collect(),
            followed: Followed::new(partitions.max(1) as usize),
            record_bytes: config.record_bytes,
            full: Vec::new(),
            names,
            labelled: 0,
            labels: Vec::new(),
            packet_bytes: 0,
        };
        let input = |description: Description| {
            let program = description.program().clone();
            Input { description, program }
        };
        ReadoutNode {
            readout: Readout::new(rules, ReadoutLimits::default()),
            inputs: descriptions.into_iter().map(input).collect(),
            to_log,
            config,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            spare: Vec::new(),
            kept: Kept::default(),
            flushed: Moment::default(),
            changes: 0,
            counts: NodeCounts::default(),
        }
    }

    /// Refuses packets of more sources than this; call it before the first packet.
    #[must_use]
    pub fn with_sources_max(mut self, sources_max: usize) -> ReadoutNode {
        let rules = self.inputs.iter().map(|input| rules_of(&input.description)).collect();
        let limits = ReadoutLimits { sources_max, ..ReadoutLimits::default() };
        self.readout = Readout::new(rules, limits);
        self
    }

    /// Keeps records that were handed over, in at most this memory \[byte\], until
    /// [`Self::free_kept`] frees them. Memory beyond it: one record for each partition.
    #[must_use]
    pub fn keeping(mut self, bytes_max: usize) -> ReadoutNode {
        self.kept = Kept::new(bytes_max, self.to_log.lanes.len());
        self
    }

    /// Frees the kept records of a partition before number `reached`.
    pub fn free_kept(&mut self, partition: u32, reached: u64) {
        let ReadoutNode { kept, spare, to_log, .. } = self;
        kept.free(partition as usize, reached, |memory| {
            if spare.len() < to_log.lanes.len() {
                spare.push(memory);
            }
        });
    }

    /// Returns the oldest kept record of a partition from this number on, and its number.
    #[must_use]
    pub fn kept_from(&self, partition: u32, sequence: u64) -> Option<(u64, &[u8])> {
        self.kept.from(partition as usize, sequence)
    }

    /// Returns true when a successor can go on with a partition from a state that has the records
    /// before `reached`: it knows all sources that later records name.
    #[must_use]
    pub fn can_go_on(&self, partition: u32, reached: u64) -> bool {
        self.kept.can_go_on(partition as usize, reached)
    }

    /// Returns the memory of kept records \[byte\].
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Takes one datagram of input number `input` at `now`.
    ///
    /// Returns false when it was dropped and counted: the memory for records is full.
    pub fn take(&mut self, input: u16, now: Moment, datagram: &Datagram<'_>) -> bool {
        assert!(usize::from(input) < self.inputs.len(), "input {input} is not of the experiment");
        let of = &mut self.inputs[usize::from(input)];
        self.counts.datagrams += 1;
        let parsed = match of.program.parse(datagram) {
            Ok(parsed) => parsed,
            Err(reject) => {
                self.counts.rejected += 1;
                self.readout.reject(input, reject, datagram);
                return true;
            }
        };
        if self.waiting_bytes >= self.config.memory_bytes {
            self.counts.dropped += 1;
            return false;
        }
        let ReadoutNode { readout, to_log, inputs, .. } = self;
        let description = &inputs[usize::from(input)].description;
        readout.accept(input, datagram, &parsed, |accepted, datagram, parsed| {
            to_log.deliver(description, accepted, datagram, parsed);
        });
        self.set_labels();
        self.flush_when_due(now);
        true
    }

    /// Gives the sources that appeared their labels in reports.
    fn set_labels(&mut self) {
        for (source, label) in self.to_log.labels.drain(..) {
            self.readout.set_label(source, label);
        }
    }

    /// Sends the records that are old or large enough.
    fn flush_when_due(&mut self, now: Moment) {
        if now.since(self.flushed) >= self.config.record_age {
            self.flush(now, false);
        } else {
            while let Some(partition) = self.to_log.full.pop() {
                let size = self.to_log.lanes[partition as usize].writer.len();
                if size >= self.config.record_bytes {
                    self.close_record(partition as usize, now, false);
                }
            }
        }
    }

    /// Sends the low-water mark `now` and all packets to every partition.
    pub fn poll(&mut self, now: Moment) {
        if now.since(self.flushed) >= self.config.record_age {
            self.flush(now, false);
        }
    }

    /// Ends an input at `now`: it gives no more packets, and events do not wait for its sources.
    pub fn end_input(&mut self, input: u16, now: Moment) {
        for partition in 0..self.to_log.lanes.len() {
            self.write_followed(partition);
            self.to_log.lanes[partition].writer.add(&Entry::InputEnd { input, time: now });
        }
        self.to_log.followed.clear();
    }

    /// Ends the node: the last packets and an end mark go to every partition.
    pub fn finish(&mut self, now: Moment) {
        let ReadoutNode { readout, to_log, inputs, .. } = self;
        readout.finish(|accepted, datagram, parsed| {
            let of = &inputs[usize::from(accepted.input)];
            to_log.deliver(&of.description, accepted, datagram, parsed);
        });
        self.set_labels();
        self.flush(now, true);
    }

    fn flush(&mut self, now: Moment, is_end: bool) {
        self.flushed = now;
        (0..self.to_log.lanes.len())
            .for_each(|partition| self.close_record(partition, now, is_end));
        self.to_log.followed.clear();
        self.to_log.full.clear();
    }

    /// Writes the packets of all sources that a partition does not know yet. A record ends at its
    /// size, with the last mark: what came up to the next one is not all written.
    fn write_followed(&mut self, partition: usize) {
        for source in 0..self.to_log.followed.sources() {
            let ToLog { lanes, followed, .. } = &mut self.to_log;
            let lane = &mut lanes[partition];
            followed.write(source, partition, &mut lane.writer);
            if lane.writer.len() >= self.config.record_bytes {
                let mark = lane.mark;
                self.end_record(partition, mark, false);
            }
        }
    }

    fn close_record(&mut self, partition: usize, mark: Moment, is_end: bool) {
        self.write_followed(partition);
        self.end_record(partition, mark, is_end);
    }

    /// Ends the record of a partition.
    fn end_record(&mut self, partition: usize, mark: Moment, is_end: bool) {
        let NodeConfig { run, node, start, .. } = self.config;
        let lane = &mut self.to_log.lanes[partition];
        lane.mark = mark;
        let packets = std::mem::take(&mut lane.packets);
        let has_names = std::mem::take(&mut lane.has_names);
        let (sequence, packets_before) = (lane.sequence, lane.packets_before);
        let (changes, is_absence) = (self.changes, false);
        let head = RecordHead {
            run,
            node,
            start,
            sequence,
            packets_before,
            packets,
            mark,
            changes,
            is_end,
            is_absence,
        };
        lane.sequence += 1;
        lane.packets_before += u64::from(packets);
        let bytes = lane.writer.finish(&head);
        if let Some(memory) = self.spare.pop() {
            lane.writer.reuse(memory);
        }
        if planted!(5) && sequence == 7 {
            return;
        }
        self.waiting_bytes += bytes.len();
        let partition = partition as u32;
        self.waiting.push_back(Waiting { partition, sequence, has_names, bytes, packets });
    }

    /// Notes the number of pauses and resumptions of the run so far: the builders follow it.
    pub fn set_changes(&mut self, changes: u32) {
        self.changes = self.changes.max(changes);
    }

    /// Hands waiting records to `append` (partition, record), in order.
    ///
    /// Errors: those of `append`; the record and those behind it wait. Call it again.
    pub fn hand_over<E>(
        &mut self,
        mut append: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(record) = self.waiting.front() {
            append(record.partition, &record.bytes)?;
            self.counts.records += 1;
            self.counts.bytes += record.bytes.len() as u64;
            self.counts.handed += u64::from(record.packets);
            let lane = &mut self.to_log.lanes[record.partition as usize];
            lane.records_handed += 1;
            lane.packets_handed += u64::from(record.packets);
            self.waiting_bytes -= record.bytes.len();
            let Some(Waiting { partition, sequence, has_names, bytes, .. }) =
                self.waiting.pop_front()
            else {
                break;
            };
            if self.kept.is_on() {
                self.kept.push(partition as usize, sequence, bytes, has_names);
            } else if self.spare.len() < self.to_log.lanes.len() {
                self.spare.push(bytes);
            }
        }
        Ok(())
    }

    /// Returns true while records that wait for the log fill less than half of the memory. The rest
    /// is for packets that are being taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting_bytes * 2 < self.config.memory_bytes
    }

    /// Returns true when the next packet would be dropped, for want of memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting_bytes >= self.config.memory_bytes
    }

    /// Returns true when the log has taken all records.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> NodeCounts {
        NodeCounts { packet_bytes: self.to_log.packet_bytes, ..self.counts }
    }

    /// Returns the age at which records are sent.
    #[must_use]
    pub fn record_age(&self) -> Span {
        self.config.record_age
    }

    /// Returns the node's number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.config.node
    }

    /// Returns the packets handed over to each partition.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        let delivery = |(partition, lane): (u32, &Lane)| Delivery {
            partition,
            records: lane.records_handed,
            packets: lane.packets_handed,
            waiting: lane.packets_before + u64::from(lane.packets) - lane.packets_handed,
        };
        (0..).zip(&self.to_log.lanes).map(delivery).collect()
    }

    /// Returns the readout with its sources and their counters.
    #[must_use]
    pub fn readout(&self) -> &Readout {
        &self.readout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxline_core::SenderAddress;
    use fluxline_core::random::{Draw, test_count, test_seed};
    use fluxline_daq::builder::Scope;
    use std::collections::BTreeMap;

    #[test]
    fn a_record_is_longer_than_promised_where_sources_are_many_and_break_their_runs() {
        const BOARDS: usize = 300;
        let mut draw = Draw::new(test_seed!(73));
        let description = fluxline_daq::formats::load("counter", &BTreeMap::new()).expect("it is");
        let config = NodeConfig {
            run: 1,
            node: 0,
            start: 0,
            mode: Mode::Key(Scope::Global),
            record_bytes: 64 << 10,
            record_age: Span::from_ms(10_000),
            memory_bytes: 1 << 30,
        };
        let inputs = vec![("boards".to_owned(), description.description)];
        let mut node = ReadoutNode::new(config, inputs, 64);
        let (mut longest, mut packets, mut handed) = (0, 0, 0);
        let mut take = |_: u32, record: &[u8]| {
            longest = longest.max(record.len());
            handed += crate::entry::read_record(record).map_or(0, |(head, _)| head.packets);
            Ok::<(), ()>(())
        };
        let mut numbers = [0_u32; BOARDS];
        for turn in 0..test_count!(100_000) {
            let board = draw.below(BOARDS as u64) as usize;
            // A jump ends the run; each partition has few packets of its own.
            numbers[board] += 1 + draw.below(3) as u32;
            let event = (u64::from(numbers[board]) << 20) + draw.below(1 << 20);
            let mut bytes = 0x4358_4C46_u32.to_le_bytes().to_vec();
            bytes.extend_from_slice(&[1, 0]);
            bytes.extend_from_slice(&(board as u16).to_le_bytes());
            bytes.extend_from_slice(&numbers[board].to_le_bytes());
            bytes.extend_from_slice(&[0, 0, 1, 0]);
            bytes.extend_from_slice(&event.to_le_bytes());
            bytes.extend_from_slice(&turn.to_le_bytes());
            bytes.resize(if draw.chance(0.001) { 65_507 } else { 40 }, 0);
            let time = Moment::from_ns(1_700_000_000_000_000_000 + turn * 1_000);
            let sender = SenderAddress::NONE;
            packets += 1;
            node.take(0, time, &Datagram { bytes: &bytes, sender, port: 0, time });
            node.hand_over(&mut take).expect("taken");
        }
        let end = Moment::from_ns(1_700_000_010_000_000_000);
        node.end_input(0, end);
        node.finish(end);
        node.hand_over(&mut take).expect("taken");
        println!("longest record: {longest} bytes");
        assert_eq!(handed, packets);
        assert!(longest <= (64 << 10) + RECORD_EXCESS_MAX, "{longest}");
    }
}
