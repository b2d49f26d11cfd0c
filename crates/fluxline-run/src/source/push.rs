//! One datagram into the push ring, waiting for room.

use std::time::Duration;

use fluxline::ring::{Producer, PushError, SlotMeta, Waited};
use fluxline_core::Datagram;

use crate::stop::Stop;

/// The longest sleep while waiting for room, so that Ctrl-C is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Copies one datagram into the ring, waiting for room; `false` when the run is over first.
pub(super) fn push(ring: &mut Producer, datagram: &Datagram<'_>, stop: &Stop) -> bool {
    let Datagram { bytes, sender, port, time } = *datagram;
    let meta = SlotMeta { sender, port, time, ..SlotMeta::EMPTY };
    loop {
        match ring.push(bytes, meta) {
            Ok(()) => return true,
            Err(PushError::Full) if !stop.is_over() => {
                if ring.wait_for_space(SLEEP_MAX) == Waited::Closed {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
}

/// Copies one datagram into the ring, however long that takes; `false` when its reader is gone.
pub(super) fn push_all(ring: &mut Producer, datagram: &Datagram<'_>) -> bool {
    push(ring, datagram, &Stop::default())
}
