//! How payloads are told apart in a raw file, by the words of `[source.raw]`.

use crate::capture::CheckSums;
use crate::capture::raw::Framing;

use super::{LengthPrefix, Pcap, Raw};

impl LengthPrefix {
    /// Returns the framing by this prefix.
    pub fn framing(self) -> Framing {
        match self {
            LengthPrefix::U16Le => Framing::U16Le,
            LengthPrefix::U16Be => Framing::U16Be,
            LengthPrefix::U32Le => Framing::U32Le,
            LengthPrefix::U32Be => Framing::U32Be,
        }
    }
}

impl Raw {
    /// Returns the framing; a checked source has one of the two keys.
    pub fn framing(&self) -> Framing {
        let prefix = self.length_prefix.unwrap_or(LengthPrefix::U16Le);
        self.record_bytes.map_or(prefix.framing(), |bytes| Framing::Fixed { bytes })
    }
}

impl Pcap {
    /// Returns whether UDP check sums are looked at.
    pub fn check_sums(&self) -> CheckSums {
        if self.check_sums { CheckSums::Check } else { CheckSums::Ignore }
    }
}
