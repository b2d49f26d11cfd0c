//! The framing of a raw file, from the keys of `[source.raw]`.

use crate::capture::CheckSums;
use crate::capture::raw::{Framing, LengthPrefix};

use super::{Pcap, Raw};

impl Raw {
    /// Returns the framing; a checked source has one of the two keys.
    pub fn framing(&self) -> Framing {
        let prefix = self.length_prefix.unwrap_or(LengthPrefix::U16Le);
        self.record_bytes.map_or(Framing::Prefixed(prefix), |bytes| Framing::Fixed { bytes })
    }
}

impl Pcap {
    /// Returns the treatment of UDP check sums.
    pub fn check_sums(&self) -> CheckSums {
        if self.check_sums { CheckSums::Check } else { CheckSums::Ignore }
    }
}
