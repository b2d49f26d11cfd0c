//! Types of fields by name, and the order of bits of packed samples.

use core::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// Types of a field; the number is the width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum FieldType {
    U8,
    U16,
    U24,
    U32,
    U40,
    U48,
    U56,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Bytes,
    /// A number in decimal digits.
    Decimal,
    SignedDecimal,
    /// Any other width, for packed samples.
    Odd {
        bits: u8,
        signed: bool,
    },
}

/// The types of whole bytes, by name.
const WHOLE_TYPES: [(&str, FieldType); 17] = [
    ("u8", FieldType::U8),
    ("u16", FieldType::U16),
    ("u24", FieldType::U24),
    ("u32", FieldType::U32),
    ("u40", FieldType::U40),
    ("u48", FieldType::U48),
    ("u56", FieldType::U56),
    ("u64", FieldType::U64),
    ("i8", FieldType::I8),
    ("i16", FieldType::I16),
    ("i32", FieldType::I32),
    ("i64", FieldType::I64),
    ("f32", FieldType::F32),
    ("f64", FieldType::F64),
    ("bytes", FieldType::Bytes),
    ("decimal", FieldType::Decimal),
    ("signed-decimal", FieldType::SignedDecimal),
];

impl FieldType {
    fn parse(word: &str) -> Option<FieldType> {
        if let Some((_, kind)) = WHOLE_TYPES.iter().find(|(name, _)| *name == word) {
            return Some(*kind);
        }
        let signed = word.starts_with('i');
        let digits = word.strip_prefix(['u', 'i'])?;
        let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = digits.parse().ok().filter(|bits| plain && (1..=64).contains(bits))?;
        Some(FieldType::Odd { bits, signed })
    }
}

impl<'de> Deserialize<'de> for FieldType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldType, D::Error> {
        struct OfType;
        impl Visitor<'_> for OfType {
            type Value = FieldType;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a type")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<FieldType, E> {
                const NAMES: [&str; 17] = {
                    let mut names = [""; 17];
                    let mut at = 0;
                    while at < names.len() {
                        names[at] = WHOLE_TYPES[at].0;
                        at += 1;
                    }
                    names
                };
                FieldType::parse(word).ok_or_else(|| E::unknown_variant(word, &NAMES))
            }
        }
        deserializer.deserialize_str(OfType)
    }
}

/// The order in which packed samples fill bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum BitOrder {
    /// The first sample is in the lowest bits of the first byte.
    LsbFirst,
    /// The first sample is in the highest bits of the first byte.
    MsbFirst,
}

impl BitOrder {
    /// Returns its name in descriptions.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            BitOrder::LsbFirst => "lsb-first",
            BitOrder::MsbFirst => "msb-first",
        }
    }
}
