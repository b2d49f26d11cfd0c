//! The table for planners in docs/kafka.md is the one that the example `plan` prints.

#[path = "../../examples/support/plan.rs"]
#[allow(dead_code, reason = "the example uses more of it")]
mod table;

use table::{Costs, Experiment, LARGE, Plan};

#[test]
fn table_of_the_docs_has_other_numbers_than_the_rates() {
    let docs = include_str!("../../../../docs/kafka.md");
    let table = table::table_of_docs();
    assert!(docs.contains(&table), "docs/kafka.md lacks this table:\n{table}");
}

#[test]
fn too_many_packets_are_planned_for_some_builders() {
    let costs = Costs { follow_ns: 100.0, packet_bytes: 1000.0, ..LARGE };
    let experiment = |readouts| Experiment { readouts, gigabytes: 1.0, replicas: 3.0 };
    // 4 million packets a second leave 0.1 of a core; 5 million leave nothing.
    assert!(Plan::new(experiment(4.0), costs).builder_cores.is_some());
    assert!(Plan::new(experiment(5.0), costs).builder_cores.is_none());
    let (one, four) = (Plan::new(experiment(1.0), costs), Plan::new(experiment(4.0), costs));
    assert!(four.builder_cores > one.builder_cores.map(|cores| cores * 4.0), "following is free");
}
