//! One run folder of the folders of its nodes: the events of all builders, and the ledger of the
//! whole run, by which the nodes are compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{EdgeCounters, InputEntry, LawResult, Ledger};
use fluxline_daq::record::{
    FolderError, ReadError, RecordedBatch, Recorder, RecorderConfig, RunFolder, RunReader,
    SourceLine, is_recording,
};
use serde_json::{Value, json};

mod beside;
mod killed;
mod succession;

use self::killed::{KilledBuilder, Readouts};
use self::succession::Succession;
use crate::error::Error;
use crate::judged;
use crate::report::put_ledger;

/// Most nodes of a kind that are missed.
const NODES_MAX: u64 = 1024;

/// A run that was gathered.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Its ledger.
    pub ledger: Ledger,
    /// Number of packets in its events.
    pub packets: u64,
    /// The nodes that were found.
    pub nodes: Vec<String>,
    /// `status` of its run.json.
    pub status: u8,
    /// The reasons why it needs a look; `None`: nothing does.
    pub sentence: Option<String>,
}

/// Returns true for the folder of one node of a run on several.
#[must_use]
pub fn is_of_node(path: &Path) -> bool {
    let document = RunFolder::open(path).and_then(|folder| folder.read_run());
    document.is_ok_and(|document| nodes_of(&document).len() == 1)
}

/// Gathers the folders of the nodes of one run into the new folder `into`.
///
/// Cost: the files are read once, or twice where late fragments are in them; memory for one batch a
/// builder.
///
/// # Errors
/// A folder does not belong to a node of the same run, `into` exists already, or the disk failed.
/// Nothing new is left then.
pub fn gather(folders: &[PathBuf], into: &Path) -> Result<Gathered, Error> {
    let mut nodes = folders.iter().map(|path| Node::open(path)).collect::<Result<Vec<_>, _>>()?;
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    succession::apply(&mut nodes);
    check(&nodes)?;
    if into.symlink_metadata().is_ok() {
        return Err(FolderError::Exists(into.to_path_buf()).into());
    }
    let mut name = into.file_name().unwrap_or_default().to_os_string();
    name.push(".gathering");
    let draft = into.with_file_name(name);
    let folder = RunFolder::create(&draft)?;
    let gathered = write(&mut nodes, folder).and_then(|gathered| {
        let named = std::fs::rename(&draft, into);
        named.map_err(|error| Error::failed(format_args!("{}: {error}.", into.display())))?;
        Ok(gathered)
    });
    // Nothing partial stays.
    gathered.inspect_err(|_| drop(std::fs::remove_dir_all(&draft)))
}

/// A node's folder.
struct Node {
    name: String,
    path: PathBuf,
    folder: RunFolder,
    document: Value,
    ledger: Ledger,
    /// It is a builder that did not end by itself, or was replaced.
    was_killed: bool,
    /// The builder that this one replaced.
    succession: Option<Succession>,
    /// The batches of its files that are valid, if another builder replaced it.
    valid_batches: Option<u64>,
    /// Another builder has counts of this one's partitions.
    is_counted_elsewhere: bool,
}

/// Returns true for the name of a node: a run.json may come from anybody.
fn is_name(name: &str) -> bool {
    let number = name.strip_prefix("builder-").or_else(|| name.strip_prefix("readout-"));
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Returns the names of the nodes of a folder.
fn nodes_of(document: &Value) -> Vec<String> {
    let of = |kind: &str| document["graph"][kind].as_array().cloned().unwrap_or_default();
    let all = of("readouts").into_iter().chain(of("builders"));
    let names = all.filter_map(|node| node["name"].as_str().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
    // A node that was killed has no graph.
    if document["graph"].is_null() {
        let name = document["node"].as_str().filter(|name| is_name(name));
        names.extend(name.map(str::to_owned));
    }
    names
}

impl Node {
    fn open(path: &Path) -> Result<Node, Error> {
        let folder = RunFolder::open(path)?;
        let document = folder.read_run()?;
        let refuse = |why: &str| Err(Error::input(format_args!("{}: {why}.", path.display())));
        if is_recording(&folder) {
            return refuse("the node has not ended; stop it, or wait for its end");
        }
        let mut names = nodes_of(&document);
        let (Some(name), true) = (names.pop(), names.is_empty()) else {
            return refuse("this is not the folder of one node (`fluxline run --node`)");
        };
        let was_killed = matches!(document["state"].as_str(), Some("running" | "recovered"));
        if was_killed && name.starts_with("readout-") {
            return refuse(
                "the readout was killed, and left no counts; leave its folder out, and `gather` \
                 says what is missing",
            );
        }
        if was_killed {
            return Ok(Node { document, was_killed, ..Node::new(name, path, folder) });
        }
        let ledger = serde_json::from_value(document["ledger"].clone()).ok();
        let is_sound = |ledger: &Ledger| {
            ledger.amendments.iter().all(|its| (its.source as usize) < ledger.sources.len())
        };
        let Some(ledger) = ledger.filter(is_sound) else {
            return refuse("its run.json has no right ledger");
        };
        let node = Node { document, ledger, ..Node::new(name, path, folder) };
        Ok(node)
    }

    fn new(name: String, path: &Path, folder: RunFolder) -> Node {
        Node {
            name,
            path: path.to_path_buf(),
            succession: Succession::of(path),
            folder,
            document: Value::Null,
            ledger: Ledger::default(),
            was_killed: false,
            valid_batches: None,
            is_counted_elsewhere: false,
        }
    }

    fn is_builder(&self) -> bool {
        self.name.starts_with("builder-")
    }

    /// Returns what all nodes of a run have in common.
    fn experiment(&self) -> Value {
        let of = &self.document["experiment"];
        json!([of["name"], of["source"], of["events"], of["nodes"]])
    }
}

/// Checks that the folders are of different nodes of one run.
fn check(nodes: &[Node]) -> Result<(), Error> {
    let Some(first) = nodes.first() else {
        return Err(Error::input("no folder is given; write the folder of each node."));
    };
    for pair in nodes.windows(2) {
        if pair[0].name == pair[1].name {
            return Err(Error::input(format_args!(
                "{} and {} are both of {}; give one folder for each node.",
                pair[0].path.display(),
                pair[1].path.display(),
                pair[0].name
            )));
        }
    }
    if let Some(other) = nodes.iter().find(|node| node.experiment() != first.experiment()) {
        return Err(Error::input(format_args!(
            "{} and {} are of different experiments; give the folders of one run.",
            first.path.display(),
            other.path.display()
        )));
    }
    check_edges(nodes)
}

/// Checks that nobody took more than it was handed.
fn check_edges(nodes: &[Node]) -> Result<(), Error> {
    match edges(nodes).into_iter().find(|(_, edge)| edge.is_of_two_runs()) {
        None => Ok(()),
        Some(((from, to), edge)) => Err(Error::input(format_args!(
            "{from} handed {} packets to {to}, which took {}: their folders are of different runs.",
            edge.handed.unwrap_or(0),
            edge.taken.unwrap_or(0)
        ))),
    }
}

/// The counts of an edge; `None` where the node at that end has no folder.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    handed: Option<u64>,
    lost: u64,
    taken: Option<u64>,
}

impl Edge {
    fn is_of_two_runs(&self) -> bool {
        let (handed, taken) = (self.handed.zip(self.taken)).unwrap_or((u64::MAX, 0));
        taken.saturating_add(self.lost) > handed
    }
}

/// Returns the edges by the names of their ends.
fn edges(nodes: &[Node]) -> BTreeMap<(String, String), Edge> {
    let mut edges: BTreeMap<(String, String), Edge> = BTreeMap::new();
    for node in nodes {
        for row in node.document["graph"]["edges"].as_array().into_iter().flatten() {
            let end = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let ends = (end("from"), end("to"));
            if !is_name(&ends.0) || !is_name(&ends.1) {
                continue;
            }
            let edge = edges.entry(ends).or_default();
            edge.handed = edge.handed.or(row["handed"].as_u64());
            edge.taken = edge.taken.or(row["taken"].as_u64());
            edge.lost = edge.lost.saturating_add(row["lost"].as_u64().unwrap_or(0));
        }
    }
    succession::share(nodes, &mut edges);
    edges
}

/// Returns the nodes of the experiment without a folder.
fn absent(nodes: &[Node]) -> Vec<String> {
    let known: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let of = |kind: &'static str| {
        let first = nodes.first().map(|node| &node.document["experiment"]["nodes"][kind]["count"]);
        let count = first.and_then(Value::as_u64).unwrap_or(1).min(NODES_MAX);
        (0..count).map(move |number| format!("{kind}-{number}"))
    };
    let all = of("builder").chain(of("readout"));
    all.filter(|name| !known.contains(name.as_str())).collect()
}

/// The numbers of the gathered run's sources, by their labels.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    /// Returns the number of a source, and true when it is new.
    fn of(&mut self, label: &str) -> (u32, bool) {
        let next = self.0.len() as u32;
        match self.0.get(label) {
            Some(number) => (*number, false),
            None => {
                self.0.insert(label.to_owned(), next);
                (next, true)
            }
        }
    }
}

/// Writes the run of all nodes into a new folder.
fn write(nodes: &mut [Node], folder: RunFolder) -> Result<Gathered, Error> {
    folder.write_run(&json!({ "state": "running", "gathering": true }))?;
    for node in nodes.iter() {
        for format in node.folder.formats()? {
            folder.write_format(&format, &node.folder.read_format(&format)?)?;
        }
    }
    let mut numbers = Numbers::default();
    let mut recorder = Recorder::open(folder, RecorderConfig::default());
    let name = nodes.first().and_then(|node| node.document["experiment"]["name"].as_str());
    recorder.name_run(name.unwrap_or("run"));
    copy_events(nodes, &mut numbers, &mut recorder)?;
    check_edges(nodes)?;
    let nodes = &*nodes;
    let mut ledger = ledger_of(nodes, &mut numbers);
    let (status, sentence) = verdict(nodes, &ledger);
    let mut document = document(nodes, &recorder);
    document["status"] = status.into();
    document["sentence"] = sentence.clone().into();
    put_ledger(&mut document, &ledger);
    let (folder, counts) = (recorder.folder(), recorder.counts());
    folder.write_run(&document)?;
    ledger.incomplete_in_files = judged::incomplete_in_files(folder, &ledger, counts.file_bytes);
    if ledger.incomplete_in_files.is_some() {
        put_ledger(&mut document, &ledger);
        folder.write_run(&document)?;
    }
    beside::gather(nodes, folder)?;
    let nodes = nodes.iter().map(|node| node.name.clone()).collect();
    Ok(Gathered { ledger, packets: counts.written.packets, nodes, status, sentence })
}

/// The files of a builder, and the sources in them.
struct Files {
    /// The place of its node.
    node: usize,
    /// The counts of a builder that left none.
    killed: Option<KilledBuilder>,
    reader: RunReader,
    /// Batches that may be read.
    left: u64,
    sources: HashMap<u32, SourceLine>,
    next: Option<RecordedBatch>,
}

/// Copies the batches of all builders, in the order of their first events' ends.
fn copy_events(
    nodes: &mut [Node],
    numbers: &mut Numbers,
    recorder: &mut Recorder,
) -> Result<(), Error> {
    let unread = |error: &dyn std::fmt::Display| Error::input(format_args!("{error}."));
    let unwritten = |fault: &dyn std::fmt::Display| Error::failed(format_args!("{fault}."));
    let mut all = Vec::new();
    for (place, node) in nodes.iter().enumerate().filter(|(_, node)| node.is_builder()) {
        let lines = node.folder.sources()?;
        let sources = lines.into_iter().map(|line| (line.source, line)).collect();
        let mut reader = RunReader::open(&node.path).map_err(|error| unread(&error))?;
        let mut left = node.valid_batches.unwrap_or(u64::MAX);
        let next = next_of(&mut reader, &mut left).map_err(|error| unread(&error))?;
        let killed = node.was_killed.then(|| KilledBuilder::new(node.is_counted_elsewhere));
        all.push(Files { node: place, killed, reader, left, sources, next });
    }
    let end = |batch: &Option<RecordedBatch>| {
        batch.as_ref().map(|batch| batch.first_closed().unwrap_or_default())
    };
    let ends = all.iter().enumerate();
    let mut order: BinaryHeap<Reverse<(Moment, usize)>> =
        ends.filter_map(|(of, files)| Some(Reverse((end(&files.next)?, of)))).collect();
    let mut rows = EventBatch::default();
    while let Some(Reverse((_, of))) = order.pop() {
        let Files { killed, reader, left, sources, next, .. } = &mut all[of];
        let Some(batch) = next.take() else { continue };
        rows.clear();
        batch.append_to(&mut rows).map_err(|error| unread(&error))?;
        if let Some(killed) = killed {
            killed.note(&rows);
        }
        renumber(&mut rows, sources, numbers, recorder)?;
        recorder.write(&rows, Moment::default()).map_err(|fault| unwritten(&fault))?;
        *next = next_of(reader, left).map_err(|error| unread(&error))?;
        order.extend(end(next).map(|end| Reverse((end, of))));
    }
    recorder.finish().map_err(|fault| unwritten(&fault))?;
    close_killed(nodes, all)
}

/// Returns the next batch of a builder, unless the builder was replaced before it.
fn next_of(reader: &mut RunReader, left: &mut u64) -> Result<Option<RecordedBatch>, ReadError> {
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    reader.next_batch()
}

/// Gives the nodes that were killed the counts of what is in their files.
fn close_killed(nodes: &mut [Node], all: Vec<Files>) -> Result<(), Error> {
    let mut readouts = Readouts::default();
    for node in nodes.iter().filter(|node| !node.is_builder()) {
        readouts.add(&node.name, &node.ledger);
    }
    readouts.absent = absent(nodes).into_iter().find(|name| name.starts_with("readout-"));
    for Files { node, killed, sources, .. } in all {
        let (node, Some(mut killed)) = (&mut nodes[node], killed) else { continue };
        if let Some(label) = readouts.stranger(sources.values()) {
            return Err(Error::input(format_args!(
                "{} has packets of {label}, which no readout has: the folders are of different \
                 runs.",
                node.path.display()
            )));
        }
        node.document["graph"] = killed.close(&node.name, &sources, |label| readouts.of(label));
        node.ledger = killed.ledger;
    }
    Ok(())
}

/// Gives the sources of a batch their numbers in the gathered run.
fn renumber(
    rows: &mut EventBatch,
    sources: &HashMap<u32, SourceLine>,
    numbers: &mut Numbers,
    recorder: &mut Recorder,
) -> Result<(), Error> {
    let of_events = rows.events.iter_mut().filter_map(|row| row.source.as_mut());
    for source in rows.packets.iter_mut().map(|row| &mut row.source).chain(of_events) {
        let Some(line) = sources.get(source) else {
            return Err(Error::input(format_args!(
                "source {source} has no line in sources.jsonl; restore it from a copy."
            )));
        };
        let (number, is_new) = numbers.of(&line.name);
        if is_new {
            let line = SourceLine { source: number, ..line.clone() };
            let written = recorder.write_source(&line);
            written.map_err(|fault| Error::failed(format_args!("{fault}.")))?;
        }
        *source = number;
    }
    Ok(())
}

/// Returns the ledger of the whole run.
fn ledger_of(nodes: &[Node], numbers: &mut Numbers) -> Ledger {
    let mut sum = Ledger::default();
    for of in nodes.iter().map(|node| &node.ledger) {
        let own: Vec<u32> = of.sources.iter().map(|entry| numbers.of(&entry.label).0).collect();
        sum.add(of, |number| own[number as usize]);
        sum.paused.merge(&of.paused);
        sum.filter.merge(&of.filter);
        sum.host.merge(&of.host);
        for (number, entry) in of.inputs.iter().enumerate() {
            if sum.inputs.len() <= number {
                sum.inputs.push(InputEntry { name: entry.name.clone(), ..InputEntry::default() });
            }
            sum.inputs[number].counters.merge(&entry.counters);
            sum.inputs[number].remote.merge(&entry.remote);
        }
    }
    // Each builder follows all keys, and sees them start anew.
    let restarts = nodes.iter().map(|node| node.ledger.builder.key_restarts).max();
    sum.builder.key_restarts = restarts.unwrap_or(0);
    let mut all = EdgeCounters::default();
    for edge in edges(nodes).into_values() {
        let (handed, taken) = (edge.handed.unwrap_or(0), edge.taken.unwrap_or(0));
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut all.handed, handed);
        add(&mut all.taken, taken);
        match (edge.handed, edge.taken) {
            (Some(_), Some(_)) => add(&mut all.lost, handed.saturating_sub(taken)),
            (Some(_), None) => {
                add(&mut all.lost, edge.lost);
                add(&mut all.in_doubt, handed.saturating_sub(edge.lost));
            }
            (None, _) => add(&mut all.came_in, taken),
        }
    }
    all.inherited = succession::inherited(nodes);
    sum.edges = Some(all);
    sum
}

fn verdict(nodes: &[Node], ledger: &Ledger) -> (u8, Option<String>) {
    if let Some(law) = ledger.check().into_iter().find(|law| !law.holds()) {
        let LawResult { name, left, right } = law;
        return (4, Some(format!("the ledger does not close: \"{name}\" is {left} = {right}.")));
    }
    let mut reasons: Vec<String> = Vec::new();
    let absent = absent(nodes);
    if !absent.is_empty() {
        reasons.push(format!("no folder of {} was given", absent.join(", ")));
    }
    let lost = ledger.edges.as_ref().map_or(0, |edges| edges.lost);
    if lost > 0 {
        reasons.push(format!("{lost} packets were lost between nodes"));
    }
    for node in nodes {
        if node.valid_batches.is_some() {
            continue; // its successor says what is lost
        }
        if node.was_killed {
            reasons.push(format!(
                "{} was killed: what it took and had not recorded is lost with it",
                node.name
            ));
            continue;
        }
        if let Some(sentence) = node.document["sentence"].as_str() {
            reasons.push(format!("{}: {}", node.name, sentence.trim_end_matches('.')));
        }
    }
    match reasons.is_empty() {
        true => (0, None),
        false => (7, Some(format!("{}.", reasons.join("; ")))),
    }
}

fn document(nodes: &[Node], recorder: &Recorder) -> Value {
    let times = |name: &str| nodes.iter().filter_map(|node| node.document[name].as_u64()).collect();
    let (began, ended): (Vec<u64>, Vec<u64>) = (times("began_ns"), times("ended_ns"));
    let of = |kind: &str| -> Vec<Value> {
        let all = nodes.iter().flat_map(|node| node.document["graph"][kind].as_array());
        all.flatten().cloned().collect()
    };
    let edges = edges(nodes).into_iter().map(|((from, to), edge)| {
        let lost = match (edge.handed, edge.taken) {
            (Some(handed), Some(taken)) => handed.saturating_sub(taken),
            _ => edge.lost,
        };
        json!({
            "from": from, "to": to, "handed": edge.handed, "taken": edge.taken, "lost": lost,
        })
    });
    let edges: Vec<Value> = edges.collect();
    let counts = recorder.counts();
    json!({
        "state": "finished",
        "fluxline": env!("CARGO_PKG_VERSION"),
        "began_ns": began.into_iter().min(),
        "ended_ns": ended.into_iter().max(),
        "experiment": nodes.first().map(|node| &node.document["experiment"]),
        "recorded": {
            "events": counts.written.events, "packets": counts.written.packets,
            "bytes": counts.written.bytes, "batches": counts.batches, "files": counts.files,
            "file_bytes": counts.file_bytes,
        },
        "graph": { "readouts": of("readouts"), "builders": of("builders"), "edges": edges },
        "gathered": nodes.iter().map(|node| {
            json!({ "node": node.name, "folder": node.path, "status": node.document["status"] })
        }).collect::<Vec<_>>(),
    })
}
