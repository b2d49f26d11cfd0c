//! OpenMPI on shared memory: a program of `tools/peers`, started by mpirun.

use crate::peers::contender::{
    Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run,
};
use crate::peers::program::{command, output, package_version};

use super::build::{Built, Compilation, compile, need};
use super::output::{number, task};
use super::scratch::Scratch;

const SOURCE: &str = include_str!("../../../../../tools/peers/mpi.c");

/// The peer OpenMPI.
#[derive(Default)]
pub struct Mpi {
    built: Built,
    scratch: Option<Scratch>,
}

impl Contender for Mpi {
    fn peer(&self) -> &'static str {
        "openmpi"
    }

    fn name(&self) -> &'static str {
        "OpenMPI"
    }

    fn presence(&self) -> Presence {
        match need(&[("mpirun", "openmpi-bin"), ("mpicc", "libopenmpi-dev")]) {
            Ok(()) => Presence::Version(package_version("openmpi-bin").unwrap_or_default()),
            Err(why) => Presence::Absent(why),
        }
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        let measures = matches!(cell.quantity, Quantity::Trip | Quantity::Stream);
        (measures && cell.path == Path::Shm)
            .then_some(Offer::equal("copied into the receiver's buffer"))
            .flatten()
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let scratch = Scratch::kept(&mut self.scratch, "mpi")?;
        let program = self.built.get(|| {
            let (compiler, source, name) = ("mpicc", SOURCE, "mpi");
            let plan = Compilation { compiler, source, name, libraries: &[], folder: scratch };
            compile(&plan, run)
        })?;
        let [here, there] = run.cores.map(|core| core.to_string());
        let [bytes, count] = [cell.bytes, cell.count(run.quick)].map(|number| number.to_string());
        // The program takes its cores itself.
        let mut mpirun = command("mpirun", None);
        mpirun.args(["--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]);
        mpirun.args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "-np", "2"]);
        mpirun.arg(program).args([task(cell), &bytes, &count, &here, &there]);
        number(cell, &output("mpirun", &mut mpirun, run)?.out)
    }
}
