//! The health of a run: one verdict of now, from rules over counters and time.
//!
//! `sample.rs` takes the counts once a second. `rules.rs` finds what is not normal, and
//! [`crate::alarms`] keeps it. `keeper.rs` is the thread that does this, and that writes the
//! history. Each change of an alarm goes to the command of the experiment (`notify.rs`).

mod keeper;
mod notify;
mod rules;
mod sample;
#[cfg(test)]
mod tests;

pub(crate) use keeper::{Keeper, Kept};
