//! The files that a scenario names: the links of a graph, and the messages of a trace.

use std::path::Path;

use super::effect::Wrong;
use super::{Kind, PatternName, Scenario};
use crate::load::traffic::Replay;
use crate::net::atoll::Wiring;
use crate::net::router::Graph;

/// Largest file \[bytes\]. Assumed: a million messages, which a point simulates in a minute.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A reader of files, by their names in the scenario.
pub(super) type Files<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Reads no files.
pub(super) fn none(name: &str) -> Result<String, String> {
    Err(format!("{name} cannot be read: a scenario without a directory has no other files"))
}

/// Reads a file, relative to a directory.
pub(super) fn read(directory: &Path, name: &str) -> Result<String, String> {
    let path = directory.join(name);
    let fail = |problem: &dyn std::fmt::Display| {
        format!("{} cannot be read: {problem}; correct the name", path.display())
    };
    let metadata = std::fs::metadata(&path).map_err(|error| fail(&error))?;
    if !metadata.is_file() {
        return Err(fail(&"it is not a file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let length = metadata.len();
        return Err(format!(
            "{} has {length} bytes; at most {FILE_BYTES_MAX} are read",
            path.display()
        ));
    }
    std::fs::read_to_string(&path).map_err(|error| fail(&error))
}

/// Reads the graph or the cables of a scenario.
pub(super) fn fill_graph(scenario: &mut Scenario, files: &Files<'_>) -> Result<(), Wrong> {
    if scenario.network.kind == Kind::Graph {
        let text = content("network.edges", &scenario.network.edges, files)?;
        let graph = Graph::parse(&text).map_err(|problem| {
            let sentence = format!("`network.edges`: {}:{problem}", scenario.network.edges);
            Wrong { path: "network.edges".to_owned(), sentence }
        })?;
        scenario.network.graph = Some(graph);
    }
    if scenario.network.kind == Kind::AtollGraph {
        let text = content("network.edges", &scenario.network.edges, files)?;
        let wiring = Wiring::parse(&text).map_err(|problem| {
            let sentence = format!("`network.edges`: {}:{problem}", scenario.network.edges);
            Wrong { path: "network.edges".to_owned(), sentence }
        })?;
        scenario.network.wiring = Some(wiring);
    }
    Ok(())
}

/// Reads the trace of a scenario, whose number of nodes is checked.
pub(super) fn fill_trace(scenario: &mut Scenario, files: &Files<'_>) -> Result<(), Wrong> {
    if scenario.traffic.pattern == PatternName::Trace {
        let text = content("traffic.trace", &scenario.traffic.trace, files)?;
        let nodes = scenario.network.node_count().min(u64::from(u32::MAX)) as u32;
        let replay = Replay::parse(nodes, &text).map_err(|problem| {
            let sentence = format!("`traffic.trace`: {}:{problem}", scenario.traffic.trace);
            Wrong { path: "traffic.trace".to_owned(), sentence }
        })?;
        scenario.traffic.replay = Some(replay);
    }
    Ok(())
}

fn content(key: &str, name: &str, files: &Files<'_>) -> Result<String, Wrong> {
    let wrong = |sentence: String| Wrong { path: key.to_owned(), sentence };
    if name.is_empty() {
        return Err(wrong(format!("`{key}` is missing; name a file beside the scenario.")));
    }
    files(name).map_err(|problem| wrong(format!("`{key}`: {problem}.")))
}
