//! A Wireshark dissector in Lua, complete: every field, bit, list, record, rule and role.
//!
//! A packet is walked as the program walks it: the types are tried in their order, fields are read
//! one after the other, what comes behind a conditional one starts where that ended. Fields go
//! into the tree under `fluxline_<format>.<packet>.<field>`; what the roles found is under
//! `fluxline_<format>.sequence`, `.event`, `.fragment_index` and so on, and in the info column.
//! Source of the interface: Wireshark Developer's Guide, "Wireshark's Lua API Reference Manual".

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::Description;
pub use super::carrier::Carrier;
use super::diagram::{bits, rules_text};
use super::expression::Expr;
use super::field_type::BitOrder;
use super::layout::{
    FieldOffset, Fragment, Item, ItemKind, Layout, Origin, PacketType, Rules, Stage, ValueKind,
};
use super::lua::{MAIN, PRELUDE, about, add, constant, expression, quote, read, text_lengths};
use super::packed::Packed;
use super::word::mask;

/// Records of a payload, and items of a list, that are shown.
pub(crate) const SHOWN_MAX: u32 = 64;
/// The end of a record's function when there is no room for a field.
const LEAVE_RECORD: &str = "return nil";

/// The Lua source of a dissector, registered for UDP port `udp_port`; see [`dissector_on`].
#[must_use]
pub fn dissector(description: &Description, udp_port: u16) -> String {
    dissector_on(description, &[Carrier::UdpPort(udp_port)])
}

/// The Lua source of a dissector.
///
/// Done when: put into Wireshark's plugin folder, or given as `tshark -X lua_script:FILE`. Check
/// sums are shown, not checked. Cost: some tens of microseconds.
#[must_use]
pub fn dissector_on(description: &Description, carriers: &[Carrier]) -> String {
    let format = description.name();
    let proto = format!("fluxline_{}", format.replace('-', "_"));
    let mut writer = Writer { out: String::new(), fields: String::new(), proto };
    for (number, packet) in description.packet_types().iter().enumerate() {
        writer.packet(number, packet);
    }
    let Writer { out: body, fields, proto } = writer;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "-- Wireshark dissector of `{format}` packets, made by `fluxline format wireshark`.\n\
         -- Use: tshark -X lua_script:THIS_FILE, or put it into Wireshark's plugin folder.\n\
         {PRELUDE}"
    );
    let about = quote(&format!("{format} (Fluxline): {}", description.about()));
    let _ = writeln!(out, "local proto = Proto({}, {about})", quote(&proto));
    let _ = writeln!(out, "local f = {{}}\n{fields}");
    for (key, title) in ROLES {
        let _ = writeln!(
            out,
            "f[\"{key}\"] = ProtoField.uint64({}, {})",
            quote(&format!("{proto}.{key}")),
            quote(title)
        );
    }
    out.push_str("local all = {}\nfor _, field in pairs(f) do all[#all + 1] = field end\n");
    out.push_str("proto.fields = all\n\n");
    for (key, text, group) in [
        ("short", "the packet ends before this", "MALFORMED"),
        ("rule", "the description does not allow this value", "PROTOCOL"),
    ] {
        let _ = writeln!(
            out,
            "local {key} = ProtoExpert.new({}, {}, expert.group.{group}, expert.severity.ERROR)",
            quote(&format!("{proto}.{key}")),
            quote(text)
        );
    }
    out.push_str("proto.experts = {short, rule}\n");
    out.push_str("local select, dissect, record = {}, {}, {}\n");
    out.push_str(&body);
    let _ = write!(out, "{}", MAIN.replace("FORMAT", &quote(format)));
    let lines: Vec<String> = carriers.iter().map(|carrier| carrier.register()).collect();
    let _ = writeln!(out, "\n{}", lines.join("\n"));
    out
}

/// Roles as fields: key and title.
const ROLES: [(&str, &str); 6] = [
    ("sequence", "Sequence"),
    ("event", "Event"),
    ("fragment_index", "Fragment index"),
    ("fragment_count", "Fragment count"),
    ("fragment_offset", "Fragment offset [byte]"),
    ("fragment_total", "Fragment total [byte]"),
];

pub(crate) struct Writer {
    /// The functions.
    out: String,
    /// The declarations of fields.
    fields: String,
    proto: String,
}

/// The destination of a layout's fields.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) layout: &'a Layout,
    /// Name of the packet, or packet and record.
    pub(crate) path: &'a str,
    /// The Lua variable that holds the start of the layout.
    pub(crate) base: &'a str,
    /// The indentation.
    pub(crate) pad: &'a str,
}

impl Writer {
    pub(crate) fn line(&mut self, pad: &str, text: &str) {
        let _ = writeln!(self.out, "{pad}{text}");
    }

    fn packet(&mut self, number: usize, packet: &PacketType) {
        let number = number + 1;
        let path = packet.name.replace('-', "_");
        if let Some(select) = &packet.select {
            self.select(number, &packet.header, select);
        }
        let record_path = packet.records.as_ref().map(|records| format!("{path}.{}", records.name));
        if let (Some(records), Some(path)) = (&packet.records, &record_path) {
            self.record(number, &records.layout, records.bytes.as_ref(), path);
        }
        self.line("", &format!("\ndissect[{number}] = function(tvb, size, port, pinfo, tree)"));
        self.line("  ", "local v, t, base, at, fin = {}, {}, 0, 0, 0");
        self.line("  ", &format!("tree:append_text({})", quote(&format!(", {}", packet.name))));
        let scope = Scope { layout: &packet.header, path: &path, base: "base", pad: "  " };
        self.layout(&scope, "return");
        self.size(packet);
        self.roles(packet);
        self.payload(number, packet);
        self.line("", "end");
    }

    /// The function that tells whether a packet is of a type.
    fn select(&mut self, number: usize, layout: &Layout, select: &Expr) {
        self.line("", &format!("\nselect[{number}] = function(tvb, size, port)"));
        self.line("  ", "local v = {}");
        let mut needed = alloc::vec![false; layout.values.len()];
        let mut open = Vec::new();
        select.for_each_value(&mut |id| open.push(id));
        while let Some(id) = open.pop() {
            if core::mem::replace(&mut needed[id], true) {
                continue;
            }
            if let Origin::Computed { value, when, .. } = &layout.values[id].origin {
                value.for_each_value(&mut |id| open.push(id));
                when.iter().for_each(|when| when.for_each_value(&mut |id| open.push(id)));
            }
        }
        for item in &layout.items {
            let wanted = item.value.is_some_and(|id| needed[id])
                || item.bits.iter().any(|part| needed[part.value]);
            let bytes = item.fixed_bytes().filter(|_| wanted);
            let (Some(bytes), ItemKind::Word { .. }) = (bytes, &item.kind) else { continue };
            let (least, at) = match item.place {
                FieldOffset::Fixed(at) => (at + bytes, at.to_string()),
                FieldOffset::FromEnd(before) => (before, format!("size - {before}")),
                FieldOffset::AfterPrevious => continue,
            };
            self.line("  ", &format!("if size < {least} then return false end"));
            self.line("  ", &format!("do local word = {}", read(item, &at, bytes)));
            self.keep(item, "  ");
            self.line("  ", "end");
        }
        for &id in &layout.computed_order {
            let Origin::Computed { value, when, .. } = &layout.values[id].origin else { continue };
            if needed[id] {
                self.compute(id, value, when.as_ref(), "  ");
            }
        }
        self.line("  ", &format!("return T({})\nend", expression(select)));
    }

    /// Keeps the word in `word` and its bits in `v`.
    pub(crate) fn keep(&mut self, item: &Item, pad: &str) {
        if let Some(id) = item.value {
            self.line(pad, &format!("v[{id}] = word"));
        }
        for part in &item.bits {
            let mask = constant(mask(u32::from(part.width)));
            self.line(pad, &format!("v[{}] = bits(word, {}, {mask})", part.value, part.low));
        }
    }

    fn compute(&mut self, id: usize, value: &Expr, when: Option<&Expr>, pad: &str) {
        let value = expression(value);
        match when {
            None => self.line(pad, &format!("v[{id}] = {value}")),
            Some(when) => {
                let when = expression(when);
                self.line(pad, &format!("if T({when}) then v[{id}] = {value} end"));
            }
        }
    }

    /// All fields of a layout; `leave` is what to do when the packet ends too early.
    pub(crate) fn layout(&mut self, scope: &Scope<'_>, leave: &str) {
        let layout = scope.layout;
        self.computed(scope, |stage| stage == Stage::Select);
        for (index, item) in layout.items.iter().enumerate() {
            self.computed(scope, |stage| stage == Stage::AfterItems(index));
            match &item.when {
                // A block for each field: a Lua function has room for 200 locals.
                None => {
                    self.line(scope.pad, "do");
                    self.item(scope, index, item, leave);
                    self.line(scope.pad, "end");
                }
                Some(when) => {
                    self.line(scope.pad, &format!("if T({}) then", expression(when)));
                    let pad = format!("{}  ", scope.pad);
                    self.item(&Scope { pad: &pad, ..*scope }, index, item, leave);
                    self.line(scope.pad, "end");
                }
            }
        }
        let items = layout.items.len();
        self.computed(scope, |stage| stage == Stage::End || stage == Stage::AfterItems(items));
        for (index, item) in layout.items.iter().enumerate() {
            let name = item.name.as_deref().unwrap_or("padding");
            self.rules(scope, index, item.value, name, &item.rules);
            for part in &item.bits {
                self.rules(scope, index, Some(part.value), &part.name, &part.rules);
            }
        }
        self.show_computed(scope);
    }

    fn computed(&mut self, scope: &Scope<'_>, stage_is: impl Fn(Stage) -> bool) {
        for &id in &scope.layout.computed_order {
            let origin = &scope.layout.values[id].origin;
            let Origin::Computed { value, when, stage } = origin else { continue };
            if stage_is(*stage) {
                if *stage == Stage::Select {
                    // What select needs is read before its place in the walk.
                    self.read_early(scope, value);
                }
                self.compute(id, value, when.as_ref(), scope.pad);
            }
        }
    }

    fn read_early(&mut self, scope: &Scope<'_>, value: &Expr) {
        let mut used = Vec::new();
        value.for_each_value(&mut |id| used.push(id));
        for item in &scope.layout.items {
            let wanted = item.value.is_some_and(|id| used.contains(&id))
                || item.bits.iter().any(|part| used.contains(&part.value));
            let bytes = item.fixed_bytes().filter(|_| wanted);
            let (Some(bytes), ItemKind::Word { .. }) = (bytes, &item.kind) else { continue };
            let at = match item.place {
                FieldOffset::Fixed(at) => at.to_string(),
                FieldOffset::FromEnd(before) => format!("size - {before}"),
                FieldOffset::AfterPrevious => continue,
            };
            self.line(scope.pad, "do");
            self.line(scope.pad, &format!("local word = {}", read(item, &at, bytes)));
            self.keep(item, scope.pad);
            self.line(scope.pad, "end");
        }
    }

    /// Reads and shows one field; moves `at` behind it.
    fn item(&mut self, scope: &Scope<'_>, index: usize, item: &Item, leave: &str) {
        let pad = scope.pad;
        let at = match item.place {
            FieldOffset::Fixed(at) => {
                self.line(pad, &format!("at = {} + {at}", scope.base));
                "at"
            }
            FieldOffset::AfterPrevious => "at",
            FieldOffset::FromEnd(before) => {
                self.line(pad, &format!("local from = size - {before}"));
                "from"
            }
        };
        let length = match &item.kind {
            ItemKind::Word { bytes, .. } => bytes.to_string(),
            ItemKind::Bytes { length } => format!("N({})", expression(length)),
            ItemKind::Text(text) => text_lengths(text, at),
            ItemKind::List(list) => {
                format!("N({}) * {}", expression(&list.count), list.item_bytes)
            }
        };
        self.line(pad, &format!("local length, content = {length}"));
        let name = item.name.as_deref().unwrap_or("padding");
        let sentence = match leave {
            LEAVE_RECORD => format!("a record reaches beyond the payload: no room for {name}"),
            _ => format!("the packet ends before {name} does"),
        };
        let sentence = quote(&sentence);
        self.line(pad, &format!("if {at} < 0 or {at} + length > size then"));
        let note = format!("  tree:add_proto_expert_info(short, {sentence})");
        self.line(pad, &note);
        self.line(pad, &format!("  do {leave} end\n{pad}end"));
        match &item.kind {
            ItemKind::Word { .. } => self.word(scope, index, item, at),
            ItemKind::Bytes { .. } => self.bytes(scope, index, item, at),
            ItemKind::Text(_) => self.text(scope, index, item, at),
            ItemKind::List(list) => self.list(scope, item, list),
        }
        if at == "at" {
            self.line(pad, "at = at + length\n  if at > fin then fin = at end");
        }
    }

    pub(crate) fn declare(
        &mut self,
        scope: &Scope<'_>,
        name: &str,
        kind: &str,
        extra: &str,
    ) -> String {
        let key = format!("{}.{name}", scope.path);
        let path = quote(&format!("{}.{key}", self.proto));
        let _ = writeln!(
            self.fields,
            "f[\"{key}\"] = ProtoField.{kind}({path}, {}{extra})",
            quote(name)
        );
        format!("f[\"{key}\"]")
    }

    fn word(&mut self, scope: &Scope<'_>, index: usize, item: &Item, at: &str) {
        let ItemKind::Word { bytes, kind } = item.kind else { return };
        let Some(name) = item.name.as_deref() else { return };
        let pad = scope.pad;
        let width = u32::from(bytes) * 8;
        let ruled = item.rules.equals.is_some() || !item.bits.is_empty();
        let base = if ruled { ", base.DEC_HEX" } else { ", base.DEC" };
        let (lua, extra) = match kind {
            ValueKind::Signed => (format!("int{width}"), String::from(", base.DEC")),
            ValueKind::Float if bytes == 4 => (String::from("float"), String::new()),
            ValueKind::Float => (String::from("double"), String::new()),
            ValueKind::Unsigned | ValueKind::Bytes if bytes > 4 => {
                (String::from("uint64"), String::from(base))
            }
            ValueKind::Unsigned | ValueKind::Bytes => (format!("uint{width}"), String::from(base)),
        };
        let about = about(item.unit.as_deref(), &item.help);
        let field = self.declare(scope, name, &lua, &extra);
        self.line(pad, &format!("local word = {}", read(item, at, u32::from(bytes))));
        self.keep(item, pad);
        let range = format!("tvb({at}, {bytes})");
        let add = add(item);
        let shown = match (kind, bytes) {
            (ValueKind::Unsigned, 5..=8) => format!("tree:add({field}, {range}, word)"),
            _ => format!("tree:{add}({field}, {range})"),
        };
        self.line(pad, &format!("t[{index}] = {shown}"));
        if !about.is_empty() {
            self.line(pad, &format!("t[{index}]:append_text({})", quote(&about)));
        }
        for part in &item.bits {
            let place = bits(part.low, part.width);
            let about = self::about(part.unit.as_deref(), &part.help);
            let about = if about.is_empty() {
                String::new()
            } else {
                format!(":append_text({})", quote(&about))
            };
            if bytes <= 4 {
                let mask = mask(u32::from(part.width)) << part.low;
                let extra = format!(", base.DEC, nil, {mask:#x}");
                let field = self.declare(scope, &part.name, &lua, &extra);
                self.line(pad, &format!("t[{index}]:{add}({field}, {range}){about}"));
            } else {
                // A mask of more than 32 bits is beyond Lua's numbers: the value is given instead.
                let field = self.declare(scope, &part.name, "uint64", ", base.DEC");
                let value = format!("v[{}]", part.value);
                let item = format!("t[{index}]:add({field}, {range}, {value})");
                let note = quote(&format!("[{place}] "));
                self.line(pad, &format!("{item}:prepend_text({note}){about}"));
            }
        }
    }

    fn bytes(&mut self, scope: &Scope<'_>, index: usize, item: &Item, at: &str) {
        let Some(name) = item.name.as_deref() else { return };
        let field = self.declare(scope, name, "bytes", "");
        let add = format!("t[{index}] = tree:add({field}, tvb({at}, length))");
        let samples = item.packed.map_or(String::new(), |packed| {
            let Packed { bits, signed, order } = packed;
            let lowest_first = order == BitOrder::LsbFirst;
            let call = format!("samples(tvb({at}, length), {bits}, {signed}, {lowest_first})");
            format!(" t[{index}]:append_text({call})")
        });
        self.line(scope.pad, &format!("if length > 0 then {add}{samples} end"));
    }

    /// Expert information where a rule does not hold.
    fn rules(
        &mut self,
        scope: &Scope<'_>,
        index: usize,
        id: Option<usize>,
        name: &str,
        rules: &Rules,
    ) {
        let (Some(id), false) = (id, rules.is_empty()) else { return };
        let mut wrong = Vec::new();
        if let Some(equals) = &rules.equals {
            wrong.push(format!("v[{id}] ~= {}", expression(equals)));
        }
        if !rules.one_of.is_empty() {
            let each = |value: &u64| format!("v[{id}] == {}", constant(*value));
            let any: Vec<String> = rules.one_of.iter().map(each).collect();
            wrong.push(format!("not ({})", any.join(" or ")));
        }
        if let Some(min) = rules.min {
            wrong.push(format!("v[{id}] < {}", constant(min)));
        }
        if let Some(max) = rules.max {
            wrong.push(format!("v[{id}] > {}", constant(max)));
        }
        let text = format!("{name} must be {}", rules_text(scope.layout, rules));
        let note = format!("(t[{index}] or tree):add_proto_expert_info(rule, {})", quote(&text));
        let test = wrong.join(" or ");
        self.line(scope.pad, &format!("if v[{id}] and ({test}) then {note} end"));
    }

    fn show_computed(&mut self, scope: &Scope<'_>) {
        for &id in &scope.layout.computed_order {
            let value = &scope.layout.values[id];
            let field = self.declare(scope, &value.name, "uint64", ", base.DEC");
            let about = quote(&about(value.unit.as_deref(), &value.help));
            let shown = format!("tree:add({field}, v[{id}]):append_text({about}):set_generated()");
            self.line(scope.pad, &format!("if v[{id}] then {shown} end"));
        }
    }

    fn size(&mut self, packet: &PacketType) {
        let size = &packet.size;
        let mut wrong = format!("size < {} or size > {}", size.min, size.max);
        let mut text = format!("the packet must have {} to {} bytes", size.min, size.max);
        if let Some(equals) = &size.equals {
            let _ = write!(wrong, " or U(size) ~= {}", expression(equals));
            let _ = write!(text, ", and {}", packet.header.text_of(equals));
        }
        let note = format!("tree:add_proto_expert_info(rule, {})", quote(&text));
        self.line("  ", &format!("if {wrong} then {note} end"));
    }

    fn roles(&mut self, packet: &PacketType) {
        let mut found = Vec::new();
        if let Some(sequence) = &packet.sequence {
            found.push(("sequence", &sequence.value));
        }
        if let Some(event) = &packet.event {
            found.push(("event", &event.key));
            found.extend(event.spill.iter().map(|spill| ("spill", &spill.value)));
        }
        match &packet.fragment {
            Fragment::Whole => {}
            Fragment::Index { index, count, .. } => {
                found.extend([("fragment_index", index), ("fragment_count", count)]);
            }
            Fragment::Bytes { offset, total, .. } => {
                found.extend([("fragment_offset", offset), ("fragment_total", total)]);
            }
        }
        self.line("  ", &format!("local info = {}", quote(&packet.name)));
        for (key, value) in found {
            self.line("  ", "do");
            self.line("    ", &format!("local value = {}", expression(value)));
            self.line("    ", &format!("tree:add(f[\"{key}\"], value):set_generated()"));
            let text = quote(&format!(" {key}="));
            self.line("    ", &format!("info = info .. {text} .. tostring(value)"));
            self.line("  ", "end");
        }
        self.line("  ", "pinfo.cols.info = info");
        if let Some(crc) = &packet.crc {
            let text = format!("Check sum {}: not checked here", crc.algorithm);
            self.line("  ", &format!("tree:add({}):set_generated()", quote(&text)));
        }
    }

    /// The payload, with its records.
    fn payload(&mut self, number: usize, packet: &PacketType) {
        let number_of = |expression: &Expr| format!("N({})", self::expression(expression));
        let payload = &packet.payload;
        let from = payload.from.as_ref().map_or(String::from("fin"), number_of);
        let to = match (&payload.length, &payload.trailer) {
            (Some(length), _) => format!("from + {}", number_of(length)),
            (None, Some(trailer)) => format!("size - {}", number_of(trailer)),
            (None, None) => String::from("size"),
        };
        self.line("  ", &format!("local from = {from}\n  local to = {to}"));
        let text = quote("the payload lies beyond the packet");
        let note = format!("tree:add_proto_expert_info(short, {text})");
        self.line("  ", &format!("if to > size or from > to then {note} return end"));
        self.line("  ", "if to == from then return end");
        let label = "\"Payload: \" .. (to - from) .. \" bytes\"";
        self.line("  ", &format!("local payload = tree:add(tvb(from, to - from), {label})"));
        let Some(records) = &packet.records else { return };
        let title = quote(&format!("{}: ", records.name));
        let rest = quote(&format!("only the first {SHOWN_MAX} records are shown"));
        self.line("  ", "local shown = 0");
        self.line("  ", "while from < to do");
        self.line("  ", &format!("  if shown == {SHOWN_MAX} then payload:add({rest}) return end"));
        let call = format!("record[{number}](tvb, from, to, port, payload, {title} .. shown)");
        self.line("  ", &format!("  local stride = {call}"));
        self.line("  ", "  if stride == nil or stride <= 0 then return end");
        self.line("  ", "  from = from + stride\n    shown = shown + 1\n  end");
    }

    /// The function that shows one record and returns its size.
    fn record(&mut self, number: usize, layout: &Layout, bytes: Option<&Expr>, path: &str) {
        let head = "function(tvb, base, size, port, tree, title)";
        self.line("", &format!("record[{number}] = {head}"));
        self.line("  ", "local v, t, at, fin = {}, {}, base, base");
        self.line("  ", "tree = tree:add(tvb(base, 1), title)");
        self.layout(&Scope { layout, path, base: "base", pad: "  " }, LEAVE_RECORD);
        let stride = bytes.map(|bytes| format!("N({})", expression(bytes)));
        let stride = stride.as_deref().unwrap_or("fin - base");
        self.line("  ", &format!("local stride = {stride}"));
        let text = quote("a record reaches beyond the payload");
        let note = format!("tree:add_proto_expert_info(short, {text})");
        self.line("  ", &format!("if base + stride > size then {note} return nil end"));
        self.line("  ", "if stride > 0 then tree:set_len(stride) end");
        self.line("  ", "return stride\nend");
    }
}
