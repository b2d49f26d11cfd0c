//! Arrow arrays from decoded columns, without copying the values.

use std::sync::Arc;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, FixedSizeListArray, ListArray, PrimitiveArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use fluxline_packet::columnar::{ByteStrings, ColumnValues, Content, Numbers, Presence};
use fluxline_packet::decode::{Column, ColumnKind};

/// Returns the Arrow type of a column's values; of packed samples, that of one sample.
pub(super) fn value_type(column: &Column) -> DataType {
    let samples = column.packed.as_ref().map(Numbers::of_samples);
    match samples.or_else(|| Numbers::of(column.kind, column.width_bits)) {
        Some(Numbers::U8(_)) => DataType::UInt8,
        Some(Numbers::U16(_)) => DataType::UInt16,
        Some(Numbers::U32(_)) => DataType::UInt32,
        Some(Numbers::U64(_)) => DataType::UInt64,
        Some(Numbers::I8(_)) => DataType::Int8,
        Some(Numbers::I16(_)) => DataType::Int16,
        Some(Numbers::I32(_)) => DataType::Int32,
        Some(Numbers::I64(_)) => DataType::Int64,
        Some(Numbers::F32(_)) => DataType::Float32,
        Some(Numbers::F64(_)) => DataType::Float64,
        None => {
            debug_assert_eq!(column.kind, ColumnKind::Bytes);
            DataType::Binary
        }
    }
}

/// Returns decoded values as an array of a type; nulls only where the type's field has them.
pub(super) fn values(
    column: ColumnValues,
    kind: &DataType,
    nullable: bool,
) -> Result<ArrayRef, ArrowError> {
    let nulls = if nullable { null_buffer(&column.presence) } else { None };
    match column.content {
        Content::Bytes(strings) => Ok(Arc::new(binary(strings, nulls)?)),
        Content::Numbers(values) => numbers(values, nulls),
        Content::Samples(arrays) => {
            lists(numbers(arrays.samples, None)?, &arrays.ends, kind, nulls)
        }
    }
}

/// Returns packed samples as one array of numbers, whatever row they are in.
pub(super) fn samples(column: ColumnValues) -> Result<ArrayRef, ArrowError> {
    match column.content {
        Content::Samples(arrays) => numbers(arrays.samples, None),
        _ => Err(ArrowError::InvalidArgumentError("no packed samples".into())),
    }
}

fn numbers(numbers: Numbers, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    match numbers {
        Numbers::U8(values) => primitive::<UInt8Type>(values, nulls),
        Numbers::U16(values) => primitive::<UInt16Type>(values, nulls),
        Numbers::U32(values) => primitive::<UInt32Type>(values, nulls),
        Numbers::U64(values) => primitive::<UInt64Type>(values, nulls),
        Numbers::I8(values) => primitive::<Int8Type>(values, nulls),
        Numbers::I16(values) => primitive::<Int16Type>(values, nulls),
        Numbers::I32(values) => primitive::<Int32Type>(values, nulls),
        Numbers::I64(values) => primitive::<Int64Type>(values, nulls),
        Numbers::F32(values) => primitive::<Float32Type>(values, nulls),
        Numbers::F64(values) => primitive::<Float64Type>(values, nulls),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?))
}

/// Returns byte strings as an array.
pub(super) fn binary(
    strings: ByteStrings,
    nulls: Option<NullBuffer>,
) -> Result<BinaryArray, ArrowError> {
    BinaryArray::try_new(offsets(&strings.ends), Buffer::from_vec(strings.bytes), nulls)
}

/// Returns the nulls of a column; `None` when every row is present.
pub(super) fn null_buffer(presence: &Presence) -> Option<NullBuffer> {
    presence.flags().map(|flags| NullBuffer::from(flags.to_vec()))
}

/// Returns `array` cut into lists of the type of `field`, which end at `ends`.
pub(super) fn lists(
    array: ArrayRef,
    ends: &[usize],
    kind: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let of = |item: &FieldRef| Arc::clone(item);
    match kind {
        DataType::FixedSizeList(item, length) => {
            let fits = array.len() == ends.len() * *length as usize;
            let list = FixedSizeListArray::try_new(of(item), *length, array, nulls)?;
            match fits {
                true => Ok(Arc::new(list)),
                false => Err(ArrowError::InvalidArgumentError("lists of unequal length".into())),
            }
        }
        DataType::List(item) => {
            Ok(Arc::new(ListArray::try_new(of(item), offsets(ends), array, nulls)?))
        }
        other => Err(ArrowError::InvalidArgumentError(format!("{other} is not a list"))),
    }
}

/// Returns Arrow's offsets of lists; the decoder keeps a batch below 2^31 entries.
fn offsets(ends: &[usize]) -> OffsetBuffer<i32> {
    let offsets = std::iter::once(0).chain(ends.iter().map(|end| *end as i32));
    OffsetBuffer::new(offsets.collect::<Vec<i32>>().into())
}
