//! Demonstrates: the cost of plots for the acquisition, as the ratio of the rates of runs with four
//! plots and without any, in turns.
//!
//! ```text
//! cargo run --release -p fluxline-run --example plot_speed -- [ROUNDS] [FOLDER]
//! ```
//!
//! Emulated boards push 1 KiB packets as fast as the acquisition takes them; runs are recorded in
//! FOLDER, or else in a temporary one, and removed.

use std::path::Path;
use std::time::Instant;

use fluxline_daq::experiment::Experiment;
use serde_json::Value;

/// Boards of a run, and the packets of each.
const BOARDS: u64 = 4;
const PACKETS: u64 = 100_000;

const PLOTS: &str = "
[[plot]]
name = 'amplitudes'
kind = 'histogram'
x = 'amplitude'
range = [0, 65536]
[[plot]]
name = 'largest of board 2'
kind = 'histogram'
x = 'max(amplitude)'
where = 'source_id == 2'
range = [0, 65536]
[[plot]]
name = 'by board'
kind = 'profile'
x = 'source_id'
y = 'mean(amplitude)'
bins = 4
range = [0, 4]
[[plot]]
name = 'sizes'
kind = 'image'
x = 'source_id'
y = 'packet.bytes'
bins = 4
range = [0, 4]
y-range = [0, 2048]
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("plot-speed-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (mut without, mut with, mut filled) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // The order changes from round to round.
        for is_plotted in [round % 2 == 0, round % 2 == 1] {
            let (rate, share) = measure(&folder, if is_plotted { PLOTS } else { "" })?;
            match is_plotted {
                true => with.push(rate),
                false => without.push(rate),
            }
            filled.extend(share);
        }
    }
    std::fs::remove_dir_all(&folder)?;
    let (with, without) = (median(&mut with), median(&mut without));
    println!("without plots: {:.0} kpackets/s (median of {rounds})", without / 1e3);
    println!("with 4 plots:  {:.0} kpackets/s, ratio {:.3}", with / 1e3, with / without);
    println!("filled from {:.1} % of the packets (median)", median(&mut filled) * 100.0);
    Ok(())
}

/// Runs once; returns packets per second, and the share that the plots were filled with.
fn measure(folder: &Path, plots: &str) -> Result<(f64, Option<f64>), Box<dyn std::error::Error>> {
    let text = format!(
        "runs = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\n\
         sources = {BOARDS}\nrate = 0.0\npackets = {PACKETS}\nlink = 'direct'\n\
         payload-bytes = 1024\n[events]\nbuild = 'packet'\n{plots}",
        folder.display()
    );
    let began = Instant::now();
    let acquisition = fluxline_run::start(Experiment::parse("boards", &text)?)?;
    while !acquisition.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let rate = (BOARDS * PACKETS) as f64 / began.elapsed().as_secs_f64();
    let report = acquisition.wait()?;
    let run = report.folder.ok_or("the run was not recorded")?;
    let share = match std::fs::read_to_string(run.join("plots.json")) {
        Ok(text) => {
            let saved: Value = serde_json::from_str(&text)?;
            let packets = &saved["plots"][0]["packets"];
            let count = |key: &str| packets[key].as_f64().unwrap_or(f64::NAN);
            Some(1.0 - count("skipped") / count("seen"))
        }
        Err(_) => None,
    };
    std::fs::remove_dir_all(run)?;
    Ok((rate, share))
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
