//! Runs the schedule once a round, and turns the measurements into series and facts.

use std::collections::BTreeMap;

use fluxline_report::quantity;
use serde_json::json;

use super::schedule::{Config, Schedule, TRIAL_SECONDS, TRIALS};
use super::{Measured, Mode, Task, Way, exchange, tcp};
use crate::Error;
use crate::environment::{Conversation, Environment, Plan};
use crate::result::{Axis, Experiment, Fact, Point, Series, axis};
use crate::statistics::median;

/// The label of the mean over a trial's repeats, in the shortest of three trials: the time that
/// NetPIPE prints. Source: netpipe.c.
pub const BEST_MEAN: &str = "mean of the best trial";
/// Repeats of the first look at the first size. Source: netpipe.c.
const FIRST_REPEATS: u64 = 100;
/// The time of a trial with `--quick` \[s\].
const QUICK_TRIAL_SECONDS: f64 = 0.01;
/// A trial may last longer than planned by this factor, because another program had a core in the
/// trial before. NetPIPE knows only the shortest trial, and would not end on a busy machine.
const OVERTIME: f64 = 5.0;
/// The longest time of a trial on a fabric \[ms\]: NetPIPE's STOPTM.
const TRIAL_LIMIT_MS: u64 = 1000;
/// Over TCP both ends write before they read: the size of the sockets' first buffers \[byte\].
const TCP_BOTH_WAYS_BYTES_MAX: u64 = 64 << 10;
/// The most repeats of a trial in virtual time, where equal repeats take equally long. Chosen: what
/// fills and empties a pipeline is below 1 % of a stream of as many.
const VIRTUAL_REPEATS_MAX: u64 = 1000;
/// The label of the repeats of an integrity run.
pub const REPEATS: &str = "repeats";
/// The first size of an integrity run \[byte\]. Source: netpipe.c, -i: one more than an integer.
const INTEGRITY_FIRST_BYTES: u64 = 5;

/// A kind of run.
pub struct Kind {
    mode: Mode,
    way: Way,
    cold: bool,
    checked: bool,
}

/// Puts, there and back.
pub const PING_PONG: Kind =
    Kind { mode: Mode::PingPong, way: Way::Put, cold: false, checked: false };
/// Messages, there and back.
pub const MESSAGES: Kind =
    Kind { mode: Mode::PingPong, way: Way::Message, cold: false, checked: false };
/// Puts, there only.
pub const STREAM: Kind = Kind { mode: Mode::Stream, way: Way::Put, cold: false, checked: false };
/// Puts, both ways at once.
pub const BIDIRECTIONAL: Kind =
    Kind { mode: Mode::Bidirectional, way: Way::Put, cold: false, checked: false };
/// Puts there and back with a cold cache.
pub const COLD: Kind = Kind { mode: Mode::PingPong, way: Way::Put, cold: true, checked: false };

/// Puts, there and back, compared at both ends.
pub const INTEGRITY: Kind = Kind { checked: true, ..PING_PONG };

impl Kind {
    /// One way, as NetPIPE counts it \[s\]: half a round trip, else a whole repeat.
    fn one_way(&self, seconds: f64) -> f64 {
        if self.mode == Mode::PingPong { seconds / 2.0 } else { seconds }
    }

    fn time_label(&self) -> &'static str {
        match self.mode {
            _ if self.checked => "integrity",
            Mode::PingPong => "half round trip",
            Mode::Stream => "time of a message",
            Mode::Bidirectional => "time of a message each way",
        }
    }

    fn task(&self, bytes: u64, repeats: u64, trials: u32) -> Task {
        let Kind { mode, way, cold, checked } = *self;
        // A checked exchange that is cut short would leave messages behind.
        let limit_ms = if checked { 0 } else { TRIAL_LIMIT_MS };
        Task { mode, way, bytes, repeats, trials, cold, checked, limit_ms }
    }

    /// Returns the number of trials. Source of the one: netpipe.c, -i.
    fn trials(&self, effort: Effort) -> u32 {
        if self.checked { 1 } else { effort.trials }
    }
}

/// The trials of a size and their length, by the kind of time.
#[derive(Clone, Copy)]
struct Effort {
    trials: u32,
    repeats_max: u64,
}

impl Effort {
    /// NetPIPE's own on a real link. In virtual time, trials are equal and one is enough.
    fn on(is_real: bool) -> Effort {
        if is_real {
            return Effort { trials: TRIALS, repeats_max: u64::MAX };
        }
        Effort { trials: 1, repeats_max: VIRTUAL_REPEATS_MAX }
    }
}

/// Measures a task, on a fabric or over TCP.
trait Bench {
    fn effort(&self) -> Effort;
    fn measure(&mut self, task: &Task) -> Result<Measured, Error>;
    fn progress(&mut self, done: usize, all: usize, what: &str);
}

struct Remote<'a>(&'a mut dyn Environment);

impl Bench for Remote<'_> {
    fn effort(&self) -> Effort {
        Effort::on(self.0.is_real())
    }

    fn measure(&mut self, task: &Task) -> Result<Measured, Error> {
        let parameters = serde_json::to_value(task).unwrap_or_default();
        let ends = self.0.trial(&exchange::TRIAL, &parameters)?;
        let read = |end| {
            serde_json::from_value::<Measured>(end)
                .map_err(|error| Error::Garbled { what: format!("no result ({error})") })
        };
        let [near, far] = ends.map(read);
        let (near, far) = (near?, far?);
        let compared_bytes = near.compared_bytes + far.compared_bytes;
        let counts = if task.mode == Mode::Stream { far } else { near };
        Ok(Measured { compared_bytes, ..counts })
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        self.0.progress(done, all, what);
    }
}

struct OnTcp<'a> {
    end: tcp::End,
    conversation: &'a mut dyn Conversation,
}

impl Bench for OnTcp<'_> {
    fn effort(&self) -> Effort {
        Effort::on(true)
    }

    fn measure(&mut self, task: &Task) -> Result<Measured, Error> {
        tcp::measure(&mut self.end, task, self.conversation)
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        self.conversation.progress(done, all, what);
    }
}

/// Runs the schedule as often as planned. Results measured before an error are kept.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
    kind: &Kind,
) -> Result<(), Error> {
    let capabilities = environment.capabilities()?;
    let mut config = config(plan, kind);
    config.last = config.last.min(environment.half_bytes());
    if let (Some(link), Way::Message) = (&capabilities, kind.way)
        && config.last + config.perturbation > link.message_bytes_max
    {
        config.last = link.message_bytes_max.saturating_sub(config.perturbation);
        let most = quantity(link.message_bytes_max as f64, "B");
        into.notes.push(format!("A message of this link has at most {most}."));
    }
    if !environment.is_real() {
        into.notes.push(format!(
            "In virtual time, one trial is run instead of {TRIALS}, of at most \
             {VIRTUAL_REPEATS_MAX} repeats: more would repeat the same."
        ));
    }
    if config.first > config.last {
        let [least, most] = [config.first, config.last];
        let problem =
            format!("messages of {least} B are too long here; at most {most} B (--sizes)");
        return Err(Error::Input(problem));
    }
    let mut sizes = Sizes::default();
    let ended = if capabilities.is_some() {
        sizes.measure(&mut Remote(environment), plan, config, kind)
    } else {
        if kind.mode == Mode::Bidirectional {
            config.last = config.last.min(TCP_BOTH_WAYS_BYTES_MAX);
        }
        over_tcp(environment, plan, config, kind, &mut sizes)
    };
    sizes.fill(kind, into);
    ended
}

/// The plan's part of the schedule.
fn config(plan: &Plan, kind: &Kind) -> Config {
    let [first, last] = plan.sizes;
    let trial_seconds = if plan.quick { QUICK_TRIAL_SECONDS } else { TRIAL_SECONDS };
    let Plan { perturbation, repeats, .. } = *plan;
    let all = Config { first, last, perturbation, trial_seconds, repeats };
    if !kind.checked {
        return all;
    }
    let first = first.max(INTEGRITY_FIRST_BYTES.min(last));
    Config { first, perturbation: 0, ..all }
}

fn over_tcp(
    environment: &mut dyn Environment,
    plan: &Plan,
    config: Config,
    kind: &Kind,
    sizes: &mut Sizes,
) -> Result<(), Error> {
    let unsuitable =
        || Error::Unsuitable { what: "TCP".to_owned(), link: environment.link().to_owned() };
    let [far, _] = environment.addresses().ok_or_else(unsuitable)?;
    let mut ended = Ok(());
    let parameters = json!({ "address": far.to_string() });
    environment.call(&tcp::SERVICE, &parameters, &mut |conversation| {
        let mut bench = OnTcp { end: tcp::connect(far, conversation)?, conversation };
        ended = sizes.measure(&mut bench, plan, config, kind);
        // The end of the tasks.
        bench.conversation.send(&serde_json::Value::Null)?;
        Ok(serde_json::Value::Null)
    })?;
    ended
}

/// The measurements of one size, one for each round.
#[derive(Default)]
struct Size {
    /// The shortest trial, one way \[s\].
    least_s: Vec<f64>,
    /// p50, p99 and p99.9 of single repeats, one way \[us\].
    percentiles_us: [Vec<f64>; 3],
    repeats: Vec<f64>,
    /// Bytes compared at both ends, of all rounds.
    compared_bytes: u64,
}

#[derive(Default)]
struct Sizes(BTreeMap<u64, Size>);

impl Sizes {
    /// Measures the whole schedule once per round: a disturbance of the machine affects one sample
    /// of many sizes, not all samples of one.
    fn measure(
        &mut self,
        bench: &mut dyn Bench,
        plan: &Plan,
        config: Config,
        kind: &Kind,
    ) -> Result<(), Error> {
        let mut all = Schedule::new(config);
        let count = std::iter::from_fn(|| all.next(0.0)).count();
        let effort = bench.effort();
        // A comparison has no spread.
        let rounds = if kind.checked { 1 } else { plan.rounds as usize };
        for round in 0..rounds {
            // Also warms up. One way at a time in every mode, as NetPIPE does.
            let mode = Mode::PingPong;
            let look = Task { mode, ..kind.task(config.first, FIRST_REPEATS, 1) };
            let first = bench.measure(&look)?;
            let [mut seconds, mut slowest] = [first.least() / 2.0, first.most() / 2.0];
            let mut schedule = Schedule::new(config);
            let mut done = 0;
            while let Some((bytes, repeats)) = schedule.next(seconds) {
                let what = format!("{}, {bytes} B", kind.time_label());
                bench.progress(round * count + done, rounds * count, &what);
                let bearable = (OVERTIME * config.trial_seconds / slowest) as u64;
                let repeats = match config.repeats {
                    Some(repeats) => repeats,
                    None => repeats.min(bearable.max(u64::from(TRIALS))).min(effort.repeats_max),
                };
                let measured = bench.measure(&kind.task(bytes, repeats, kind.trials(effort)))?;
                seconds = kind.one_way(measured.least());
                slowest = kind.one_way(measured.most());
                self.0.entry(bytes).or_default().add(kind, repeats, &measured);
                done += 1;
            }
        }
        Ok(())
    }

    fn fill(&self, kind: &Kind, into: &mut Experiment) {
        if kind.checked {
            return self.fill_checked(into);
        }
        let label = kind.time_label();
        let time =
            |name: &str, of: &dyn Fn(&Size) -> Vec<f64>| self.series(name, axis(label, "us"), of);
        if kind.mode == Mode::PingPong {
            for (index, name) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
                into.series.push(time(name, &|size| size.percentiles_us[index].clone()));
            }
        }
        into.series.push(time(BEST_MEAN, &|size| in_us(&size.least_s)));
        let rates: BTreeMap<u64, Vec<f64>> =
            self.0.iter().map(|(bytes, size)| (*bytes, kind.rates(*bytes, size))).collect();
        let points = rates.iter().map(|(bytes, samples)| point(*bytes, samples.clone())).collect();
        into.series.push(series("throughput", axis("throughput", "Gb/s"), points));
        self.facts(kind, &rates, into);
    }

    /// Adds the number of bytes compared, and the repeats of each size as NetPIPE -i prints them.
    fn fill_checked(&self, into: &mut Experiment) {
        if self.0.is_empty() {
            return;
        }
        let repeats = self.series(REPEATS, axis("repeats", ""), &|size| size.repeats.clone());
        into.series.push(repeats);
        let compared: u64 = self.0.values().map(|size| size.compared_bytes).sum();
        let megabytes = compared as f64 / 1e6;
        into.facts.push(Fact::new("compared and found equal", "MB", vec![megabytes]));
    }

    fn series(&self, label: &str, y: Axis<'_>, of: &dyn Fn(&Size) -> Vec<f64>) -> Series {
        let points = self.0.iter().map(|(bytes, size)| point(*bytes, of(size))).collect();
        series(label, y, points)
    }

    fn facts(&self, kind: &Kind, rates: &BTreeMap<u64, Vec<f64>>, into: &mut Experiment) {
        let Some((bytes, size)) = self.0.iter().find(|(bytes, _)| **bytes >= 8) else { return };
        let label = format!("{}, {bytes} B", kind.time_label());
        let [p50_us, ..] = &size.percentiles_us;
        if !p50_us.is_empty() {
            into.facts.push(Fact::new(format!("{label}, p50"), "us", p50_us.clone()));
        }
        let best_us = in_us(&size.least_s);
        into.facts.push(Fact::new(format!("{label}, {BEST_MEAN}"), "us", best_us.clone()));
        let middle = |samples: &Vec<f64>| median(samples).unwrap_or(0.0);
        let best = rates.iter().max_by(|one, other| middle(one.1).total_cmp(&middle(other.1)));
        let Some((best_bytes, best)) = best else { return };
        into.facts.push(Fact::new(
            format!("largest throughput, {}", quantity(*best_bytes as f64, "B")),
            "Gb/s",
            best.clone(),
        ));
        let half = middle(best) / 2.0;
        let Some(half_bytes) = rates.iter().find(|(_, rate)| middle(rate) >= half) else { return };
        let half_bytes = *half_bytes.0 as f64;
        into.facts.push(Fact::new("half of it is reached at", "B", vec![half_bytes]));
        into.limit = format!(
            "Below {} the {} of each message limit, above it the {} of the copy.",
            quantity(half_bytes, "B"),
            quantity(middle(if p50_us.is_empty() { &best_us } else { p50_us }), "us"),
            quantity(middle(best), "Gb/s"),
        );
    }
}

impl Kind {
    /// Gb/s, of both directions where both carry.
    fn rates(&self, bytes: u64, size: &Size) -> Vec<f64> {
        let ways = if self.mode == Mode::Bidirectional { 2.0 } else { 1.0 };
        size.least_s.iter().map(|seconds| ways * bytes as f64 * 8e-9 / seconds).collect()
    }
}

impl Size {
    fn add(&mut self, kind: &Kind, repeats: u64, measured: &Measured) {
        self.repeats.push(repeats as f64);
        self.compared_bytes += measured.compared_bytes;
        self.least_s.push(kind.one_way(measured.least()));
        if let Some(of_repeats) = measured.repeat_ns {
            for (to, ns) in self.percentiles_us.iter_mut().zip(of_repeats) {
                to.push(kind.one_way(ns as f64 / 1e3));
            }
        }
    }
}

fn in_us(seconds: &[f64]) -> Vec<f64> {
    seconds.iter().map(|seconds| seconds * 1e6).collect()
}

fn point(bytes: u64, samples: Vec<f64>) -> Point {
    Point { x: bytes as f64, samples }
}

fn series(label: &str, y: Axis<'_>, points: Vec<Point>) -> Series {
    Series::new(label, axis("message", "B"), y, points)
}
