//! The choice of columns and rows.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow_array::Array;
use arrow_array::BooleanArray;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use fluxline_core::Moment;

use super::error::TypedError;
use super::plan::TablePlan;
use super::sources::Sources;
use fluxline_daq::record::reader::RecordedBatch;
use fluxline_daq::record::schema::event_column;

/// The choice of columns and rows of a table; the default chooses all.
///
/// Events and times choose whole events, so that all tables of a run stay consistent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of columns; `None` for all. The order is always the table's.
    pub columns: Option<Vec<String>>,
    /// Names or numbers of sources; `None` for all. Chooses packets; events stay.
    pub sources: Option<Vec<String>>,
    /// Numbers of events: rows of the table `events`.
    pub events: Option<Range<u64>>,
    /// Events whose first packet arrived at this time or later.
    pub since: Option<Moment>,
    /// Events whose first packet arrived before this time.
    pub until: Option<Moment>,
}

/// The rows of a selection, with the sources by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowFilter {
    sources: Option<BTreeSet<u32>>,
    events: Option<Range<u64>>,
    since_ns: Option<i64>,
    until_ns: Option<i64>,
}

/// The rows of a batch that are wanted.
pub(crate) struct WantedRows {
    /// A flag per event.
    pub events: BooleanArray,
    /// A flag per packet.
    pub packets: BooleanArray,
}

impl Selection {
    /// Returns the columns of a table that are wanted.
    ///
    /// Errors: a name that the table does not have.
    pub(super) fn plan(&self, plan: &TablePlan) -> Result<TablePlan, TypedError> {
        let Some(columns) = &self.columns else { return Ok(plan.clone()) };
        let known = || plan.columns.iter().map(|column| column.field.name().as_str());
        match columns.iter().find(|name| !known().any(|known| known == name.as_str())) {
            Some(unknown) => Err(TypedError::no_column(&plan.name, unknown, known())),
            None => Ok(plan.with_columns(|name| columns.iter().any(|wanted| wanted == name))),
        }
    }

    /// Returns the choice of rows.
    ///
    /// Errors: an unknown source, or a range without any event or time.
    pub(crate) fn rows(&self, known: &Sources) -> Result<RowFilter, TypedError> {
        if let Some(events) = self.events.as_ref().filter(|events| events.is_empty()) {
            let Range { start, end } = events;
            return Err(TypedError::Selection(format!(
                "events {start}..{end} are none; the end must be above the start"
            )));
        }
        let ns = |moment: Moment| i64::try_from(moment.as_ns()).unwrap_or(i64::MAX);
        let (since_ns, until_ns) = (self.since.map(ns), self.until.map(ns));
        if since_ns.zip(until_ns).is_some_and(|(since, until)| since >= until) {
            let reason = "the times are none; the end must be after the start".to_owned();
            return Err(TypedError::Selection(reason));
        }
        let sources = match &self.sources {
            None => None,
            Some(names) => Some(numbers(names, known)?),
        };
        Ok(RowFilter { sources, events: self.events.clone(), since_ns, until_ns })
    }
}

/// Returns the numbers of sources; several may share a name.
fn numbers(names: &[String], known: &Sources) -> Result<BTreeSet<u32>, TypedError> {
    let mut numbers = BTreeSet::new();
    for name in names {
        let is_named = |number: u32, label: &str| *name == label || *name == number.to_string();
        let found = known.lines().iter().filter(|line| is_named(line.source, &line.name));
        let before = numbers.len();
        let found: Vec<u32> = found.map(|line| line.source).collect();
        numbers.extend(&found);
        if found.is_empty() && before == numbers.len() {
            let lines = known.lines().iter();
            return Err(TypedError::no_source(name, lines.map(|line| line.name.as_str())));
        }
    }
    Ok(numbers)
}

impl RowFilter {
    /// Returns true when no later event can be wanted.
    pub fn ends_before(&self, event: u64) -> bool {
        self.events.as_ref().is_some_and(|events| event >= events.end)
    }

    /// Returns the wanted rows of a batch; `None` when all are.
    pub fn of(&self, batch: &RecordedBatch, first_event: u64) -> Option<WantedRows> {
        let RowFilter { sources, events, since_ns, until_ns } = self;
        if sources.is_none() && events.is_none() && since_ns.is_none() && until_ns.is_none() {
            return None;
        }
        let first_time = batch.record_batch().column(event_column::TIMES[0]);
        let first_time = first_time.as_primitive::<TimestampNanosecondType>();
        let wanted = |row: usize| {
            let time = first_time.value(row);
            events.as_ref().is_none_or(|events| events.contains(&(first_event + row as u64)))
                && since_ns.is_none_or(|since| time >= since)
                && until_ns.is_none_or(|until| time < until)
        };
        let rows = batch.record_batch().num_rows();
        let events: Vec<bool> = (0..rows).map(wanted).collect();
        let packets = batch.packets();
        let source = packets.column(0).as_primitive::<arrow_array::types::UInt32Type>();
        let mut flags = Vec::with_capacity(packets.len());
        for (row, event) in events.iter().enumerate() {
            for _ in 0..batch.packets_of(row) {
                let number = source.value(flags.len());
                let chosen = sources.as_ref().is_none_or(|sources| sources.contains(&number));
                flags.push(*event && chosen);
            }
        }
        Some(WantedRows { events: events.into(), packets: flags.into() })
    }
}
