//! Transactions: the time that one may take, and the meaning of their errors.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, ProducerContext};

/// The time after which brokers end a transaction. Its producer may have died.
pub const TRANSACTION_WITHIN: Duration = Duration::from_secs(30);

/// Returns true when another producer of the same transactional name has begun.
pub fn is_fenced(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::Fenced
                | RDKafkaErrorCode::ProducerFenced
                | RDKafkaErrorCode::InvalidProducerEpoch
        )
    )
}

/// Returns a sentence, without its full stop, when the brokers will refuse every transaction like
/// this one: it names the right or the option that is missing.
pub fn refusal_of(error: &KafkaError) -> Option<String> {
    let remedy = remedy_of(error.rdkafka_error_code()?)?;
    Some(format!("the brokers refuse the transaction ({error}); {remedy}"))
}

fn remedy_of(code: RDKafkaErrorCode) -> Option<String> {
    let remedy = match code {
        RDKafkaErrorCode::TransactionalIdAuthorizationFailed => {
            "give the user the right `Write` on transactional names that begin with `fluxline-`"
        }
        RDKafkaErrorCode::ClusterAuthorizationFailed => {
            "give the user the right `IdempotentWrite` on the Kafka cluster"
        }
        RDKafkaErrorCode::TopicAuthorizationFailed => {
            "give the user the right `Write` on every topic to which events go"
        }
        RDKafkaErrorCode::InvalidTransactionTimeout => {
            let least = TRANSACTION_WITHIN.as_millis();
            return Some(format!(
                "raise the brokers' option transaction.max.timeout.ms to {least} or more"
            ));
        }
        RDKafkaErrorCode::UnsupportedFeature => "use brokers that have transactions",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Returns the error that ended a transaction. After it, the client refuses every record with an
/// error that does not have the reason.
pub fn cause_of<C: ProducerContext>(producer: &impl Producer<C>, error: KafkaError) -> KafkaError {
    /// The client knows the answer already.
    const ANSWER_WITHIN: Duration = Duration::from_secs(5);
    match error.rdkafka_error_code() {
        // A transaction that has failed is not committed: the client returns the first error.
        Some(RDKafkaErrorCode::State | RDKafkaErrorCode::Fatal) => {
            producer.commit_transaction(ANSWER_WITHIN).err().unwrap_or(error)
        }
        _ => error,
    }
}
