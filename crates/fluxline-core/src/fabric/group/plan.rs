//! The plans of collective operations: one rank's steps, as data.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The use of the bytes that a step received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// None: their arrival is all.
    Nothing,
    /// They replace the own ones.
    Replace,
    /// They are combined with the own ones, which come first.
    OwnFirst,
    /// They are combined with the own ones, which come second.
    OwnSecond,
}

/// A step: bytes are sent and received at the same time, then used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub to: Option<usize>,
    pub from: Option<usize>,
    pub then: Then,
}

/// A rank in a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub rank: usize,
    pub size: usize,
}

fn send(to: usize) -> Step {
    Step { to: Some(to), from: None, then: Then::Nothing }
}

fn receive(from: usize, then: Then) -> Step {
    Step { to: None, from: Some(from), then }
}

/// Dissemination: after the step of distance d, each rank knows that 2d ranks have arrived.
pub(super) fn barrier(place: Place) -> VecDeque<Step> {
    let Place { rank, size } = place;
    let distances = core::iter::successors(Some(1), |of| Some(of * 2)).take_while(|of| *of < size);
    let step = |distance| {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        Step { to: Some(to), from: Some(from), then: Then::Nothing }
    };
    distances.map(step).collect()
}

/// A binomial tree below the root.
pub(super) fn broadcast(place: Place, root: usize) -> VecDeque<Step> {
    let Place { rank, size } = place;
    let below = (rank + size - root) % size;
    let at = |below: usize| (below + root) % size;
    let mut steps = VecDeque::new();
    let mut bit = 1;
    while bit < size && below & bit == 0 {
        bit *= 2;
    }
    if bit < size {
        steps.push_back(receive(at(below - bit), Then::Replace));
    }
    // The largest subtree first.
    while bit > 1 {
        bit /= 2;
        if below + bit < size {
            steps.push_back(send(at(below + bit)));
        }
    }
    steps
}

/// Recursive doubling among the largest power of two; the ranks beyond it give their values to a
/// neighbour before, and get the result after.
pub(super) fn all_reduce(place: Place) -> VecDeque<Step> {
    let Place { rank, size } = place;
    let power = if size.is_power_of_two() { size } else { size.next_power_of_two() / 2 };
    let extra = size - power;
    let is_paired = rank < 2 * extra;
    let mut steps = VecDeque::new();
    if is_paired && rank % 2 == 1 {
        steps.push_back(send(rank - 1));
        steps.push_back(receive(rank - 1, Then::Replace));
        return steps;
    }
    if is_paired {
        steps.push_back(receive(rank + 1, Then::OwnFirst));
    }
    let own = if is_paired { rank / 2 } else { rank - extra };
    let mut distance = 1;
    while distance < power {
        let other = own ^ distance;
        let partner = Some(if other < extra { 2 * other } else { other + extra });
        let then = if own < other { Then::OwnFirst } else { Then::OwnSecond };
        steps.push_back(Step { to: partner, from: partner, then });
        distance *= 2;
    }
    if is_paired {
        steps.push_back(send(rank + 1));
    }
    steps
}

/// Returns all other ranks.
pub(super) fn others(place: Place) -> Vec<usize> {
    (0..place.size).filter(|rank| *rank != place.rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest group in these tests.
    const SIZE_MAX: usize = 33;

    /// Runs plans on sets of ranks: a message is the set that its sender knows.
    fn known(size: usize, plan: impl Fn(Place) -> VecDeque<Step>) -> Vec<Vec<bool>> {
        let mut plans: Vec<VecDeque<Step>> =
            (0..size).map(|rank| plan(Place { rank, size })).collect();
        let mut known: Vec<Vec<bool>> =
            (0..size).map(|rank| (0..size).map(|of| of == rank).collect()).collect();
        let mut mail: Vec<Vec<VecDeque<Vec<bool>>>> =
            alloc::vec![alloc::vec![VecDeque::new(); size]; size];
        let mut sent = alloc::vec![false; size];
        loop {
            let mut worked = false;
            for rank in 0..size {
                let Some(step) = plans[rank].front().copied() else { continue };
                if let Some(to) = step.to
                    && !sent[rank]
                {
                    mail[rank][to].push_back(known[rank].clone());
                    (sent[rank], worked) = (true, true);
                }
                if let Some(from) = step.from {
                    let Some(theirs) = mail[from][rank].pop_front() else { continue };
                    known[rank].iter_mut().zip(theirs).for_each(|(own, of)| *own |= of);
                }
                plans[rank].pop_front();
                (sent[rank], worked) = (false, true);
            }
            if !worked {
                break;
            }
        }
        assert!(plans.iter().all(VecDeque::is_empty), "a plan of {size} ranks hangs: {plans:?}");
        assert!(mail.iter().flatten().all(VecDeque::is_empty), "{size}: a message is left");
        known
    }

    #[test]
    fn every_rank_learns_of_every_other_one_in_a_barrier_and_an_all_reduce() {
        for size in 1..=SIZE_MAX {
            for plan in [barrier, all_reduce] {
                assert!(known(size, plan).iter().flatten().all(|knows| *knows), "{size}");
            }
        }
    }

    #[test]
    fn a_broadcast_reaches_all_from_every_root() {
        for size in 1..=SIZE_MAX {
            for root in 0..size {
                let reached = known(size, |place| broadcast(place, root));
                assert!(reached.iter().all(|knows| knows[root]), "{size}, {root}");
            }
        }
    }

    #[test]
    fn the_number_of_steps_grows_as_the_logarithm_of_the_group() {
        for size in 2..=SIZE_MAX {
            let levels = size.next_power_of_two().ilog2() as usize;
            for rank in 0..size {
                let place = Place { rank, size };
                assert_eq!(barrier(place).len(), levels);
                assert!(broadcast(place, 0).len() <= levels);
                assert!(all_reduce(place).len() <= levels + 1, "{size}, {rank}");
            }
        }
    }
}
