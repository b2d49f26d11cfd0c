//! The counters in the format of OpenMetrics, for Prometheus and whatever reads its format.
//!
//! Names, helps and units come from the rows of the counters, so a new counter is exported by
//! itself. Source: OpenMetrics 1.0.0.

use std::fmt;
use std::sync::Arc;

use fluxline_core::counters::{Merge, Row};
use fluxline_run::{Live, RunState, Watcher};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Value;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts that may fall, as when a packet that was counted as lost comes late: no counters in the
/// sense of OpenMetrics.
const FALLING: [&str; 2] = ["lost", "held"];

/// Returns the counters of an acquisition as text.
///
/// # Errors
/// [`fmt::Error`]; does not occur when writing into a string.
pub fn text(watcher: &Watcher) -> Result<String, fmt::Error> {
    let live = Arc::new(watcher.live());
    let mut registry = Registry::with_prefix("fluxline");
    let slow = watcher.slow_values().map_or(Value::Null, |slow| slow.document(usize::MAX));
    let (run, health) = (watcher.plan().name.clone(), watcher.health().document());
    registry.register_collector(Box::new(Counters { run, live, health, slow }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Counters {
    run: String,
    live: Arc<Live>,
    health: Value,
    /// Null where the run takes no slow control values.
    slow: Value,
}

/// The rows of one place (`source`, `input`, ..), each with a value for every member.
struct Place<'a> {
    name: &'static str,
    /// The label of a member, and the rows with their values.
    members: Vec<(&'a str, Vec<(&'static Row, u64)>)>,
}

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let ledger = &self.live.ledger;
        let sources = ledger.sources.iter();
        let inputs = ledger.inputs.iter();
        let places = [
            Place {
                name: "source",
                members: sources
                    .map(|one| (one.label.as_str(), one.counters.rows().collect()))
                    .collect(),
            },
            Place {
                name: "input",
                members: inputs
                    .map(|one| (one.name.as_str(), one.counters.rows().collect()))
                    .collect(),
            },
            Place { name: "builder", members: vec![("", ledger.builder.rows().collect())] },
            Place { name: "host", members: vec![("", ledger.host.rows().collect())] },
        ];
        places.iter().try_for_each(|place| self.encode_place(&mut encoder, place))?;
        self.encode_state(&mut encoder)?;
        self.encode_health(&mut encoder)?;
        self.encode_slow(&mut encoder)?;
        self.encode_gauges(&mut encoder)
    }
}

impl Counters {
    fn encode_place(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        place: &Place<'_>,
    ) -> Result<(), fmt::Error> {
        let rows = place.members.first().map_or(0, |(_, rows)| rows.len());
        for at in 0..rows {
            let row = place.members[0].1[at].0;
            let falls = FALLING.contains(&row.name) || row.merge == Merge::Maximum;
            let kind = if falls { MetricType::Gauge } else { MetricType::Counter };
            let name = format!("{}_{}", place.name, row.name);
            let mut metric = encoder.encode_descriptor(&name, row.help, None, kind)?;
            for (label, rows) in &place.members {
                let value = rows[at].1;
                let labels = [("run", self.run.as_str()), (place.name, label)];
                let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                let labels: Vec<(String, String)> =
                    labels.iter().map(|&(key, of)| (key.to_owned(), of.to_owned())).collect();
                let metric = metric.encode_family(&labels)?;
                encode_value(metric, falls, value)?;
            }
        }
        Ok(())
    }

    fn encode_state(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "1 for the state of the run, 0 for the others";
        let mut metric = encoder.encode_descriptor("run_state", help, None, MetricType::Gauge)?;
        let states = [
            RunState::Armed,
            RunState::Running,
            RunState::Paused,
            RunState::Stopping,
            RunState::Stopped,
        ];
        for state in states {
            let labels = [("run", self.run.as_str()), ("state", state.name())];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_gauge(&i64::from(state == self.live.state))?;
        }
        Ok(())
    }

    fn encode_health(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "1 for the health of the run (ok, warning, alarm, unknown), 0 for the others";
        let mut metric = encoder.encode_descriptor("run_health", help, None, MetricType::Gauge)?;
        for health in ["ok", "warning", "alarm", "unknown"] {
            let labels = [("run", self.run.as_str()), ("health", health)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_gauge(&i64::from(self.health["state"] == health))?;
        }
        let help = "1 for an active alarm that is not shelved, 0 for a cleared or shelved one";
        let mut metric = encoder.encode_descriptor("run_alarm", help, None, MetricType::Gauge)?;
        for alarm in self.health["alarms"].as_array().into_iter().flatten() {
            let text = |key: &str| alarm[key].as_str().unwrap_or_default();
            let labels = [
                ("run", self.run.as_str()),
                ("alarm", text("name")),
                ("severity", text("severity")),
            ];
            let counts = text("state") == "active" && alarm["shelved_until_ns"].is_null();
            metric.encode_family(&labels)?.encode_gauge(&i64::from(counts))?;
        }
        Ok(())
    }

    fn encode_slow(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(values) = self.slow["values"].as_object() else { return Ok(()) };
        let help = "The newest number of a slow control value";
        let kind = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("slow_control_value", help, None, kind)?;
        for (name, value) in values {
            let unit = value["unit"].as_str().unwrap_or_default();
            if let Some(number) = value["value"].as_f64() {
                let labels = [("run", self.run.as_str()), ("value", name), ("unit", unit)];
                metric.encode_family(&labels)?.encode_gauge(&number)?;
            }
        }
        Ok(())
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let live = &self.live;
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let gauges = [
            ("in_flight", "Received datagrams that have no place yet", live.in_flight() as f64),
            ("ring_fill_ratio", "Fill level of the fullest ring", {
                live.stats.ring_percent as f64 * 0.01
            }),
            ("disk_free_bytes", "Free space of the run folder's disk", {
                live.free_bytes.unwrap_or(0) as f64
            }),
            ("event_delay_p50_seconds", "Median delay of events", seconds(live.delays.p50_ns)),
            ("event_delay_p99_seconds", "99 % of the events take at most this", {
                seconds(live.delays.p99_ns)
            }),
            ("event_delay_max_seconds", "The longest delay of an event", {
                seconds(live.delays.max_ns)
            }),
        ];
        for (name, help, value) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_family(&[("run", self.run.as_str())])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn encode_value(mut metric: MetricEncoder<'_>, falls: bool, value: u64) -> Result<(), fmt::Error> {
    match falls {
        true => metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX)),
        false => metric.encode_counter::<Vec<(String, String)>, u64, u64>(&value, None),
    }
}
