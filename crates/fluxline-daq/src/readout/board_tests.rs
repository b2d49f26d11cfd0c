//! A board's own counts: what the receiver makes of them, compared with what the board did.

use fluxline_packet::BoardCounts;

use super::Counted;
use super::board::BoardLedger;
use crate::counters::SourceCounters;

/// A packet of a board, by its place in the count of packets.
fn packet(place: u64, taken: u64, dropped: u64, restarts: u32) -> (BoardCounts, Counted) {
    let counts = BoardCounts { taken, dropped };
    (counts, Counted { class: 0, count: place, missing: 0, reordered: false, restarts })
}

fn counters(packets: &[(BoardCounts, Counted)], bits: u8) -> SourceCounters {
    let mut ledger = BoardLedger::default();
    packets.iter().for_each(|(counts, counted)| ledger.take(*counts, counted, bits));
    let mut counters = SourceCounters::default();
    ledger.add_to(&mut counters);
    counters
}

#[test]
fn drops_before_the_first_packet_and_losses_on_the_way_are_not_taken_for_drops() {
    // 5 blocks were dropped before; packets 11 and 12 are lost; 3 blocks are dropped behind 12.
    let came = counters(&[packet(10, 15, 5, 0), packet(13, 21, 8, 0)], 32);
    assert_eq!((came.board_taken, came.board_dropped, came.board_contradictions), (7, 3, 0));
}

#[test]
fn counts_that_begin_anew_and_packets_out_of_order_change_nothing() {
    let top = u64::from(u16::MAX);
    let packets = [
        packet(101, top, top - 2, 0),
        packet(100, top - 3, top - 4, 0),
        packet(103, 2, top - 1, 0),
        packet(102, 1, top - 1, 0),
    ];
    let came = counters(&packets, 16);
    // Packets 100 to 103, and 3 dropped between them.
    assert_eq!((came.board_taken, came.board_dropped, came.board_contradictions), (7, 3, 0));
}

#[test]
fn a_restarted_board_counts_from_its_first_packet_again() {
    let came = counters(&[packet(7, 9, 2, 0), packet(8, 11, 3, 0), packet(50, 0, 0, 1)], 32);
    assert_eq!((came.board_taken, came.board_dropped), (4, 1));
}

#[test]
fn nonsense_in_the_counts_is_counted_and_never_believed() {
    let packets = [packet(0, 0, 0, 0), packet(1, u64::MAX, 5, 0), packet(2, 0, 1 << 63, 0)];
    let came = counters(&packets, 64);
    // Three packets, and nothing that they claim.
    assert_eq!((came.board_taken, came.board_dropped, came.board_contradictions), (3, 0, 2));
}
