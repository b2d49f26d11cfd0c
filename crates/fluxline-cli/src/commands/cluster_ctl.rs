//! `fluxline ctl kafka://…`: the state of a cluster, and requests to it.

use crate::ctl_arguments::CtlArguments;
use crate::failure::Failure;

/// Sends a request to a cluster, and prints the answer.
#[cfg(feature = "kafka")]
pub fn ctl(address: &str, arguments: &CtlArguments, json: bool) -> Result<(), Failure> {
    use fluxline_kafka::ClusterAddress;
    use fluxline_kafka::settings::Settings;

    let address = ClusterAddress::parse(address).map_err(Failure::input)?;
    let file = arguments.settings_file.as_deref();
    let settings = Settings::read(&address.brokers, &std::collections::BTreeMap::new(), file)
        .map_err(Failure::input)?;
    match requested(&arguments.request)? {
        None => status::show(&settings, &address, json),
        Some(request) => {
            let answer = fluxline_kafka::cluster::command::command(&settings, &address, &request)
                .map_err(failure)?;
            match json {
                true => super::print_json(&serde_json::json!({ "answer": answer })),
                false => crate::say!("{answer}."),
            }
            Ok(())
        }
    }
}

/// Returns the request for a cluster; `None`: its state.
#[cfg(feature = "kafka")]
fn requested(
    request: &crate::ctl_arguments::CtlRequest,
) -> Result<Option<fluxline_kafka::cluster::command::ClusterCommand>, Failure> {
    use crate::ctl_arguments::CtlRequest;
    use fluxline_kafka::cluster::command::ClusterCommand;

    Ok(Some(match request {
        CtlRequest::Status => return Ok(None),
        CtlRequest::Start => ClusterCommand::Start,
        CtlRequest::Stop => ClusterCommand::Stop,
        CtlRequest::Note { text } => ClusterCommand::Note(text.clone()),
        CtlRequest::Shot { number } => ClusterCommand::Shot(*number),
        CtlRequest::End { node } => ClusterCommand::End(node.clone()),
        CtlRequest::Abandon { run } => ClusterCommand::Abandon(*run),
        CtlRequest::Pause => ClusterCommand::Pause,
        CtlRequest::Resume => ClusterCommand::Resume,
        CtlRequest::Acknowledge { .. }
        | CtlRequest::Shelve { .. }
        | CtlRequest::Unshelve { .. } => {
            return Err(Failure::input(
                "alarms belong to a node, not to the cluster: give the node's address by --url.",
            ));
        }
    }))
}

#[cfg(feature = "kafka")]
fn failure(error: fluxline_kafka::cluster::command::CommandError) -> Failure {
    use fluxline_kafka::cluster::command::CommandError;

    match error {
        CommandError::Refused(sentence) => Failure::input(format_args!("{sentence}.")),
        error => Failure::link(format_args!("{error}.")),
    }
}

/// Refuses: this program was built without Kafka.
#[cfg(not(feature = "kafka"))]
pub fn ctl(address: &str, arguments: &CtlArguments, _json: bool) -> Result<(), Failure> {
    let _ = &arguments.settings_file;
    Err(Failure::failed(format_args!(
        "{address} was not asked: this program was built without Kafka; build it with `cargo \
         build --release --features kafka`."
    )))
}

#[cfg(feature = "kafka")]
mod status {
    use std::time::{Duration, Instant};

    use fluxline_kafka::ClusterAddress;
    use fluxline_kafka::cluster::control::{ControlState, RunRecord};
    use fluxline_kafka::cluster::control_log::ControlLog;
    use fluxline_kafka::cluster::record::Join;
    use fluxline_kafka::cluster::{DEAD_AFTER, LedgerReader, NodeState};
    use fluxline_kafka::settings::Settings;
    use serde_json::{Value, json};

    use crate::failure::Failure;
    use crate::say;

    /// Time for the brokers to show everything.
    const READ_WITHIN: Duration = Duration::from_secs(30);
    /// The words of nodes that need no further look.
    const ALIVE: [&str; 3] = ["alive", "ended", "failed"];
    /// Time between two looks at the nodes' blocks.
    const LOOK: Duration = Duration::from_millis(500);

    /// Prints the state of a cluster: its run and its nodes.
    pub fn show(settings: &Settings, address: &ClusterAddress, json: bool) -> Result<(), Failure> {
        let mut control = ControlLog::open_of(settings, &address.cluster)
            .map_err(|error| Failure::link(format_args!("{error}.")))?;
        let lives = lives_of(settings, address, control.state());
        // The run may have ended while the nodes were watched.
        control.read(LOOK);
        let document = document(&address.cluster, control.state(), &lives);
        match json {
            true => super::super::print_json(&document),
            false => print(&document),
        }
        Ok(())
    }

    /// Returns a word for each process of the open run that shows if it is alive.
    fn lives_of(
        settings: &Settings,
        address: &ClusterAddress,
        state: &ControlState,
    ) -> Vec<(u64, &'static str)> {
        let Some(run) = state.open_run() else { return Vec::new() };
        let reader = LedgerReader::open_nodes(settings, &address.cluster, run, READ_WITHIN);
        let Ok(mut reader) = reader else {
            return state.members().map(|member| (member.incarnation, "not known")).collect();
        };
        let first: Vec<(u64, u64)> = signs(&reader).iter().map(|its| (its.0, its.1)).collect();
        let began = Instant::now();
        let mut was_seen = true;
        loop {
            let now = signs(&reader);
            let word = |(incarnation, sequence, node_state): (u64, u64, NodeState)| {
                let is_old = first.contains(&(incarnation, sequence));
                let word = match node_state {
                    NodeState::Ended => "ended",
                    NodeState::Failed => "failed",
                    _ if is_old && !was_seen => "not known",
                    _ if is_old => "dead",
                    _ => "alive",
                };
                (incarnation, word)
            };
            let words: Vec<_> = now.into_iter().map(word).collect();
            let are_alive = state.members().all(|member| {
                words.iter().any(|its| its.0 == member.incarnation && ALIVE.contains(&its.1))
            });
            if are_alive || began.elapsed() > DEAD_AFTER || !was_seen {
                return words;
            }
            // While no broker answers, nobody counts as dead.
            was_seen = reader.look(LOOK).is_ok();
        }
    }

    fn signs(reader: &LedgerReader) -> Vec<(u64, u64, NodeState)> {
        reader.blocks().map(|block| (block.incarnation, block.sequence, block.state)).collect()
    }

    fn document(cluster: &str, state: &ControlState, lives: &[(u64, &'static str)]) -> Value {
        let open = state.open_run();
        let of_node = |member: &Join| {
            let life = lives.iter().find(|its| its.0 == member.incarnation).map(|its| its.1);
            let readout = open.and_then(|run| run.readouts.get(&member.node));
            let ended = readout.is_some_and(|its| its.ended);
            let life = match (open.is_some(), ended) {
                (false, _) => "waiting",
                (true, true) => "ended",
                (true, false) => life.unwrap_or("dead"),
            };
            json!({
                "node": member.node, "id": member.id, "host": member.host, "pid": member.pid,
                "start": readout.map(|its| its.start), "life": life,
            })
        };
        json!({
            "cluster": cluster,
            "run": open.map(of_run),
            "runs": state.runs().len(),
            "missing": state.next_run().err().unwrap_or_default(),
            "nodes": state.members().map(of_node).collect::<Vec<_>>(),
        })
    }

    fn of_run(run: &RunRecord) -> Value {
        let notes = run.notes.iter().map(|note| json!({ "at_ns": note.0, "text": note.1 }));
        json!({
            "number": run.number(), "state": run.state(), "pauses_ns": run.pauses,
            "began_ns": run.begin.at_ns, "shot": run.shot,
            "partitions": run.partitions(), "partitions_built": run.built.len(),
            "notes": notes.collect::<Vec<_>>(),
        })
    }

    fn print(document: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let run = &document["run"];
        say!("cluster  {}", text(&document["cluster"]));
        match run.is_null() {
            true => say!("run      none goes on"),
            false => say!(
                "run      {}, {}, {} of {} partitions built",
                run["number"],
                text(&run["state"]),
                run["partitions_built"],
                run["partitions"]
            ),
        }
        if let Some(shot) = run["shot"].as_u64() {
            say!("shot     {shot}");
        }
        for note in run["notes"].as_array().into_iter().flatten() {
            say!("note     {}", text(&note["text"]));
        }
        for node in document["nodes"].as_array().into_iter().flatten() {
            let start = node["start"].as_u64().filter(|start| *start > 0);
            let start = start.map_or(String::new(), |start| format!(", start {start}"));
            say!(
                "node     {} ({}): {}{start}, process {} on {}",
                text(&node["node"]),
                text(&node["id"]),
                text(&node["life"]),
                node["pid"],
                text(&node["host"])
            );
        }
        for name in document["missing"].as_array().into_iter().flatten() {
            say!("missing  {}", text(name));
        }
    }
}
