//! Message passing between two ranks: messages, barriers and all-reduces of a
//! [`Group`](fluxline_core::fabric::group), compared with a bare put there and back.

mod ends;

use fluxline_core::fabric::group::BarrierPath;
use serde_json::{Value, json};

use crate::Error;
use crate::environment::{Environment, Plan};
use crate::kind::{ExperimentKind, Links};
use crate::pingpong::{Measured, Mode, Task, Way, exchange};
use crate::result::{Experiment, Fact};
use crate::role::TrialKind;
use ends::{Call, Operation};

/// The experiments of this folder.
pub const EXPERIMENTS: &[ExperimentKind] = &[ExperimentKind {
    name: "collectives",
    about: "Messages, barriers and all-reduces of a group of two ranks. Each time is the mean of \
            the best of three trials, compared with a put of 8 B in the same round.",
    links: Links::Fabrics,
    by_default: false,
    seconds: [2, 5],
    run,
}];

/// The trials of this folder.
pub const TRIALS: &[&TrialKind] = &[&ends::TRIAL];

/// The trials of an operation, of which the shortest counts, and their repeats.
#[derive(Clone, Copy)]
struct Effort {
    trials: u32,
    repeats: u64,
}

impl Effort {
    /// In virtual time, more trials would repeat the same.
    fn of(environment: &dyn Environment, plan: &Plan) -> Effort {
        match (environment.is_real(), plan.quick) {
            (false, _) => Effort { trials: 1, repeats: 30 },
            (true, true) => Effort { trials: 3, repeats: 300 },
            (true, false) => Effort { trials: 3, repeats: 3000 },
        }
    }
}

/// A row of the experiment.
struct Row {
    label: &'static str,
    call: Call,
    /// Repeats of a call that are one trip each: a round trip has two.
    trips: f64,
}

const fn row(label: &'static str, operation: Operation, bytes: u64, trips: f64) -> Row {
    let barrier = BarrierPath::Messages;
    Row { label, call: Call { operation, bytes, barrier }, trips }
}

/// The operations in order. 64 KiB take the way of long messages.
const ROWS: &[Row] = &[
    row("half round trip of a message, 8 B", Operation::Message, 8, 2.0),
    row("half round trip of a message, 64 KiB", Operation::Message, 64 << 10, 2.0),
    row("barrier by messages", Operation::Barrier, 0, 1.0),
    Row {
        label: "barrier by a counter (fetch_add)",
        call: Call { operation: Operation::Barrier, bytes: 0, barrier: BarrierPath::Counter },
        trips: 1.0,
    },
    row("all-reduce of 1 float", Operation::AllReduce, 8, 1.0),
    row("all-reduce of 1024 floats", Operation::AllReduce, 8 << 10, 1.0),
];

/// The label of the bare put.
const PUT: &str = "half round trip of a put, 8 B";

fn run(environment: &mut dyn Environment, plan: &Plan, into: &mut Experiment) -> Result<(), Error> {
    let has_atomics = environment.capabilities()?.is_some_and(|link| link.atomics);
    let rows: Vec<&Row> =
        ROWS.iter().filter(|row| has_atomics || row.call.barrier != BarrierPath::Counter).collect();
    let effort = Effort::of(environment, plan);
    let mut puts_us: Vec<f64> = Vec::new();
    let mut times_us: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
    let steps = plan.rounds as usize * rows.len();
    let mut ended = Ok(());
    'rounds: for round in 0..plan.rounds as usize {
        match put_us(environment, effort) {
            Ok(us) => puts_us.push(us),
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
        for (index, row) in rows.iter().enumerate() {
            environment.progress(round * rows.len() + index, steps, row.label);
            match row.us(environment, effort) {
                Ok(us) => times_us[index].push(us),
                Err(error) => {
                    ended = Err(error);
                    break 'rounds;
                }
            }
        }
    }
    into.facts.push(Fact::new(PUT, "us", puts_us.clone()));
    for (row, samples) in rows.iter().zip(times_us) {
        let beside = crate::result::Beside::of(PUT, puts_us[..samples.len()].to_vec());
        into.facts.push(Fact { beside, ..Fact::new(row.label, "us", samples) });
    }
    ended
}

impl Row {
    /// Measures one trip \[us\].
    fn us(&self, environment: &mut dyn Environment, effort: Effort) -> Result<f64, Error> {
        let parameters = self.call.parameters(effort.repeats, effort.trials);
        let [near, _] = environment.trial(&ends::TRIAL, &parameters)?;
        Ok(read(near)?.least() * 1e6 / self.trips)
    }
}

/// Measures half a round trip of a put \[us\].
fn put_us(environment: &mut dyn Environment, effort: Effort) -> Result<f64, Error> {
    let task = Task {
        mode: Mode::PingPong,
        way: Way::Put,
        bytes: 8,
        repeats: effort.repeats,
        trials: effort.trials,
        cold: false,
        checked: false,
        limit_ms: 0,
    };
    let [near, _] = environment.trial(&exchange::TRIAL, &json!(task))?;
    Ok(read(near)?.least() * 1e6 / 2.0)
}

fn read(outcome: Value) -> Result<Measured, Error> {
    serde_json::from_value(outcome)
        .map_err(|error| Error::Garbled { what: format!("no result ({error})") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Simulated;

    #[test]
    fn every_operation_of_a_group_is_measured_in_virtual_time() {
        let mut simulated = Simulated::in_memory(1 << 20, || 10_000);
        let plan = Plan { rounds: 2, ..Plan::quick() };
        let mut into = Experiment::new("collectives", "");
        run(&mut simulated, &plan, &mut into).expect("it runs");
        assert_eq!(into.facts.len(), 1 + ROWS.len());
        for fact in &into.facts {
            assert_eq!(fact.samples.len(), 2, "{}", fact.label);
            assert!(fact.samples.iter().all(|us| *us > 0.0), "{}: {:?}", fact.label, fact.samples);
        }
        assert!(into.facts[1..].iter().all(|fact| fact.ratio().is_some_and(|ratio| ratio > 0.0)));
    }

    #[test]
    fn tasks_that_make_no_sense_are_refused() {
        let mut simulated = Simulated::in_memory(1 << 20, || 10_000);
        for wrong in [
            json!({}),
            json!({ "operation": "scan", "bytes": 8, "repeats": 1, "trials": 1 }),
            ROWS[0].call.parameters(0, 1),
            ROWS[0].call.parameters(1, 0),
            Call { bytes: u64::MAX, ..ROWS[0].call }.parameters(1, 1),
        ] {
            assert!(simulated.trial(&ends::TRIAL, &wrong).is_err(), "{wrong}");
        }
    }
}
