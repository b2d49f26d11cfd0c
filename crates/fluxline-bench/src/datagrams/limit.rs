//! Names the limit of a trial by rules over its counters, with the numbers that decide.

use super::cpu::CoreLoad;
use super::loss::{self, LossPlace};

/// The least load of a full core \[share\]: the ticks of a short trial are exact to some 4 %.
/// (assumed)
const FULL: f64 = 0.9;

/// The evidence of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The sender's core; `None`: not pinned, or hidden.
    pub sender: Option<CoreLoad>,
    /// The receiver's core; `None`: not pinned, or hidden.
    pub receiver: Option<CoreLoad>,
    /// The receiving thread's own time, as a share of the trial.
    pub receiver_own: f64,
    /// The receiving host's core that interrupts keep busiest: a card's are often not the
    /// receiver's core.
    pub interrupts: Option<CoreLoad>,
    /// True: the sender sent as fast as it could, or did not keep its rate.
    pub sender_at_most: bool,
    /// The losses by place.
    pub places: Vec<LossPlace>,
}

/// Names the limit in one sentence.
#[must_use]
pub fn name(evidence: &Evidence) -> String {
    let load = |core: &CoreLoad| format!("core {}: {}", core.core, core.words());
    let lost = loss::sentence(&evidence.places);
    if evidence.places.is_empty() {
        return match evidence.sender {
            _ if !evidence.sender_at_most => {
                "Nothing at this rate: no datagram was lost, and the sender kept it.".to_owned()
            }
            Some(core) if core.busy() >= FULL => {
                format!("The sender's core is full ({}); nothing was lost.", load(&core))
            }
            Some(core) => format!("Unknown: nothing was lost, and the sender has {}.", load(&core)),
            None => "Unknown: nothing was lost, and the sender's core is not known.".to_owned(),
        };
    }
    let Some(core) = evidence.receiver else {
        return format!("The receiver's side, whose core is not known; lost at: {lost}.");
    };
    let busiest = evidence.interrupts.filter(|core| core.interrupts >= FULL);
    match (busiest, core.busy() >= FULL) {
        (Some(core), _) => {
            format!(
                "Interrupts fill a core of the receiving host ({}); lost at: {lost}.",
                load(&core)
            )
        }
        (None, true) if evidence.receiver_own >= FULL / 2.0 => {
            format!("The receiving thread fills its core ({}); lost at: {lost}.", load(&core))
        }
        (None, true) => format!("The receiver's core is full ({}); lost at: {lost}.", load(&core)),
        (None, false) => format!(
            "Bursts, or a queue before the socket: the receiver had time ({}); lost at: {lost}.",
            load(&core)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(core: usize, system: f64, interrupts: f64) -> Option<CoreLoad> {
        let idle = 1.0 - system - interrupts;
        Some(CoreLoad { core, system, interrupts, idle, ..CoreLoad::default() })
    }

    fn at(receiver: Option<CoreLoad>, lost: u64) -> Evidence {
        let place = |datagrams| LossPlace { name: "socket buffer".to_owned(), datagrams };
        let places = if lost > 0 { vec![place(lost)] } else { Vec::new() };
        let own = receiver.map_or(0.0, |core| core.system);
        let (sender, sender_at_most) = (core(0, 0.98, 0.0), true);
        Evidence {
            sender,
            receiver,
            receiver_own: own,
            interrupts: receiver,
            sender_at_most,
            places,
        }
    }

    #[test]
    fn the_limit_is_the_full_core_and_loss_is_the_receivers() {
        for (receiver, lost, expected) in [
            (core(1, 0.3, 0.1), 0, "The sender's core is full (core 0: system 98 %)"),
            (core(1, 0.97, 0.02), 9, "The receiving thread fills its core (core 1: system 97"),
            (core(1, 0.05, 0.95), 9, "Interrupts fill a core of the receiving host (core 1"),
            (core(1, 0.28, 0.65), 9, "The receiver's core is full"),
            (core(1, 0.2, 0.1), 9, "Bursts, or a queue before the socket"),
            (None, 9, "The receiver's side, whose core is not known"),
        ] {
            let said = name(&at(receiver, lost));
            assert!(said.starts_with(expected), "{said}");
            assert_eq!(said.contains("lost at: socket buffer 100 %."), lost > 0, "{said}");
        }
        let kept = Evidence { sender_at_most: false, ..at(None, 0) };
        assert!(name(&kept).starts_with("Nothing at this rate"), "{}", name(&kept));
        let nothing = Evidence { sender_at_most: true, ..Evidence::default() };
        assert!(name(&nothing).starts_with("Unknown"), "{}", name(&nothing));
    }
}
