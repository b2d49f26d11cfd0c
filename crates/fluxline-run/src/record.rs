//! The stage of filter, recorder and subscribers, its thread, and the batches that circulate
//! between it and the readout.
//!
//! A fixed number of batches exists; the readout fills one, the recorder writes it and returns it
//! empty. A batch ends with a whole event, so it may be larger than configured; therefore the bytes
//! on the way are bounded too. So memory is bounded, and a slow disk makes the readout wait
//! (docs/adr/0003). A full or broken disk does not: the recorder then takes batches and counts them
//! as failed.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fluxline::{clock, pin};
use fluxline_core::Moment;
use fluxline_daq::builder::with_growth;
use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::{BatchFate, Ledger};
use fluxline_daq::record::{
    DIRECT_MEMORY_BYTES, Recorder, RecorderCounts, RecorderState, SourceLine, Storage, WriteFault,
};

use crate::events::{EndSubscriptions, Subscribers};
use crate::filter::{FilterStage, RejectedEvents, RunSource};
use crate::monitor::Monitor;
use crate::plots::{PlotTap, QUEUE};
use crate::sink::SinkStage;

/// A recorder on any storage.
pub(crate) type FileRecorder = Recorder<Box<dyn Storage + Send>>;

/// An item for the recorder.
enum Work {
    /// A source that batches will name, and the number of its input.
    Source(SourceLine, u16),
    /// A batch of events that closed.
    Batch(EventBatch, Wanted),
    /// Somebody waits until the batches before are safe.
    Mark(Mark),
}

/// A place between batches: its owner learns when everything before is recorded.
#[derive(Debug)]
pub(crate) struct Mark {
    /// No batch follows soon: the disk is forced for it.
    pub is_last: bool,
    pub to: Sender<Settled>,
}

/// The end of a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Batches in the files before the mark.
    pub batches: u64,
    /// They are as safe as the experiment asks for; false: the recorder has stopped.
    pub is_safe: bool,
}

/// The purpose of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To be written.
    Recorded,
    /// To be counted: the run is armed or paused.
    Counted,
}

/// The readout's end: sends filled batches, receives empty ones.
pub(crate) struct RecordQueue {
    work: SyncSender<Work>,
    empty: Receiver<EventBatch>,
    /// Batches that came back; the last is filled first, for its memory is still in the cache.
    spare: Vec<EventBatch>,
    /// Size of each batch on the way \[byte\], oldest first.
    on_the_way: VecDeque<u64>,
    /// Batches in `empty` that were never on the way.
    unused: usize,
    bounds: BatchBounds,
}

/// Bounds of the memory of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBounds {
    /// Number of batches between readout and disk.
    pub batches: u32,
    /// Intended size of a batch \[byte\].
    pub batch_bytes: u64,
}

impl BatchBounds {
    /// Returns the bounds of the batches between readout and recorder.
    pub(crate) fn of(experiment: &Experiment) -> BatchBounds {
        let record = &experiment.record;
        BatchBounds { batches: record.batches_max, batch_bytes: record.batch_bytes }
    }

    /// Returns the most memory of batches on the way, unless one alone is larger \[byte\].
    fn on_the_way_bytes(self) -> u64 {
        self.batch_bytes * u64::from(self.batches)
    }

    /// Returns the most memory of an empty batch \[byte\].
    fn empty_bytes(self) -> u64 {
        with_growth(self.batch_bytes) + SLACK_BYTES
    }

    /// Returns the most memory of batches, of the columns of the one that is written, and of direct
    /// writes \[byte\], as long as no single event is larger than all batches together.
    pub fn memory_bytes_max(self) -> u64 {
        // Those on the way, the one that is filled, the one that the readout keeps; the columns.
        let empty = self.empty_bytes() * u64::from(self.batches + 2);
        let filled = with_growth(self.on_the_way_bytes());
        empty + filled + self.empty_bytes() + DIRECT_MEMORY_BYTES as u64
    }
}

impl BatchBounds {
    /// Returns the most memory of the batches that wait for plots \[byte\].
    pub fn plots_bytes_max(self) -> u64 {
        self.empty_bytes() * QUEUE as u64
    }
}

/// Growth of four vectors by one step each \[byte\].
const SLACK_BYTES: u64 = 1 << 16;

/// The recorder's result at the end of a run.
pub(crate) struct Recorded {
    /// Its share of the ledger: the fate of each source's packets.
    pub ledger: Ledger,
    /// All of them together.
    pub counts: RecorderCounts,
    /// The fault that stopped recording before the run ended.
    pub fault: Option<WriteFault>,
}

/// The places that closed events go to, in turn.
pub(crate) struct Outlets {
    /// Decides which events go on.
    pub filter: FilterStage,
    /// The files; `None`: nothing is recorded.
    pub recorder: Option<FileRecorder>,
    /// Another place besides the files.
    pub sink: SinkStage,
    /// Programs that watch the events.
    pub subscribers: Subscribers,
    /// The plots over the whole run.
    pub plots: PlotTap,
}

/// Starts the recorder's thread; without a recorder, every packet counts as not recorded on
/// purpose.
pub(crate) fn start(
    outlets: Outlets,
    bounds: BatchBounds,
    core: Option<usize>,
    monitor: Monitor,
) -> (RecordQueue, JoinHandle<Recorded>) {
    let batches = bounds.batches as usize;
    let (work, incoming) = sync_channel(batches + 64);
    let (give_back, empty) = sync_channel(batches);
    for _ in 0..batches {
        let _ = give_back.send(EventBatch::default());
    }
    let thread = std::thread::spawn(move || {
        if let Some(core) = core {
            monitor.note(pin::pin_current_thread(core).err());
        }
        let _ended = EndSubscriptions(outlets.subscribers.clone());
        let rejected = RejectedEvents::default();
        let marks = VecDeque::new();
        let mut stage = RecordStage { outlets, rejected, bounds, monitor, marks };
        stage.outlets.sink.begin(&stage.monitor);
        for work in incoming {
            if let Some(batch) = stage.step(work, clock::now()) {
                let _ = give_back.send(batch);
            }
        }
        stage.finish()
    });
    let (spare, on_the_way) = (Vec::with_capacity(batches), VecDeque::with_capacity(batches + 1));
    (RecordQueue { work, empty, spare, on_the_way, unused: batches, bounds }, thread)
}

impl RecordQueue {
    /// Hands `batch` over and puts an empty one in its place; waits while the recorder is behind.
    pub fn exchange(&mut self, batch: EventBatch, wanted: Wanted) -> EventBatch {
        let cost = batch.cost();
        while !self.on_the_way.is_empty()
            && self.on_the_way.iter().sum::<u64>() + cost > self.bounds.on_the_way_bytes()
        {
            let Ok(empty) = self.empty.recv() else { break };
            self.came_back(empty);
        }
        self.on_the_way.push_back(cost);
        let _ = self.work.send(Work::Batch(batch, wanted));
        while let Ok(empty) = self.empty.try_recv() {
            self.came_back(empty);
        }
        if self.spare.is_empty()
            && let Ok(empty) = self.empty.recv()
        {
            self.came_back(empty);
        }
        self.spare.pop().unwrap_or_default()
    }

    /// Batches come back in the order in which they went; the first ones were never on the way.
    fn came_back(&mut self, empty: EventBatch) {
        match self.unused {
            0 => drop(self.on_the_way.pop_front()),
            _ => self.unused -= 1,
        }
        self.spare.push(empty);
    }

    /// Puts a mark behind the batches so far.
    pub fn mark(&self, mark: Mark) {
        let _ = self.work.send(Work::Mark(mark));
    }

    /// Names a source of input `input` before the first batch that has packets of it.
    pub fn source(&self, line: SourceLine, input: u16) {
        let _ = self.work.send(Work::Source(line, input));
    }
}

/// The recorder as a stage: lines of sources and batches in, empty batches out.
struct RecordStage {
    outlets: Outlets,
    rejected: RejectedEvents,
    bounds: BatchBounds,
    monitor: Monitor,
    /// Marks that wait, with the batches before them.
    marks: VecDeque<(Mark, u64)>,
}

impl RecordStage {
    /// Takes one item; returns the memory of a batch, empty.
    fn step(&mut self, work: Work, now: Moment) -> Option<EventBatch> {
        match work {
            Work::Source(line, input) => {
                self.add_source(&line, input);
                None
            }
            Work::Batch(batch, wanted) => {
                let empty = self.take(batch, wanted, now);
                self.settle();
                Some(empty)
            }
            Work::Mark(mark) => {
                self.marks.push_back((mark, self.batches_written()));
                self.settle();
                None
            }
        }
    }

    /// Answers the marks before which everything is safe.
    fn settle(&mut self) {
        while let Some((mark, batches)) = self.marks.front() {
            let recorder = self.outlets.recorder.as_mut();
            if let (true, Some(recorder)) = (mark.is_last, recorder) {
                self.monitor.note(recorder.force().err());
            }
            let recorder = self.outlets.recorder.as_ref();
            let has_stopped = recorder.is_some_and(|of| *of.state() != RecorderState::Recording);
            let is_safe = recorder.is_none_or(|of| of.safe_batches() >= *batches) && !has_stopped;
            if !is_safe && !has_stopped {
                return;
            }
            let _ = mark.to.send(Settled { batches: *batches, is_safe }); // its owner may have gone
            self.marks.pop_front();
        }
    }

    fn add_source(&mut self, line: &SourceLine, input: u16) {
        let source = RunSource { number: line.source, input, label: line.name.clone() };
        self.outlets.filter.add_source(&source);
        self.outlets.subscribers.add_source(&source);
        self.outlets.plots.add_source(&source);
        self.outlets.sink.add_source(line);
        if let Some(recorder) = &mut self.outlets.recorder {
            self.monitor.note(recorder.write_source(line).err());
        }
    }

    /// Filters, writes and shows a batch; returns its memory.
    fn take(&mut self, mut batch: EventBatch, wanted: Wanted, now: Moment) -> EventBatch {
        self.outlets.filter.apply(&mut batch, &mut self.rejected, &mut &self.monitor);
        let fate = match wanted {
            _ if batch.is_empty() => BatchFate::Filtered,
            Wanted::Recorded => self.write_and_send(&batch, now),
            Wanted::Counted => BatchFate::NotRecorded,
        };
        self.monitor.note_batch(&batch, fate);
        self.show(&mut batch, wanted, fate);
        batch.clear_to(self.bounds.empty_bytes());
        batch
    }

    /// Gives a batch to the plots, if it is in the files or would be if there were any, and to
    /// programs that watch.
    fn show(&mut self, batch: &mut EventBatch, wanted: Wanted, fate: BatchFate) {
        let Outlets { subscribers, plots, .. } = &mut self.outlets;
        let is_kept = matches!(fate, BatchFate::Recorded | BatchFate::NotRecorded);
        let is_plotted = is_kept && wanted == Wanted::Recorded;
        match (is_plotted, subscribers.any()) {
            (true, false) => return plots.offer(batch),
            (true, true) => plots.offer_copy(batch),
            (false, _) => {}
        }
        subscribers.offer(batch, fate);
    }

    /// Writes a batch, then gives it to the sink under its number in the files. A batch that is
    /// not in the files as one message is left to `fluxline ship`.
    fn write_and_send(&mut self, batch: &EventBatch, now: Moment) -> BatchFate {
        let before = self.batches_written();
        let fate = self.write(batch, now);
        let after = self.batches_written();
        let Outlets { recorder, sink, .. } = &mut self.outlets;
        if recorder.is_none() {
            sink.take(batch, &self.monitor);
        } else if fate == BatchFate::Recorded && after == before + 1 {
            sink.take_numbered(before, batch, &self.monitor);
        }
        fate
    }

    fn batches_written(&self) -> u64 {
        self.outlets.recorder.as_ref().map_or(0, |recorder| recorder.counts().batches)
    }

    fn write(&mut self, batch: &EventBatch, now: Moment) -> BatchFate {
        let Some(recorder) = &mut self.outlets.recorder else { return BatchFate::NotRecorded };
        let was_recording = *recorder.state() == RecorderState::Recording;
        let result = recorder.write(batch, now);
        self.monitor.publish_recorded(recorder.counts());
        match result {
            Ok(()) => BatchFate::Recorded,
            Err(fault) => {
                self.monitor.note(was_recording.then_some(fault));
                BatchFate::Failed
            }
        }
    }

    /// Completes the files, then waits for the sink.
    fn finish(self) -> Recorded {
        let RecordStage { outlets, monitor, .. } = self;
        let Outlets { recorder, mut sink, subscribers, .. } = outlets;
        let dropped = subscribers.end();
        monitor.note((dropped > 0).then(|| {
            format!("{dropped} events were not shown to a program that was too slow to take them")
        }));
        let end = recorder.map(|mut recorder| {
            let stopped = match recorder.state() {
                RecorderState::Stopped { reason } => Some(reason.clone()),
                _ => None,
            };
            (stopped.or(recorder.finish().err()), recorder.counts())
        });
        sink.finish(&monitor);
        let ledger = monitor.recorded_ledger();
        let (fault, counts) = end.unwrap_or_default();
        Recorded { ledger, counts, fault }
    }
}
