//! iceoryx2: a program of `tools/peers`, built by cargo once, and then kept.

use std::path::{Path as File, PathBuf};

use crate::peers::contender::{
    Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run,
};
use crate::peers::program::{command, output};

use super::build::{Built, long, need};
use super::output::{number, task};

/// From the root of the source tree.
const SOURCES: &str = "tools/peers/iceoryx2";
const TARGET: &str = "target/peers";

/// The peer iceoryx2.
#[derive(Default)]
pub struct Iceoryx2 {
    built: Built,
}

fn program() -> PathBuf {
    File::new(TARGET).join("release/peer-iceoryx2")
}

impl Contender for Iceoryx2 {
    fn peer(&self) -> &'static str {
        "iceoryx2"
    }

    fn name(&self) -> &'static str {
        "iceoryx2"
    }

    fn presence(&self) -> Presence {
        if !File::new(SOURCES).join("Cargo.toml").is_file() {
            let why = format!("run in the root of Fluxline's sources, where {SOURCES} is");
            return Presence::Absent(why);
        }
        match need(&[("cargo", "cargo")]) {
            Ok(()) => Presence::Version(format!("of {SOURCES}/Cargo.lock")),
            Err(why) => Presence::Absent(why),
        }
    }

    fn offer(&self, cell: &Cell, quick: bool) -> Option<Offer> {
        let measures = matches!(cell.quantity, Quantity::Trip | Quantity::Stream);
        // A first look does not wait until it is built.
        let is_ready = !quick || program().is_file();
        (measures && is_ready && cell.path == Path::Shm)
            .then_some(Offer::equal("read in place, as ours"))
            .flatten()
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let built = self.built.get(|| {
            let mut cargo = command("cargo", None);
            cargo.args(["build", "--release", "--quiet", "--manifest-path"]);
            cargo.arg(File::new(SOURCES).join("Cargo.toml")).env("CARGO_TARGET_DIR", TARGET);
            long("cargo", &mut cargo, run).map(|()| program())
        })?;
        let [bytes, count] = [cell.bytes, cell.count(run.quick)].map(|number| number.to_string());
        // The program gives the other process its core itself.
        let mut iceoryx2 = command(built, Some(run.cores[0]));
        iceoryx2.args([task(cell), &bytes, &count, &run.cores[1].to_string()]);
        number(cell, &output("iceoryx2", &mut iceoryx2, run)?.out)
    }
}
