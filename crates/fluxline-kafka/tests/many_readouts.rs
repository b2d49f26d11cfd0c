//! A partition in which there is always a record, because many readout nodes live: the builder
//! still notices that one has died.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fluxline_core::Moment;
use fluxline_kafka::build::{
    Checkpoint, Claim, Commit, Log, LogError, MemoryLog, ReadoutNode, Rounds, RunPlan, Step,
    Stored, Worker,
};
use support::built::{Batches, readout};
use support::world::{BEGIN, MS, Packet, RUN, config, datagram, packet};

const NODES: u16 = 30;
/// The node that dies.
const DEAD: u16 = 29;
/// Time of its death in the run \[ms\].
const DIES_AT: u64 = 40;
/// Time in which events must go on: a builder looks four times a second.
const WITHIN: Duration = Duration::from_secs(5);

/// A log whose readers never wait: where it ends, the living nodes read out further.
struct BusyLog {
    log: MemoryLog,
    nodes: Vec<ReadoutNode>,
    now_ms: u64,
}

impl BusyLog {
    fn read_out(&mut self) -> Result<(), LogError> {
        self.now_ms += 1;
        let at = BEGIN + self.now_ms * MS;
        for (board, node) in (0..).zip(&mut self.nodes) {
            if board == DEAD && self.now_ms >= DIES_AT {
                continue;
            }
            let bytes = packet(board, self.now_ms as u32, self.now_ms, (0, 1), 20);
            let packet = Packet { at: at + u64::from(board), board, bytes };
            assert!(node.take(0, Moment::from_ns(packet.at), &datagram(&packet)));
            node.poll(Moment::from_ns(at + MS));
            node.hand_over(&mut self.log)?;
        }
        Ok(())
    }
}

impl Log for BusyLog {
    fn partitions(&self) -> u32 {
        1
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        self.log.append(partition, bytes)
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        while self.log.end(partition) <= offset {
            self.read_out()?;
        }
        self.log.read(partition, offset)
    }

    fn claim(&mut self, partition: u32, builder: &str) -> Result<Claim, LogError> {
        self.log.claim(partition, builder)
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        self.log.commit(claim, commit)
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        self.log.save(claim, checkpoint)
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.log.commits(partition)
    }
}

#[test]
fn events_wait_for_a_dead_readout_while_many_living_ones_keep_the_builder_busy() {
    let nodes = (0..NODES).map(|number| readout(number, 0, 1)).collect();
    let mut log = BusyLog { log: MemoryLog::new(1), nodes, now_ms: 0 };
    let (name, nodes) = ("x".to_owned(), usize::from(NODES));
    let plan = RunPlan { run: RUN, name, nodes, partitions: 1, builder: config() };
    let mut worker = Worker::claim(&mut log, &plan, 0, "builder").expect("claimed");
    let (mut batches, mut rounds) = (Batches::default(), Rounds::default());
    let began = Instant::now();
    // Events behind the death are in batches when the builder goes on without the node.
    let goes_on = |batches: &Batches| {
        let last = batches.0.values().next_back();
        last.is_some_and(|batch| {
            batch.events.events.iter().any(|event| event.key.unwrap_or(0) > 2 * DIES_AT)
        })
    };
    while !goes_on(&batches) {
        let dead = || BTreeSet::from([DEAD]);
        let round = rounds.step(&mut worker, &mut log, &mut batches, dead).expect("it works");
        assert_eq!(round.step, Step::Worked, "the log has a pause: not a test");
        assert!(began.elapsed() < WITHIN, "events wait, {} ms behind the death", log.now_ms);
    }
    assert_eq!(worker.partition().counts().left_out, 1);
}
