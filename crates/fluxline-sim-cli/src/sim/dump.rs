//! `fluxline sim run --dump`: the packets of simulated links as pcapng files.

use std::path::{Path, PathBuf};

use fluxline_sim::scenario::Scenario;

use crate::failure::Failure;
use crate::sim_arguments::SimRunArguments;
use crate::{files, inform, say};

/// A written dump.
pub struct Dumped {
    file: PathBuf,
    packets: u64,
}

impl Dumped {
    /// Prints its path.
    pub fn say(&self) {
        say!("dump: {} ({} packets)", self.file.display(), self.packets);
    }
}

/// Writes the dump of the first load, or into a folder one file per load. A file that exists is an
/// error before anything is simulated.
pub fn write(scenario: &Scenario, arguments: &SimRunArguments) -> Result<Vec<Dumped>, Failure> {
    let Some(place) = &arguments.dump else { return Ok(Vec::new()) };
    let us = arguments.dump_us;
    if !(us > 0.0 && us <= 1e6) {
        return Err(Failure::failed("--dump-us takes microseconds above 0, up to 1000000."));
    }
    let files = files_of(place, scenario);
    if let Some((file, _)) = files.iter().find(|(file, _)| file.symlink_metadata().is_ok()) {
        return Err(Failure::failed(format_args!(
            "{} exists already; remove it, or name another file for --dump.",
            file.display()
        )));
    }
    let mut dumped = Vec::new();
    for (file, load) in files {
        let dump = scenario.dump(load, us, arguments.dump_limit).map_err(Failure::failed)?;
        let (bytes, written) = dump.finish();
        files::write(&file, &bytes)?;
        if written.left_out > 0 {
            inform!(
                "fluxline: {}: {written}; raise --dump-limit, or give a shorter --dump-us.",
                file.display()
            );
        }
        dumped.push(Dumped { file, packets: written.packets });
    }
    Ok(dumped)
}

/// Returns the files, each with its load. A closed loop and a trace have one
/// point, and so one file.
fn files_of(place: &Path, scenario: &Scenario) -> Vec<(PathBuf, f64)> {
    let loads = &scenario.run.loads;
    let first = loads.first().copied().unwrap_or(1.0);
    let is_open = scenario.traffic.window == 0 && scenario.traffic.replay.is_none();
    if !place.is_dir() {
        return vec![(place.to_path_buf(), first)];
    }
    match is_open {
        true => {
            loads.iter().map(|load| (place.join(format!("load-{load}.pcapng")), *load)).collect()
        }
        false if scenario.traffic.window > 0 => vec![(place.join("closed-loop.pcapng"), first)],
        false => vec![(place.join("trace.pcapng"), first)],
    }
}
