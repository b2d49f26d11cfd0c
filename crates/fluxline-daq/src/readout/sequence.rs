//! Packet counters: losses, reordering, duplicates and restarts.
//!
//! A counter of 4 to 64 bits wraps; the network reorders and repeats; a board is switched off and
//! on. The tracker unwraps the counter to positions on one line and remembers in a bitmap which of
//! the newest positions came. So a swapped pair is one reordering and no loss, and a burst of 1000
//! lost packets is 1000 losses.
//!
//! A number that fits neither ahead (within the largest believable loss) nor behind (within the
//! bitmap) is doubtful, and so is one that came already with other content. The packet is kept
//! aside, and the next packet decides. A neighbour of the doubtful number confirms a restart, and
//! both packets count in the new numbering. A number that fits the old numbering shows that the
//! doubtful packet was a straggler, or another sender's: it counts as late. So each packet is
//! counted exactly once, and only copies count as duplicates. Source of the rule: RFC 3550,
//! appendix A.1.

use fluxline_core::{Moment, Span, planted};

use super::missing::MissingPositions;
use crate::missing_range::MissingRange;

/// The rule by which a packet counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRule {
    /// Difference of its largest and its smallest number; a step beyond it begins anew. At least
    /// 15.
    pub last: u64,
    /// Growth from packet to packet; 0 counts as 1.
    pub step: u64,
    /// Growth of the sensor's time from packet to packet \[ns\]: finds losses of whole wraps of a
    /// narrow counter.
    pub timestamp_step_ns: Option<u64>,
    /// Time after which the sensor's time begins anew \[ns\].
    pub timestamp_wrap_ns: Option<u64>,
}

impl SequenceRule {
    /// Makes the rule of a counter of `bits` bits (4 to 64; others are brought into this range)
    /// that counts by one.
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

/// The limits of a tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Positions over which a packet is distinguished from its duplicate; at most a quarter of the
    /// counter's range.
    pub window_packets: u32,
    /// The largest loss that is believed; a farther jump is a restart.
    pub jump_packets_max: u64,
    /// Most ranges of missing numbers that are listed.
    pub ranges_max: usize,
}

impl Default for SequenceLimits {
    fn default() -> SequenceLimits {
        SequenceLimits { window_packets: 4096, jump_packets_max: 1 << 24, ranges_max: 1024 }
    }
}

/// Everything in a packet besides its number. It distinguishes a counter that began anew from a
/// packet that came twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The sensor's time.
    pub time_ns: Option<u64>,
    /// The event key, shifted so that its highest bit is the word's.
    pub key: Option<u64>,
    /// The time of arrival.
    pub arrival: Option<Moment>,
    /// A digest of its bytes.
    pub content: Option<u16>,
}

impl From<Option<u64>> for Evidence {
    fn from(time_ns: Option<u64>) -> Evidence {
        Evidence { time_ns, ..Evidence::default() }
    }
}

/// The order that a packet's number shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next number, or the first of all.
    InOrder,
    /// A later number than the next.
    Gap {
        /// Number of packets that were left out.
        missing: u64,
    },
    /// An earlier number that had not come: one loss less.
    Reordered,
    /// It came before. Drop it.
    Duplicate,
    /// Far off. Keep it aside until the next packet, or the end, decides.
    Doubtful,
}

/// The fate of the packet that was kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFate {
    /// A straggler, which may be a duplicate. Drop it.
    Late,
    /// The first of a new numbering.
    Restart {
        /// Its number, unwrapped.
        sequence: u64,
    },
}

/// The result of [`SequenceTracker::observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The fate of the packet kept aside, if the new one decided it; it comes first.
    pub held: Option<HeldFate>,
    /// The order of the new packet.
    pub order: Order,
    /// Its number, unwrapped to 64 bits: modulo the counter's range it is the packet's own.
    pub sequence: u64,
    /// Its place in the count of packets since the counter last began anew: grows by one from
    /// packet to packet, whatever the counter's step.
    pub count: u64,
}

/// A packet's number, and the other evidence in it.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    value: u64,
    evidence: Evidence,
}

/// The place of a number, relative to the newest.
enum Place {
    Ahead(u64),
    Behind(u64),
    Elsewhere,
}

/// A packet that comes twice comes sooner than this after the newest one.
const SILENCE: Span = Span::from_ms(500);

/// Returns true when key `a` is ahead of `b`, in half the range of keys.
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
/// The largest distance behind the doubtful number of a neighbour that confirms a restart.
const NEIGHBOUR_BEHIND_MAX: u64 = 64;

/// A counter as the tracker computes with it.
#[derive(Clone, Debug)]
struct Counter {
    step: u64,
    last: u64,
    /// Number of packets until the counter is back.
    values: u64,
    timestamp_step_ns: Option<u64>,
    timestamp_wrap_ns: Option<i128>,
}

/// The limits of a tracker, adapted to the counter's range \[packet\].
#[derive(Clone, Debug)]
struct Reach {
    window: u64,
    ahead_max: u64,
    jump_max: u64,
    ranges_max: usize,
}

/// The newest positions that came.
#[derive(Clone, Debug)]
struct Window {
    /// One bit per position modulo its length.
    seen: Vec<u64>,
    /// The content of each position that came; empty where packets are observed without it.
    contents: Vec<u16>,
}

/// Totals of the numberings before the last restart.
#[derive(Clone, Debug, Default)]
struct Past {
    expected: u64,
    lost: u64,
    not_listed: u64,
    missing: Vec<MissingRange>,
}

/// Tracks one packet counter of one source. Memory: 17 bits per window position and 16 bytes per
/// listed range. Cost: a few nanoseconds per packet, no allocation but for ranges.
#[derive(Clone, Debug)]
pub struct SequenceTracker {
    counter: Counter,
    reach: Reach,
    started: bool,
    epoch: u32,
    /// The unwrapped number at `POSITION_START`.
    start_sequence: u64,
    /// Position of the first packet.
    first: u64,
    /// Position of the newest packet.
    newest: u64,
    newest_reading: Reading,
    window: Window,
    doubtful: Option<Reading>,
    lost: u64,
    missing: MissingPositions,
    past: Past,
}

impl SequenceTracker {
    /// Makes a tracker for a counter, before its first packet.
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
            counter: Counter {
                step,
                last,
                values,
                timestamp_step_ns: rule
                    .timestamp_step_ns
                    .filter(|&ns| ns > 0 && divides && values <= TIMED_VALUES_MAX),
                timestamp_wrap_ns: rule.timestamp_wrap_ns.map(i128::from),
            },
            reach: Reach {
                window,
                ahead_max: jump_max.min(believable),
                jump_max,
                ranges_max: limits.ranges_max,
            },
            started: false,
            epoch: 0,
            start_sequence: 0,
            first: POSITION_START,
            newest: POSITION_START,
            newest_reading: Reading::default(),
            window: Window::of(window),
            doubtful: None,
            lost: 0,
            missing: MissingPositions::default(),
            past: Past::default(),
        }
    }

    /// Takes a packet with the counter at `value`. `evidence` is everything else in it, or the
    /// sensor's time alone.
    pub fn observe(&mut self, value: u64, evidence: impl Into<Evidence>) -> Observed {
        let new = Reading { value, evidence: evidence.into() };
        if !self.started {
            self.start(new);
            return self.observed(None, Order::InOrder, self.newest);
        }
        let place = self.place(new);
        let Some(held) = self.doubtful else {
            return self.settle(None, &place, new);
        };
        let is_copy = held.value == value && held.evidence.content == new.evidence.content;
        if matches!(place, Place::Elsewhere) && is_copy {
            return Observed { held: None, order: Order::Duplicate, sequence: value, count: 0 };
        }
        if self.confirms(&place, held, new) {
            let fate = self.restart(held);
            let place = self.place(new);
            return self.settle(Some(fate), &place, new);
        }
        self.doubtful = None;
        self.settle(Some(HeldFate::Late), &place, new)
    }

    /// Ends the run: a packet still kept aside becomes the first of a new numbering, so that it is
    /// not lost.
    pub fn finish(&mut self) -> Option<HeldFate> {
        let held = self.doubtful?;
        Some(self.restart(held))
    }

    /// Returns the number of packets that were sent between the first and the last one, by the
    /// counter.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.past.expected + if self.started { self.newest - self.first + 1 } else { 0 }
    }

    /// Returns the number of missing packets.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.past.lost + self.lost
    }

    /// Returns the number of restarts.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.epoch
    }

    /// Returns the missing numbers, oldest first.
    pub fn missing(&self) -> impl Iterator<Item = MissingRange> + '_ {
        let live = self.missing.ranges().iter().map(|&(first, last)| MissingRange {
            epoch: self.epoch,
            first: self.sequence_at(first),
            last: self.sequence_at(last),
        });
        self.past.missing.iter().copied().chain(live)
    }

    /// Returns the number of missing packets that [`Self::missing`] does not name, because its list
    /// was full.
    #[must_use]
    pub fn missing_not_listed(&self) -> u64 {
        self.past.not_listed + self.missing.not_listed()
    }

    fn observed(&self, held: Option<HeldFate>, order: Order, position: u64) -> Observed {
        Observed { held, order, sequence: self.sequence_at(position), count: position }
    }

    fn sequence_at(&self, position: u64) -> u64 {
        let steps = position.wrapping_sub(POSITION_START);
        self.start_sequence.wrapping_add(steps.wrapping_mul(self.counter.step))
    }

    fn start(&mut self, first: Reading) {
        self.started = true;
        self.start_sequence = first.value;
        self.first = POSITION_START;
        self.newest = POSITION_START;
        self.newest_reading = first;
        self.window.seen.fill(0);
        self.window.mark(POSITION_START, first.evidence);
    }

    fn doubt(&mut self, held: Option<HeldFate>, new: Reading) -> Observed {
        self.doubtful = Some(new);
        Observed { held, order: Order::Doubtful, sequence: new.value, count: 0 }
    }

    /// Returns how many more ranges of missing numbers this numbering may list.
    fn ranges_free(&self) -> usize {
        self.reach.ranges_max.saturating_sub(self.past.missing.len())
    }

    fn restart(&mut self, first: Reading) -> HeldFate {
        let live: Vec<MissingRange> = self.missing().skip(self.past.missing.len()).collect();
        debug_assert!(live.len() <= self.ranges_free(), "the limit holds for both lists together");
        self.past.expected = self.expected();
        self.past.lost += self.lost;
        self.past.not_listed += self.missing.not_listed();
        self.past.missing.extend(live);
        self.missing.clear();
        self.lost = 0;
        self.epoch = self.epoch.saturating_add(1);
        self.doubtful = None;
        self.start(first);
        HeldFate::Restart { sequence: first.value }
    }

    /// Returns true when a packet at `place` confirms that the doubtful one is the first of a new
    /// numbering.
    ///
    /// The second number of a new numbering may be one that was lost in the old one. Only the times
    /// then distinguish it from a packet that was overtaken: both are later than the newest. It may
    /// follow the newest one, too, if few packets came before the restart.
    fn confirms(&self, place: &Place, held: Reading, new: Reading) -> bool {
        let fits = match place {
            Place::Ahead(_) => self.is_later(held.evidence) && self.is_reused(held),
            Place::Behind(_) => self.is_later(held.evidence) && self.is_later(new.evidence),
            Place::Elsewhere => true,
        };
        fits && self.are_neighbours(held.value, new.value)
    }

    /// Returns true when another packet came with the number of `held`.
    fn is_reused(&self, held: Reading) -> bool {
        let behind = self.counter.steps(held.value, self.newest_reading.value);
        behind.filter(|behind| *behind < self.reach.window).is_some_and(|behind| {
            let position = self.newest - behind;
            self.window.has_seen(position) && self.window.differs(position, held.evidence)
        })
    }

    /// Returns true when `value` is so near to the doubtful `held` that it confirms a restart.
    fn are_neighbours(&self, held: u64, value: u64) -> bool {
        let (ahead_max, behind_max) =
            (self.reach.window, self.reach.window.min(NEIGHBOUR_BEHIND_MAX));
        self.counter.steps(held, value).is_some_and(|ahead| ahead <= ahead_max)
            || self.counter.steps(value, held).is_some_and(|behind| behind <= behind_max)
    }

    fn place(&self, new: Reading) -> Place {
        let newest = &self.newest_reading;
        let ahead = self.counter.steps(newest.value, new.value);
        if let (Some(step_ns), Some(from), Some(to), Some(ahead)) =
            (self.counter.timestamp_step_ns, newest.evidence.time_ns, new.evidence.time_ns, ahead)
        {
            return self.place_by_time(ahead, self.counter.passed_ns(from, to), step_ns);
        }
        match ahead {
            Some(ahead @ 1..) if ahead <= self.reach.ahead_max => return Place::Ahead(ahead),
            _ => {}
        }
        let window = self.reach.window;
        match self.counter.steps(new.value, newest.value) {
            // A duplicate has its original's time and content; a seen number with a later time
            // than the newest packet's, or with other content, is a counter that started anew.
            Some(behind) if behind < window && self.is_another(behind, new.evidence) => {
                Place::Elsewhere
            }
            Some(behind) if behind < window => Place::Behind(behind),
            _ => Place::Elsewhere,
        }
    }

    /// Chooses the number of whole wraps that fits the passed time best.
    fn place_by_time(&self, ahead: u64, passed_ns: i128, step_ns: u64) -> Place {
        let step_ns = i128::from(step_ns);
        let values = i128::from(self.counter.values);
        let by_time = (passed_ns + step_ns / 2).div_euclid(step_ns);
        let ahead = i128::from(ahead);
        let position = ahead + (by_time - ahead + values / 2).div_euclid(values) * values;
        match position {
            1.. if position <= i128::from(self.reach.jump_max) => Place::Ahead(position as u64),
            ..=0 if -position < i128::from(self.reach.window) => Place::Behind((-position) as u64),
            _ => Place::Elsewhere,
        }
    }

    /// Returns true when the number came already, with another packet.
    fn is_another(&self, behind: u64, evidence: Evidence) -> bool {
        let position = self.newest - behind;
        let differs = self.window.differs(position, evidence) && !planted!(29);
        self.window.has_seen(position) && (differs || self.is_later(evidence))
    }

    /// Returns true when a packet was sent after the newest one: its time is later, its key is, or
    /// it came after a silence that is too long for a packet that came twice.
    fn is_later(&self, evidence: Evidence) -> bool {
        let Evidence { time_ns, key, arrival, .. } = self.newest_reading.evidence;
        let times = time_ns.zip(evidence.time_ns);
        let passed_ns = |(newest, time)| self.counter.passed_ns(newest, time);
        let time_later = times.map(passed_ns).is_some_and(|passed| passed > 0);
        let key_later = matches!((evidence.key, key), (Some(a), Some(b)) if is_ahead(a, b));
        time_later
            || key_later
            || matches!((evidence.arrival, arrival), (Some(a), Some(b)) if a.since(b) >= SILENCE)
    }

    fn settle(&mut self, held: Option<HeldFate>, place: &Place, new: Reading) -> Observed {
        match *place {
            Place::Ahead(ahead) => {
                let missing = ahead - 1;
                self.advance(ahead, new.evidence);
                let time_ns = new.evidence.time_ns.or(self.newest_reading.evidence.time_ns);
                let evidence = Evidence { time_ns, ..new.evidence };
                self.newest_reading = Reading { evidence, ..new };
                let order = if missing == 0 { Order::InOrder } else { Order::Gap { missing } };
                self.observed(held, order, self.newest)
            }
            Place::Behind(behind) => {
                let position = self.newest - behind;
                let order = self.look_back(position, new.evidence);
                self.observed(held, order, position)
            }
            Place::Elsewhere => self.doubt(held, new),
        }
    }

    fn advance(&mut self, ahead: u64, evidence: Evidence) {
        if ahead > 1 {
            self.lost += ahead - 1;
            let limit = self.ranges_free();
            self.missing.insert(self.newest + 1, self.newest + ahead - 1, limit);
        }
        self.window.forget(self.newest, ahead);
        self.newest += ahead;
        self.window.mark(self.newest, evidence);
    }

    fn look_back(&mut self, position: u64, evidence: Evidence) -> Order {
        if self.window.has_seen(position) && !planted!(12) {
            return Order::Duplicate;
        }
        self.window.mark(position, evidence);
        let limit = self.ranges_free();
        if position < self.first {
            // It was sent before the first that came: the packets between are missing from now on.
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
}

impl Counter {
    /// Returns how many packets `to` is ahead of `from`, modulo the counter's range; `None` off the
    /// step.
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

    /// Returns the sensor's time from one packet to another; negative, where that is nearer.
    fn passed_ns(&self, from: u64, to: u64) -> i128 {
        let passed = i128::from(to) - i128::from(from);
        match self.timestamp_wrap_ns {
            Some(wrap) => (passed + wrap / 2).rem_euclid(wrap) - wrap / 2,
            None => passed,
        }
    }
}

impl Window {
    fn of(positions: u64) -> Window {
        Window { seen: vec![0; (positions as usize).div_ceil(64)], contents: Vec::new() }
    }

    /// Clears the positions between `newest` and the one that is `ahead` of it.
    fn forget(&mut self, newest: u64, ahead: u64) {
        if ahead >= self.seen.len() as u64 * 64 {
            self.seen.fill(0);
            return;
        }
        for position in newest + 1..newest + ahead {
            let slot = self.slot(position);
            self.seen[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Returns true when the packet at `position` had other content.
    fn differs(&self, position: u64, evidence: Evidence) -> bool {
        let stored = self.contents.get(self.slot(position));
        matches!((stored, evidence.content), (Some(&a), Some(b)) if a != b)
    }

    /// Returns the bit that stands for a position.
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
