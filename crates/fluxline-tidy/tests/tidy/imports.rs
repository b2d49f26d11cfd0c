//! Imports within a crate: no circle between files, none between folders.
//!
//! A file of a folder may import the folder's own `mod.rs`, which holds the type that its files
//! implement. Re-exports are followed to the file of the definition. Tests may import anything.

use std::collections::{BTreeMap, BTreeSet};

/// The crates without circles.
const CLEAN: &[&str] = &[
    "fluxline",
    "fluxline-archive",
    "fluxline-bench",
    "fluxline-c",
    "fluxline-cli",
    "fluxline-cluster",
    "fluxline-core",
    "fluxline-daq",
    "fluxline-doctor",
    "fluxline-export",
    "fluxline-kafka",
    "fluxline-packet",
    "fluxline-python",
    "fluxline-report",
    "fluxline-run",
    "fluxline-serve",
    "fluxline-sim",
    "fluxline-toml",
];

/// A path of modules below the crate's root.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The code of one file, without comments and tests.
struct Source {
    module: Module,
    is_folder: bool,
    code: String,
}

impl Source {
    /// Returns `None` for files of tests. `path` is relative to `src`.
    fn new(path: &str, text: &str) -> Option<Source> {
        let mut module: Module =
            path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let last = module.last()?.clone();
        if last.ends_with("tests") || path.contains("/tests/") {
            return None;
        }
        if last == "mod" || last == "lib" {
            module.pop();
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
        let lines = code.lines().map(|line| line.split("//").next().unwrap_or(line));
        let code = lines.collect::<Vec<_>>().join("\n");
        Some(Source { module, is_folder: last == "mod", code })
    }

    /// The paths of its `use` statements that are re-exports, and all other paths in its code.
    fn paths(&self) -> [Vec<Module>; 2] {
        let [mut exported, mut used] = [Vec::new(), Vec::new()];
        let mut other = String::new();
        let mut code = self.code.as_str();
        while let Some(at) = code.find("use ") {
            let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
            let is_use = line.trim().is_empty() || line.trim_start().starts_with("pub");
            let Some(end) = code[at..].find(';').filter(|_| is_use) else {
                other.push_str(&code[..at + 4]);
                code = &code[at + 4..];
                continue;
            };
            let list = if line.trim().is_empty() { &mut used } else { &mut exported };
            expand(&code[at + 4..at + end], &[], list);
            other.push_str(&code[..at]);
            code = &code[at + end..];
        }
        other.push_str(code);
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let words = other.split(|c| !is_word(c)).filter(|word| word.contains("::"));
        used.extend(words.map(|word| word.split("::").map(str::to_owned).collect()));
        [exported, used]
    }

    /// A path as written, from the root of the crate.
    fn absolute(&self, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&self.module[..0], &path[1..]),
            "self" => (&self.module[..], &path[1..]),
            "super" => (&self.module[..self.module.len().checked_sub(ups)?], &path[ups..]),
            first => {
                let child = [self.module.clone(), vec![first.to_owned()]].concat();
                modules.contains(&child).then_some((&self.module[..], path))?
            }
        };
        Some([base, rest].concat())
    }
}

/// The paths of a tree like `a::{b, c::{D, e}}`.
fn expand(tree: &str, before: &[String], into: &mut Vec<Module>) {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in tree.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("at least one").push(letter);
    }
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        let (path, list) = part.split_once('{').unwrap_or((part, ""));
        let path = path.split(" as ").next().unwrap_or(path).trim();
        let names = path.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
        let path: Module = before.iter().cloned().chain(names).collect();
        match list.rsplit_once('}') {
            Some((inner, _)) => expand(inner, &path, into),
            None => into.push(path),
        }
    }
}

/// Follows re-exports from a path to the module that defines it.
fn defined_in(path: Module, exports: &BTreeMap<Module, Module>, sources: &[Source]) -> Module {
    let mut path = path;
    for _ in 0..8 {
        let known = (1..=path.len()).find_map(|end| {
            let target = exports.get(&path[..end]).filter(|target| target[..] != path[..end])?;
            Some([&target[..], &path[end..]].concat())
        });
        match known {
            Some(next) => path = next,
            None => break,
        }
    }
    let holds = |source: &&Source| path.starts_with(&source.module);
    let module = sources.iter().filter(holds).map(|source| &source.module);
    module.max_by_key(|module| module.len()).cloned().unwrap_or_default()
}

/// Lists the imports of each file, without those of its own `mod.rs`.
fn graph(sources: &[Source]) -> Graph {
    let modules: BTreeSet<Module> = sources.iter().map(|source| source.module.clone()).collect();
    let mut exports = BTreeMap::new();
    for source in sources {
        for path in source.paths()[0].iter().filter_map(|path| source.absolute(path, &modules)) {
            let Some(name) = path.last().cloned() else { continue };
            exports.insert([source.module.clone(), vec![name]].concat(), path);
        }
    }
    let folders: BTreeSet<&Module> =
        sources.iter().filter(|source| source.is_folder).map(|source| &source.module).collect();
    let mut graph = Graph::new();
    for source in sources.iter().filter(|source| !source.module.is_empty()) {
        let own = &source.module;
        let parent = own[..own.len() - 1].to_vec();
        let paths = source.paths();
        let paths = paths[1].iter().filter_map(|path| source.absolute(path, &modules));
        let targets = paths.map(|path| defined_in(path, &exports, sources)).filter(|target| {
            let is_own_folder = *target == parent && folders.contains(&parent);
            (source.is_folder || !is_own_folder) && target != own && !target.is_empty()
        });
        graph.entry(own.clone()).or_default().extend(targets);
    }
    graph
}

/// A way from `from` back to it, if there is one.
fn circle(graph: &Graph, from: &Module) -> Option<Vec<String>> {
    let mut open = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop() {
        for next in graph.get(*way.last()?).into_iter().flatten() {
            if next == from {
                return Some(way.iter().map(|module| module.join("/")).collect());
            }
            if seen.insert(next) {
                open.push([way.clone(), vec![next]].concat());
            }
        }
    }
    None
}

/// The circles between files, and those between the files and folders directly below `src`.
fn circles(sources: &[Source]) -> Vec<Vec<String>> {
    let files = graph(sources);
    let mut tops = Graph::new();
    for (from, targets) in &files {
        let others = targets.iter().map(|target| target[..1].to_vec());
        let others = others.filter(|target| target[..] != from[..1]);
        tops.entry(from[..1].to_vec()).or_default().extend(others);
    }
    let found = |graph: &Graph| -> Vec<Vec<String>> {
        graph.keys().filter_map(|module| circle(graph, module)).collect()
    };
    [found(&files), found(&tops)].concat()
}

#[test]
fn no_circle_of_imports_between_files_or_folders() {
    let all = super::sources();
    let mut problems = Vec::new();
    for &name in CLEAN {
        let prefix = format!("crates/{name}/src/");
        let sources: Vec<Source> = all
            .iter()
            .filter_map(|(file, text)| Source::new(file.strip_prefix(&prefix)?, text))
            .collect();
        let edges: usize = graph(&sources).values().map(BTreeSet::len).sum();
        assert!(edges >= sources.len() / 5, "{name}: only {edges} imports were found");
        let circles = circles(&sources);
        problems.extend(circles.iter().map(|way| format!("{name}: {}", way.join(" -> "))));
    }
    super::report(&problems);
}

/// The extras of networks: ringlets, tori and routers work without hosts, nodes and programs.
const EXTRAS: [&str; 11] = [
    "fabric",
    "host",
    "net/atoll/adapter",
    "net/ethernet/cluster",
    "net/ethernet/host",
    "net/myrinet",
    "net/sci/adapter",
    "net/sci/clock",
    "net/sci/cluster",
    "net/sci/coherence",
    "world",
];

/// Returns the source files of the simulator.
fn sources_of_the_simulator() -> Vec<Source> {
    let source = |(file, text): &(String, String)| {
        Source::new(file.strip_prefix("crates/fluxline-sim/src/")?, text)
    };
    super::sources().iter().filter_map(source).collect()
}

#[test]
fn ringlets_and_tori_import_no_extra_of_the_simulator() {
    let sources = sources_of_the_simulator();
    let is_extra = |module: &Module| {
        let path = module.join("/");
        EXTRAS.iter().any(|extra| path.starts_with(extra))
    };
    let mut problems = Vec::new();
    for (from, targets) in graph(&sources).iter().filter(|(from, _)| !is_extra(from)) {
        if from[0] == "net" {
            let extras = targets.iter().filter(|target| is_extra(target));
            problems.extend(extras.map(|to| format!("{} -> {}", from.join("/"), to.join("/"))));
        }
    }
    super::report(&problems);
}

/// A network is known to itself, to the files that describe networks, and to published experiments.
#[test]
fn sci_is_imported_by_scenarios_and_experiments_alone() {
    let sources = sources_of_the_simulator();
    let is_allowed = |module: &Module| {
        module.starts_with(&["net".to_owned(), "sci".to_owned()])
            || ["scenario", "reproduce"].contains(&module[0].as_str())
    };
    let graph = graph(&sources);
    assert!(graph.len() > 100, "only {} files were found", graph.len());
    let mut problems = Vec::new();
    for (from, targets) in graph.iter().filter(|(from, _)| !is_allowed(from)) {
        let sci = targets.iter().filter(|to| to.join("/").starts_with("net/sci"));
        problems.extend(sci.map(|to| format!("{} -> {}", from.join("/"), to.join("/"))));
    }
    super::report(&problems);
}

#[test]
fn circles_are_found_through_lists_paths_and_re_exports() {
    let source = |path: &str, text: &str| Source::new(path, text).expect("no test");
    let through_export = [
        source("lib.rs", "pub use a::Thing;"),
        source("a.rs", "use crate::{x, b::{C, D}};"),
        source("b.rs", "fn f() { crate::Thing::new() }"),
    ];
    assert_eq!(circles(&through_export).len(), 4, "each of two files, as a file and as a room");
    let in_a_folder = [
        source("a/mod.rs", "struct A(one::One);"),
        source("a/one.rs", "use super::A;\nuse super::two::Two;"),
        source("a/two.rs", "pub struct Two; // use super::one::One;"),
    ];
    assert!(circles(&in_a_folder).is_empty(), "{:?}", circles(&in_a_folder));
}
