//! The drawing of a packet: rows of 32 bits, bytes in the order of the wire.
//!
//! Fields at fixed places form a grid in which a field may reach over several rows; everything
//! that is not always there, or not always as long, gets a line of its own.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::layout::{FieldOffset, Item, ItemKind, Layout, PacketType, ValueKind};
use super::text::{Text, TextEnd};

/// Bytes in one row.
const ROW_BYTES: usize = 4;
/// Letters that a byte takes, with the line on its right.
const BYTE_LETTERS: usize = 16;
/// Fields longer than this get a line instead of rows \[byte\].
const GRID_FIELD_BYTES_MAX: u32 = 16;

/// The bytes behind the fields.
#[derive(Clone, Copy)]
pub(super) enum Tail<'a> {
    /// The payload of this packet type.
    Payload(&'a PacketType),
    /// No bytes.
    None,
}

/// A field in the grid.
struct Cell {
    name: String,
    bytes: usize,
}

/// The drawing, a line each.
pub(super) fn draw(layout: &Layout, tail: Tail<'_>) -> Vec<String> {
    let fixed = |item: &&Item| {
        item.when.is_none()
            && matches!(item.place, FieldOffset::Fixed(_))
            && item.fixed_bytes().is_some()
    };
    let mut in_grid: Vec<(u32, u32, &Item)> = layout
        .items
        .iter()
        .filter(fixed)
        .filter_map(|item| match item.place {
            FieldOffset::Fixed(at) => Some((at, item.fixed_bytes()?, item)),
            FieldOffset::AfterPrevious | FieldOffset::FromEnd(_) => None,
        })
        .collect();
    in_grid.sort_by_key(|&(at, _, _)| at);
    let mut out = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    let mut cursor = 0;
    for (at, bytes, item) in in_grid {
        let gap = at.saturating_sub(cursor);
        if gap > GRID_FIELD_BYTES_MAX {
            flush(&mut cells, &mut out);
            wide(&mut out, ':', &format!("- {gap} bytes"));
        } else if gap > 0 {
            cells.push(Cell { name: String::from("-"), bytes: gap as usize });
        }
        let name = item.name.clone().unwrap_or_else(|| String::from("-"));
        if bytes > GRID_FIELD_BYTES_MAX || matches!(item.kind, ItemKind::List(_)) {
            flush(&mut cells, &mut out);
            wide(&mut out, ':', &format!("{name}, {bytes} bytes"));
        } else {
            cells.push(Cell { name, bytes: bytes as usize });
        }
        cursor = at + bytes;
    }
    flush(&mut cells, &mut out);
    let at_end = |item: &Item| matches!(item.place, FieldOffset::FromEnd(_));
    for item in layout.items.iter().filter(|item| !fixed(item) && !at_end(item)) {
        varying(layout, item, &mut out);
    }
    if let Tail::Payload(packet) = tail {
        wide(&mut out, ':', &format!("payload: {}", payload_text(packet)));
    }
    for item in layout.items.iter().filter(|item| at_end(item)) {
        varying(layout, item, &mut out);
    }
    close(&mut out);
    out
}

/// Returns the place of the payload, in words.
pub(super) fn payload_text(packet: &PacketType) -> String {
    let text = |expression| packet.header.text_of(expression);
    let payload = &packet.payload;
    let from = match (&payload.from, packet.header.fixed_bytes) {
        (Some(from), _) => format!("bytes {}", text(from)),
        (None, Some(bytes)) => format!("bytes {bytes}"),
        (None, None) => String::from("behind the header"),
    };
    let to = match (&payload.length, &payload.trailer) {
        (Some(length), _) => format!(", {} bytes", text(length)),
        (None, Some(trailer)) => format!(" to end - ({})", text(trailer)),
        (None, None) => String::from(" to the end"),
    };
    let records = packet.records.as_ref().map(|records| match &records.bytes {
        Some(bytes) => {
            let bytes = records.layout.text_of(bytes);
            format!(", records `{}` of {bytes} bytes", records.name)
        }
        None => format!(", records `{}` as long as their fields", records.name),
    });
    format!("{from}{to}{}", records.unwrap_or_default())
}

/// A field that is not always there or not always as long.
fn varying(layout: &Layout, item: &Item, out: &mut Vec<String>) {
    let name = item.name.as_deref().unwrap_or("-");
    let place = match item.place {
        FieldOffset::Fixed(at) => format!(" at {at}"),
        FieldOffset::FromEnd(before) => format!(" at end - {before}"),
        FieldOffset::AfterPrevious => String::new(),
    };
    let what = match &item.kind {
        ItemKind::Word { .. } => format!("{name}, {}{place}", type_name(item)),
        ItemKind::Bytes { length } => {
            format!("{name}, {} bytes{place}", layout.text_of(length))
        }
        ItemKind::Text(text) => format!("{name}, {}{place}", end_of(layout, text)),
        ItemKind::List(list) => {
            let count = layout.text_of(&list.count);
            format!("{name}: {count} items of {} bytes", list.item_bytes)
        }
    };
    match &item.when {
        Some(when) => wide(out, '?', &format!("{what}, when {}", layout.text_of(when))),
        None => wide(out, ':', &what),
    }
}

/// The end of a text, in words.
pub(super) fn end_of(layout: &Layout, text: &Text) -> String {
    match &text.end {
        TextEnd::Length(length) => format!("{} bytes", layout.text_of(length)),
        TextEnd::Mark(marks) => {
            let mark = |byte: &u8| format!("`{}`", char::from(*byte).escape_debug());
            let marks: Vec<String> = marks.iter().map(mark).collect();
            format!("up to {}", marks.join(" or "))
        }
    }
}

const WIDTH: usize = ROW_BYTES * BYTE_LETTERS;

fn close(out: &mut Vec<String>) {
    if !out.is_empty() {
        out.push(format!("+{}+", "-".repeat(WIDTH - 1)));
    }
}

/// A line over the whole width; longer texts take more lines.
fn wide(out: &mut Vec<String>, edge: char, text: &str) {
    close_above(out);
    let room = WIDTH - 3;
    let mut line = String::new();
    let mut lines = Vec::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + 1 + word.len() > room {
            lines.push(core::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    for line in lines {
        out.push(format!("{edge} {line:<room$} {edge}"));
    }
}

fn close_above(out: &mut Vec<String>) {
    out.push(format!("+{}+", "-".repeat(WIDTH - 1)));
}

/// Draws the grid of the collected cells.
fn flush(cells: &mut Vec<Cell>, out: &mut Vec<String>) {
    let cells = core::mem::take(cells);
    let owners: Vec<usize> = cells
        .iter()
        .enumerate()
        .flat_map(|(id, cell)| core::iter::repeat_n(id, cell.bytes))
        .collect();
    let mut above: &[usize] = &[];
    let mut named = Vec::new();
    for row in owners.chunks(ROW_BYTES) {
        out.push(line_between(above, row));
        let mut line = String::from("|");
        let mut column = 0;
        while column < row.len() {
            let owner = row[column];
            let width = row[column..].iter().take_while(|&&id| id == owner).count();
            let room = width * BYTE_LETTERS - 1;
            // A field that reaches over a row is named where it has the most room.
            let rest = cells[owner].bytes.min(ROW_BYTES);
            let here = !named.contains(&owner) && (width * 2 >= rest);
            let text = if here { cells[owner].name.as_str() } else { "" };
            if here {
                named.push(owner);
            }
            line.push_str(&format!(" {:<1$}|", shortened(text, room - 1), room - 1));
            column += width;
        }
        out.push(line);
        above = row;
    }
}

/// The line between two rows: open where one field reaches over it.
fn line_between(above: &[usize], below: &[usize]) -> String {
    let mut line = String::from("+");
    for column in 0..ROW_BYTES {
        let owner = |row: &[usize]| row.get(column).copied();
        let open = owner(above).is_some() && owner(above) == owner(below);
        let letter = if open { " " } else { "-" };
        line.push_str(&letter.repeat(BYTE_LETTERS - 1));
        line.push(if open && column + 1 < ROW_BYTES { ' ' } else { '+' });
    }
    line
}

fn shortened(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(core::iter::once('~')).collect(),
        false => text.to_string(),
    }
}

/// The type of an item as descriptions write it.
pub(super) fn type_name(item: &Item) -> String {
    match &item.kind {
        ItemKind::Word { bytes, kind } => {
            let letter = match kind {
                ValueKind::Signed => 'i',
                ValueKind::Float => 'f',
                ValueKind::Unsigned | ValueKind::Bytes => 'u',
            };
            format!("{letter}{}", u32::from(*bytes) * 8)
        }
        ItemKind::Bytes { .. } => match item.packed {
            Some(packed) => format!("{} {}", packed.type_name(), packed.order.word()),
            None => String::from("bytes"),
        },
        ItemKind::Text(text) => String::from(match text.content {
            ValueKind::Unsigned => "decimal",
            ValueKind::Signed => "signed-decimal",
            ValueKind::Float | ValueKind::Bytes => "bytes",
        }),
        ItemKind::List(_) => String::from("list"),
    }
}
