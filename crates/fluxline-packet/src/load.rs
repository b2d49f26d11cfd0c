//! Loads a description: TOML to a checked [`Description`], or one sentence on what is wrong.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::compile::compile;
use super::declare::check_value_name;
use super::layout::{PacketType, SourceTerm, ValueKind};
use super::model::{ByteOrder, Document};
use super::outcome::{Reject, SourceKey};
use super::program::Program;
use super::roles;
use super::scope::Context;
use fluxline_toml::nearest;
use fluxline_toml::{LoadError, TomlText};

/// Largest description file \[byte\].
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Most packet types of one file.
pub const PACKET_TYPES_MAX: usize = 64;
/// Most parameters of one file.
pub const PARAMETERS_MAX: usize = 64;

/// A checked packet description.
#[derive(Clone, Debug)]
pub struct Description {
    document: Document,
    parameters: Vec<ParameterValue>,
    packets: Vec<PacketType>,
    rules: Vec<String>,
    program: Program,
}

/// A parameter with the value it has in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue {
    /// Its name.
    pub name: String,
    /// The experiment's value, else the default.
    pub value: u64,
    /// The meaning.
    pub help: String,
}

impl Description {
    /// Checks the description in `text`. `file_name` is for messages; `parameters` are those that
    /// the experiment sets.
    ///
    /// Errors: the first thing that is wrong, with line, field and what to write instead. Cost:
    /// some tens of microseconds; everything that a packet needs is made here.
    pub fn load(
        file_name: &str,
        text: &str,
        parameters: &BTreeMap<String, u64>,
    ) -> Result<Description, LoadError> {
        let source = TomlText { file: file_name, text };
        if text.len() > FILE_BYTES_MAX {
            let message =
                format!("the file has {} bytes, {FILE_BYTES_MAX} are allowed", text.len());
            return Err(source.error(0..0, message));
        }
        let document: Document = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        check_format_name(source, &document)?;
        let parameters = check_parameters(source, &document, parameters)?;
        let mut context = Context {
            source,
            byte_order: document.byte_order,
            parameters: parameters.iter().map(|p| (p.name.clone(), p.value)).collect(),
            rules: Vec::new(),
            rule_packets: Vec::new(),
            packet: 0,
            fields: 0,
        };
        check_packet_types(source, &document)?;
        let mut packets = Vec::new();
        for (number, packet) in document.packet.iter().enumerate() {
            context.packet = u8::try_from(number).unwrap_or(u8::MAX);
            packets.push(roles::packet_type(&mut context, packet)?);
        }
        let (rules, rule_packets) = (context.rules, context.rule_packets);
        let program = compile(&packets, rule_packets)
            .map_err(|message| source.error(document.name.span(), message))?;
        Ok(Description { document, parameters, packets, rules, program })
    }

    /// The format's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.document.name.get_ref()
    }

    /// Returns the sensor that sends such packets.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.document.about
    }

    /// The public source that the layout was read from.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.document.reference
    }

    /// Byte order of every field that does not say otherwise.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.document.byte_order
    }

    /// The text of the description.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The parameters with their values.
    #[must_use]
    pub fn parameters(&self) -> &[ParameterValue] {
        &self.parameters
    }

    /// The packet types; [`super::Parsed::packet`] is a number in it.
    #[must_use]
    pub fn packet_types(&self) -> &[PacketType] {
        &self.packets
    }

    /// The compiled program; it may be cloned and given to another thread.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The rule that a packet broke, in words: ``packet `data`, field `magic` ``.
    #[must_use]
    pub fn rule_name(&self, reject: Reject) -> String {
        let packet = self.packets.get(usize::from(reject.packet));
        match (self.rules.get(usize::from(reject.field)), packet) {
            (Some(rule), _) => rule.clone(),
            (None, Some(packet)) => format!("packet `{}`", packet.name),
            (None, None) => format!("format `{}`", self.name()),
        }
    }

    /// A source's key for people: `10.0.0.2 fec_id=1`. `packet` is the packet type it came with.
    #[must_use]
    pub fn source_label(&self, key: &SourceKey, packet: u8) -> String {
        let Some(packet_type) = self.packets.get(usize::from(packet)) else {
            return key.sender.to_string();
        };
        let terms = &packet_type.source;
        let mut label = String::new();
        let has = |term| terms.contains(&term);
        match (has(SourceTerm::Address), has(SourceTerm::Port)) {
            (true, true) => label = key.sender.to_string(),
            (true, false) => label = key.sender.ip().to_string(),
            (false, true) => label = format!("port {}", key.sender.port()),
            (false, false) => {}
        }
        let mut below: u32 = terms.iter().map(|term| term.width_bits()).sum();
        for term in terms {
            below -= term.width_bits();
            let packed =
                key.terms.checked_shr(below).unwrap_or(0) & super::word::mask(term.width_bits());
            let space = if label.is_empty() { "" } else { " " };
            let _ = match term {
                SourceTerm::Value { value, width_bits } => {
                    let value = &packet_type.header.values[*value];
                    match value.kind {
                        ValueKind::Signed => {
                            let signed = super::word::sign_extend(packed, *width_bits);
                            write!(label, "{space}{}={signed}", value.name)
                        }
                        _ => write!(label, "{space}{}={packed}", value.name),
                    }
                }
                SourceTerm::Packet => match self.packets.get(packed as usize) {
                    Some(of) => write!(label, "{space}{}", of.name),
                    None => write!(label, "{space}packet={packed}"),
                },
                SourceTerm::Address | SourceTerm::Port => Ok(()),
            };
        }
        if label.is_empty() { String::from("the one source") } else { label }
    }
}

fn check_format_name(source: TomlText<'_>, document: &Document) -> Result<(), LoadError> {
    let name = document.name.get_ref();
    let right =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    match name.is_empty() || name.len() > 60 || !name.chars().all(right) {
        true => Err(source.error(
            document.name.span(),
            format!("`name = \"{name}\"`: write lower-case letters, digits and hyphens"),
        )),
        false => Ok(()),
    }
}

fn check_parameters(
    source: TomlText<'_>,
    document: &Document,
    given: &BTreeMap<String, u64>,
) -> Result<Vec<ParameterValue>, LoadError> {
    if document.parameters.len() > PARAMETERS_MAX {
        let message = format!("there are more than {PARAMETERS_MAX} parameters");
        return Err(source.error(0..0, message));
    }
    for name in given.keys() {
        if !document.parameters.contains_key(name) {
            let known = document.parameters.keys().map(String::as_str);
            let hint = match nearest(name, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if document.parameters.is_empty() => "the format has none".to_string(),
                None => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("the experiment sets an unknown parameter `{name}`; {hint}");
            return Err(source.error(0..0, message));
        }
    }
    let mut values = Vec::new();
    for (name, parameter) in &document.parameters {
        let span = parameter.default.span();
        check_value_name(name).map_err(|message| {
            source.error(span.clone(), format!("parameter `{name}`: {message}"))
        })?;
        let (min, max) = (parameter.min, parameter.max.unwrap_or(u64::MAX));
        let default = *parameter.default.get_ref();
        for (value, whose) in
            [(Some(default), "its default"), (given.get(name).copied(), "the experiment's value")]
        {
            let Some(value) = value.filter(|value| !(min..=max).contains(value)) else { continue };
            let message =
                format!("parameter `{name}`: {whose} is {value}; it can be {min} to {max}");
            return Err(source.error(span, message));
        }
        let value = given.get(name).copied().unwrap_or(default);
        values.push(ParameterValue { name: name.clone(), value, help: parameter.help.clone() });
    }
    Ok(values)
}

fn check_packet_types(source: TomlText<'_>, document: &Document) -> Result<(), LoadError> {
    let packets = &document.packet;
    if packets.is_empty() {
        return Err(source.error(0..0, "the description has no packet type; add a `[[packet]]`"));
    }
    if packets.len() > PACKET_TYPES_MAX {
        let message = format!("there are more than {PACKET_TYPES_MAX} packet types");
        return Err(source.error(packets[PACKET_TYPES_MAX].span(), message));
    }
    for (index, packet) in packets.iter().enumerate() {
        let name = packet.get_ref().name.get_ref();
        if packets[..index].iter().any(|before| before.get_ref().name.get_ref() == name) {
            let span = packet.get_ref().name.span();
            let message = format!("there are two packet types `{name}`; rename one of them");
            return Err(source.error(span, message));
        }
        if packet.get_ref().select.is_none() && index + 1 < packets.len() {
            let message = format!(
                "packet `{name}`: `select` is missing, so the types after it could never come; \
                 say by which fields it is known, or put it last"
            );
            return Err(source.error(packet.get_ref().name.span(), message));
        }
    }
    Ok(())
}
