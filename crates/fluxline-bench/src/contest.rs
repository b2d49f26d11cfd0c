//! Compares ours with each contender of the same cell.

use crate::result::{Beside, Contest};
use crate::statistics::{Better, Verdict, compare, median};

/// A comparison of ours with a contender.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Ours divided by theirs.
    pub ratio: f64,
    /// The verdict in words.
    pub verdict: &'static str,
    /// True: ours is better; false: ours is worse; `None`: they do not differ beyond the noise.
    pub is_better: Option<bool>,
}

/// Returns the first of ours in the same cell: the others are compared with it.
pub fn ours<'a>(of: &Contest, all: &'a [Contest]) -> Option<&'a Contest> {
    all.iter().find(|one| one.is_ours && one.is_equal && one.is_same_cell(of))
}

/// Compares ours with a contender. `None`: it is ours, or one of them has no number.
#[must_use]
pub fn comparison(contest: &Contest, all: &[Contest]) -> Option<Comparison> {
    let ours = ours(contest, all).filter(|ours| *ours != contest)?;
    let ratio = median(&ours.samples)? / median(&contest.samples)?;
    if !contest.is_equal {
        return Some(Comparison { ratio, verdict: "not equal work", is_better: None });
    }
    let found = compare(&contest.samples, &ours.samples, Better::by_unit(&contest.unit));
    let (verdict, is_better) = match found {
        Verdict::Better => ("fluxline better", Some(true)),
        Verdict::Worse => ("fluxline worse", Some(false)),
        Verdict::Same => ("equal within the noise", None),
        Verdict::Unknown => ("too few rounds", None),
    };
    Some(Comparison { ratio, verdict, is_better })
}

/// Returns the best peer of equal work in the cell of `ours`.
#[must_use]
pub fn best(ours: &Contest, all: &[Contest]) -> Option<Beside> {
    let is_peer = |one: &&Contest| !one.is_ours && one.is_equal && one.is_same_cell(ours);
    let peers = all
        .iter()
        .filter(is_peer)
        .filter_map(|one| Beside::of(&one.contender, one.samples.clone()));
    let order = |one: &Beside, other: &Beside| one.value().total_cmp(&other.value());
    match Better::by_unit(&ours.unit) {
        Better::Lower => peers.min_by(order),
        Better::Higher => peers.max_by(order),
    }
}

/// Returns the median of the loss \[%\], for people; `None`: nothing can be lost.
#[must_use]
pub fn lost(contest: &Contest) -> Option<String> {
    median(&contest.lost).map(|lost| format!("{lost:.1} %"))
}
