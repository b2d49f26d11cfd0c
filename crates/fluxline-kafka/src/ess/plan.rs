//! The mapping of a packet type, ready to be applied: needed columns, names and operands.

use std::borrow::Cow;
use std::collections::BTreeSet;

use fluxline_daq::event::PacketRow;
use fluxline_packet::Description;
use fluxline_packet::columnar::{ColumnValues, Columns, Content, Numbers, Wanted, column_of};
use fluxline_packet::decode::Value;
use fluxline_packet::ess::{Ess, Mixed, NameTemplate, Operand, Signal, Time};
use fluxline_packet::layout::PacketType;

/// The mapping of one packet type.
#[derive(Debug)]
pub(super) struct TypePlan {
    pub packet: PacketType,
    wanted: Wanted,
    needs_header: bool,
}

/// A packet with its decoded parts.
pub(super) struct Decoded<'a> {
    pub plan: &'a TypePlan,
    pub row: &'a PacketRow,
    pub payload: &'a [u8],
    header: Vec<Value<'a>>,
    /// The needed columns of the records; `None`: the packet has no records.
    columns: Option<Columns>,
}

impl TypePlan {
    /// Returns the plans of a description's packet types.
    pub fn of(description: &Description) -> Vec<TypePlan> {
        description.packet_types().iter().map(TypePlan::of_type).collect()
    }

    fn of_type(packet: &PacketType) -> TypePlan {
        let mut used = Used::default();
        used.mapping(&packet.ess);
        let Used { needs_header, records } = used;
        let ids: Vec<usize> = records.into_iter().collect();
        let layout = packet.records.as_ref().map(|records| &records.layout);
        let wanted = layout.map(|layout| Wanted::only(layout, &ids)).unwrap_or_default();
        TypePlan { packet: packet.clone(), wanted, needs_header }
    }

    pub fn ess(&self) -> &Ess {
        &self.packet.ess
    }

    /// Decodes the parts of a packet that the mapping needs.
    pub fn decode<'a>(&'a self, row: &'a PacketRow, bytes: &'a [u8], port: u16) -> Decoded<'a> {
        let mut header = Vec::new();
        if self.needs_header {
            self.packet.decode_header(bytes, port, &mut header);
        }
        let payload = payload_of(row, bytes);
        let mut decoded = Decoded { plan: self, row, payload, header, columns: None };
        decoded.append(payload);
        decoded
    }
}

/// Returns the payload of a packet.
pub(super) fn payload_of<'a>(row: &PacketRow, bytes: &'a [u8]) -> &'a [u8] {
    let start = row.payload_start as usize;
    bytes.get(start..start + row.payload_bytes as usize).unwrap_or_default()
}

/// The values that a mapping uses.
#[derive(Default)]
struct Used {
    needs_header: bool,
    records: BTreeSet<usize>,
}

impl Used {
    fn mapping(&mut self, ess: &Ess) {
        if let Some(events) = &ess.ev44 {
            self.name(&events.source_name);
            self.time(&events.reference_time);
            self.operand(&events.time_of_flight);
            events.pixel_id.iter().for_each(|of| self.operand(of));
            events.when.iter().for_each(|of| self.mixed(of));
        }
        if let Some(array) = &ess.da00 {
            self.name(&array.source_name);
            self.time(&array.timestamp);
            if let Signal::Record(id) = array.signal {
                self.records.insert(id);
            }
        }
        for value in &ess.f144 {
            self.name(&value.source_name);
            self.time(&value.timestamp);
            self.operand(&value.value);
        }
    }

    fn name(&mut self, name: &NameTemplate) {
        self.needs_header |= name.fixed().is_none();
    }

    fn time(&mut self, time: &Time) {
        self.needs_header |= matches!(time, Time::Header(_));
    }

    fn operand(&mut self, operand: &Operand) {
        let Used { needs_header, records } = self;
        operand.for_each(&mut |_| *needs_header = true, &mut |id| {
            records.insert(id);
        });
    }

    fn mixed(&mut self, mixed: &Mixed) {
        let Used { needs_header, records } = self;
        mixed.for_each(&mut |_| *needs_header = true, &mut |id| {
            records.insert(id);
        });
    }
}

impl Decoded<'_> {
    /// Appends the records of another payload of the same packet type.
    pub fn append(&mut self, payload: &[u8]) {
        let TypePlan { packet, wanted, .. } = self.plan;
        if let Some(records) = &packet.records {
            let new = || Columns::new(&records.layout, wanted);
            packet.append_records(payload, self.columns.get_or_insert_with(new));
        }
    }

    /// Returns the number of records; 1 for a packet without records.
    pub fn rows(&self) -> usize {
        self.columns.as_ref().map_or(1, Columns::rows)
    }

    fn header_value(&self, id: usize) -> u64 {
        match self.header.get(id) {
            Some(Value::U64(value)) => *value,
            _ => 0,
        }
    }

    fn column(&self, id: usize) -> Option<&ColumnValues> {
        self.columns.as_ref()?.values.get(id)?.as_ref()
    }

    /// Returns the name of a message.
    pub fn name<'n>(&self, template: &'n NameTemplate) -> Cow<'n, str> {
        match template.fixed() {
            Some(name) => Cow::Borrowed(name),
            None => {
                let mut name = String::new();
                template.write(&|id| self.header_value(id), &mut name);
                Cow::Owned(name)
            }
        }
    }

    /// Returns a time \[ns since 1970\].
    pub fn time(&self, time: &Time) -> u64 {
        let arrival = self.row.time.as_ns();
        match time {
            Time::Arrival => arrival,
            Time::Sensor => self.row.sensor_time_ns.unwrap_or(arrival),
            Time::Header(mixed) => mixed.of_header(&|id| self.header_value(id)),
        }
    }

    /// Returns the values of an operand: one for each record, or a single one.
    pub fn numbers(&self, operand: &Operand) -> Option<Cow<'_, Numbers>> {
        match operand {
            Operand::Header(id) => Some(Cow::Owned(number(self.plan, *id, self.header.get(*id)?)?)),
            Operand::Record(id) => self.samples(*id).map(Cow::Borrowed),
            Operand::Expression(mixed) if operand.is_of_records() => {
                Some(Cow::Owned(Numbers::U64(self.evaluate(mixed))))
            }
            Operand::Expression(mixed) => {
                let value = mixed.of_header(&|id| self.header_value(id));
                Some(Cow::Owned(Numbers::U64(vec![value])))
            }
        }
    }

    /// Returns the numbers of a value of the records, one after the other.
    pub fn samples(&self, id: usize) -> Option<&Numbers> {
        match &self.column(id)?.content {
            Content::Numbers(numbers) => Some(numbers),
            Content::Samples(arrays) => Some(&arrays.samples),
            Content::Bytes(_) => None,
        }
    }

    /// Returns the value of an expression for each record.
    pub fn evaluate(&self, mixed: &Mixed) -> Vec<u64> {
        let expression = mixed.with_header(&|id| self.header_value(id));
        let count = self.columns.as_ref().map_or(0, |columns| columns.values.len());
        let mut values = vec![Vec::new(); count];
        expression.for_each_value(&mut |id| {
            if let (Some(words), Some(numbers)) = (values.get_mut(id), self.samples(id))
                && words.is_empty()
            {
                words.reserve(numbers.len());
                numbers.words(words);
            }
        });
        column_of(&expression, &values, self.rows())
    }

    /// Removes from `rows` the flags of records that lack a value which `operand` uses.
    pub fn keep_present(&self, operand: &Operand, rows: &mut Option<Vec<bool>>) {
        let mut absent_header = false;
        let header = &self.header;
        let mut of_header =
            |id: usize| absent_header |= matches!(header.get(id), Some(Value::Null) | None);
        let mut flags = Vec::new();
        operand.for_each(&mut of_header, &mut |id| {
            flags.extend(self.column(id).and_then(|column| column.presence.flags()));
        });
        if absent_header {
            *rows = Some(vec![false; self.rows()]);
        }
        for flags in flags {
            let rows = rows.get_or_insert_with(|| vec![true; self.rows()]);
            rows.iter_mut().zip(flags).for_each(|(row, flag)| *row &= flag);
        }
    }
}

/// Returns a header value as a list of one number, in the narrowest type; `None`: it is absent.
fn number(plan: &TypePlan, id: usize, value: &Value<'_>) -> Option<Numbers> {
    let width = plan.packet.header.values.get(id)?.width_bits;
    Some(match (value, width) {
        (Value::U64(value), 0..=8) => Numbers::U8(vec![*value as u8]),
        (Value::U64(value), 9..=16) => Numbers::U16(vec![*value as u16]),
        (Value::U64(value), 17..=32) => Numbers::U32(vec![*value as u32]),
        (Value::U64(value), _) => Numbers::U64(vec![*value]),
        (Value::I64(value), 0..=8) => Numbers::I8(vec![*value as i8]),
        (Value::I64(value), 9..=16) => Numbers::I16(vec![*value as i16]),
        (Value::I64(value), 17..=32) => Numbers::I32(vec![*value as i32]),
        (Value::I64(value), _) => Numbers::I64(vec![*value]),
        (Value::F32(value), _) => Numbers::F32(vec![*value]),
        (Value::F64(value), _) => Numbers::F64(vec![*value]),
        (Value::Null | Value::Bytes(_), _) => return None,
    })
}
