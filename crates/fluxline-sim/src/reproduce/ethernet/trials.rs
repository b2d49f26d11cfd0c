//! Variants of the hosts where the sources do not decide.

use super::super::pair::BadStand;
use super::galli::{BOUNDARIES, Stand};
use crate::Duration;
use crate::net::ethernet::host::{BusConfig, Card, Config, Costs, Pcie, preset};

/// The rows of variants.
type Rows = Vec<Vec<String>>;

/// Returns all variants.
pub fn all() -> Result<Vec<(&'static str, Rows)>, BadStand> {
    Ok(vec![("requests", requests()?), ("readings", readings()?)])
}

fn with_requests(requests: u32) -> Config {
    let host = preset::galli(2);
    let BusConfig::Pcie(bus) = host.card.bus else { return host };
    let bus = BusConfig::Pcie(Pcie { requests, ..bus });
    Config { card: Card { bus, ..host.card }, ..host }
}

/// Compares numbers of outstanding read requests.
fn requests() -> Result<Rows, BadStand> {
    let stand = Stand { mtu: 9000, senders: 2 };
    let mut rows = Vec::new();
    for requests in [1, 2, 4] {
        let mut row = vec![requests.to_string()];
        for bytes in BOUNDARIES {
            for bytes in [bytes, bytes + 1] {
                let streamed = stand.stream_from(with_requests(requests), bytes)?;
                row.push(format!("{:.2}", streamed.gigabits_per_s()));
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Compares the two readings of 440 kHz.
fn readings() -> Result<Rows, BadStand> {
    let usual = preset::galli(1);
    // 2,273 ns for a small datagram, and 7,400 ns for one of 8,972 B.
    let (call, byte) = (Duration::from_ns(2_220), Duration::from_ps(572));
    let small = Config {
        costs: Costs { send_call: call, send_byte: byte, ..usual.costs },
        ..usual.clone()
    };
    let mut rows = Vec::new();
    for (name, sender) in [("at 1,472 B (the preset)", usual), ("at small datagrams", small)] {
        let mut row = vec![name.to_string()];
        let (short, long) = (Stand { mtu: 1500, senders: 1 }, Stand { mtu: 9000, senders: 1 });
        let least = short.stream_from(sender.clone(), 18)?;
        row.push(format!("{:.0}", least.kilohertz()));
        let full = short.stream_from(sender.clone(), 1472)?;
        row.push(format!("{:.0}", full.kilohertz()));
        row.push(format!("{:.2}", full.gigabits_per_s()));
        row.push(format!("{:.2}", long.stream_from(sender, 8972)?.gigabits_per_s()));
        rows.push(row);
    }
    Ok(rows)
}
