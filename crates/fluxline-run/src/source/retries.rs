//! Reliable senders whose retries ran out.
//!
//! Such a sender says nothing: it stops. It is noticed by a frame that it has to repeat and does
//! not. A sender that ended after its last frame was acknowledged leaves nothing to notice.

use fluxline_core::endpoint::{AwaitedRepeat, RepeatReason};
use fluxline_core::{Moment, Span};

/// A sender that is silent for this long, although it has to repeat a frame, has given up.
/// Senders repeat a frame after milliseconds to about a second.
const GIVEN_UP_AFTER: Span = Span::from_ms(3000);
/// The same at the end of the run.
const GIVEN_UP_AT_END: Span = Span::from_ms(1000);

/// Watches one reliable sender.
#[derive(Debug, Default)]
pub(super) struct RetryWatch {
    /// It has given up, and did not come back.
    has_given_up: bool,
    /// Its restarts so far.
    restarts: u64,
    broken: u64,
}

impl RetryWatch {
    /// Returns the number of times that the sender gave up.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Takes the sender's present state; returns the reason when it has just given up.
    pub fn look(
        &mut self,
        awaited: Option<AwaitedRepeat>,
        restarts: u64,
        now: Moment,
    ) -> Option<String> {
        if restarts != self.restarts {
            self.restarts = restarts;
            self.broken += u64::from(std::mem::take(&mut self.has_given_up));
        }
        let Some(of) = awaited.filter(|of| now.since(of.heard) >= GIVEN_UP_AFTER) else {
            self.has_given_up = false; // it was only slow
            return None;
        };
        let is_new = !std::mem::replace(&mut self.has_given_up, true);
        is_new.then(|| sentence(of, now))
    }

    /// Decides at the end of the run; returns the reason when the sender has given up and
    /// [`RetryWatch::look`] did not report it.
    pub fn end(&mut self, awaited: Option<AwaitedRepeat>, now: Moment) -> Option<String> {
        let of = awaited.filter(|of| {
            of.reason == RepeatReason::Refused || now.since(of.heard) >= GIVEN_UP_AT_END
        })?;
        self.broken += 1;
        (!self.has_given_up).then(|| sentence(of, now))
    }
}

fn sentence(of: AwaitedRepeat, now: Moment) -> String {
    let seconds = now.since(of.heard).as_ns() as f64 * 1e-9;
    let (state, advice) = match of.reason {
        RepeatReason::NoRoom => (
            "was asked to repeat a frame because its ring was full",
            "raise its RNR retries (7: no limit), `ring-bytes`, or both",
        ),
        RepeatReason::Missing => (
            "was asked to repeat a missing frame",
            "look for drops on the way; raise its retries and its time-out",
        ),
        RepeatReason::Refused => (
            "stopped because a frame was refused",
            "compare `key`, `base`, `ring-bytes` and `slot-bytes` with its own",
        ),
    };
    format!("{state}, and has been silent for {seconds:.1} s; {advice}, and set it up anew")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_ns(ms * 1_000_000)
    }

    fn awaited(reason: RepeatReason, heard_ms: u64) -> Option<AwaitedRepeat> {
        Some(AwaitedRepeat { reason, heard: at(heard_ms) })
    }

    #[test]
    fn a_sender_gives_up_once_and_a_slow_one_does_not() {
        let mut watch = RetryWatch::default();
        let missing = awaited(RepeatReason::Missing, 1000);
        assert_eq!(watch.look(missing, 0, at(3900)), None);
        let said = watch.look(missing, 0, at(4100)).expect("given up");
        assert!(said.contains("missing frame") && said.contains("3.1 s"), "{said}");
        assert_eq!(watch.look(missing, 0, at(5000)), None, "reported once");
        assert_eq!(watch.look(None, 0, at(5000)), None, "it came back");
        assert_eq!((watch.end(None, at(6000)), watch.broken()), (None, 0));
    }

    #[test]
    fn a_sender_that_gave_up_and_was_set_up_anew_is_counted_once() {
        let mut watch = RetryWatch::default();
        let full = awaited(RepeatReason::NoRoom, 0);
        assert!(watch.look(full, 0, at(3000)).is_some_and(|said| said.contains("RNR retries")));
        assert_eq!(watch.look(None, 1, at(3001)), None);
        assert_eq!(watch.look(None, 1, at(9000)), None);
        assert_eq!((watch.end(None, at(9000)), watch.broken()), (None, 1));
    }

    #[test]
    fn the_end_waits_for_repetitions_but_not_after_a_refusal() {
        for (reason, heard_ms, broken) in [
            (RepeatReason::NoRoom, 9500, 0),
            (RepeatReason::Missing, 8900, 1),
            (RepeatReason::Refused, 9999, 1),
        ] {
            let mut watch = RetryWatch::default();
            let said = watch.end(awaited(reason, heard_ms), at(10_000));
            assert_eq!((watch.broken(), said.is_some()), (broken, broken == 1), "{reason:?}");
        }
        let mut watch = RetryWatch::default();
        let full = awaited(RepeatReason::NoRoom, 0);
        assert!(watch.look(full, 0, at(4000)).is_some());
        assert_eq!((watch.end(full, at(5000)), watch.broken()), (None, 1), "reported before");
    }
}
