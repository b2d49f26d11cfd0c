//! Groups of recorded batches, encoded for the files of an export.
//!
//! A group is the unit of parallel work and of memory. Its encoding depends on nothing else, so
//! that the files are the same however many groups are encoded at once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;

use super::csv;
use super::parquet::ParquetEncoder;
use super::{ExportConfig, ExportError, ExportFormat, RawBytes};
use crate::typed::batches::{chosen, event_rows, packet_rows};
use crate::typed::decoder::{Decoded, TableDecoder};
use crate::typed::plan::TablePlan;
use crate::typed::rows::PacketRows;
use crate::typed::selection::RowFilter;
use crate::typed::sources::Sources;
use crate::typed::{TableKind, TypedError};
use fluxline_daq::record::reader::RecordedBatch;

/// Recorded batches that are encoded together.
#[derive(Debug, Default)]
pub struct Group {
    pub(super) batches: Vec<NumberedBatch>,
    pub(super) bytes: u64,
    pub(super) part: u64,
}

/// A batch with the number of its first event in the run.
#[derive(Debug)]
pub(super) struct NumberedBatch {
    pub batch: RecordedBatch,
    pub first_event: u64,
}

/// Rows of a table in the form of its file.
pub(super) enum Encoded {
    Parquet(Vec<::parquet::arrow::arrow_writer::ArrowColumnChunk>),
    Text(Vec<u8>),
    Batches(Vec<RecordBatch>),
}

/// The rows of one table in a group.
pub(super) struct EncodedTable {
    pub rows: u64,
    pub encoded: Encoded,
}

/// A group in the form of the export's files.
pub struct EncodedGroup {
    pub(super) part: u64,
    /// One per table; `None` where the group has no rows of it.
    pub(super) tables: Vec<Option<EncodedTable>>,
    pub(super) counts: DecodeCounts,
}

/// Packets that were not decoded as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct DecodeCounts {
    /// Packets of sources or types without a description.
    pub undescribed_packets: u64,
    /// Packets that do not fit their description.
    pub misfits: u64,
    /// Packets that lack fields of their header.
    pub short_packets: u64,
    /// Bytes behind the last whole record of a payload.
    pub remainder_bytes: u64,
}

impl DecodeCounts {
    pub fn add(&mut self, other: &DecodeCounts) {
        self.undescribed_packets += other.undescribed_packets;
        self.misfits += other.misfits;
        self.short_packets += other.short_packets;
        self.remainder_bytes += other.remainder_bytes;
    }
}

/// Encodes groups. Several threads may share one.
pub struct Encoder {
    format: ExportFormat,
    raw: RawBytes,
    sources: Sources,
    filter: RowFilter,
    tables: Vec<EncoderTable>,
}

struct EncoderTable {
    plan: Arc<TablePlan>,
    parquet: Option<ParquetEncoder>,
}

impl Encoder {
    pub(super) fn new(
        config: &ExportConfig,
        plans: &[Arc<TablePlan>],
        sources: &Sources,
        filter: &RowFilter,
    ) -> Result<Encoder, ExportError> {
        let mut tables = Vec::new();
        for plan in plans {
            let parquet = match config.format {
                ExportFormat::Parquet => {
                    Some(ParquetEncoder::new(plan).map_err(|error| fault(plan, error))?)
                }
                _ => None,
            };
            tables.push(EncoderTable { plan: Arc::clone(plan), parquet });
        }
        let (sources, filter) = (sources.clone(), filter.clone());
        Ok(Encoder { format: config.format, raw: config.raw, sources, filter, tables })
    }

    /// Encodes a group.
    ///
    /// Errors: a table that its format rejects.
    pub fn encode(&self, group: Group) -> Result<EncodedGroup, ExportError> {
        let (rows, counts) = self.decode(&group)?;
        let mut tables = Vec::new();
        for (table, batches) in self.tables.iter().zip(rows) {
            let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            let encoded = match count {
                0 => None,
                rows => Some(EncodedTable { rows, encoded: self.encode_table(table, batches)? }),
            };
            tables.push(encoded);
        }
        Ok(EncodedGroup { part: group.part, tables, counts })
    }

    fn encode_table(
        &self,
        table: &EncoderTable,
        batches: Vec<RecordBatch>,
    ) -> Result<Encoded, ExportError> {
        Ok(match (self.format, &table.parquet) {
            (ExportFormat::Parquet, Some(encoder)) => {
                Encoded::Parquet(encoder.encode(&batches).map_err(|e| fault(&table.plan, e))?)
            }
            (ExportFormat::Csv, _) => {
                let mut text = Vec::new();
                for batch in &batches {
                    csv::rows(&mut text, batch).map_err(|error| fault(&table.plan, error))?;
                }
                Encoded::Text(text)
            }
            _ => Encoded::Batches(batches),
        })
    }

    /// Returns the batches of each table.
    fn decode(&self, group: &Group) -> Result<(Vec<Vec<RecordBatch>>, DecodeCounts), ExportError> {
        let mut counts = DecodeCounts::default();
        let mut rows: Vec<Vec<RecordBatch>> = self.tables.iter().map(|_| Vec::new()).collect();
        let mut decoders: Vec<Option<TableDecoder>> = self
            .tables
            .iter()
            .map(|table| match table.plan.kind {
                TableKind::Events | TableKind::Packets => None,
                TableKind::PacketType | TableKind::Records => {
                    Some(TableDecoder::new(table.plan.as_ref().clone(), &self.sources))
                }
            })
            .collect();
        for NumberedBatch { batch, first_event } in &group.batches {
            let wanted = self.filter.of(batch, *first_event);
            let packets = PacketRows::of(batch, *first_event);
            let flags = wanted.as_ref().map(|wanted| &wanted.packets);
            let kept =
                self.decode_packets(&packets, flags, &mut decoders, &mut rows, &mut counts)?;
            for (table, rows) in self.tables.iter().zip(&mut rows) {
                let plan = &table.plan;
                let made = match plan.kind {
                    TableKind::Events => event_rows(batch, &packets),
                    TableKind::Packets => packet_rows(&packets, &self.sources)
                        .and_then(|made| self.without_decoded(&made, &kept)),
                    TableKind::PacketType | TableKind::Records => continue,
                };
                let flags = wanted.as_ref().map(|wanted| match plan.kind {
                    TableKind::Events => &wanted.events,
                    _ => &wanted.packets,
                });
                let made = made.and_then(|made| chosen(&made, &plan.schema()));
                let made = made.and_then(|made| match flags {
                    Some(flags) => filter_record_batch(&made, flags),
                    None => Ok(made),
                });
                rows.push(made.map_err(|error| fault(plan, error))?);
            }
        }
        for ((table, rows), decoder) in self.tables.iter().zip(&mut rows).zip(decoders) {
            match decoder {
                Some(mut decoder) => {
                    counts.short_packets += decoder.short_packets;
                    rows.extend(decoder.flush().map_err(|error| fault(&table.plan, error))?);
                }
                // Recorded batches may be small; one row per packet is little, so a copy is too.
                None => {
                    let schema = table.plan.schema();
                    let all = concat_batches(&schema, rows.iter());
                    *rows = vec![all.map_err(|error| fault(&table.plan, error))?];
                }
            }
        }
        Ok((rows, counts))
    }

    /// Decodes a batch's packets; returns true for each whose bytes the table `packets` keeps.
    fn decode_packets(
        &self,
        packets: &PacketRows,
        wanted: Option<&arrow_array::BooleanArray>,
        decoders: &mut [Option<TableDecoder>],
        rows: &mut [Vec<RecordBatch>],
        counts: &mut DecodeCounts,
    ) -> Result<Vec<bool>, ExportError> {
        let columns = packets.columns();
        let mut kept = Vec::with_capacity(arrow_array::Array::len(&packets.packets));
        for row in 0..kept.capacity() {
            kept.push(true);
            if wanted.is_some_and(|wanted| !wanted.value(row)) {
                continue;
            }
            let packet = columns.packet(row, &self.sources);
            let described = self.sources.packet_type(columns.source(row), packet.packet_type);
            let Some((source, about)) = described else {
                counts.undescribed_packets += 1;
                continue;
            };
            let (mut whole, mut misfit, mut remainder) = (false, false, 0);
            for (index, decoder) in decoders.iter_mut().enumerate() {
                let Some(decoder) = decoder else { continue };
                if !decoder.takes(&source.format, packet.packet_type) {
                    continue;
                }
                match decoder.push(&packet, about, source.port) {
                    Decoded::Whole => whole = true,
                    Decoded::Remainder(bytes) => remainder = bytes,
                    Decoded::Misfit => misfit = true,
                }
                if decoder.is_full() {
                    let batch = decoder.flush();
                    let batch = batch.map_err(|error| fault(&self.tables[index].plan, error))?;
                    rows[index].extend(batch);
                }
            }
            counts.misfits += u64::from(misfit);
            counts.remainder_bytes += remainder as u64;
            kept[row] = misfit || remainder > 0 || !whole;
        }
        Ok(kept)
    }

    /// Leaves out the bytes of packets that other tables hold.
    fn without_decoded(
        &self,
        made: &RecordBatch,
        kept: &[bool],
    ) -> Result<RecordBatch, ArrowError> {
        if self.raw == RawBytes::All {
            return Ok(made.clone());
        }
        let schema = made.schema();
        let (at, _) = schema.column_with_name("data").ok_or_else(|| {
            ArrowError::InvalidArgumentError("packets without the column data".into())
        })?;
        let data = made.column(at).as_binary::<i32>();
        let left = kept.iter().zip(data).map(|(kept, bytes)| bytes.filter(|_| *kept));
        let mut columns = made.columns().to_vec();
        columns[at] = Arc::new(left.collect::<arrow_array::BinaryArray>()) as ArrayRef;
        let names = schema.fields().iter().map(|field| field.name().as_str());
        RecordBatch::try_from_iter(names.zip(columns))
    }
}

fn fault(plan: &TablePlan, error: impl std::fmt::Display) -> ExportError {
    ExportError::Read(TypedError::Assembly { table: plan.name.clone(), reason: error.to_string() })
}
