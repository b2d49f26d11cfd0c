//! A benchmark on a real link: finds or starts the far side, connects to it, runs the experiments.

use std::net::SocketAddr;

use fluxline::pin;
use serde_json::{Value, json};

use crate::environment::{Plan, Program};
use crate::host::cores::{self, FarSide};
use crate::kind::ExperimentKind;
use crate::real::{Link, Local, Near, NearConfig};
use crate::result::Report;
use crate::{Error, Stop, host, run};

/// The settings of a benchmark on a real link.
pub struct Session<'a> {
    /// The link.
    pub link: &'a Link,
    /// Its URL, as it was given.
    pub url: &'a str,
    /// The far side's control address; `None`: the link's, or that of `program` on this host.
    pub peer: Option<SocketAddr>,
    /// The far side's key, where it was not started here.
    pub key: Option<String>,
    /// The cores asked for: none, near, or near and far.
    pub cores: &'a [usize],
    /// The extent of the run.
    pub plan: &'a Plan,
    /// The experiments, in order.
    pub kinds: &'a [&'static ExperimentKind],
    /// Set when the user interrupts.
    pub stop: Stop,
    /// The program of a far side on this host: it gets `bench --serve`.
    pub program: Program,
}

/// Receives the number of steps done, the number of all steps, and what comes next; from the thread
/// that measures.
pub type Progress = Box<dyn FnMut(usize, usize, &str) + Send>;

/// The address of the far side, and the cores of both.
struct Far {
    control: SocketAddr,
    key: String,
    cores: [Option<usize>; 2],
}

impl Session<'_> {
    /// Runs the experiments and adds their results to the report, in a thread of its own, since it
    /// is pinned. Results measured before an error are kept.
    ///
    /// Errors: [`Error`].
    pub fn run(&self, report: &mut Report, progress: Progress) -> Result<(), Error> {
        let control = self.peer.or_else(|| self.link.control());
        let place = if control.is_some() { FarSide::Elsewhere } else { FarSide::Here };
        let both = cores::choose(&pin::allowed_cores(), self.cores, place)?;
        report.environment["pinned"] = cores::sentence(both, place).into();
        let mut local = match place {
            FarSide::Elsewhere => None,
            FarSide::Here => Some(Local::start(&self.program, &self.stop)?),
        };
        let (control, key) = match (&local, control) {
            (Some(local), _) => (local.control, local.key.clone()),
            (None, Some(control)) => (control, self.key.clone().unwrap_or_default()),
            (None, None) => return Err(Error::Input("no other side".to_owned())),
        };
        let [near_core, far_core] = both;
        let cores = [Some(near_core), local.is_some().then_some(far_core)];
        let far = Far { control, key, cores };
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.run_with(far, report, progress));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let ended = ended.map_err(|error| match (&error, &mut local) {
            // The end of a process that was started here is known better.
            (Error::PeerGone { .. } | Error::Refused(_), Some(local)) => {
                local.died().unwrap_or(error)
            }
            _ => error,
        });
        if let Some(local) = &mut local
            && !matches!(ended, Err(Error::NoPeer { .. }))
        {
            local.finish();
        }
        ended
    }

    fn run_with(&self, far: Far, report: &mut Report, progress: Progress) -> Result<(), Error> {
        let Far { control, key, cores } = far;
        let mut near = Near::connect(NearConfig {
            link: self.link.clone(),
            url: self.url.to_owned(),
            control,
            key,
            cores,
            progress,
            stop: self.stop.clone(),
        })?;
        report.environment["far"] = near.far_environment().clone();
        let cores = [cores[0], cores[1].or_else(|| last_core(near.far_environment()))];
        report.environment["cores"] = json!(cores);
        let interrupts = host::link::interrupts(&report.environment, cores);
        report.environment["interrupts"] = json!(interrupts);
        run::run(&mut near, self.plan, self.kinds, report)
    }
}

/// Returns the core of a far side that nobody pins: the last that it may use.
fn last_core(far: &Value) -> Option<usize> {
    let last = far["cores_allowed"].as_array()?.last()?.as_u64()?;
    usize::try_from(last).ok()
}
