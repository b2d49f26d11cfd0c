//! What this host is, for run.json: a number without its machine says little.

use serde_json::{Value, json};

/// Name, kernel, processor and cores.
pub fn describe() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_string());
    json!({
        "name": read("/proc/sys/kernel/hostname"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "processor": processor,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
    })
}
