//! The feedback loop of a run in words, from its block in run.json.

use serde_json::Value;

use crate::sample::short;

/// Returns the lines on the block `loop` of a run.json: the outcome of all events, and the delays;
/// empty without one.
#[must_use]
pub fn lines(of: &Value) -> Vec<String> {
    let Some(counts) = of["counts"].as_object() else { return Vec::new() };
    let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    let mut lines = Vec::new();
    let closed = of["closed"].as_u64().unwrap_or(0);
    if of["builders"].as_array().is_some_and(|builders| !builders.is_empty()) {
        lines.push(format!(
            "loop: of {closed} closed events, {} decided, {} declined, {} skipped, {} undecided",
            count("decided"),
            count("declined"),
            count("skipped"),
            count("undecided"),
        ));
    }
    if of["delays"].is_object() {
        let deadline = of["deadline_us"].as_f64();
        let late = deadline.map_or_else(String::new, |us| {
            format!(", {} after the deadline of {us} us", count("late"))
        });
        let lost = count("lost") + count("not_written");
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        lines.push(format!("writes: {} came to the actuator{late}{lost}", count("arrived")));
    }
    let ns = |part: &str, name: &str| of["delays"][part][name].as_u64().map(short);
    let at = |name: &str| ns("sampled_to_written", name);
    if let (Some(p50), Some(p99), Some(p9999), Some(max)) =
        (at("p50_ns"), at("p99_ns"), at("p9999_ns"), at("max_ns"))
    {
        lines.push(format!(
            "delay from sampling ({}) to the write, by {}: {p50} (median), {p99} (99 %), {p9999} \
             (99.99 %), {max} at most",
            of["sampled"].as_str().unwrap_or("unknown"),
            of["clock"].as_str().unwrap_or("an unknown clock"),
        ));
    }
    lines
}
