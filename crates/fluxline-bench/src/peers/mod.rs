//! Other programs beside ours: the same cells, the same cores, the same rounds, in turns.
//!
//! A [`Cell`] is one number to be measured: of a quantity, on a path, of messages of one size. A
//! [`Contender`] says which cells it can do and what in its work is not equal to ours; [`rounds`]
//! has all of them measure all of theirs, in turns, and [`table`] compares each with ours. One
//! file per peer: how it is found, called and read. Peers' programs are started on the cores that
//! ours runs on ([`program`]), and are over when the benchmark is.

mod built;
mod chosen;
pub mod contender;
pub mod flow;
pub mod iperf3;
pub mod libfabric;
pub mod listening;
pub mod netpipe;
pub mod ours;
pub mod program;
pub mod ring;
pub mod rounds;
pub mod sockperf;
pub mod spead2;
pub mod table;
pub mod ucx;

pub use chosen::{Chosen, choose};
pub use contender::{
    Cell, Contender, NoNumber, Number, OURS, Offer, Path, Presence, Quantity, Run, cells,
};

/// The default number of rounds. Ours and a peer can differ beyond the noise from four rounds on.
/// Source: [`crate::statistics::rank_sum`].
pub const ROUNDS: u32 = 5;

/// Lists all contenders, ours first. The first of ours in a cell is what the others are compared
/// with.
#[must_use]
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut all = ring::contenders();
    all.extend(ours::contenders());
    all.push(Box::new(iperf3::Iperf3::find()));
    all.push(Box::new(sockperf::Sockperf::find()));
    all.push(Box::new(netpipe::Netpipe::find()));
    all.extend(ucx::contenders());
    all.push(Box::new(libfabric::Libfabric::find()));
    all.push(Box::new(spead2::Spead2::find()));
    all.extend(built::contenders());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_one_of_ours_to_compare_with() {
        let contenders = contenders();
        for quick in [false, true] {
            for cell in cells(quick) {
                let ours = contenders.iter().filter(|one| one.peer() == OURS);
                let first = ours.filter_map(|one| one.offer(&cell, quick)).next();
                assert!(first.is_some_and(|offer| offer.is_equal), "{cell:?}");
            }
        }
    }

    #[test]
    fn no_two_contenders_have_one_name() {
        let mut names: Vec<&str> = contenders().iter().map(|one| one.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
