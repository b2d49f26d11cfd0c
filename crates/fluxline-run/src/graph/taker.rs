//! The packet taker of a readout node: packets in, records for the builders out.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use fluxline_cluster::ReadoutNode;
use fluxline_cluster::edges::{Offered, Outlets};
use fluxline_cluster::entry::read_record;
use fluxline_cluster::handover::{Handed, Handover};
use fluxline_core::{Datagram, Moment, Span, planted};
use fluxline_daq::ledger::Ledger;
use fluxline_daq::pipeline::InputTaken;
use fluxline_packet::Description;

use super::from_node::FromNode;
use super::parts::{Board, ReadoutPart};
use crate::built::name_rules;
use crate::monitor::Monitor;
use crate::taker::PacketTaker;

/// Time between two publications of counts.
const PUBLISH_EVERY: Span = Span::from_ms(100);
/// Rests after the end of a run in which a builder that never came may still come: about 10 s.
const RESTS_MAX: u32 = 10_000;
/// Time for which another node may be missing without a word.
pub(crate) const PATIENCE: Span = Span::from_ms(3_000);
/// Rests after which builders are asked again if they live, once all records are handed over.
const RESTS_PER_ASK: u32 = 16;
/// The longest sleep while a builder has no room.
const REST: Span = Span::from_ms(1);

/// An input of a readout.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    taken: InputTaken,
    /// Arrival of the newest packet taken.
    newest: Moment,
    /// Packets may wait to be taken.
    has_unread: bool,
}

/// Takes the packets of a readout's inputs.
pub(crate) struct GraphTaker<O> {
    number: u16,
    node: ReadoutNode,
    outlets: O,
    inputs: Vec<Input>,
    descriptions: Vec<Description>,
    /// The inputs have times of their own.
    reads_files: bool,
    /// Everything that arrived before was taken.
    mark: Moment,
    /// For each builder that has gone: packets that it was not given.
    lost: Vec<Option<u64>>,
    board: Board,
    monitor: Monitor,
    /// The time of the last check.
    checked: Moment,
    published: Moment,
    began: Option<Moment>,
    /// Builders that were not there were named.
    all_came: bool,
    /// The run is over, and a builder never came.
    gives_up: bool,
    /// The owners of partitions; `None`: a builder that dies has no successor.
    handover: Option<Handover>,
    /// The collector of a simulated world, which learns what this readout knows.
    to: Option<SyncSender<FromNode>>,
}

impl<O: Outlets> GraphTaker<O> {
    pub fn new(
        number: u16,
        node: ReadoutNode,
        outlets: O,
        descriptions: Vec<Description>,
        reads_files: bool,
        board: Board,
        monitor: Monitor,
    ) -> GraphTaker<O> {
        let taker = GraphTaker {
            number,
            node,
            outlets,
            inputs: vec![Input::default(); descriptions.len()],
            descriptions,
            reads_files,
            mark: Moment::default(),
            lost: vec![None; board.builders()],
            board,
            monitor,
            checked: Moment::default(),
            published: Moment::default(),
            began: None,
            all_came: false,
            gives_up: false,
            handover: None,
            to: None,
        };
        taker.publish(false);
        taker
    }

    /// Keeps records for the successors of builders that die.
    #[must_use]
    pub fn keeping(
        self,
        handover: Option<Handover>,
        to: Option<SyncSender<FromNode>>,
    ) -> GraphTaker<O> {
        GraphTaker { handover, to, ..self }
    }

    /// Gives waiting records to the owners of their partitions.
    fn hand_over_kept(&mut self) {
        let GraphTaker { number, node, outlets, handover, monitor, to, .. } = self;
        let Some(handover) = handover else { return };
        let had_crashed = handover.lost().iter().all(Option::is_some);
        handover.hand_over(node, outlets, &mut |what| match what {
            Handed::Gone { builder, why, to: Some(to) } => monitor.note(Some(format!(
                "builder-{builder} is gone ({why}): builder-{to} gets its keys, with what \
                 readout-{number} kept for it"
            ))),
            Handed::Gone { builder, why, to: None } => monitor.note(Some(format!(
                "builder-{builder} is gone ({why}): the events of its keys are not built from \
                 here on; their packets are counted as lost with it"
            ))),
            Handed::Saved { builder, number: state } => {
                let (builder, readout) = (builder as usize, usize::from(*number));
                if let Some(to) = to {
                    let _ = to.send(FromNode::Saved { builder, readout, number: state });
                }
            }
        });
        self.lost = handover.lost().to_vec();
        if outlets.has_crashed() && !had_crashed {
            monitor.note(Some(format!(
                "readout-{number} crashed: what it had taken and not handed over is lost with it"
            )));
        }
    }

    /// Waits until no builder needs what is kept here: all is recorded.
    fn wait_for_builders(&mut self) {
        let mut rests = 0;
        loop {
            self.hand_over();
            let Some(handover) = &mut self.handover else { return };
            if handover.is_done() {
                return;
            }
            if rests % RESTS_PER_ASK == 0 {
                handover.ask(&mut self.outlets);
            }
            self.outlets.rest(REST);
            rests += 1;
        }
    }

    /// Returns the edges.
    pub fn outlets(&mut self) -> &mut O {
        &mut self.outlets
    }

    /// Gives waiting records to the builders, as far as these have room.
    fn hand_over(&mut self) {
        if self.handover.is_some() {
            return self.hand_over_kept();
        }
        let GraphTaker { number, node, outlets, lost, monitor, gives_up, .. } = self;
        let _ = node.hand_over(|to, record| match outlets.offer(to, record) {
            Offered::Taken => Ok(()),
            Offered::Full if !*gives_up => Err(()),
            fate => {
                let why = match fate {
                    Offered::Gone(why) => why,
                    _ => "it never came".to_owned(),
                };
                let head = read_record(record).map(|(head, _)| head);
                let (has_crashed, is_first) =
                    (outlets.has_crashed(), lost.iter().all(Option::is_none));
                let of = &mut lost[to as usize];
                let has_crashed = has_crashed && !planted!(26);
                // A readout that crashed reaches nobody: that says nothing about the builders.
                if has_crashed && is_first {
                    monitor.note(Some(format!(
                        "readout-{number} crashed: what it had taken and not handed over is lost \
                         with it"
                    )));
                } else if of.is_none() && !has_crashed {
                    monitor.note(Some(format!(
                        "builder-{to} is gone ({why}): the events of its keys are not built from \
                         here on; their packets are counted as lost with it"
                    )));
                }
                let packets = head.map_or(0, |head| u64::from(head.packets));
                let before = of.get_or_insert(0);
                *before += if planted!(3) && *before > 0 { 0 } else { packets };
                Ok(())
            }
        });
        outlets.progress();
    }

    /// Returns the time up to which everything was taken.
    fn low_water(&self, now: Moment) -> Moment {
        if self.reads_files {
            return now;
        }
        let unread = self.inputs.iter().filter(|of| of.has_unread);
        unread.map(|of| of.newest).min().unwrap_or(now).min(now)
    }

    /// Returns the counts; `is_last` adds the lists that grow during a run.
    fn part(&self, is_last: bool) -> ReadoutPart {
        let readout = self.node.readout();
        let mut counts = Ledger::default();
        counts.add_readout(readout);
        name_rules(&mut counts.rejects, readout, |input| self.descriptions.get(usize::from(input)));
        if is_last {
            counts.add_missing(readout);
        }
        let deliveries = self.node.deliveries();
        let taken = self.inputs.iter().map(|of| of.taken).collect();
        let (lost, has_crashed) = (self.lost.clone(), self.outlets.has_crashed());
        ReadoutPart { counts, taken, deliveries, lost, has_crashed }
    }

    /// Says which builder is not there, once it has been waited for.
    fn look_for_builders(&mut self, now: Moment) {
        let began = *self.began.get_or_insert(now);
        if self.all_came || now.since(began) < PATIENCE {
            return;
        }
        self.all_came = true;
        if let Some((builder, why)) = self.outlets.waits_for() {
            self.monitor
                .note(Some(format!("readout-{} waits for builder-{builder}: {why}", self.number)));
        }
    }

    fn publish(&self, is_last: bool) {
        self.board.set_readout(self.number, self.part(is_last));
    }
}

impl<O: Outlets + 'static> PacketTaker for GraphTaker<O> {
    type Outcome = ();

    /// Takes a datagram; waits while the builders have no room and the memory is full.
    fn take(&mut self, input: u16, _now: Moment, datagram: &Datagram<'_>) {
        while self.node.is_full() {
            self.outlets.rest(REST);
            self.hand_over();
        }
        let before = (self.node.readout().rejected(), self.node.readout().refused());
        // A full record carries the last mark: packets of this turn are not all taken yet.
        self.node.take(input, self.mark, datagram);
        let of = &mut self.inputs[usize::from(input)];
        of.taken.datagrams += if planted!(2) && of.taken.datagrams == 96 { 2 } else { 1 };
        of.taken.bytes += datagram.bytes.len() as u64;
        of.taken.rejected += self.node.readout().rejected() - before.0;
        of.taken.refused += self.node.readout().refused() - before.1;
        of.newest = of.newest.max(datagram.time);
        if !self.node.is_handed_over() {
            self.hand_over();
        }
    }

    fn take_truncated(&mut self, input: u16, bytes: usize) {
        let of = &mut self.inputs[usize::from(input)].taken;
        of.datagrams += 1;
        of.bytes += bytes as u64;
        of.truncated += 1;
    }

    fn end_input(&mut self, input: u16) {
        self.note_backlog(input, false);
        let newest = self.inputs[usize::from(input)].newest;
        self.node.end_input(input, newest);
    }

    fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.inputs[usize::from(input)].has_unread = has_unread;
    }

    fn can_take(&self) -> bool {
        self.node.has_room()
    }

    /// Records go to the builders at their age, whatever the period of other checks.
    fn is_due(&self, now: Moment) -> bool {
        now.since(self.checked) >= self.node.record_age()
    }

    fn pause(&self) -> Duration {
        Duration::from_nanos(self.node.record_age().min(REST).as_ns())
    }

    fn check_time(&mut self, now: Moment, _ring_percent: usize) {
        self.checked = now;
        self.hand_over();
        // While packets wait in their rings for memory, the mark stays.
        if self.node.has_room() {
            self.mark = self.mark.max(self.low_water(now));
            let ahead = Span::from_ms(if planted!(1) { 20 } else { 0 });
            self.node.poll(self.mark + ahead);
            self.hand_over();
        }
        if now.since(self.published) >= PUBLISH_EVERY {
            self.published = now;
            self.publish(false);
            self.look_for_builders(now);
        }
    }

    /// Gives the last records to the builders, however long these take.
    fn finish(mut self, now: Moment) {
        self.mark = self.mark.max(now);
        self.node.finish(self.mark);
        let mut rests = 0;
        loop {
            self.hand_over();
            if self.node.is_handed_over() || planted!(4) {
                break;
            }
            self.outlets.rest(REST);
            rests += 1;
            let absent = self.outlets.waits_for().filter(|_| rests >= RESTS_MAX);
            self.gives_up = absent.is_some();
            if let (Some((builder, _)), Some(handover)) = (absent, &mut self.handover) {
                handover.give_up(builder as u32);
            }
        }
        self.wait_for_builders();
        while !self.outlets.finish() {
            self.outlets.rest(REST);
        }
        self.publish(true);
    }
}
