//! Limits that the configured rates would reach while events wait for a silent source. They are
//! reported at the start, with the value to write. The builder reports later what only the traffic
//! shows.

use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::experiment::Experiment;

/// Share of a limit at which the oldest events close before their time: a half of the bytes, three
/// quarters of the events.
const BYTES_SHARE: f64 = 0.5;
const EVENTS_SHARE: f64 = 0.75;
/// Size of a packet's row beside its bytes, roughly \[byte\].
const ROW_BYTES: f64 = 96.0;

/// The configured traffic of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExpectedTraffic {
    /// Packets of one of its sources in a second.
    pub source_hz: f64,
    /// Number of its sources.
    pub sources: u32,
    /// Size of a packet \[byte\].
    pub packet_bytes: usize,
}

/// Returns a sentence for each limit that is too small for the time-out.
pub(crate) fn too_small(
    experiment: &Experiment,
    traffic: &[ExpectedTraffic],
    builder: &BuilderConfig,
) -> Vec<String> {
    let scope = match builder.mode {
        Mode::Key(scope) => scope,
        Mode::Packet | Mode::Window { .. } => return Vec::new(),
    };
    let wait_ms = experiment.events.timeout_ms;
    let wait = wait_ms as f64 / 1000.0;
    let packets_hz = |of: &ExpectedTraffic| of.source_hz * f64::from(of.sources);
    let events_hz = match scope {
        Scope::Global => traffic.iter().map(|of| of.source_hz).fold(0.0, f64::max),
        Scope::PerSource => traffic.iter().map(packets_hz).sum(),
    };
    let bytes_hz: f64 =
        traffic.iter().map(|of| packets_hz(of) * (of.packet_bytes as f64 + ROW_BYTES)).sum();
    let mut said = Vec::new();
    let (bytes, bytes_max) = (bytes_hz * wait / BYTES_SHARE, builder.bytes_open_max);
    if bytes > bytes_max as f64 {
        said.push(format!(
            "at {:.0} MB/s, events that wait {wait_ms} ms for a silent source need more memory than \
             bytes-max = {bytes_max}, and would close earlier; write `bytes-max = {}` below \
             [events], or a shorter timeout-ms.",
            bytes_hz / 1e6,
            round_up(bytes)
        ));
    }
    let (events, events_max) = (events_hz * wait / EVENTS_SHARE, builder.events_open_max);
    if events_max > 0 && events > f64::from(events_max) {
        said.push(format!(
            "at {events_hz:.0} events/s, events that wait {wait_ms} ms for a silent source are more \
             than open-max = {events_max}, and would close earlier; write `open-max = {}` below \
             [events], or a shorter timeout-ms.",
            round_up(events)
        ));
    }
    said
}

/// Returns the next power of two.
fn round_up(value: f64) -> u64 {
    (value as u64).checked_next_power_of_two().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
    use fluxline_daq::experiment::Experiment;

    use super::{ExpectedTraffic, too_small};

    #[test]
    fn limits_that_the_rate_would_reach_are_said_with_the_value_to_write() {
        let text = "[[source]]\nname = 'a'\nformat = 'counter'\n[source.emulator]\n";
        let experiment = Experiment::parse("test", text).expect("right");
        let traffic = [ExpectedTraffic { source_hz: 50_000.0, sources: 8, packet_bytes: 1056 }];
        let builder = |bytes_open_max, events_open_max| BuilderConfig {
            mode: Mode::Key(Scope::Global),
            bytes_open_max,
            events_open_max,
            ..BuilderConfig::default()
        };
        let said = too_small(&experiment, &traffic, &builder(256 << 20, 16_384));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("bytes-max = 536870912"), "{said:?}");
        assert!(said[1].contains("open-max = 65536"), "{said:?}");
        assert!(too_small(&experiment, &traffic, &builder(512 << 20, 65_536)).is_empty());
    }
}
