//! Values that are a number or a word, and a number or a list: messages name both.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::builder::Expectation;
use crate::capture::replay::Speed;
use crate::record::SyncPolicy;

/// Reads a number or one of some words.
struct NumberOrWord<T: 'static> {
    /// The allowed values, for messages.
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
            words: &[("full", Speed::Full), ("recorded", Speed::Recorded)],
        })
    }
}

impl<'de> Deserialize<'de> for SyncPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SyncPolicy, D::Error> {
        from.deserialize_any(NumberOrWord {
            expected: "seconds, \"none\" or \"batch\"",
            number: SyncPolicy::EverySeconds,
            words: &[("none", SyncPolicy::None), ("batch", SyncPolicy::Batch)],
        })
    }
}

impl Serialize for Speed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Speed::Rate(rate) => to.serialize_f64(*rate),
            Speed::Full => to.serialize_str("full"),
            Speed::Recorded => to.serialize_str("recorded"),
        }
    }
}

impl Serialize for SyncPolicy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            SyncPolicy::EverySeconds(seconds) => to.serialize_f64(*seconds),
            SyncPolicy::None => to.serialize_str("none"),
            SyncPolicy::Batch => to.serialize_str("batch"),
        }
    }
}

impl Serialize for Expectation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Expectation::Joined => to.serialize_u32(0),
            Expectation::Count(count) => to.serialize_u32(*count),
            Expectation::Sources(labels) => labels.serialize(to),
        }
    }
}

struct ExpectationVisitor;

impl<'de> Visitor<'de> for ExpectationVisitor {
    type Value = Expectation;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number of sources, or a list of their labels, like [\"a\", \"b\"]")
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Expectation, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Signed(count), &self);
        u32::try_from(count).map_err(wrong).map(Expectation::of_count)
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Expectation, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Unsigned(count), &self);
        u32::try_from(count).map_err(wrong).map(Expectation::of_count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Expectation, A::Error> {
        let mut labels = Vec::new();
        while let Some(label) = list.next_element()? {
            labels.push(label);
        }
        Ok(Expectation::Sources(labels))
    }
}

impl<'de> Deserialize<'de> for Expectation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Expectation, D::Error> {
        from.deserialize_any(ExpectationVisitor)
    }
}
