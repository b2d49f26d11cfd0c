//! Kinds of values.

/// The interpretation of a value's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// An unsigned integer.
    Unsigned,
    /// A two's complement integer of the value's width.
    Signed,
    /// IEEE 754 binary32 or binary64, by the width.
    Float,
    /// Raw bytes.
    Bytes,
}
