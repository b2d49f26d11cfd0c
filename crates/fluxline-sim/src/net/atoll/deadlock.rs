//! Worms that wait for each other in a circle.

use std::fmt;

use super::state::FREE;
use super::wiring::NONE;
use super::{Cargo, Flow, Network};

/// An input of a crossbar whose first packet cannot move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The node.
    pub node: u32,
    /// The input: link ports 0 to 3, network ports 4 to 7.
    pub input: u32,
}

/// A circle of inputs, in which no packet will ever move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The circle, beginning with its smallest input. Each waits for the next one.
    pub cycle: Vec<Held>,
    /// Inputs that cannot move, those that wait for the circle included.
    pub inputs: u32,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, text) = (self.inputs, "inputs wait for ever; circle of (node, input):");
        write!(out, "deadlock: {count} {text}")?;
        self.cycle.iter().try_for_each(|held| write!(out, " ({}, {})", held.node, held.input))
    }
}

/// The reason why the first packet of an input waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// It will move by itself.
    No,
    /// It moves after another input.
    For(u32),
}

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Finds worms that wait for each other in a circle, even while others still move: the exact
    /// wait-for graph. Each input waits for at most one other, because there are no virtual
    /// channels, so a circle is a deadlock.
    #[must_use]
    pub fn deadlock(&self) -> Option<Deadlock> {
        let count = self.inputs.len();
        let waits: Vec<Wait> = (0..count as u32).map(|input| self.wait_of(input)).collect();
        // 0: not visited, 1: will move, 2: waits for ever, 3: on the path of this visit.
        let mut states = vec![0_u8; count];
        let mut smallest: Option<Vec<u32>> = None;
        for start in 0..count {
            let (mut path, mut at) = (Vec::new(), start);
            while states[at] == 0 {
                states[at] = 3;
                path.push(at as u32);
                match waits[at] {
                    Wait::No => states[at] = 1,
                    Wait::For(next) => at = next as usize,
                }
            }
            if states[at] == 3 {
                let first = path.iter().position(|&seen| seen as usize == at).unwrap_or(0);
                let cycle = path[first..].to_vec();
                smallest =
                    smallest.filter(|of| of.iter().min() <= cycle.iter().min()).or(Some(cycle));
                states[at] = 2;
            }
            let end = states[at];
            path.into_iter().for_each(|of| states[of as usize] = end);
        }
        let mut cycle = smallest?;
        let least = (0..).zip(&cycle).min_by_key(|&(_, input)| input).map_or(0, |(index, _)| index);
        cycle.rotate_left(least);
        let held = |input: u32| Held { node: input / PORTS, input: input % PORTS };
        let inputs = states.iter().filter(|&&state| state == 2).count() as u32;
        Some(Deadlock { cycle: cycle.into_iter().map(held).collect(), inputs })
    }

    /// Returns the input for which the first packet of an input waits. An empty input does not
    /// wait: the packets of its message follow.
    fn wait_of(&self, input: u32) -> Wait {
        if self.inputs[input as usize].head == NONE {
            return Wait::No;
        }
        let output = self.wanted(input);
        let of = &self.outputs[output as usize];
        if of.is_dead {
            return Wait::No;
        }
        if of.holder != FREE && u32::from(of.holder) != input % PORTS {
            return Wait::For(input / PORTS * PORTS + u32::from(of.holder));
        }
        if output % PORTS >= LINKS {
            return Wait::No;
        }
        let next = &self.inputs[of.to as usize];
        let (fill, leaving) = (next.fill, u32::from(next.leaving_bytes));
        let kept = fill - leaving;
        let stays_stopped = match self.config.flow {
            Flow::StopGo => next.is_stopping && kept > self.config.go_bytes,
            Flow::Credits => kept + self.config.packet_bytes > self.config.fifo_bytes,
        };
        if stays_stopped { Wait::For(of.to) } else { Wait::No }
    }
}
