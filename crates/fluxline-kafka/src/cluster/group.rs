//! The consumer group of the builders: it decides which builder has which partition.
//!
//! The group's member reads nothing itself: its partitions are paused at once. Each partition that
//! it has is built by a thread with a reader and a claim of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::client::{TopicError, control_config, wrong_settings};
use crate::lasting::Lasting;
use crate::settings::Settings;

/// Time without a sign of life after which the group gives a builder's partitions to others.
const SESSION: Duration = Duration::from_secs(6);

/// A member of the group of builders.
pub struct Group {
    consumer: Lasting<BaseConsumer>,
    topic: String,
    partitions: BTreeSet<u32>,
}

impl Group {
    /// Joins the group of the cluster's builders.
    ///
    /// Errors: [`TopicError::Settings`].
    pub fn join(settings: &Settings, cluster: &str) -> Result<Group, TopicError> {
        let topic = format!("{cluster}.fragments");
        let consumer: BaseConsumer = control_config(settings, &[])
            .set("group.id", format!("{cluster}.builders"))
            .set("enable.auto.commit", "false")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", SESSION.as_millis().to_string())
            .set("heartbeat.interval.ms", "1000")
            .set("auto.offset.reset", "latest")
            .set("queued.min.messages", "1")
            .set("queued.max.messages.kbytes", "64")
            .set("fetch.message.max.bytes", "1024")
            .create()
            .map_err(|error| wrong_settings(&error))?;
        consumer.subscribe(&[&topic]).map_err(|error| wrong_settings(&error))?;
        let consumer = Lasting::new(consumer, settings, &topic);
        Ok(Group { consumer, topic, partitions: BTreeSet::new() })
    }

    /// Returns the partitions of this member; waits for news, at most `within`. While the brokers
    /// are away, the last ones stay: their next owner ends the claims.
    pub fn partitions(&mut self, within: Duration) -> &BTreeSet<u32> {
        // Records that came before the pause are left: another reader takes them.
        drop(self.consumer.poll(within));
        if let Ok(list) = self.consumer.assignment() {
            let elements = list.elements();
            let its = elements.iter().filter(|of| of.topic() == self.topic);
            let partitions: BTreeSet<u32> = its.map(|of| of.partition() as u32).collect();
            if partitions != self.partitions {
                let _ = self.consumer.pause(&list); // reading would only cost time
                self.partitions = partitions;
            }
        }
        &self.partitions
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.consumer.unsubscribe();
    }
}
