//! Entries of records as packets of the partition's builder, with its numbers of sources and
//! inputs.

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::builder::Builder;
use fluxline_daq::readout::{Accepted, Counted};

use crate::entry::{Entry, Passed, RecordHead};
use crate::partition::{PartitionBuilder, SOURCES_MAX};
use crate::source::BuiltSource;

/// Bits of the number of restarts that count those of a packet counter; the rest has the starts of
/// its node.
const RESTARTS_BITS: u32 = 20;

impl PartitionBuilder {
    /// Takes an entry of a record.
    pub(crate) fn apply(&mut self, head: &RecordHead, entry: &Entry<'_>) {
        match entry {
            Entry::Source { source, input, label, format } => {
                let (node, label, format) = (head.node, (*label).into(), (*format).into());
                let number = self.sources.len() as u32;
                self.know(*source, BuiltSource { number, node, input: *input, label, format });
            }
            Entry::Packet { accepted, parsed, time, bytes } => {
                let accepted = self.renumbered(head.node, accepted);
                let has_gaps = self.has_gaps(head.node);
                let accepted = with_gap(&self.builder, has_gaps, accepted);
                let datagram = datagram(bytes, *time);
                self.now = self.now.max(*time);
                self.counts.taken += 1;
                self.builder.push(self.now, &accepted, &datagram, parsed);
            }
            Entry::Passed(passed) => self.follow(head.node, passed),
            Entry::InputEnd { input, .. } => {
                let input = self.input_of(head.node, *input);
                if self.has_gaps(head.node) {
                    self.builder.cut(); // no later packet shows what was in missing records
                }
                self.builder.end_input(input);
            }
        }
    }

    fn follow(&mut self, node: u16, passed: &Passed) {
        let renumbered = self.renumbered(node, &passed.accepted);
        let datagram = datagram(&[], passed.time);
        self.now = self.now.max(passed.time);
        let has_gaps = self.has_gaps(node);
        let (now, builder) = (self.now, &mut self.builder);
        passed.for_each(|accepted, parsed| {
            let Accepted { source, input, .. } = renumbered;
            let restarts = renumbered.counted.map_or(0, |counted| counted.restarts);
            let counted = accepted.counted.map(|counted| Counted { restarts, ..counted });
            let accepted = Accepted { source, input, counted, ..*accepted };
            let accepted = with_gap(builder, has_gaps, accepted);
            builder.pass(now, &accepted, &datagram, parsed);
        });
        self.counts.followed += u64::from(passed.count);
    }

    fn has_gaps(&self, node: u16) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.has_gaps)
    }

    /// Gives a source of a node its number here. A source with the same label at the same node, as
    /// after a new start of the node, keeps its number.
    fn know(&mut self, at_node: u32, source: BuiltSource) -> u32 {
        let is_it = |its: &&BuiltSource| its.node == source.node && its.label == source.label;
        let known = self.sources.iter().find(is_it).map(|its| its.number);
        let (number, node) = (known.unwrap_or(source.number), source.node);
        if known.is_none() {
            self.builder.name_source(number, &source.label);
            self.sources.push(source);
        }
        let list = &mut self.nodes.entry(node).or_default().sources;
        let place = at_node as usize;
        if place >= list.len() && place < SOURCES_MAX {
            list.resize(place + 1, None);
        }
        if let Some(of) = list.get_mut(place) {
            *of = Some(number);
        }
        number
    }

    /// Returns the findings about a packet with the numbers of source and input here.
    fn renumbered(&mut self, node: u16, accepted: &Accepted) -> Accepted {
        let of = self.nodes.entry(node).or_default();
        let known = of.sources.get(accepted.source as usize).copied().flatten();
        // The record that names the source is missing: it is counted there.
        let source = known.unwrap_or_else(|| {
            let (number, input) = (self.sources.len() as u32, accepted.input);
            let (label, format) = (format!("?{}", accepted.source), String::new());
            self.know(accepted.source, BuiltSource { number, node, input, label, format })
        });
        let input = self.input_of(node, self.sources[source as usize].input);
        // A node that started again follows the packet counters anew.
        let starts = self.nodes.get(&node).map_or(0, |of| of.start) << RESTARTS_BITS;
        let counted = accepted.counted.map(|counted| Counted {
            restarts: starts | (counted.restarts & ((1 << RESTARTS_BITS) - 1)),
            ..counted
        });
        Accepted { source, input, counted, ..*accepted }
    }

    /// Returns the number of a node's input here.
    fn input_of(&mut self, node: u16, input: u16) -> u16 {
        let of = self.nodes.entry(node).or_default();
        let next = self.inputs;
        let number = *of.inputs.entry(input).or_insert(next);
        if number == next {
            self.inputs += 1;
            // The marks of the node move the input's clock.
            if !of.reads_files && !of.left_out {
                self.builder.mark_input(number, Moment::default());
            }
        }
        number
    }
}

/// Returns the findings about a packet with the loss of the packets before it that were in missing
/// records: the readout had them, so it found no loss.
fn with_gap(builder: &Builder, has_gaps: bool, accepted: Accepted) -> Accepted {
    let Some(counted) = accepted.counted.filter(|of| has_gaps && !of.reordered) else {
        return accepted;
    };
    let newest = builder.newest_count(accepted.source, &counted);
    let gap = newest.map_or(0, |newest| counted.count.saturating_sub(newest.saturating_add(1)));
    let counted = Counted { missing: counted.missing.max(gap), ..counted };
    Accepted { counted: Some(counted), ..accepted }
}

fn datagram(bytes: &[u8], time: Moment) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 0, time }
}
