//! Descriptions drawn from an input, and the packets that their boards send.

use std::collections::BTreeMap;
use std::fmt::Write;

use fluxline_packet::Description;

use crate::draw::Draw;

/// The way in which a packet gives its part of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Whole,
    Index,
    Bytes,
}

/// The layout of a board's packets: a magic byte, the board, then what was drawn.
pub(super) struct Layout {
    big_endian: bool,
    /// Width of the packet counter \[byte\]; `None`: packets have none.
    counter_bytes: Option<usize>,
    /// Width of the event key \[byte\]; `None`: packets have none.
    key_bytes: Option<usize>,
    parts: Parts,
    has_time: bool,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    pub board: u8,
    pub counter: u64,
    pub key: u64,
    /// Index or offset.
    pub part: u8,
    /// Count or total.
    pub parts: u8,
    pub time: u64,
    /// Payload: the number of bytes, all of one value.
    pub payload: (u8, u8),
}

const MAGIC: u8 = 0xF1;

impl Layout {
    pub(super) fn draw(draw: &mut Draw<'_>) -> Layout {
        let widths = [Some(1), Some(2), Some(4), Some(8), None];
        let key_bytes = draw.one_of(&widths);
        let parts = draw.one_of(&[Parts::Whole, Parts::Whole, Parts::Index, Parts::Bytes]);
        Layout {
            big_endian: draw.below(2) == 0,
            counter_bytes: draw.one_of(&widths),
            key_bytes,
            parts: if key_bytes.is_some() { parts } else { Parts::Whole },
            has_time: draw.below(2) == 1,
        }
    }

    /// Its description, as a user would write it.
    pub(super) fn describe(&self, name: &str) -> Description {
        let order = if self.big_endian { "big" } else { "little" };
        let mut text = format!(
            "name = \"{name}\"\nabout = \"drawn\"\nreference = \"drawn\"\n\
             byte-order = \"{order}\"\n[[packet]]\nname = \"data\"\nsource = [\"board\"]\n"
        );
        let mut fields = format!(
            "{{ name = \"magic\", type = \"u8\", equals = {MAGIC} }}, \
             {{ name = \"board\", type = \"u8\", max = 7 }}"
        );
        let mut field = |name: &str, bytes: usize| {
            let _ = write!(fields, ", {{ name = \"{name}\", type = \"u{}\" }}", 8 * bytes);
        };
        if let Some(bytes) = self.counter_bytes {
            field("counter", bytes);
            text.push_str("sequence = { value = \"counter\" }\n");
        }
        if let Some(bytes) = self.key_bytes {
            field("key", bytes);
            text.push_str("event = { key = \"key\" }\n");
        }
        match self.parts {
            Parts::Whole => {}
            Parts::Index => {
                field("index", 1);
                field("count", 1);
                text.push_str("fragment = { index = \"index\", count = \"count\" }\n");
            }
            Parts::Bytes => {
                field("offset", 1);
                field("total", 1);
                text.push_str("fragment = { offset = \"offset\", total = \"total\" }\n");
            }
        }
        if self.has_time {
            field("time", 8);
            let role = "timestamp = { ticks = \"time\", unit = \"1 ns\", epoch = \"start\" }\n";
            text.push_str(role);
        }
        let _ = writeln!(text, "fields = [{fields}]");
        match Description::load("drawn.toml", &text, &BTreeMap::new()) {
            Ok(description) => description,
            Err(error) => panic!("a drawn description is right: {error}\n{text}"),
        }
    }

    /// A packet.
    pub(super) fn packet(&self, content: &Content) -> Vec<u8> {
        let mut bytes = vec![MAGIC, content.board];
        let mut put = |value: u64, width: usize| match self.big_endian {
            true => bytes.extend(&value.to_be_bytes()[8 - width..]),
            false => bytes.extend(&value.to_le_bytes()[..width]),
        };
        if let Some(width) = self.counter_bytes {
            put(content.counter, width);
        }
        if let Some(width) = self.key_bytes {
            put(content.key, width);
        }
        if self.parts != Parts::Whole {
            put(content.part.into(), 1);
            put(content.parts.into(), 1);
        }
        if self.has_time {
            put(content.time, 8);
        }
        let (count, value) = content.payload;
        bytes.resize(bytes.len() + usize::from(count), value);
        bytes
    }
}
