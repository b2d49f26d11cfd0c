//! Contenders of `fluxline bench peers` on shared memory that are no programs of their own: our
//! push ring, and libraries for which `tools/peers` has a program that is built here.
//!
//! Equal work: each side sends from a buffer of its own and gets what the other sent into memory
//! where it can read it; nobody reads it.

mod build;
mod iceoryx2;
mod mpi;
mod ring;
mod scratch;
mod zeromq;

use fluxline_bench::peers::{Cell, Contender, NoNumber, Number, Quantity};

/// All of them; ours first.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut all = ring::contenders();
    all.push(Box::new(mpi::Mpi::default()));
    all.push(Box::new(zeromq::Zeromq::default()));
    all.push(Box::new(iceoryx2::Iceoryx2::default()));
    all
}

/// What the programs of `tools/peers` are asked for.
fn task(cell: &Cell) -> &'static str {
    if cell.quantity == Quantity::Trip { "trip" } else { "rate" }
}

/// Half a round trip \[ns\], or messages a second: the first word that such a program prints.
fn number(cell: &Cell, text: &str) -> Result<Number, NoNumber> {
    let found = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let missing = || NoNumber::Failed("its program printed no number".to_owned());
    let found = found.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(missing)?;
    Ok(in_unit(cell, found))
}

fn in_unit(cell: &Cell, value: f64) -> Number {
    match cell.quantity {
        Quantity::Trip => (value / 1e3).into(),
        _ => cell.gigabits(value).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxline_bench::peers::Path;

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
