//! The queue of the sink: records wait here, and the client gets as many as it can send.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};

use crate::delivery::Sent;
use crate::lasting::Lasting;
use crate::window::{AROUND_BYTES, Limits, Window};

/// Time between two looks for records that wait for too long.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the client's reports of records that were given up.
const PURGE_WITHIN: Duration = Duration::from_secs(2);

/// A record that waits.
pub struct Waiting {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers.
    pub headers: OwnedHeaders,
    /// The events that it has.
    pub sent: Box<Sent>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.key.len() + self.value.len() + AROUND_BYTES
    }
}

/// The reason why a record did not reach the client.
pub enum NotSent {
    /// It waited longer than a delivery may take.
    TimedOut,
    /// The memory is full.
    NoRoom,
    /// The client refused it.
    Refused(KafkaError),
}

/// The client's reports, and the fates of records that it never had.
pub trait FeederContext: ProducerContext<DeliveryOpaque = Box<Sent>> + 'static {
    /// Returns the queue. Its [`Queue::leave`] is due at each report of the client.
    fn queue(&self) -> &Arc<Queue>;

    /// Takes a record that did not reach the client.
    fn not_sent(&self, sent: Box<Sent>, reason: NotSent);
}

/// The records that wait.
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// The records that the client has.
    pub window: Window,
}

#[derive(Default)]
struct Inner {
    records: VecDeque<(Instant, Waiting)>,
    bytes: usize,
    /// Records that the thread is handing over.
    in_hand: usize,
    stop: bool,
}

impl Queue {
    /// Makes a queue before a client with these limits.
    pub fn new(limits: Limits) -> Queue {
        let (inner, changed) = (Mutex::default(), Condvar::new());
        Queue { inner, changed, window: Window::new(limits) }
    }

    /// Counts a record that the client has no more.
    pub fn leave(&self, bytes: usize) {
        if self.window.leave(bytes + AROUND_BYTES) {
            // With the lock: the thread is about to wait, or waits.
            drop(self.lock());
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns records for which the client has room, or that are older than `age_max`; waits for
    /// them. `None`: the queue has ended.
    fn next(&self, age_max: Duration) -> Option<(Vec<Waiting>, bool)> {
        let mut inner = self.lock();
        inner.in_hand = 0;
        loop {
            if inner.stop {
                return None;
            }
            let is_old = |(since, _): &(Instant, Waiting)| since.elapsed() >= age_max;
            let is_expired = inner.records.front().is_some_and(is_old);
            let mut taken = Vec::new();
            while let Some(front) = inner.records.front() {
                let is_next = match is_expired {
                    true => is_old(front),
                    false => self.window.has_room(front.1.bytes()),
                };
                let next = if is_next { inner.records.pop_front() } else { None };
                let Some((_, record)) = next else { break };
                inner.bytes -= record.bytes();
                if !is_expired {
                    self.window.enter(record.bytes());
                }
                taken.push(record);
            }
            if !taken.is_empty() {
                inner.in_hand = taken.len();
                return Some((taken, is_expired));
            }
            inner = match self.changed.wait_timeout(inner, LOOK) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// A producer with a queue of ours before it.
pub struct Feeder<C: FeederContext> {
    producer: Lasting<ThreadedProducer<C>>,
    memory_bytes: usize,
    thread: Option<JoinHandle<()>>,
}

impl<C: FeederContext> Feeder<C> {
    /// Starts the thread that hands records to `producer`. At most `memory_bytes` of records wait;
    /// those that wait longer than `age_max` are given up.
    pub fn start(
        producer: Lasting<ThreadedProducer<C>>,
        memory_bytes: usize,
        age_max: Duration,
    ) -> Feeder<C> {
        let of_thread = producer.clone();
        let thread = std::thread::spawn(move || feed(&of_thread, age_max));
        Feeder { producer, memory_bytes, thread: Some(thread) }
    }

    fn queue(&self) -> &Queue {
        self.producer.context().queue()
    }

    /// Takes a record; gives it back when the memory is full.
    pub fn send(&self, record: Waiting) -> Result<(), Box<Sent>> {
        let queue = self.queue();
        let mut inner = queue.lock();
        let bytes = record.bytes();
        if inner.bytes + queue.window.bytes() as usize + bytes > self.memory_bytes {
            return Err(record.sent);
        }
        inner.bytes += bytes;
        inner.records.push_back((Instant::now(), record));
        drop(inner);
        queue.changed.notify_one();
        Ok(())
    }

    /// Returns the number of records whose fate is not known.
    pub fn pending(&self) -> usize {
        let inner = self.queue().lock();
        let waiting = inner.records.len() + inner.in_hand;
        drop(inner);
        waiting + self.producer.in_flight_count().max(0) as usize
    }

    /// Gives up all records whose fate is not known, and waits for the client's reports of them.
    pub fn purge(&self) {
        let mut inner = self.queue().lock();
        let records = std::mem::take(&mut inner.records);
        inner.bytes = 0;
        drop(inner);
        let context = self.producer.context();
        records
            .into_iter()
            .for_each(|(_, record)| context.not_sent(record.sent, NotSent::TimedOut));
        // The thread may still hand over the records that it took.
        let began = Instant::now();
        while self.pending() > 0 && began.elapsed() < PURGE_WITHIN {
            self.producer.purge(PurgeConfig::default().queue().inflight());
            let _ = self.producer.flush(LOOK); // asked again
        }
    }

    /// Waits until the client has no records, at most this long.
    pub fn flush(&self, within: Duration) {
        let began = Instant::now();
        while self.pending() > 0 && began.elapsed() < within {
            let _ = self.producer.flush(within.saturating_sub(began.elapsed())); // asked again
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl<C: FeederContext> Drop for Feeder<C> {
    fn drop(&mut self) {
        self.queue().lock().stop = true;
        self.queue().changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it hands nothing over any more
        }
    }
}

/// Hands records to the client until the queue ends.
fn feed<C: FeederContext>(producer: &ThreadedProducer<C>, age_max: Duration) {
    let context = producer.context();
    while let Some((records, is_expired)) = context.queue().next(age_max) {
        for record in records {
            match is_expired {
                true => context.not_sent(record.sent, NotSent::TimedOut),
                false => hand_over(producer, record),
            }
        }
    }
}

fn hand_over<C: FeederContext>(producer: &ThreadedProducer<C>, record: Waiting) {
    let bytes = record.bytes();
    let Waiting { topic, key, value, headers, sent } = record;
    let to_send =
        BaseRecord::with_opaque_to(&topic, sent).key(&key).payload(&value).headers(headers);
    let Err((error, back)) = producer.send(to_send) else { return };
    let sent = back.delivery_opaque;
    producer.context().queue().window.leave(bytes);
    let reason = match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::QueueFull) => NotSent::NoRoom,
        _ => NotSent::Refused(error),
    };
    producer.context().not_sent(sent, reason);
}
