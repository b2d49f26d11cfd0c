//! An acquisition inside another program: four emulated boards over UDP, counters each second, the
//! folder at the end. `cargo run -p fluxline-run --example embed`

use std::time::Duration;

use fluxline_daq::experiment::Experiment;

const BOARDS: &str = r#"
name = "embedded"
runs = "runs"
[[source]]
name = "boards"
format = "counter"
[source.emulator]
sources = 4
rate = 1000.0
[events]
build = "key"
require = 4
"#;

fn main() -> Result<(), fluxline_run::Error> {
    let experiment = Experiment::parse("boards", BOARDS)?;
    let acquisition = fluxline_run::start(experiment)?;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_secs(1));
        let stats = acquisition.stats();
        println!("{} packets, {} events, {} lost", stats.packets, stats.events, stats.lost);
    }
    acquisition.stop();
    let report = acquisition.wait()?;
    println!("{}", report.ledger.headline());
    println!("data in {}", report.folder.unwrap_or_default().display());
    Ok(())
}
