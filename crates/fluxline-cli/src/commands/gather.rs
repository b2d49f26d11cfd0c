//! `fluxline gather`: one run folder of the folders of all nodes, or of the events of a cluster.

use crate::failure::{Ending, Failure};
use crate::run_arguments::GatherArguments;

/// Gathers a run, and prints its size and what was left out.
pub fn gather(arguments: &GatherArguments, json: bool) -> Result<Ending, Failure> {
    match super::gather_nodes::are_meant(arguments) {
        true => super::gather_nodes::gather(arguments, json),
        false => gather_cluster(arguments, json),
    }
}

#[cfg(feature = "kafka")]
fn gather_cluster(arguments: &GatherArguments, json: bool) -> Result<Ending, Failure> {
    use fluxline_kafka::gather::{committed, folders, topic};

    let (address, is_topic) = address_of(arguments)?;
    let file = arguments.settings_file.as_deref();
    let options = std::collections::BTreeMap::new();
    let settings = fluxline_kafka::settings::Settings::read(&address.brokers, &options, file)
        .map_err(Failure::input)?;
    let committed = committed::committed(&settings, &address.cluster, arguments.run);
    let committed = committed.map_err(failure)?;
    let bar = crate::progress::bar(committed.commits.batches(), json);
    let mut progress = |done, _all| bar.set_position(done);
    let (cluster, into) = (&address.cluster, &arguments.into);
    let gathered = if is_topic {
        topic::gather_topic(&settings, cluster, &committed, into, &mut progress)
    } else {
        let roots: Vec<_> = arguments.places.iter().map(Into::into).collect();
        folders::gather_folders(&roots, &committed.commits, into, &mut progress)
    };
    bar.finish_and_clear();
    let gathered = gathered.map_err(failure)?;
    let refused = (gathered.refused > 0).then(|| {
        Failure::look(format_args!(
            "{} events are larger than a record of Kafka may be and are not in {}; gather the \
             builders' folders where output = \"both\", or raise max.message.bytes of the topic \
             for later runs.",
            gathered.refused,
            into.display()
        ))
    });
    let abandoned = committed.commits.abandoned.then(|| {
        Failure::look(format_args!(
            "run {} was abandoned before all its events were built; {} has those that were.",
            committed.commits.run,
            into.display()
        ))
    });
    let refused = refused.or(abandoned);
    let document = serde_json::json!({
        "status": crate::failure::status_of(refused.as_ref()),
        "sentence": refused.as_ref().map(|refused| &refused.message),
        "run": committed.commits.run, "into": into, "batches": gathered.batches,
        "events": gathered.events, "packets": gathered.packets, "left_out": gathered.left_out,
        "refused": gathered.refused, "foreign_commits": committed.foreign,
    });
    let print = || match json {
        true => super::print_json(&document),
        false => print(arguments, &committed, &gathered),
    };
    Ok(crate::failure::report(refused.as_ref(), json, print))
}

#[cfg(feature = "kafka")]
fn print(
    arguments: &GatherArguments,
    committed: &fluxline_kafka::gather::committed::Committed,
    gathered: &fluxline_kafka::gather::Gathered,
) {
    let into = arguments.into.display();
    crate::say!(
        "{into} has run {} with {} events and {} packets, in {} batches of {} partitions.",
        committed.commits.run,
        gathered.events,
        gathered.packets,
        gathered.batches,
        committed.commits.partitions.len()
    );
    if gathered.left_out > 0 {
        crate::say!("{} copies were left out: not committed, or there twice.", gathered.left_out);
    }
    if committed.foreign > 0 {
        crate::say!("{} records of other programs are in the topic of commits.", committed.foreign);
    }
    crate::say!("Next: fluxline inspect {into}");
}

/// Returns the cluster, and true when its topic of events is the place to read.
#[cfg(feature = "kafka")]
fn address_of(
    arguments: &GatherArguments,
) -> Result<(fluxline_kafka::ClusterAddress, bool), Failure> {
    use fluxline_kafka::ClusterAddress;

    let first = arguments.places.first().map(String::as_str).unwrap_or_default();
    let address = match (&arguments.from, arguments.places.as_slice()) {
        (None, [_]) if ClusterAddress::is_meant(first) => ClusterAddress::parse(first),
        (_, places) if places.iter().any(|place| ClusterAddress::is_meant(place)) => Err(
            "give either one kafka:// address, or folders with --from kafka://HOST:PORT/CLUSTER."
                .to_owned(),
        ),
        (Some(from), _) => ClusterAddress::parse(from),
        (None, _) => Err(format!(
            "the commits decide which batches of {first} count; add --from \
             kafka://HOST:PORT/CLUSTER."
        )),
    };
    Ok((address.map_err(Failure::input)?, arguments.from.is_none()))
}

#[cfg(feature = "kafka")]
fn failure(error: fluxline_kafka::gather::GatherError) -> Failure {
    use fluxline_kafka::gather::GatherError;

    match error {
        error @ (GatherError::Missing { .. } | GatherError::Differs { .. }) => {
            Failure::files(format_args!("{error}."))
        }
        GatherError::Files(sentence) => Failure::input(format_args!("{sentence}.")),
        GatherError::Broker(sentence) => Failure::link(format_args!("{sentence}.")),
        error @ GatherError::Disk { .. } => Failure::failed(format_args!("{error}.")),
    }
}

/// Refuses: this program was built without Kafka.
#[cfg(not(feature = "kafka"))]
fn gather_cluster(arguments: &GatherArguments, _json: bool) -> Result<Ending, Failure> {
    let GatherArguments { places, into, from, run, settings_file } = arguments;
    let _ = (places, from, run, settings_file);
    Err(Failure::failed(format_args!(
        "{} was not made: this program was built without Kafka; build it with `cargo build \
         --release --features kafka`.",
        into.display()
    )))
}
