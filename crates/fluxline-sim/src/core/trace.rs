//! A trace of a run, as a file for Chrome's tracing page or Perfetto.
//!
//! [`run`] records every entry of any model as a moment on the track of its component; a model can
//! add spans (a link that is busy, a host that computes) and counts of its own. Format: Google,
//! "Trace Event Format" (JSON object with `traceEvents`); times are microseconds, written with all
//! six digits down to a picosecond.

use std::io::{self, Write};

use crate::{Agenda, Entry, Fingerprint, Instant, Model};

/// Writes records as they come, up to a number of them.
///
/// [`Trace::finish`] returns the error of a failed write, so that a model needs no error of its
/// own. Nothing is written after a failure.
#[derive(Debug)]
pub struct Trace<W: Write> {
    out: W,
    records: u64,
    skipped: u64,
    records_max: u64,
    failure: Option<io::Error>,
}

/// The end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Records in the file.
    pub records: u64,
    /// Records that were left out after the limit was reached.
    pub skipped: u64,
}

impl<W: Write> Trace<W> {
    /// Begins a trace of at most `records_max` records; each takes about 80 bytes.
    pub fn new(out: W, records_max: u64) -> Trace<W> {
        let mut trace = Trace { out, records: 0, skipped: 0, records_max, failure: None };
        trace.write(|out| out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":["));
        trace
    }

    /// Gives a component's track a name.
    pub fn name(&mut self, component: u32, name: &str) {
        self.record(|out| {
            write!(out, "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{component},")?;
            write!(out, "\"args\":{{\"name\":{}}}}}", Text(name))
        });
    }

    /// Records an action without a length.
    pub fn moment(&mut self, at: Instant, component: u32, name: &str) {
        self.record(|out| {
            write!(out, "{{\"ph\":\"i\",\"s\":\"t\",\"name\":{},\"pid\":1,", Text(name))?;
            write!(out, "\"tid\":{component},\"ts\":{}}}", Us(at.as_ps()))
        });
    }

    /// Records an action with a length; zero if `to` is before `from`.
    pub fn span(&mut self, from: Instant, to: Instant, component: u32, name: &str) {
        self.record(|out| {
            write!(out, "{{\"ph\":\"X\",\"name\":{},\"pid\":1,\"tid\":{component},", Text(name))?;
            write!(out, "\"ts\":{},\"dur\":{}}}", Us(from.as_ps()), Us(to.since(from).as_ps()))
        });
    }

    /// Records a value that changes, such as the fill of a buffer.
    pub fn count(&mut self, at: Instant, name: &str, value: u64) {
        self.record(|out| {
            write!(out, "{{\"ph\":\"C\",\"name\":{},\"pid\":1,", Text(name))?;
            write!(out, "\"ts\":{},\"args\":{{\"value\":{value}}}}}", Us(at.as_ps()))
        });
    }

    /// Ends the file; without this call it is incomplete.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self) -> io::Result<Written> {
        self.write(|out| out.write_all(b"\n]}\n").and_then(|()| out.flush()));
        let Trace { records, skipped, .. } = self;
        self.failure.map_or(Ok(Written { records, skipped }), Err)
    }

    fn record(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.records == self.records_max {
            self.skipped += 1;
            return;
        }
        let comma: &[u8] = if self.records == 0 { b"\n" } else { b",\n" };
        self.records += 1;
        self.write(|out| out.write_all(comma).and_then(|()| write(out)));
    }

    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(&mut self.out).err();
        }
    }
}

/// Runs a model as [`model::run`](super::model::run) does, and records every entry under the name
/// of its kind.
pub fn run<M: Model, W: Write>(
    model: &mut M,
    agenda: &mut Agenda<M::Entry>,
    fingerprint: &mut Fingerprint,
    until: Instant,
    trace: &mut Trace<W>,
    kind_name: impl Fn(u8) -> &'static str,
) -> u64 {
    let mut count = 0;
    while let Some(entry) = agenda.take(until) {
        let (component, kind) = (entry.component(), entry.kind());
        fingerprint.add(agenda.now(), component, kind);
        trace.moment(agenda.now(), component, kind_name(kind));
        model.handle(entry, agenda);
        count += 1;
    }
    count
}

/// Picoseconds as microseconds, exactly.
struct Us(u64);

impl std::fmt::Display for Us {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A JSON string.
struct Text<'a>(&'a str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(out, "\\{character}")?,
                control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control))?,
                other => write!(out, "{other}")?,
            }
        }
        out.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use serde_json::Value;

    use super::{Trace, Written, run};
    use crate::core::model;
    use crate::load::Settings;
    use crate::load::traffic::{Arrivals, Pattern, Plan, Size};
    use crate::net::router::{NetworkConfig, loaded};
    use crate::{Agenda, Fingerprint, Instant};

    fn at(ps: u64) -> Instant {
        Instant::from_ps(ps)
    }

    #[test]
    fn names_with_quotes_and_control_characters_and_times_of_a_picosecond_come_back() {
        let mut file = Vec::new();
        let mut trace = Trace::new(&mut file, 100);
        let odd = "node \"7\" \\ \u{1}\n\u{fc}";
        trace.name(7, odd);
        trace.span(at(1_000_001), at(3_500_002), 7, "busy");
        trace.moment(at(u64::MAX), 8, "late");
        trace.count(at(5), "fill", 12);
        assert_eq!(trace.finish().expect("memory"), Written { records: 4, skipped: 0 });
        let parsed: Value = serde_json::from_slice(&file).expect("JSON");
        let records = parsed["traceEvents"].as_array().expect("records");
        assert_eq!(records[0]["args"]["name"], odd);
        assert_eq!(
            (records[1]["ts"].as_f64(), records[1]["dur"].as_f64()),
            (Some(1.000_001), Some(2.500_001))
        );
        assert!(String::from_utf8(file.clone()).expect("text").contains("18446744073709.551615"));
        assert_eq!(records[3]["args"]["value"], 12);
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted_and_the_file_stays_whole() {
        let mut file = Vec::new();
        let mut trace = Trace::new(&mut file, 2);
        (0..5).for_each(|ps| trace.moment(at(ps), 0, "x"));
        assert_eq!(trace.finish().expect("memory"), Written { records: 2, skipped: 3 });
        let parsed: Value = serde_json::from_slice(&file).expect("JSON");
        assert_eq!(parsed["traceEvents"].as_array().map(Vec::len), Some(2));
        let mut empty = Vec::new();
        Trace::new(&mut empty, 0).finish().expect("memory");
        assert!(serde_json::from_slice::<Value>(&empty).is_ok());
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut trace = Trace::new(Full, 10);
        trace.moment(at(1), 1, "x");
        assert_eq!(trace.finish().expect_err("full").kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_traced_run_is_the_same_run() {
        let build = |agenda: &mut Agenda<_>| {
            let arrivals = Arrivals::Poisson { bytes_per_s: 1e9 };
            let (pattern, size) = (Pattern::Uniform, Size::Fixed(64));
            let plan = Plan { nodes: 4, pattern, arrivals, size, seed: 1 };
            loaded(NetworkConfig::torus(&[4]), plan, &Settings::default(), agenda).expect("fits")
        };
        let (mut plain, mut agenda) = (Fingerprint::default(), Agenda::default());
        let mut loaded = build(&mut agenda);
        let entries = model::run(&mut loaded, &mut agenda, &mut plain, at(1_000_000));
        let (mut traced, mut agenda) = (Fingerprint::default(), Agenda::default());
        let mut loaded = build(&mut agenda);
        let mut file = Vec::new();
        let mut trace = Trace::new(&mut file, u64::MAX);
        let names = |kind: u8| ["create", "arrive", "choose", "deliver"][usize::from(kind)];
        run(&mut loaded, &mut agenda, &mut traced, at(1_000_000), &mut trace, names);
        assert_eq!(trace.finish().expect("memory").records, entries);
        assert_eq!(plain, traced);
        let parsed: Value = serde_json::from_slice(&file).expect("JSON");
        assert_eq!(parsed["traceEvents"].as_array().map(|all| all.len() as u64), Some(entries));
    }
}
