//! The argument and the output that the programs of `tools/peers` share.

use crate::peers::contender::{Cell, NoNumber, Number, Quantity};

/// The argument of the programs of `tools/peers` that selects the task.
pub fn task(cell: &Cell) -> &'static str {
    if cell.quantity == Quantity::Trip { "trip" } else { "rate" }
}

/// Reads the first word that such a program prints: half a round trip \[ns\], or messages per
/// second.
pub fn number(cell: &Cell, text: &str) -> Result<Number, NoNumber> {
    let found = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let missing = || NoNumber::Failed("its program printed no number".to_owned());
    let found = found.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(missing)?;
    Ok(cell.number(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::Path;

    #[test]
    fn numbers_get_their_unit_and_garbage_is_none() {
        let trip = Cell { quantity: Quantity::Trip, path: Path::Shm, bytes: 1000 };
        assert_eq!(number(&trip, "250.0\n").expect("a number").value, 0.25);
        let stream = Cell { quantity: Quantity::Stream, ..trip };
        assert_eq!(number(&stream, "1000000 x").expect("a number").value, 8.0);
        for text in ["", "x", "nan", "-1", "0", "inf"] {
            assert!(number(&trip, text).is_err(), "{text}");
        }
    }
}
