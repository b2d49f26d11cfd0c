//! The answers of the brokers to appended records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::window::{BATCH_BYTES, Limits, Window};

/// Counts the answers of the brokers; clones share the counts.
#[derive(Clone, Debug)]
pub struct Deliveries(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    /// The reason of the first refusal.
    reason: Mutex<Option<String>>,
    window: Window,
}

impl Default for Deliveries {
    /// The window has two batches for each partition: records are so large that two requests are
    /// under way.
    fn default() -> Deliveries {
        let limits = Limits::of_bytes(2 * BATCH_BYTES);
        let (acknowledged, refused, reason) = Default::default();
        Deliveries(Arc::new(Counts { acknowledged, refused, reason, window: Window::new(limits) }))
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

    /// Returns the records that the client has.
    pub(super) fn window(&self) -> &Window {
        &self.0.window
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
        let (Ok(message) | Err((_, message))) = result;
        self.0.window.leave(message.payload_len());
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
