//! The fast loop over the samples of a packet: a field of whole words, alone or compared with a
//! constant, as in `max(adc)` and `any(adc > 300)`.

use fluxline_packet::expression::Binary;
use fluxline_packet::model::ByteOrder;

use super::compile::Expression;
use super::load::Access;
use super::sum::{Numbers, Sum};
use super::value::Value;

/// The samples of a packet as they lie in its bytes.
pub(super) struct Packed<'a> {
    /// The bytes of all samples.
    pub payload: &'a [u8],
    /// Size of every sample, where it is fixed \[byte\].
    pub sample_bytes: Option<usize>,
    /// The places of the fields that the expression names, by number.
    pub fields: &'a [Option<Access>],
}

/// Adds all samples of a packet to an aggregate, if its body is simple enough; returns false, and
/// adds nothing, if not.
pub(super) fn add(packet: &Packed<'_>, body: &Expression, sum: &mut Sum) -> bool {
    let (field, limit) = match body {
        Expression::Field(field) => (*field, None),
        Expression::Binary(operator, left, right) => match (&**left, &**right) {
            (Expression::Field(field), Expression::Constant(Value::Integer(limit)))
                if sum.is_of_truths() =>
            {
                (*field, Some(Limit { operator: *operator, value: *limit }))
            }
            _ => return false,
        },
        _ => return false,
    };
    let (Some(Access::Sample(field)), Some(bytes)) = (packet.fields[field], packet.sample_bytes)
    else {
        return false;
    };
    if !field.is_whole_integer() {
        return false;
    }
    let samples = packet.payload.chunks_exact(bytes);
    let sweep = Sweep { samples, start: field.start, limit };
    let little = field.byte_order == ByteOrder::Little;
    macro_rules! with {
        ($wide:ty, $signed:ty, $unsigned:ty) => {
            match (field.is_signed(), little) {
                (true, true) => sweep.add(|b| <$wide>::from(<$signed>::from_le_bytes(b)), sum),
                (true, false) => sweep.add(|b| <$wide>::from(<$signed>::from_be_bytes(b)), sum),
                (false, true) => sweep.add(|b| <$wide>::from(<$unsigned>::from_le_bytes(b)), sum),
                (false, false) => sweep.add(|b| <$wide>::from(<$unsigned>::from_be_bytes(b)), sum),
            }
        };
    }
    match field.bytes {
        1 => with!(i32, i8, u8),
        2 => with!(i32, i16, u16),
        4 => with!(i64, i32, u32),
        8 => with!(i128, i64, u64),
        _ => return false,
    }
    true
}

/// A comparison with a constant.
#[derive(Clone, Copy)]
struct Limit {
    operator: Binary,
    value: i128,
}

/// An integer that is wide enough for the samples and for one beyond them on both sides.
trait Wide: Copy + Ord + Into<i128> {
    /// Returns the nearest number.
    fn nearest(value: i128) -> Self;
}

macro_rules! wide {
    ($($integer:ty),*) => {$(
        impl Wide for $integer {
            fn nearest(value: i128) -> $integer {
                value.clamp(<$integer>::MIN.into(), <$integer>::MAX.into()) as $integer
            }
        }
    )*};
}
wide!(i32, i64, i128);

/// The samples of a packet.
struct Sweep<'a> {
    samples: std::slice::ChunksExact<'a, u8>,
    /// Start of the field in a sample \[byte\].
    start: usize,
    limit: Option<Limit>,
}

impl Sweep<'_> {
    /// Adds the field of every sample.
    #[inline]
    fn add<W: Wide, const BYTES: usize>(self, join: impl Fn([u8; BYTES]) -> W, sum: &mut Sum) {
        let start = self.start;
        let values = self.samples.filter_map(|sample| {
            let word = sample.get(start..)?.first_chunk::<BYTES>()?;
            Some(join(*word))
        });
        let Some(Limit { operator, value }) = self.limit else {
            return sum.add_numbers(&numbers(values));
        };
        let limit = W::nearest(value);
        match operator {
            Binary::Less => add_truths(values, |one| one < limit, sum),
            Binary::LessOrEqual => add_truths(values, |one| one <= limit, sum),
            Binary::Greater => add_truths(values, |one| one > limit, sum),
            Binary::GreaterOrEqual => add_truths(values, |one| one >= limit, sum),
            Binary::Equal => add_truths(values, |one| one == limit, sum),
            Binary::NotEqual => add_truths(values, |one| one != limit, sum),
            _ => {
                let limit = Value::Integer(value);
                let result = |one: W| Value::binary(operator, Value::Integer(one.into()), limit);
                add_truths(values, |one| result(one).is_true(), sum);
            }
        }
    }
}

#[inline]
fn add_truths<W>(values: impl Iterator<Item = W>, is_true: impl Fn(W) -> bool, sum: &mut Sum) {
    let (mut of, mut count) = (0, 0);
    for value in values {
        of += 1;
        count += u64::from(is_true(value));
    }
    sum.add_truths(of, count);
}

#[inline]
fn numbers<W: Wide>(values: impl Iterator<Item = W>) -> Numbers {
    let (mut count, mut zeros, mut sum) = (0, 0, 0i128);
    let (mut least, mut greatest) = (None::<W>, None::<W>);
    for value in values {
        let wide: i128 = value.into();
        count += 1;
        zeros += u64::from(wide == 0);
        sum += wide;
        least = Some(least.map_or(value, |least| least.min(value)));
        greatest = Some(greatest.map_or(value, |greatest| greatest.max(value)));
    }
    let wide = |value: Option<W>| value.map_or(0, Into::into);
    Numbers { count, zeros, sum, least: wide(least), greatest: wide(greatest) }
}
