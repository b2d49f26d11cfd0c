//! Many programs that write to one at once: couriers wait, and do not crowd the network further.

use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Name, Reliability, Rights, Status, Target,
};
use fluxline_sim::world::{Cluster, Program, Step};

use crate::support::pairs::put;

/// Puts of each program.
const PUTS: u64 = 8;
/// The length of a put.
const BYTES: usize = 64 << 10;

/// A program that connects to node 0, imports its region and puts to it.
fn sender(fabric: &mut dyn Fabric, end: &mut Option<EndpointId>, done: &mut u64) -> Step {
    let to = *end.get_or_insert_with(|| fabric.connect("0", Reliability::Reliable).expect("room"));
    let data = vec![7; BYTES];
    while let Some(what) = fabric.poll(fabric.now()) {
        match what {
            Completion::Connected { .. } => {
                fabric.import(to, name(), Key(1)).expect("connected");
            }
            Completion::Imported { remote, status, .. } => {
                assert_eq!(status, Status::Done);
                for tag in 0..PUTS {
                    let target = Target { remote, offset: 0 };
                    fabric.post(to, tag, put(&data, target)).expect("room");
                }
            }
            Completion::Done { status: Status::Done, .. } => *done += 1,
            other => panic!("{other:?}"),
        }
    }
    if *done == PUTS { Step::Done } else { Step::Wait }
}

fn name() -> Name {
    Name::parse("samples").expect("a name")
}

#[test]
fn programs_that_crowd_a_network_repeat_what_is_on_its_way_or_give_each_other_up() {
    for url in ["sim:atoll?grid=8x4", "sim:myrinet?nodes=64"] {
        let cluster = Cluster::open(url).expect("a right URL");
        let count = cluster.nodes();
        let mut nodes: Vec<_> = (0..count).map(|node| cluster.node(node)).collect();
        let region = nodes[0].register(BYTES as u64).expect("memory");
        let grant = Grant { rights: Rights::ALL, key: Key(1) };
        nodes[0].export(region, name(), grant).expect("a free name");
        let mut states = vec![(None, 0); count];
        let mut steps: Vec<_> = states
            .iter_mut()
            .map(|(end, done)| move |fabric: &mut dyn Fabric, _| sender(fabric, end, done))
            .collect();
        let mut programs: Vec<Program<'_>> = nodes
            .iter_mut()
            .zip(&mut steps)
            .skip(1)
            .map(|(fabric, step)| Program { fabric, step })
            .collect();
        let end = cluster.drive(&mut programs).expect("all end");
        let repeated: u64 = (0..count).map(|node| cluster.counts(node).requester.repeated).sum();
        let ms = end.as_ns() / 1_000_000;
        println!("{url}: {ms} ms, {repeated} repeated");
        assert_eq!(repeated, 0, "{url}: nothing is lost");
    }
}
