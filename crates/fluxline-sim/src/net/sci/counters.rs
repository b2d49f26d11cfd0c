//! The counters of every ring port.

/// The counters of one ring port, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Packets of any kind put on the output link: hops.
    pub packets_out: u64,
    /// Sends and events among them.
    pub sends_out: u64,
    /// Symbols of packets put on the output link, without the idles after them.
    pub symbols_out: u64,
    /// Symbols of packets that arrived.
    pub symbols_in: u64,
    /// Symbols taken off (of sends, echoes, events), without the echoes that replaced them.
    pub symbols_stripped: u64,
    /// Symbols of own sends and of echoes made here, counted when they are put out.
    pub symbols_made: u64,
    /// Longest wait of a packet in the bypass FIFO \[symbols\]: its greatest fill, including one
    /// idle behind each packet.
    pub bypass_max: u64,
    /// Tries: send packets started, retries among them.
    pub tries: u64,
    /// Tries after a busy echo.
    pub retries: u64,
    /// Event packets started (they get no echo and do not count as tries).
    pub events: u64,
    /// Good echoes that came back.
    pub echoes: u64,
    /// Busy echoes among them.
    pub busies: u64,
    /// "None" echoes among them.
    pub nones: u64,
    /// Sends taken off the ringlet here and accepted.
    pub accepted: u64,
    /// Sends taken off the ringlet here and refused because there was no space.
    pub refused: u64,
    /// Sends taken off the ringlet here with a wrong CRC.
    pub bad_sends: u64,
    /// Event packets taken off here, good or bad.
    pub events_taken: u64,
    /// Echoes that came back with a wrong CRC, or for a send that was given up.
    pub bad_echoes: u64,
    /// Echoes made here: one for each send that was taken off, stale ones included.
    pub echoes_made: u64,
    /// Stale sends taken off by the scrubber (none echoes), or dropped when they were events.
    pub stale_sends: u64,
    /// Stale echoes dropped by the scrubber.
    pub stale_echoes: u64,
    /// CRC errors that were first detected here.
    pub crc_errors: u64,
    /// Sends and events destroyed on the dead output link or in this dead port.
    pub destroyed_sends: u64,
    /// Echoes destroyed on the dead output link or in this dead port.
    pub destroyed_echoes: u64,
    /// Symbols of packets destroyed after they were put on the dead link.
    pub symbols_destroyed: u64,
    /// Go bits put in by the scrubber after the low-go time-out.
    pub gos_injected: u64,
    /// Sends given up because their echo did not come.
    pub lost: u64,
}

impl Counters {
    /// Length of the first counters, those that a passing packet changes \[byte\].
    pub(super) const PASSING_BYTES: usize = std::mem::offset_of!(Counters, tries);

    /// Adds the counters of another port; `bypass_max` becomes the larger of both.
    pub fn add(&mut self, other: &Counters) {
        macro_rules! sum {
            ($($field:ident)*) => { $(self.$field += other.$field;)* };
        }
        sum!(tries retries events echoes busies nones accepted refused bad_sends events_taken
             bad_echoes echoes_made stale_sends stale_echoes crc_errors destroyed_sends
             destroyed_echoes symbols_destroyed gos_injected
             lost packets_out sends_out symbols_out symbols_in
             symbols_stripped symbols_made);
        self.bypass_max = self.bypass_max.max(other.bypass_max);
    }
}
