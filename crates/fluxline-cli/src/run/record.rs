//! The recorder's thread, and the batches that circulate between it and the readout.
//!
//! A fixed number of batches exists; the readout fills one, the recorder writes it and gives it
//! back empty. So memory is bounded, and a slow disk makes the readout wait (docs/adr/0003). A disk
//! that is full or broken does not: the recorder then takes batches and counts them as failed.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fluxline::{clock, pin};
use fluxline_daq::event::EventBatch;
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
}

/// What the recorder had done when the run was over.
pub struct Recorded {
    /// Packets and bytes of each source that were written, by the source's number.
    pub by_source: Vec<SourceAmount>,
    /// All of them.
    pub counts: RecorderCounts,
    /// Why recording stopped before the run did.
    pub fault: Option<WriteFault>,
}

/// What became of one source's packets at the recorder.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceAmount {
    /// Packets in files.
    pub recorded: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// Packets that are in no file.
    pub failed: u64,
}

/// Starts the recorder's thread; `None` as recorder counts every packet as recorded nowhere.
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
    (RecordQueue { work, empty }, thread)
}

impl RecordQueue {
    /// Hands `batch` over and puts an empty one in its place; waits while the recorder is behind.
    pub fn exchange(&self, batch: EventBatch) -> EventBatch {
        let _ = self.work.send(Work::Batch(batch));
        self.empty.recv().unwrap_or_default()
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
    let mut by_source: Vec<SourceAmount> = Vec::new();
    for work in incoming {
        let mut batch = match (work, &mut recorder) {
            (Work::Batch(batch), _) => batch,
            (Work::Source(line), Some(recorder)) => {
                live.note(recorder.write_source(&line).err());
                continue;
            }
            (Work::Source(_), None) => continue,
        };
        if let Some(recorder) = &mut recorder {
            let was_recording = *recorder.state() == RecorderState::Recording;
            let result = recorder.write(&batch, clock::now());
            count(&mut by_source, &batch, result.is_ok());
            live.recorded(recorder.counts());
            if let Err(fault) = result
                && was_recording
            {
                live.note(Some(fault));
            }
        }
        batch.clear();
        let _ = give_back.send(batch);
    }
    finish(recorder, by_source)
}

fn count(by_source: &mut Vec<SourceAmount>, batch: &EventBatch, written: bool) {
    for packet in &batch.packets {
        let number = packet.source as usize;
        if by_source.len() <= number {
            by_source.resize(number + 1, SourceAmount::default());
        }
        let amount = &mut by_source[number];
        if written {
            amount.recorded += 1;
            amount.bytes += u64::from(packet.bytes);
        } else {
            amount.failed += 1;
        }
    }
}

fn finish(recorder: Option<Recorder>, by_source: Vec<SourceAmount>) -> Recorded {
    let Some(mut recorder) = recorder else {
        return Recorded { by_source, counts: RecorderCounts::default(), fault: None };
    };
    let stopped = match recorder.state() {
        RecorderState::Stopped { reason } => Some(reason.clone()),
        _ => None,
    };
    let fault = stopped.or(recorder.finish().err());
    Recorded { by_source, counts: recorder.counts(), fault }
}
