//! The query of a request: `?source=3&field=adc`.

use axum::extract::Query;
use axum::http::StatusCode;

use crate::answer::Problem;
use crate::runs::Zoom;
use crate::signal::{Choice, Indices};

/// Most points of a curve.
const POINTS_MAX: u64 = 4_000;
/// Longest name of a field \[byte\].
const NAME_BYTES_MAX: usize = 256;

/// The names of all parameters.
pub const PARAMETERS: [&str; 11] =
    ["from", "to", "points", "source", "field", "x", "y", "count", "only", "number", "packet"];

/// The pairs of a query, in order.
pub type Pairs = Query<Vec<(String, String)>>;

/// Returns a text of the query; empty where it is absent.
pub fn text<'a>(pairs: &'a Pairs, name: &str) -> &'a str {
    debug_assert!(PARAMETERS.contains(&name), "random tests would not reach `{name}`");
    pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// Returns a number of the query.
pub fn number(pairs: &Pairs, name: &str, usual: u64) -> Result<u64, Problem> {
    debug_assert!(PARAMETERS.contains(&name), "random tests would not reach `{name}`");
    let Some((_, text)) = pairs.iter().find(|(key, _)| key == name) else { return Ok(usual) };
    text.parse().map_err(|_| {
        let sentence = format!("`{name}` is not a number; write for example ?{name}=100.");
        Problem::new(StatusCode::BAD_REQUEST, sentence)
    })
}

/// Returns the number of the wanted source; one that no run has where it is too large.
pub fn source_of(pairs: &Pairs) -> Result<u32, Problem> {
    Ok(u32::try_from(number(pairs, "source", 0)?).unwrap_or(u32::MAX))
}

/// Returns the wanted number of points of a curve.
pub fn points(pairs: &Pairs) -> Result<usize, Problem> {
    Ok(number(pairs, "points", 1000)?.clamp(1, POINTS_MAX) as usize)
}

/// Returns the wanted part of a trace.
pub fn zoom_of(pairs: &Pairs) -> Result<Zoom, Problem> {
    let (from, to) = (number(pairs, "from", 0)?, number(pairs, "to", u64::MAX)?);
    Ok(Zoom { from, to: to.max(from), points: points(pairs)? })
}

/// Returns the wanted fields of a source.
pub fn choice_of(pairs: &Pairs) -> Result<Choice, Problem> {
    let name = |of: &str| match text(pairs, of) {
        long if long.len() > NAME_BYTES_MAX => {
            let sentence = format!("`{of}` is longer than the name of a field.");
            Err(Problem::new(StatusCode::BAD_REQUEST, sentence))
        }
        name => Ok(name.to_owned()),
    };
    let (field, x, y) = (name("field")?, name("x")?, name("y")?);
    let indices = (!x.is_empty() && !y.is_empty()).then_some(Indices { x, y });
    if field.is_empty() && indices.is_none() {
        let sentence = "name a field: ?field=NAME, or ?x=NAME&y=NAME for an image.";
        return Err(Problem::new(StatusCode::BAD_REQUEST, sentence));
    }
    Ok(Choice { source: source_of(pairs)?, field, indices })
}
