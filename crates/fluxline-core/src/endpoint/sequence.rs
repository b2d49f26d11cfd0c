//! The sequence of an unreliable connection: received and lost frames, and restarts of the sender.
//!
//! A PSN has 24 bits and no time stamp. A sender that is switched off and on counts from its first
//! number again, so its first frames look like old ones. A frame is doubtful when it is neither
//! ahead of the newest nor in a gap behind it. It is kept aside, and the next frame decides:
//!
//! * A neighbour of the doubtful frame confirms that the sender restarted, or that very many frames
//!   were lost.
//! * A frame that fits the old numbering shows that the doubtful one was a straggler.
//!
//! A frame whose number has come before is a duplicate if it has the same content and comes soon.
//! Otherwise it is doubtful.
//!
//! Two Fluxline ends agree on the first PSN, and a restarted end makes a new connection. So no
//! frame is doubtful there.
//! Source of the rule: RFC 3550, appendix A.1; the same for packet counters is in the crate
//! fluxline-daq, `readout/sequence.rs`.

use alloc::boxed::Box;

use super::counters::ConnectionCounters;
use super::frames::WINDOW;
use crate::roce::Psn;
use crate::{Moment, Span};

const WORDS: usize = WINDOW as usize / 64;
/// A larger jump ahead is doubtful. Chosen: 60 ms of 1 KiB frames at 10 Gb/s.
const AHEAD_MAX: i32 = 1 << 16;
/// A confirmed jump ahead up to this is loss; a larger one is a restart. Chosen: a quarter of all
/// PSNs, 3.5 s of 1 KiB frames at 10 Gb/s.
const LOSS_MAX: i32 = 1 << 22;
/// Distance by which a frame of a new numbering may come behind its neighbour.
const BEHIND_MAX: i32 = 64;
/// A duplicate that the network makes comes sooner than this after its original.
const SILENCE: Span = Span::from_ms(10);

/// The identity of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub psn: Psn,
    /// A check sum of its content.
    pub print: u32,
    pub now: Moment,
}

/// The relation of a PSN to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is this many numbers after the newest.
    Ahead(u32),
    /// It was counted as lost and has come now.
    Late,
    /// It is this many numbers before the first of this numbering.
    BeforeFirst(u32),
    /// It came before, or is too old to know.
    Duplicate,
    /// It is kept aside until the next frame, or the end, decides.
    Doubtful(Doubt),
}

/// The reason why a frame is doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Its number is far from all that came.
    Far,
    /// Its number came before, with another content.
    Different,
    /// Its number and content came before, and nothing came for a while.
    Silent,
}

/// The fate of the frame that was kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It belongs to the old numbering and may be a duplicate: it is dropped.
    Straggler,
    /// It is the first frame of a new numbering, or the first after a very large loss.
    Good,
}

/// The judgement of a frame, and of the frame that was kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub held: Option<Fate>,
    pub arrival: Arrival,
}

/// The newest PSN, and a bit for each of the [`WINDOW`] before it.
pub(super) struct Sequence {
    newest: Option<Psn>,
    /// PSNs from the first to the newest, up to the window.
    span: u32,
    /// Bit n of the ring: PSN n modulo the window came.
    came: [u64; WORDS],
    restarts: Option<Box<Restarts>>,
}

/// The evidence that distinguishes a restart from duplicates.
struct Restarts {
    /// Content of the frames that came, by PSN modulo the window.
    prints: Box<[u32]>,
    /// The first PSN of the first numbering; a restarted sender begins there again.
    origin: Option<Psn>,
    /// The first number was not known, so frames before the first one may come.
    is_first_open: bool,
    newest_at: Moment,
    doubtful: Option<Doubtful>,
}

/// A frame that is kept aside, and the reason.
#[derive(Clone, Copy)]
struct Doubtful {
    mark: Mark,
    doubt: Doubt,
}

impl Sequence {
    /// Returns the sequence of a sender whose first PSN was agreed on.
    pub fn agreed(first: Psn) -> Sequence {
        Sequence { newest: Some(first.minus(1)), span: 0, came: [0; WORDS], restarts: None }
    }

    /// Returns the sequence of a configured sender, which may restart. `first`: the number of its
    /// first frame; `None`: any number.
    pub fn configured(first: Option<Psn>) -> Sequence {
        let restarts = Restarts {
            prints: alloc::vec![0; WINDOW as usize].into(),
            origin: first,
            is_first_open: first.is_none(),
            newest_at: Moment::default(),
            doubtful: None,
        };
        Sequence {
            newest: first.map(|first| first.minus(1)),
            span: 0,
            came: [0; WORDS],
            restarts: Some(Box::new(restarts)),
        }
    }

    /// Returns the number after the newest one, where no frame is doubtful.
    pub fn next_agreed(&self) -> Option<Psn> {
        self.newest.filter(|_| self.restarts.is_none()).map(|newest| newest.plus(1))
    }

    /// Judges a frame and changes nothing. [`Sequence::take`] follows when the frame is valid.
    #[inline]
    pub fn judge(&self, mark: &Mark) -> Judgement {
        let arrival = self.arrival(mark);
        let doubtful = self.restarts.as_ref().and_then(|of| of.doubtful);
        let Some(doubtful) = doubtful else { return Judgement { held: None, arrival } };
        let held = doubtful.mark;
        if (held.psn, held.print) == (mark.psn, mark.print) {
            return Judgement { held: None, arrival: Arrival::Duplicate };
        }
        if doubtful.is_confirmed_by(mark, arrival) {
            let ahead = mark.psn.distance_from(held.psn);
            let arrival = match ahead {
                1.. => Arrival::Ahead(ahead.unsigned_abs()),
                // Other content under the same number: it restarted once more.
                0 => Arrival::Doubtful(Doubt::Different),
                _ if self.loss_before(held.psn).is_some() => Arrival::Late,
                _ => Arrival::BeforeFirst(ahead.unsigned_abs()),
            };
            return Judgement { held: Some(Fate::Good), arrival };
        }
        Judgement { held: Some(Fate::Straggler), arrival }
    }

    fn arrival(&self, mark: &Mark) -> Arrival {
        let Some(newest) = self.newest else { return Arrival::Ahead(1) };
        let ahead = mark.psn.distance_from(newest);
        let Some(restarts) = &self.restarts else { return self.place_agreed(mark.psn, ahead) };
        if ahead > 0 {
            let near = ahead <= AHEAD_MAX;
            return if near { Arrival::Ahead(ahead as u32) } else { Arrival::Doubtful(Doubt::Far) };
        }
        let behind = ahead.unsigned_abs();
        if behind >= self.span {
            let before = behind - self.span + 1;
            let is_near = before <= BEHIND_MAX as u32 && behind < WINDOW;
            return match restarts.is_first_open && is_near {
                true => Arrival::BeforeFirst(before),
                false => Arrival::Doubtful(Doubt::Far),
            };
        }
        if !self.has_come(mark.psn) {
            return Arrival::Late;
        }
        if restarts.prints[index(mark.psn)] != mark.print {
            return Arrival::Doubtful(Doubt::Different);
        }
        match mark.now.since(restarts.newest_at) > SILENCE {
            true => Arrival::Doubtful(Doubt::Silent),
            false => Arrival::Duplicate,
        }
    }

    fn place_agreed(&self, psn: Psn, ahead: i32) -> Arrival {
        match ahead {
            1.. => Arrival::Ahead(ahead as u32),
            _ if ahead.unsigned_abs() >= self.span || self.has_come(psn) => Arrival::Duplicate,
            _ => Arrival::Late,
        }
    }

    /// Returns how far a doubtful number is ahead of the newest, if frames were lost; `None`: the
    /// sender restarted.
    fn loss_before(&self, held: Psn) -> Option<u32> {
        let origin = self.restarts.as_ref().and_then(|of| of.origin);
        let from_origin = origin.map(|origin| held.distance_from(origin));
        let is_begin = from_origin.is_some_and(|far| (0..BEHIND_MAX).contains(&far));
        let ahead = held.distance_from(self.newest?);
        ((1..=LOSS_MAX).contains(&ahead) && !is_begin).then_some(ahead as u32)
    }

    /// Notes a valid frame with the judgement of [`Sequence::judge`].
    #[inline]
    pub fn take(&mut self, mark: &Mark, judged: Judgement, counters: &mut ConnectionCounters) {
        match judged.held {
            Some(Fate::Good) => self.settle(counters),
            Some(Fate::Straggler) => self.drop_held(counters),
            None => {}
        }
        match judged.arrival {
            Arrival::Ahead(ahead) => self.advance(mark, ahead, counters),
            Arrival::Late => {
                counters.frames_lost -= 1;
                counters.frames_late += 1;
                self.note(mark);
            }
            Arrival::BeforeFirst(before) => {
                counters.frames_expected += u64::from(before);
                counters.frames_lost += u64::from(before) - 1;
                counters.frames_late += 1;
                self.lower_first(mark, before);
            }
            Arrival::Duplicate => counters.frames_duplicate += 1,
            Arrival::Doubtful(doubt) => {
                if let Some(restarts) = &mut self.restarts {
                    restarts.doubtful = Some(Doubtful { mark: *mark, doubt });
                }
            }
        }
    }

    /// Returns the fate of a frame that is still kept aside at the end. If it may be the first of a
    /// new numbering, it counts as that, so that it is not lost.
    pub fn finish(&mut self, counters: &mut ConnectionCounters) -> Option<Fate> {
        let doubtful = self.restarts.as_ref()?.doubtful?;
        if doubtful.doubt == Doubt::Silent {
            self.drop_held(counters);
            return Some(Fate::Straggler);
        }
        self.settle(counters);
        Some(Fate::Good)
    }

    fn drop_held(&mut self, counters: &mut ConnectionCounters) {
        counters.frames_duplicate += 1;
        if let Some(restarts) = &mut self.restarts {
            restarts.doubtful = None;
        }
    }

    /// Takes the doubtful frame as the first of a new numbering, or after a large loss.
    fn settle(&mut self, counters: &mut ConnectionCounters) {
        let doubtful = self.restarts.as_mut().and_then(|of| of.doubtful.take());
        let Some(Doubtful { mark: held, .. }) = doubtful else { return };
        if let Some(ahead) = self.loss_before(held.psn) {
            self.advance(&held, ahead, counters);
            return;
        }
        if let Some(restarts) = &mut self.restarts {
            restarts.is_first_open = true;
        }
        counters.restarts += 1;
        counters.frames_expected += 1;
        (self.newest, self.span) = (Some(held.psn), 1);
        self.note(&held);
        self.set_newest_time(held.now);
    }

    fn advance(&mut self, mark: &Mark, ahead: u32, counters: &mut ConnectionCounters) {
        // The skipped frames have not come. A skip of the window or more clears all bits.
        for skipped in 1..ahead.min(WINDOW) {
            let psn = mark.psn.minus(skipped);
            self.came[index(psn) / 64] &= !(1 << (index(psn) % 64));
        }
        counters.frames_lost += u64::from(ahead) - 1;
        counters.frames_expected += u64::from(ahead);
        if let Some(restarts) = &mut self.restarts {
            restarts.origin.get_or_insert(mark.psn);
        }
        (self.newest, self.span) = (Some(mark.psn), (self.span + ahead).min(WINDOW));
        self.note(mark);
        self.set_newest_time(mark.now);
    }

    /// Moves the first number `before` numbers back. The frames between have not come.
    fn lower_first(&mut self, mark: &Mark, before: u32) {
        for between in 1..before {
            let psn = mark.psn.plus(between);
            self.came[index(psn) / 64] &= !(1 << (index(psn) % 64));
        }
        self.span = (self.span + before).min(WINDOW);
        self.note(mark);
    }

    fn has_come(&self, psn: Psn) -> bool {
        self.came[index(psn) / 64] >> (index(psn) % 64) & 1 == 1
    }

    fn note(&mut self, mark: &Mark) {
        self.came[index(mark.psn) / 64] |= 1 << (index(mark.psn) % 64);
        if let Some(restarts) = &mut self.restarts {
            restarts.prints[index(mark.psn)] = mark.print;
        }
    }

    fn set_newest_time(&mut self, now: Moment) {
        if let Some(restarts) = &mut self.restarts {
            restarts.newest_at = now;
        }
    }
}

impl Doubtful {
    /// Returns true when the next frame confirms that the doubtful one begins a new numbering.
    fn is_confirmed_by(&self, mark: &Mark, arrival: Arrival) -> bool {
        let ahead = mark.psn.distance_from(self.mark.psn);
        let fits = match arrival {
            // The next number of both numberings. Different content under a known number is not a
            // duplicate.
            Arrival::Ahead(1) => self.doubt == Doubt::Different && ahead == 1,
            Arrival::Ahead(_) => false,
            Arrival::Duplicate => self.doubt != Doubt::Far,
            Arrival::Late | Arrival::BeforeFirst(_) | Arrival::Doubtful(_) => true,
        };
        fits && (-BEHIND_MAX..=AHEAD_MAX).contains(&ahead)
    }
}

fn index(psn: Psn) -> usize {
    (psn.get() % WINDOW) as usize
}

#[cfg(test)]
mod tests;
