//! Conservation laws: equations over counters.

use super::network::Network;
use super::port::What;

/// An equation that does not hold, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{law}: {left} on one side, {right} on the other")]
pub struct Unbalanced {
    /// The law.
    pub law: &'static str,
    /// Its left side.
    pub left: u64,
    /// Its right side.
    pub right: u64,
}

/// The packets on all links, and the echoes that ports will still send.
#[derive(Default)]
struct Flying {
    sends: u64,
    echoes: u64,
    events: u64,
    on_links: u64,
    echoes_to_come: u64,
}

impl Network {
    /// Checks that every try has exactly one end or is under way, that every echo is consumed once,
    /// and that the symbols of packets add up. Works at any moment between entries.
    pub fn check_conservation(&self) -> Result<(), Unbalanced> {
        let total = self.total();
        let flying = self.flying();
        let same = |law, left, right| {
            if left == right { Ok(()) } else { Err(Unbalanced { law, left, right }) }
        };
        same(
            "every send and event is accepted, refused, bad, stale, destroyed or under way",
            total.tries + total.events,
            total.accepted
                + total.refused
                + total.bad_sends
                + total.events_taken
                + total.stale_sends
                + total.destroyed_sends
                + flying.sends
                + flying.events,
        )?;
        same(
            "every echo is consumed once, or is under way",
            total.echoes_made,
            total.echoes
                + total.bad_echoes
                + total.stale_echoes
                + total.destroyed_echoes
                + flying.echoes,
        )?;
        same(
            "what is put on links comes from them, is on them or is destroyed",
            total.symbols_out,
            total.symbols_in + flying.on_links + total.symbols_destroyed,
        )?;
        same(
            "what ports put out is what came, less what they took off, and what they made",
            total.symbols_in + total.symbols_made,
            total.symbols_out + total.symbols_stripped,
        )?;
        let to_come = self.rings.ports.iter().filter(|port| port.echo.is_some()).count() as u64;
        same("an echo that is to come stands in one port", flying.echoes_to_come, to_come)
    }

    fn flying(&self) -> Flying {
        let mut flying = Flying::default();
        for flight in self.rings.flights.iter() {
            match (flight.echo.is_some(), flight.is_event) {
                (true, _) => flying.echoes += 1,
                (_, true) => flying.events += 1,
                _ => flying.sends += 1,
            }
        }
        for port in &self.rings.ports {
            for item in &port.input {
                if let What::Packet(handle) = item.what {
                    let flight = self.rings.flights.get(handle);
                    flying.on_links += flight.map_or(0, |flight| u64::from(flight.symbols));
                }
            }
            if let Some((_, handle)) = port.echo {
                flying.echoes_to_come += u64::from(self.rings.flights.get(handle).is_some());
            }
        }
        flying
    }
}
