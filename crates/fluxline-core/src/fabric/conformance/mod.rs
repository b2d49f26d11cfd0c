//! One suite for all links: every law of docs/model.md, and random scripts against plain memory.
//!
//! A link's tests say `conformance!(shm, make_pair())`; each law becomes a test of its own. What a
//! link does not promise (its [`super::Capabilities`]) is not asked of it. Laws panic when they are
//! broken: this module is for tests.

pub mod endings;
pub mod laws;
mod nobody;
pub mod script;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Completion, EndpointId, Fabric, Grant, Key, Name, Operation, RegionId, Reliability, RemoteId,
    Rights, Status,
};
use crate::{Moment, Span};

/// The wait for a completion after which the link counts as hung.
const PATIENCE: Span = Span::from_ms(10_000);

/// Two nodes that can reach each other.
pub struct Pair {
    /// The node that connects and posts.
    pub left: Box<dyn Fabric>,
    /// The node that owns regions.
    pub right: Box<dyn Fabric>,
    /// The name by which `left` connects to `right`.
    pub right_name: String,
    /// The clock, real or not; it must move on between calls.
    pub now: Box<dyn FnMut() -> Moment>,
}

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Left,
    /// The one that owns.
    Right,
}

/// Two connected nodes, with what they have been told and nobody has asked for yet.
pub struct Joined {
    /// The nodes.
    pub pair: Pair,
    /// Left's end of the connection.
    pub left: EndpointId,
    /// Right's end.
    pub right: EndpointId,
    completions: [VecDeque<Completion>; 2],
}

/// The key that laws export regions with.
pub const KEY: Key = Key(0x5EED_0001_2345_6789);

/// A name that obeys the rule.
///
/// # Panics
/// When it does not.
#[must_use]
pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

impl Joined {
    /// Connects left to right.
    #[must_use]
    pub fn new(pair: Pair) -> Joined {
        let (left, right) = (EndpointId(0), EndpointId(0));
        let mut joined = Joined { pair, left, right, completions: Default::default() };
        joined.connect_again();
        joined
    }

    /// Connects left to right once more; the new ends become `left` and `right`.
    pub fn connect_again(&mut self) {
        let peer = self.pair.right_name.clone();
        let asked = self.pair.left.connect(&peer, Reliability::Reliable).expect("reachable");
        let connected = |what: &Completion| match what {
            Completion::Connected { endpoint, .. } => Some(*endpoint),
            _ => None,
        };
        self.left = self.wait(Side::Left, connected);
        assert_eq!(self.left, asked, "the end that was asked for is the one that is connected");
        self.right = self.wait(Side::Right, connected);
    }

    /// The nodes, by side.
    pub fn node(&mut self, side: Side) -> &mut dyn Fabric {
        match side {
            Side::Left => &mut *self.pair.left,
            Side::Right => &mut *self.pair.right,
        }
    }

    /// Polls both nodes once; what they tell is kept.
    pub fn turn(&mut self) -> Moment {
        let now = (self.pair.now)();
        while let Some(what) = self.pair.left.poll(now) {
            self.completions[0].push_back(what);
        }
        while let Some(what) = self.pair.right.poll(now) {
            self.completions[1].push_back(what);
        }
        now
    }

    /// Waits until `side` is completions what `wanted` accepts; all else stays for later.
    ///
    /// # Panics
    /// When it is not told in time.
    pub fn wait<T>(&mut self, side: Side, wanted: impl Fn(&Completion) -> Option<T>) -> T {
        let began = (self.pair.now)();
        loop {
            let completions = &mut self.completions[side as usize];
            if let Some(place) = completions.iter().position(|what| wanted(what).is_some()) {
                let what = completions.remove(place);
                return what.as_ref().and_then(&wanted).expect("it was accepted before");
            }
            let now = self.turn();
            assert!(
                now.since(began) < PATIENCE,
                "{side:?} was not told in time; it was told at last {:?}",
                self.completions[side as usize].iter().rev().take(5).collect::<Vec<_>>()
            );
        }
    }

    /// Waits for the completion of left's work `tag`.
    pub fn done(&mut self, tag: u64) -> (Operation, Status, u64) {
        self.wait(Side::Left, |what| match *what {
            Completion::Done { tag: of, operation, status, value, .. } if of == tag => {
                Some((operation, status, value))
            }
            _ => None,
        })
    }

    /// Everything told to `side` so far and not asked for.
    pub fn rest(&mut self, side: Side) -> Vec<Completion> {
        self.completions[side as usize].drain(..).collect()
    }

    /// Makes and exports a region of right's.
    pub fn exported(&mut self, called: &str, bytes: u64, rights: Rights) -> RegionId {
        let region = self.pair.right.register(bytes).expect("memory");
        let grant = Grant { rights, key: KEY };
        self.pair.right.export(region, name(called), grant).expect("a free name");
        region
    }

    /// Imports right's region at left: the region or why not, and its size.
    pub fn import(&mut self, called: &str, key: Key) -> (RemoteId, Status, u64) {
        let asked = self.pair.left.import(self.left, name(called), key).expect("connected");
        self.wait(Side::Left, |what| match *what {
            Completion::Imported { remote, status, bytes } if remote == asked => {
                Some((remote, status, bytes))
            }
            _ => None,
        })
    }

    /// A region of right's that left has imported, all rights granted.
    pub fn shared(&mut self, called: &str, bytes: u64) -> (RegionId, RemoteId) {
        self.shared_with(called, bytes, Rights::ALL)
    }

    /// A region of right's that left has imported with these rights.
    pub fn shared_with(
        &mut self,
        called: &str,
        bytes: u64,
        rights: Rights,
    ) -> (RegionId, RemoteId) {
        let region = self.exported(called, bytes, rights);
        let (remote, status, found) = self.import(called, KEY);
        assert_eq!((status, found), (Status::Done, bytes));
        (region, remote)
    }

    /// Bytes of right's region as they are now.
    pub fn bytes(&self, region: RegionId, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = alloc::vec![0; count];
        let memory = self.pair.right.memory(region).expect("an own region");
        memory.read(offset, &mut bytes).expect("inside");
        bytes
    }
}

/// Makes one test of each law, on the pair that `$make` gives anew for each.
#[macro_export]
macro_rules! conformance {
    ($link:ident, $make:expr) => {
        mod $link {
            use super::*;

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
                identifiers_are_never_used_again,
                a_window_is_the_region_itself,
            );

            #[test]
            fn random_scripts_do_what_plain_memory_does() {
                // `SEED` in the environment repeats a failure.
                let given = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
                let drawn = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos());
                let seed: u64 = given.unwrap_or_else(|| drawn() as u64);
                println!("SEED={seed}");
                $crate::fabric::conformance::script::random_scripts(seed, || $make);
            }
        }
    };
    (@each $of:ident, $make:expr, $($law:ident,)+) => {
        $(
            #[test]
            fn $law() {
                $crate::fabric::conformance::$of::$law($make);
            }
        )+
    };
}
