//! How far the inputs have come: up to which time of arrival everything of an input was taken, and
//! up to which position.
//!
//! Silence is measured on these clocks, not on the wall clock: a reader that stalls makes nobody
//! silent. The position holds events back where inputs are read on demand.

use fluxline_core::{Moment, Span};

use super::Position;
use crate::merge::Times;

#[derive(Clone, Copy, Debug, Default)]
struct Input {
    /// All that arrived before was taken.
    clock: Moment,
    has_unread: bool,
    ended: bool,
    /// Events wait for it until it has passed them.
    on_demand: OnDemand,
    /// The positions of its two newest packets, the newest first.
    newest: [Option<Position>; 2],
}

/// Whether an input is read on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OnDemand {
    /// It is not.
    #[default]
    No,
    /// It is, and its packets move the clock.
    WithTimes,
    /// It is, and its packets have no times.
    WithoutTimes,
}

/// Packets come at most so far out of order: an event waits for so many more of each input that is
/// read on demand.
const DISORDER_PACKETS: u64 = 64;

impl Input {
    /// How far it has come. The lower one of two, for one wrong key must not take an input to the
    /// end of all.
    fn position(&self) -> Option<Position> {
        let [newest, before] = self.newest;
        newest.map(|newest| before.map_or(newest, |before| before.min(newest)))
    }
}

/// The clocks of all inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    list: Vec<Input>,
    /// Packets with a position, of inputs that are read on demand.
    packets: u64,
    /// [`DISORDER_PACKETS`] of each input that is read on demand and has not ended.
    wait_packets: u64,
}

impl Inputs {
    /// A packet of input `input` that arrived at `arrival` was taken; the input's clock then.
    #[inline]
    pub(super) fn take(&mut self, input: u16, arrival: Moment) -> Moment {
        let of = self.get(input);
        of.clock = of.clock.max(arrival);
        of.clock
    }

    /// Nothing is left of what came to inputs without unread packets.
    pub(super) fn pass(&mut self, now: Moment) {
        for of in self.list.iter_mut().filter(|of| !of.has_unread) {
            of.clock = of.clock.max(now);
        }
    }

    /// Whether packets of `input` wait to be taken.
    pub(super) fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.get(input).has_unread = has_unread;
    }

    /// `input` will give no more packets.
    pub(super) fn end(&mut self, input: u16) {
        self.get(input).ended = true;
        self.count_waiting();
    }

    /// Whether `input` will give no more packets.
    pub(super) fn is_ended(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.ended)
    }

    /// Whether packets of `input` wait to be taken, as far as is known.
    pub(super) fn has_unread(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.has_unread)
    }

    /// A packet of input `input` had this position; only those that are read on demand count.
    #[inline]
    pub(super) fn reach(&mut self, input: u16, position: Position) {
        let of = self.get(input);
        if of.on_demand != OnDemand::No {
            of.newest = [Some(position), of.newest[0]];
            self.packets += 1;
        }
    }

    /// How many packets had a position.
    #[inline]
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// How far `input` has come.
    pub(super) fn position(&self, input: u16) -> Option<Position> {
        self.list.get(usize::from(input)).and_then(Input::position)
    }

    /// Events wait for `input`.
    pub(super) fn read_on_demand(&mut self, input: u16, times: Times) {
        self.get(input).on_demand = match times {
            Times::Captured => OnDemand::WithTimes,
            Times::Absent => OnDemand::WithoutTimes,
        };
        self.count_waiting();
    }

    fn count_waiting(&mut self) {
        let is_open = |of: &&Input| of.on_demand != OnDemand::No && !of.ended;
        self.wait_packets = self.list.iter().filter(is_open).count() as u64 * DISORDER_PACKETS;
    }

    /// How many packets an event waits for, so that those out of order come.
    #[inline]
    pub(super) fn wait_packets(&self) -> u64 {
        self.wait_packets
    }

    /// Whether an input that is read on demand has not passed `position`, so that any source may
    /// still come with it.
    #[inline]
    pub(super) fn hold(&self, position: Position) -> bool {
        let is_open = |of: &&Input| of.on_demand != OnDemand::No && !of.ended;
        let is_behind = |of: &Input| of.position().is_none_or(|reached| reached <= position);
        self.wait_packets > 0 && self.list.iter().filter(is_open).any(is_behind)
    }

    /// Whether inputs are read on demand: some are, so all are.
    #[inline]
    pub(super) fn are_on_demand(&self) -> bool {
        self.list.iter().any(|of| of.on_demand != OnDemand::No)
    }

    /// Whether an input that is read on demand will move the clock.
    #[inline]
    pub(super) fn move_clock(&self) -> bool {
        self.list.iter().any(|of| of.on_demand == OnDemand::WithTimes && !of.ended)
    }

    /// Up to then everything that arrived by `input` was taken.
    #[inline]
    pub(super) fn clock(&self, input: u16) -> Moment {
        self.list.get(usize::from(input)).map_or(Moment::default(), |of| of.clock)
    }

    /// How long `input` has given nothing of what arrived last at `arrival`.
    #[inline]
    pub(super) fn silence(&self, input: u16, arrival: Moment) -> Span {
        let clock = self.list.get(usize::from(input)).map_or(arrival, |of| of.clock);
        clock.since(arrival)
    }

    #[inline]
    fn get(&mut self, input: u16) -> &mut Input {
        let place = usize::from(input);
        if self.list.len() <= place {
            self.list.resize_with(place + 1, Input::default);
        }
        &mut self.list[place]
    }
}
