//! One suite for all links: every law of docs/model.md, and random scripts against plain memory.
//!
//! A link's tests say `conformance!(shm, make_pair())`; each law becomes a test of its own.
//! `group_conformance!` does the same for the laws of groups ([`groups`]). A law
//! about something that a link does not promise (`Capabilities`) is skipped for it. A broken law
//! panics: this crate is for tests.

#![forbid(unsafe_code)]

extern crate alloc;

#[doc(hidden)] // For the macros.
pub use fluxline_core;

pub mod batches;
pub mod endings;
pub mod fans;
pub mod groups;
mod joined;
pub mod late;
pub mod laws;
mod nobody;
pub mod own;
pub mod promises;
pub mod rings;
pub mod script;
mod team;

pub use joined::{Joined, KEY, Pair, Side, name};

/// Makes one test of each law; `$make` makes a fresh pair for each.
#[macro_export]
macro_rules! conformance {
    ($link:ident, $make:expr) => {
        mod $link {
            use super::*;

            $crate::conformance!(@each own, $make,
                own_memory_is_the_region_itself,
                own_memory_comes_back,
                empty_own_memory_is_refused,
                a_view_is_the_region_itself,
                a_view_is_refused_while_others_may_write,
                work_under_way_does_not_change_a_view,
            );
            $crate::conformance!(@without_views $make);
        }
    };
    (@without_views $make:expr) => {
        $crate::conformance!(@each endings, $make,
            silent_work_is_done_by_polling,
            a_flush_waits_for_messages,
            a_fence_holds_work_back_behind_messages,
            broken_is_told_after_all_that_was_flushed,
            a_message_into_a_withdrawn_buffer_is_told_to_both,
            both_sides_post_at_once,
            an_unreliable_connection_invents_and_repeats_nothing,
        );
        $crate::conformance!(@each laws, $make,
            a_put_places_its_bytes_and_no_others,
            puts_are_placed_in_order,
            a_notification_comes_after_its_bytes_and_says_where,
            work_that_asks_for_no_completion_gets_none,
            copied_bytes_may_be_changed_at_once,
            a_get_brings_what_a_put_took,
            a_flush_completes_after_all_that_came_before,
            words_of_two_adders_sum_up,
            compare_swap_changes_only_what_is_expected,
            an_unaligned_word_is_refused_and_nothing_changes,
            an_access_beyond_the_region_is_refused_and_nothing_changes,
            an_offset_that_overflows_is_refused,
            every_right_is_asked_for,
            a_wrong_key_imports_nothing,
            a_name_that_nobody_exports_imports_nothing,
            a_withdrawn_region_says_so,
            a_name_can_be_used_again_after_withdrawal,
            two_regions_of_one_name_are_refused,
            a_region_imported_twice_is_one_region,
            messages_come_in_order_into_the_buffers_given,
            a_message_too_long_for_its_buffer_is_told_to_both,
            a_message_without_a_buffer_is_told_to_its_sender,
            a_full_queue_refuses_and_loses_nothing,
            a_disconnect_flushes_all_and_tells_the_peer,
            work_on_an_ended_connection_is_refused,
            a_dead_peer_is_noticed_in_time,
            connecting_to_a_dead_peer_fails_and_does_not_hang,
            connecting_to_oneself_is_refused_at_once,
            time_never_goes_back_and_a_wait_is_not_longer_than_asked,
            identifiers_are_never_used_again,
            a_window_is_the_region_itself,
        );

        $crate::conformance!(@each batches, $make,
            a_gather_is_its_pieces_one_after_the_other,
            a_message_can_be_gathered,
            a_wrong_piece_refuses_the_whole_gather,
            a_gather_has_as_many_pieces_as_the_link_says,
            a_batch_is_its_operations_in_order,
            a_refused_operation_ends_its_batch,
            a_batch_fills_the_queue_and_no_more,
            counters_count_each_operation_once,
        );
        $crate::conformance!(@each late, $make,
            a_peer_that_comes_later_is_connected,
            a_peer_that_never_comes_is_given_up_at_the_deadline,
            an_impossible_peer_is_refused_at_once,
            a_call_can_be_called_off,
        );
        $crate::conformance!(@each promises, $make,
            atomics_and_windows_are_as_promised,
            region_sizes_are_as_promised,
            the_number_of_regions_is_as_promised,
            operation_sizes_are_as_promised,
            the_queue_is_as_long_as_promised,
        );

        mod rings {
            use super::*;
            $crate::conformance!(@rings Best, $make);
        }

        mod rings_by_puts {
            use super::*;
            $crate::conformance!(@rings Puts, $make);
        }

        #[test]
        fn random_scripts_do_what_plain_memory_does() {
            let seed = $crate::fluxline_core::random::test_seed!(1);
            $crate::script::random_scripts(seed, || $make);
        }
    };
    (@rings $path:ident, $make:expr) => {
        $crate::conformance!(@rings $path, $make,
            records_come_once_in_order_with_their_stamps,
            a_full_ring_stalls_and_says_since_when,
            a_finished_sender_is_gone_and_the_next_goes_on,
            a_second_sender_waits_for_its_turn,
            a_sender_that_comes_back_goes_on_behind_the_records_taken,
            delivered_counts_the_records_that_the_program_has_taken,
            a_late_receiver_is_found,
            a_wrong_key_and_a_wrong_region_end_the_sender,
            impossible_plans_and_records_are_refused,
            a_dead_sender_is_gone_in_time,
            a_dead_receiver_is_gone_in_time,
            a_closed_receiver_ends_its_sender,
            the_programs_completions_pass_by,
        );
    };
    (@rings $path:ident, $make:expr, $($law:ident,)+) => {
        $(
            #[test]
            fn $law() {
                let path = $crate::fluxline_core::fabric::push::RingPath::$path;
                $crate::rings::$law($make, path);
            }
        )+
    };
    (@each $of:ident, $make:expr, $($law:ident,)+) => {
        $(
            #[test]
            fn $law() {
                $crate::$of::$law($make);
            }
        )+
    };
}

/// Makes one test of each law of groups; `$make` makes fresh nodes for each, three or more.
#[macro_export]
macro_rules! group_conformance {
    ($link:ident, $make:expr) => {
        mod $link {
            use super::*;

            $crate::conformance!(@each groups, $make,
                messages_come_in_order_and_tags_wait_for_their_receiver,
                long_messages_arrive_whole_from_bytes_and_regions,
                a_message_too_long_for_its_receive_is_an_error_and_the_next_one_arrives,
                a_fast_sender_waits_and_loses_nothing,
                a_receive_behind_too_many_unexpected_messages_is_an_error,
                wrong_calls_are_refused_in_a_sentence,
                broadcasts_of_any_length_are_whole,
                different_operations_are_an_error_that_names_both,
                the_death_of_a_rank_ends_all_calls_that_depend_on_it,
                a_late_rank_joins_and_one_that_never_comes_is_named,
                all_leave_and_nothing_that_was_sent_is_lost,
            );
            $crate::conformance!(@each groups, || $make,
                nobody_passes_a_barrier_before_the_last_one_comes,
                members_with_another_key_or_other_sizes_do_not_join,
            );

            $crate::conformance!(@each fans, $make,
                a_reader_that_ends_stops_nobody_and_may_come_back,
                a_wrong_key_ends_one_branch_and_a_long_record_none,
            );

            #[test]
            fn a_slow_and_late_reader_misses_records_and_holds_nobody() {
                let seed = $crate::fluxline_core::random::test_seed!(1);
                $crate::fans::a_slow_and_late_reader_misses_records_and_holds_nobody(seed, $make);
            }

            #[test]
            fn an_all_reduce_has_equal_bits() {
                let seed = $crate::fluxline_core::random::test_seed!(1);
                $crate::groups::an_all_reduce_has_equal_bits(seed, $make);
            }

            #[test]
            fn random_schedules_are_as_in_queues() {
                let seed = $crate::fluxline_core::random::test_seed!(1);
                let make = || $make;
                $crate::groups::random_schedules_are_as_in_queues(seed, make);
            }
        }
    };
}
