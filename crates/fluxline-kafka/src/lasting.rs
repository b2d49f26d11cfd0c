//! Clients that outlive an outage of all brokers.
//!
//! librdkafka 2.10 to 2.13 can lose its brokers for ever (its issue 5301). A broker that was halted
//! for longer than its session first answers with an empty list of brokers. The client then removes
//! the brokers that it has; the same answer ends its return to `bootstrap.servers` before that
//! begins, and no later outage starts one. The client sends and reads nothing any more, and reports
//! no error. So one thread asks each client for a topic now and then, and gives it the first
//! addresses again when it has no broker that it could ask.
#![allow(unsafe_code, reason = "the client library offers the addition of brokers in C alone")]

use std::ffi::CString;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rdkafka::bindings::rd_kafka_brokers_add;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext, ThreadedProducer};

use crate::settings::Settings;

/// Time between two looks at the clients.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time in which a client must find a broker for a question.
const BROKER_WITHIN: Duration = Duration::from_millis(500);

/// A client of the library.
pub trait Connected: Send + Sync + 'static {
    /// The reports that it makes.
    type Context: ClientContext;

    /// Returns its connections.
    fn connections(&self) -> &Client<Self::Context>;
}

impl<C: ConsumerContext + 'static> Connected for BaseConsumer<C> {
    type Context = C;

    fn connections(&self) -> &Client<C> {
        self.client()
    }
}

impl<C: ProducerContext + 'static> Connected for BaseProducer<C> {
    type Context = C;

    fn connections(&self) -> &Client<C> {
        self.client()
    }
}

impl<C: ProducerContext + 'static> Connected for ThreadedProducer<C> {
    type Context = C;

    fn connections(&self) -> &Client<C> {
        self.client()
    }
}

/// A client that gets its brokers back, at most some 6 s after they answer again. It asks for one
/// topic every 5 s.
pub struct Lasting<T: Connected>(Arc<Watched<T>>);

impl<T: Connected> Clone for Lasting<T> {
    fn clone(&self) -> Lasting<T> {
        Lasting(Arc::clone(&self.0))
    }
}

struct Watched<T> {
    client: T,
    topic: String,
    brokers: CString,
}

/// A client as the thread sees it.
trait Watch: Send + Sync {
    fn look(&self);
}

static CLIENTS: Mutex<Vec<Weak<dyn Watch>>> = Mutex::new(Vec::new());

impl<T: Connected> Lasting<T> {
    /// Watches a client of these settings, which uses the topic.
    pub fn new(client: T, settings: &Settings, topic: &str) -> Lasting<T> {
        // No broker has an address with a zero byte.
        let brokers = CString::new(settings.brokers.as_str()).unwrap_or_default();
        let watched = Arc::new(Watched { client, topic: topic.to_owned(), brokers });
        let weak = Arc::downgrade(&watched);
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.is_empty() {
            std::thread::spawn(watch);
        }
        clients.push(weak);
        Lasting(watched)
    }
}

impl<T: Connected> Deref for Lasting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.client
    }
}

impl<T: Connected> Watch for Watched<T> {
    fn look(&self) {
        let connections = self.client.connections();
        let answer = connections.fetch_metadata(Some(&self.topic), BROKER_WITHIN).map(drop);
        if is_without_brokers(&answer) {
            // SAFETY: the client lives as long as `self`, and the call copies the addresses. It may
            // come from any thread.
            unsafe { rd_kafka_brokers_add(connections.native_ptr(), self.brokers.as_ptr()) };
        }
    }
}

/// Returns true when the client knows no broker that it could ask. A broker that is only slow shows
/// itself by another error.
fn is_without_brokers(answer: &Result<(), KafkaError>) -> bool {
    let code = answer.as_ref().err().and_then(KafkaError::rdkafka_error_code);
    code == Some(RDKafkaErrorCode::BrokerTransportFailure)
}

/// Looks at the clients, as long as there are some.
fn watch() {
    loop {
        std::thread::sleep(LOOK_EVERY);
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| client.strong_count() > 0);
        if clients.is_empty() {
            return;
        }
        let now = clients.clone();
        drop(clients);
        now.iter().filter_map(Weak::upgrade).for_each(|client| client.look());
    }
}
