//! Li's round trips: a request of x bytes and a short answer, fitted by a line.

use super::super::pair::BadStand;
use super::super::set::{Curve, Run};
use crate::Duration;
use crate::host::config;
use crate::net::ethernet::host::bench::{Bench, Cable, Length, Stream};
use crate::net::ethernet::host::{BusConfig, Card, Coalescing, Config, preset};

/// The sizes of requests \[byte\]: one frame.
const SIZES: [u32; 13] = [1, 64, 128, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1472];
/// The answer \[byte\].
const ANSWER: u32 = 1;
const GIGABIT: u64 = 1_000_000_000;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// At no bytes \[us\].
    intercept_us: f64,
    /// For each byte \[ns\].
    slope_ns: f64,
}

/// Returns the round trips of all sizes.
fn trips(name: &str, bits_per_s: u64, host: Config) -> Result<Curve, BadStand> {
    let cable = Cable { bits_per_s, mtu: 1500 };
    let mut bench = Bench::new(cable, host.clone(), host)?;
    let mut trip = |bytes: u32| (f64::from(bytes), bench.round_trip(bytes, ANSWER).as_us());
    Ok(Curve { name: name.to_string(), points: SIZES.map(&mut trip).to_vec() })
}

/// Fits a line by least squares.
fn fit(curve: &Curve) -> Line {
    let (intercept_us, slope) = curve.line();
    Line { intercept_us, slope_ns: 1e3 * slope }
}

/// Returns the gradient of a machine whose bursts have no overhead, over the equation.
fn gradient() -> Result<f64, BadStand> {
    let host = preset::li_ten_gigabit();
    let BusConfig::Parallel(bus) = host.card.bus else { return Ok(f64::NAN) };
    let bus = config::Bus { read_clocks: 0, write_clocks: 0, ..bus };
    let (copy, costs) = (host.costs.send_byte, host.costs);
    let card = Card { bus: BusConfig::Parallel(bus), ..host.card };
    let line = fit(&trips("free bursts", 10 * GIGABIT, Config { card, costs, ..host })?);
    let copy_ns = copy.as_us() * 1e3;
    let bus_ns = 1e9 / (bus.clock.hertz() as f64 * f64::from(bus.width_bytes));
    Ok(line.slope_ns / (2.0 * copy_ns + 2.0 * bus_ns + 0.8))
}

/// Returns the time that coalescing adds to each direction of a round trip \[us\].
fn added_us(receive: Coalescing) -> Result<f64, BadStand> {
    let round_trip = |receive| -> Result<Duration, BadStand> {
        let host = preset::galli(1);
        let host = Config { card: Card { receive, ..host.card }, ..host };
        let cable = Cable { bits_per_s: 10 * GIGABIT, mtu: 1500 };
        Ok(Bench::new(cable, host.clone(), host)?.round_trip(64, 64))
    };
    let without = round_trip(Coalescing::Off)?;
    Ok((round_trip(receive)?.as_us() - without.as_us()) / 2.0)
}

/// Returns the throughput of jumbo frames on the machine with PCI-X \[Gb/s\].
fn jumbo_gigabits_per_s() -> Result<f64, BadStand> {
    let host = preset::li_ten_gigabit();
    let cable = Cable { bits_per_s: 10 * GIGABIT, mtu: 9000 };
    let mut bench = Bench::new(cable, host.clone(), host)?;
    let length = Length { warm_up: Duration::from_us(2_000), measured: Duration::from_us(5_000) };
    let stream = Stream { bytes: 8972, period: Duration::ZERO, length };
    Ok(bench.stream(&stream).gigabits_per_s())
}

/// Runs all round trips.
pub fn run(run: &mut Run) -> Result<(), BadStand> {
    let ten = trips("PRO/10GbE LR, PCI-X 133", 10 * GIGABIT, preset::li_ten_gigabit())?;
    let sys = trips("SysKonnect 1 Gb/s", GIGABIT, preset::li_syskonnect())?;
    let intel = trips("Intel 1 Gb/s, coalescing on", GIGABIT, preset::li_gigabit())?;
    let [of_ten, of_sys, of_intel] = [&ten, &sys, &intel].map(fit);
    let time = Duration::from_us(25);
    run.numbers.extend([
        ("li-10g-intercept", of_ten.intercept_us),
        ("li-10g-slope", of_ten.slope_ns),
        ("li-sk-intercept", of_sys.intercept_us),
        ("li-sk-slope", of_sys.slope_ns),
        ("li-1g-intercept", of_intel.intercept_us),
        ("li-1g-slope", of_intel.slope_ns),
        ("li-gradient", gradient()?),
        ("li-delay", added_us(Coalescing::Delay { time, events: 0 })?),
        ("throttle", added_us(Coalescing::Throttle { gap: time })?),
        ("hurwitz-latency", ten.at(1) / 2.0),
        ("hurwitz-rate", jumbo_gigabits_per_s()?),
    ]);
    run.figures.push(("li-round-trips", vec![ten, sys, intel]));
    Ok(())
}
