//! The order in which an output serves its inputs: one input port after the other, and among the
//! channels of a port one after the other.
//!
//! Ports take turns, not channels: a node has one channel into its router, and a link has several.
//! If channels took turns, a link with two channels would get twice the share of the node.

use super::state::Output;

/// Returns the buffers of the same input port, by a buffer's place in its router.
pub fn ports_of(channels: u32) -> Box<[u64; 64]> {
    let lanes = u64::MAX >> (64 - channels);
    let of_place = |place: usize| {
        let first = place as u32 / channels * channels;
        // The last port of 64 places may be incomplete; no buffer is there.
        lanes << first
    };
    Box::new(std::array::from_fn(of_place))
}

/// The buffers that wait for an output, in the order of their turns.
pub struct Turns {
    waiting: u64,
    served: u64,
    turn: u32,
}

impl Turns {
    pub fn of(out: &Output) -> Turns {
        Turns { waiting: out.waiting, served: out.served, turn: out.turn }
    }

    /// Returns the places of the buffers; `ports` has the buffers of each place's port.
    pub fn over(self, ports: &[u64; 64]) -> impl Iterator<Item = u32> {
        let Turns { mut waiting, served, turn } = self;
        std::iter::from_fn(move || {
            if waiting == 0 {
                return None;
            }
            let first = (waiting.rotate_right(turn).trailing_zeros() + turn) % 64;
            let of_port = waiting & ports[first as usize];
            let fresh = of_port & !served;
            let place = if fresh == 0 { of_port } else { fresh }.trailing_zeros();
            waiting &= !(1 << place);
            Some(place)
        })
    }
}

impl Output {
    /// Gives the next turn to the port behind that of a buffer that was served.
    #[inline]
    pub fn took_turn(&mut self, place: u32, of_port: u64) {
        let bit = 1 << place;
        if self.served & bit != 0 {
            // Its port begins a new round.
            self.served &= !of_port;
        }
        self.served |= bit;
        self.turn = (64 - of_port.leading_zeros()) % 64;
    }
}
