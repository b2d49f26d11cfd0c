//! Wrong keys by address: each wrong key makes its address wait longer.
//!
//! A random key of 64 bits cannot be guessed, but a key that a person chose can. After a wrong key,
//! all keys from the same address are ignored for a while. A right key is ignored, too: otherwise
//! the time of the answer would reveal it. Only the addresses of the last guesses are kept; an IPv6
//! network of 64 bits counts as one address.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use crate::{Moment, Span};

/// The wait after the first wrong key; each further one doubles it.
const WAIT_FIRST: Span = Span::from_ms(100);
/// The longest wait. Chosen: a person who mistypes a key several times can still work.
const WAIT_MAX: Span = Span::from_ms(3200);
/// An address without a wrong key for this long is forgotten.
const FORGOTTEN_AFTER: Span = Span::from_ms(30_000);
/// The most addresses that are remembered; beyond it, the one with the shortest wait is forgotten.
const ADDRESSES_MAX: usize = 64;

/// Addresses that showed wrong keys, and the time until which their keys are ignored.
#[derive(Clone, Debug, Default)]
pub struct Guesses {
    known: Vec<Guesser>,
}

#[derive(Clone, Copy, Debug)]
struct Guesser {
    address: IpAddr,
    wait: Span,
    until: Moment,
}

/// Returns the part of an address that belongs to one host.
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl Guesses {
    /// Returns true when keys from this address are ignored now.
    #[must_use]
    pub fn must_wait(&self, address: IpAddr, now: Moment) -> bool {
        let address = host(address);
        self.known.iter().any(|of| of.address == address && now < of.until)
    }

    /// Notes a wrong key from this address; returns how long it waits now.
    pub fn note_wrong(&mut self, address: IpAddr, now: Moment) -> Span {
        let address = host(address);
        self.known.retain(|of| now < of.until + FORGOTTEN_AFTER);
        if let Some(known) = self.known.iter_mut().find(|of| of.address == address) {
            known.wait = Span::from_ns(known.wait.as_ns() * 2).min(WAIT_MAX);
            known.until = now + known.wait;
            return known.wait;
        }
        if self.known.len() >= ADDRESSES_MAX {
            let soonest = self.known.iter().enumerate().min_by_key(|(_, of)| of.until);
            if let Some((place, _)) = soonest {
                self.known.swap_remove(place);
            }
        }
        self.known.push(Guesser { address, wait: WAIT_FIRST, until: now + WAIT_FIRST });
        WAIT_FIRST
    }

    /// Notes a right key from this address.
    pub fn note_right(&mut self, address: IpAddr) {
        let address = host(address);
        self.known.retain(|of| of.address != address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ten_thousand_guesses_take_hours_and_others_do_not_wait() {
        let (mut guesses, mut now) = (Guesses::default(), Moment::from_ns(1));
        let guesser = address("10.0.0.66");
        let began = now;
        for _ in 0..10_000 {
            assert!(!guesses.must_wait(guesser, now));
            let wait = guesses.note_wrong(guesser, now);
            assert!(guesses.must_wait(guesser, now + Span::from_ns(wait.as_ns() - 1)));
            assert!(!guesses.must_wait(address("10.0.0.7"), now));
            now = now + wait;
        }
        assert!(now.since(began) > Span::from_ms(8 * 3_600_000));
    }

    #[test]
    fn a_right_key_and_a_long_pause_end_the_waiting() {
        let (mut guesses, now) = (Guesses::default(), Moment::from_ns(1));
        let own = address("fe80::1:2");
        guesses.note_wrong(own, now);
        assert!(guesses.must_wait(address("fe80::9:9"), now), "of the same network");
        guesses.note_right(own);
        assert!(!guesses.must_wait(own, now));
        for _ in 0..10 {
            guesses.note_wrong(own, now);
        }
        let later = now + WAIT_MAX + FORGOTTEN_AFTER;
        assert_eq!(guesses.note_wrong(own, later), WAIT_FIRST);
    }

    #[test]
    fn guesses_from_many_addresses_keep_no_more_than_a_few() {
        let mut guesses = Guesses::default();
        for number in 0..10_000_u32 {
            let at = Moment::from_ns(u64::from(number));
            guesses.note_wrong(IpAddr::from(number.to_be_bytes()), at);
        }
        assert_eq!(guesses.known.len(), ADDRESSES_MAX);
    }
}
