//! The position of each key in a TOML file, by its path: `source.0.udp.listen`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Deepest nesting that is followed; the reader of TOML refuses deeper ones itself.
const DEPTH_MAX: usize = 64;

/// The places of a file's keys.
#[derive(Clone, Debug, Default)]
pub struct Places {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    /// Keys and numbers of list items, with points between them.
    path: String,
    key: Range<usize>,
    value: Range<usize>,
}

impl Places {
    /// Returns the places in `text`; empty if it is not TOML.
    #[must_use]
    pub fn of(text: &str) -> Places {
        let mut places = Places::default();
        if let Ok(table) = DeTable::parse(text) {
            places.table("", table.get_ref(), 0);
        }
        places
    }

    /// Returns the place of the value at `path`, or of the nearest table around it.
    #[must_use]
    pub fn value(&self, path: &str) -> Range<usize> {
        self.nearest_row(path).map_or(0..0, |row| row.value.clone())
    }

    /// Returns the place of the key at `path`, or of the nearest table around it.
    #[must_use]
    pub fn key(&self, path: &str) -> Range<usize> {
        self.nearest_row(path).map_or(0..0, |row| row.key.clone())
    }

    /// Returns the last part of the path whose value is exactly at `span`.
    #[must_use]
    pub(crate) fn key_of_value(&self, span: &Range<usize>) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.value == *span && !row.value.is_empty())?;
        row.path.rsplit('.').find(|part| part.parse::<usize>().is_err())
    }

    fn nearest_row(&self, mut path: &str) -> Option<&Row> {
        loop {
            if let Some(row) = self.rows.iter().find(|row| row.path == path) {
                return Some(row);
            }
            path = path.rsplit_once('.')?.0;
        }
    }

    fn table(&mut self, above: &str, table: &DeTable<'_>, depth: usize) {
        for (key, value) in table {
            let name = key.get_ref();
            let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
            self.row(path, key.span(), value, depth);
        }
    }

    fn row(&mut self, path: String, key: Range<usize>, value: &Spanned<DeValue<'_>>, depth: usize) {
        self.rows.push(Row { path: path.clone(), key, value: value.span() });
        match value.get_ref() {
            _ if depth >= DEPTH_MAX => {}
            DeValue::Table(inner) => self.table(&path, inner, depth + 1),
            DeValue::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.row(format!("{path}.{number}"), item.span(), item, depth + 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    const TEXT: &str = "name = 'x'\n[[source]]\nname = 'a'\n[source.udp]\nlisten = ['p', 'q']\n\
                        [[source]]\nname = 'b'\nudp = { listen = [] }\n";

    fn shown(range: core::ops::Range<usize>) -> &'static str {
        &TEXT[range]
    }

    #[test]
    fn keys_and_values_are_found_by_path_and_unknown_ones_by_their_table() {
        let places = Places::of(TEXT);
        assert_eq!(shown(places.value("source.0.udp.listen.1")), "'q'");
        assert_eq!(shown(places.value("source.1.name")), "'b'");
        assert_eq!(shown(places.key("source.1.udp.listen")), "listen");
        assert_eq!(shown(places.value("source.0.udp.gro")), "[source.udp]");
        assert_eq!(shown(places.value("source.1.core")), "[[source]]");
        assert_eq!(places.value("events.build"), 0..0);
        assert_eq!(places.key_of_value(&places.value("source.0.udp.listen.0")), Some("listen"));
        assert_eq!(places.key_of_value(&(1..2)), None);
    }

    #[test]
    fn what_is_no_toml_has_no_places() {
        assert_eq!(Places::of("x = [").value("x"), 0..0);
    }
}
