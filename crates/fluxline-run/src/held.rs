//! Inputs that can wait, read as one stream: files, and emulators without a rate.
//!
//! Each still fills a ring in a thread of its own. The readout takes one packet at a time, from the
//! input that [`Merge`] chooses, and waits for that input where its ring is empty. So nothing is
//! dropped, and the order of packets depends on neither threads nor speed.

use std::time::Duration;

use fluxline::clock;
use fluxline_core::{Datagram, Moment, Span};
use fluxline_daq::capture::replay::{Pace, Speed};
use fluxline_daq::merge::{Lane, Merge, Times};

use crate::ring::{Head, OnDemandRing, Replay};
use crate::stop::Stop;
use crate::taker::PacketTaker;

/// The next thing to do.
pub(crate) enum Step {
    /// The next packet of this lane can be read.
    Read(usize),
    /// The ring of this lane is empty: wait for it.
    Wait(usize),
    /// The next packet is due after this span.
    Later(Span),
    /// All inputs have ended.
    Over,
}

/// Inputs that can wait, read as one stream.
pub(crate) struct Held {
    merge: Merge,
    rings: Vec<OnDemandRing>,
    pace: Option<Pace>,
    stop: Stop,
}

impl Held {
    /// Reads these inputs, given with their numbers, until they end; at `stop`, only what is due.
    pub fn new(mut inputs: Vec<(u16, OnDemandRing)>, taker: &impl PacketTaker, stop: Stop) -> Held {
        inputs.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        let lanes = inputs.iter().map(|(input, ring)| Lane {
            input: *input,
            times: ring.times,
            has_positions: taker.has_positions(*input),
        });
        let merge = Merge::new(lanes);
        let rings: Vec<OnDemandRing> = inputs.into_iter().map(|(_, ring)| ring).collect();
        let recorded = rings.iter().any(|ring| ring.replay == Replay::Recorded);
        Held { merge, rings, pace: recorded.then(|| Pace::new(Speed::Recorded)), stop }
    }

    /// Returns what can be done next. A packet to be read must then be [read](Self::read).
    pub fn step(&mut self, taker: &mut impl PacketTaker) -> Step {
        while let Some(lane) = self.merge.unknown() {
            match self.rings[lane].head() {
                Head::Packet(time) => self.merge.show(lane, time),
                Head::Nothing => return Step::Wait(lane),
                Head::Ended => {
                    self.merge.end(lane);
                    taker.end_input(self.merge.lane(lane).input);
                }
            }
        }
        let Some(lane) = self.merge.choose(|input| taker.position(input)) else {
            return Step::Over;
        };
        let due = |pace: &mut Pace| pace.due(self.merge.now(), clock::monotonic());
        match self.pace.as_mut().and_then(due) {
            None => Step::Read(lane),
            Some(_) if self.stop.is_over() => {
                self.end(taker);
                Step::Over
            }
            Some(wait) => Step::Later(wait),
        }
    }

    /// Ends all inputs: what is not due yet is left.
    fn end(&mut self, taker: &mut impl PacketTaker) {
        for lane in 0..self.rings.len() {
            self.merge.end(lane);
            taker.end_input(self.merge.lane(lane).input);
        }
    }

    /// Returns the time that all files have reached.
    pub fn now(&self) -> Moment {
        self.merge.now()
    }

    /// Returns the length of the next packet of `lane` \[byte\].
    pub fn next_bytes(&self, lane: usize) -> usize {
        self.rings[lane].head_bytes()
    }

    /// Returns a sentence when inputs are read in turns, because they have neither keys nor times
    /// in common.
    pub fn in_turns(&self) -> Option<String> {
        let is_blind = |at: &usize| {
            let Lane { times, has_positions, .. } = self.merge.lane(*at);
            times == Times::Absent && !has_positions
        };
        let blind: Vec<String> = (0..self.rings.len())
            .filter(is_blind)
            .map(|at| format!("`{}`", self.rings[at].name))
            .collect();
        (self.rings.len() > 1 && !blind.is_empty()).then(|| {
            format!(
                "source {}: raw files without event keys have no order among others; their packets \
                 are read in turns.",
                blind.join(", ")
            )
        })
    }

    /// Gives the next packet of `lane` to the taker, at `now`, which is also the time of
    /// packets that have none.
    pub fn read(&mut self, lane: usize, now: Moment, taker: &mut impl PacketTaker) {
        let input = self.merge.lane(lane).input;
        self.rings[lane].read(|datagram| {
            let time = if datagram.time == Moment::default() { now } else { datagram.time };
            taker.take(input, now, &Datagram { time, ..*datagram });
        });
        self.merge.take(lane);
    }

    /// Waits for the ring of `lane`, at most `timeout`.
    pub fn wait(&mut self, lane: usize, timeout: Duration) {
        self.rings[lane].wait(timeout);
    }

    /// Returns the fill level of the fullest ring \[%\].
    pub fn fullest_percent(&self) -> usize {
        self.rings.iter().map(OnDemandRing::percent).max().unwrap_or(0)
    }
}
