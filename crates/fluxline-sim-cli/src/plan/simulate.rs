//! The simulation of a candidate: the run of the experiment on its link, in virtual time.

use fluxline_daq::experiment::{Nodes, Requirements};
use fluxline_run::{Checked, Met, Options};

use super::bounds::Counts;
use super::candidates::Candidate;
use super::load::Loaded;
use crate::failure::Failure;

/// The share of a rate from which it is met.
const RATE_SHARE: f64 = 0.99;
/// The least time of a simulation that meets a rate, as a multiple of the waiting that the file
/// asks for: a shorter one would hide a backlog behind that.
const LASTED_LEAST: f64 = 5.0;
/// The fewest packets of a sensor.
const PACKETS_LEAST: u64 = 20;

/// The answers of a simulated run.
pub struct Simulated {
    /// The requirements, and their measurements.
    pub checked: Vec<Checked>,
    /// Packets that sensors made.
    pub packets: u64,
    /// The way of the run to an end that was not complete; `None`: it was.
    pub sentence: Option<String>,
}

/// Runs the experiment on a candidate with `growth` times its rate.
pub fn simulate(
    loaded: &Loaded,
    candidate: &Candidate,
    counts: Counts,
    growth: f64,
    packets: u64,
) -> Result<Simulated, Failure> {
    let mut experiment = loaded.experiment.clone();
    let each = (packets / u64::from(loaded.sensors()).max(1)).max(PACKETS_LEAST);
    let mut slowest = f64::INFINITY;
    for source in &mut experiment.sources {
        if let Some(emulator) = &mut source.emulator {
            // Growth is compounded; the rest of its digits means nothing.
            emulator.rate = (emulator.rate * growth * 1e3).round() / 1e3;
            emulator.packets = each;
            slowest = slowest.min(emulator.rate);
        }
    }
    let batch_us = experiment.record.batch_ms as f64 * 1e3;
    let records = experiment.record.enabled;
    experiment.seconds = 0.0;
    experiment.record.enabled = false;
    experiment.accept = vec!["not-recorded".to_owned()];
    let nodes = experiment.graph.get_or_insert_with(Nodes::default);
    (nodes.readout.count, nodes.builder.count) = (counts.readouts, counts.builders);
    nodes.readout.sources.clear();
    let wanted_s = (nodes.readout.record_ms + experiment.events.jitter_ms as f64) * 1e-3;
    let bytes = loaded.all().bytes;
    let packet_ns = bytes.mul_add(candidate.host.byte_ns, candidate.host.packet_ns) as u64;
    nodes.readout.packet_ns = nodes.readout.packet_ns.max(packet_ns);
    nodes.builder.packet_ns = nodes.builder.packet_ns.max(packet_ns);
    let rate_hz = Some(slowest);
    experiment.requirements = Some(Requirements { rate_hz, ..loaded.required.clone() });
    experiment.link = experiment
        .link
        .map(|link| fluxline_daq::experiment::Link { url: candidate.link.clone(), ..link });
    let options = Options { link: Some(candidate.link.clone()), ..Options::default() };
    let report = fluxline_run::start_with(experiment, options)?.wait()?;
    let mut checked = report.requirements;
    let longest_s = report.delays.map_or(0.0, |of| of.max_ns as f64 * 1e-9);
    let lasted_s = (each - 1) as f64 / slowest;
    for of in &mut checked {
        match of.name {
            "rate-hz" => judge_rate(of, lasted_s, longest_s, wanted_s),
            "latency-us" if records => add_batch(of, batch_us),
            _ => {}
        }
    }
    let packets = each * u64::from(loaded.sensors());
    let sentence = report.verdict.sentence().map(str::to_owned);
    Ok(Simulated { checked, packets, sentence })
}

/// Widens a rate by the backlog that builders may have had: the longest time that an event waited,
/// without the waiting that the file asks for. Work for that time was left after `lasted_s`.
fn judge_rate(of: &mut Checked, lasted_s: f64, longest_s: f64, wanted_s: f64) {
    let Some([low, high]) = of.between else { return };
    let backlog_s = (longest_s - wanted_s).max(0.0);
    let low = low * lasted_s / (lasted_s + backlog_s).max(1e-12);
    of.between = Some([low, high]);
    of.margin = Some(low / of.required - 1.0);
    let is_long = lasted_s >= wanted_s * LASTED_LEAST;
    of.verdict = match (low >= of.required * RATE_SHARE, high >= of.required * RATE_SHARE) {
        (true, _) if is_long => Met::Met,
        (_, false) if is_long => Met::Missed,
        _ => Met::Undecided,
    };
    let (longest, wanted, lasted) = (longest_s * 1e3, wanted_s * 1e3, lasted_s * 1e3);
    of.words = format!(
        "{}; in {lasted:.1} ms, events waited up to {longest:.2} ms; the file asks for {wanted} ms",
        of.words
    );
}

/// Adds the age of a batch, which a run without files does not have.
fn add_batch(of: &mut Checked, batch_us: f64) {
    let Some([low, high]) = of.between else { return };
    let high = high + batch_us;
    of.between = Some([low, high]);
    of.margin = Some(1.0 - high / of.required);
    of.verdict = match (high <= of.required, low <= of.required) {
        (true, _) => Met::Met,
        (_, false) => Met::Missed,
        _ => Met::Undecided,
    };
    of.words = of.words.replace("up to 0 us", &format!("up to {batch_us} us"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(required: f64, between: [f64; 2]) -> Checked {
        let (name, unit, words) = ("rate-hz", "1/s", String::new());
        let (verdict, between) = (Met::Undecided, Some(between));
        Checked { name, required, unit, between, verdict, margin: None, words }
    }

    #[test]
    fn a_rate_is_undecided_while_events_may_pile_up_behind_the_readouts() {
        for (lasted, longest, verdict) in [
            (1.0, 0.016, Met::Met),
            (0.1, 0.015, Met::Met),
            (0.05, 0.015, Met::Undecided),
            (1.0, 0.1, Met::Undecided),
        ] {
            let mut of = checked(1000.0, [1000.0, 1000.0]);
            judge_rate(&mut of, lasted, longest, 0.015);
            assert_eq!(of.verdict, verdict, "{lasted} {longest}");
        }
        let mut of = checked(1000.0, [900.0, 900.0]);
        judge_rate(&mut of, 1.0, 0.0, 0.015);
        assert_eq!(of.verdict, Met::Missed);
        // The first and the last packet alone are off by more in so short a time.
        let mut of = checked(1000.0, [900.0, 900.0]);
        judge_rate(&mut of, 0.05, 0.0, 0.015);
        assert_eq!(of.verdict, Met::Undecided);
    }

    #[test]
    fn the_age_of_a_batch_is_part_of_the_latency() {
        let mut of = checked(10_000.0, [500.0, 900.0]);
        add_batch(&mut of, 5_000.0);
        assert_eq!((of.between, of.verdict), (Some([500.0, 5_900.0]), Met::Met));
        add_batch(&mut of, 5_000.0);
        assert_eq!(of.verdict, Met::Undecided);
    }
}
