//! Publishes the block of a node to the topic `NAME.ledger`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline_core::Moment;
use rdkafka::client::ClientContext;
use rdkafka::message::{DeliveryResult, Message, Timestamp};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::block::{BLOCK_BYTES_MAX, NodeBlock};
use super::drift::NodeClock;
use crate::build::LogError;
use crate::client::{TopicError, check_topic, control_config, wrong_settings};
use crate::lasting::Lasting;
use crate::settings::Settings;

/// Most blocks that wait for the broker's acknowledgement; later ones replace them.
const WAITING_MAX: u64 = 2;

/// Publishes blocks. It never waits, and keeps no more than two blocks while the broker is away.
pub struct LedgerWriter {
    producer: Lasting<ThreadedProducer<Deliveries>>,
    counts: Arc<Counts>,
    topic: String,
    sent: u64,
}

/// Counts of blocks that the broker has answered for, and the clock that they are compared with.
struct Counts {
    done: AtomicU64,
    acknowledged: AtomicU64,
    clock: Mutex<NodeClock>,
}

impl Counts {
    fn clock(&self) -> MutexGuard<'_, NodeClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Deliveries(Arc<Counts>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    /// The time of sending.
    type DeliveryOpaque = Box<Option<Moment>>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Option<Moment>>) {
        if let Ok(message) = result {
            // An older topic has the node's own time in its records, which shows nothing.
            if let (Some(sent), Timestamp::LogAppendTime(ms)) = (*sent, message.timestamp()) {
                self.0.clock().compare(sent, ms);
            }
            self.0.acknowledged.fetch_add(1, Ordering::Release);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

impl LedgerWriter {
    /// Opens the topic `CLUSTER.ledger`, which must exist.
    ///
    /// Errors: [`TopicError`].
    pub fn open(settings: &Settings, cluster: &str) -> Result<LedgerWriter, TopicError> {
        let (done, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        let clock = Mutex::new(NodeClock::new(clock::now));
        let counts = Arc::new(Counts { done, acknowledged, clock });
        let producer: ThreadedProducer<Deliveries> = control_config(settings, &[])
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", "10000") // an old block is worth nothing
            .set("message.max.bytes", (BLOCK_BYTES_MAX + 4096).to_string())
            .create_with_context(Deliveries(Arc::clone(&counts)))
            .map_err(|error| wrong_settings(&error))?;
        let topic = format!("{cluster}.ledger");
        check_topic(producer.client(), settings, &topic)?;
        let producer = Lasting::new(producer, settings, &topic);
        Ok(LedgerWriter { producer, counts, topic, sent: 0 })
    }

    /// Publishes a block. Returns false when it was left out: earlier ones still wait for the
    /// broker, or the block is too large. Never waits.
    pub fn publish(&mut self, block: &NodeBlock) -> bool {
        let waiting = self.sent.saturating_sub(self.counts.done.load(Ordering::Acquire));
        waiting < WAITING_MAX && self.send(block)
    }

    /// Publishes the last block of a node, and waits until the broker has it.
    ///
    /// Errors: the broker did not acknowledge it within `within`.
    pub fn finish(&mut self, block: &NodeBlock, within: Duration) -> Result<(), LogError> {
        let began = Instant::now();
        let bytes = block.to_bytes().len();
        if bytes > BLOCK_BYTES_MAX {
            let reason = format!("the node's last block has {bytes} bytes, more than a record");
            return Err(LogError::Away(reason));
        }
        loop {
            let rest = within.saturating_sub(began.elapsed());
            let flushed = self.producer.flush(rest);
            let is_idle = self.counts.done.load(Ordering::Acquire) >= self.sent;
            let before = self.counts.acknowledged.load(Ordering::Acquire);
            if is_idle && self.send(block) {
                let rest = within.saturating_sub(began.elapsed());
                let _ = self.producer.flush(rest);
                if self.counts.acknowledged.load(Ordering::Acquire) > before {
                    return Ok(());
                }
            }
            if began.elapsed() >= within {
                let reason =
                    flushed.err().map_or("no answer".to_owned(), |error| error.to_string());
                return Err(LogError::Away(format!(
                    "the node's last block is not stored: {reason}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Begins a run: the node's packets have steady times from now on.
    pub fn begin_clock(&self) {
        self.counts.clock().begin();
    }

    /// Returns the largest difference since [`begin_clock`](LedgerWriter::begin_clock) between the
    /// node's steady time and the brokers' \[ms\]; 0 when they may have agreed all the time.
    #[must_use]
    pub fn clock_ahead_ms(&self) -> i64 {
        self.counts.clock().ahead_ms()
    }

    fn send(&mut self, block: &NodeBlock) -> bool {
        let (key, bytes) = (block.key(), block.to_bytes());
        if bytes.len() > BLOCK_BYTES_MAX {
            return false;
        }
        let sent = Box::new(self.counts.clock().time());
        let record = BaseRecord::with_opaque_to(&self.topic, sent).key(&key).payload(&bytes);
        let is_sent = self.producer.send(record).is_ok();
        self.sent += u64::from(is_sent);
        is_sent
    }
}
