//! Published experiments, run on models of their machines: the papers' results compared with the
//! models'.
//!
//! Facts, parameters with their origins, figures and variants are in files, one for each family of
//! networks: `crates/fluxline-sim/published/*.toml`. Models give the numbers. A parameter names the
//! facts that it was chosen from; these facts are calibrated, never predicted.
//!
//! A further point of a figure needs its `[[fact]]` alone, with its position in the figure (`at`).
//! To add a paper, write a file and a model, and list it in [`SETS`].

mod atoll;
mod ethernet;
mod links;
mod myrinet;
mod page;
pub mod pair;
mod published;
mod sci;
mod set;
mod sets;
#[cfg(test)]
mod tests;
mod wire;

pub use page::{markdown, page};
pub use pair::BadStand;
pub use published::{At, Axis, Chosen, Fact, Gap, Origin, Plate, Published, Question, Source};
pub use published::{NUMBER, SHAPE};
pub use set::{Comparison, Curve, Figure, Finding, Judged, Parameter, Point, Set, Trials, Verdict};
pub use sets::{SETS, UnknownSet};
