//! Demonstrates: a global clock on an SCI ringlet; how far nodes are off, by load, by period, by
//! drift, and by which delays of a strobe are known.
//!
//! `cargo run --release -p fluxline-sim --example global_clock`

use std::error::Error;

use fluxline_sim::Duration;
use fluxline_sim::net::sci;
use fluxline_sim::net::sci::clock::{Config, Correction, Discipline, measure};

/// Virtual time of each row.
const MEASURED: Duration = Duration::from_us(50_000);

/// Largest error and standard deviation of the worst node \[ns\], and how busy links were.
fn worst(config: &Config, load: f64) -> Result<(f64, f64, f64), Box<dyn Error>> {
    let measured = measure(&sci::Config::lc2(8), config, load, MEASURED)?;
    if let Some(unbalanced) = measured.unbalanced {
        return Err(unbalanced.into());
    }
    Ok((measured.largest_ps() as f64 / 1e3, measured.deviation_ps() / 1e3, measured.busy))
}

fn by_load() -> Result<(), Box<dyn Error>> {
    println!("no drift, a strobe every 100 us: what a load does to the time, max and sd [ns]");
    println!(
        "{:>6} {:>6}  {:>17}  {:>17}  {:>17}",
        "load", "busy", "none", "departure", "residence"
    );
    for load in [0.0, 0.02, 0.05, 0.1, 0.15, 0.2] {
        let mut row = String::new();
        let mut busy = 0.0;
        for correction in [Correction::None, Correction::Departure, Correction::Residence] {
            let config = Config { drift_ppb_max: 0, correction, ..Config::default() };
            let (max, sd, links) = worst(&config, load)?;
            row += &format!("  {max:>9.1} {sd:>7.1}");
            busy = links;
        }
        println!("{load:>6.2} {:>4.0} %{row}", 100.0 * busy);
    }
    Ok(())
}

fn by_period() -> Result<(), Box<dyn Error>> {
    println!("\nload 0.10, waits known: what drift and period do to the time, max and sd [ns]");
    println!("{:>10} {:>12}  {:>17}  {:>17}", "drift", "period", "step", "rate");
    for drift_ppm in [0, 10, 100] {
        for period_us in [20, 100, 1000] {
            let mut row = String::new();
            for discipline in [Discipline::Step, Discipline::Rate] {
                let period = Duration::from_us(period_us);
                let drift_ppb_max = drift_ppm * 1000;
                let config = Config { period, drift_ppb_max, discipline, ..Config::default() };
                let (max, sd, _) = worst(&config, 0.1)?;
                row += &format!("  {max:>9.1} {sd:>7.1}");
            }
            println!("{:>10} {:>12}{row}", format!("{drift_ppm} ppm"), format!("{period_us} us"));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("a ringlet of 8 LC-2 cards, 400 MB/s; clocks tick every 2 ns; {MEASURED} measured");
    by_load()?;
    by_period()
}
