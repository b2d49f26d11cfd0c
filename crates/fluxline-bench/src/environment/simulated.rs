//! An environment in one thread: two fabrics, and a clock that may be virtual.

use fluxline_core::Moment;
use fluxline_core::fabric::{Capabilities, Fabric};
use serde_json::Value;

use super::{Environment, NearEnd, Service, Stop};
use crate::Error;
use crate::role::{JoinConfig, Joining, Role, Side, Site, Step, TrialKind};

/// The turn before the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastTurn {
    /// An end worked.
    Worked,
    /// Both ends were idle, so that a simulator can go on to its next event.
    Idle {
        /// The next deadline; `None`: both ends wait for something to arrive.
        until: Option<Moment>,
    },
}

/// Returns the time before each turn, and `None` if nothing will ever happen again.
pub type Clock = Box<dyn FnMut(LastTurn) -> Option<Moment>>;

/// Turns without any deadline after which nothing will ever happen.
const QUIET_TURNS_MAX: u32 = 100;

/// Makes the clock of a simulator. Its time stands still while an end works, and then jumps to the
/// next deadline.
#[must_use]
pub fn virtual_clock() -> Clock {
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

/// After this many idle turns a trial hangs.
const IDLE_TURNS_MAX: u64 = 10_000_000;

/// Two nodes that one thread steps in turns.
pub struct Simulated {
    link: String,
    fabrics: [Box<dyn Fabric>; 2],
    sites: [Site; 2],
    clock: Clock,
    stop: Stop,
    half_bytes: u64,
    trials: u8,
    progress: Progress,
}

/// Receives the number of steps done, the number of all steps, and what comes next.
pub type Progress = Box<dyn FnMut(usize, usize, &str)>;

impl Simulated {
    /// Connects `near` to `far`, whose node is `far_name`, with arenas of twice `half_bytes`.
    ///
    /// Errors: they do not find each other.
    pub fn open(
        link: &str,
        fabrics: [Box<dyn Fabric>; 2],
        far_name: &str,
        mut clock: Clock,
        half_bytes: u64,
    ) -> Result<Simulated, Error> {
        let [mut near, mut far] = fabrics;
        let far_config = JoinConfig { side: Side::Far, peer: "", half_bytes, key: 1 };
        let near_config = JoinConfig { side: Side::Near, peer: far_name, ..far_config };
        let mut far_joins = Joining::new(&mut *far, &far_config)?;
        let mut near_joins = Joining::new(&mut *near, &near_config)?;
        let mut sites = [None, None];
        let mut idle_turns = 0;
        while sites.iter().any(Option::is_none) {
            let until = [near.deadline(), far.deadline()].into_iter().flatten().min();
            let now = clock(LastTurn::Idle { until }).ok_or_else(|| stalled("joining"))?;
            for (index, (joins, fabric)) in
                [(&mut near_joins, &mut near), (&mut far_joins, &mut far)].into_iter().enumerate()
            {
                if sites[index].is_none() {
                    sites[index] = joins.step(&mut **fabric, now)?;
                }
            }
            idle_turns += 1;
            if idle_turns > IDLE_TURNS_MAX {
                return Err(stalled("joining"));
            }
        }
        let [Some(near_site), Some(far_site)] = sites else { return Err(stalled("joining")) };
        Ok(Simulated {
            link: link.to_owned(),
            fabrics: [near, far],
            sites: [near_site, far_site],
            clock,
            stop: Stop::default(),
            half_bytes,
            trials: 0,
            progress: Box::new(|_, _, _| {}),
        })
    }

    /// Connects two nodes of plain memory, whose turns take `turn_ns` each: for tests.
    #[cfg(test)]
    pub(crate) fn in_memory(half_bytes: u64, turn_ns: impl FnMut() -> u64 + 'static) -> Simulated {
        let [near, far] = memory_nodes();
        Simulated::of_nodes([Box::new(near), Box::new(far)], half_bytes, turn_ns)
    }

    /// The same with other nodes; the far one is `far`.
    #[cfg(test)]
    pub(crate) fn of_nodes(
        fabrics: [Box<dyn Fabric>; 2],
        half_bytes: u64,
        mut turn_ns: impl FnMut() -> u64 + 'static,
    ) -> Simulated {
        let mut now = 0;
        let clock = Box::new(move |_| {
            now += turn_ns();
            Some(Moment::from_ns(now))
        });
        Simulated::open("memory", fabrics, "far", clock, half_bytes).expect("they are connected")
    }

    /// The memory of an arena, near (0) or far (1): for tests that change carried data.
    #[cfg(test)]
    pub(crate) fn memory(&self, end: usize) -> std::sync::Arc<dyn fluxline_core::fabric::Memory> {
        std::sync::Arc::clone(&self.sites[end].memory)
    }

    /// Calls `disturb` with the number of each turn, before it.
    #[cfg(test)]
    pub(crate) fn between_turns(&mut self, mut disturb: Box<dyn FnMut(u64)>) {
        let placeholder: Clock = Box::new(|_| None);
        let mut clock = std::mem::replace(&mut self.clock, placeholder);
        let mut turn = 0;
        self.clock = Box::new(move |idle| {
            turn += 1;
            disturb(turn);
            clock(idle)
        });
    }

    /// Reports its progress to `progress`.
    #[must_use]
    pub fn reporting(self, progress: Progress) -> Simulated {
        Simulated { progress, ..self }
    }

    /// Ends when `stop` is set.
    #[must_use]
    pub fn stopped_by(self, stop: Stop) -> Simulated {
        Simulated { stop, ..self }
    }

    fn run(&mut self, name: &str, roles: &mut [Box<dyn Role>; 2]) -> Result<(), Error> {
        let mut done = [false; 2];
        let mut last = LastTurn::Worked;
        let mut idle_turns = 0_u64;
        while done != [true, true] {
            self.stop.check()?;
            let now = (self.clock)(last).ok_or_else(|| stalled(name))?;
            let (mut worked, mut computed) = (false, false);
            let mut until: Option<Moment> = None;
            for end in 0..2 {
                let fabric = &mut *self.fabrics[end];
                if done[end] {
                    // An end that is done still answers for its link.
                    worked |= fabric.poll(now).is_some();
                } else {
                    match roles[end].step(&self.sites[end], fabric, now)? {
                        Step::Worked => worked = true,
                        Step::Computed(span) => {
                            computed = true;
                            until = earlier(until, Some(now + span));
                        }
                        Step::Idle(at) => until = earlier(until, at),
                        Step::Done => (done[end], worked) = (true, true),
                    }
                }
                until = earlier(until, fabric.deadline());
            }
            last = if worked { LastTurn::Worked } else { LastTurn::Idle { until } };
            idle_turns = if worked || computed { 0 } else { idle_turns + 1 };
            if idle_turns > IDLE_TURNS_MAX {
                return Err(stalled(name));
            }
        }
        Ok(())
    }
}

/// Makes the nodes `near` and `far` of plain memory: for tests.
#[cfg(test)]
pub(crate) fn memory_nodes() -> [fluxline_core::fabric::memory::MemoryFabric; 2] {
    let lab = fluxline_core::fabric::memory::Lab::new();
    ["near", "far"].map(|name| lab.node(name).expect("a new name"))
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min()
}

fn stalled(what: &str) -> Error {
    Error::Stalled { what: what.to_owned(), seconds: 0 }
}

impl Environment for Simulated {
    fn link(&self) -> &str {
        &self.link
    }

    fn capabilities(&mut self) -> Result<Option<Capabilities>, Error> {
        Ok(Some(self.sites[0].capabilities))
    }

    fn half_bytes(&self) -> u64 {
        self.half_bytes
    }

    fn trial(&mut self, kind: &TrialKind, parameters: &Value) -> Result<[Value; 2], Error> {
        self.trials = self.trials.wrapping_add(1);
        for site in &mut self.sites {
            site.number = self.trials;
        }
        let make = |side| (kind.make)(parameters, side);
        let mut roles = [make(Side::Near)?, make(Side::Far)?];
        self.run(kind.name, &mut roles)?;
        Ok(roles.map(|mut role| role.outcome()))
    }

    fn call(&mut self, service: &Service, _: &Value, _: NearEnd<'_>) -> Result<[Value; 2], Error> {
        Err(Error::Unsuitable { what: service.name.to_owned(), link: self.link.clone() })
    }

    fn addresses(&self) -> Option<[std::net::IpAddr; 2]> {
        None
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        (self.progress)(done, all, what);
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}
