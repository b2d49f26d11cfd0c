//! The page of a scenario: headlines, plots and tables of its results.

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, HeatMap, Page, Plot, Scale, Section, Style, Table,
};

use super::number::number;
use super::results::{Latency, LinkGrid, Point, Precision, Results};
use super::{events, hosts};
use crate::scenario::Scenario;

/// Bins per decade of the latency histogram.
const BINS_A_DECADE: f64 = 16.0;
/// Number of points whose histograms and nodes are shown: more curves would hide each other.
const SHOWN_MAX: usize = 3;

/// The subject of a page: the network and its traffic, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The heading.
    pub title: String,
    /// The network.
    pub network: String,
    /// Its nodes.
    pub nodes: u64,
    /// The sizes of messages.
    pub sizes: String,
    /// The seed.
    pub seed: u64,
    /// Messages of a node under way at a time; 0: an open loop.
    pub window: u32,
    /// All settings, by name.
    pub keys: Vec<Setting>,
}

/// One setting of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub key: String,
    /// The value.
    pub value: String,
}

impl Subject {
    /// Describes a scenario. `name` is the heading where the scenario has no title.
    #[must_use]
    pub fn of(name: &str, scenario: &Scenario) -> Subject {
        let title = if scenario.title.is_empty() { name } else { &scenario.title };
        Subject {
            title: title.to_string(),
            network: scenario.network.kind.name().to_string(),
            nodes: scenario.network.node_count(),
            sizes: sizes(scenario),
            seed: scenario.seed,
            window: scenario.traffic.window,
            keys: keys(scenario),
        }
    }
}

/// Makes the page of a scenario. `name` is the heading where the scenario has no title.
#[must_use]
pub fn page(name: &str, scenario: &Scenario, results: &Results) -> Page {
    page_of(&Subject::of(name, scenario), results)
}

/// Makes the page of any network's results.
#[must_use]
pub fn page_of(subject: &Subject, results: &Results) -> Page {
    let points = &results.points;
    Page {
        title: subject.title.clone(),
        subtitle: format!(
            "simulated: {}, {} nodes, {} messages; seed {}, fingerprint {}; fluxline {}",
            subject.network,
            subject.nodes,
            subject.sizes,
            subject.seed,
            results.fingerprint,
            env!("CARGO_PKG_VERSION"),
        ),
        headlines: headlines(results),
        verdict: verdict(subject, results),
        sections: [
            Some(load_section(points)),
            Some(points_section(points)),
            events::section(points),
            Some(distribution_section(points)),
            Some(nodes_section(points)),
            Some(links_section(points)),
            hosts::section(points),
            Some(how_section(subject, points)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Page::default()
    }
}

fn sizes(scenario: &Scenario) -> String {
    if let Some(replay) = &scenario.traffic.replay {
        return format!("{} given", replay.count());
    }
    let sizes: Vec<String> =
        scenario.sizes().iter().map(|size| format!("{} B", size.bytes)).collect();
    sizes.join(", ")
}

fn headline(label: &str, value: String, note: String) -> Headline {
    Headline { label: label.to_string(), value, note }
}

fn headlines(results: &Results) -> Vec<Headline> {
    let mut all = Vec::new();
    if let Some((point, latency)) = lightest(results) {
        let note = format!("p99 {} us, load {:.3}", number(latency.p99), point.load);
        all.push(headline("latency, lightest load", micros(latency.mean), note));
    }
    if let Some(best) = most_accepted(results) {
        let note = format!("of {:.1} offered, load {:.3}", best.offered_mb_s, best.load);
        all.push(headline(
            "most accepted, a node",
            format!("{:.1} MB/s", best.accepted_mb_s),
            note,
        ));
    }
    if let Some(found) = results.saturation {
        let note = format!("no longer at {:.3}; shares of a link", found.saturated);
        all.push(headline("carries", format!("{:.3}", found.stable), note));
    }
    if let Some(last) = results.points.last() {
        let targets = jain(last.target_jain);
        let note = format!("Jain's index of sources, load {:.3}; of targets {targets}", last.load);
        all.push(headline("fairness, heaviest load", jain(last.source_jain), note));
    }
    all
}

fn lightest(results: &Results) -> Option<(&Point, Latency)> {
    let first = results.points.first()?;
    Some((first, first.latency_us?))
}

fn most_accepted(results: &Results) -> Option<&Point> {
    results.points.iter().max_by(|a, b| a.accepted_mb_s.total_cmp(&b.accepted_mb_s))
}

/// Share of the offered load that must be accepted for a load to count as carried.
const CARRIED: f64 = 0.95;

fn verdict(subject: &Subject, results: &Results) -> String {
    let mut said = Vec::new();
    let carried = |point: &&Point| point.accepted_mb_s < CARRIED * point.offered_mb_s;
    match results.points.iter().find(carried) {
        _ if subject.window > 0 && results.points.iter().any(|point| point.events.is_some()) => {
            said.push(format!("A closed loop: {} events are open.", subject.window));
        }
        _ if subject.window > 0 => said
            .push(format!("A closed loop: each node has {} messages under way.", subject.window)),
        Some(point) => said.push(format!(
            "From load {:.3} on the network accepts less than {:.0} % of the offered payload.",
            point.load,
            100.0 * CARRIED
        )),
        None => said.push("The network carries every offered load.".to_string()),
    }
    if let Some(last) = results.points.last() {
        said.push(format!(
            "At the heaviest load the busiest link is busy {:.0} % of its time.",
            100.0 * last.busiest()
        ));
    }
    let lost: u64 = results.points.iter().map(|point| point.lost).sum();
    if lost > 0 {
        said.push(format!("{lost} messages were lost."));
    }
    let is_missed = |point: &&Point| point.precision == Precision::Missed;
    let missed: Vec<String> =
        results.points.iter().filter(is_missed).map(|point| format!("{:.3}", point.load)).collect();
    if !missed.is_empty() {
        said.push(format!(
            "The mean latency is less precise than asked for at load {}: raise \
             `confidence.longest` or `run.duration-us`.",
            missed.join(", ")
        ));
    }
    said.join(" ")
}

pub(super) fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_string(), unit: unit.to_string(), scale }
}

pub(super) fn curve(label: &str, style: Style, points: Vec<(f64, f64)>) -> Curve {
    Curve { label: label.to_string(), points, style, band: Vec::new() }
}

fn load_section(points: &[Point]) -> Section {
    let of = |value: fn(&Latency) -> f64| -> Vec<(f64, f64)> {
        let y = |point: &Point| point.latency_us.as_ref().map_or(f64::NAN, value);
        points.iter().map(|point| (point.load, y(point))).collect()
    };
    let band = |point: &Point| {
        let latency = point.latency_us.as_ref();
        latency.map_or((f64::NAN, f64::NAN), |of| (of.low(), of.high()))
    };
    let mean = Curve {
        band: points.iter().map(band).collect(),
        ..curve("mean, 95 % confidence", Style::Line, of(|latency| latency.mean))
    };
    let latency = Plot {
        title: "Latency".to_string(),
        x: axis("load", "", Scale::Linear),
        y: axis("latency", "us", Scale::Logarithmic),
        curves: vec![
            mean,
            curve("p50", Style::Line, of(|latency| latency.p50)),
            curve("p99", Style::Line, of(|latency| latency.p99)),
            curve("p99.9", Style::Line, of(|latency| latency.p999)),
            curve("max", Style::Points, of(|latency| latency.max)),
        ],
        marks: Vec::new(),
    };
    let of = |value: fn(&Point) -> f64| points.iter().map(|p| (p.load, value(p))).collect();
    let throughput = Plot {
        title: "Throughput of a node".to_string(),
        x: axis("load", "", Scale::Linear),
        y: axis("payload", "MB/s", Scale::Linear),
        curves: vec![
            curve("accepted", Style::Line, of(|point| point.accepted_mb_s)),
            curve("offered", Style::Dashed, of(|point| point.offered_mb_s)),
        ],
        marks: Vec::new(),
    };
    Section {
        title: "Load".to_string(),
        text: "Load is the payload that each node offers, as a share of what a link carries. \
               Latency runs from posting a message to its complete arrival, queueing included."
            .to_string(),
        blocks: vec![Block::Plot(latency), Block::Plot(throughput)],
        ..Section::default()
    }
}

fn points_section(points: &[Point]) -> Section {
    let columns = [
        "load",
        "offered [MB/s]",
        "accepted [MB/s]",
        "mean [us]",
        "95 % from [us]",
        "to [us]",
        "p50 [us]",
        "p99 [us]",
        "p99.9 [us]",
        "max [us]",
        "Jain, sources",
        "Jain, targets",
        "busiest link",
        "messages",
        "lost",
        "in flight",
        "steady after",
    ];
    let table = Table {
        title: String::new(),
        columns: columns.map(str::to_string).to_vec(),
        rows: points.iter().map(point_row).collect(),
    };
    Section {
        title: "Points".to_string(),
        text: "Offered and accepted are payload of a node, mean over the nodes. The mean's \
               interval of 95 % confidence is marked where it is wider than asked for. Lost \
               messages are those of the measured time."
            .to_string(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    }
}

fn point_row(point: &Point) -> Vec<Cell> {
    let number = |text: String| Cell::Number(text);
    let latency = |value: fn(&Latency) -> f64| {
        Cell::Number(
            point
                .latency_us
                .as_ref()
                .map_or("–".to_string(), |of| super::number::number(value(of))),
        )
    };
    let steady = match point.is_rising {
        true => Cell::Bad("never".to_string()),
        false => Cell::Good(format!("{} us", super::number::number(point.warm_up_us))),
    };
    vec![
        number(format!("{:.3}", point.load)),
        number(format!("{:.2}", point.offered_mb_s)),
        number(format!("{:.2}", point.accepted_mb_s)),
        latency(|of| of.mean),
        latency(Latency::low),
        match (latency(Latency::high), point.precision) {
            (Cell::Number(text), Precision::Missed) => Cell::Bad(text),
            (cell, _) => cell,
        },
        latency(|of| of.p50),
        latency(|of| of.p99),
        latency(|of| of.p999),
        latency(|of| of.max),
        number(jain(point.source_jain)),
        number(jain(point.target_jain)),
        number(format!("{:.1} %", 100.0 * point.busiest())),
        number(point.messages.to_string()),
        number(point.lost.to_string()),
        number(point.in_flight.to_string()),
        steady,
    ]
}

/// Returns the first, the middle and the last point; fewer points are all shown.
fn shown(points: &[Point]) -> Vec<&Point> {
    let last = points.len().saturating_sub(1);
    let mut places = vec![0, last / 2, last];
    places.dedup();
    places.truncate(SHOWN_MAX);
    places.into_iter().filter_map(|at| points.get(at)).collect()
}

fn distribution_section(points: &[Point]) -> Section {
    let steps = |point: &&Point| {
        let label = format!("load {:.3}", point.load);
        curve(&label, Style::Steps, bins(&point.histogram))
    };
    let plot = Plot {
        title: "Messages by latency".to_string(),
        x: axis("latency", "us", Scale::Logarithmic),
        y: axis("messages", "", Scale::Logarithmic),
        curves: shown(points).iter().map(steps).collect(),
        marks: Vec::new(),
    };
    Section {
        title: "Latency distribution".to_string(),
        text: format!("{BINS_A_DECADE} bins per decade."),
        blocks: vec![Block::Plot(plot)],
        ..Section::default()
    }
}

/// Returns counts in bins of equal width on a logarithmic axis, empty bins included: left edge and
/// count of each, and a last edge with 0.
fn bins(histogram: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let bin = |us: f64| (us.max(1e-6).log10() * BINS_A_DECADE).floor() as i64;
    let (Some(first), Some(last)) = (histogram.first(), histogram.last()) else {
        return Vec::new();
    };
    let (first, last) = (bin(first.0), bin(last.0));
    let mut counts = vec![0_u64; (last - first + 1).max(1) as usize];
    for &(us, count) in histogram {
        counts[(bin(us) - first).clamp(0, last - first) as usize] += count;
    }
    let edge = |at: i64| 10_f64.powf((first + at) as f64 / BINS_A_DECADE);
    let steps = (0_i64..).zip(&counts).map(|(at, &count)| (edge(at), count as f64));
    steps.chain([(edge(counts.len() as i64), 0.0)]).collect()
}

fn nodes_section(points: &[Point]) -> Section {
    let plot = |title: &str, rates: fn(&Point) -> &[f64]| {
        let dots = |point: &&Point| {
            let nodes = rates(point).iter().enumerate();
            let dots = nodes.map(|(node, &rate)| (node as f64, rate)).collect();
            curve(&format!("load {:.3}", point.load), Style::Points, dots)
        };
        Block::Plot(Plot {
            title: title.to_string(),
            x: axis("node", "", Scale::Linear),
            y: axis("payload", "MB/s", Scale::Linear),
            curves: shown(points).iter().map(dots).collect(),
            marks: Vec::new(),
        })
    };
    Section {
        title: "Nodes".to_string(),
        text: "Dots at one height: all sources, or all targets, have the same payload at that \
               load. Silent nodes have no dot."
            .to_string(),
        blocks: vec![
            plot("Delivered payload of each source", |point| &point.sources_mb_s),
            plot("Delivered payload of each target", |point| &point.targets_mb_s),
        ],
        ..Section::default()
    }
}

fn links_section(points: &[Point]) -> Section {
    let Some(last) = points.last() else { return Section::default() };
    let map = |grid: &LinkGrid| {
        let columns = grid.rows.iter().map(|(_, row)| row.len()).max().unwrap_or(0);
        let percent = |row: &Vec<f64>| row.iter().map(|share| 100.0 * share).collect();
        Block::HeatMap(HeatMap {
            title: grid.title.clone(),
            unit: "% of the time".to_string(),
            columns: (0..columns).map(|at| at.to_string()).collect(),
            rows: grid.rows.iter().map(|(name, row)| (name.clone(), percent(row))).collect(),
        })
    };
    Section {
        title: "Links".to_string(),
        text: format!("Share of its time that each link was busy at load {:.3}.", last.load),
        blocks: last.links.iter().map(map).collect(),
        ..Section::default()
    }
}

pub(super) fn how_section(subject: &Subject, points: &[Point]) -> Section {
    let run = |point: &Point| {
        vec![
            Cell::Number(format!("{:.3}", point.load)),
            Cell::Number(number(point.measured_us)),
            Cell::Number(point.entries.to_string()),
            Cell::Number(point.hops.to_string()),
            Cell::Text(point.fingerprint.clone()),
        ]
    };
    let columns = ["load", "measured [us]", "entries", "packets over links", "fingerprint"];
    let runs = Table {
        title: "Computation of each point".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows: points.iter().map(run).collect(),
    };
    let keys = Table {
        title: "The scenario, defaults included".to_string(),
        columns: vec!["key".to_string(), "value".to_string()],
        rows: subject.keys.iter().map(setting_row).collect(),
    };
    Section {
        title: "Simulation".to_string(),
        text:
            "Equal scenarios and seeds have equal fingerprints, on any machine and with any number \
               of threads."
                .to_string(),
        blocks: vec![Block::Table(runs), Block::Table(keys)],
        ..Section::default()
    }
}

fn setting_row(setting: &Setting) -> Vec<Cell> {
    vec![Cell::Text(setting.key.clone()), Cell::Text(setting.value.clone())]
}

fn keys(scenario: &Scenario) -> Vec<Setting> {
    let document = serde_json::to_value(scenario).unwrap_or_default();
    let mut rows = Vec::new();
    let mut push = |key: String, value: &serde_json::Value| {
        if !value.is_null() {
            rows.push(Setting { key, value: value.to_string() });
        }
    };
    for (key, value) in document.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(part) => part.iter().for_each(|(name, of)| push(format!("{key}.{name}"), of)),
            None => push(key.clone(), value),
        }
    }
    rows
}

/// Writes a fairness index; a network that delivers nothing has none.
fn jain(index: Option<f64>) -> String {
    index.map_or_else(|| "–".to_string(), |index| format!("{index:.3}"))
}

fn micros(us: f64) -> String {
    if us < 1.0 { format!("{} ns", number(us * 1e3)) } else { format!("{} us", number(us)) }
}

#[cfg(test)]
mod tests {
    use super::bins;

    #[test]
    fn bins_keep_every_message_and_close_with_nothing() {
        let histogram = [(0.9, 5), (1.1, 7), (1.12, 1), (35.0, 2)];
        let bins = bins(&histogram);
        assert_eq!(bins.iter().map(|bin| bin.1).sum::<f64>(), 15.0);
        assert_eq!(bins.last().map(|bin| bin.1), Some(0.0));
        assert!(bins.first().is_some_and(|bin| bin.0 <= 0.9) && bins[0].1 == 5.0, "{bins:?}");
        assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(super::bins(&[]).is_empty());
    }
}
