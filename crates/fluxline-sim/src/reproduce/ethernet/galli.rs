//! Galli's streams: MTU 1500 and 9000, one and two senders, all sizes of datagrams.

use super::super::pair::BadStand;
use super::super::set::{Curve, Run};
use crate::Duration;
use crate::net::ethernet::host::bench::{Bench, Cable, Length, Shares, Stream, Streamed};
use crate::net::ethernet::host::{Config, preset};

/// The longest datagram in one frame \[byte\].
const LONGEST_1500: u32 = 1472;
/// The same with jumbo frames.
const LONGEST_9000: u32 = 8972;
/// Payloads whose frames are one and two full read requests \[byte\]: 4,096 and 8,192 without the
/// headers of Ethernet, IP and UDP.
pub(super) const BOUNDARIES: [u32; 2] = [4096 - 42, 8192 - 42];
const SIZES: [u32; 17] =
    [18, 64, 128, 256, 512, 1024, 1472, 2048, 3072, 4054, 4055, 5120, 6144, 7168, 8150, 8151, 8972];

/// A stand: the MTU and the senders.
#[derive(Clone, Copy, Debug)]
pub struct Stand {
    /// The longest IP packet \[byte\].
    pub mtu: u32,
    /// The sending processes.
    pub senders: u32,
}

impl Stand {
    /// Streams datagrams with the preset of the sender.
    fn stream(self, bytes: u32) -> Result<Streamed, BadStand> {
        self.stream_from(preset::galli(self.senders), bytes)
    }

    /// Streams datagrams as fast as possible from a sender.
    pub(super) fn stream_from(self, sender: Config, bytes: u32) -> Result<Streamed, BadStand> {
        let cable = Cable { bits_per_s: 10_000_000_000, mtu: self.mtu };
        let mut bench = Bench::new(cable, sender, preset::galli(1))?;
        let length =
            Length { warm_up: Duration::from_us(1_000), measured: Duration::from_us(5_000) };
        Ok(bench.stream(&Stream { bytes, period: Duration::ZERO, length }))
    }

    fn name(self) -> String {
        let many = if self.senders == 1 { "" } else { "s" };
        format!("MTU {}, {} sender{many}", self.mtu, self.senders)
    }

    /// Streams datagrams of all sizes that fit into a frame.
    fn scan(self) -> Result<Vec<Streamed>, BadStand> {
        let fits = SIZES.into_iter().filter(|&bytes| bytes + 28 <= self.mtu);
        fits.map(|bytes| self.stream(bytes)).collect()
    }
}

/// A number of a measurement.
type Value = fn(&Streamed) -> f64;

/// The stands of the figures.
const STANDS: [Stand; 4] = [
    Stand { mtu: 1500, senders: 1 },
    Stand { mtu: 1500, senders: 2 },
    Stand { mtu: 9000, senders: 1 },
    Stand { mtu: 9000, senders: 2 },
];

/// Returns the busy share of the sender's core over that of the busiest other part.
fn bottleneck(streamed: &Streamed) -> f64 {
    let busy = |cores: &[Shares]| cores.iter().map(Shares::total).fold(0.0, f64::max);
    let others = busy(&streamed.sender[..1]).max(busy(&streamed.receiver)).max(streamed.cable);
    busy(&streamed.sender[1..]) / others
}

/// Returns the rate one byte behind a boundary over that at it, the more of both boundaries.
fn steps(stand: Stand) -> Result<f64, BadStand> {
    let mut most = 0.0_f64;
    for bytes in BOUNDARIES {
        let (at, behind) = (stand.stream(bytes)?, stand.stream(bytes + 1)?);
        most = most.max(behind.kilohertz() / at.kilohertz());
    }
    Ok(most)
}

/// Runs all streams.
pub fn run(run: &mut Run) -> Result<(), BadStand> {
    let [one_1500, _, one_9000, two_9000] = STANDS;
    let short = one_1500.stream(LONGEST_1500)?;
    let long = one_9000.stream(LONGEST_9000)?;
    let two = two_9000.stream(LONGEST_9000)?;
    let receiver = two.receiver.iter().map(Shares::total).fold(0.0, f64::max);
    run.numbers.extend([
        ("galli-1500-rate", short.gigabits_per_s()),
        ("galli-1500-khz", short.kilohertz()),
        ("galli-1500-system", 100.0 * short.sender[1].system),
        ("galli-1500-bottleneck", bottleneck(&short)),
        ("galli-9000-rate", long.gigabits_per_s()),
        ("galli-9000-bottleneck", bottleneck(&long)),
        ("galli-9000-softirq", 100.0 * long.receiver[0].softirq),
        ("galli-9000-system", 100.0 * long.receiver[1].system),
        ("galli-two-cable", 100.0 * two.cable.min(1.0)),
        ("galli-two-receiver", 100.0 * receiver),
        ("galli-steps", steps(two_9000)?),
    ]);
    let scans = STANDS.map(|stand| stand.scan().map(|scan| (stand, scan)));
    let scans: Vec<(Stand, Vec<Streamed>)> = scans.into_iter().collect::<Result<_, _>>()?;
    let curves = |value: Value| -> Vec<Curve> {
        scans.iter().map(|(stand, scan)| curve(&stand.name(), scan, value)).collect()
    };
    run.figures.push(("galli-rate", curves(Streamed::gigabits_per_s)));
    run.figures.push(("galli-khz", curves(Streamed::kilohertz)));
    run.figures.push(("galli-cpu-1", cores(&scans[2].1)));
    run.figures.push(("galli-cpu-2", cores(&scans[3].1)));
    Ok(())
}

/// Returns the kinds of each core on top of each other.
fn cores(scan: &[Streamed]) -> Vec<Curve> {
    let stacked: [(&str, Value); 7] = [
        ("sender's process: user", |of| of.sender[1].user),
        ("sender's process: + system", |of| of.sender[1].total()),
        ("sender's card: irq", |of| of.sender[0].irq),
        ("sender's card: + softirq", |of| of.sender[0].total()),
        ("receiver's card: irq", |of| of.receiver[0].irq),
        ("receiver's card: + softirq", |of| of.receiver[0].total()),
        ("receiver's process: user + system", |of| of.receiver[1].total()),
    ];
    let percent = |(name, share): (&str, Value)| curve(name, scan, share).map(|_, y| 100.0 * y);
    stacked.map(percent).to_vec()
}

fn curve(name: &str, scan: &[Streamed], value: impl Fn(&Streamed) -> f64) -> Curve {
    let points = scan.iter().map(|of| (f64::from(of.bytes), value(of))).collect();
    Curve { name: name.to_string(), points }
}
