//! The digest of an experiment, as far as it decides how events are built.
//!
//! Nodes may differ in addresses, cores, paths and lengths of runs; they must agree on everything
//! that builders compute with.

use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats::LoadedFormat;
use serde_json::json;

/// Returns the digest. `loaded` has the descriptions of the sources, in their order; `function` is
/// the version of the program's filter function.
#[must_use]
pub fn digest_of(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
    function: Option<&str>,
) -> String {
    let sources = experiment.sources.iter().zip(loaded).map(|(source, format)| {
        json!([source.name, format.text, source.parameters, source.is_file()])
    });
    let document = json!({
        "events": experiment.events,
        "filter": [experiment.filter.keep, experiment.filter.mark],
        "filter_function": function,
        "sink": experiment.sink.kafka.as_ref().map(|kafka| {
            let (topic, of_run) = (&kafka.topic, &kafka.run_topic);
            json!([topic, of_run, kafka.schema, kafka.service_id, kafka.record_bytes])
        }),
        "batch": [experiment.record.batch_bytes, experiment.record.batch_ms],
        "sources": sources.collect::<Vec<_>>(),
        "nodes": experiment.nodes,
    });
    let bytes = document.to_string().into_bytes();
    let (one, other) = (
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes),
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Xz, &bytes),
    );
    format!("{one:016x}{other:016x}")
}
