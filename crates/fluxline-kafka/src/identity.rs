//! The identity of a record: its run, its batch, and its piece of the batch.

use std::fmt;

use serde_json::Value;

/// The identity of a record of events; it is the record's key, as `RUN/BATCH/PIECE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The run's name in the topic.
    pub run: String,
    /// Number of the batch in the run, from 0.
    pub batch: u64,
    /// Number of the piece in the batch, from 0.
    pub piece: u32,
}

impl fmt::Display for RecordId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.run, self.batch, self.piece)
    }
}

impl RecordId {
    /// Returns the identity that a record's key states; `None` for a record of another program.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<RecordId> {
        let mut parts = std::str::from_utf8(key).ok()?.splitn(3, '/');
        let run = parts.next().filter(|run| !run.is_empty())?.to_owned();
        let batch = number(parts.next()?)?;
        let piece = u32::try_from(number(parts.next()?)?).ok()?;
        Some(RecordId { run, batch, piece })
    }
}

/// The start or the stop of a run; its record's key is `RUN/start` or `RUN/stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunMark {
    /// The start.
    Start,
    /// The stop.
    Stop,
}

impl RunMark {
    /// Returns its word in keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RunMark::Start => "start",
            RunMark::Stop => "stop",
        }
    }

    /// Returns the key of the record.
    #[must_use]
    pub fn key(self, run: &str) -> String {
        format!("{run}/{}", self.as_str())
    }

    /// Returns the run and the mark that a record's key states.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<(&str, RunMark)> {
        let (run, word) = std::str::from_utf8(key).ok()?.rsplit_once('/')?;
        let mark = [RunMark::Start, RunMark::Stop].into_iter().find(|of| of.as_str() == word)?;
        (!run.is_empty() && !run.contains('/')).then_some((run, mark))
    }
}

/// Returns the value of decimal digits, as they are written here: no sign, no leading zero.
pub(crate) fn number(text: &str) -> Option<u64> {
    let value: u64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

/// Returns the name of a run in topics by its run.json: the one that its sink had, the one of its
/// cluster where it was gathered, or its host and the time of its beginning.
#[must_use]
pub fn run_id_of(document: &Value) -> Option<String> {
    let of_sink = document["experiment"]["sink"]["kafka"]["run-id"].as_str();
    // Without it, two gathered runs of the same files would have one name, and hide each other.
    let gathered = document["gathered"]["run-id"].as_str().filter(|name| !name.is_empty());
    of_sink.or(gathered).map(str::to_owned).or_else(|| {
        let host = document["host"]["name"].as_str().unwrap_or("host");
        let began = document["began_ns"].as_u64()?;
        Some(run_id(host, began))
    })
}

/// Returns the name of a run of a cluster that began at this time \[ns since 1970\].
pub(crate) fn cluster_run_id(cluster: &str, run: u64, began_ns: u64) -> String {
    format!("{cluster}-{run}-{began_ns}")
}

/// Returns the name of a run that began on `host` at this time \[ns since 1970\].
pub(crate) fn run_id(host: &str, began_ns: u64) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("{}-{began_ns}", host.chars().map(allowed).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_states_the_identity_and_nothing_else_does() {
        let id = RecordId { run: "lab-17".to_owned(), batch: 4_000_000_000_000, piece: 3 };
        assert_eq!(RecordId::parse(id.to_string().as_bytes()), Some(id));
        let foreign: [&[u8]; 10] = [
            b"",
            b"/1/2",
            b"a",
            b"a/1",
            b"a/1/",
            b"a/+1/2",
            b"a/01/2",
            b"a/1/2/3",
            b"a/1/4294967296",
            b"\xff/1/2",
        ];
        for key in foreign {
            assert_eq!(RecordId::parse(key), None, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn marks_of_a_run_are_no_records_of_events() {
        let key = RunMark::Stop.key("lab-17");
        assert_eq!(RunMark::parse(key.as_bytes()), Some(("lab-17", RunMark::Stop)));
        assert_eq!(RecordId::parse(key.as_bytes()), None);
        let foreign: [&[u8]; 5] = [b"", b"start", b"/start", b"a/b/start", b"a/starts"];
        for key in foreign {
            assert_eq!(RunMark::parse(key), None, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn a_run_without_a_sink_has_the_same_name_each_time() {
        let document = serde_json::json!({ "host": { "name": "lab/7" }, "began_ns": 12 });
        assert_eq!(run_id_of(&document).as_deref(), Some("lab-7-12"));
        let sink = serde_json::json!({ "experiment": { "sink": { "kafka": { "run-id": "x" } } } });
        assert_eq!(run_id_of(&sink).as_deref(), Some("x"));
        assert_eq!(run_id_of(&Value::Null), None);
        let gathered =
            serde_json::json!({ "began_ns": 12, "gathered": { "run-id": "lab.beam-7-99" } });
        assert_eq!(run_id_of(&gathered).as_deref(), Some("lab.beam-7-99"));
    }
}
