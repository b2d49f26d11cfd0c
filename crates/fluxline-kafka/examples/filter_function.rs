//! demonstrates: a readout node and a builder in one program, with a filter in Rust
//!
//! run: tools/kafka/broker.sh start /tmp/broker
//!      cargo run -p fluxline-kafka --example filter_function -- ADDRESS FOLDER
//!
//! ADDRESS is what the first command prints. The builder writes its run folder into FOLDER.

use std::path::Path;

use fluxline_daq::experiment::Experiment;
use fluxline_kafka::cluster::builder::build;
use fluxline_kafka::cluster::readout::read_out;
use fluxline_kafka::cluster::session::{NodeError, NodeSetup};
use fluxline_kafka::cluster::{BuilderBlock, PartitionCounters};
use fluxline_run::Stop;
use fluxline_run::filter::{FilterPlan, each_event};

/// Packets of each of the four emulated boards.
pub const PACKETS: u64 = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, folder] = arguments.as_slice() else {
        return Err("usage: filter_function ADDRESS FOLDER".into());
    };
    let counts = run(brokers, "lab.filtered", Path::new(folder), "even keys, 1")?;
    println!(
        "{} events kept, {} rejected with {} packets",
        counts.events_kept, counts.events_filtered, counts.filtered
    );
    Ok(())
}

/// Builds a run of which events with an even key are kept. `version` is that of the readout's
/// function: the nodes of a run must agree.
pub fn run(
    brokers: &str,
    cluster: &str,
    folder: &Path,
    version: &'static str,
) -> Result<PartitionCounters, NodeError> {
    let stop = Stop::default();
    let (read, built) = std::thread::scope(|scope| {
        let readout = scope.spawn(|| {
            let read = read_out(node(brokers, cluster, folder, &stop, ("crate", version)));
            read.map(|_| ()).inspect_err(|_| stop.now())
        });
        let built = build(node(brokers, cluster, folder, &stop, ("builder", "even keys, 1")));
        // One without the other would wait for ever.
        let built = built.inspect_err(|_| stop.now());
        (readout.join(), built)
    });
    read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let block: Option<BuilderBlock> = built?.and_then(|report| report.block.builder);
    let mut total = PartitionCounters::default();
    block.iter().flat_map(|of| &of.partitions).for_each(|of| total.merge(&of.counters));
    Ok(total)
}

/// Returns the node `name` of the experiment, whose function has this version.
fn node(
    brokers: &str,
    cluster: &str,
    folder: &Path,
    stop: &Stop,
    (name, version): (&str, &'static str),
) -> NodeSetup {
    NodeSetup {
        experiment: experiment(brokers, cluster, folder),
        node: name.to_owned(),
        id: None,
        function: Some(Box::new(move |plan: FilterPlan| {
            // A builder that takes over decides again: the decision follows from the event alone.
            plan.with_function(version, || {
                each_event(|event| event.row.key.is_some_and(|key| key % 2 == 0))
            })
        })),
        stop: stop.clone(),
        say: Box::new(|sentence| println!("{sentence}")),
    }
}

fn experiment(brokers: &str, cluster: &str, folder: &Path) -> Experiment {
    let text = format!(
        "runs = {folder:?}\n\
         [cluster]\nbrokers = {brokers:?}\nname = {cluster:?}\npartitions = 2\n\
         [node.crate]\nsources = [\"boards\"]\n\
         [[source]]\nname = \"boards\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = 4\npackets = {PACKETS}\nin-flight-max = 8\n\
         [events]\nbuild = \"key\"\nrequire = 4\n"
    );
    Experiment::parse("filter_function", &text).expect("the text above is an experiment")
}
