//! Packet counters: what is lost, what is merely out of order, what came twice, what restarted.
//!
//! A counter of 4 to 64 bits wraps; the network reorders and repeats; a board is switched off and
//! on. The tracker unwraps the counter to positions on one line and remembers in a bitmap which of
//! the newest positions came. So a swapped pair is one reordering and no loss, and a burst of 1000
//! lost packets is 1000 losses.
//!
//! A number that fits neither ahead (within the largest believable loss) nor behind (within the
//! bitmap) is doubtful, and so is one that came already with other content: it is kept aside, and
//! the next packet decides. A neighbour of the doubtful number confirms a restart, and both packets
//! count in the new numbering; a number that fits the old numbering shows that the doubtful packet
//! was a straggler, or another sender's: it counts as late. So each packet is counted exactly once,
//! and what counts as a duplicate is a copy. Source of the rule: RFC 3550, appendix A.1.

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::missing::MissingPositions;

/// How a packet counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRule {
    /// How far its largest number is above its smallest; a step beyond it begins anew. At least 15.
    pub last: u64,
    /// How much it grows from packet to packet; 0 counts as 1.
    pub step: u64,
    /// How much the sensor's time grows from packet to packet \[ns\]: finds losses of whole wraps
    /// of a narrow counter.
    pub timestamp_step_ns: Option<u64>,
    /// After how long the sensor's time begins anew \[ns\].
    pub timestamp_wrap_ns: Option<u64>,
}

impl SequenceRule {
    /// A counter of `bits` bits (4 to 64; others are brought into this range) that counts by one.
    #[must_use]
    pub const fn of_bits(bits: u8) -> SequenceRule {
        let bits = if bits < 4 { 4 } else { bits };
        let unused = 64_u8.saturating_sub(bits);
        SequenceRule {
            last: u64::MAX >> unused,
            step: 1,
            timestamp_step_ns: None,
            timestamp_wrap_ns: None,
        }
    }
}

/// How far a tracker looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// How many positions back a packet is told from its duplicate; never over a quarter of the
    /// counter's range.
    pub window_packets: u32,
    /// The largest loss in one piece that is believed; a farther jump is a restart.
    pub jump_packets_max: u64,
    /// How many ranges of missing numbers are listed.
    pub ranges_max: usize,
}

impl Default for SequenceLimits {
    fn default() -> SequenceLimits {
        SequenceLimits { window_packets: 4096, jump_packets_max: 1 << 24, ranges_max: 1024 }
    }
}

/// What a packet says besides its number: it tells a counter that began anew from a packet that
/// came twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The sensor's time.
    pub time_ns: Option<u64>,
    /// The event key, shifted so that its highest bit is the word's.
    pub key: Option<u64>,
    /// When it arrived.
    pub arrival: Option<Moment>,
    /// A digest of its bytes.
    pub content: Option<u16>,
}

impl From<Option<u64>> for Evidence {
    fn from(time_ns: Option<u64>) -> Evidence {
        Evidence { time_ns, ..Evidence::default() }
    }
}

/// What a packet's number says about the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next number, or the first of all.
    InOrder,
    /// A later number than the next.
    Gap {
        /// How many numbers were left out.
        missing: u64,
    },
    /// An earlier number that had not come: one loss less.
    Reordered,
    /// It came before. To be dropped.
    Duplicate,
    /// Far off: to be kept aside until the next packet (or the end) decides.
    Doubtful,
}

/// What became of the packet that was kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFate {
    /// A straggler; whether it is a duplicate cannot be told. To be dropped.
    Late,
    /// The first of a new numbering.
    Restart {
        /// Its number, unwrapped.
        sequence: u64,
    },
}

/// What [`SequenceTracker::observe`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What became of the packet kept aside, if the new one decided it; it comes first.
    pub held: Option<HeldFate>,
    /// What the new packet is.
    pub order: Order,
    /// Its number, unwrapped to 64 bits: modulo the counter's range it is the packet's own.
    pub sequence: u64,
    /// Its place in the count of packets since the counter last began anew: grows by one from
    /// packet to packet, whatever the counter's step.
    pub count: u64,
}

/// Missing packet numbers, both ends included, in steps of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRange {
    /// How many restarts came before.
    pub epoch: u32,
    /// The first missing number, unwrapped.
    pub first: u64,
    /// The last missing number, unwrapped.
    pub last: u64,
}

/// Where a number lies, seen from the newest.
enum Place {
    Ahead(u64),
    Behind(u64),
    Elsewhere,
}

/// A packet that comes twice comes sooner than this after the newest one.
const SILENCE: Span = Span::from_ms(500);

/// Whether key `a` is ahead of `b`, in half the range of keys.
fn is_ahead(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

/// The fewest numbers that a counter has, less one.
const LAST_MIN: u64 = 15;
/// The first position of a numbering; the room below is for packets from before the first.
pub(super) const POSITION_START: u64 = 1 << 62;
/// Counters with fewer values than this cannot show a restart: everything not behind is ahead.
const RESTART_VALUES_MIN: u64 = 1 << 16;
/// Counters with more values than this need no time stamp to find losses of whole wraps.
const TIMED_VALUES_MAX: u64 = 1 << 20;
/// No jump beyond this is believed, whatever the limits say: positions must not run out.
const JUMP_PACKETS_MAX: u64 = 1 << 30;
/// How far behind the doubtful number a neighbour may lie that confirms a restart.
const NEIGHBOUR_BEHIND_MAX: u64 = 64;

/// Tracks one packet counter of one source. Memory: 17 bits per window position and 16 bytes per
/// listed range. Cost: a few nanoseconds per packet, no allocation but for ranges.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    step: u64,
    last: u64,
    /// How many packets until the counter is back.
    values: u64,
    window: u64,
    ahead_max: u64,
    jump_max: u64,
    ranges_max: usize,
    timestamp_step_ns: Option<u64>,
    timestamp_wrap_ns: Option<i128>,

    started: bool,
    epoch: u32,
    /// The unwrapped number at `POSITION_START`.
    start_sequence: u64,
    first: u64,
    newest: u64,
    newest_value: u64,
    newest_evidence: Evidence,
    /// One bit per position modulo its length.
    seen: Vec<u64>,
    /// The content of each position that came; empty where packets are observed without it.
    contents: Vec<u16>,
    doubtful: Option<(u64, Evidence)>,
    lost: u64,
    missing: MissingPositions,

    expected_before: u64,
    lost_before: u64,
    not_listed_before: u64,
    missing_before: Vec<MissingRange>,
}

impl SequenceTracker {
    /// A tracker that has seen nothing.
    #[must_use]
    pub fn new(rule: SequenceRule, limits: SequenceLimits) -> SequenceTracker {
        let last = rule.last.max(LAST_MIN);
        let step = rule.step.clamp(1, last);
        let values = (last / step).saturating_add(1);
        let window = u64::from(limits.window_packets).min(values / 4).max(1);
        let believable = if values >= RESTART_VALUES_MIN { values / 2 } else { values - window };
        let jump_max = limits.jump_packets_max.min(JUMP_PACKETS_MAX);
        let divides = last % step == step - 1;
        SequenceTracker {
            step,
            last,
            values,
            window,
            ahead_max: jump_max.min(believable),
            jump_max,
            ranges_max: limits.ranges_max,
            timestamp_step_ns: rule
                .timestamp_step_ns
                .filter(|&ns| ns > 0 && divides && values <= TIMED_VALUES_MAX),
            timestamp_wrap_ns: rule.timestamp_wrap_ns.map(i128::from),
            started: false,
            epoch: 0,
            start_sequence: 0,
            first: POSITION_START,
            newest: POSITION_START,
            newest_value: 0,
            newest_evidence: Evidence::default(),
            seen: vec![0; (window as usize).div_ceil(64)],
            contents: Vec::new(),
            doubtful: None,
            lost: 0,
            missing: MissingPositions::default(),
            expected_before: 0,
            lost_before: 0,
            not_listed_before: 0,
            missing_before: Vec::new(),
        }
    }

    /// A packet came with the counter at `value`; `evidence` is what else it says, or the sensor's
    /// time alone.
    pub fn observe(&mut self, value: u64, evidence: impl Into<Evidence>) -> Observed {
        let evidence = evidence.into();
        if !self.started {
            self.start(value, evidence);
            return self.observed(None, Order::InOrder, self.newest);
        }
        let place = self.place(value, evidence);
        let Some((held, held_evidence)) = self.doubtful else {
            return self.settle(None, &place, value, evidence);
        };
        let is_copy = held == value && held_evidence.content == evidence.content;
        if matches!(place, Place::Elsewhere) && is_copy {
            return Observed { held: None, order: Order::Duplicate, sequence: value, count: 0 };
        }
        if self.confirms(&place, (held, held_evidence), (value, evidence)) {
            let fate = self.restart(held, held_evidence);
            let place = self.place(value, evidence);
            return self.settle(Some(fate), &place, value, evidence);
        }
        self.doubtful = None;
        self.settle(Some(HeldFate::Late), &place, value, evidence)
    }

    /// The end: a packet still kept aside is taken for the first of a new numbering, so that it is
    /// not lost.
    pub fn finish(&mut self) -> Option<HeldFate> {
        let (value, evidence) = self.doubtful?;
        Some(self.restart(value, evidence))
    }

    /// How many packets the counter says were sent between the first and the last that came.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.expected_before + if self.started { self.newest - self.first + 1 } else { 0 }
    }

    /// How many of them are missing.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_before + self.lost
    }

    /// How often the counter started anew.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.epoch
    }

    /// The missing numbers, oldest first.
    pub fn missing(&self) -> impl Iterator<Item = MissingRange> + '_ {
        let live = self.missing.ranges().iter().map(|&(first, last)| MissingRange {
            epoch: self.epoch,
            first: self.sequence_at(first),
            last: self.sequence_at(last),
        });
        self.missing_before.iter().copied().chain(live)
    }

    /// How many missing packets [`Self::missing`] does not name, because its list was full.
    #[must_use]
    pub fn missing_not_listed(&self) -> u64 {
        self.not_listed_before + self.missing.not_listed()
    }

    fn observed(&self, held: Option<HeldFate>, order: Order, position: u64) -> Observed {
        Observed { held, order, sequence: self.sequence_at(position), count: position }
    }

    fn sequence_at(&self, position: u64) -> u64 {
        let steps = position.wrapping_sub(POSITION_START);
        self.start_sequence.wrapping_add(steps.wrapping_mul(self.step))
    }

    fn start(&mut self, value: u64, evidence: Evidence) {
        self.started = true;
        self.start_sequence = value;
        self.first = POSITION_START;
        self.newest = POSITION_START;
        self.newest_value = value;
        self.newest_evidence = evidence;
        self.seen.fill(0);
        self.mark(POSITION_START, evidence);
    }

    fn doubt(&mut self, held: Option<HeldFate>, value: u64, evidence: Evidence) -> Observed {
        self.doubtful = Some((value, evidence));
        Observed { held, order: Order::Doubtful, sequence: value, count: 0 }
    }

    fn restart(&mut self, value: u64, evidence: Evidence) -> HeldFate {
        let room = self.ranges_max.saturating_sub(self.missing_before.len());
        let live: Vec<MissingRange> = self.missing().skip(self.missing_before.len()).collect();
        debug_assert!(live.len() <= room, "the limit holds for both lists together");
        self.expected_before = self.expected();
        self.lost_before += self.lost;
        self.not_listed_before += self.missing.not_listed();
        self.missing_before.extend(live);
        self.missing.clear();
        self.lost = 0;
        self.epoch = self.epoch.saturating_add(1);
        self.doubtful = None;
        self.start(value, evidence);
        HeldFate::Restart { sequence: value }
    }

    /// Whether a packet at `place` confirms that the doubtful one is the first of a new numbering.
    ///
    /// The second number of a new numbering may be one that was lost in the old one. Only the
    /// times then tell it from a packet that was overtaken: both are later than the newest.
    fn confirms(
        &self,
        place: &Place,
        (held, held_evidence): (u64, Evidence),
        (value, evidence): (u64, Evidence),
    ) -> bool {
        let fits = match place {
            Place::Ahead(_) => false,
            Place::Behind(_) => self.is_later(held_evidence) && self.is_later(evidence),
            Place::Elsewhere => true,
        };
        fits && self.neighbours(held, value)
    }

    /// Whether `value` so follows or precedes the doubtful `held` that it confirms a restart.
    fn neighbours(&self, held: u64, value: u64) -> bool {
        self.steps(held, value).is_some_and(|ahead| ahead <= self.window)
            || self
                .steps(value, held)
                .is_some_and(|behind| behind <= self.window.min(NEIGHBOUR_BEHIND_MAX))
    }

    /// How many packets `to` is ahead of `from`, modulo the counter's range; `None` off the step.
    fn steps(&self, from: u64, to: u64) -> Option<u64> {
        let forward = to.wrapping_sub(from);
        let begins_anew = to < from;
        let difference =
            if begins_anew { forward.wrapping_add(self.last).wrapping_add(1) } else { forward };
        if self.step == 1 {
            return Some(difference);
        }
        difference.is_multiple_of(self.step).then_some(difference / self.step)
    }

    fn place(&self, value: u64, evidence: Evidence) -> Place {
        let ahead = self.steps(self.newest_value, value);
        if let (Some(step_ns), Some(from), Some(to), Some(ahead)) =
            (self.timestamp_step_ns, self.newest_evidence.time_ns, evidence.time_ns, ahead)
        {
            return self.place_by_time(ahead, (self.passed_ns(from, to), step_ns));
        }
        match ahead {
            Some(ahead @ 1..) if ahead <= self.ahead_max => return Place::Ahead(ahead),
            _ => {}
        }
        match self.steps(value, self.newest_value) {
            // A duplicate has its original's time and content; a seen number with a later time
            // than the newest packet's, or with other content, is a counter that started anew.
            Some(behind) if behind < self.window && self.is_another(behind, evidence) => {
                Place::Elsewhere
            }
            Some(behind) if behind < self.window => Place::Behind(behind),
            _ => Place::Elsewhere,
        }
    }

    /// Chooses the number of whole wraps that fits the passed time best.
    fn place_by_time(&self, ahead: u64, (passed_ns, step_ns): (i128, u64)) -> Place {
        let step_ns = i128::from(step_ns);
        let values = i128::from(self.values);
        let by_time = (passed_ns + step_ns / 2).div_euclid(step_ns);
        let ahead = i128::from(ahead);
        let position = ahead + (by_time - ahead + values / 2).div_euclid(values) * values;
        match position {
            1.. if position <= i128::from(self.jump_max) => Place::Ahead(position as u64),
            ..=0 if -position < i128::from(self.window) => Place::Behind((-position) as u64),
            _ => Place::Elsewhere,
        }
    }

    /// Whether the number came already, with another packet.
    fn is_another(&self, behind: u64, evidence: Evidence) -> bool {
        let position = self.newest - behind;
        let stored = self.contents.get(self.slot(position));
        let differs = matches!((stored, evidence.content), (Some(&a), Some(b)) if a != b);
        self.has_seen(position) && (differs || self.is_later(evidence))
    }

    /// Whether a packet was sent after the newest one: its time is later, its key is, or it came
    /// after a silence that is too long for a packet that came twice.
    fn is_later(&self, evidence: Evidence) -> bool {
        let Evidence { time_ns, key, arrival, .. } = self.newest_evidence;
        let times = time_ns.zip(evidence.time_ns);
        let time_later = times.is_some_and(|(newest, time)| self.passed_ns(newest, time) > 0);
        let key_later = matches!((evidence.key, key), (Some(a), Some(b)) if is_ahead(a, b));
        time_later
            || key_later
            || matches!((evidence.arrival, arrival), (Some(a), Some(b)) if a.since(b) >= SILENCE)
    }

    /// How far the sensor's time went from one packet to another; backwards, where that is nearer.
    fn passed_ns(&self, from: u64, to: u64) -> i128 {
        let passed = i128::from(to) - i128::from(from);
        match self.timestamp_wrap_ns {
            Some(wrap) => (passed + wrap / 2).rem_euclid(wrap) - wrap / 2,
            None => passed,
        }
    }

    fn settle(
        &mut self,
        held: Option<HeldFate>,
        place: &Place,
        value: u64,
        evidence: Evidence,
    ) -> Observed {
        match *place {
            Place::Ahead(ahead) => {
                let missing = ahead - 1;
                self.advance(ahead, evidence);
                self.newest_value = value;
                let time_ns = evidence.time_ns.or(self.newest_evidence.time_ns);
                self.newest_evidence = Evidence { time_ns, ..evidence };
                let order = if missing == 0 { Order::InOrder } else { Order::Gap { missing } };
                self.observed(held, order, self.newest)
            }
            Place::Behind(behind) => {
                let position = self.newest - behind;
                let order = self.look_back(position, evidence);
                self.observed(held, order, position)
            }
            Place::Elsewhere => self.doubt(held, value, evidence),
        }
    }

    fn advance(&mut self, ahead: u64, evidence: Evidence) {
        let slots = self.seen.len() as u64 * 64;
        if ahead > 1 {
            self.lost += ahead - 1;
            let limit = self.ranges_max.saturating_sub(self.missing_before.len());
            self.missing.insert(self.newest + 1, self.newest + ahead - 1, limit);
        }
        if ahead >= slots {
            self.seen.fill(0);
        } else {
            for position in self.newest + 1..self.newest + ahead {
                let slot = self.slot(position);
                self.seen[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.newest += ahead;
        self.mark(self.newest, evidence);
    }

    fn look_back(&mut self, position: u64, evidence: Evidence) -> Order {
        if self.has_seen(position) {
            return Order::Duplicate;
        }
        self.mark(position, evidence);
        let limit = self.ranges_max.saturating_sub(self.missing_before.len());
        if position < self.first {
            // It was sent before the first that came: what lies between is missing from now on.
            if position + 1 < self.first {
                self.lost += self.first - position - 1;
                self.missing.insert(position + 1, self.first - 1, limit);
            }
            self.first = position;
        } else {
            self.lost -= 1;
            self.missing.fill(position, limit);
        }
        Order::Reordered
    }

    /// Where a position is remembered.
    fn slot(&self, position: u64) -> usize {
        (position % (self.seen.len() as u64 * 64)) as usize
    }

    fn has_seen(&self, position: u64) -> bool {
        let slot = self.slot(position);
        self.seen[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn mark(&mut self, position: u64, evidence: Evidence) {
        let slot = self.slot(position);
        self.seen[slot / 64] |= 1 << (slot % 64);
        if let Some(content) = evidence.content {
            self.contents.resize(self.seen.len() * 64, 0);
            self.contents[slot] = content;
        }
    }
}
