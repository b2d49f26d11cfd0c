//! Compares our routes with those of OpenSM: writes wirings for ibsim, and judges the tables that
//! OpenSM computed for them. `tools/opensm/compare.sh` runs it.
//!
//! * `opensm list` prints the names of the wirings: tori, and 20 random ones (SEED=n).
//! * `opensm write FOLDER` writes each as a file for ibsim, with one host on every switch.
//! * `opensm judge FOLDER NAME...` reads OpenSM's tables and layers, prints a table, and ends with
//!   status 1 if a claim fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fluxline_core::random::Draw;
use fluxline_sim::routes::{self, Dependencies, End, Graph, Root, Routes, Shape, Summary};

/// The virtual layers of InfiniBand that LASH may use.
const LAYERS_MAX: u8 = 8;
/// The GUID that ibsim gives to the first switch; the others follow.
const ROOT_GUID: u32 = 0x20_0000;

struct Wiring {
    name: String,
    graph: Graph,
}

fn wirings() -> Result<Vec<Wiring>, String> {
    let mut all = Vec::new();
    for sides in [vec![4, 4], vec![8, 8], vec![4, 4, 4]] {
        let name: Vec<String> = sides.iter().map(u32::to_string).collect();
        let graph = Shape { sides, is_torus: true }.graph()?;
        all.push(Wiring { name: format!("torus-{}", name.join("x")), graph });
    }
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for number in 1..=20 {
        let graph = random(&mut Draw::new(seed * 1000 + number))?;
        all.push(Wiring { name: format!("random-{number:02}"), graph });
    }
    Ok(all)
}

/// Returns 8 to 24 switches with at most four links each: a random tree, and further links.
fn random(draw: &mut Draw) -> Result<Graph, String> {
    let nodes = 8 + draw.below(17) as u32;
    let mut graph = Graph::new(nodes, 4)?;
    let free = |graph: &Graph, node: u32| {
        let ports = (0..4).map(|port| End { node, port });
        let mut open =
            ports.filter(|&end| graph.channel(end).is_some_and(|of| graph.end(of).is_none()));
        open.next()
    };
    for node in 1..nodes {
        let open: Vec<End> = (0..node).filter_map(|of| free(&graph, of)).collect();
        let parent = open[draw.below(open.len() as u64) as usize];
        graph.join(parent, End { node, port: 0 })?;
    }
    for _ in 0..nodes {
        let mut pick = || draw.below(u64::from(nodes)) as u32;
        let (one, other) = (pick(), pick());
        let is_new = graph.leaving(one).all(|channel| graph.to(channel) != other);
        if let (Some(near), Some(far), true) =
            (free(&graph, one), free(&graph, other), is_new && one != other)
        {
            graph.join(near, far)?;
        }
    }
    Ok(graph)
}

/// Describes a wiring for ibsim, which counts ports from 1. The host has the last port.
fn net(graph: &Graph) -> String {
    let mut text = String::new();
    let host = graph.ports() + 1;
    for node in 0..graph.nodes() {
        let _ = writeln!(text, "Switch {host} \"S{node}\"");
        for channel in graph.leaving(node) {
            let (near, far) = (graph.start(channel), graph.end(channel));
            let far = far.unwrap_or(near);
            let _ = writeln!(text, "[{}] \"S{}\"[{}]", near.port + 1, far.node, far.port + 1);
        }
        let _ = writeln!(text, "[{host}] \"H{node}\"[1]\n");
    }
    for node in 0..graph.nodes() {
        let _ = writeln!(text, "Hca 1 \"H{node}\"\n[1] \"S{node}\"[{host}]\n");
    }
    text
}

/// Returns the number behind a letter in quotes: `'S12'`.
fn number(line: &str, letter: char) -> Option<u32> {
    let after = line.split_once(&format!("'{letter}"))?.1;
    after.split_once('\'')?.0.parse().ok()
}

/// Reads OpenSM's forwarding tables.
fn tables(graph: &Graph, text: &str) -> Routes {
    let mut ports: BTreeMap<[u32; 2], u8> = BTreeMap::new();
    let mut switch = None;
    for line in text.lines() {
        if line.starts_with("Unicast lids") {
            switch = number(line, 'S');
        } else if let (Some(node), Some(target)) = (switch, number(line, 'H')) {
            let port = line.split_whitespace().nth(1).and_then(|port| port.parse::<u8>().ok());
            port.and_then(|port| port.checked_sub(1))
                .map(|port| ports.insert([node, target], port));
        }
    }
    Routes::from_tables(graph, |node, target| ports.get(&[node, target]).copied())
}

/// Reads the layers of pairs: source, target, layer.
fn with_layers(routes: Routes, text: &str) -> Result<Routes, String> {
    let mut layers: BTreeMap<[u32; 2], u8> = BTreeMap::new();
    for line in text.lines() {
        let wrong = || format!("{line:?} is not a source, a target and a layer");
        let mut numbers = line.split_whitespace();
        let mut whole = || {
            let text = numbers.next().ok_or_else(wrong)?;
            let hexadecimal = text.strip_prefix("0x").map(|text| u32::from_str_radix(text, 16));
            hexadecimal.unwrap_or_else(|| text.parse()).map_err(|_| wrong())
        };
        let (source, target, layer) = (whole()?, whole()?, whole()?);
        layers.insert([source, target], layer as u8);
    }
    let nodes = routes.nodes() as usize;
    if layers.len() != nodes * (nodes - 1) {
        return Err(format!("{} layers for {nodes} nodes", layers.len()));
    }
    Ok(routes.in_layers(|source, target| layers.get(&[source, target]).copied().unwrap_or(0)))
}

/// The routes of one wiring: ours and OpenSM's.
struct Judged<'a> {
    graph: &'a Graph,
    /// Claims that do not hold.
    failures: Vec<String>,
}

impl Judged<'_> {
    /// Checks that all pairs have paths without cycles of channels.
    fn check(&mut self, name: &str, routes: &Routes) -> Summary {
        match Dependencies::of(self.graph, routes).map(|all| all.cycle()) {
            Ok(None) => {}
            Ok(Some(cycle)) => self.failures.push(format!("{name} has {cycle}")),
            Err(error) => self.failures.push(format!("{name}: {error}")),
        }
        let summary = routes.summary(self.graph);
        if summary.without_path > 0 {
            self.failures.push(format!("{name}: {} pairs have no path", summary.without_path));
        }
        summary
    }

    fn claim(&mut self, is_true: bool, text: &str) {
        if !is_true {
            self.failures.push(text.to_owned());
        }
    }
}

fn judge(folder: &Path, wiring: &Wiring) -> Result<Vec<String>, String> {
    let read = |end: &str| {
        let path = folder.join(format!("{}.{end}", wiring.name));
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let graph = &wiring.graph;
    let mut judged = Judged { graph, failures: Vec::new() };
    let mut updn = judged.check("OpenSM updn", &tables(graph, &read("updn.tables")?));
    // With the root that it finds itself, if it finds one.
    if let Ok(text) = read("free.tables") {
        let free = judged.check("OpenSM updn", &tables(graph, &text));
        updn.mean = updn.mean.min(free.mean);
        updn.longest = updn.longest.min(free.longest);
    }
    let count = read("count")?;
    let count: u8 = count.trim().parse().map_err(|_| format!("{count:?} is not a number"))?;
    if let Ok(layers) = read("layers") {
        let lash = with_layers(tables(graph, &read("lash.tables")?), &layers)?;
        judged.check("OpenSM lash", &lash);
    }
    let their_nue = judged.check("OpenSM nue", &tables(graph, &read("nue.tables")?));
    let updown = judged.check("updown", &routes::updown(graph, Root::Central));
    let layers = judged.check("layers", &routes::layers(graph, LAYERS_MAX)?);
    let nue = judged.check("nue", &routes::nue(graph, 1));
    judged.claim(updown.mean <= updn.mean + 1e-9, "our up*/down* has longer paths");
    judged.claim(updown.longest <= updn.longest, "our up*/down* has a longer longest path");
    judged.claim(layers.layers <= count, "we need more layers than LASH");
    println!(
        "| {} | {} | {:.3} | {:.3} | {} | {} | {} | {} | {:.3} | {:.3} | {} | {} |",
        wiring.name,
        graph.nodes(),
        updown.mean,
        updn.mean,
        updown.longest,
        updn.longest,
        layers.layers,
        count,
        nue.mean,
        their_nue.mean,
        nue.load_max,
        their_nue.load_max
    );
    Ok(judged.failures)
}

fn judge_all(folder: &Path, names: &[String]) -> Result<bool, String> {
    println!(
        "| wiring | nodes | mean up*/down* | OpenSM | longest | OpenSM | layers | OpenSM | mean \
         Nue(1) | OpenSM | most paths over a channel | OpenSM |"
    );
    println!("|{}", " --- |".repeat(12));
    let mut has_failed = false;
    for wiring in wirings()?.iter().filter(|wiring| names.contains(&wiring.name)) {
        for failure in judge(folder, wiring)? {
            has_failed = true;
            eprintln!("{}: {failure}", wiring.name);
        }
    }
    Ok(!has_failed)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn run(arguments: &[String]) -> Result<bool, String> {
    match arguments {
        [word] if word == "list" => {
            wirings()?.iter().for_each(|wiring| println!("{}", wiring.name))
        }
        [word, folder] if word == "write" => {
            for wiring in wirings()? {
                let path = PathBuf::from(folder).join(format!("{}.net", wiring.name));
                write(&path, &net(&wiring.graph))?;
                let root = ROOT_GUID + Root::Central.node(&wiring.graph);
                write(&path.with_extension("root"), &format!("{root:#018x}\n"))?;
            }
        }
        [word, folder, names @ ..] if word == "judge" => {
            return judge_all(Path::new(folder), names);
        }
        _ => return Err("write `list`, `write FOLDER` or `judge FOLDER NAME...`".into()),
    }
    Ok(true)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
