//! Functions that are not sums of digits: sums of pieces over few variables each, such as a Gray
//! code, a table by comparison or a division.

use alloc::vec;
use alloc::vec::Vec;

use super::function::{Dice, Point};
use super::progression::{Digit, Fault, Progression, of_sum};
use super::{OPERATIONS_MAX, Tried};

/// Most values of a piece that are counted out.
const COUNTED_MAX: u128 = 1 << 16;
/// Points from which the influence of two variables on each other is measured.
const BASES: usize = 3;

/// Returns the numbers of a function: counted out where it has few variables, else those of its
/// pieces.
pub(super) fn numbers_of(tried: &Tried<'_>) -> Result<Progression, Fault> {
    let used = used(tried);
    let (first, digit) = match over_bits(tried, &used) {
        Some(Ok(found)) => found,
        _ if can_be_counted(tried, &used) => counted_out(tried, &used)?,
        _ => return sum_of_pieces(tried, &used),
    };
    let mut found = of_sum(i128::from(first), vec![digit])?;
    found.digits.clear();
    Ok(found)
}

fn used(tried: &Tried<'_>) -> Vec<usize> {
    let used = tried.used();
    (0..used.len()).filter(|&variable| used[variable]).collect()
}

/// The value at a point where only the variables of a piece differ from their smallest.
fn value_of(tried: &Tried<'_>, point: &Point, piece: &[usize]) -> u64 {
    let mut alone = tried.function.lowest();
    piece.iter().for_each(|&variable| alone[variable] = point[variable]);
    tried.function.at(&alone)
}

fn is_bits(tried: &Tried<'_>, piece: &[usize]) -> bool {
    let all = &tried.function.domain.variables;
    piece.iter().all(|&variable| all[variable].values.count() == 2)
}

fn can_be_counted(tried: &Tried<'_>, variables: &[usize]) -> bool {
    let all = &tried.function.domain.variables;
    let counts = variables.iter().map(|&variable| all[variable].values.count());
    let size = counts.fold(1_u128, |size, count| size.saturating_mul(count));
    size <= COUNTED_MAX && (size as usize).saturating_mul(tried.function.cost) <= OPERATIONS_MAX
}

/// Returns the numbers of a function that is a sum of pieces without common variables.
fn sum_of_pieces(tried: &Tried<'_>, used: &[usize]) -> Result<Progression, Fault> {
    let mut pieces = pieces(tried, used)?;
    let base = i128::from(tried.base);
    for (point, value) in tried.points.iter().zip(&tried.values) {
        let each = pieces.iter().map(|piece| value_of(tried, point, piece));
        let sum: i128 = each.map(|value| i128::from(value) - base).sum();
        if base + sum != i128::from(*value) {
            return Err(Fault::Unclear);
        }
    }
    let mut first = base;
    let mut digits = Vec::new();
    // Pieces of bits may fill each other's gaps.
    let bits: Vec<usize> =
        pieces.iter().filter(|piece| is_bits(tried, piece)).flatten().copied().collect();
    if let Some(Ok((least, digit))) = over_bits(tried, &bits) {
        first += i128::from(least) - base;
        digits.push(digit);
        pieces.retain(|piece| !is_bits(tried, piece));
    }
    for piece in &pieces {
        let (least, digit) = digit_of(tried, piece)?;
        first += i128::from(least) - base;
        digits.push(digit);
    }
    let mut found = of_sum(first, digits)?;
    found.digits.clear();
    Ok(found)
}

/// The variables that have influence, together with those that they influence each other with.
fn pieces(tried: &Tried<'_>, used: &[usize]) -> Result<Vec<Vec<usize>>, Fault> {
    let function = &tried.function;
    let trials = BASES * used.len() * used.len() / 2 * 4;
    if trials.saturating_mul(function.cost) > OPERATIONS_MAX {
        return Err(Fault::Unclear);
    }
    let mut dice = Dice(0xBEEF);
    let mut bases = vec![function.lowest()];
    bases.extend((1..BASES).map(|_| function.random(&mut dice)));
    let mut piece_of: Vec<usize> = (0..used.len()).collect();
    for one in 0..used.len() {
        for other in 0..one {
            if piece_of[one] == piece_of[other] {
                continue;
            }
            let linked = bases.iter().any(|base| {
                let values = [used[one], used[other]].map(|variable| {
                    let last = function.last_of(variable);
                    // Another value than the base's, where there is one.
                    let step = 1 + dice.up_to(last.saturating_sub(1));
                    let raised = u128::from(base[variable]) + u128::from(step);
                    (raised % (u128::from(last) + 1)) as u64
                });
                let at = |change_one: bool, change_other: bool| {
                    let mut point = base.clone();
                    if change_one {
                        point[used[one]] = values[0];
                    }
                    if change_other {
                        point[used[other]] = values[1];
                    }
                    i128::from(function.at(&point))
                };
                at(true, true) - at(true, false) != at(false, true) - at(false, false)
            });
            if linked {
                let (from, to) = (piece_of[one], piece_of[other]);
                piece_of.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
            }
        }
    }
    let mut pieces = vec![Vec::new(); used.len()];
    used.iter().zip(piece_of).for_each(|(&variable, piece)| pieces[piece].push(variable));
    pieces.retain(|piece| !piece.is_empty());
    Ok(pieces)
}

/// The least value of a piece, and its numbers as a digit.
fn digit_of(tried: &Tried<'_>, piece: &[usize]) -> Result<(u64, Digit), Fault> {
    if let Some(found) = over_bits(tried, piece) {
        return found;
    }
    match can_be_counted(tried, piece) {
        true => counted_out(tried, piece),
        false => linear(tried, piece),
    }
}

/// A piece that is linear over bits: exclusive sums, as Gray codes and permutations of bits are.
fn over_bits(tried: &Tried<'_>, piece: &[usize]) -> Option<Result<(u64, Digit), Fault>> {
    if !is_bits(tried, piece) {
        return None;
    }
    let columns: Vec<u64> = piece.iter().map(|&of| tried.with(of, 1) ^ tried.base).collect();
    for point in &tried.points {
        let bits = piece.iter().zip(&columns).filter(|(of, _)| point[**of] == 1);
        let sum = bits.fold(tried.base, |sum, (_, column)| sum ^ column);
        if value_of(tried, point, piece) != sum {
            return None;
        }
    }
    let rank = rank_of(&columns);
    let all = columns.iter().fold(0, |all, column| all | column);
    let low = all.trailing_zeros();
    let is_whole = all.count_ones() == rank && all.leading_zeros() + low + rank == 64;
    Some(match is_whole {
        true => {
            let digit = Digit { weight: 1_i128 << low, count: 1 << rank, part: None };
            Ok((tried.base & !all, digit))
        }
        // Its bits depend on each other, or have a gap.
        false => Err(Fault::Uneven),
    })
}

/// The number of independent columns of bits.
fn rank_of(columns: &[u64]) -> u32 {
    let mut basis = [0_u64; 64];
    let mut rank = 0;
    for &column in columns {
        let mut rest = column;
        while rest != 0 {
            let top = 63 - rest.leading_zeros() as usize;
            if basis[top] == 0 {
                (basis[top], rank) = (rest, rank + 1);
                break;
            }
            rest ^= basis[top];
        }
    }
    rank
}

/// A piece whose values are all tried.
fn counted_out(tried: &Tried<'_>, piece: &[usize]) -> Result<(u64, Digit), Fault> {
    let mut values = Vec::new();
    let mut point = tried.function.lowest();
    'all: loop {
        values.push(tried.function.at(&point));
        for &variable in piece {
            if point[variable] < tried.function.last_of(variable) {
                point[variable] += 1;
                continue 'all;
            }
            point[variable] = 0;
        }
        break;
    }
    values.sort_unstable();
    let mut different = values.clone();
    different.dedup();
    let (first, count) = (values[0], different.len());
    let each = values.len() / count;
    let is_even = values.len().is_multiple_of(count)
        && values.chunks_exact(each).all(|chunk| chunk.first() == chunk.last());
    if !is_even || count < 2 {
        return Err(Fault::Uneven);
    }
    let stride = different[1] - first;
    match different.windows(2).find(|pair| pair[1] - pair[0] != stride) {
        Some(pair) => Err(Fault::Skips { missing: pair[0] + stride, next: pair[1] }),
        None => Ok((first, Digit { weight: i128::from(stride), count: count as u128, part: None })),
    }
}

/// One variable with many values, in equal steps.
fn linear(tried: &Tried<'_>, piece: &[usize]) -> Result<(u64, Digit), Fault> {
    let [variable] = *piece else { return Err(Fault::Unclear) };
    let weight = i128::from(tried.with(variable, 1)) - i128::from(tried.base);
    let right = |point: &Point| {
        let value = i128::from(value_of(tried, point, piece));
        value == i128::from(tried.base) + weight * i128::from(point[variable])
    };
    if weight <= 0 || !tried.points.iter().all(right) {
        return Err(Fault::Unclear);
    }
    let count = tried.function.domain.variables[variable].values.count();
    Ok((tried.base, Digit { weight, count, part: None }))
}
