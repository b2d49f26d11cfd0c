//! The messages of a run's start (pl72) and stop (6s4t).

use std::fmt;
use std::hash::Hasher;

use flatbuffers::FlatBufferBuilder;
use fluxline_packet::Description;
use fluxline_packet::ess::NameTemplate;
use serde_json::{Value, json};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::{Schema, wire};

/// Makes the messages of a run's start and stop.
pub struct RunMessages {
    /// The run's name in topics.
    run: String,
    /// The experiment's name.
    experiment: String,
    brokers: String,
    service_id: String,
    nexus_structure: String,
    builder: FlatBufferBuilder<'static>,
}

impl fmt::Debug for RunMessages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunMessages").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunMessages {
    /// Makes the messages of a run of this name, whose packets have these descriptions and whose
    /// data are in `topic`.
    #[must_use]
    pub fn new(run: &str, experiment: &str, topic: &str, formats: &[Description]) -> RunMessages {
        RunMessages {
            run: run.to_owned(),
            experiment: experiment.to_owned(),
            brokers: String::new(),
            service_id: String::new(),
            nexus_structure: nexus_structure(topic, formats).to_string(),
            builder: FlatBufferBuilder::new(),
        }
    }

    /// Names the brokers that have the data, and the file writer that should write them (empty:
    /// any).
    #[must_use]
    pub fn for_writer(mut self, brokers: &str, service_id: &str) -> RunMessages {
        (self.brokers, self.service_id) = (brokers.to_owned(), service_id.to_owned());
        self
    }

    /// Returns the pl72 message.
    pub fn start(&mut self) -> &[u8] {
        let job_id = job_id(&self.run);
        let filename = format!("{}.nxs", self.run);
        let metadata = json!({ "experiment": self.experiment }).to_string();
        let start = wire::Start {
            start_time_ms: began_ns(&self.run) / 1_000_000,
            run_name: &self.run,
            instrument_name: &self.experiment,
            nexus_structure: &self.nexus_structure,
            job_id: &job_id,
            broker: &self.brokers,
            service_id: &self.service_id,
            filename: &filename,
            metadata: &metadata,
            control_topic: "",
        };
        wire::pl72(&mut self.builder, &start)
    }

    /// Returns the 6s4t message of a run that ended at this time \[ns since 1970\].
    pub fn stop(&mut self, ended_ns: u64) -> &[u8] {
        let job_id = job_id(&self.run);
        let stop = wire::Stop {
            stop_time_ms: ended_ns.div_ceil(1_000_000),
            run_name: &self.run,
            job_id: &job_id,
            service_id: &self.service_id,
            command_id: "",
        };
        wire::stop_6s4t(&mut self.builder, &stop)
    }
}

/// Returns the time in a run's name \[ns since 1970\]; 0 where it has none.
fn began_ns(run: &str) -> u64 {
    run.rsplit_once('-').and_then(|(_, time)| time.parse().ok()).unwrap_or(0)
}

/// Returns the run's job as file writers want it: a UUID, the same each time.
fn job_id(run: &str) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write(run.as_bytes());
    let hash = hasher.finish128().as_u128();
    // RFC 9562, section 5.8: version 8, values of one's own.
    let uuid = hash & !(0xF << 76 | 0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        uuid >> 96,
        uuid >> 80 & 0xFFFF,
        uuid >> 64 & 0xFFFF,
        uuid >> 48 & 0xFFFF,
        uuid & 0xFFFF_FFFF_FFFF
    )
}

/// Returns the description of a NeXus file for the file writer: an entry with a group for each name
/// of data. Names that depend on packets are not known here, and are left out.
fn nexus_structure(topic: &str, formats: &[Description]) -> Value {
    let mut groups: Vec<(String, Schema)> = Vec::new();
    let mut add = |name: &NameTemplate, schema| {
        let fixed = name.fixed().map(|name| (name.to_owned(), schema));
        groups.extend(fixed.filter(|group| !groups.contains(group)));
    };
    for packet in formats.iter().flat_map(Description::packet_types) {
        let ess = &packet.ess;
        ess.ev44.iter().for_each(|of| add(&of.source_name, Schema::Ev44));
        ess.da00.iter().for_each(|of| add(&of.source_name, Schema::Da00));
        ess.f144.iter().for_each(|of| add(&of.source_name, Schema::F144));
    }
    let groups = groups.iter().map(|(name, schema)| {
        let class = match schema {
            Schema::Ev44 => "NXevent_data",
            Schema::Da00 => "NXdata",
            _ => "NXlog",
        };
        // A slash would make a path of the group's name.
        let group_name = format!("{}_{}", name.replace('/', "_"), schema.identifier());
        let stream = json!({
            "module": schema.identifier(),
            "config": { "source": name, "topic": topic },
        });
        group(&group_name, class, vec![stream])
    });
    let entry = group("entry", "NXentry", groups.collect());
    json!({ "children": [entry] })
}

fn group(name: &str, class: &str, children: Vec<Value>) -> Value {
    json!({
        "type": "group",
        "name": name,
        "attributes": [{ "name": "NX_class", "dtype": "string", "values": class }],
        "children": children,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_two_runs_differ_and_are_the_same_each_time() {
        let id = job_id("lab-17");
        assert_eq!(id, job_id("lab-17"));
        assert_ne!(id, job_id("lab-18"));
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'8'), "{id}");
        assert!("89ab".contains(id.as_bytes()[19] as char), "{id}");
    }

    #[test]
    fn the_time_of_a_run_is_in_its_name() {
        assert_eq!(began_ns("lab-a-1700000000123456789"), 1_700_000_000_123_456_789);
        assert_eq!(began_ns("lab"), 0);
    }
}
