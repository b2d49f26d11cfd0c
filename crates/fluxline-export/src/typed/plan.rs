//! The columns of each table, and their origin in packets.
//!
//! A field keeps its name. A common column whose name a field has gets `packet_` before it; a
//! record's field whose name a header field has gets the record's name before it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use fluxline_packet::Description;
use fluxline_packet::columnar::Wanted;
use fluxline_packet::decode::Column;
use fluxline_packet::expression::Expr;
use fluxline_packet::layout::{FieldOffset, Layout, List, PacketType, Records};

use super::TableKind;
use super::arrays::value_type;
use super::common::{Common, source_name_type};
use super::metadata::{KEY_ALLOWED, KEY_COMMON, KEY_EPOCH, KEY_HELP, KEY_ROLE, KEY_UNIT};
use super::metadata::{Label, Part, allowed, epoch, roles};
use super::names::Names;
use super::sources::Sources;
use fluxline_daq::record::folder::RunFolder;
use fluxline_daq::record::schema::{KEY_RUN, event_fields, packet_fields};

/// Columns of an event before its packets.
pub(crate) const EVENT_COLUMNS: usize = 8;

/// The origin of a column of decoded packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Common(Common),
    Header(usize),
    HeaderList(ListValue),
    Record(usize),
    RecordList(ListValue),
    /// Packed samples that fill all records: one array of them in the packet's row.
    RecordSamples(RecordSamples),
    /// The payload's bytes, where the description has no records.
    Payload,
    /// A column of the tables `events` and `packets`.
    Recorded,
}

/// Packed samples that are all that records have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordSamples {
    /// Number of the value in the record's layout.
    pub value: usize,
    /// Samples of a record.
    pub per_record: usize,
}

/// A value of the entries of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListValue {
    /// Number of the list among those of its layout.
    pub list: usize,
    /// Number of the value in the entries' layout.
    pub value: usize,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct PlannedColumn {
    pub field: FieldRef,
    pub origin: Origin,
}

/// A table and its columns.
#[derive(Clone, Debug)]
pub(crate) struct TablePlan {
    pub name: String,
    pub kind: TableKind,
    pub columns: Vec<PlannedColumn>,
    /// The description's name; empty for `events` and `packets`.
    pub format: String,
    pub packet_type: u8,
    /// The number of records in every packet, where the description fixes it.
    pub records_per_packet: Option<usize>,
    metadata: HashMap<String, String>,
}

impl TablePlan {
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<FieldRef> =
            self.columns.iter().map(|column| Arc::clone(&column.field)).collect();
        Arc::new(Schema::new_with_metadata(fields, self.metadata.clone()))
    }

    /// Returns the table with only the columns of `kept`, in the order of the table.
    pub fn with_columns(&self, kept: impl Fn(&str) -> bool) -> TablePlan {
        let mut plan = self.clone();
        plan.columns.retain(|column| kept(column.field.name()));
        plan
    }
}

/// Returns the tables of a run: `events`, `packets`, then those of each packet type.
pub(super) fn tables(folder: &RunFolder, sources: &Sources) -> Vec<TablePlan> {
    let run = run_metadata(folder, sources);
    let mut plans = vec![events(&run), packets(&run)];
    let mut names = Names::default();
    for (format, variants) in sources.formats() {
        let Some(first) = variants.first() else { continue };
        for number in 0..first.packet_types().len() {
            let planner = Planner::new(format, &variants, number, &run);
            let mut own = vec![planner.packet_table()];
            own.extend(planner.record_table());
            for mut plan in own {
                plan.name = names.take([plan.name]);
                plans.push(plan);
            }
        }
    }
    plans
}

fn run_metadata(folder: &RunFolder, sources: &Sources) -> HashMap<String, String> {
    let names: serde_json::Map<String, serde_json::Value> = sources
        .lines()
        .iter()
        .map(|line| (line.source.to_string(), line.name.clone().into()))
        .collect();
    HashMap::from([
        (KEY_RUN.to_owned(), folder.id()),
        ("fluxline.sources".to_owned(), serde_json::Value::Object(names).to_string()),
    ])
}

fn recorded(name: &str, fields: Vec<Field>, run: &HashMap<String, String>) -> TablePlan {
    let column = |field| PlannedColumn { field: Arc::new(field), origin: Origin::Recorded };
    let kind = if name == EVENTS { TableKind::Events } else { TableKind::Packets };
    let mut metadata = run.clone();
    metadata.insert("fluxline.table".to_owned(), name.to_owned());
    TablePlan {
        name: name.to_owned(),
        kind,
        columns: fields.into_iter().map(column).collect(),
        format: String::new(),
        packet_type: 0,
        records_per_packet: None,
        metadata,
    }
}

/// The name of the table of events.
pub(crate) const EVENTS: &str = "events";
/// The name of the table of packets.
pub(crate) const PACKETS: &str = "packets";

fn events(run: &HashMap<String, String>) -> TablePlan {
    let recorded_fields = event_fields();
    let mut fields = vec![Field::new("event", DataType::UInt64, false)];
    fields.extend(recorded_fields.iter().take(EVENT_COLUMNS).map(|field| field.as_ref().clone()));
    fields.push(Field::new("packets", DataType::UInt32, false));
    fields.push(Field::new("bytes", DataType::UInt64, false).with_metadata(unit("byte")));
    recorded(EVENTS, fields, run)
}

fn packets(run: &HashMap<String, String>) -> TablePlan {
    let mut fields = vec![
        Field::new("event", DataType::UInt64, false),
        Field::new("event_key", DataType::UInt64, true),
    ];
    for field in &packet_fields() {
        let field = field.as_ref().clone();
        let named = field.name() == "source";
        fields.push(match field.name().as_str() {
            "sensor_time_ns" => field.with_metadata(unit("ns")),
            "payload_start" | "payload_bytes" => field.with_metadata(unit("byte")),
            // An export leaves out the bytes that other tables hold.
            "data" => field.with_nullable(true),
            _ => field,
        });
        if named {
            fields.push(Field::new("source_name", source_name_type(), true));
        }
    }
    recorded(PACKETS, fields, run)
}

fn unit(unit: &str) -> HashMap<String, String> {
    HashMap::from([(KEY_UNIT.to_owned(), unit.to_owned())])
}

/// Makes the tables of one packet type, which several parametrized descriptions share.
struct Planner<'a> {
    format: &'a str,
    description: &'a Description,
    variants: Vec<&'a PacketType>,
    number: usize,
    run: &'a HashMap<String, String>,
}

impl<'a> Planner<'a> {
    fn new(
        format: &'a str,
        variants: &[&'a Arc<Description>],
        number: usize,
        run: &'a HashMap<String, String>,
    ) -> Planner<'a> {
        let types = variants.iter().filter_map(|variant| variant.packet_types().get(number));
        let types = types.collect();
        Planner { format, description: variants[0], variants: types, number, run }
    }

    fn base(&self) -> &'a PacketType {
        self.variants[0]
    }

    fn stem(&self) -> String {
        format!("{}-{}", self.format, self.base().name)
    }

    fn records(&self) -> Option<&'a Records> {
        self.base().records.as_ref()
    }

    fn packet_table(&self) -> TablePlan {
        let packet = self.base();
        let mut names = Names::default();
        let mut columns = self.header_columns(&mut names);
        let per_packet = self.records_per_packet();
        match self.records() {
            Some(records) => match self.sample_column(records, &mut names) {
                Some(samples) => columns.push(samples),
                None => {
                    let own = self.record_columns(records, &mut names);
                    columns.extend(own.into_iter().map(|column| in_list(column, per_packet)));
                }
            },
            None => {
                let label = Label::new(
                    names.take([PAYLOAD, PACKET_PAYLOAD].map(str::to_owned)),
                    Part::Payload,
                )
                .with(KEY_HELP, "Bytes of the payload; the description has no records.");
                let field = Arc::new(label.field(DataType::Binary, false));
                columns.push(PlannedColumn { field, origin: Origin::Payload });
            }
        }
        let mut all = self.common_columns(&Common::OF_PACKET, &mut names);
        all.append(&mut columns);
        let mut plan = self.plan(self.stem(), TableKind::PacketType, all);
        plan.records_per_packet = per_packet;
        let help = [("fluxline.help", packet.help.as_str())];
        plan.metadata.extend(help.map(|(key, value)| (key.to_owned(), value.to_owned())));
        plan
    }

    fn record_table(&self) -> Option<TablePlan> {
        let records = self.records()?;
        let mut names = Names::default();
        let mut columns = self.record_columns(records, &mut names);
        let mut all = self.common_columns(&Common::OF_PACKET, &mut names);
        all.extend(self.common_columns(&[Common::Record], &mut names));
        all.append(&mut columns);
        Some(self.plan(format!("{}-{}", self.stem(), records.name), TableKind::Records, all))
    }

    fn plan(&self, name: String, kind: TableKind, columns: Vec<PlannedColumn>) -> TablePlan {
        let mut metadata = self.run.clone();
        let texts = [
            ("fluxline.table", name.as_str()),
            ("fluxline.format", self.format),
            ("fluxline.packet_type", self.base().name.as_str()),
            ("fluxline.about", self.description.about()),
            ("fluxline.reference", self.description.reference()),
        ];
        metadata.extend(texts.map(|(key, value)| (key.to_owned(), value.to_owned())));
        if let Some(records) = self.records() {
            metadata.insert("fluxline.record".to_owned(), records.name.clone());
        }
        let (format, packet_type) = (self.format.to_owned(), self.number as u8);
        TablePlan { name, kind, columns, format, packet_type, records_per_packet: None, metadata }
    }

    fn common_columns(&self, which: &[Common], names: &mut Names) -> Vec<PlannedColumn> {
        let column = |&common: &Common| {
            let name = common.name();
            let name_free = names.take([name.to_owned(), format!("packet_{name}")]);
            let mut label = Label::new(name_free, Part::Common)
                .with(KEY_COMMON, name)
                .with(KEY_HELP, common.help());
            if common == Common::SensorTime {
                label = label.with(KEY_UNIT, "ns").with(KEY_EPOCH, epoch(self.base()));
            }
            let field = Arc::new(label.field(common.data_type(), common.is_nullable()));
            PlannedColumn { field, origin: Origin::Common(common) }
        };
        which.iter().map(column).collect()
    }

    fn header_columns(&self, names: &mut Names) -> Vec<PlannedColumn> {
        let packet = self.base();
        let layout = &packet.header;
        let layouts: Vec<&Layout> = self.variants.iter().map(|packet| &packet.header).collect();
        let mut columns = Vec::new();
        for (id, column) in merged(&layouts).iter().enumerate() {
            let label = Label::new(names.take([column.name.clone()]), Part::Header)
                .describing(column)
                .with(KEY_ROLE, &roles(packet, id))
                .with(KEY_ALLOWED, &allowed(layout, id));
            let kind = column_type(column, &layouts, id);
            let field = Arc::new(label.field(kind, layout.values[id].conditional));
            columns.push(PlannedColumn { field, origin: Origin::Header(id) });
        }
        let prefix = format!("{}_", packet.name.replace('-', "_"));
        columns.extend(list_columns(&layouts, Part::Header, &prefix, names));
        columns
    }

    fn record_columns(&self, records: &Records, names: &mut Names) -> Vec<PlannedColumn> {
        let prefix = format!("{}_", records.name.replace('-', "_"));
        let all = self.variants.iter().filter_map(|packet| packet.records.as_ref());
        let layouts: Vec<&Layout> = all.map(|records| &records.layout).collect();
        let mut columns = Vec::new();
        for (id, column) in merged(&layouts).iter().enumerate() {
            let wishes = [column.name.clone(), format!("{prefix}{}", column.name)];
            let label = Label::new(names.take(wishes), Part::Record)
                .describing(column)
                .with(KEY_ALLOWED, &allowed(&records.layout, id));
            let nullable = records.layout.values[id].conditional;
            let field = Arc::new(label.field(column_type(column, &layouts, id), nullable));
            columns.push(PlannedColumn { field, origin: Origin::Record(id) });
        }
        columns.extend(list_columns(&layouts, Part::Record, &prefix, names));
        columns
    }

    /// Returns the column of packed samples, where records are nothing else.
    fn sample_column(&self, records: &Records, names: &mut Names) -> Option<PlannedColumn> {
        let layouts: Vec<&Layout> = self
            .variants
            .iter()
            .filter_map(|packet| packet.records.as_ref())
            .filter(|records| {
                records.bytes.as_ref().is_some_and(|bytes| bytes.constant().is_some())
            })
            .map(|records| &records.layout)
            .collect();
        let columns = merged(&layouts);
        let ([column], 0) = (columns.as_slice(), records.layout.lists().count()) else {
            return None;
        };
        let all = layouts.len() == self.variants.len();
        let per_record = fixed_samples(column, &layouts, 0).filter(|_| all)?;
        let prefixed = format!("{}_{}", records.name.replace('-', "_"), column.name);
        let label = Label::new(names.take([column.name.clone(), prefixed]), Part::Record)
            .describing(column);
        let field = Arc::new(label.field(value_type(column), false));
        let origin = Origin::RecordSamples(RecordSamples { value: 0, per_record });
        let length = self.records_per_packet().map(|records| records * per_record);
        Some(in_list(PlannedColumn { field, origin }, length))
    }

    /// Returns the number of records in every packet, where all variants agree on one.
    fn records_per_packet(&self) -> Option<usize> {
        let mut counts = self.variants.iter().map(|packet| fixed_records(packet));
        let first = counts.next()??;
        counts.all(|count| count == Some(first)).then_some(first)
    }
}

const PAYLOAD: &str = "payload";
const PACKET_PAYLOAD: &str = "packet_payload";

/// Returns the choice of columns that a table needs of the header, or of the records.
pub(crate) fn wanted(plan: &TablePlan, layouts: &[&Layout], part: Wants) -> Wanted {
    let mut wanted =
        Wanted { values: merged(layouts).into_iter().map(Some).collect(), lists: Vec::new() };
    let origins = || plan.columns.iter().map(|column| &column.origin);
    for (id, column) in wanted.values.iter_mut().enumerate() {
        let value = match part {
            Wants::Header => Origin::Header(id),
            Wants::Records => Origin::Record(id),
        };
        let samples = |origin: &Origin| {
            matches!(
            (origin, part), (Origin::RecordSamples(of), Wants::Records) if of.value == id)
        };
        if !origins().any(|origin| *origin == value || samples(origin)) {
            *column = None;
        }
    }
    let base = layouts.first().into_iter().flat_map(|layout| layout.lists());
    for (number, (_, list)) in base.enumerate() {
        let mut entries = Wanted::all(&list.item);
        for (value, column) in entries.values.iter_mut().enumerate() {
            let of = ListValue { list: number, value };
            let origin = match part {
                Wants::Header => Origin::HeaderList(of),
                Wants::Records => Origin::RecordList(of),
            };
            if !origins().any(|its| *its == origin) {
                *column = None;
            }
        }
        wanted.lists.push(entries);
    }
    wanted
}

/// The layout whose columns are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wants {
    Header,
    Records,
}

/// Returns the type of a value's column: of packed samples, a list.
fn column_type(column: &Column, layouts: &[&Layout], id: usize) -> DataType {
    let kind = value_type(column);
    if column.packed.is_none() {
        return kind;
    }
    let entry = Arc::new(Field::new("item", kind, false));
    match fixed_samples(column, layouts, id).and_then(|count| i32::try_from(count).ok()) {
        Some(count) => DataType::FixedSizeList(entry, count),
        None => DataType::List(entry),
    }
}

/// Returns the number of packed samples of a value, where it is the same in every row.
fn fixed_samples(column: &Column, layouts: &[&Layout], id: usize) -> Option<usize> {
    let packed = column.packed?;
    let count = |layout: &&Layout| {
        let fluxline_packet::layout::Origin::Word { item } = layout.values[id].origin else {
            return None;
        };
        let item = &layout.items[item];
        let fixed = matches!(item.place, FieldOffset::Fixed(_)) && item.when.is_none();
        item.fixed_bytes().filter(|_| fixed).map(|bytes| packed.samples_in(bytes as usize))
    };
    let first = layouts.first().and_then(count)?;
    layouts.iter().all(|layout| count(layout) == Some(first)).then_some(first)
}

/// Returns the columns of layouts that differ in parameters only: each as wide as the widest.
fn merged(layouts: &[&Layout]) -> Vec<Column> {
    let Some(first) = layouts.first() else { return Vec::new() };
    let mut columns = Wanted::all(first).values.into_iter().flatten().collect::<Vec<_>>();
    for layout in &layouts[1..] {
        for (column, value) in columns.iter_mut().zip(&layout.values) {
            column.width_bits = column.width_bits.max(value.width_bits);
        }
    }
    columns
}

fn list_columns(
    layouts: &[&Layout],
    part: Part,
    prefix: &str,
    names: &mut Names,
) -> Vec<PlannedColumn> {
    let Some(base) = layouts.first() else { return Vec::new() };
    let mut columns = Vec::new();
    for (number, (index, list)) in base.lists().enumerate() {
        let item = &base.items[index];
        let length = fixed_length(layouts, index);
        let list_name = item.name.as_deref().unwrap_or("list");
        for (value, about) in Wanted::all(&list.item).values.into_iter().flatten().enumerate() {
            let own = format!("{list_name}_{}", about.name);
            let label = Label::new(names.take([own.clone(), format!("{prefix}{own}")]), part)
                .describing(&about)
                .with(KEY_ALLOWED, &allowed(&list.item, value));
            let conditional = list.item.values[value].conditional;
            let entry = Arc::new(label.field(value_type(&about), conditional));
            let of = ListValue { list: number, value };
            let origin = match part {
                Part::Record => Origin::RecordList(of),
                _ => Origin::HeaderList(of),
            };
            let listed = in_list(PlannedColumn { field: entry, origin }, length);
            let field = listed.field.as_ref().clone().with_nullable(item.when.is_some());
            columns.push(PlannedColumn { field: Arc::new(field), origin: listed.origin });
        }
    }
    columns
}

/// Returns the length of a list that has the same one in every row.
fn fixed_length(layouts: &[&Layout], index: usize) -> Option<usize> {
    let length = |layout: &&Layout| {
        let item = &layout.items[index];
        let fixed = matches!(item.place, FieldOffset::Fixed(_)) && item.when.is_none();
        let fluxline_packet::layout::ItemKind::List(List { count, .. }) = &item.kind else {
            return None;
        };
        count.constant().filter(|_| fixed).and_then(|count| usize::try_from(count).ok())
    };
    let first = layouts.first().and_then(length)?;
    layouts.iter().all(|layout| length(layout) == Some(first)).then_some(first)
}

/// Returns a column of lists whose entries `column` describes.
fn in_list(column: PlannedColumn, length: Option<usize>) -> PlannedColumn {
    let PlannedColumn { field, origin } = column;
    let entry = Arc::new(Field::new("item", field.data_type().clone(), field.is_nullable()));
    let kind = match length.and_then(|length| i32::try_from(length).ok()) {
        Some(length) => DataType::FixedSizeList(entry, length),
        None => DataType::List(entry),
    };
    let list = Field::new(field.name(), kind, false).with_metadata(field.metadata().clone());
    PlannedColumn { field: Arc::new(list), origin }
}

/// Returns the number of records in every packet of a type, where its description fixes it.
fn fixed_records(packet: &PacketType) -> Option<usize> {
    let records = packet.records.as_ref()?;
    let stride = records.bytes.as_ref()?.constant().filter(|&bytes| bytes > 0)?;
    if stride < u64::from(records.layout.min_bytes) {
        return None;
    }
    let constant = |expression: &Option<Expr>, otherwise: Option<u64>| match expression {
        Some(expression) => expression.constant(),
        None => otherwise,
    };
    let length = match &packet.payload.length {
        Some(length) => length.constant()?,
        None => {
            let size = &packet.size;
            let exact = (size.min == size.max).then_some(size.min);
            let size = constant(&size.equals, exact)?;
            let from = constant(&packet.payload.from, packet.header.fixed_bytes.map(u64::from))?;
            let trailer = constant(&packet.payload.trailer, Some(0))?;
            size.checked_sub(from)?.checked_sub(trailer)?
        }
    };
    usize::try_from(length / stride).ok()
}
