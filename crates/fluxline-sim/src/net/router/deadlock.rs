//! Buffers that wait for each other in a circle.

use std::fmt;

use super::Network;
use super::state::NONE;

/// One buffer of a circle: a link and a channel. Its packet waits for the next buffer in the list;
/// that of the last buffer waits for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The router at the beginning of the link.
    pub from: u32,
    /// The router at its end, in whose buffer the packet waits.
    pub to: u32,
    /// The virtual channel.
    pub channel: u32,
}

/// A circle of full buffers, in which no packet will ever move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The circle, beginning with its smallest link.
    pub cycle: Vec<Held>,
    /// Packets that cannot move, those that wait for the circle included.
    pub packets: u64,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "deadlock: {} packets wait for ever; circle of (link, channel):",
            self.packets
        )?;
        for held in &self.cycle {
            write!(out, " ({}->{}, {})", held.from, held.to, held.channel)?;
        }
        Ok(())
    }
}

impl Network {
    /// Finds packets that wait for each other in a circle, even while others still move. The time
    /// is proportional to the number of buffers times the longest chain of waiting buffers.
    #[must_use]
    pub fn deadlock(&self) -> Option<Deadlock> {
        let mut will_move = vec![false; self.buffers.len()];
        let mut is_coming = vec![false; self.buffers.len()];
        self.from_routers.iter().for_each(|coming| is_coming[coming.buffer as usize] = true);
        loop {
            let mut has_changed = false;
            for buffer in 0..will_move.len() {
                if !will_move[buffer] && self.can_move(buffer as u32, &will_move, &is_coming) {
                    will_move[buffer] = true;
                    has_changed = true;
                }
            }
            if !has_changed {
                break;
            }
        }
        let stuck = (0..will_move.len()).filter(|&buffer| !will_move[buffer]);
        let packets = stuck.clone().map(|buffer| u64::from(self.buffers[buffer].packets)).sum();
        let first = stuck.clone().next()?;
        Some(Deadlock { cycle: self.cycle_from(first as u32), packets })
    }

    /// Returns true if the head of a buffer will leave, given the buffers that will move.
    fn can_move(&self, buffer: u32, will_move: &[bool], is_coming: &[bool]) -> bool {
        let queue = &self.buffers[buffer as usize];
        let Some(out) = self.outputs.get(self.output_of(queue) as usize) else { return true };
        if queue.head == NONE || out.to == NONE || out.is_cut {
            return true;
        }
        let bytes = u64::from(self.packets.get(queue.head).bytes);
        self.ahead(buffer).any(|next| {
            // Packets on the way to the next buffer will still take their turn there.
            let will_change = is_coming[next as usize] || will_move[next as usize];
            will_change || self.buffers[next as usize].promised(&self.later) >= bytes
        })
    }

    /// Returns the buffers to which a head may go next.
    fn ahead(&self, buffer: u32) -> impl Iterator<Item = u32> + '_ {
        let queue = &self.buffers[buffer as usize];
        let to = self.outputs[self.output_of(queue) as usize].to;
        let own = u32::from(queue.first_channel)..u32::from(queue.end_channel);
        own.map(move |channel| to + channel)
    }

    fn cycle_from(&self, first: u32) -> Vec<Held> {
        let mut path = vec![first];
        let mut at = first;
        let start = loop {
            // All of the channels are stuck, because this buffer is: each of them leads to a
            // circle.
            let Some(next) = self.ahead(at).next() else { break path.len() };
            if let Some(start) = path.iter().position(|&seen| seen == next) {
                break start;
            }
            path.push(next);
            at = next;
        };
        let mut cycle = path.split_off(start);
        let smallest = cycle.iter().enumerate().min_by_key(|&(_, &buffer)| buffer);
        let turn = smallest.map_or(0, |(index, _)| index);
        cycle.rotate_left(turn);
        cycle.into_iter().map(|buffer| self.held(buffer)).collect()
    }

    fn held(&self, buffer: u32) -> Held {
        let queue = &self.buffers[buffer as usize];
        let feeder = self.outputs.get(queue.feeder as usize);
        let from = feeder.map_or(queue.router, |out| self.buffers[out.base as usize].router);
        Held { from, to: queue.router, channel: buffer % u32::from(self.config.channels) }
    }
}
