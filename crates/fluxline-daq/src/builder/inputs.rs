//! The clocks of the inputs: up to which time of arrival everything of an input was taken.
//!
//! Silence is measured on them, not on the wall clock: a reader that stalls makes nobody silent.

use fluxline_proto::{Moment, Span};

#[derive(Clone, Copy, Debug, Default)]
struct Input {
    /// All that arrived before was taken.
    clock: Moment,
    has_unread: bool,
    ended: bool,
}

/// The clocks of all inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    list: Vec<Input>,
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
    }

    /// Whether `input` will give no more packets.
    pub(super) fn is_ended(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.ended)
    }

    /// Whether packets of `input` wait to be taken, as far as is known.
    pub(super) fn has_unread(&self, input: u16) -> bool {
        self.list.get(usize::from(input)).is_some_and(|of| of.has_unread)
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
