//! The fast loop over the samples of a packet: a field of whole words, alone or compared with a
//! constant, as in `max(adc)` and `any(adc > 300)`.

use fluxline_packet::expression::Binary;
use fluxline_packet::model::ByteOrder;

use super::compile::Expression;
use super::evaluate::{Numbers, PacketScope, Sum};
use super::load::{Access, FixedField};
use super::value::Value;

/// Adds all samples of a packet to an aggregate, if its body is simple enough; returns false, and
/// adds nothing, if not.
pub(super) fn add(packet: &PacketScope<'_>, body: &Expression, sum: &mut Sum) -> bool {
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
    let (Some(Access::Sample(field)), Some(bytes)) = (packet.access(field), packet.sample_bytes())
    else {
        return false;
    };
    if !field.is_whole_integer() {
        return false;
    }
    let samples = packet.payload().chunks_exact(bytes);
    let little = field.byte_order == ByteOrder::Little;
    macro_rules! with {
        ($signed:ty, $unsigned:ty) => {
            match (field.is_signed(), little) {
                (true, true) => each(samples, field, limit, <$signed>::from_le_bytes, sum),
                (true, false) => each(samples, field, limit, <$signed>::from_be_bytes, sum),
                (false, true) => each(samples, field, limit, <$unsigned>::from_le_bytes, sum),
                (false, false) => each(samples, field, limit, <$unsigned>::from_be_bytes, sum),
            }
        };
    }
    match field.bytes {
        1 => with!(i8, u8),
        2 => with!(i16, u16),
        4 => with!(i32, u32),
        8 => with!(i64, u64),
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

/// Adds the field of every sample.
#[inline]
fn each<T: Into<i128> + Ord + Copy, const BYTES: usize>(
    samples: std::slice::ChunksExact<'_, u8>,
    field: FixedField,
    limit: Option<Limit>,
    join: fn([u8; BYTES]) -> T,
    sum: &mut Sum,
) {
    let values = samples.filter_map(|sample| {
        let word = sample.get(field.start..)?.first_chunk::<BYTES>()?;
        Some(join(*word))
    });
    match limit {
        Some(Limit { operator, value }) => {
            let passes = move |one: T| {
                let one: i128 = one.into();
                match operator {
                    Binary::Less => one < value,
                    Binary::LessOrEqual => one <= value,
                    Binary::Greater => one > value,
                    Binary::GreaterOrEqual => one >= value,
                    _ => {
                        let result =
                            Value::binary(operator, Value::Integer(one), Value::Integer(value));
                        result.is_true()
                    }
                }
            };
            let (mut of, mut count) = (0, 0);
            for value in values {
                of += 1;
                count += u64::from(passes(value));
            }
            sum.add_truths(of, count);
        }
        None => sum.add_numbers(&numbers(values)),
    }
}

fn numbers<T: Into<i128> + Ord + Copy>(values: impl Iterator<Item = T>) -> Numbers {
    let (mut numbers, mut least, mut greatest) =
        (Numbers { count: 0, zeros: 0, sum: 0, least: 0, greatest: 0 }, None, None);
    for value in values {
        let wide: i128 = value.into();
        numbers.count += 1;
        numbers.zeros += u64::from(wide == 0);
        numbers.sum += wide;
        least = Some(least.map_or(value, |least: T| least.min(value)));
        greatest = Some(greatest.map_or(value, |greatest: T| greatest.max(value)));
    }
    if let (Some(least), Some(greatest)) = (least, greatest) {
        (numbers.least, numbers.greatest) = (least.into(), greatest.into());
    }
    numbers
}
