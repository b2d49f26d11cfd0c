//! Experiments on a simulated link: both ends in this thread, in virtual time.
//!
//! Nothing of the result depends on this machine: it repeats to the byte.

use fluxline_bench::environment::{Clock, LastTurn, Plan, Simulated};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, run};
use fluxline_core::Moment;
use fluxline_core::fabric::Fabric;
use fluxline_sim::cluster::Cluster;
use serde_json::json;

use super::session::Session;
use crate::inform;
use crate::progress;

/// Half of each end's arena \[byte\]; the largest transfer.
const HALF_BYTES: u64 = 10 << 20;
/// Turns without any deadline after which nothing will ever happen.
const QUIET_TURNS_MAX: u32 = 100;

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
    let mut environment = Simulated::open(url, fabrics, "1", clock(), HALF_BYTES)?
        .stopped_by(fluxline_bench::Stop::on(session.stop.flag()))
        .reporting(Box::new(progress::telling(&session.bar)));
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

/// Time stands still while somebody has something to do, and then jumps to what happens next.
fn clock() -> Clock {
    let mut now = Moment::default();
    let mut quiet_turns = 0;
    Box::new(move |last| {
        match last {
            LastTurn::Worked => quiet_turns = 0,
            LastTurn::Idle { until: Some(next) } => {
                quiet_turns = 0;
                // A deadline that has passed is looked at a nanosecond later, not for ever.
                now = next.max(Moment::from_ns(now.as_ns() + 1));
            }
            LastTurn::Idle { until: None } => quiet_turns += 1,
        }
        (quiet_turns <= QUIET_TURNS_MAX).then_some(now)
    })
}
