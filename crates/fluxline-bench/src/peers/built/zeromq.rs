//! ZeroMQ over a local socket: a program of `tools/peers`.

use crate::peers::contender::{
    Cell, Contender, NoNumber, Number, Offer, Path, Presence, Quantity, Run,
};
use crate::peers::program::{command, output, package_version};

use super::build::{Built, Compilation, compile, need};
use super::output::{number, task};
use super::scratch::Scratch;

const SOURCE: &str = include_str!("../../../../../tools/peers/zeromq.c");

/// The peer ZeroMQ.
#[derive(Default)]
pub struct Zeromq {
    built: Built,
    scratch: Option<Scratch>,
}

impl Contender for Zeromq {
    fn peer(&self) -> &'static str {
        "zeromq"
    }

    fn name(&self) -> &'static str {
        "ZeroMQ ipc"
    }

    fn presence(&self) -> Presence {
        let version = package_version("libzmq3-dev");
        match (need(&[("cc", "gcc")]), version) {
            (Err(why), _) => Presence::Absent(why),
            (_, Some(version)) => Presence::Version(version),
            (_, None) => match std::path::Path::new("/usr/include/zmq.h").is_file() {
                true => Presence::Version("of unknown version".to_owned()),
                false => Presence::Absent("not installed: apt-get install libzmq3-dev".to_owned()),
            },
        }
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        let measures = matches!(cell.quantity, Quantity::Trip | Quantity::Stream);
        (measures && cell.path == Path::Shm)
            .then_some(Offer::equal("through a socket of the kernel; it sleeps while it waits"))
            .flatten()
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let scratch = Scratch::kept(&mut self.scratch, "zeromq")?;
        let built = || {
            let (compiler, source, name) = ("cc", SOURCE, "zeromq");
            let libraries: &[&str] = &["-lzmq"];
            let plan = Compilation { compiler, source, name, libraries, folder: scratch };
            compile(&plan, run)
        };
        let program = self.built.get(built)?;
        let [here, there] = run.cores.map(|core| core.to_string());
        let [bytes, count] = [cell.bytes, cell.count(run.quick)].map(|number| number.to_string());
        // The program takes its cores itself.
        let mut zeromq = command(program, None);
        zeromq.args([task(cell), &bytes, &count, &here, &there]).arg(scratch.join("socket"));
        number(cell, &output("zeromq", &mut zeromq, run)?.out)
    }
}
