//! The page that explains every counter, every law and every end of received data.

use std::fmt::Write;

use fluxline_core::counters::{Merge, Row};
use fluxline_core::fabric::WorkCounters;

use super::{
    BuilderCounters, Counted, EdgeCounters, Fate, FilterCounters, HostCounters, InputCounters,
    LAWS, LoopCounters, Needs, OUTCOMES, PausedCounters, RemoteWriteCounters, SinkCounters,
    SourceCounters,
};

/// Returns the page that explains every counter, in Markdown.
#[must_use]
pub fn counters_page() -> String {
    let mut out = String::from(
        "# Counters\n\nEvery counter of a run: what it counts, how the values of several places \
         become one, and\nwhat to do when it is not zero. This page is generated from the rows in \
         the code.\n",
    );
    page_section(
        &mut out,
        "Inputs",
        "One set per socket, capture or emulator.",
        InputCounters::ROWS,
    );
    let about = "One set per input that peers write into memory (RoCEv2).";
    page_section(&mut out, "Remote writes", about, RemoteWriteCounters::ROWS);
    page_section(&mut out, "Sources", "One set per source.", SourceCounters::ROWS);
    page_section(&mut out, "Event builder", "One set per run.", BuilderCounters::ROWS);
    let about = "One set per run with several nodes ([nodes.md](nodes.md)).";
    page_section(&mut out, "Edges", about, EdgeCounters::ROWS);
    let about = "One set per run with a feedback loop ([loop.md](loop.md)).";
    page_section(&mut out, "Loop", about, LoopCounters::ROWS);
    let about = "The part of the counters above that belongs to the time in which the run was \
                 armed or paused.";
    page_section(&mut out, "Armed and paused", about, PausedCounters::ROWS);
    let about = "One set per run with a filter ([filters.md](filters.md)).";
    page_section(&mut out, "Filter", about, FilterCounters::ROWS);
    page_section(&mut out, "Host", "All traffic of the host during the run.", HostCounters::ROWS);
    let about = "One set per run with a sink of events, such as Kafka.";
    page_section(&mut out, "Sink", about, SinkCounters::ROWS);
    let about =
        "One set per node of a link, for programs that use it directly (`Fabric::counters`).";
    page_section(&mut out, "Work of a node", about, WorkCounters::ROWS);
    outcome_section(&mut out);
    law_section(&mut out);
    out
}

fn law_section(out: &mut String) {
    out.push_str(
        "\n## Laws\n\nChecked at the end of every run, and stored in run.json.\n\n\
         | law | counters | checked |\n| --- | --- | --- |\n",
    );
    for law in LAWS {
        let when = match law.needs {
            Needs::Nothing => "always",
            Needs::Truth => "where an emulator says what it sent",
            Needs::RemoteWrites => "where peers write into memory",
            Needs::Filter => "with a filter",
            Needs::Loop => "with a feedback loop",
            Needs::Edges => "with several nodes",
            Needs::BoardCounts => "over the sources whose packets have `counts`",
            Needs::Sink => "where events go to a sink",
        };
        let (left, right) = (law.left.join(" + "), law.right.join(" + "));
        let _ = writeln!(out, "| {} | `{left}` = `{right}` | {when} |", law.name);
    }
}

fn outcome_section(out: &mut String) {
    out.push_str(
        "\n## Where received data is\n\nThe ends that received data can have. The datagrams add up \
         to `received`: those handed over, and\nthose that the kernel dropped at a full socket. An \
         end that is not in the files ends the run with\nstatus 7, unless the experiment accepts \
         it ([exit-status.md](exit-status.md)).\n\n| in reports | counter | in the files |\n\
         | --- | --- | --- |\n",
    );
    for row in OUTCOMES {
        let kept = match (row.fate, row.of) {
            (Fate::Recorded, _) => "yes",
            (Fate::Duplicate, _) => "yes, by another packet",
            (Fate::HandedOn, _) => "no: in those of another node",
            (Fate::InDoubt, _) => "perhaps in those of a node that has gone",
            (Fate::Unwanted, _) => "no: nothing is recorded",
            (Fate::Filtered, _) => "no: the filter rejected their event",
            (Fate::Dropped, Counted::Datagrams) => "no",
            (Fate::Dropped, Counted::Frames) => "no; these frames never became a datagram",
        };
        let _ = writeln!(out, "| {} | `{}` | {kept} |", row.words, row.counter);
    }
}

fn page_section(out: &mut String, title: &str, about: &str, rows: &[Row]) {
    let _ = writeln!(out, "\n## {title}\n\n{about}\n");
    out.push_str("| counter | unit | merge | meaning | when it is not zero |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for row in rows {
        let merge = match row.merge {
            Merge::Sum => "sum",
            Merge::Maximum => "maximum",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {merge} | {} | {} |",
            row.name, row.unit, row.help, row.remedy
        );
    }
}
