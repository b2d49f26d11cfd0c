//! Decodes packets into the columns of one table.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use fluxline_packet::columnar::{ByteStrings, ColumnValues, Columns, Wanted};
use fluxline_packet::layout::{Layout, PacketType};

use super::TableKind;
use super::arrays::{binary, lists, null_buffer, samples, values};
use super::common::CommonColumns;
use super::plan::{ListValue, Origin, PlannedColumn, TablePlan, Wants, wanted};
use super::rows::Packet;
use super::sources::Sources;

/// Bytes of packets after which a batch is complete.
const BATCH_BYTES: usize = 8 << 20;
/// Entries of lists in a batch, far below the 2^31 that Arrow's offsets can number.
const BATCH_ENTRIES: usize = 1 << 28;

/// The result of decoding a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// All its bytes are in the table.
    Whole,
    /// It is in the table, but bytes behind its last record are not.
    Remainder(usize),
    /// It does not fit its description, and is not in the table.
    Misfit,
}

/// A table that is being filled.
pub(crate) struct TableDecoder {
    plan: TablePlan,
    schema: SchemaRef,
    names: ArrayRef,
    header_wanted: Wanted,
    record_wanted: Wanted,
    common: CommonColumns,
    header: Option<Columns>,
    records: Option<Columns>,
    record_ends: Vec<usize>,
    payloads: ByteStrings,
    rows: usize,
    bytes: usize,
    /// Packets that are shorter than their header; what they lack is 0.
    pub short_packets: u64,
}

impl TableDecoder {
    pub fn new(plan: TablePlan, sources: &Sources) -> TableDecoder {
        let formats = sources.formats();
        let variants = formats.get(plan.format.as_str()).cloned().unwrap_or_default();
        let types = variants
            .iter()
            .filter_map(|variant| variant.packet_types().get(usize::from(plan.packet_type)));
        let types: Vec<&PacketType> = types.collect();
        let headers: Vec<&Layout> = types.iter().map(|packet| &packet.header).collect();
        let records = types.iter().filter_map(|packet| packet.records.as_ref());
        let records: Vec<&Layout> = records.map(|records| &records.layout).collect();
        TableDecoder {
            header_wanted: wanted(&plan, &headers, Wants::Header),
            record_wanted: wanted(&plan, &records, Wants::Records),
            schema: plan.schema(),
            plan,
            names: sources.names(),
            common: CommonColumns::new(),
            header: None,
            records: None,
            record_ends: Vec::new(),
            payloads: ByteStrings::default(),
            rows: 0,
            bytes: 0,
            short_packets: 0,
        }
    }

    /// Returns true when a packet of this format and type belongs to the table.
    pub fn takes(&self, format: &str, packet_type: u8) -> bool {
        self.plan.format == format && self.plan.packet_type == packet_type
    }

    /// Appends a packet.
    pub fn push(&mut self, packet: &Packet<'_>, about: &PacketType, port: u16) -> Decoded {
        if packet.bytes.len() < about.header.min_bytes as usize || !self.has_all(packet, about) {
            return Decoded::Misfit;
        }
        let records = match &about.records {
            Some(records) => {
                let wanted = &self.record_wanted;
                Some(self.records.get_or_insert_with(|| Columns::new(&records.layout, wanted)))
            }
            None => None,
        };
        let mut remainder = 0;
        let mut rows = 1;
        if let Some(records) = records {
            let before = records.rows();
            remainder = about.append_records(packet.payload, records);
            self.record_ends.push(records.rows());
            if self.plan.kind == TableKind::Records {
                rows = records.rows() - before;
            }
        }
        if self.plan.kind == TableKind::PacketType {
            self.push_header(packet, about, port);
        }
        self.common.push(&packet.common, rows);
        self.rows += rows;
        self.bytes += packet.bytes.len();
        if remainder > 0 { Decoded::Remainder(remainder) } else { Decoded::Whole }
    }

    /// Returns true unless the payload has another number of records than every packet should.
    fn has_all(&self, packet: &Packet<'_>, about: &PacketType) -> bool {
        let stride = about.records.as_ref().and_then(|records| records.bytes.as_ref()?.constant());
        match (self.plan.records_per_packet, stride) {
            (Some(count), Some(stride)) => packet.payload.len() / (stride as usize).max(1) == count,
            _ => true,
        }
    }

    fn push_header(&mut self, packet: &Packet<'_>, about: &PacketType, port: u16) {
        let wanted = &self.header_wanted;
        let header = self.header.get_or_insert_with(|| Columns::new(&about.header, wanted));
        let short_before = header.incomplete_rows();
        header.push(&about.header, packet.bytes, port);
        self.short_packets += (header.incomplete_rows() - short_before) as u64;
        if about.records.is_none() {
            self.payloads.bytes.extend_from_slice(packet.payload);
            self.payloads.ends.push(self.payloads.bytes.len());
        }
    }

    /// Returns true when it is time for [`TableDecoder::flush`].
    pub fn is_full(&self) -> bool {
        let records = self.records.as_ref();
        let entries = records.map_or(0, |records| {
            let lists = records.lists.iter().map(|list| list.entries.rows());
            lists.max().unwrap_or(0).max(records.rows())
        });
        self.bytes >= BATCH_BYTES || entries >= BATCH_ENTRIES
    }

    /// Returns the rows so far as a batch; `None` when there are none.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        let mut parts = Parts {
            header: self.header.take(),
            records: self.records.take(),
            record_ends: std::mem::take(&mut self.record_ends),
            payloads: std::mem::take(&mut self.payloads),
            long: self.plan.kind == TableKind::Records,
        };
        let mut common = std::mem::replace(&mut self.common, CommonColumns::new());
        let mut arrays = Vec::with_capacity(self.plan.columns.len());
        for column in &self.plan.columns {
            arrays.push(match &column.origin {
                Origin::Common(which) => common.take(*which, &self.names)?,
                _ => parts.array(column)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map(Some)
    }
}

/// The decoded columns of a batch.
struct Parts {
    header: Option<Columns>,
    records: Option<Columns>,
    record_ends: Vec<usize>,
    payloads: ByteStrings,
    /// A row is a record, not a packet.
    long: bool,
}

impl Parts {
    fn array(&mut self, column: &PlannedColumn) -> Result<ArrayRef, ArrowError> {
        let field = &column.field;
        match &column.origin {
            Origin::Header(id) => {
                values(value(&mut self.header, *id)?, field.data_type(), field.is_nullable())
            }
            Origin::HeaderList(of) => list(&mut self.header, of, column),
            Origin::Record(id) => {
                let entry = if self.long { field.clone() } else { entry_of(column)? };
                let (kind, nullable) = (entry.data_type(), entry.is_nullable());
                let array = values(value(&mut self.records, *id)?, kind, nullable)?;
                self.in_packets(array, column)
            }
            Origin::RecordSamples(of) => {
                let array = samples(value(&mut self.records, of.value)?)?;
                let ends = self.record_ends.iter().map(|end| end * of.per_record);
                lists(array, &ends.collect::<Vec<_>>(), field.data_type(), None)
            }
            Origin::RecordList(of) if self.long => list(&mut self.records, of, column),
            Origin::RecordList(of) => {
                let entry = entry_of(column)?;
                let inner = PlannedColumn { field: entry, origin: column.origin.clone() };
                let array = list(&mut self.records, of, &inner)?;
                self.in_packets(array, column)
            }
            Origin::Payload => {
                Ok(std::sync::Arc::new(binary(std::mem::take(&mut self.payloads), None)?))
            }
            Origin::Common(_) | Origin::Recorded => Err(missing("a common column")),
        }
    }

    fn in_packets(&self, array: ArrayRef, column: &PlannedColumn) -> Result<ArrayRef, ArrowError> {
        match self.long {
            true => Ok(array),
            false => lists(array, &self.record_ends, column.field.data_type(), None),
        }
    }
}

/// Returns the field of a list column's entries.
fn entry_of(column: &PlannedColumn) -> Result<FieldRef, ArrowError> {
    match column.field.data_type() {
        DataType::List(entry) | DataType::FixedSizeList(entry, _) => Ok(entry.clone()),
        _ => Err(missing("a list")),
    }
}

fn value(columns: &mut Option<Columns>, id: usize) -> Result<ColumnValues, ArrowError> {
    let columns = columns.as_mut().ok_or_else(|| missing("a layout"))?;
    columns.values.get_mut(id).and_then(Option::take).ok_or_else(|| missing("a value"))
}

fn list(
    columns: &mut Option<Columns>,
    of: &ListValue,
    column: &PlannedColumn,
) -> Result<ArrayRef, ArrowError> {
    let columns = columns.as_mut().ok_or_else(|| missing("a layout"))?;
    let list = columns.lists.get_mut(of.list).ok_or_else(|| missing("a list"))?;
    let entries = list.entries.values.get_mut(of.value).and_then(Option::take);
    let entries = entries.ok_or_else(|| missing("a list's value"))?;
    let entry = entry_of(column)?;
    let array = values(entries, entry.data_type(), entry.is_nullable())?;
    let nulls = null_buffer(&list.presence).filter(|_| column.field.is_nullable());
    lists(array, &list.ends, column.field.data_type(), nulls)
}

fn missing(what: &str) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("{what} is missing in a decoded batch"))
}
