//! One packet with all its constants, and the places of its changing values.
//!
//! The layout gives the role of each value; so a sequence number or an event key is written where
//! the program reads it. Roles that are computed need `emulate` in the description. Finally, the
//! description's own program must read the intended values from the packet.

use std::net::Ipv4Addr;
use std::ops::Range;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_packet::decode::{ListEntry, Value};
use fluxline_packet::epoch::Date;
use fluxline_packet::expression::{Binary, Expr};
use fluxline_packet::layout::{
    Crc, Fragment, ItemKind, Layout, Origin, PacketType, Rules, Sequence, SourceTerm, Timestamp,
};
use fluxline_packet::{Description, Parsed, Part, Reject, SourceKey};

use super::patch::{Patch, patches};
use super::sensor_time::sensor_time;
use super::{EmulatorConfig, EmulatorError, sender_address};

/// Values of `EMULATE_VARIABLES` for one packet, in that order.
pub(super) type Variables = [u64; 10];

const SOURCE: usize = 0;
const SEQUENCE: usize = 1;
const EVENT: usize = 2;
const INDEX: usize = 3;
const COUNT: usize = 4;
const OFFSET: usize = 5;
const TOTAL: usize = 6;
const PAYLOAD: usize = 7;
const SECONDS: usize = 8;
const TICKS: usize = 9;

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400_000_000_000;
/// Largest UDP payload over IPv4 \[byte\]: 65535 − 20 − 8.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Packets of a fragment that is described by a byte range.
const BYTE_RANGE_PACKETS: u32 = 4;
/// Event keys of the packets that are read back: small but not zero, and beyond usual widths. Their
/// lowest bits differ, so that a constant is never taken for a key or a counter.
const READ_BACK_EVENTS: [u64; 4] = [3, 0x1_8006, 0x1_8000_000B, 0x1_8000_0000_0011];

/// A packet that only needs its changing values.
pub(super) struct Template {
    /// The packet.
    pub(super) bytes: Vec<u8>,
    /// The place of its payload.
    pub(super) payload: Range<usize>,
    /// Sources are identified by the sender's address or port.
    pub(super) needs_senders: bool,
    /// Packets of one fragment.
    pub(super) packets_per_fragment: u32,
    sequence: Option<Sequence>,
    patches: Vec<Patch>,
    timestamp: Option<Timestamp>,
    /// The start of time that the packets name \[ns since 1970\].
    field_epoch_ns: u64,
    check_sum: Option<Crc>,
    ramp: Vec<u8>,
}

impl Template {
    pub(super) fn new(
        description: &Description,
        config: &EmulatorConfig,
    ) -> Result<Template, EmulatorError> {
        let number = choose(description, config)?;
        let packet = &description.packet_types()[number];
        let payload_bytes = match config.payload_bytes {
            Some(bytes) => bytes as usize,
            None => usize::try_from(packet.emulate_payload_bytes).unwrap_or(usize::MAX),
        };
        let too_long = |bytes| EmulatorError::TooLong { bytes };
        if payload_bytes > DATAGRAM_BYTES_MAX {
            return Err(too_long(payload_bytes));
        }
        let plan = Plan::new(packet, payload_bytes, config.epoch_start);
        let bytes = plan.build();
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        let mut template = Template {
            payload: 0..0,
            needs_senders: packet
                .source
                .iter()
                .any(|term| matches!(term, SourceTerm::Address | SourceTerm::Port)),
            packets_per_fragment: plan.packets_per_fragment,
            sequence: packet.sequence.clone(),
            patches: patches(packet, &plan.fill, &bytes),
            timestamp: packet.timestamp.clone(),
            field_epoch_ns: 0,
            check_sum: packet.crc.clone(),
            ramp: (0..=u16::MAX).chain(0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
            bytes,
        };
        template.find_step(description, payload_bytes as u64);
        template.find_field_epoch(description);
        template.read_back(description, packet, number, &plan)?;
        Ok(template)
    }

    /// Returns the packet counter after `count` packets.
    pub(super) fn sequence_of(&self, count: u64) -> u64 {
        self.sequence.as_ref().map_or(count, |sequence| sequence.value_of(count))
    }

    /// Writes the changing values, the check sum last.
    pub(super) fn patch(&self, packet: &mut [u8], variables: &Variables) {
        let size = packet.len() as u64;
        for patch in &self.patches {
            let value = match patch.value {
                Expr::Value(id) => variables[id],
                ref other => other.evaluate(&|id| variables[id], size, 0),
            };
            patch.write(packet, value);
        }
        if let Some(check_sum) = &self.check_sum {
            check_sum.write(packet);
        }
    }

    /// Fills a payload with the ramp, from `position` bytes after its start.
    pub(super) fn ramp(&self, position: u64, out: &mut [u8]) {
        let start = (position % (1 << 17)) as usize;
        out.copy_from_slice(&self.ramp[start..start + out.len()]);
    }

    /// Returns the sensor's time `since` the start, as the description counts it.
    pub(super) fn time(&self, start: Moment, since: Span) -> (u64, u64) {
        let Some(stamp) = &self.timestamp else { return (0, 0) };
        sensor_time(stamp, (start + since).as_ns().saturating_sub(self.field_epoch_ns), since)
    }

    /// Finds the growth of the counter that the packets say: all are equal.
    fn find_step(&mut self, description: &Description, payload: u64) {
        let Some(sequence) = &self.sequence else { return };
        if sequence.step_of.is_none() {
            return;
        }
        let mut variables: Variables = [0; 10];
        (variables[COUNT], variables[SEQUENCE]) =
            (self.packets_per_fragment.into(), sequence.first);
        (variables[PAYLOAD], variables[TOTAL]) = (payload, variables[COUNT] * payload);
        let parsed = self.parse(description, &variables).ok();
        let step = parsed.and_then(|parsed| parsed.step).unwrap_or(1);
        if let Some(sequence) = &mut self.sequence {
            sequence.step = step;
        }
    }

    /// Finds the start of time that the packets name: the time of one whose seconds are 0.
    fn find_field_epoch(&mut self, description: &Description) {
        if self.timestamp.as_ref().is_none_or(|stamp| stamp.field_epoch.is_none()) {
            return;
        }
        let mut variables: Variables = [0; 10];
        (variables[COUNT], variables[SEQUENCE]) =
            (self.packets_per_fragment.into(), self.sequence_of(0));
        // A packet that is rejected is reported when packets are read back.
        let parsed = self.parse(description, &variables).ok();
        self.field_epoch_ns = parsed.and_then(|parsed| parsed.sensor_time_ns).unwrap_or(0);
    }

    /// Reads packets with the description's program, and compares.
    fn read_back(
        &mut self,
        description: &Description,
        packet: &PacketType,
        number: usize,
        plan: &Plan<'_>,
    ) -> Result<(), EmulatorError> {
        let wrong = |problem: String| EmulatorError::NotReadBack {
            format: description.name().to_string(),
            packet: packet.name.clone(),
            problem,
        };
        let payload = plan.payload_bytes as u64;
        let count = u64::from(self.packets_per_fragment);
        let index = u64::from(count > 1);
        for event in READ_BACK_EVENTS {
            let variables: Variables = [
                1,
                self.sequence_of(event * count + index),
                event,
                index,
                count,
                index * payload,
                count * payload,
                payload,
                7,
                11,
            ];
            let parsed = self.parse(description, &variables).map_err(|reject| {
                wrong(format!(
                    "they are {} ({})",
                    reject.reason.as_str(),
                    description.rule_name(reject)
                ))
            })?;
            if usize::from(parsed.packet) != number {
                return Err(wrong("they are taken for another packet type".into()));
            }
            if let Some(problem) = first_difference(packet, &parsed, &variables) {
                return Err(wrong(problem));
            }
            let start = parsed.payload_start as usize;
            self.payload = start..start + parsed.payload_bytes as usize;
        }
        self.read_back_wrap(description, packet, payload).map_or(Ok(()), |what| Err(wrong(what)))
    }

    /// Checks that the counter's largest number, after which it begins anew, can be written too.
    fn read_back_wrap(
        &self,
        description: &Description,
        packet: &PacketType,
        payload: u64,
    ) -> Option<String> {
        packet.sequence.as_ref()?;
        let sequence = self.sequence.as_ref()?;
        let mut variables: Variables = [0; 10];
        variables[SEQUENCE] = sequence.value_of(sequence.last / sequence.step.max(1));
        (variables[COUNT], variables[PAYLOAD]) = (self.packets_per_fragment.into(), payload);
        variables[TOTAL] = variables[COUNT] * payload;
        // Where other roles make the counter, they do not go with this number.
        let by_field = self.patches.iter().any(|patch| uses(&patch.value, SEQUENCE));
        let parsed = self.parse(description, &variables).ok().filter(|_| by_field)?;
        first_difference(packet, &Parsed { event: None, ..parsed }, &variables)
    }

    fn parse(&self, description: &Description, variables: &Variables) -> Result<Parsed, Reject> {
        let mut bytes = self.bytes.clone();
        self.patch(&mut bytes, variables);
        let sender = sender_address(Ipv4Addr::LOCALHOST, variables[SOURCE] as u32);
        let (sender, time) = (SenderAddress::from(sender), Moment::default());
        description.program().parse(&Datagram { bytes: &bytes, sender, port: 0, time })
    }

    /// Returns the key by which a receiver identifies source `number`.
    pub(super) fn source_key(&self, description: &Description, number: u32) -> Option<SourceKey> {
        let mut variables: Variables = [0; 10];
        variables[SOURCE] = number.into();
        variables[COUNT] = self.packets_per_fragment.into();
        (variables[SEQUENCE], variables[PAYLOAD]) =
            (self.sequence_of(0), self.payload.len() as u64);
        variables[TOTAL] = variables[COUNT] * variables[PAYLOAD];
        self.parse(description, &variables).ok().map(|parsed| parsed.source)
    }
}

/// Returns the first role whose value differs from the variables.
fn first_difference(packet: &PacketType, parsed: &Parsed, meant: &Variables) -> Option<String> {
    let differs = |role: &str, is: u64, meant: u64| {
        (is != meant).then(|| format!("the {role} reads as {is}, {meant} was meant"))
    };
    let wrapped = |value: u64, bits: u8| value & (u64::MAX >> (64 - u32::from(bits.clamp(1, 64))));
    let sequence = parsed.sequence.and_then(|is| differs("sequence", is, meant[SEQUENCE]));
    let event = parsed
        .event
        .zip(packet.event.as_ref())
        .and_then(|(is, of)| differs("event key", is, wrapped(meant[EVENT], of.bits)));
    let part = match parsed.part {
        Part::Whole => None,
        Part::Index { index: is, .. } => differs("fragment index", is.into(), meant[INDEX]),
        Part::Bytes { offset, .. } => differs("byte offset", offset, meant[OFFSET]),
    };
    let length = differs("payload length", parsed.payload_bytes.into(), meant[PAYLOAD]);
    sequence.or(event).or(part).or(length)
}

fn uses(expression: &Expr, variable: usize) -> bool {
    let mut found = false;
    expression.for_each_value(&mut |id| found |= id == variable);
    found
}

fn choose(description: &Description, config: &EmulatorConfig) -> Result<usize, EmulatorError> {
    let types = description.packet_types();
    let wanted = config.packet.as_deref();
    let found = types.iter().position(|packet| match wanted {
        Some(name) => packet.name == name,
        None => packet.sequence.is_some() || packet.event.is_some(),
    });
    found.or(wanted.is_none().then_some(0)).ok_or_else(|| EmulatorError::NoSuchPacket {
        format: description.name().to_string(),
        name: wanted.unwrap_or_default().to_string(),
        known: types.iter().map(|packet| packet.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// The contents of each header value.
struct Plan<'p> {
    packet: &'p PacketType,
    payload_bytes: usize,
    packets_per_fragment: u32,
    /// The time at which it starts.
    start: Moment,
    /// The contents of each header value, over the variables; `None`: left zero.
    fill: Vec<Option<Expr>>,
}

impl<'p> Plan<'p> {
    fn new(packet: &'p PacketType, payload_bytes: usize, start: Moment) -> Plan<'p> {
        let constant_count = match &packet.fragment {
            Fragment::Index { count, .. } => Some(count.constant().unwrap_or(1)),
            _ => None,
        };
        let packets_per_fragment = match (&packet.fragment, constant_count) {
            (Fragment::Bytes { .. }, _) => BYTE_RANGE_PACKETS,
            (_, Some(count)) => u32::try_from(count).unwrap_or(1).max(1),
            _ => 1,
        };
        let fill = vec![None; packet.header.values.len()];
        let mut plan = Plan { packet, payload_bytes, packets_per_fragment, start, fill };
        plan.fill_by_rules();
        plan.fill_by_lists();
        plan.fill_by_roles();
        for (id, value) in &packet.emulate {
            plan.fill[*id] = Some(value.clone());
        }
        plan
    }

    fn fill_by_rules(&mut self) {
        for item in &self.packet.header.items {
            if let Some(id) = item.value {
                self.fill[id] = allowed(&item.rules);
            }
            for part in &item.bits {
                self.fill[part.value] = allowed(&part.rules);
            }
        }
        if let Some(select) = &self.packet.select {
            self.demand(select);
        }
    }

    /// Makes a condition true where it is a conjunction of `value == constant`.
    fn demand(&mut self, condition: &Expr) {
        if let Expr::Binary(operator, left, right) = condition {
            match (operator, &**left, &**right) {
                (Binary::BothTrue, left, right) => {
                    self.demand(left);
                    self.demand(right);
                }
                (Binary::Equal, of, Expr::Constant(constant))
                | (Binary::Equal, Expr::Constant(constant), of) => {
                    self.solve(of, Expr::Constant(*constant));
                }
                (Binary::Equal, Expr::Size, right) => {
                    self.solve(right, Expr::Size);
                }
                (Binary::Equal, left, _) => self.solve(left, Expr::Size),
                _ => {}
            }
        }
    }

    /// Fills the one value in `expression` such that it becomes `target`: inverts `+` and `*` by a
    /// constant.
    fn solve(&mut self, expression: &Expr, target: Expr) {
        let inverse = |operator, constant: &u64| {
            Expr::Binary(operator, Box::new(target.clone()), Box::new(Expr::Constant(*constant)))
        };
        match expression {
            Expr::Value(id) => {
                let stored = !matches!(self.header().values[*id].origin, Origin::Computed { .. });
                if stored && self.fill[*id].is_none() {
                    self.fill[*id] = Some(target);
                } else if let Origin::Computed { value, .. } = &self.header().values[*id].origin {
                    self.solve(&value.clone(), target);
                }
            }
            Expr::Binary(Binary::Add, of, by) | Expr::Binary(Binary::Multiply, of, by) => {
                let back = match expression {
                    Expr::Binary(Binary::Add, ..) => Binary::Subtract,
                    _ => Binary::Divide,
                };
                match (&**of, &**by) {
                    (of, Expr::Constant(constant)) | (Expr::Constant(constant), of) => {
                        self.solve(of, inverse(back, constant));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn header(&self) -> &'p Layout {
        &self.packet.header
    }

    /// Gives a list one entry per picked value.
    fn fill_by_lists(&mut self) {
        for item in &self.header().items {
            if let ItemKind::List(list) = &item.kind {
                let entries = list.pick.as_ref().map_or(0, |pick| pick.values.len());
                self.solve(&list.count, Expr::Constant(entries as u64));
            }
        }
    }

    fn fill_by_roles(&mut self) {
        let packet = self.packet;
        if let Some(sequence) = &packet.sequence {
            self.role(&sequence.value, SEQUENCE);
        }
        if let Some(event) = &packet.event {
            self.role(&event.key, EVENT);
        }
        if let Some(counts) = &packet.counts {
            // An emulated board drops nothing.
            self.role(&counts.taken, SEQUENCE);
            self.solve(&counts.dropped, Expr::Constant(0));
        }
        match &packet.fragment {
            Fragment::Whole => {}
            Fragment::Index { index, count, .. } => {
                self.role(index, INDEX);
                self.role(count, COUNT);
            }
            Fragment::Bytes { offset, total, .. } => {
                self.role(offset, OFFSET);
                self.role(total, TOTAL);
            }
        }
        if let Some(stamp) = &packet.timestamp {
            for (expression, variable) in [(&stamp.seconds, SECONDS), (&stamp.ticks, TICKS)] {
                if let Some(expression) = expression {
                    self.role(expression, variable);
                }
            }
            if let Some(parts) = stamp.field_epoch.as_ref().and_then(|epoch| epoch.parts.as_ref()) {
                // The date on which it starts; the times of day then go on beyond midnight.
                let date = Date::of_day(self.start.as_ns() / DAY_NS);
                for (part, number) in parts.iter().zip(date) {
                    self.solve(part, Expr::Constant(number));
                }
            }
        }
        if let Some(length) = &packet.payload.length {
            self.solve(length, Expr::Value(PAYLOAD));
        }
        if let Some(equals) = &packet.size.equals {
            self.solve(equals, Expr::Size);
        }
        self.fill_digits();
        self.fill_source_key();
    }

    /// Spreads the packet counter over the fields that are its digits, where no role fills them.
    fn fill_digits(&mut self) {
        let Some(sequence) = &self.packet.sequence else { return };
        // A constant is only a value that a rule allows.
        let has_role =
            |fill: &Option<Expr>| fill.as_ref().is_some_and(|fill| fill.constant().is_none());
        if sequence.digits.iter().any(|digit| has_role(&self.fill[digit.value])) {
            return;
        }
        for digit in &sequence.digits {
            let binary = |operator, left, right| {
                Expr::Binary(operator, Box::new(left), Box::new(Expr::Constant(right)))
            };
            let above = binary(Binary::Subtract, Expr::Value(SEQUENCE), sequence.first);
            let mut number = binary(Binary::Divide, above, digit.weight);
            if let Ok(count) = u64::try_from(digit.count) {
                number = binary(Binary::Remainder, number, count);
            }
            self.fill[digit.value] = Some(binary(Binary::Add, number, digit.first));
        }
    }

    fn role(&mut self, expression: &Expr, variable: usize) {
        self.solve(expression, Expr::Value(variable));
    }

    /// Spreads the source's number over the key's fields, the last one fastest.
    fn fill_source_key(&mut self) {
        let mut divisor = 1_u64;
        for term in self.packet.source.iter().rev() {
            let SourceTerm::Value { value, .. } = *term else { continue };
            let about = &self.header().values[value];
            if self.fill[value].is_some() || matches!(about.origin, Origin::Computed { .. }) {
                continue;
            }
            let (low, high) = about.range;
            let values = high.saturating_sub(low).saturating_add(1);
            let binary = |operator, left, right| {
                Expr::Binary(operator, Box::new(left), Box::new(Expr::Constant(right)))
            };
            let digit = binary(Binary::Divide, Expr::Value(SOURCE), divisor);
            let digit = binary(Binary::Remainder, digit, values.max(1));
            self.fill[value] = Some(binary(Binary::Add, digit, low));
            divisor = divisor.saturating_mul(values.max(1));
        }
    }

    /// Builds the packet with its constants. Its size may decide values, and values its size: so it
    /// is built until that no longer changes.
    fn build(&self) -> Vec<u8> {
        let trailer_of = |end: usize| {
            let given = self.packet.payload.trailer.as_ref();
            given.map_or(0, |trailer| trailer.evaluate(&|_| 0, end as u64, 0) as usize)
        };
        let least = self.packet.header.min_bytes as usize + self.packet.text_bytes();
        let mut bytes = vec![0; least + self.payload_bytes];
        for _ in 0..4 {
            self.write_constants(&mut bytes);
            let start = match &self.packet.payload.from {
                Some(from) => self.evaluate(from, &bytes) as usize,
                None => self.packet.locate(&bytes, 0).end,
            };
            let size = start + self.payload_bytes + trailer_of(bytes.len());
            if size == bytes.len() || size > 4 * DATAGRAM_BYTES_MAX {
                break;
            }
            bytes = vec![0; size];
        }
        self.write_constants(&mut bytes);
        bytes
    }

    fn evaluate(&self, expression: &Expr, bytes: &[u8]) -> u64 {
        let mut values = Vec::new();
        self.packet.decode_header(bytes, 0, &mut values);
        let value = |id: usize| match values.get(id) {
            Some(Value::U64(value)) => *value,
            _ => 0,
        };
        expression.evaluate(&value, bytes.len() as u64, 0)
    }

    /// Writes every value once, in the order of the layout, as a first packet of source 0 has them.
    fn write_constants(&self, bytes: &mut [u8]) {
        let payload = self.payload_bytes as u64;
        let count = u64::from(self.packets_per_fragment);
        let mut variables: Variables = [0; 10];
        (variables[COUNT], variables[TOTAL]) = (count, count * payload);
        variables[PAYLOAD] = payload;
        let size = bytes.len() as u64;
        for (number, item) in self.header().items.iter().enumerate() {
            if let ItemKind::List(list) = &item.kind {
                let Some(pick) = &list.pick else { continue };
                for (index, picked) in pick.values.iter().enumerate() {
                    let entry = ListEntry { item: number, index };
                    self.packet.set_list_value(bytes, 0, entry, pick.key, picked.is);
                }
            }
            self.packet.lay_out_text(bytes, 0, number);
            for id in self.header().values_of(number) {
                if let Some(value) = &self.fill[id] {
                    let value = value.evaluate(&|id| variables[id], size, 0);
                    self.packet.set_value(bytes, 0, id, value);
                }
            }
        }
        self.write_equalities(bytes);
    }

    /// Writes fields that must equal an expression over others.
    fn write_equalities(&self, bytes: &mut [u8]) {
        let header = self.header();
        let words = header.items.iter().filter_map(|item| Some((item.value?, &item.rules)));
        let parts = header.items.iter().flat_map(|item| &item.bits);
        for (id, rules) in words.chain(parts.map(|part| (part.value, &part.rules))) {
            if let Some(equals) = &rules.equals
                && equals.constant().is_none()
            {
                let value = self.evaluate(equals, bytes);
                self.packet.set_value(bytes, 0, id, value);
            }
        }
    }
}

/// Returns a value that a rule allows, where it does not allow all.
fn allowed(rules: &Rules) -> Option<Expr> {
    let constant = rules.equals.as_ref().and_then(|equals| equals.constant());
    let constant = constant.or(rules.one_of.first().copied()).or(rules.min);
    constant.map(Expr::Constant)
}
