//! Groups of three and of five nodes of plain memory obey the laws of groups.

use fluxline_conformance::group_conformance;
use fluxline_conformance::groups::Nodes;
use fluxline_core::fabric::Fabric;
use fluxline_core::fabric::memory::Lab;
use fluxline_core::{Moment, Span};

fn nodes(count: usize) -> Nodes {
    let lab = Lab::new();
    let names: Vec<String> = (0..count).map(|rank| format!("node-{rank}")).collect();
    let node = |name: &String| Box::new(lab.node(name).expect("a new name")) as Box<dyn Fabric>;
    let mut now = Moment::default();
    Nodes {
        fabrics: names.iter().map(node).collect(),
        names,
        now: Box::new(move || {
            now = now + Span::from_ms(1);
            now
        }),
    }
}

group_conformance!(of_three, nodes(3));
group_conformance!(of_five, nodes(5));

#[test]
fn a_survivor_names_the_rank_that_ended_because_of_another_ones_death() {
    fluxline_conformance::groups::survivors_name_the_rank_that_died_first(nodes(3));
}
