//! One random life: boards that come late, lag, stall, die, return, lose and repeat packets; all
//! that was sent is known.

use std::collections::{BTreeMap, BTreeSet};

use super::super::random::Random;
use super::super::world::*;

/// One packet that a board sent.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub board: u32,
    /// The number of its trigger in the life.
    pub trigger: usize,
    /// Number of restarts of its counter before.
    pub restarts: u32,
    /// Packets since then.
    pub number: u64,
    /// The network lost it.
    pub dropped: bool,
    /// The time at which it comes.
    pub at: u64,
}

/// The habits of a board.
#[derive(Clone, Copy, Debug, Default)]
pub struct Board {
    pub start: u64,
    pub prescale: u64,
    pub latency: u64,
    drop: u64,
    twice: u64,
    overtaken: (u64, u64),
    /// Off from and to, and what its counter does.
    pub off: (u64, u64),
    pub mode: Off,
    /// Holds its packets back from and to.
    stall: (u64, u64),
    first_number: u64,
    /// The packet that shows that its counter began anew: the time at which it comes, and its
    /// number.
    shown_by: (u64, u64),
}

impl Board {
    /// Returns true if it holds packets back.
    pub fn stalls(&self) -> bool {
        self.stall.1 > 0
    }

    /// Returns true if its counter began anew while it held packets back.
    pub fn restarts_in_backlog(&self) -> bool {
        let back = self.off.1.saturating_add(self.latency);
        let overlaps = self.stall.0 < back && self.off.0 < self.stall.1;
        self.mode == Off::Anew && self.stalls() && overlaps
    }
}

/// The way of a counter while its board is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Off {
    /// It stands.
    #[default]
    Stands,
    /// It begins anew.
    Anew,
    /// It counts what the board would have sent.
    GoesOn,
}

/// One life.
#[derive(Debug)]
pub struct Life {
    pub widths: Widths,
    pub counters: bool,
    pub fragments: bool,
    pub boards: Vec<Board>,
    /// Time, key, and spill of each trigger.
    pub triggers: Vec<(u64, u64, u64)>,
    /// By mark.
    pub packets: BTreeMap<u64, Packet>,
    /// In order of arrival, copies too.
    pub arrivals: Vec<Sent>,
    pub end: u64,
}

impl Life {
    pub fn new(seed: u64) -> Life {
        let mut random = Random::new(seed);
        let key = random.of(&[16, 32, 64, 64]);
        let counter = random.of(&[16, 32, 32, 64, 0]);
        let mut life = Life {
            widths: Widths { counter: counter.max(16), key, spill: 32 },
            counters: counter > 0,
            fragments: random.chance(400),
            boards: Vec::new(),
            triggers: Vec::new(),
            packets: BTreeMap::new(),
            arrivals: Vec::new(),
            end: 0,
        };
        let lasts = 2000 + random.below(4000);
        life.trigger(&mut random, lasts * MS);
        for _ in 0..2 + random.below(4) {
            let board = board(&mut random, lasts, counter.max(16));
            life.boards.push(board);
        }
        life.boards[0].start = 0;
        if life.boards.iter().all(|board| board.prescale > 1) {
            life.boards[0].prescale = 1;
        }
        for board in 0..life.boards.len() {
            life.send(&mut random, board);
        }
        life.arrivals.sort_by_key(|sent| sent.at);
        for board in 0..life.boards.len() {
            life.boards[board].shown_by = life.restart_is_shown_by(board as u32);
        }
        let last = life.arrivals.last().map_or(0, |sent| sent.at);
        life.end = last + random.of(&[300, 1200]) * MS;
        life
    }

    /// Returns true if a packet of a counter that began anew seems to be of the one before.
    pub fn hides_restart(&self, packet: &Packet) -> bool {
        let (at, number) = self.boards[packet.board as usize].shown_by;
        let is_hidden = packet.at < at || packet.number < number;
        self.counters && packet.restarts > 0 && is_hidden
    }

    /// Returns the first packet after a restart whose number had come before, or is beyond all that
    /// came.
    fn restart_is_shown_by(&self, board: u32) -> (u64, u64) {
        let first = self.boards[board as usize].first_number;
        let unused = 64 - self.widths.counter;
        let in_old = |number: u64| (number.wrapping_sub(first) << unused) as i64 >> unused;
        let came = self.arrivals.iter().map(|sent| &self.packets[&sent.mark]);
        let (old, new): (Vec<&Packet>, Vec<&Packet>) =
            came.filter(|its| its.board == board).partition(|its| its.restarts == 0);
        let old: BTreeSet<i64> = old.iter().map(|its| its.number as i64).collect();
        let shows = |its: &&Packet| {
            let number = in_old(its.number);
            old.contains(&number) || old.last().is_none_or(|last| number > *last)
        };
        let shown = new.into_iter().find(shows);
        shown.map_or((u64::MAX, u64::MAX), |its| (its.at, its.number))
    }

    fn trigger(&mut self, random: &mut Random, lasts: u64) {
        let period = 1000 * MS / random.of(&[60, 120, 200]);
        let top = u64::MAX >> (64 - self.widths.key);
        let first = random.of(&[0, 1, 1000, top - 150, top - 400, top / 2 - 100]);
        let spills = random.chance(150);
        let pause = match (spills, random.chance(250)) {
            (true, _) => (1000 + random.below(1000), 800 + random.below(700)),
            (false, true) => (1000 + random.below(1000), 300 + random.below(1500)),
            (false, false) => (u64::MAX / MS, 0),
        };
        let (mut time, mut key, mut spill, mut paused) = (1000 * MS, first, 0, false);
        while time < 1000 * MS + lasts {
            if !paused && time >= (1000 + pause.0).saturating_mul(MS) {
                paused = true;
                time += pause.1 * MS;
                if spills {
                    (key, spill) = (first, 1);
                }
            }
            self.triggers.push((time, key, spill));
            key = key.wrapping_add(1);
            time += if random.chance(700) { random.below(2 * period) } else { period };
        }
    }

    fn send(&mut self, random: &mut Random, number: usize) {
        let board = self.boards[number];
        let twice = board.twice;
        let (mut first, mut sent_before, mut restarts) = (board.first_number, 0, 0);
        let mut was_off = false;
        for trigger in 0..self.triggers.len() {
            let (time, key, _) = self.triggers[trigger];
            if !(trigger as u64).is_multiple_of(board.prescale) || time < board.start {
                continue;
            }
            let parts = if self.fragments && trigger.is_multiple_of(3) { 2 } else { 1 };
            let off = (board.off.0..board.off.1).contains(&time);
            if was_off && !off && board.mode == Off::Anew {
                (first, sent_before, restarts) = (0, 0, restarts + 1);
            }
            was_off = off;
            if off && board.mode != Off::GoesOn {
                continue;
            }
            for part in 0..parts {
                let dropped = off || random.chance(board.drop);
                let mut at = time + board.latency + u64::from(part) * 300 * US;
                at += random.below(500) * US;
                if random.chance(board.overtaken.0) {
                    at += board.overtaken.1 * MS;
                }
                if (board.stall.0..board.stall.1).contains(&at) {
                    at = board.stall.1 + trigger as u64 * US + u64::from(part);
                }
                let mark = self.packets.len() as u64 + 1;
                let count =
                    first.wrapping_add(sent_before) & (u64::MAX >> (64 - self.widths.counter));
                let sent = Sent {
                    at,
                    source: number as u32,
                    count: self.counters.then_some(count),
                    key: key & (u64::MAX >> (64 - self.widths.key)),
                    part: (part, parts),
                    spill: None,
                    input: 0,
                    mark,
                };
                let (board, number) = (number as u32, sent_before);
                self.packets.insert(mark, Packet { board, trigger, restarts, number, dropped, at });
                sent_before += 1;
                if dropped {
                    continue;
                }
                self.arrivals.push(sent);
                if random.chance(twice) {
                    let at = at + random.of(&[0, 500 * US, 20 * MS]);
                    self.arrivals.push(Sent { at, ..sent });
                }
            }
        }
    }
}

fn board(random: &mut Random, lasts: u64, counter_bits: u8) -> Board {
    let top = u64::MAX >> (64 - counter_bits);
    let mut board = Board {
        start: 0,
        prescale: random.of(&[1, 1, 1, 1, 2, 7, 50]),
        latency: random.of(&[0, 0, 0, 2, 50, 300]) * MS,
        drop: random.of(&[0, 0, 2, 20]),
        twice: random.of(&[0, 0, 10, 50]),
        overtaken: (random.of(&[0, 0, 10, 50]), random.of(&[1, 4, 8, 40])),
        first_number: random.of(&[0, 0, 5, top - 100]),
        ..Board::default()
    };
    let at = |ms: u64| (1000 + ms) * MS;
    if random.chance(250) {
        board.start = at(100 + random.below(1400));
    }
    if random.chance(350) {
        let dies = 500 + random.below(lasts - 800);
        let back = dies + 50 + random.below(2000);
        board.off = (at(dies), if random.chance(500) { u64::MAX } else { at(back) });
        board.mode = random.of(&[Off::Stands, Off::Anew, Off::GoesOn]);
    }
    if random.chance(200) {
        let from = 300 + random.below(lasts - 600);
        board.stall = (at(from), at(from + 100 + random.below(1500)));
    }
    board
}
