//! Published experiments, run on models of their machines: the papers' results compared with the
//! models'.
//!
//! A [`Fact`] is data: source, statement, number, unit, tolerance. A [`Parameter`] names the facts
//! that it was chosen from; these facts are calibrated, all others are predicted or missed. To add
//! a paper, write its facts, its parameters and a model, and list its [`Set`] in [`SETS`].

pub mod atoll;
pub mod ethernet;
mod fact;
mod figure;
mod judge;
pub mod links;
mod markdown;
pub mod myrinet;
mod page;
pub mod pair;
mod parameter;
pub mod sci;
mod set;
mod sets;
mod tables;
#[cfg(test)]
mod tests;
pub mod validation;
pub mod wire;

pub use fact::{Fact, Finding, NUMBER, SHAPE};
pub use figure::{Axis, Curve, Figure, Point};
pub use judge::{Judged, Verdict};
pub use markdown::markdown;
pub use page::page;
pub use parameter::{Origin, Parameter};
pub use set::{Comparison, Gap, Run, Set, Source, Trials};
pub use sets::{SETS, UnknownSet};
