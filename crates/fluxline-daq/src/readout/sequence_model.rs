//! Packet counters compared with a simple model: the set of all received numbers, for each
//! numbering.
//!
//! A script decides what a board sends and what the network does to it: single losses, bursts,
//! repeats, displacement within the distance that the tracker promises to recognise, stragglers
//! beyond it, restarts with and without time stamps, losses of whole wraps. All widths from 4 to 64
//! bits, several steps.

use std::collections::BTreeSet;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

use super::sequence::{Evidence, HeldFate, Order, SequenceLimits, SequenceRule, SequenceTracker};
use crate::missing_range::MissingRange;

/// The sensor's times in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// Packets have no time.
    None,
    /// It only grows.
    Grows,
    /// Packets have no time, but packets of another numbering have other content.
    Content,
    /// It grows by this step per packet, plus or minus a third.
    Steps(u64),
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    /// The counter's largest number.
    last: u64,
    step: u64,
    time: Time,
    /// After how long the sensor's time begins anew.
    wrap_ns: Option<u64>,
    epochs: u32,
}

/// Number of packets sent in a numbering.
const PACKETS: u64 = 1500;
/// A numbering begins without a burst, so that its first two packets are neighbours.
const QUIET_PACKETS: u64 = 130;
/// Nanoseconds between packets where time only grows.
const PERIOD_NS: u64 = 1000;

struct Dice(Xoshiro256StarStar);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }
}

impl Plan {
    /// A counter of `bits` bits that counts by one, without restarts and without times.
    fn of(seed: u64, bits: u8) -> Plan {
        let last = SequenceRule::of_bits(bits).last;
        Plan { seed, last, step: 1, time: Time::None, wrap_ns: None, epochs: 1 }
    }

    /// The number in a packet.
    fn reduce(self, number: u64) -> u64 {
        self.last.checked_add(1).map_or(number, |count| number % count)
    }

    fn values(self) -> u64 {
        (self.last / self.step).saturating_add(1)
    }

    fn window(self) -> u64 {
        (self.values() / 4).clamp(1, SequenceLimits::default().window_packets.into())
    }

    /// Returns the largest displacement that is distinguished from a loss.
    fn distance(self) -> u64 {
        let distance = (self.window() / 3).max(1);
        if self.epochs > 1 { distance.min(60) } else { distance }
    }

    /// The longest burst that the counter itself (or the time) can show.
    fn burst_max(self) -> u64 {
        let narrow = self.values() < 1 << 16;
        let believed = if narrow { self.values() - self.window() } else { self.values() / 2 };
        let seen = match self.time {
            Time::Steps(_) => self.values() * 50,
            _ => believed,
        };
        seen.min(60_000).saturating_sub(self.distance() + 1)
    }
}

/// Packets of one numbering in the order in which they come, counted from its first.
fn arrivals(plan: Plan, dice: &mut Dice) -> Vec<u64> {
    let distance = plan.distance();
    let (mut packets, mut number) = (Vec::new(), 0);
    for sent in 0..PACKETS {
        let shift = dice.below(distance + 1);
        match dice.below(40) {
            // A numbering ends calmly, so that a new one may begin over numbers that came.
            _ if sent + QUIET_PACKETS > PACKETS => packets.push((number, number)),
            // The first packet, which may be kept aside, is often repeated.
            0..10 if sent == 0 => packets.extend([(0, 0), (0, 0)]),
            // Packets that come in time stand around a burst, so that bursts do not add up.
            0 if sent > QUIET_PACKETS => {
                let most = if dice.below(9) == 0 { plan.burst_max() } else { 300 };
                let burst = 1 + dice.below(plan.burst_max().min(most));
                packets.extend([(number, number), (number + burst + 1, number + burst + 1)]);
                number += burst + 1;
            }
            2 | 3 => packets.push((number + shift, number)),
            4 => packets.extend([(number, number), (number + shift, number)]),
            5 if sent > 2 => {}
            _ => packets.push((number, number)),
        }
        number += 1;
    }
    packets.sort_by_key(|packet| packet.0);
    packets.into_iter().map(|packet| packet.1).collect()
}

/// The tracker, and its expected results.
struct Check {
    plan: Plan,
    tracker: SequenceTracker,
    /// The counter's value at number 0 of this numbering, and the time.
    start: u64,
    start_ns: u64,
    seen: BTreeSet<u64>,
    /// The fate that the last packet must have, if it was doubtful.
    owed: Option<HeldFate>,
    before: (u64, u64),
    missing_before: Vec<(u32, u64)>,
    epoch: u32,
}

impl Check {
    fn value(&self, number: u64) -> u64 {
        self.plan.reduce(self.start.wrapping_add(number.wrapping_mul(self.plan.step)))
    }

    fn time_ns(&self, number: u64, dice: &mut Dice) -> Option<u64> {
        let jitter = match self.plan.time {
            Time::None | Time::Content => return None,
            Time::Grows => 0,
            Time::Steps(step) => dice.below(step / 3),
        };
        let period = if let Time::Steps(step) = self.plan.time { step } else { PERIOD_NS };
        let time_ns = self.start_ns + number * period + jitter;
        Some(self.plan.wrap_ns.map_or(time_ns, |wrap| time_ns % wrap))
    }

    fn wanted(&self, number: u64) -> Order {
        match self.seen.last().copied() {
            None => Order::InOrder,
            Some(_) if self.seen.contains(&number) => Order::Duplicate,
            Some(newest) if number == newest + 1 => Order::InOrder,
            Some(newest) if number > newest => Order::Gap { missing: number - newest - 1 },
            Some(_) => Order::Reordered,
        }
    }

    fn arrive(&mut self, number: u64, dice: &mut Dice) {
        let value = self.value(number);
        let time_ns = self.time_ns(number, dice);
        let content = (self.plan.time == Time::Content).then_some(self.epoch as u16);
        let evidence = Evidence { time_ns, content, ..Evidence::default() };
        let observed = self.tracker.observe(value, evidence);
        let newest = self.seen.last();
        let doubtful = self.epoch > 0 && self.seen.is_empty();
        let wanted = if doubtful { Order::Doubtful } else { self.wanted(number) };
        let context = format!("{:?}, epoch {}, number {number}", self.plan, self.epoch);
        assert_eq!(observed.order, wanted, "{context}, newest {newest:?}");
        assert_eq!(self.plan.reduce(observed.sequence), value, "{context}");
        // A repeat of the packet kept aside decides nothing.
        let repeated = self.owed.is_some() && wanted == Order::Duplicate && self.seen.len() == 1;
        let owed = if repeated && observed.held.is_none() { None } else { self.owed.take() };
        assert_eq!(observed.held, owed, "{context}");
        if doubtful {
            self.owed = Some(HeldFate::Restart { sequence: value });
        }
        self.seen.insert(number);
        if self.owed.is_none() {
            self.check_counts(&context);
        }
    }

    fn counts(&self) -> (u64, u64) {
        let (Some(first), Some(last)) = (self.seen.first(), self.seen.last()) else {
            return self.before;
        };
        let expected = last - first + 1;
        (self.before.0 + expected, self.before.1 + expected - self.seen.len() as u64)
    }

    fn check_counts(&self, context: &str) {
        let counts = (self.tracker.expected(), self.tracker.lost());
        assert_eq!(counts, self.counts(), "{context}");
        assert_eq!(self.tracker.restarts(), self.epoch, "{context}");
    }

    /// A number from far behind comes again between two others: late, and nothing else changes.
    fn straggle(&mut self, dice: &mut Dice) {
        let Some(newest) = self.seen.last().copied() else { return };
        let behind = self.plan.window() + dice.below(self.plan.window());
        if newest < behind || self.owed.is_some() {
            return;
        }
        let observed = self.tracker.observe(self.value(newest - behind), None);
        assert_eq!((observed.held, observed.order), (None, Order::Doubtful), "{:?}", self.plan);
        self.check_counts("after a straggler");
        self.owed = Some(HeldFate::Late);
    }

    /// Returns the numbers missing in this numbering, in the form that packets carry.
    fn missing(&self) -> Vec<(u32, u64)> {
        let (Some(&first), Some(&last)) = (self.seen.first(), self.seen.last()) else {
            return Vec::new();
        };
        let missing = (first..last).filter(|number| !self.seen.contains(number));
        missing.map(|number| (self.epoch, self.value(number))).collect()
    }

    fn check_missing(&self) {
        let Plan { step, .. } = self.plan;
        let listed: Vec<(u32, u64)> = self
            .tracker
            .missing()
            .flat_map(|MissingRange { epoch, first, last }| {
                let count = last.wrapping_sub(first) / step;
                let plan = self.plan;
                (0..=count).map(move |at| (epoch, plan.reduce(first.wrapping_add(at * step))))
            })
            .collect();
        let mut wanted = self.missing_before.clone();
        wanted.extend(self.missing());
        assert_eq!(listed, wanted, "{:?}", self.plan);
        assert_eq!(self.tracker.missing_not_listed(), 0);
    }

    /// Switches the board off and on; its counter begins where the tracker can notice it.
    fn restart(&mut self, coming: &[u64], dice: &mut Dice) {
        let Some(&newest) = self.seen.last() else { return };
        let newest_value = self.value(newest);
        let missing = self.missing();
        let far = SequenceLimits::default().jump_packets_max + PACKETS + 60_000 * 100;
        let first = coming[0];
        let second = coming.iter().copied().find(|&number| number != first).unwrap_or(first);
        self.start = match self.plan.time {
            Time::Grows | Time::Content => {
                // It counts over numbers that came lately: only time or content shows that. Content
                // shows nothing where the second number had not come.
                let near = self.seen.range(newest.saturating_sub(self.plan.window() - 1)..);
                let near: Vec<u64> = near
                    .copied()
                    .filter(|&number| number >= first && number - first + second <= newest)
                    .filter(|&number| {
                        let second = number - first + second;
                        self.plan.time == Time::Grows || self.seen.contains(&second)
                    })
                    .collect();
                let number = near[dice.below(near.len() as u64) as usize] - first;
                self.value(number)
            }
            _ => self.plan.reduce(newest_value.wrapping_add(far + dice.below(far))),
        };
        self.start_ns += (newest + 2) * PERIOD_NS;
        self.before = self.counts();
        self.missing_before.extend(missing);
        self.seen.clear();
        self.epoch += 1;
    }
}

fn run(plan: Plan) {
    let seed = plan.seed ^ u64::from(plan.last.count_ones()) << 32 ^ plan.step << 40;
    let mut dice = Dice(Xoshiro256StarStar::seed_from_u64(seed));
    let timestamp_step_ns = if let Time::Steps(step) = plan.time { Some(step) } else { None };
    let Plan { last, step, wrap_ns: timestamp_wrap_ns, .. } = plan;
    let rule = SequenceRule { last, step, timestamp_step_ns, timestamp_wrap_ns };
    let limits = SequenceLimits { ranges_max: 1 << 16, ..SequenceLimits::default() };
    let mut check = Check {
        plan,
        tracker: SequenceTracker::new(rule, limits),
        start: plan.reduce(dice.below(u64::MAX)),
        start_ns: 1 << 40,
        seen: BTreeSet::new(),
        owed: None,
        before: (0, 0),
        missing_before: Vec::new(),
        epoch: 0,
    };
    for epoch in 0..plan.epochs {
        let coming = arrivals(plan, &mut dice);
        if epoch > 0 {
            check.restart(&coming, &mut dice);
        }
        for (index, &number) in coming.iter().enumerate() {
            let last = index + 1 == coming.len();
            if plan.time == Time::None && plan.last >= 0xF_FFFF && !last && dice.below(50) == 0 {
                check.straggle(&mut dice);
            }
            check.arrive(number, &mut dice);
        }
    }
    check.check_missing();
    assert_eq!(check.tracker.finish(), check.owed);
}

fn run_all(name: &str, seeds: u64, plans: impl Fn(u64) -> Vec<Plan>) {
    for seed in 0..seeds {
        println!("{name}: seed {seed}");
        plans(seed).into_iter().for_each(run);
    }
}

#[test]
fn losses_bursts_repeats_and_displacement_agree_with_the_set_of_numbers_at_every_width() {
    run_all("every width", 3, |seed| {
        (4..=64)
            .map(|bits| Plan::of(seed, bits))
            .chain((4..=64).map(|bits| Plan { time: Time::Grows, ..Plan::of(seed, bits) }))
            .collect()
    });
}

#[test]
fn counters_that_grow_by_more_than_one_agree_with_the_set_of_numbers() {
    run_all("steps", 5, |seed| {
        [(12, 2), (16, 3), (16, 8), (24, 1000), (32, 7), (48, 4096), (64, 3), (64, 1 << 33)]
            .map(|(bits, step)| Plan { step, ..Plan::of(seed, bits) })
            .to_vec()
    });
}

#[test]
fn restarts_far_away_agree_with_a_set_of_numbers_each() {
    run_all("restarts", 3, |seed| {
        (28..=64).map(|bits| Plan { epochs: 4, ..Plan::of(seed, bits) }).collect()
    });
}

#[test]
fn restarts_over_recent_numbers_with_a_later_time_agree_with_a_set_of_numbers_each() {
    run_all("restarts by time", 12, |seed| {
        [12, 16, 20, 24, 32, 48, 64]
            .map(|bits| Plan { time: Time::Grows, epochs: 4, ..Plan::of(seed, bits) })
            .to_vec()
    });
}

#[test]
fn restarts_over_recent_numbers_with_other_content_agree_with_a_set_of_numbers_each() {
    run_all("restarts by content", 12, |seed| {
        [16, 20, 24, 32, 48, 64]
            .map(|bits| Plan { time: Time::Content, epochs: 4, ..Plan::of(seed, bits) })
            .to_vec()
    });
}

#[test]
fn losses_of_whole_wraps_agree_with_the_set_of_numbers_where_time_shows_them() {
    run_all("wraps", 5, |seed| {
        (4..=20).map(|bits| Plan { time: Time::Steps(900), ..Plan::of(seed, bits) }).collect()
    });
}

#[test]
fn counters_that_begin_anew_at_any_number_agree_with_the_set_of_numbers() {
    run_all("any wrap", 5, |seed| {
        [15, 16, 99, 999, 1000, 39_999, 65_534, 999_999, (1 << 39) + 12_345, u64::MAX - 1]
            .map(|last| Plan { last, ..Plan::of(seed, 64) })
            .to_vec()
    });
}

#[test]
fn a_sensor_time_that_begins_anew_finds_whole_wraps_and_restarts_all_the_same() {
    run_all("time wraps", 5, |seed| {
        let timed = |bits| Plan { time: Time::Steps(900), ..Plan::of(seed, bits) };
        let wraps = (4..=16).map(|bits| {
            // The longest burst is of 50 wraps of the counter; time must go twice as far.
            let wrap_ns = Some((1 << bits) * 900 * 120 + 7);
            Plan { wrap_ns, ..timed(bits) }
        });
        let restarts = [16, 24, 32].map(|bits| Plan {
            time: Time::Grows,
            epochs: 4,
            wrap_ns: Some(1 << 24),
            ..Plan::of(seed, bits)
        });
        wraps.chain(restarts).collect()
    });
}
