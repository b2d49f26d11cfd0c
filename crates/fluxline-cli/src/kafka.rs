//! The border to Apache Kafka, which only a program built with the feature `kafka` has.

use fluxline_run::OpenSink;

/// Opens the sink of an experiment.
#[cfg(feature = "kafka")]
pub const OPEN_SINK: Option<OpenSink> = Some(fluxline_kafka::sink::open);
/// Opens the sink of an experiment; this program has none.
#[cfg(not(feature = "kafka"))]
pub const OPEN_SINK: Option<OpenSink> = None;
