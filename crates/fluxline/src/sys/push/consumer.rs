//! The reading end of a push ring.

use std::sync::Arc;
use std::time::Duration;

use fluxline_core::fabric::push::{Broken, NextError, PushCounters, PushOpenError};

use super::claim::{Claim, ClaimFile};
use super::pace::Pace;
use super::{HEADER_BYTES, MAGIC, MappedRing, Record, SKIP, Shape, Side, WORD, at};
use crate::sys::futex::sleep_on;
use crate::sys::map::SharedMap;
use crate::sys::reason::not_opened;
use crate::sys::shim::{Ordering, fence};

/// The reading end of a push ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: MappedRing,
    /// The position behind the last record read.
    head: u64,
    /// The position up to which the producer knows that bytes are free.
    given_back: u64,
    /// Records taken before this ring was made.
    taken_before: u64,
    sleeps: bool,
    broken: bool,
    /// The producer's word, if that producer was found dead or its end was reported.
    died: Option<u64>,
    producers_reported: Option<u64>,
    pace: Pace,
    counters: PushCounters,
    claim: Claim,
}

impl Consumer {
    /// Makes an empty ring. Errors: the size is not a power of two, it does not fit into the
    /// mapping, or the host refuses a lock.
    pub(crate) fn create(
        map: Arc<SharedMap>,
        shape: Shape,
        file: ClaimFile,
    ) -> Result<Consumer, PushOpenError> {
        let Shape { start, size, sleeps } = shape;
        let wrong = || PushOpenError::Size { bytes: size };
        let ring = MappedRing::of(map, start, size).ok_or_else(wrong)?;
        let claim = Claim::take(file, Side::Consumer).map_err(|error| not_opened(&error))?;
        let claim = claim.ok_or(PushOpenError::NoRing)?;
        for place in (0..HEADER_BYTES + WORD).step_by(8) {
            ring.word(place).store(0, Ordering::Relaxed);
        }
        ring.word(at::SIZE).store(size, Ordering::Relaxed);
        ring.word(at::SLEEPS).store(sleeps.into(), Ordering::Relaxed);
        ring.word(at::MAGIC).store(MAGIC, Ordering::Release);
        Ok(Consumer {
            ring,
            head: 0,
            given_back: 0,
            taken_before: 0,
            sleeps,
            broken: false,
            died: None,
            producers_reported: None,
            pace: Pace::new(),
            counters: PushCounters::default(),
            claim,
        })
    }

    /// Returns the next record, in place; `None` if all published records are read.
    ///
    /// The record before it may be overwritten from now on.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, NextError> {
        let mut head = self.head_word();
        if head == 0 || head == SKIP || self.broken {
            head = self.unusual(head)?;
            if head == 0 {
                return Ok(None);
            }
        }
        let Some(record) = self.ring.record(self.head, head) else { return Err(self.broken()) };
        let (place, length) = (self.ring.place(self.head) + WORD, head - 1);
        self.head += record;
        self.counters.records += 1;
        self.counters.delivered += 1;
        self.counters.bytes += length;
        if self.head - self.given_back >= self.ring.size / 4 {
            // The record just read is still the reader's: room ends before it.
            self.give_back(self.head - record, self.taken().wrapping_sub(1));
        }
        // SAFETY: the record does not leave the ring (`record`); words begin at multiples of a
        // word. An honest producer does not write there before it is given back, which is at the
        // next call, which needs `self` mutably.
        Ok(Some(unsafe { Record::new(&self.ring.map, place, length as usize) }))
    }

    #[inline]
    fn head_word(&self) -> u64 {
        self.ring.head(self.head).load(Ordering::Acquire) // SYNC records-there <- publish
    }

    /// Handles a head that is not that of a record; returns the head of the next record, or 0
    /// without a record.
    #[inline(never)]
    fn unusual(&mut self, mut head: u64) -> Result<u64, NextError> {
        if self.broken {
            return Err(NextError::Broken(Broken));
        }
        if head == SKIP {
            let Some(next) = self.ring.skip(self.head) else { return Err(self.broken()) };
            self.head = next;
            head = self.head_word();
            if head == SKIP {
                return Err(self.broken());
            }
        }
        if head == 0 && self.given_back != self.head {
            self.give_back(self.head, self.taken());
        }
        if head == 0 && self.is_over() {
            // Records that were published before the producer ended are visible now.
            head = self.head_word();
            if head == 0 {
                return Err(NextError::Gone);
            }
        }
        Ok(head)
    }

    /// Returns true when the last producer has closed or died.
    fn is_over(&mut self) -> bool {
        let producers = self.producers();
        let over = match producers {
            0 => false,
            closed if closed.is_multiple_of(2) => true,
            _ => {
                if self.pace.is_due() {
                    self.look();
                }
                self.died == Some(producers)
            }
        };
        if over {
            self.producers_reported = Some(producers);
        }
        over
    }

    /// Checks that the producer lives. Cost: a system call.
    pub(crate) fn look(&mut self) {
        let producers = self.producers();
        if self.died != Some(producers) && !self.claim.other_lives() {
            self.died = Some(producers);
            self.counters.died += 1;
        }
    }

    fn producers(&self) -> u64 {
        // SYNC producer-ended <- drop
        self.ring.word(at::PRODUCERS).load(Ordering::Acquire)
    }

    #[cold]
    fn broken(&mut self) -> NextError {
        self.broken = true;
        self.counters.broken = 1;
        NextError::Broken(Broken)
    }

    /// Shows the head, and the number of records before it, to the producer. A producer that
    /// attaches reads them as one value.
    fn give_back(&mut self, head: u64, taken: u64) {
        let version = self.ring.word(at::GIVEN_BACK);
        let odd = version.load(Ordering::Relaxed) | 1;
        version.store(odd, Ordering::Relaxed);
        // SYNC room-back -> make_room, SYNC given-back -> given_back
        self.ring.word(at::HEAD).store(head, Ordering::Release);
        self.ring.word(at::TAKEN).store(taken, Ordering::Release);
        version.store(odd.wrapping_add(1), Ordering::Release);
        self.given_back = head;
    }

    /// Counts on behind `taken` records, which the program took from an earlier ring.
    pub(crate) fn begin_at(&mut self, taken: u64) {
        self.taken_before = taken;
        self.give_back(self.head, taken);
    }

    /// Returns the records that were read in the ring's life.
    pub(crate) fn taken(&self) -> u64 {
        self.taken_before.wrapping_add(self.counters.records)
    }

    /// Sleeps until there are records, the producer has closed, or `timeout` has passed.
    ///
    /// Only sleeps on a ring made with `sleeps`; otherwise it returns at once. A closed producer
    /// ends only one sleep, not all sleeps until the next producer comes.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        if !self.sleeps {
            return;
        }
        let sleeping = self.ring.map.half_word(self.ring.start + at::SLEEPING);
        let bell = self.ring.map.half_word(self.ring.start + at::BELL);
        let seen = bell.load(Ordering::Relaxed);
        sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SYNC push-bell <-> ring_bell
        let producers = self.producers();
        let closed = producers != 0 && producers.is_multiple_of(2);
        if self.broken
            || (self.head_word() == 0 && (!closed || self.producers_reported == Some(producers)))
        {
            sleep_on(bell, seen, timeout);
        }
        sleeping.store(0, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> &PushCounters {
        &self.counters
    }

    /// Ends like a killed process.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn die(self) {
        let dead = std::mem::ManuallyDrop::new(self);
        // SAFETY: the claim is not used again, nor dropped a second time.
        drop(unsafe { std::ptr::read(&raw const dead.claim) });
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.ring.word(at::CONSUMER_CLOSED).store(1, Ordering::Release);
    }
}
