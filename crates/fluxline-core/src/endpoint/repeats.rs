//! The frames that a configured, reliable peer repeats, and its restarts.
//!
//! A peer repeats a frame until it is acknowledged, so a frame with an old PSN was usually done
//! before and is acknowledged again. A peer that is switched off and on begins at its first PSN,
//! and its frames have old PSNs, too. Acknowledging those would lose them. Their content tells the
//! difference:
//!
//! * A frame with the PSN and the content of an earlier one is a repetition.
//! * A frame with the first PSN and another content than before shows that the peer restarted.
//! * Another frame with a new content, or one close to the first PSN that is too old to compare, is
//!   doubtful. It is neither done nor acknowledged, so a living peer repeats it.
//! * A second doubtful frame close to the first PSN, with no expected frame in between, shows that
//!   the peer restarted.

use alloc::boxed::Box;

use super::context::ReceivedFrame;
use crate::roce::header::BTH_BYTES;
use crate::roce::{Body, Psn};

/// Frames whose content is remembered.
const REMEMBERED: u32 = 8192;
/// A frame of a restarted peer comes at most this far behind its first one.
const FIRST_FRAMES: i32 = 64;
/// A peer has no more frames than this under way, so a frame further ahead is not of its present
/// numbering.
const AHEAD_MAX: i32 = 1 << 16;

/// The age of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// It belongs to the present numbering: expected, ahead, or repeated.
    Fits,
    /// It may belong to a new numbering.
    Doubtful,
    /// The same, and it would be among the first frames. One more shows a restart, after
    /// [`Repeats::doubt`].
    DoubtfulFirst,
    /// The peer has begun a new numbering.
    Restarted,
}

/// The contents of a peer's newest frames.
pub(super) struct Repeats {
    first: Psn,
    /// Check sums of contents, by PSN.
    prints: Box<[u32]>,
    /// Numbers done since the first, up to [`REMEMBERED`].
    known: u32,
    /// A frame of what may be a new numbering came since the last expected frame.
    is_in_doubt: bool,
}

impl Repeats {
    /// Begins with a peer's first PSN.
    pub fn new(first: Psn) -> Repeats {
        let prints = alloc::vec![0; REMEMBERED as usize].into();
        Repeats { first, prints, known: 0, is_in_doubt: false }
    }

    /// Begins a new numbering; returns its first PSN.
    pub fn restart(&mut self) -> Psn {
        (self.known, self.is_in_doubt) = (0, false);
        self.first
    }

    /// Notes the expected frame, which was done and took `count` numbers.
    pub fn done(&mut self, frame: &ReceivedFrame<'_>, count: u64) {
        let psn = frame.packet.headers().psn;
        self.prints[index(psn)] = print_of(frame);
        self.known = (u64::from(self.known) + count).min(u64::from(REMEMBERED)) as u32;
        self.is_in_doubt = false;
    }

    /// Notes a frame that would be among the first ones of a new numbering.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// Judges a frame by its PSN and content.
    pub fn age_of(&self, frame: &ReceivedFrame<'_>, expected: Psn) -> Age {
        let psn = frame.packet.headers().psn;
        let ahead = psn.distance_from(expected);
        // The PSN of an answer to a read is not that of the request, so only writes and messages
        // are compared.
        let is_compared = matches!(frame.packet.headers().body, Body::Write(..) | Body::Send(..));
        let fits = (0..=AHEAD_MAX).contains(&ahead) || !is_compared;
        if fits {
            return Age::Fits;
        }
        let behind_first = psn.distance_from(self.first);
        let begins = (0..FIRST_FRAMES).contains(&behind_first);
        if ahead < 0 && ahead.unsigned_abs() <= self.known {
            if self.prints[index(psn)] == print_of(frame) {
                return Age::Fits;
            }
            if behind_first == 0 {
                return Age::Restarted;
            }
        } else if !begins && !self.is_in_doubt {
            return Age::Fits;
        }
        match (begins, self.is_in_doubt) {
            (true, true) => Age::Restarted,
            (true, false) => Age::DoubtfulFirst,
            (false, _) => Age::Doubtful,
        }
    }
}

fn index(psn: Psn) -> usize {
    (psn.get() % REMEMBERED) as usize
}

/// A check sum of a frame's content. Its first header differs between repetitions.
fn print_of(frame: &ReceivedFrame<'_>) -> u32 {
    crc32fast::hash(frame.bytes.get(BTH_BYTES..).unwrap_or_default())
}
