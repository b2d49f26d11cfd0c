//! The answers of the brokers to appended records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::window::{BATCH_BYTES, Limits, Window};

/// Counts the answers of the brokers; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Deliveries(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    /// The first refusal.
    first: Mutex<Option<Refusal>>,
}

/// The brokers' refusal of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Their message.
    pub reason: String,
    /// The user's remedy.
    pub remedy: &'static str,
}

impl Refusal {
    fn of(error: &KafkaError) -> Refusal {
        let remedy = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => "raise its max.message.bytes",
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                "give the user the right to write to it"
            }
            _ => "the brokers' own logs have the reason",
        };
        Refusal { reason: error.to_string(), remedy }
    }
}

/// The context of a producer whose records are limited by a window.
pub(super) struct Windowed {
    pub(super) deliveries: Deliveries,
    pub(super) window: Window,
}

impl Windowed {
    /// Makes a window of two batches for each partition: records are so large that two requests are
    /// under way.
    pub(super) fn new() -> Windowed {
        let window = Window::new(Limits::of_bytes(2 * BATCH_BYTES));
        Windowed { deliveries: Deliveries::default(), window }
    }
}

impl Deliveries {
    /// Returns the number of records that the brokers have.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.0.acknowledged.load(Ordering::Relaxed)
    }

    /// Returns the number of records that the brokers refused; they are lost.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the first refusal.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _of: ()) {
        match result {
            Ok(_) => self.0.acknowledged.fetch_add(1, Ordering::Relaxed),
            Err((error, _)) => {
                let mut first = self.0.first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| Refusal::of(error));
                self.0.refused.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}

impl ClientContext for Windowed {}

impl ProducerContext for Windowed {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, of: ()) {
        let (Ok(message) | Err((_, message))) = result;
        self.window.leave(message.payload_len());
        self.deliveries.delivery(result, of);
    }
}
