//! Progress of the inputs: the time of arrival, and the position, up to which all packets of an
//! input were taken.
//!
//! Silence is measured on these clocks, not on the wall clock, so that a reader that stalls makes
//! no source silent. The position holds events back where inputs are read on demand.

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::Position;
use crate::times::Times;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Input {
    /// Everything that arrived before this time was taken.
    clock: Moment,
    /// Everything that arrived before this time was taken, of an input that is followed by its
    /// marks; silence is measured on it.
    mark: Option<Moment>,
    has_unread: bool,
    ended: bool,
    /// Events wait for it until it has passed them.
    on_demand: OnDemand,
    /// The positions of its two newest packets, the newest first.
    newest: [Option<Position>; 2],
}

/// The way in which an input is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum OnDemand {
    /// In the order in which its packets come.
    #[default]
    No,
    /// On demand; its packets move the clock.
    WithTimes,
    /// On demand; its packets have no times.
    WithoutTimes,
}

/// Packets of each input on demand that an event waits for, because packets may be out of order.
const DISORDER_PACKETS: u64 = 64;

impl Input {
    /// Returns its progress: the lower one of two positions, so that one wrong key does not move an
    /// input to the end of all positions.
    fn position(&self) -> Option<Position> {
        let [newest, before] = self.newest;
        newest.map(|newest| before.map_or(newest, |before| before.min(newest)))
    }
}

/// The clocks of all inputs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Inputs {
    list: Vec<Input>,
    /// Packets with a position, of inputs that are read on demand.
    packets: u64,
    /// [`DISORDER_PACKETS`] of each input that is read on demand and has not ended.
    wait_packets: u64,
}

impl Inputs {
    /// Returns true when the number of packets to wait for is that of the open inputs.
    pub(super) fn is_sound(&self) -> bool {
        let mut counted = self.clone();
        counted.count_waiting();
        counted.wait_packets == self.wait_packets
    }

    /// Takes a packet of input `input` that arrived at `arrival`; returns the input's clock.
    #[inline]
    pub(super) fn take(&mut self, input: u16, arrival: Moment) -> Moment {
        let of = self.get(input);
        of.clock = of.clock.max(arrival);
        of.clock
    }

    /// Moves the clocks of inputs without unread packets to `now`. Marks alone move the clock of an
    /// input that has them.
    pub(super) fn pass(&mut self, now: Moment) {
        for of in self.list.iter_mut().filter(|of| !of.has_unread && of.mark.is_none()) {
            of.clock = of.clock.max(now);
        }
    }

    /// Records whether packets of `input` wait to be taken.
    pub(super) fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.get(input).has_unread = has_unread;
    }

    /// Records that everything that arrived by `input` before `mark` was taken.
    pub(super) fn mark(&mut self, input: u16, mark: Moment) {
        let of = self.get(input);
        of.mark = of.mark.max(Some(mark));
        of.clock = of.clock.max(mark);
    }

    /// Lets the time of the run move the clock of `input` again.
    pub(super) fn unmark(&mut self, input: u16) {
        self.get(input).mark = None;
    }

    /// Ends `input`, which gives no more packets.
    pub(super) fn end(&mut self, input: u16) {
        self.get(input).ended = true;
        self.count_waiting();
    }

    /// Returns true when `input` gives no more packets.
    pub(super) fn is_ended(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.ended)
    }

    /// Returns true when packets of `input` are known to wait to be taken.
    pub(super) fn has_unread(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.has_unread)
    }

    /// Notes the position of a packet of input `input`; only inputs that are read on demand count.
    #[inline]
    pub(super) fn reach(&mut self, input: u16, position: Position) {
        let of = self.get(input);
        if of.on_demand != OnDemand::No {
            of.newest = [Some(position), of.newest[0]];
            self.packets += 1;
        }
    }

    /// Returns the number of packets with a position.
    #[inline]
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the progress of `input`.
    pub(super) fn position(&self, input: u16) -> Option<Position> {
        self.list.get(usize::from(input)).and_then(Input::position)
    }

    /// Makes events wait for `input`.
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

    /// Returns the number of packets that an event waits for, so that those out of order come.
    #[inline]
    pub(super) fn wait_packets(&self) -> u64 {
        self.wait_packets
    }

    /// Returns true when an input on demand has not passed `position`, so that any source may still
    /// come with it.
    #[inline]
    pub(super) fn hold(&self, position: Position) -> bool {
        let is_open = |of: &&Input| of.on_demand != OnDemand::No && !of.ended;
        let is_behind = |of: &Input| of.position().is_none_or(|reached| reached <= position);
        self.wait_packets > 0 && self.list.iter().filter(is_open).any(is_behind)
    }

    /// Returns true when the inputs are read on demand: either all are, or none.
    #[inline]
    pub(super) fn are_on_demand(&self) -> bool {
        self.list.iter().any(|of| of.on_demand != OnDemand::No)
    }

    /// Returns true when an input that is read on demand will move the clock.
    #[inline]
    pub(super) fn move_clock(&self) -> bool {
        self.list.iter().any(|of| of.on_demand == OnDemand::WithTimes && !of.ended)
    }

    /// Returns the time up to which everything that arrived by `input` was taken.
    #[inline]
    pub(super) fn clock(&self, input: u16) -> Moment {
        self.list.get(usize::from(input)).map_or(Moment::default(), |of| of.clock)
    }

    /// Returns the time for which `input` has given nothing of a source whose last packet came at
    /// `arrival`.
    #[inline]
    pub(super) fn silence(&self, input: u16, arrival: Moment) -> Span {
        let of = self.list.get(usize::from(input));
        of.map_or(arrival, |of| of.mark.unwrap_or(of.clock)).since(arrival)
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
