//! Refuses keys that are unknown, or that have no effect in this scenario.

use fluxline_toml::nearest;
use toml::{Table, Value};

use super::keys::{self, KEYS, Key, When};
use super::{PatternName, Scenario, StackName};

/// A mistake about one key: its path in the file, and the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub path: String,
    pub sentence: String,
}

/// A key of the file, and its row.
struct Given {
    path: String,
    part: String,
    name: String,
}

/// Returns every key of a file, without those inside of values.
fn given(file: &Table) -> Vec<Given> {
    let mut all = Vec::new();
    for (name, value) in file {
        let is_part = KEYS.iter().any(|key| key.part == name);
        let tables: Vec<(String, &Table)> = match value {
            Value::Table(table) => vec![(name.clone(), table)],
            Value::Array(items) if is_part => {
                let tables = items.iter().enumerate();
                let path = |at: usize| format!("{name}.{at}");
                tables.filter_map(|(at, item)| Some((path(at), item.as_table()?))).collect()
            }
            _ => Vec::new(),
        };
        if tables.is_empty() && !is_part {
            all.push(Given { path: name.clone(), part: String::new(), name: name.clone() });
        }
        for (path, table) in tables {
            all.extend(table.keys().map(|key| Given {
                path: format!("{path}.{key}"),
                part: name.clone(),
                name: key.clone(),
            }));
            if !is_part {
                all.push(Given { path, part: String::new(), name: name.clone() });
            }
        }
    }
    all
}

/// Checks that every key is known.
pub(super) fn check_known(file: &Table) -> Result<(), Wrong> {
    for Given { path, part, name } in given(file) {
        let is_part = |part: &str| KEYS.iter().any(|key| key.part == part);
        if !part.is_empty() && !is_part(&part) {
            continue; // the part itself is refused
        }
        if keys::find(&part, &name).is_none() {
            return Err(Wrong { path, sentence: unknown(&part, &name) });
        }
    }
    Ok(())
}

/// Says what to write instead of an unknown key.
fn unknown(part: &str, name: &str) -> String {
    let of_part: Vec<&str> =
        KEYS.iter().filter(|key| key.part == part).map(|key| key.name).collect();
    let mut parts: Vec<&str> =
        KEYS.iter().map(|key| key.part).filter(|of| !of.is_empty()).collect();
    parts.dedup();
    let near = nearest(
        name,
        of_part.iter().copied().chain(parts.iter().copied().filter(|_| part.is_empty())),
    );
    let elsewhere = KEYS.iter().find(|key| key.name == name);
    match (near, elsewhere) {
        (_, Some(key)) if key.part.is_empty() => {
            format!("`{name}` is not a key here; write it above the first [part].")
        }
        (_, Some(_)) => {
            let parts = KEYS.iter().filter(|key| key.name == name);
            let parts: Vec<String> = parts.map(|key| format!("[{}]", key.part)).collect();
            format!("`{name}` is not a key here; it belongs below {}.", parts.join(" or "))
        }
        (Some(near), _) => format!("`{name}` is not a key here; did you mean `{near}`?"),
        (None, None) => {
            let known = if part.is_empty() { parts.join(", ") } else { of_part.join(", ") };
            format!("`{name}` is not a key here; there are {known}.")
        }
    }
}

/// Checks that every key has an effect in this scenario.
pub(super) fn check_effect(file: &Table, scenario: &Scenario) -> Result<(), Wrong> {
    for Given { path, part, name } in given(file) {
        let Some(key) = keys::find(&part, &name) else { continue };
        if let Some(why) = idle(key, file, scenario) {
            let sentence = format!("`{path}` has no effect {why}; leave it out.");
            return Err(Wrong { path, sentence });
        }
    }
    Ok(())
}

/// Returns the reason why a key has no effect.
fn idle(key: &Key, file: &Table, scenario: &Scenario) -> Option<String> {
    let kind = scenario.network.kind;
    if !key.networks.contains(&kind) {
        let networks: Vec<&str> = key.networks.iter().map(|kind| kind.name()).collect();
        let networks = networks.join(", ");
        return Some(format!("on kind `{}` (it is a key of {networks})", kind.name()));
    }
    let has = |name: &str| file.get(key.part).and_then(|part| part.get(name)).is_some();
    let pattern = scenario.traffic.pattern;
    let is_trace = pattern == PatternName::Trace;
    match key.when {
        When::Pattern(patterns) if !patterns.contains(&pattern) => {
            let names: Vec<&str> = patterns.iter().map(|pattern| pattern.name()).collect();
            let names = names.join("` or `");
            Some(format!("with pattern `{}` (it is a key of `{names}`)", pattern.name()))
        }
        When::OpenLoop if scenario.traffic.window > 0 => {
            Some("in a closed loop (`traffic.window`)".to_owned())
        }
        When::OpenLoop | When::Generated | When::Steady if is_trace => {
            Some("with pattern `trace`, whose file has the messages".to_owned())
        }
        When::Without(other) if has(other) => Some(format!("beside `{other}`")),
        When::Without("sizes") if is_trace => {
            Some("with pattern `trace`, whose file has the messages".to_owned())
        }
        When::PresetCounts
            if ["link-mb-s", "pass-symbols", "cable-symbols"].into_iter().all(has) =>
        {
            Some("beside `link-mb-s`, `pass-symbols` and `cable-symbols`".to_owned())
        }
        When::Stack if scenario.host.stack == StackName::None => {
            Some("without `host.stack`".to_owned())
        }
        When::Steady if !scenario.faults.at.is_empty() => {
            Some("beside `faults.at`, because such a run has no steady state".to_owned())
        }
        _ => None,
    }
}
