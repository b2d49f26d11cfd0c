//! Stores against descriptors: the time that a transfer takes from a thread that computes.
//!
//! The near end computes in quanta, one per step, and transfers meanwhile in one of two ways. It
//! copies the bytes itself: by a store through a window, or without windows by a put whose bytes
//! the link copies at once. Or it posts a descriptor, a put out of a region, and polls now and then
//! for its completion. The time taken is the elapsed time minus that of the
//! computed quanta, which is known from quanta alone. That holds for every mover of the bytes: a
//! processor, a DMA engine, another core, the kernel.
//! Source of the question: Trams 1999, "CPU time left for computing during t_DMA".

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use fluxline_core::fabric::{Completion, Fabric, Level, Local, Memory, Operation, Work};
use fluxline_core::{Moment, Span};
use fluxline_report::quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::floor;
use super::flow::{self, Flow, Flowed, Kind};
use super::show::{self, BLOCK, Samples, middle, series};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact, axis};
use crate::role::{END, FarEnd, Role, Side, Site, Step, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "stores", make };
/// The label of the fact that `--save` keeps.
pub const CROSSOVER: &str = "stores take less up to";
/// Steps of a generator that make a quantum of computing: some tenths of a microsecond. Chosen:
/// short beside a transfer of some KiB, long beside a reading of the clock.
const QUANTUM_STEPS: u32 = 256;
/// The time of a quantum in virtual time. Chosen: about what it takes on the machines of 2026.
const QUANTUM: Span = Span::from_ns(300);
/// Completions handled in one step at most.
const STEP_MAX: u32 = 16;
/// The approximate time of a trial \[s\]: with `--quick`, and without.
const TRIAL_SECONDS: [f64; 2] = [0.004, 0.03];
/// The largest transfer \[byte\]: with `--quick`, and without.
const BYTES_MAX: [u64; 2] = [256 << 10, 4 << 20];

/// The way of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// No transfer: the thread computes `transfers` quanta.
    Alone,
    /// Stores through a mapped window.
    Store,
    /// A put of bytes that the link copies before the call returns.
    Copy,
    /// A put out of a region.
    Put,
}

/// The parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The way of the bytes.
    pub way: Way,
    /// Size of a transfer \[byte\].
    pub bytes: u64,
    /// The number of transfers.
    pub transfers: u64,
}

/// The measurement of the near end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    /// From the first step to the last \[s\].
    pub seconds: f64,
    /// Quanta computed meanwhile.
    pub quanta: u64,
}

/// Makes one end. Errors: a task that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let task: Task = show::task(parameters, "a transfer")?;
    if task.bytes == 0 || task.bytes > show::BYTES_MAX || task.transfers == 0 {
        return Err(Error::Input(format!("transfers cannot be {task:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(Computer::new(task)),
        Side::Far => Box::new(FarEnd::silent(0)),
    })
}

/// The near end.
struct Computer {
    task: Task,
    bytes: Vec<u8>,
    window: Option<Arc<dyn Memory>>,
    done: u64,
    under_way: bool,
    quanta: u64,
    state: u64,
    began: Option<Moment>,
    ended: Option<Moment>,
}

impl Computer {
    fn new(task: Task) -> Computer {
        Computer {
            task,
            bytes: vec![0x5A; task.bytes as usize],
            window: None,
            done: 0,
            under_way: false,
            quanta: 0,
            state: 1,
            began: None,
            ended: None,
        }
    }

    fn begin(&mut self, site: &Site, fabric: &dyn Fabric) -> Result<(), Error> {
        if self.task.bytes > site.half_bytes.min(site.capabilities.operation_bytes_max) {
            let problem = format!("{} B are too long here (--sizes)", self.task.bytes);
            return Err(Error::Input(problem));
        }
        if self.task.way == Way::Store {
            let window = fabric.window(site.remote)?;
            let link = site.capabilities.link.to_owned();
            let none = || Error::Unsuitable { what: "a mapped window".to_owned(), link };
            self.window = Some(window.ok_or_else(none)?);
        }
        Ok(())
    }

    /// A quantum: steps of a generator, each of which needs the one before.
    fn compute(&mut self) {
        for _ in 0..QUANTUM_STEPS {
            self.state = self.state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        }
        self.state = black_box(self.state);
        self.quanta += 1;
    }

    /// Begins the next transfer; a store is done with that.
    fn transfer(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<(), Error> {
        let from = match (self.task.way, &self.window) {
            (Way::Alone, _) => {
                self.done += 1;
                return Ok(());
            }
            (Way::Store, Some(window)) => {
                window.write(0, black_box(&self.bytes))?;
                self.done += 1;
                return Ok(());
            }
            (Way::Put, _) => Local::Region(site.outgoing(0, self.task.bytes)),
            _ => Local::Bytes(&self.bytes),
        };
        let complete_at = Some(Level::Placed);
        let work = Work::Put { from, to: site.there(0), notify: None, complete_at };
        self.under_way = site.post(fabric, 0, work)?;
        Ok(())
    }
}

impl Role for Computer {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        if self.began.is_none() {
            self.begin(site, fabric)?;
            self.began = Some(now);
        }
        if self.under_way {
            site.poll_each(fabric, now, STEP_MAX, |what, _| {
                if matches!(what, Completion::Done { operation: Operation::Put, .. }) {
                    (self.under_way, self.done) = (false, self.done + 1);
                }
                Ok(())
            })?;
        }
        if self.done == self.task.transfers && self.ended.is_none() {
            self.ended = Some(now);
        }
        if self.ended.is_some() {
            // Asks the far side to end, after the last completions.
            while site.poll(fabric, now)?.is_some() {}
            let is_said = site.say(fabric, END)?;
            return Ok(if is_said { Step::Done } else { Step::Worked });
        }
        if !self.under_way {
            self.transfer(site, fabric)?;
        }
        self.compute();
        Ok(Step::Computed(QUANTUM))
    }

    fn outcome(&mut self) -> Value {
        let span = self.ended.unwrap_or_default().since(self.began.unwrap_or_default());
        let computed = Computed { seconds: span.as_ns() as f64 / 1e9, quanta: self.quanta };
        serde_json::to_value(computed).unwrap_or_default()
    }
}

/// The times of both ways, by size.
#[derive(Default)]
struct Taken {
    /// From a computing thread, a transfer \[us\].
    copying_us: Samples,
    descriptor_us: Samples,
    /// From post to placed, when nothing is computed \[us\].
    whole_us: Samples,
    /// Through the kernel, where that is a floor \[us\].
    kernel_us: Samples,
}

/// Both ways over all sizes, in turns.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let has_windows = environment.capabilities()?.is_some_and(|can| can.windows);
    let copying = if has_windows { Way::Store } else { Way::Copy };
    let most = BYTES_MAX[usize::from(!plan.quick)].min(plan.sizes[1]).min(environment.half_bytes());
    let least = plan.sizes[0].max(8).next_power_of_two();
    let sizes = show::powers(least, most, if plan.quick { 4 } else { 2 });
    let mut taken = Taken::default();
    let ended = measure(environment, plan, copying, &sizes, &mut taken);
    fill(&taken, copying, into);
    ended
}

fn measure(
    environment: &mut dyn Environment,
    plan: &Plan,
    copying: Way,
    sizes: &[u64],
    taken: &mut Taken,
) -> Result<(), Error> {
    let trial_seconds = TRIAL_SECONDS[usize::from(!plan.quick)];
    let mut counts: BTreeMap<(Way, u64), u64> = BTreeMap::new();
    for round in 0..plan.rounds as usize {
        let alone = Task { way: Way::Alone, bytes: 8, transfers: 4096 };
        let (computed, _) = show::trial::<Computed>(environment, &TRIAL, &alone)?;
        let quantum_s = computed.seconds / computed.quanta as f64;
        for (index, bytes) in sizes.iter().enumerate() {
            let done = round * sizes.len() + index;
            environment.progress(done, plan.rounds as usize * sizes.len(), &format!("{bytes} B"));
            let ways = [(copying, &mut taken.copying_us), (Way::Put, &mut taken.descriptor_us)];
            for (way, samples) in ways {
                let transfers = *counts.entry((way, *bytes)).or_insert(16);
                let task = Task { way, bytes: *bytes, transfers };
                let (computed, _) = show::trial::<Computed>(environment, &TRIAL, &task)?;
                let of_one = computed.seconds / transfers as f64;
                let next = (trial_seconds / of_one.max(1e-9)) as u64;
                let is_look = round == 0 && plan.rounds > 1;
                counts.insert((way, *bytes), next.clamp(16, 20_000));
                let taken_s = computed.seconds - computed.quanta as f64 * quantum_s;
                // The look at a size is too short to count, unless it is all there is.
                if !is_look {
                    let us = taken_s.max(0.0) * 1e6 / transfers as f64;
                    samples.entry(*bytes).or_default().push(us);
                }
            }
            taken.beside(environment, *bytes)?;
        }
    }
    Ok(())
}

impl Taken {
    /// The transfer alone, and the kernel's way, in the same round.
    fn beside(&mut self, environment: &mut dyn Environment, bytes: u64) -> Result<(), Error> {
        let flow = Flow { kind: Kind::Put, bytes, combined: 1, depth: 1, batches: 32 };
        let (flowed, _) = show::trial::<Flowed>(environment, &flow::TRIAL, &flow)?;
        let us = flowed.batch_ns[0] as f64 / 1e3;
        self.whole_us.entry(bytes).or_default().push(us);
        if environment.is_real()
            && let Some(seconds) = floor::kernel_seconds(bytes)
        {
            self.kernel_us.entry(bytes).or_default().push(seconds * 1e6);
        }
        Ok(())
    }

    /// The share of a transfer's whole time that is left for computing \[%\].
    fn left(&self, taken: &Samples) -> Samples {
        let of_size = |(bytes, taken): (&u64, &Vec<f64>)| {
            let whole = middle(self.whole_us.get(bytes)?);
            let left = |us: &f64| (1.0 - us / whole).clamp(0.0, 1.0) * 100.0;
            Some((*bytes, taken.iter().map(left).collect()))
        };
        taken.iter().filter_map(of_size).collect()
    }
}

/// The largest size up to which copying takes less than descriptors, that size included; 0: none.
/// Sizes count from the largest down, so that noise among small ones moves nothing.
#[must_use]
fn crossover(copying_us: &Samples, descriptor_us: &Samples) -> Option<u64> {
    let is_better = |bytes: &u64| {
        descriptor_us.get(bytes).is_some_and(|put| middle(&copying_us[bytes]) < middle(put))
    };
    copying_us.keys().next()?;
    Some(copying_us.keys().rev().find(|bytes| is_better(bytes)).copied().unwrap_or(0))
}

fn fill(taken: &Taken, copying: Way, into: &mut Experiment) {
    let name = if copying == Way::Store { "stores" } else { "copied before posting" };
    let from_thread = axis("taken from a computing thread", "us");
    into.series.push(series(name, BLOCK, from_thread, &taken.copying_us));
    into.series.push(series("descriptors", BLOCK, from_thread, &taken.descriptor_us));
    if !taken.kernel_us.is_empty() {
        let label = "through the kernel: written to a local socket and read";
        into.series.push(series(label, BLOCK, from_thread, &taken.kernel_us));
    }
    let left = axis("of a transfer's time left for computing", "%");
    let of_copying = taken.left(&taken.copying_us);
    into.series.push(series(&format!("{name}, left"), BLOCK, left, &of_copying));
    let of_descriptors = taken.left(&taken.descriptor_us);
    into.series.push(series("descriptors, left", BLOCK, left, &of_descriptors));
    let whole = axis("from post to placed", "us");
    into.series.push(series("descriptors, whole", BLOCK, whole, &taken.whole_us));
    let Some(at) = crossover(&taken.copying_us, &taken.descriptor_us) else { return };
    let is_window = copying == Way::Store;
    let label = if is_window { CROSSOVER } else { "copying before posting takes less up to" };
    into.facts.push(Fact::new(label, "B", vec![at as f64]));
    if let Some((bytes, user)) = taken.descriptor_us.first_key_value() {
        let kernel = taken.kernel_us.get(bytes).map(|samples| middle(samples));
        let user = Fact::new(format!("a descriptor of {bytes} B"), "us", user.clone());
        into.facts.push(user.beside("through the kernel", kernel));
    }
    into.limit = match at {
        0 => format!("At every size descriptors take less of a computing thread than {name}."),
        at if taken.copying_us.keys().next_back() == Some(&at) => {
            format!("Up to the largest size, {}, {name} take less time.", quantity(at as f64, "B"))
        }
        at => format!(
            "Above {} descriptors take less of a computing thread than {name}.",
            quantity(at as f64, "B")
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: &[(u64, f64)]) -> Samples {
        of.iter().map(|(bytes, us)| (*bytes, vec![*us])).collect()
    }

    #[test]
    fn the_crossover_is_the_largest_size_at_which_stores_take_less() {
        let put = samples(&[(8, 1.0), (64, 1.0), (512, 1.1), (4096, 1.5)]);
        let store = samples(&[(8, 0.1), (64, 0.3), (512, 1.0), (4096, 8.0)]);
        assert_eq!(crossover(&store, &put), Some(512));
        assert_eq!(crossover(&put, &store), Some(4096));
        let dear = samples(&[(8, 2.0), (64, 3.0), (512, 4.0), (4096, 8.0)]);
        assert_eq!(crossover(&dear, &put), Some(0));
        assert_eq!(crossover(&Samples::new(), &put), None);
    }
}
