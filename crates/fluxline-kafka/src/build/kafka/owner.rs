//! The right to commit in one partition: a transactional producer.

use std::time::{Duration, Instant};

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::super::checkpoint_records::{PIECE_BYTES, PieceHead};
use super::super::log::LogError;
use super::away;
use crate::client::config;
use crate::settings::Settings;
use crate::transaction::{TRANSACTION_WITHIN, cause_of, is_fenced, refusal_of};

/// Time between two looks for the brokers' answers.
const ANSWER_LOOK: Duration = Duration::from_millis(1);
/// Time for a claim or a commit, during which the broker may be away.
pub(super) const COMMIT_WITHIN: Duration = TRANSACTION_WITHIN;

/// The right to commit in one partition.
pub(super) struct Owner {
    producer: BaseProducer,
    /// The number of its claim among those of this process.
    pub epoch: u64,
    /// Number of the next checkpoint.
    next: u64,
    /// Pieces of the last checkpoint with an even number, and with an odd one.
    pieces: [u64; 2],
}

impl Owner {
    /// Claims a partition under a transactional name: the owner before can commit nothing any more,
    /// and its transactions have ended.
    ///
    /// Errors: of the connection, or another process took the name at the same time.
    pub fn claim(settings: &Settings, name: &str) -> Result<Owner, KafkaError> {
        let producer: BaseProducer = config(settings)
            .set("transactional.id", name)
            .set("linger.ms", "0") // a commit waits for its records
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("transaction.timeout.ms", TRANSACTION_WITHIN.as_millis().to_string())
            .create()?;
        producer.init_transactions(COMMIT_WITHIN)?;
        Ok(Owner { producer, epoch: 0, next: 0, pieces: [0; 2] })
    }

    /// Saves the next checkpoint behind one that is there.
    pub fn go_on_behind(&mut self, head: &PieceHead) {
        self.next = self.next.max(head.number + 1);
        self.pieces[head.number as usize % 2] = head.pieces();
    }

    /// Returns the number of the next checkpoint.
    pub fn next_checkpoint(&self) -> u64 {
        self.next
    }

    /// Returns the client, for questions to the brokers.
    pub fn client(&self) -> &Client<impl ClientContext + use<>> {
        self.producer.client()
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Result<(), KafkaError> {
        self.producer.begin_transaction()
    }

    /// Commits the open transaction. The client library would look for the answers of the brokers
    /// every 100 ms only. A poll of at most 1 ms would not sleep, since the client rounds its time
    /// down to milliseconds: it would take a core for as long as the brokers take.
    pub fn commit(&self) -> Result<(), KafkaError> {
        let began = Instant::now();
        while self.producer.in_flight_count() > 0 && began.elapsed() < COMMIT_WITHIN {
            self.producer.poll(Duration::ZERO);
            std::thread::sleep(ANSWER_LOOK);
        }
        self.producer.commit_transaction(COMMIT_WITHIN)
    }

    /// Sends a record; waits while the client's memory is full.
    pub fn send(&self, mut record: BaseRecord<'_, String, Vec<u8>>) -> Result<(), KafkaError> {
        let began = Instant::now();
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if began.elapsed() < COMMIT_WITHIN =>
                {
                    record = back;
                    self.producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => return Err(cause_of(&self.producer, error)),
            }
        }
    }

    /// Saves a checkpoint in one transaction.
    ///
    /// Errors: of the connection; or it took longer than a transaction may; or the partition has
    /// another owner.
    pub fn save(&mut self, topic: &str, head: &PieceHead, bytes: &[u8]) -> Result<(), KafkaError> {
        self.begin()?;
        self.send_checkpoint(topic, head, bytes)?;
        self.commit()
    }

    /// Sends the pieces of a checkpoint, then its head. Pieces of the one before it under the same
    /// keys that are left over are deleted.
    fn send_checkpoint(
        &mut self,
        topic: &str,
        head: &PieceHead,
        bytes: &[u8],
    ) -> Result<(), KafkaError> {
        let to = |key: String, value: Option<Vec<u8>>| {
            let record = BaseRecord::to(topic).partition(head.partition as i32).key(&key);
            match &value {
                Some(value) => self.send(record.payload(value)),
                None => self.send(record),
            }
        };
        for (piece, bytes) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
            to(head.key(Some(piece)), Some(bytes.to_vec()))?;
        }
        let before = self.pieces[head.number as usize % 2];
        for piece in head.pieces()..before {
            to(head.key(Some(piece)), None)?;
        }
        let value = serde_json::to_vec(head).expect("numbers are always JSON");
        to(head.key(None), Some(value))?;
        self.pieces[head.number as usize % 2] = head.pieces();
        self.next = head.number + 1;
        Ok(())
    }
}

/// Returns the meaning of an error of a transaction.
pub(super) fn of_transaction(partition: u32, error: &KafkaError) -> LogError {
    match refusal_of(error) {
        _ if is_fenced(error) => LogError::Fenced { partition },
        Some(sentence) => LogError::Refused(sentence),
        None => away(error),
    }
}
