//! The mapping to ESS schemas in words, for `fluxline format show`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::ess::{Array, Events, LogValue, Mixed, NamePart, NameTemplate, Operand, Signal, Time};
use super::layout::{Layout, PacketType};

/// The values that a mapping may use.
struct Words<'a> {
    header: &'a Layout,
    record: Option<&'a Layout>,
}

/// Returns a line for each kind of message that packets of this type make: schema, content.
pub fn lines(packet: &PacketType) -> Vec<(&'static str, String)> {
    let record = packet.records.as_ref().map(|records| &records.layout);
    let words = Words { header: &packet.header, record };
    let mut lines = Vec::new();
    lines.extend(packet.ess.ev44.as_ref().map(|events| ("ev44", words.events(events))));
    lines.extend(packet.ess.da00.as_ref().map(|array| ("da00", words.array(array))));
    lines.extend(packet.ess.f144.iter().map(|value| ("f144", words.log_value(value))));
    lines
}

impl Words<'_> {
    fn of_header(&self, id: usize) -> String {
        self.header.values.get(id).map_or(String::new(), |value| value.name.clone())
    }

    fn of_record(&self, id: usize) -> String {
        let value = self.record.and_then(|record| record.values.get(id));
        value.map_or(String::new(), |value| value.name.clone())
    }

    fn name(&self, template: &NameTemplate) -> String {
        let part = |part: &NamePart| match part {
            NamePart::Text(text) => text.clone(),
            NamePart::Value(id) => format!("{{{}}}", self.of_header(*id)),
        };
        template.parts.iter().map(part).collect()
    }

    fn mixed(&self, mixed: &Mixed) -> String {
        mixed.to_text(&|id| self.of_header(id), &|id| self.of_record(id))
    }

    fn operand(&self, operand: &Operand) -> String {
        match operand {
            Operand::Header(id) => self.of_header(*id),
            Operand::Record(id) => self.of_record(*id),
            Operand::Expression(mixed) => self.mixed(mixed),
        }
    }

    fn time(&self, time: &Time) -> String {
        match time {
            Time::Sensor => String::from("the sensor's time"),
            Time::Arrival => String::from("the time of arrival"),
            Time::Header(mixed) => self.mixed(mixed),
        }
    }

    fn events(&self, events: &Events) -> String {
        let pixel = events.pixel_id.as_ref();
        let pixel = pixel.map_or(String::new(), |id| format!(", pixel {}", self.operand(id)));
        let when = events.when.as_ref();
        let when = when.map_or(String::new(), |when| format!(", when {}", self.mixed(when)));
        format!(
            "{}: time of flight {} ns since {}{pixel}{when}",
            self.name(&events.source_name),
            self.operand(&events.time_of_flight),
            self.time(&events.reference_time)
        )
    }

    fn array(&self, array: &Array) -> String {
        let signal = match array.signal {
            Signal::Record(id) => format!("{} of each record", self.of_record(id)),
            Signal::Payload => String::from("the payload's bytes"),
        };
        let join = if array.join { ", one array for a source in an event" } else { "" };
        format!(
            "{}: {signal}, at {}{join}",
            self.name(&array.source_name),
            self.time(&array.timestamp)
        )
    }

    fn log_value(&self, value: &LogValue) -> String {
        format!(
            "{}: {}, at {}",
            self.name(&value.source_name),
            self.operand(&value.value),
            self.time(&value.timestamp)
        )
    }
}
