//! The recorder's thread, and the batches that circulate between it and the readout.
//!
//! A fixed number of batches exists; the readout fills one, the recorder writes it and gives it
//! back empty. So memory is bounded, and a slow disk makes the readout wait (docs/adr/0003). A disk
//! that is full or broken does not: the recorder then takes batches and counts them as failed.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fluxline::{clock, pin};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{BatchFate, Ledger};
use fluxline_daq::record::{Recorder, RecorderCounts, RecorderState, SourceLine, WriteFault};

use super::live::Live;

/// What the readout sends to the recorder.
enum Work {
    /// A source that batches will name.
    Source(SourceLine),
    /// A batch to write.
    Batch(EventBatch),
}

/// The readout's end: gives filled batches away, gets empty ones.
pub struct RecordQueue {
    work: SyncSender<Work>,
    empty: Receiver<EventBatch>,
    /// Batches that came back; the last is filled first, for its memory is still in the cache.
    spare: Vec<EventBatch>,
}

/// What the recorder had done when the run was over.
pub struct Recorded {
    /// What became of each source's packets.
    pub ledger: Ledger,
    /// All of them together.
    pub counts: RecorderCounts,
    /// Why recording stopped before the run did.
    pub fault: Option<WriteFault>,
}

/// Starts the recorder's thread; without a recorder, every packet counts as not to be recorded.
pub fn start(
    recorder: Option<Recorder>,
    batches: u32,
    core: Option<usize>,
    live: Live,
) -> (RecordQueue, JoinHandle<Recorded>) {
    let (work, incoming) = sync_channel(batches as usize + 64);
    let (give_back, empty) = sync_channel(batches as usize);
    for _ in 0..batches {
        let _ = give_back.send(EventBatch::default());
    }
    let thread = std::thread::spawn(move || {
        if let Some(core) = core {
            live.note(pin::pin_current_thread(core).err());
        }
        run(recorder, &incoming, &give_back, &live)
    });
    (RecordQueue { work, empty, spare: Vec::with_capacity(batches as usize) }, thread)
}

impl RecordQueue {
    /// Hands `batch` over and puts an empty one in its place; waits while the recorder is behind.
    pub fn exchange(&mut self, batch: EventBatch) -> EventBatch {
        let _ = self.work.send(Work::Batch(batch));
        self.spare.extend(self.empty.try_iter());
        self.spare.pop().unwrap_or_else(|| self.empty.recv().unwrap_or_default())
    }

    /// Names a source before the first batch that has packets of it.
    pub fn source(&self, line: SourceLine) {
        let _ = self.work.send(Work::Source(line));
    }
}

fn run(
    mut recorder: Option<Recorder>,
    incoming: &Receiver<Work>,
    give_back: &SyncSender<EventBatch>,
    live: &Live,
) -> Recorded {
    let mut ledger = Ledger::default();
    for work in incoming {
        let mut batch = match (work, &mut recorder) {
            (Work::Batch(batch), _) => batch,
            (Work::Source(line), Some(recorder)) => {
                live.note(recorder.write_source(&line).err());
                continue;
            }
            (Work::Source(_), None) => continue,
        };
        ledger.note_batch(&batch, write(recorder.as_mut(), &batch, live));
        batch.clear();
        let _ = give_back.send(batch);
    }
    finish(recorder, ledger)
}

fn write(recorder: Option<&mut Recorder>, batch: &EventBatch, live: &Live) -> BatchFate {
    let Some(recorder) = recorder else { return BatchFate::NotRecorded };
    let was_recording = *recorder.state() == RecorderState::Recording;
    let result = recorder.write(batch, clock::now());
    live.recorded(recorder.counts());
    match result {
        Ok(()) => BatchFate::Recorded,
        Err(fault) => {
            live.note(was_recording.then_some(fault));
            BatchFate::Failed
        }
    }
}

fn finish(recorder: Option<Recorder>, ledger: Ledger) -> Recorded {
    let Some(mut recorder) = recorder else {
        return Recorded { ledger, counts: RecorderCounts::default(), fault: None };
    };
    let stopped = match recorder.state() {
        RecorderState::Stopped { reason } => Some(reason.clone()),
        _ => None,
    };
    let fault = stopped.or(recorder.finish().err());
    Recorded { ledger, counts: recorder.counts(), fault }
}
