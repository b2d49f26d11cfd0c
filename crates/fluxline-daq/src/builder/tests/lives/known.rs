//! The truth of a life, and the closed list of what cannot be known (docs/events.md).

use std::collections::{BTreeMap, BTreeSet};

use super::super::world::Row;
use super::life::{Board, Life, Off, Packet};
use crate::event::EventStatus;

/// Everything that was sent, by board and by trigger.
pub struct Truth<'a> {
    life: &'a Life,
    /// Packets by board, in the order in which they were sent.
    boards: Vec<Vec<Packet>>,
    by_trigger: BTreeMap<usize, Vec<Packet>>,
    /// The triggers of events and the boards in them, in the order in which they closed.
    closed: Vec<(usize, &'a BTreeSet<u32>)>,
}

impl<'a> Truth<'a> {
    /// Makes the truth of a life with these rows; `refused` are packets that the readout did not
    /// accept.
    pub fn new(life: &'a Life, rows: &'a [Row], refused: &[u64]) -> Truth<'a> {
        let mut boards = vec![Vec::new(); life.boards.len()];
        let mut by_trigger: BTreeMap<usize, Vec<Packet>> = BTreeMap::new();
        for (mark, packet) in &life.packets {
            let packet = Packet { dropped: packet.dropped || refused.contains(mark), ..*packet };
            boards[packet.board as usize].push(packet);
            by_trigger.entry(packet.trigger).or_default().push(packet);
        }
        let events = rows.iter().filter(|row| row.status != EventStatus::Late);
        let closed = events.map(|row| (life.packets[&row.marks[0]].trigger, &row.sources));
        Truth { life, boards, by_trigger, closed: closed.collect() }
    }

    /// Returns what is wrong with the status of a trigger's event.
    pub fn judge(&self, trigger: usize, status: EventStatus, missing: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let lost: Vec<u32> = (0..self.boards.len() as u32)
            .filter(|board| self.is_known_lost(*board, trigger))
            .collect();
        if status == EventStatus::Complete {
            if !lost.is_empty() {
                faults.push(format!("complete, and lacks boards {lost:?}"));
            }
            return faults;
        }
        for item in missing.split("; ") {
            let Some((board, reason)) =
                item.strip_prefix("board=").and_then(|item| item.split_once(": "))
            else {
                faults.push(format!("no words of the list: {item:?}"));
                continue;
            };
            let board: u32 = board.parse().expect("a number");
            if !self.is_lacking(board, trigger) && !self.may_lack(board, trigger, status, reason) {
                faults.push("incomplete, and lacks nothing".to_owned());
            }
        }
        for board in lost {
            if !missing.contains(&format!("board={board}:")) {
                faults.push(format!("does not name board {board}"));
            }
        }
        faults
    }

    /// Returns true when a packet of the board for the trigger was lost.
    fn is_lacking(&self, board: u32, trigger: usize) -> bool {
        let packets = self.by_trigger.get(&trigger).map_or(&[][..], Vec::as_slice);
        packets.iter().any(|packet| packet.board == board && packet.dropped)
    }

    /// Returns true when a packet of the board for the trigger was lost, and the board's counter
    /// shows it: packets of the same count before and after it came.
    fn is_known_lost(&self, board: u32, trigger: usize) -> bool {
        let sent = &self.boards[board as usize];
        let is_shown = |lost: &Packet| {
            let came = sent.iter().filter(|its| !its.dropped && its.restarts == lost.restarts);
            let (mut before, mut after) = (false, false);
            for its in came {
                before |= its.number < lost.number;
                after |= its.number > lost.number;
            }
            before && after
        };
        let mut lost = sent.iter().filter(|its| its.dropped && its.trigger == trigger);
        if self.life.counters {
            return lost.any(is_shown);
        }
        // Without a counter only a part that came shows the others.
        let part_came = sent.iter().any(|its| !its.dropped && its.trigger == trigger);
        part_came && lost.next().is_some()
    }

    /// The closed list: an event that lacks nothing may be called incomplete because
    fn may_lack(&self, board: u32, trigger: usize, status: EventStatus, reason: &str) -> bool {
        let sent = &self.boards[board as usize];
        let came = |its: &&Packet| !its.dropped;
        let before = sent.iter().rev().filter(came).find(|its| its.trigger < trigger);
        let after = sent.iter().filter(came).find(|its| its.trigger > trigger);
        let is_in = sent.iter().filter(came).any(|its| its.trigger == trigger);
        let lost_around = |from: &Packet, to: &Packet| {
            let between = (from.trigger..=to.trigger).contains(&trigger);
            between
                && sent
                    .iter()
                    .any(|its| its.dropped && (from.trigger..=to.trigger).contains(&its.trigger))
        };
        if is_in {
            return false;
        }
        match (before, after) {
            // packets of the board are lost between the same two of its packets;
            (Some(before), Some(after)) if reason == "lost" && lost_around(before, after) => true,
            // its counter began anew, and its packets seem to be of the count before;
            (Some(before), _) if self.life.hides_restart(before) => true,
            // one packet came after its keys began anew: that is not a proof;
            (Some(before), Some(after)) if self.is_only_one_of_spill(before, after) => true,
            // its counter began anew in between: nothing shows what it sent before;
            (Some(before), Some(after)) if before.restarts != after.restarts => true,
            // nothing came of it after that;
            (Some(_), None) => reason != "lost" || status == EventStatus::Stopped,
            // it has no counter, and was in nearly all events so far.
            _ if !self.life.counters => self.was_usual(board),
            _ => false,
        }
    }

    /// Returns true if a board without a counter was at any time in about nine of ten events since
    /// its first one, in the order in which they closed.
    fn was_usual(&self, board: u32) -> bool {
        let (mut all, mut with) = (0_u32, 0_u32);
        let joined = self.closed.iter().skip_while(|event| !event.1.contains(&board));
        joined.map(|event| &self.by_trigger[&event.0]).any(|packets| {
            all += 1;
            with += u32::from(packets.iter().any(|its| its.board == board && !its.dropped));
            with >= 9 && f64::from(with) >= 0.85 * f64::from(all)
        })
    }

    /// Returns true if nothing shows yet that the counter of a packet of this trigger began anew.
    pub fn is_restart(&self, trigger: usize) -> bool {
        let packets = self.by_trigger.get(&trigger).map_or(&[][..], Vec::as_slice);
        packets.iter().any(|its| self.life.hides_restart(its))
    }

    /// Generations are distinguished only by time. Returns true if a source came in a pause of all
    /// others, and its key was the first of its count; if keys began anew while a board lagged,
    /// stalled, was off or had sent nothing; if packets of two counts came together; or if a packet
    /// without a counter came after more than the time-out.
    pub fn is_unclear(&self) -> bool {
        let is_slow = |its: &Board| its.latency >= 50_000_000 || its.stalls() || its.off.1 > 0;
        if self.life.triggers.iter().any(|its| its.2 > 0) && self.life.boards.iter().any(is_slow) {
            return true;
        }
        if self.life.counters && self.life.boards.iter().any(Board::restarts_in_backlog) {
            return true;
        }
        let (mut known, mut newest, mut grown, mut spills) = (BTreeMap::new(), 0, None, 0);
        let mut own: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
        for sent in &self.life.arrivals {
            let packet = self.life.packets[&sent.mark];
            let spill = self.life.triggers[packet.trigger].2;
            let quiet = grown.is_some_and(|grown| sent.at - grown >= 450_000_000);
            let restarts = if self.life.hides_restart(&packet) { 0 } else { packet.restarts };
            let first = known.get(&packet.board) != Some(&restarts);
            let begins = spill > spills && known.len() < self.boards.len();
            let sent_before = own.entry(packet.board).or_default();
            let overtaken = sent_before.iter().find(|its| its.1 > packet.trigger);
            let is_old = overtaken.is_some_and(|its| sent.at - its.0 >= 430_000_000);
            sent_before.push((sent.at, packet.trigger));
            if (quiet && first) || spill < spills || begins || (is_old && !self.life.counters) {
                return true;
            }
            known.insert(packet.board, restarts);
            spills = spill;
            if grown.is_none() || packet.trigger > newest {
                (newest, grown) = (packet.trigger, Some(sent.at));
            }
        }
        false
    }

    /// Returns true if `after` is the last packet that came of its board, and in another spill.
    fn is_only_one_of_spill(&self, before: &Packet, after: &Packet) -> bool {
        let spill = |packet: &Packet| self.life.triggers[packet.trigger].2;
        let sent = &self.boards[after.board as usize];
        let later = sent.iter().filter(|its| !its.dropped && its.trigger >= after.trigger);
        spill(before) != spill(after) && later.count() == 1
    }
}

/// The readout refuses packets that fit no numbering, and counts them.
pub fn may_refuse(life: &Life, refused: u64, counted: u64) -> bool {
    refused == counted && life.boards.iter().any(|its| its.mode == Off::Anew)
}
