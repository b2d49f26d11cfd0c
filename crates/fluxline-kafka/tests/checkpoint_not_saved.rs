//! Checkpoints that cannot be saved, as when they take longer than a transaction may: builders get
//! on with the batches, and a run comes to its end.

mod support;

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_kafka::build::{
    Checkpoint, CheckpointPolicy, Log, LogError, MemoryLog, RunPlan, Step, WorkError, Worker,
};
use support::built::{Batches, readout};
use support::world::{MS, Packet, RUN, Weather, config, datagram, events_of, one_process, packets};
use support::wrapped_log::{Fate, Faults, WrappedLog};

/// Saves after every few batches.
const OFTEN: CheckpointPolicy =
    CheckpointPolicy { bytes: 20_000, times_its_size: 0, age: Span::from_ms(30) };
/// Most claims of a run; without a pause between two tries, it has no end.
const CLAIMS_MAX: u32 = 20;

/// Checkpoints that fail from one number to another.
struct FailingSaves {
    number: u64,
    fail: std::ops::Range<u64>,
}

impl Faults for FailingSaves {
    fn of_save(&mut self, _checkpoint: &Checkpoint) -> Fate {
        self.number += 1;
        if self.fail.contains(&self.number) { Fate::FailsBefore } else { Fate::Done }
    }
}

fn read_out(log: &mut MemoryLog) -> Vec<Packet> {
    let weather = Weather { boards: 4, keys: 2000, loss: 0.0, lives: false };
    let packets = packets(&mut Draw::new(test_seed!(95)), weather);
    let mut node = readout(0, 0, 1);
    for packet in &packets {
        assert!(node.take(0, Moment::from_ns(packet.at), &datagram(packet)));
        node.hand_over(log).expect("a log in memory");
    }
    node.finish(Moment::from_ns(packets.last().expect("some").at + MS));
    node.hand_over(log).expect("a log in memory");
    packets
}

/// Builds the run as one process does: it claims the partition again after each failure. Returns
/// the number of claims, and the notes.
fn build(log: &mut WrappedLog<FailingSaves>, batches: &mut Batches) -> (u32, Vec<String>) {
    let (name, builder) = ("x".to_owned(), config());
    let plan = RunPlan { run: RUN, name, nodes: 1, partitions: 1, builder };
    let (mut failed, mut notes) = (0, Vec::new());
    for claims in 1..=CLAIMS_MAX {
        let worker = Worker::claim(log, &plan, 0, "builder").expect("claimed");
        let mut worker = worker.with_checkpoints(OFTEN).after_failed_saves(failed);
        let committed = log.log.committed(0).len();
        let error = loop {
            match worker.step(log, batches) {
                Ok(Step::Worked) => {}
                Ok(Step::Over) => return (claims, notes),
                Ok(Step::Idle) => panic!("the log has ended, and events wait"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, WorkError::Log(LogError::Away(_))), "{error}");
        let committed = log.log.committed(0).len() - committed;
        assert!(committed > 0, "claim {claims} made no batch before its save failed");
        failed = worker.failed_saves();
        notes.extend_from_slice(worker.notes());
    }
    panic!("the builder claims the partition again and again: {notes:#?}");
}

#[test]
fn builder_claims_replays_and_fails_in_a_circle_when_no_checkpoint_can_be_saved() {
    let mut log = MemoryLog::new(1);
    let packets = read_out(&mut log);
    let one = events_of(&one_process(&packets));
    // All checkpoints fail; or some in the middle, after which builders save again.
    for fail in [0..u64::MAX, 3..6] {
        let mut log = MemoryLog::new(1);
        read_out(&mut log);
        let mut log = WrappedLog { log, faults: FailingSaves { number: 0, fail: fail.clone() } };
        let mut batches = Batches::default();
        let (claims, notes) = build(&mut log, &mut batches);
        assert!(claims > 2, "{claims} claims are a weak test");
        assert_eq!(notes.len() as u32, claims - 1, "{notes:#?}");
        let words = "MB was not saved: the log cannot be reached (before); check the brokers";
        assert!(notes.iter().all(|note| note.contains(words)), "{notes:#?}");
        assert!(batches.events() == one, "events are lost or doubled");
        let all = log.commits(0).expect("commits").len();
        assert_eq!(all, batches.0.len(), "a batch is not committed");
        let saved = log.log.checkpoints(0).len();
        assert_eq!(saved, if fail.end == u64::MAX { 0 } else { 2 });
    }
}
