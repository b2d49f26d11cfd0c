//! demonstrates: the brokers, builders and disks that an experiment needs
//!
//! run: cargo run --release -p fluxline-kafka --example plan -- 10 1.25 3
//! (the arguments are the number of readout machines, the rate of each in GB/s, and the replicas;
//! without arguments it prints the table of docs/kafka.md)

#[path = "support/plan.rs"]
mod plan;

use plan::{Experiment, LARGE, Plan, SMALL, table, table_of_docs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<f64> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    match arguments.as_slice() {
        [] => print!("{}", table_of_docs()),
        &[readouts, gigabytes, replicas] => {
            let experiment = Experiment { readouts, gigabytes, replicas };
            let column = |name: &str, costs| (name.to_owned(), Plan::new(experiment, costs));
            print!("{}", table(&[column("8 KB", LARGE), column("1 KB", SMALL)]));
        }
        _ => return Err("usage: plan [READOUTS GB-PER-SECOND-OF-EACH REPLICAS]".into()),
    }
    Ok(())
}
