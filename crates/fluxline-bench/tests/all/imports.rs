//! No circle of imports between the rooms of this crate: files and folders directly below `src`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The sources below a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the crate").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|of| of == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The room of a file: the first part of its path below `src`, without its ending.
fn room(root: &Path, file: &Path) -> String {
    let below = file.strip_prefix(root).expect("below src");
    let first = below.iter().next().expect("a name").to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The rooms that follow `crate::` in a text: `crate::a::B` and `crate::{a, b::C}`.
fn imported(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<_>>().join(" ");
    let mut rooms = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split("};").next().unwrap_or(list),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest),
        };
        let mut depth = 0;
        let top = list.split(',').filter(|part| {
            let is_top = depth == 0;
            depth += part.matches('{').count();
            depth -= part.matches('}').count().min(depth);
            is_top
        });
        rooms.extend(top.map(|part| part.trim().split("::").next().unwrap_or("").to_owned()));
    }
    rooms
}

/// A circle that begins at `from`, if there is one.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> Option<Vec<String>> {
    let mut open = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop() {
        for next in imports.get(way.last()?).into_iter().flatten() {
            if next == from {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                open.push([way.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

#[test]
fn no_room_imports_itself_by_way_of_others() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let rooms: BTreeSet<String> = files.iter().map(|file| room(&root, file)).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.ends_with("lib.rs")) {
        let own = room(&root, file);
        let text = fs::read_to_string(file).expect("UTF-8 source");
        let others = imported(&text).into_iter().filter(|one| rooms.contains(one) && *one != own);
        imports.entry(own.clone()).or_default().extend(others);
    }
    assert!(imports["registry"].contains("papers"), "the table imports the rooms: {imports:?}");
    let circles: Vec<Vec<String>> = rooms.iter().filter_map(|one| circle(&imports, one)).collect();
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn imports_are_found_in_lists_and_in_paths() {
    let text = "use crate::{a::{B, C}, d};\nfn f() { crate::e::g() }\n// crate::not\n";
    let found: Vec<String> = imported(text).into_iter().collect();
    assert_eq!(found, ["a", "d", "e"]);
}
