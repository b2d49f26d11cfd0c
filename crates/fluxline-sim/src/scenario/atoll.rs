//! An ATOLL network by its URL: `sim:atoll?grid=4x4&clock=243`.

use crate::core::fault::Fault;
use crate::fabric::courier::Times;
use crate::host::preset;
use crate::net::atoll::adapter::cluster::ClusterConfig;
use crate::net::atoll::adapter::host;
use crate::net::atoll::{Config, Grid, Routing, Wiring};
use crate::{Clock, Duration};

const FAULT: &str = "bits:1e-6, host:3@1ms, power:3@1ms, cable:3@1ms or repair:3@2ms, joined by \
                     commas";
const KEYS: &str = "grid, torus, ring, full, clock, cable, routing, bus, seed, fault";

/// Returns the keys of an ATOLL URL; `None`: the URL is for another network.
pub(super) fn keys_of(url: &str) -> Option<&str> {
    match url.strip_prefix("sim:atoll")? {
        "" => Some(""),
        rest => rest.strip_prefix('?'),
    }
}

/// Reads the keys behind `sim:atoll?`.
///
/// | key | values | without it |
/// | --- | --- | --- |
/// | `grid`, `torus` | `COLUMNSxROWS` | `grid=4x4` |
/// | `ring` | nodes | |
/// | `full` | nodes, 2 to 5 | |
/// | `clock` | of the chips \[MHz\] | 250 |
/// | `cable` | length of each cable \[m\], 5 ns each | 5 |
/// | `routing` | `dimension` (order), `shortest`, `updown`, `nue` | `dimension` |
/// | `bus` | `pci64-66`, `pcix-100`, `pcix-133` | `pcix-100` |
/// | `seed` | of bit errors | 1 |
/// | `fault` | `bits:1e-6`, `host:3@1ms`, `power:3@1ms`, `cable:3@1ms`, with commas | none |
pub(super) fn config(keys: &str) -> Result<ClusterConfig, String> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for part in keys.split('&').filter(|_| !keys.is_empty()) {
        let unknown = || format!("unknown part {part:?}; the keys are {KEYS}, each as key=value");
        let (key, value) = part.split_once('=').ok_or_else(unknown)?;
        if !KEYS.split(", ").any(|known| known == key) {
            return Err(unknown());
        }
        if pairs.iter().any(|pair| pair.key == key) {
            return Err(format!("{key} is given twice; give it once"));
        }
        pairs.push(Pair { key, value });
    }
    let mut built = ClusterConfig {
        network: Config::new(wiring(&pairs)?),
        times: times(preset::pci_x_100()),
        faults: Vec::new(),
    };
    pairs.iter().try_for_each(|pair| pair.apply(&mut built))?;
    built.network.check().map_err(|error| error.to_string())?;
    Ok(built)
}

/// Returns the times of a host. Assumed, except those of [`host::Times::pc`].
fn times(bus: crate::host::config::Bus) -> Times {
    let call = host::Times::pc().call;
    Times { call, poll_notice: call, bus: Some(bus), ..Times::default() }
}

/// Reads the key of the topology, of which there is at most one.
fn wiring(pairs: &[Pair<'_>]) -> Result<Wiring, String> {
    let mut shapes = pairs.iter().filter(|pair| pair.is_shape());
    let usual = Pair { key: "grid", value: "4x4" };
    let shape = shapes.next().unwrap_or(&usual);
    if let Some(other) = shapes.next() {
        return Err(format!("give {} or {}, not both", shape.key, other.key));
    }
    let wrong = || shape.wrong("a number of nodes, or COLUMNSxROWS for grid and torus");
    let whole = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let wiring = match shape.key {
        "ring" => Wiring::ring(whole(shape.value)?),
        "full" => Wiring::full(whole(shape.value)?),
        key => {
            let (columns, rows) = shape.value.split_once('x').ok_or_else(wrong)?;
            let (columns, rows) = (whole(columns)?, whole(rows)?);
            Wiring::grid(Grid { columns, rows, is_torus: key == "torus" })
        }
    };
    wiring.map_err(|error| format!("{}={}: {error}", shape.key, shape.value))
}

/// A key with its value.
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
}

impl Pair<'_> {
    fn is_shape(&self) -> bool {
        ["grid", "torus", "ring", "full"].contains(&self.key)
    }

    fn wrong(&self, expected: &str) -> String {
        format!("{}={} is invalid; write {expected}", self.key, self.value)
    }

    /// Returns the value as a number between limits.
    fn number(&self, limits: std::ops::RangeInclusive<f64>, unit: &str) -> Result<f64, String> {
        let value = self.value.parse().ok().filter(|value| limits.contains(value));
        let wrong = || self.wrong(&format!("{} to {} {unit}", limits.start(), limits.end()));
        value.ok_or_else(wrong)
    }

    fn apply(&self, built: &mut ClusterConfig) -> Result<(), String> {
        let network = &mut built.network;
        match self.key {
            "clock" => {
                let megahertz = self.number(1.0..=10_000.0, "MHz")?;
                network.clock = Clock::from_hertz((megahertz * 1e6) as u64);
            }
            "cable" => {
                let metres = self.number(0.0..=1000.0, "m")?;
                network.cable = Duration::from_ps((metres * 5_000.0) as u64);
                // Long cables need longer buffers.
                let least = network.go_bytes + network.slack_bytes();
                network.fifo_bytes = network.fifo_bytes.max(least);
            }
            "routing" => {
                network.routing = match self.value {
                    "dimension" => Routing::DimensionOrder,
                    "shortest" => Routing::Shortest,
                    "updown" => Routing::UpDown,
                    "nue" => Routing::Nue,
                    _ => return Err(self.wrong("dimension, shortest, updown or nue")),
                }
            }
            "bus" => {
                built.times = times(match self.value {
                    "pci64-66" => preset::pci_64_66(),
                    "pcix-100" => preset::pci_x_100(),
                    "pcix-133" => preset::pci_x_133(),
                    _ => return Err(self.wrong("pci64-66, pcix-100 or pcix-133")),
                });
            }
            "seed" => {
                network.seed = self.value.parse().map_err(|_| self.wrong("a whole number"))?;
            }
            "fault" => return self.faults(built),
            _ => {}
        }
        Ok(())
    }

    fn faults(&self, built: &mut ClusterConfig) -> Result<(), String> {
        for part in self.value.split(',') {
            let wrong = || self.wrong(FAULT);
            if let Some(bits) = part.strip_prefix("bits:") {
                let rate = Pair { key: "fault", value: bits }.number(0.0..=0.01, "");
                built.network.bit_error_rate = rate.map_err(|_| wrong())?;
            } else {
                built.faults.push(Fault::parse(part).ok_or_else(wrong)?);
            }
        }
        Ok(())
    }
}
