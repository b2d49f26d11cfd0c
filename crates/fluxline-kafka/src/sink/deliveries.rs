//! The fate of the records that the client got: counted by event, and noted for the user.

use std::sync::{Arc, Mutex};

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::delivery::{Fate, Rest, Sent, State, lock};
use crate::feeder::{FeederContext, NotSent, Queue};

/// Takes the client's reports.
pub struct Deliveries {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) queue: Arc<Queue>,
    pub(super) brokers: String,
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = lock(&self.state);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                state.all_down = true;
                let rest = state.rest.words();
                state.note(format!("no Kafka broker answers at {}: {rest}", self.brokers));
            }
            // Each attempt to connect reports one; the run only needs to know that all are away.
            Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve) => {}
            _ => state.note(format!("Kafka at {}: {reason} ({error})", self.brokers)),
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let (Ok(message) | Err((_, message))) = result;
        self.queue.leave(message.key_len() + message.payload_len());
        let mut state = lock(&self.state);
        let fate = match result.as_ref().map_err(|(error, _)| error) {
            Ok(_) => Fate::Acknowledged,
            Err(error) => match error.rdkafka_error_code() {
                Some(
                    RDKafkaErrorCode::MessageTimedOut
                    | RDKafkaErrorCode::PurgeQueue
                    | RDKafkaErrorCode::PurgeInflight,
                ) => Fate::TimedOut,
                _ => {
                    state.note(format!("Kafka at {} refused a record ({error})", self.brokers));
                    Fate::Refused
                }
            },
        };
        let (Sent::Events { bytes, .. } | Sent::Mark { bytes, .. }) = &*sent;
        if fate == Fate::Acknowledged {
            state.counters.records_acked += 1;
            state.counters.bytes_acked += bytes;
            state.all_down = false;
        }
        settle(&mut state, &sent, fate);
    }
}

impl FeederContext for Deliveries {
    fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    fn not_sent(&self, sent: Box<Sent>, reason: NotSent) {
        let mut state = lock(&self.state);
        let fate = match reason {
            NotSent::TimedOut => Fate::TimedOut,
            NotSent::NoRoom => Fate::LeftOut,
            NotSent::Refused(error) => {
                state.note(format!("Kafka's client refused a record ({error})"));
                Fate::Refused
            }
        };
        settle(&mut state, &sent, fate);
    }
}

/// Counts the fate of a record.
fn settle(state: &mut State, sent: &Sent, fate: Fate) {
    match sent {
        Sent::Events { group, .. } => group.settle(state, fate),
        Sent::Mark { name, .. } => {
            state.marks_waiting = state.marks_waiting.saturating_sub(1);
            if fate != Fate::Acknowledged {
                lose_mark(state, name);
            }
        }
    }
}

/// Counts a message of start or stop that the topic lacks.
pub(super) fn lose_mark(state: &mut State, name: &str) {
    state.counters.marks_lost += 1;
    let remedy = match state.rest {
        Rest::InFiles => ": `fluxline ship RUN` sends it",
        Rest::Lost => "",
    };
    state.note(format!("Kafka did not acknowledge the message of the run's {name}{remedy}"));
}
