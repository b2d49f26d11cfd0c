//! The places of lost datagrams: each lost datagram has exactly one.
//!
//! The kernel's counters count messages, and a message may be a train. Some count for the whole
//! host. Some count the same packet twice: in a full backlog, and at its interface. So a counter is
//! an upper limit. Losses are assigned to places in a fixed order, from the socket's own counter,
//! which is exact, to those of the host. The rest is unknown.

use serde::{Deserialize, Serialize};

/// The counts of both sides of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Datagrams that the sender's kernel took.
    pub sent: u64,
    /// Datagrams that arrived, each once.
    pub arrived: u64,
    /// The largest number of datagrams in a message: 1, or the length of a train.
    pub train: u64,
    /// Lost messages by place, in the order of assignment.
    pub places: Vec<(String, u64)>,
}

/// Datagrams lost at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossPlace {
    /// Its name.
    pub name: String,
    /// The number lost there \[datagram\].
    pub datagrams: u64,
}

/// The place of losses that no counter has.
pub const UNKNOWN: &str = "unknown";

/// The losses of a trial: they sum up to sent - arrived. Empty: nothing was lost.
#[must_use]
pub fn places(counted: &Counted) -> Vec<LossPlace> {
    let mut rest = counted.sent.saturating_sub(counted.arrived);
    let mut places = Vec::new();
    for (name, messages) in &counted.places {
        let datagrams = messages.saturating_mul(counted.train.max(1)).min(rest);
        if datagrams > 0 {
            places.push(LossPlace { name: name.clone(), datagrams });
            rest -= datagrams;
        }
    }
    if rest > 0 {
        places.push(LossPlace { name: UNKNOWN.to_owned(), datagrams: rest });
    }
    places
}

/// `socket buffer 90 %, unknown 10 %`; empty when nothing was lost.
#[must_use]
pub fn sentence(places: &[LossPlace]) -> String {
    let lost: u64 = places.iter().map(|place| place.datagrams).sum();
    let part = |place: &LossPlace| {
        let percent = 100.0 * place.datagrams as f64 / lost as f64;
        format!("{} {percent:.0} %", place.name)
    };
    places.iter().map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::*;

    fn counted(sent: u64, arrived: u64, train: u64, places: &[(&str, u64)]) -> Counted {
        let places = places.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Counted { sent, arrived, train, places }
    }

    #[test]
    fn what_no_counter_has_is_unknown() {
        let found = places(&counted(100, 60, 1, &[("socket", 25), ("backlog", 5)]));
        assert_eq!(sentence(&found), "socket 62 %, backlog 12 %, unknown 25 %");
        assert_eq!(found.iter().map(|place| place.datagrams).collect::<Vec<_>>(), [25, 5, 10]);
        assert_eq!(sentence(&places(&counted(100, 100, 1, &[("socket", 25)]))), "");
    }

    #[test]
    fn a_packet_that_two_counters_have_is_lost_once() {
        let found = places(&counted(100, 90, 1, &[("backlog", 10), ("interface lo", 10)]));
        assert_eq!(found, [LossPlace { name: "backlog".to_owned(), datagrams: 10 }]);
    }

    #[test]
    fn a_dropped_train_counts_for_its_datagrams_and_never_for_more_than_is_lost() {
        let found = places(&counted(1_000, 900, 44, &[("socket", 3)]));
        assert_eq!(found[0].datagrams, 100);
        let found = places(&counted(1_000, 900, 44, &[("socket", 1)]));
        assert_eq!((found[0].datagrams, found[1].datagrams), (44, 56));
    }

    #[test]
    fn all_places_together_are_all_that_is_lost() {
        for seed in 0..500 {
            let mut draw = Draw::new(seed);
            let counters = ["a", "b", "c", "d"].map(|name| (name, draw.below(1_000)));
            let counted = counted(draw.below(5_000), draw.below(5_000), draw.below(70), &counters);
            let lost: u64 = places(&counted).iter().map(|place| place.datagrams).sum();
            assert_eq!(lost, counted.sent.saturating_sub(counted.arrived), "seed {seed}");
        }
    }
}
