//! The stage behind the inputs: it takes every packet of a run, in the readout's thread.

use std::time::Duration;

use fluxline_core::{Datagram, Moment};
use fluxline_daq::builder::Position;
use fluxline_daq::merge::Times;

/// Takes the packets of all inputs. The readout's thread alone calls it.
pub trait PacketTaker: Send + 'static {
    /// The part of the taker that is left at the end of the run.
    type Outcome: Send + 'static;

    /// Learns that datagrams which come from now on are taken next.
    fn begin_turn(&mut self) {}

    /// Takes one datagram of input number `input` at `now`.
    fn take(&mut self, input: u16, now: Moment, datagram: &Datagram<'_>);

    /// Counts a datagram whose end did not fit into its slot, and drops it.
    fn take_truncated(&mut self, input: u16, bytes: usize);

    /// Ends an input: it gives no more packets.
    fn end_input(&mut self, input: u16);

    /// Records whether datagrams of an input wait to be taken.
    fn note_backlog(&mut self, _input: u16, _has_unread: bool) {}

    /// Returns the position of an input in the order of events, where all inputs share one.
    fn position(&self, _input: u16) -> Option<Position> {
        None
    }

    /// Returns true when packets of an input have positions.
    fn has_positions(&self, _input: u16) -> bool {
        false
    }

    /// Learns that an input is read on demand, as all inputs of the run are then.
    fn read_on_demand(&mut self, _input: u16, _times: Times) {}

    /// Makes memory for the next datagram of an input that can wait.
    fn make_room(&mut self, _bytes: usize) {}

    /// Returns false while packets must wait in their rings. The time is still checked meanwhile.
    fn can_take(&self) -> bool {
        true
    }

    /// Returns true when the time should be checked at once.
    fn is_due(&self, _now: Moment) -> bool {
        false
    }

    /// Returns the longest pause while no packet comes.
    fn pause(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Does what is due at `now`. `ring_percent` is the fill level of the fullest ring since the
    /// last call \[%\].
    fn check_time(&mut self, now: Moment, ring_percent: usize);

    /// Ends the run: all inputs have ended and were read. It ends the taker's output too, also when
    /// nobody asks for the outcome.
    fn finish(self, now: Moment) -> Self::Outcome;
}
