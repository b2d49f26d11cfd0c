//! The answers of the brokers to appended records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

/// Counts the answers of the brokers; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Deliveries(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    /// The reason of the first refusal.
    reason: Mutex<Option<String>>,
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

    /// Returns the brokers' reason for the first refusal.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _of: ()) {
        match result {
            Ok(_) => self.0.acknowledged.fetch_add(1, Ordering::Relaxed),
            Err((error, _)) => {
                let mut reason = self.0.reason.lock().unwrap_or_else(PoisonError::into_inner);
                reason.get_or_insert_with(|| error.to_string());
                self.0.refused.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}
