//! Experiments on a simulated link: both ends in this thread, in virtual time.
//!
//! Nothing of the result depends on this machine: it repeats to the byte.

use fluxline_bench::environment::{self, Plan, Simulated};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, run};
use fluxline_core::fabric::Fabric;
use fluxline_sim::world::Cluster;
use serde_json::json;

use super::session::Session;
use crate::inform;
use crate::progress;

/// Half of each end's arena \[byte\]; the largest transfer.
const HALF_BYTES: u64 = 10 << 20;

/// Runs the experiments of a session between nodes 0 and 1 of its cluster.
pub fn on_link(session: &Session<'_>, report: &mut Report) -> Result<(), Error> {
    let url = session.link.url.as_str();
    let cluster = Cluster::open(url).map_err(|error| Error::Input(error.to_string()))?;
    // A simulated link has no noise: every round would be the first again.
    let plan = Plan { rounds: 1, ..session.plan.clone() };
    report.environment["plan"] = json!(plan);
    let pinned = "Both sides in virtual time, one round: nothing depends on this machine";
    report.environment["pinned"] = pinned.into();
    let fabrics: [Box<dyn Fabric>; 2] = [Box::new(cluster.node(0)), Box::new(cluster.node(1))];
    let clock = environment::virtual_clock();
    let mut environment = Simulated::open(url, fabrics, "1", clock, HALF_BYTES)?
        .stopped_by(fluxline_bench::Stop::on(session.stop.flag()))
        .reporting(Box::new(progress::reporter(&session.bar)));
    let ended = run::run(&mut environment, &plan, &session.kinds, report);
    report.environment["fingerprint"] = cluster.fingerprint().to_string().into();
    report.environment["virtual_ns"] = cluster.now().as_ns().into();
    match cluster.end_dump() {
        Ok(Some(written)) if written.left_out > 0 => inform!("fluxline: {written}."),
        Ok(_) => {}
        Err(error) => {
            return ended.and(Err(Error::host("the dump could not be written whole")(error)));
        }
    }
    ended
}
