//! Rules of the project that a compiler does not check. Each failure names file, line and rule.

use std::fs;
use std::path::{Path, PathBuf};

mod doc_comments;
mod imports;
mod messages;
mod numbers;
mod parameters;
mod spelling;
mod weight;

/// Longest line \[column\].
const COLUMNS_MAX: usize = 100;
/// Longest function, tests not counted \[line\], unless it is listed in tidy/long-functions.txt.
const FUNCTION_LINES_MAX: usize = 70;
/// Longest source file \[line\], tests not counted.
const FILE_LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            if name != "target" && name != ".git" && name != "runs" && name != "corpus" {
                files(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    files(&root.join("crates"), ".rs", &mut found);
    found.sort();
    assert!(found.len() > 20, "the walk over crates/ found only {} files", found.len());
    let relative = |path: &Path| path.strip_prefix(&root).expect("inside").display().to_string();
    found
        .iter()
        .map(|path| (relative(path), fs::read_to_string(path).expect("UTF-8 source")))
        .collect()
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn no_line_is_longer_than_100_columns() {
    let mut problems = Vec::new();
    for (file, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let is_text = line.trim_start().starts_with('"');
            if line.chars().count() > COLUMNS_MAX && !line.contains("://") && !is_text {
                problems.push(format!("{file}:{}", number + 1));
            }
        }
    }
    report(&problems);
}

/// `--help` prints an option's doc comment unchanged.
#[test]
fn no_help_text_has_a_backslash() {
    let mut problems = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| file.contains("arguments.rs")) {
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("    ///") && line.contains('\\') {
                problems.push(format!("{file}:{}", number + 1));
            }
        }
    }
    report(&problems);
}

#[test]
fn no_file_has_swallowed_its_helpers() {
    let mut problems = Vec::new();
    for (file, text) in sources() {
        if file.contains("/tests") || file.contains("/benches/") || file.ends_with("tests.rs") {
            continue;
        }
        let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        if lines > FILE_LINES_MAX {
            problems.push(format!("{file}: {lines} lines"));
        }
    }
    report(&problems);
}

/// The functions of a file with their lengths, by indentation: rustfmt makes that reliable.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let head = trimmed.split('(').next().unwrap_or("");
        let Some(name) = head.split("fn ").nth(1).filter(|_| is_function_head(head)) else {
            continue;
        };
        let close = format!("{}}}", " ".repeat(indent));
        let open_end = lines[start..].iter().position(|line| line.ends_with(['{', ';', '}']));
        let Some(open) = open_end.map(|offset| start + offset) else { continue };
        if !lines[open].ends_with('{') {
            continue;
        }
        if let Some(length) = lines[open..].iter().position(|line| *line == close) {
            let name = name.split('<').next().unwrap_or(name).to_string();
            found.push((name, start + 1, open - start + length + 1));
        }
    }
    found
}

fn is_function_head(head: &str) -> bool {
    let words = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern", "\"C\""];
    head.contains("fn ")
        && head
            .split("fn ")
            .next()
            .is_some_and(|before| before.split_whitespace().all(|word| words.contains(&word)))
}

#[test]
fn no_function_is_longer_than_70_lines_unless_listed() {
    let listed = fs::read_to_string(root().join("tidy/long-functions.txt")).expect("the list");
    let listed: Vec<&str> =
        listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let mut used = vec![false; listed.len()];
    let mut problems = Vec::new();
    let is_test = |file: &str| file.contains("/tests/") || file.ends_with("/tests.rs");
    for (file, text) in sources().into_iter().filter(|(file, _)| !is_test(file)) {
        for (name, line, length) in functions(&text) {
            if length <= FUNCTION_LINES_MAX {
                continue;
            }
            let entry = format!("{file} {name}");
            match listed.iter().position(|listed| *listed == entry) {
                Some(at) => used[at] = true,
                None => problems.push(format!("{file}:{line}: {name} has {length} lines")),
            }
        }
    }
    for (entry, used) in listed.iter().zip(used) {
        if !used {
            problems
                .push(format!("tidy/long-functions.txt lists `{entry}`, which is short or gone"));
        }
    }
    report(&problems);
}

#[test]
fn no_unfinished_marks() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()];
    let mut problems = Vec::new();
    for (file, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if marks
                .iter()
                .any(|mark| line.split(|c: char| !c.is_alphanumeric()).any(|w| w == mark))
            {
                problems.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_source_file_says_what_it_is() {
    let headless: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!") && !text.starts_with("// SPDX"))
        .map(|(file, _)| file)
        .collect();
    report(&headless);
}

#[test]
fn paths_and_links_in_docs_exist() {
    let root = root();
    let mut pages = Vec::new();
    files(&root, ".md", &mut pages);
    let mut problems = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("UTF-8 page");
        let folder = page.parent().expect("a folder");
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                problems.push(format!("{}: link to {target}", page.display()));
            }
        }
        if page.ends_with("ARCHITECTURE.md") {
            for part in text.split('`').skip(1).step_by(2) {
                let is_path = part.starts_with("crates/") || part.starts_with("formats/");
                if is_path && !root.join(part).exists() {
                    problems.push(format!("{}: path {part}", page.display()));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn every_key_of_the_experiment_file_is_in_its_manual() {
    let root = root();
    let model = fs::read_to_string(root.join("crates/fluxline-daq/src/experiment/model.rs"))
        .expect("the model");
    let manual = fs::read_to_string(root.join("docs/experiment.md")).expect("the manual");
    let mut problems = Vec::new();
    for line in model.lines().filter_map(|line| line.trim().strip_prefix("pub ")) {
        let Some((field, _)) = line.split_once(':') else { continue };
        let key = field.replace('_', "-");
        if ["sources", "record", "events", "filter", "cluster", "nodes", "graph"]
            .contains(&key.as_str())
        {
            continue;
        }
        if !manual.contains(&format!("`{key}`")) && !manual.contains(&format!("[source.{key}]")) {
            problems.push(format!("docs/experiment.md lacks `{key}`"));
        }
    }
    report(&problems);
}

#[test]
fn every_test_that_the_failures_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/failures.md")).expect("the page");
    let code: String = sources().into_iter().map(|(_, text)| text).collect();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let last_cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
    let named: Vec<&str> = last_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let tests: Vec<&&str> = named.iter().filter(|name| name.matches('_').count() >= 3).collect();
    assert!(tests.len() >= 20, "the page names tests in its last column: {named:?}");
    let missing = tests.iter().filter(|name| !code.contains(&format!("fn {name}()")));
    report(&missing.map(|name| format!("docs/failures.md names {name}")).collect::<Vec<_>>());
}

#[test]
fn docs_are_at_most_100_columns_wide() {
    let mut pages = Vec::new();
    files(&root(), ".md", &mut pages);
    let mut problems = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("UTF-8 page");
        for (number, line) in text.lines().enumerate() {
            let is_row = line.trim_start().starts_with('|');
            let is_output = line.starts_with("    ");
            if line.chars().count() > COLUMNS_MAX && !is_row && !is_output {
                problems.push(format!("{}:{}", page.display(), number + 1));
            }
        }
    }
    report(&problems);
}

#[test]
fn decisions_are_numbered_without_holes_and_exist_where_they_are_named() {
    let folder = root().join("docs/adr");
    let index = fs::read_to_string(folder.join("README.md")).expect("the index");
    let mut pages = Vec::new();
    files(&folder, ".md", &mut pages);
    let names = pages.iter().filter_map(|page| page.file_name()?.to_str());
    let mut names: Vec<&str> = names.filter(|name| *name != "README.md").collect();
    names.sort_unstable();
    let mut problems = Vec::new();
    for (place, name) in names.iter().enumerate() {
        if !name.starts_with(&format!("{:04}-", place + 1)) || !index.contains(&format!("({name})"))
        {
            problems
                .push(format!("docs/adr/{name}: number {} is next, and in the index", place + 1));
        }
    }
    for (file, text) in sources() {
        for number in text.split("docs/adr/").skip(1).filter_map(|rest| rest.get(..4)) {
            if number.chars().all(char::is_numeric) && !index.contains(&format!("[{number}]")) {
                problems.push(format!("{file}: docs/adr/{number} is not there"));
            }
        }
    }
    report(&problems);
}

/// The crates of ours that a `Cargo.toml` names under `[dependencies]`.
fn own_dependencies(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or("");
    let section = section.split("\n[").next().unwrap_or("");
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("fluxline")).collect()
}

#[test]
fn crates_import_what_architecture_allows() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `fluxline"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut problems = Vec::new();
    for folder in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).expect("a manifest");
        match rows.iter().find(|row| row[1] == format!("`{name}`")) {
            None => problems.push(format!("ARCHITECTURE.md has no row for {name}")),
            Some(row) if row[3] == "all" => {}
            Some(row) => problems.extend(
                own_dependencies(&manifest)
                    .iter()
                    .filter(|import| !row[3].contains(&format!("`{import}`")))
                    .map(|import| format!("{name} imports {import}; ARCHITECTURE.md does not")),
            ),
        }
    }
    report(&problems);
}
