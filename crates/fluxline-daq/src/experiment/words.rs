//! Values that are a number or a word: read with messages that say both.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use super::{Require, Speed, SpeedWord, Sync, SyncWord};

/// Reads a number or one of some words.
struct NumberOrWord<T: 'static> {
    /// What may stand there.
    expected: &'static str,
    number: fn(f64) -> T,
    words: &'static [(&'static str, T)],
}

impl<T: Copy> Visitor<'_> for NumberOrWord<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Ok((self.number)(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Ok((self.number)(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Ok((self.number)(number as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let known = self.words.iter().find(|(word, _)| *word == text);
        known
            .map(|(_, value)| *value)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Speed, D::Error> {
        from.deserialize_any(NumberOrWord {
            expected: "datagrams per second, \"full\" or \"recorded\"",
            number: Speed::Rate,
            words: &[
                ("full", Speed::Word(SpeedWord::Full)),
                ("recorded", Speed::Word(SpeedWord::Recorded)),
            ],
        })
    }
}

impl<'de> Deserialize<'de> for Sync {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sync, D::Error> {
        from.deserialize_any(NumberOrWord {
            expected: "seconds, \"none\" or \"batch\"",
            number: Sync::Seconds,
            words: &[("none", Sync::Word(SyncWord::None)), ("batch", Sync::Word(SyncWord::Batch))],
        })
    }
}

struct RequireVisitor;

impl<'de> Visitor<'de> for RequireVisitor {
    type Value = Require;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number of sources, or a list of their labels, like [\"a\", \"b\"]")
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Require, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Signed(count), &self);
        u32::try_from(count).map_err(wrong).map(Require::Count)
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Require, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Unsigned(count), &self);
        u32::try_from(count).map_err(wrong).map(Require::Count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Require, A::Error> {
        let mut labels = Vec::new();
        while let Some(label) = list.next_element()? {
            labels.push(label);
        }
        Ok(Require::Labels(labels))
    }
}

impl<'de> Deserialize<'de> for Require {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Require, D::Error> {
        from.deserialize_any(RequireVisitor)
    }
}
