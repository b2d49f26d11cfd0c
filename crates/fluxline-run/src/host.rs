//! This host, for run.json: name, processor, memory in use.

use serde_json::{Value, json};

/// Returns name, kernel, processor and number of cores.
pub(crate) fn describe() -> Value {
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

/// Returns the discipline of the clock that stamps packets; null where the kernel does not report
/// it.
pub(crate) fn clock() -> Value {
    match fluxline::host::clock_state() {
        Some(state) => json!({
            "synchronized": state.is_synchronized,
            "error_us_max": state.error_us_max,
            "error_us": state.error_us,
        }),
        None => Value::Null,
    }
}

/// Returns the memory of this process \[byte\]; 0 where the kernel does not report it.
pub(crate) fn resident() -> u64 {
    status_bytes("VmRSS:")
}

/// Returns the largest memory of this process since it started \[byte\].
pub(crate) fn resident_most() -> u64 {
    status_bytes("VmHWM:")
}

/// Returns the memory of this computer \[byte\]; `None` where the kernel does not report it.
pub(crate) fn memory() -> Option<u64> {
    bytes_in("/proc/meminfo", "MemTotal:")
}

fn status_bytes(name: &str) -> u64 {
    bytes_in("/proc/self/status", name).unwrap_or(0)
}

/// Source: Linux man-pages proc_pid_status(5), proc_meminfo(5): sizes in KiB.
fn bytes_in(file: &str, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(file).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Some(kibibytes? * 1024)
}
