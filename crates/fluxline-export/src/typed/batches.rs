//! Reads one typed table, batch by batch.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;

use super::decoder::{Decoded, TableDecoder};
use super::error::TypedError;
use super::plan::{EVENT_COLUMNS, TablePlan};
use super::rows::{DATA, PacketRows};
use super::selection::{RowFilter, Selection, WantedRows};
use super::sources::Sources;
use super::{TableKind, TypedRun, common};
use fluxline_daq::record::join::JoinedReader;
use fluxline_daq::record::reader::{ReadReport, RecordedBatch};

/// A table of a run, batch by batch. Memory: one recorded batch and about as much decoded.
pub struct TypedBatches {
    reader: JoinedReader,
    sources: Sources,
    filter: RowFilter,
    plan: TablePlan,
    schema: SchemaRef,
    /// Of a table of decoded packets.
    decoder: Option<TableDecoder>,
    first_event: u64,
    misfits: u64,
    ready: VecDeque<RecordBatch>,
    ended: bool,
}

impl TypedBatches {
    pub(super) fn open(
        run: &TypedRun,
        table: &TablePlan,
        selection: &Selection,
    ) -> Result<TypedBatches, TypedError> {
        let plan = selection.plan(table)?;
        let filter = selection.rows(run.known_sources())?;
        let sources = run.known_sources().clone();
        let decoder = match plan.kind {
            TableKind::Events | TableKind::Packets => None,
            TableKind::PacketType | TableKind::Records => {
                Some(TableDecoder::new(plan.clone(), &sources))
            }
        };
        let reader = JoinedReader::open(run.path(), run.join())?;
        let (schema, ready) = (plan.schema(), VecDeque::new());
        let (first_event, misfits, ended) = (0, 0, false);
        Ok(TypedBatches {
            reader,
            sources,
            filter,
            plan,
            schema,
            decoder,
            first_event,
            misfits,
            ready,
            ended,
        })
    }

    /// Returns the schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the findings in the files so far: damaged batches, torn tails, files still written.
    #[must_use]
    pub fn report(&self) -> &ReadReport {
        self.reader.report()
    }

    /// Returns the number of packets so far that do not fit their description; they are only in
    /// the table `packets`.
    #[must_use]
    pub fn misfits(&self) -> u64 {
        self.misfits
    }

    /// Returns the next batch; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, TypedError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            let recorded = match self.filter.ends_before(self.first_event) {
                true => None,
                false => self.reader.next_batch()?,
            };
            let table = self.plan.name.clone();
            let fault = |error: ArrowError| TypedError::Assembly {
                table: table.clone(),
                reason: error.to_string(),
            };
            match recorded {
                Some(batch) => self.take(&batch).map_err(fault)?,
                None => {
                    self.ended = true;
                    if let Some(decoder) = &mut self.decoder {
                        self.ready.extend(decoder.flush().map_err(fault)?);
                    }
                }
            }
        }
    }

    /// Decodes events of a running acquisition instead of those in the files; events are numbered
    /// from 0. Their sources must have been in the run folder when the run was opened.
    ///
    /// # Errors
    /// [`TypedError::Assembly`]: a defect.
    pub fn decode(&mut self, events: &RecordedBatch) -> Result<Vec<RecordBatch>, TypedError> {
        self.first_event = 0;
        let taken = self.take(events).and_then(|()| match &mut self.decoder {
            Some(decoder) => decoder.flush(),
            None => Ok(None),
        });
        let last = taken.map_err(|error| TypedError::Assembly {
            table: self.plan.name.clone(),
            reason: error.to_string(),
        })?;
        self.ready.extend(last);
        Ok(self.ready.drain(..).collect())
    }

    fn take(&mut self, batch: &RecordedBatch) -> Result<(), ArrowError> {
        let wanted = self.filter.of(batch, self.first_event);
        let rows = PacketRows::of(batch, self.first_event);
        self.first_event += batch.record_batch().num_rows() as u64;
        match &mut self.decoder {
            Some(decoder) => {
                let wanted = wanted.as_ref();
                let outcome = decode(&rows, wanted, &self.sources, decoder, &mut self.ready)?;
                self.misfits += outcome;
            }
            None => {
                let made = match self.plan.kind {
                    TableKind::Events => event_rows(batch, &rows)?,
                    _ => packet_rows(&rows, &self.sources)?,
                };
                let made = chosen(&made, &self.schema)?;
                let made = match (wanted, &self.plan.kind) {
                    (None, _) => made,
                    (Some(wanted), TableKind::Events) => {
                        filter_record_batch(&made, &wanted.events)?
                    }
                    (Some(wanted), _) => filter_record_batch(&made, &wanted.packets)?,
                };
                self.ready.extend((made.num_rows() > 0).then_some(made));
            }
        }
        Ok(())
    }
}

impl Iterator for TypedBatches {
    type Item = Result<RecordBatch, TypedError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// Decodes the wanted packets of one table; returns the number of those that do not fit.
fn decode(
    rows: &PacketRows,
    wanted: Option<&WantedRows>,
    sources: &Sources,
    decoder: &mut TableDecoder,
    ready: &mut VecDeque<RecordBatch>,
) -> Result<u64, ArrowError> {
    let columns = rows.columns();
    let mut misfits = 0;
    for row in 0..rows.packets.len() {
        if wanted.is_some_and(|wanted| !wanted.packets.value(row)) {
            continue;
        }
        let packet = columns.packet(row, sources);
        let Some((source, about)) = sources.packet_type(columns.source(row), packet.packet_type)
        else {
            continue;
        };
        if decoder.takes(&source.format, packet.packet_type) {
            let decoded = decoder.push(&packet, about, source.port);
            misfits += u64::from(decoded == Decoded::Misfit);
            if decoder.is_full() {
                ready.extend(decoder.flush()?);
            }
        }
    }
    Ok(misfits)
}

/// Returns the columns of `schema`, in its order.
pub(crate) fn chosen(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns: Result<Vec<ArrayRef>, ArrowError> = schema
        .fields()
        .iter()
        .map(|field| {
            let absent = || ArrowError::InvalidArgumentError(format!("no column {}", field.name()));
            batch.column_by_name(field.name()).cloned().ok_or_else(absent)
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns?, &options)
}

/// Returns the rows of the table `events` of a batch.
pub(crate) fn event_rows(
    batch: &RecordedBatch,
    rows: &PacketRows,
) -> Result<RecordBatch, ArrowError> {
    let recorded = batch.record_batch();
    let numbers = rows.first_event..rows.first_event + recorded.num_rows() as u64;
    let names = recorded.schema();
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("event", Arc::new(UInt64Array::from_iter_values(numbers)))];
    for (field, column) in names.fields().iter().zip(recorded.columns()).take(EVENT_COLUMNS) {
        columns.push((field.name(), Arc::clone(column)));
    }
    let counts = (0..recorded.num_rows()).map(|row| batch.packets_of(row));
    let packets = UInt32Array::from_iter_values(counts.clone().map(|count| count as u32));
    let offsets = rows.packets.column(DATA).as_binary::<i32>().value_offsets();
    let mut first = 0;
    let bytes = counts.map(|count| {
        let start = offsets[first];
        first += count;
        (offsets[first] - start) as u64
    });
    columns.push(("packets", Arc::new(packets)));
    columns.push(("bytes", Arc::new(UInt64Array::from_iter_values(bytes))));
    RecordBatch::try_from_iter(columns)
}

/// Returns the rows of the table `packets` of a batch.
pub(crate) fn packet_rows(rows: &PacketRows, sources: &Sources) -> Result<RecordBatch, ArrowError> {
    let mut columns: Vec<(&str, ArrayRef)> =
        vec![("event", Arc::new(rows.event.clone())), ("event_key", Arc::new(rows.key.clone()))];
    let fields = rows.packets.fields();
    for (field, column) in fields.iter().zip(rows.packets.columns()) {
        columns.push((field.name(), Arc::clone(column)));
        if field.name() == "source" {
            let recorded = rows.columns();
            let indexes = (0..rows.packets.len()).map(|row| sources.index(recorded.source(row)));
            columns.push(("source_name", common::source_names(indexes, sources.names())?));
        }
    }
    RecordBatch::try_from_iter(columns)
}
