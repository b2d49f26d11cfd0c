//! Packets that one partition stores and all others follow, source by source.
//!
//! The packets of a source are kept as runs of consecutive ones. A partition gets those that it
//! does not know yet when it needs them: before the source's next packet of its own, and at the end
//! of a record. So a packet costs the same however many partitions there are.

use fluxline_core::Moment;
use fluxline_daq::readout::Accepted;
use fluxline_packet::{Parsed, Part};

use crate::entry::{Entry, Passed, RecordWriter};

/// Most runs of a source that are kept: they are written together. A source that breaks its runs
/// more often costs an entry for each run and partition.
const RUNS_MAX: usize = 1024;

/// The packets of all sources since the last flush.
#[derive(Debug)]
pub struct Followed {
    partitions: usize,
    sources: Vec<Source>,
}

/// The packets of one source.
#[derive(Debug)]
struct Source {
    runs: Vec<Run>,
    packets: u64,
    /// Number of packets that each partition knows.
    known: Vec<u64>,
}

/// Consecutive packets of one window.
#[derive(Debug)]
struct Run {
    /// Number of the first packet.
    first: u64,
    window: Option<Window>,
    passed: Passed,
}

/// The window of a packet, where time makes the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of the window.
    pub number: u64,
    /// True if the sensor's clock makes it.
    pub by_sensor: bool,
}

/// A packet on its way into a partition.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The readout's findings.
    pub accepted: &'a Accepted,
    /// The parsed roles.
    pub parsed: &'a Parsed,
    /// Time of arrival.
    pub time: Moment,
    /// Its window.
    pub window: Option<Window>,
}

impl Followed {
    /// Makes the list for this number of partitions.
    pub fn new(partitions: usize) -> Followed {
        Followed { partitions, sources: Vec::new() }
    }

    /// Writes the packets of a source that `partition` does not know yet.
    pub fn write(&mut self, source: u32, partition: usize, writer: &mut RecordWriter) {
        if let Some(of) = self.sources.get_mut(source as usize) {
            of.write(partition, writer);
        }
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> u32 {
        self.sources.len() as u32
    }

    /// Writes the packets of all sources that `partition` does not know yet.
    #[cfg(test)]
    pub fn write_all(&mut self, partition: usize, writer: &mut RecordWriter) {
        self.sources.iter_mut().for_each(|source| source.write(partition, writer));
    }

    /// Adds a packet that `partition` has stored. Returns true when the source must be written to
    /// all partitions and forgotten.
    #[must_use]
    pub fn add(&mut self, step: &Step<'_>, partition: usize) -> bool {
        let place = step.accepted.source as usize;
        let partitions = self.partitions;
        if self.sources.len() <= place {
            self.sources.resize_with(place + 1, || Source::new(partitions));
        }
        let of = &mut self.sources[place];
        of.add(step);
        of.known[partition] = of.packets;
        of.runs.len() >= RUNS_MAX
    }

    /// Forgets the packets of a source, which all partitions know.
    pub fn forget(&mut self, source: u32) {
        if let Some(of) = self.sources.get_mut(source as usize) {
            of.clear();
        }
    }

    /// Forgets all packets, which all partitions know.
    pub fn clear(&mut self) {
        self.sources.iter_mut().for_each(Source::clear);
    }
}

impl Source {
    fn new(partitions: usize) -> Source {
        Source { runs: Vec::new(), packets: 0, known: vec![0; partitions] }
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.packets = 0;
        self.known.fill(0);
    }

    fn add(&mut self, step: &Step<'_>) {
        let number = self.packets;
        self.packets += 1;
        let parsed = roles_of(step);
        let accepted = Accepted { sequence: None, ..*step.accepted };
        if let Some(run) = self.runs.last_mut()
            && run.window == step.window
            && run.passed.extend(&accepted, &parsed, step.time)
        {
            return;
        }
        let passed = Passed::one(&accepted, &parsed, step.time);
        self.runs.push(Run { first: number, window: step.window, passed });
    }

    fn write(&mut self, partition: usize, writer: &mut RecordWriter) {
        let known = std::mem::replace(&mut self.known[partition], self.packets);
        if known == self.packets {
            return;
        }
        let first = self.runs.partition_point(|run| run.end() <= known);
        for run in &self.runs[first..] {
            let passed = run.passed.without_first(known.saturating_sub(run.first) as u32);
            writer.add(&Entry::Passed(passed));
        }
    }
}

impl Run {
    fn end(&self) -> u64 {
        self.first + u64::from(self.passed.count)
    }
}

/// Returns the roles that count where another partition stores the packet.
fn roles_of(step: &Step<'_>) -> Parsed {
    let by_sensor = step.window.is_some_and(|window| window.by_sensor);
    let part = match step.parsed.part {
        part @ Part::Index { .. } if step.window.is_none() => part,
        _ => Part::Whole,
    };
    Parsed {
        sequence: None,
        event: step.parsed.event.filter(|_| step.window.is_none()),
        sensor_time_ns: step.parsed.sensor_time_ns.filter(|_| by_sensor),
        part,
        payload_start: 0,
        payload_bytes: 0,
        ..*step.parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{RecordHead, read_record};
    use fluxline_core::SenderAddress;
    use fluxline_core::random::{Draw, test_count, test_seed};
    use fluxline_daq::readout::Counted;
    use fluxline_packet::SourceKey;

    fn packet(draw: &mut Draw, count: u64, parts: u32) -> (Accepted, Parsed) {
        let counted = Counted { class: 0, count, missing: 0, reordered: false, restarts: 0 };
        let accepted = Accepted {
            source: draw.below(2) as u32,
            input: 0,
            epoch: 0,
            sequence: Some(count),
            counted: Some(counted),
            event_bits: 64,
            spill_bits: 64,
        };
        let index = (count % u64::from(parts)) as u32;
        let part = if parts > 1 { Part::Index { index, count: parts } } else { Part::Whole };
        let parsed = Parsed {
            step: None,
            counts: None,
            packet: 0,
            source: SourceKey { sender: SenderAddress::NONE, terms: 0 },
            sequence: Some(count),
            event: draw.chance(0.99).then_some(count / u64::from(parts) * 3),
            spill: None,
            part,
            sensor_time_ns: Some(count),
            payload_start: 8,
            payload_bytes: 100,
        };
        (accepted, parsed)
    }

    /// The list that each partition has followed: its own packets left out.
    type Model = Vec<Vec<(u32, Option<u64>, Option<u64>, Part)>>;

    fn read(writer: &mut RecordWriter, into: &mut Vec<(u32, Option<u64>, Option<u64>, Part)>) {
        let head = RecordHead {
            run: 0,
            node: 0,
            start: 0,
            sequence: 0,
            packets_before: 0,
            packets: 0,
            mark: Moment::default(),
            changes: 0,
            is_end: false,
            is_absence: false,
        };
        let record = writer.finish(&head);
        let (_, mut entries) = read_record(&record).expect("a record");
        for entry in entries.by_ref() {
            let Entry::Passed(passed) = entry else { panic!("not followed: {entry:?}") };
            passed.for_each(|accepted, parsed| {
                let count = accepted.counted.map(|counted| counted.count);
                into.push((accepted.source, count, parsed.event, parsed.part));
            });
        }
        assert!(entries.is_at_end());
    }

    #[test]
    fn no_partition_misses_a_packet_of_another_one_or_gets_its_own() {
        let mut draw = Draw::new(test_seed!(71));
        for _ in 0..test_count!(100) {
            let partitions = 1 + draw.below(5) as usize;
            let parts = 1 + draw.below(3) as u32;
            let mut followed = Followed::new(partitions);
            let mut expected: Model = vec![Vec::new(); partitions];
            let mut found = expected.clone();
            let mut writers: Vec<_> = (0..partitions).map(|_| RecordWriter::default()).collect();
            let mut counts = [0, 0];
            for _ in 0..300 {
                let source = draw.below(2) as u32;
                let count = &mut counts[source as usize];
                *count += 1 + u64::from(draw.chance(0.02));
                let (mut accepted, parsed) = packet(&mut draw, *count, parts);
                accepted.source = source;
                let target = draw.below(partitions as u64) as usize;
                let time = Moment::from_ns(*count);
                followed.write(source, target, &mut writers[target]);
                let step = Step { accepted: &accepted, parsed: &parsed, time, window: None };
                assert!(!followed.add(&step, target));
                for (partition, of) in expected.iter_mut().enumerate() {
                    if partition != target {
                        of.push((source, Some(*count), parsed.event, parsed.part));
                    }
                }
                if draw.chance(0.05) {
                    let partition = draw.below(partitions as u64) as usize;
                    followed.write_all(partition, &mut writers[partition]);
                }
                if draw.chance(0.02) {
                    for (partition, writer) in writers.iter_mut().enumerate() {
                        followed.write_all(partition, writer);
                        read(writer, &mut found[partition]);
                    }
                    followed.clear();
                }
            }
            for (partition, writer) in writers.iter_mut().enumerate() {
                followed.write_all(partition, writer);
                read(writer, &mut found[partition]);
            }
            for (found, expected) in found.iter_mut().zip(&mut expected) {
                // The order between sources is free.
                found.sort_by_key(|its| its.0);
                expected.sort_by_key(|its| its.0);
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_source_that_breaks_its_runs_keeps_bounded_memory() {
        let mut draw = Draw::new(test_seed!(72));
        let mut followed = Followed::new(3);
        let mut writer = RecordWriter::default();
        let mut forgotten = 0;
        for count in 0..20_000 {
            let (mut accepted, parsed) = packet(&mut draw, count * 2, 1);
            accepted.source = 0;
            let time = Moment::default();
            let step = Step { accepted: &accepted, parsed: &parsed, time, window: None };
            if followed.add(&step, 0) {
                forgotten += 1;
                followed.write(0, 1, &mut writer);
                followed.forget(0);
            }
            assert!(followed.sources[0].runs.len() < RUNS_MAX);
        }
        assert!(forgotten >= 4, "{forgotten}");
    }
}
