//! Measurements of a scenario.

use std::io::Write;

use super::{Arrivals, Kind, NetworkPart, OrderName, PatternName, Refused, Scenario};
use crate::core::dump::Dump;
use crate::core::model;
use crate::core::trace::{self, Trace};
use crate::load::sweep::{Criterion, Detail, Experiment, Limits, Outcome, measure, saturation};
use crate::load::traffic::{self, BuildOrder, Pattern, Plan, Size};
use crate::net::router::{CreditUnit, Dateline, Dimension, Loaded, NetworkConfig, Ways, Wrap};
use crate::{Agenda, Clock, Duration, Fingerprint, Instant};

/// Most messages that wait at a node; later ones of an open loop are dropped. Assumed: far more
/// than wait below saturation.
pub(super) const SOURCE_MESSAGES: u32 = 1024;
/// A network also counts as saturated if the latency is this multiple of that at the lightest load.
/// Source: the usual choice in the literature on networks on chips, as in BookSim2.
const LATENCY_FACTOR: f64 = 3.0;
/// Load that counts as idle in the search for saturation, as a share of a link.
const LIGHT_LOAD: f64 = 0.01;
/// The resolution of the saturation load, as a share of a link.
const RESOLUTION: f64 = 0.005;

/// One measured point.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The measurement.
    pub outcome: Outcome,
    /// Messages that the network gave up, since the start; their senders were notified.
    pub lost: u64,
}

/// The two loads between which a network saturates, as shares of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    /// The highest load that the network followed; 0 if it followed none.
    pub followed: f64,
    /// The lowest load that it did not follow.
    pub not_followed: f64,
}

impl Scenario {
    /// Returns the rate of a link \[bytes/s\], of which loads are shares.
    #[must_use]
    pub fn link_bytes_per_s(&self) -> f64 {
        match self.network.kind.is_sci() {
            true => self.sci_config(self.seed).clock.hertz() as f64 * 2.0,
            false => self.network.routers().link_bytes_per_s(),
        }
    }

    /// Measures one load, a share of a link; a closed loop ignores it. Equal scenarios give equal
    /// outcomes.
    ///
    /// # Errors
    /// When the scenario cannot be built or a check of the model fails: one sentence.
    pub fn measure(&self, load: f64) -> Result<Measured, Refused> {
        let plan = self.plan(load);
        if self.network.kind.is_sci() {
            return self.measure_sci(plan);
        }
        let mut agenda = Agenda::default();
        let config = self.network.routers();
        let mut model = Loaded::new(config, plan, Detail::Full, &mut agenda)
            .map_err(|error| refused(&error))?;
        let outcome = self.outcome(&mut model, &mut agenda)?;
        Ok(Measured { outcome, lost: 0 })
    }

    /// Traces the first `us` microseconds at one load, with each entry as a moment on the track of
    /// its node, port or link.
    ///
    /// # Errors
    /// When the scenario cannot be built. The trace keeps its own errors.
    pub fn trace<W: Write>(&self, load: f64, us: f64, trace: &mut Trace<W>) -> Result<(), Refused> {
        let (plan, until) = (self.plan(load), Instant::START + span(us));
        if self.network.kind.is_sci() {
            return self.trace_sci(plan, until, trace);
        }
        let mut agenda = Agenda::default();
        let mut model = Loaded::new(self.network.routers(), plan, Detail::Full, &mut agenda)
            .map_err(|error| refused(&error))?;
        let name = |kind| match kind {
            0 => "message made",
            1 => "tick of the routers",
            2 => "outputs choose",
            3 => "message delivered",
            _ => "unknown",
        };
        let print = &mut Fingerprint::default();
        trace::run(&mut model, &mut agenda, print, until, trace, name);
        Ok(())
    }

    /// Dumps every packet of every link in the first `us` microseconds at one load, up to
    /// `limit_bytes`; [`Dump::finish`] ends the dump.
    ///
    /// # Errors
    /// When the scenario cannot be built.
    pub fn dump(&self, load: f64, us: f64, limit_bytes: u64) -> Result<Dump, Refused> {
        let (plan, until) = (self.plan(load), Instant::START + span(us));
        let dump = Dump::new(limit_bytes);
        if self.network.kind.is_sci() {
            return self.dump_sci(plan, until, dump);
        }
        let mut agenda = Agenda::default();
        let mut model = Loaded::new(self.network.routers(), plan, Detail::Full, &mut agenda)
            .map_err(|error| refused(&error))?;
        model.begin_dump(dump);
        model::run(&mut model, &mut agenda, &mut Fingerprint::default(), until);
        Ok(model.end_dump().expect("begun above"))
    }

    /// Finds the load at which the network saturates: less than 95 % of the offered load is
    /// accepted, or the latency is three times that at the lightest load.
    ///
    /// # Errors
    /// As [`Scenario::measure`].
    pub fn saturation(&self) -> Result<Saturated, Refused> {
        let light = self.measure(LIGHT_LOAD)?.outcome;
        let criterion = Criterion::usual(LATENCY_FACTOR, light.latency_ns.mean);
        let found = saturation(LIGHT_LOAD..=1.0, RESOLUTION, criterion, |load| {
            self.measure(load).map(|measured| measured.outcome)
        })?;
        Ok(Saturated { followed: found.followed, not_followed: found.saturated })
    }

    pub(super) fn outcome<E: Experiment>(
        &self,
        model: &mut E,
        agenda: &mut Agenda<E::Entry>,
    ) -> Result<Outcome, Refused> {
        let limits = Limits {
            warm_up_first: span(self.run.warm_up_us),
            warm_up_max: span(self.run.warm_up_max_us),
            measured: span(self.run.duration_us),
        };
        measure(model, agenda, &limits).map_err(|error| refused(&error))
    }

    fn plan(&self, load: f64) -> Plan {
        let part = &self.traffic;
        let bytes_per_s = load * self.link_bytes_per_s();
        let arrivals = match part.arrivals {
            _ if part.window > 0 => traffic::Arrivals::Window { messages: part.window },
            Arrivals::Poisson => traffic::Arrivals::Poisson { bytes_per_s },
            Arrivals::Periodic => traffic::Arrivals::Periodic { bytes_per_s },
        };
        let sizes: Vec<(u32, u32)> =
            self.sizes().iter().map(|size| (size.bytes, size.weight)).collect();
        let size = match sizes[..] {
            [(bytes, _)] => Size::Fixed(bytes),
            _ => Size::Mix(sizes),
        };
        let nodes = self.network.node_count() as u32;
        Plan { nodes, pattern: self.pattern(), arrivals, size, seed: self.seed }
    }

    fn pattern(&self) -> Pattern {
        let part = &self.traffic;
        let order = match part.order {
            OrderName::Shifted => BuildOrder::Shifted,
            OrderName::Together => BuildOrder::Together,
        };
        match part.pattern {
            PatternName::Uniform => Pattern::Uniform,
            PatternName::Neighbour => Pattern::Neighbour { distance: part.distance },
            PatternName::HotReceiver => Pattern::HotReceiver { node: part.hot, share: part.share },
            PatternName::HotSender => Pattern::HotSender { node: part.hot, factor: part.factor },
            PatternName::BitComplement => Pattern::BitComplement,
            PatternName::Transpose => Pattern::Transpose,
            PatternName::EventBuilding => Pattern::EventBuilding { builders: part.builders, order },
        }
    }
}

impl NetworkPart {
    /// The generic network of routers; ticks are nanoseconds.
    fn routers(&self) -> NetworkConfig {
        let wrap = if self.kind == Kind::Mesh { Wrap::Line } else { Wrap::Ring };
        let dimension = |routers| Dimension { routers, wrap, ways: Ways::Both };
        let dimensions = match self.kind {
            Kind::Ring => vec![dimension(self.nodes)],
            _ => vec![dimension(self.side); self.dimensions as usize],
        };
        NetworkConfig {
            dimensions,
            dateline: Dateline::Kept,
            clock: Clock::from_hertz(1_000_000_000),
            bytes_per_tick: self.link_bytes_per_ns,
            channels: self.virtual_channels,
            buffer_bytes: self.buffer_bytes,
            packet_bytes: self.packet_bytes,
            header_bytes: self.header_bytes,
            router_ticks: self.router_ns,
            wire_ticks: self.wire_ns,
            credit_ticks: 1,
            credit_unit: CreditUnit::Packet,
            source_packets: SOURCE_MESSAGES,
        }
    }
}

fn span(us: f64) -> Duration {
    Duration::from_ps((us * 1e6) as u64)
}

/// Returns a problem as one sentence.
pub(super) fn refused(error: &dyn std::fmt::Display) -> Refused {
    Refused(format!("{error}."))
}
