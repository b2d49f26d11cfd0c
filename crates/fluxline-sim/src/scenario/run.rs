//! Measurements of a scenario.

use std::io::Write;

use super::atoll::Errors;
use super::{Arrivals, Kind, NetworkPart, OrderName, PatternName, Refused, Scenario};
use crate::core::dump::Dump;
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::Interconnect;
use crate::core::model;
use crate::core::trace::{self, Trace};
use crate::load::loaded;
use crate::load::loaded::SOURCE_MESSAGES;
use crate::load::sweep::{Criterion, Limits, Outcome, Precision, measure_to, saturation};
use crate::load::traffic::{
    self, BuildOrder, Building, Events, Pattern, Plan, Size, Traffic, Workload,
};
use crate::load::{Carrier, Loaded, Settings};
use crate::net::atoll;
use crate::net::ethernet::{self, host};
use crate::net::router::{self, Dateline, Dimension, NetworkConfig, Ways, Wrap};
use crate::net::sci;
use crate::{Agenda, Clock, Duration, Fingerprint, Instant, Model};

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
    /// Messages under way at the end.
    pub in_flight: u64,
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
        match self.network.kind {
            Kind::Ethernet => self.ethernet.bits_per_s() as f64 / 8.0,
            kind if kind.is_sci() => self.sci_config(self.seed).clock.hertz() as f64 * 2.0,
            kind if kind.is_atoll() => self.atoll.hertz() as f64,
            _ => self.network.routers().link_bytes_per_s(),
        }
    }

    /// Measures one load, a share of a link; a closed loop ignores it. Equal scenarios give equal
    /// outcomes.
    ///
    /// # Errors
    /// When the scenario cannot be built or a check of the model fails: one sentence.
    pub fn measure(&self, load: f64) -> Result<Measured, Refused> {
        let measure = Measure { scenario: self, precision: self.precision() };
        self.work(self.workload(load)?, measure)?
    }

    /// Measures the network of this scenario under traffic of the program's own, instead of that of
    /// the scenario.
    ///
    /// # Errors
    /// As [`Scenario::measure`], and when the workload is for another number of nodes or makes a
    /// message that cannot be sent.
    pub fn measure_workload(&self, workload: Box<dyn Workload>) -> Result<Measured, Refused> {
        let (nodes, expected) = (u64::from(workload.nodes()), self.network.node_count());
        if nodes != expected {
            return Err(Refused(format!(
                "the workload is for {nodes} nodes, but the network has {expected}."
            )));
        }
        self.work(workload, Measure { scenario: self, precision: self.precision() })?
    }

    /// Returns the precision that measurements aim at; `None`: they have the shortest length.
    fn precision(&self) -> Option<Precision> {
        let part = &self.confidence;
        let may_settle = self.faults.at.is_empty() && self.traffic.replay.is_none();
        (may_settle && part.longest > 1.0).then(|| Precision {
            width: part.width,
            measured_max: span(self.run.duration_us * part.longest),
        })
    }

    /// Traces the first `us` microseconds at one load, with each entry as a moment on the track of
    /// its node, port or link.
    ///
    /// # Errors
    /// When the scenario cannot be built. The trace keeps its own errors.
    pub fn trace<W: Write>(&self, load: f64, us: f64, trace: &mut Trace<W>) -> Result<(), Refused> {
        self.work(self.workload(load)?, Record { until: Instant::START + span(us), trace })
    }

    /// Dumps every packet of every link in the first `us` microseconds at one load, up to
    /// `limit_bytes`; [`Dump::finish`] ends the dump.
    ///
    /// # Errors
    /// When the scenario cannot be built.
    pub fn dump(&self, load: f64, us: f64, limit_bytes: u64) -> Result<Dump, Refused> {
        let work = DumpAll { until: Instant::START + span(us), dump: Dump::new(limit_bytes) };
        self.work(self.workload(load)?, work)
    }

    /// Returns the traffic at a load.
    pub(crate) fn workload(&self, load: f64) -> Result<Box<dyn Workload>, Refused> {
        if let Some(replay) = &self.traffic.replay {
            return Ok(Box::new(replay.clone()));
        }
        let loads = self.weights();
        if self.traffic.pattern == PatternName::EventBuilding {
            let events = Events::new(self.plan(load), self.building(), &loads);
            return Ok(Box::new(events.map_err(|error| refused(&error))?));
        }
        let mut traffic = Traffic::new(self.plan(load)).map_err(|error| refused(&error))?;
        if !loads.is_empty() {
            traffic = traffic.with_loads(loads).map_err(|error| refused(&error))?;
        }
        Ok(Box::new(traffic))
    }

    /// Builds the network under some traffic, and does some work with it.
    pub(crate) fn work<T: Work>(
        &self,
        workload: Box<dyn Workload>,
        work: T,
    ) -> Result<T::Done, Refused> {
        let (faults, hosts) = (self.faults()?, self.hosts());
        let settings = Settings { faults: &faults, hosts: &hosts, ..Settings::default() };
        if self.network.kind.is_sci() {
            let mut agenda = Agenda::default();
            let network = sci::Network::new(&self.sci_config(self.seed));
            let network = network.map_err(|error| refused(&error))?;
            let carrier = self.sci_messages();
            let mut model = Loaded::new(network, carrier, workload, &settings, &mut agenda);
            return Ok(work.on(&mut model, &mut agenda));
        }
        if self.network.kind == Kind::Ethernet {
            return self.work_on_ethernet(workload, &settings, work);
        }
        if self.network.kind.is_atoll() {
            let mut agenda = Agenda::default();
            let network = <atoll::Network<_>>::new(self.atoll_config()?);
            let network = network.map_err(|error| refused(&error))?;
            let carrier = atoll::Processes { ports: self.atoll.ports };
            let mut model = Loaded::new(network, carrier, workload, &settings, &mut agenda);
            return Ok(work.on(&mut model, &mut agenda));
        }
        let mut agenda = Agenda::default();
        let network = router::Network::new(self.network.routers());
        let network = network.map_err(|error| refused(&error))?;
        let carrier = router::loaded::Messages;
        let mut model = Loaded::new(network, carrier, workload, &settings, &mut agenda);
        Ok(work.on(&mut model, &mut agenda))
    }

    /// Does some work with an Ethernet, with or without hosts.
    fn work_on_ethernet<T: Work>(
        &self,
        workload: Box<dyn Workload>,
        settings: &Settings<'_>,
        work: T,
    ) -> Result<T::Done, Refused> {
        let network = ethernet::Network::new(self.ethernet_config()?);
        let network = network.map_err(|error| refused(&error))?;
        let Some(host) = self.host_config()? else {
            let mut agenda = Agenda::default();
            let carrier = ethernet::Messages;
            let mut model = Loaded::new(network, carrier, workload, settings, &mut agenda);
            return Ok(work.on(&mut model, &mut agenda));
        };
        let mut agenda = Agenda::default();
        let hosts = vec![Some(host); network.config().nodes as usize];
        let network = host::Hosts::new(network, &hosts).map_err(|error| refused(&error))?;
        let mut model = Loaded::new(network, host::Messages, workload, settings, &mut agenda);
        Ok(work.on(&mut model, &mut agenda))
    }

    /// Finds the load at which the network saturates: less than 95 % of the offered load is
    /// accepted, or the latency is three times that at the lightest load.
    ///
    /// # Errors
    /// As [`Scenario::measure`].
    pub fn saturation(&self) -> Result<Saturated, Refused> {
        let measure = |load| -> Result<Outcome, Refused> {
            let measure = Measure { scenario: self, precision: None };
            Ok(self.work(self.workload(load)?, measure)??.outcome)
        };
        let light = measure(LIGHT_LOAD)?;
        let criterion = Criterion::usual(LATENCY_FACTOR, light.latency_ns.mean);
        let found = saturation(LIGHT_LOAD..=1.0, RESOLUTION, criterion, measure)?;
        Ok(Saturated { followed: found.followed, not_followed: found.saturated })
    }

    /// Returns the configuration of kind `ethernet`.
    pub(super) fn ethernet_config(&self) -> Result<ethernet::Config, Refused> {
        let faults = ethernet::Faults { bit_error_rate: self.faults.bit_error_rate, loss: 0.0 };
        let nodes = self.network.node_count() as u32;
        self.ethernet.config(nodes, faults, self.seed).map_err(Refused)
    }

    /// Returns the configuration of kinds `atoll-…`.
    pub(crate) fn atoll_config(&self) -> Result<atoll::Config, Refused> {
        let errors = Errors { bit_error_rate: self.faults.bit_error_rate, seed: self.seed };
        self.atoll.config(&self.network, errors).map_err(Refused)
    }

    /// A trace is measured from its start, until some time after its last message.
    fn limits(&self) -> Limits {
        if let Some(replay) = &self.traffic.replay {
            let zero = Duration::ZERO;
            let measured = replay.end().since(Instant::START) + span(self.run.duration_us);
            return Limits { warm_up_first: zero, warm_up_max: zero, measured };
        }
        Limits {
            warm_up_first: span(self.run.warm_up_us),
            warm_up_max: span(self.run.warm_up_max_us),
            measured: span(self.run.duration_us),
        }
    }

    /// The timed faults; nodes that are dead from the start have no power.
    pub(crate) fn faults(&self) -> Result<Vec<Fault>, Refused> {
        let dead = |&node: &u32| Fault { at: Instant::START, kind: FaultKind::Power(node) };
        let mut faults: Vec<Fault> = self.faults.dead_nodes.iter().map(dead).collect();
        for text in &self.faults.at {
            faults.push(self.fault(text)?);
        }
        Ok(faults)
    }

    /// Returns the time of the last fault \[us\]; 0: there is none.
    pub(crate) fn last_fault_us(&self) -> f64 {
        let faults = self.faults().unwrap_or_default();
        let last = faults.iter().map(|fault| fault.at).max().unwrap_or(Instant::START);
        last.since(Instant::START).as_us()
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

    /// The part of event building beside the plan.
    fn building(&self) -> Building {
        let part = &self.traffic;
        let order = match part.order {
            OrderName::Shifted => BuildOrder::Shifted,
            OrderName::Together => BuildOrder::Together,
            OrderName::Credits => BuildOrder::Credits(part.credits),
        };
        let (memory, patience) = (part.builder_bytes, span(part.patience_us));
        Building { builders: part.builders, order, memory, patience }
    }

    fn pattern(&self) -> Pattern {
        let part = &self.traffic;
        match part.pattern {
            // The messages of a trace and of events have their receivers.
            PatternName::Uniform | PatternName::Trace | PatternName::EventBuilding => {
                Pattern::Uniform
            }
            PatternName::Neighbour => Pattern::Neighbour { distance: part.distance },
            PatternName::HotReceiver => Pattern::HotReceiver { node: part.hot, share: part.share },
            PatternName::HotSender => Pattern::HotSender { node: part.hot, factor: part.factor },
            PatternName::BitComplement => Pattern::BitComplement,
            PatternName::Transpose => Pattern::Transpose,
        }
    }
}

/// Work with a network under traffic, whatever its kind is.
pub(crate) trait Work {
    /// The result.
    type Done;

    /// Does the work.
    fn on<C: Carrier>(
        self,
        model: &mut Loaded<C>,
        agenda: &mut Agenda<<Loaded<C> as Model>::Entry>,
    ) -> Self::Done
    where
        <C::Network as Interconnect>::Entry: crate::Entry;
}

/// Measures a point.
struct Measure<'a> {
    scenario: &'a Scenario,
    precision: Option<Precision>,
}

impl Work for Measure<'_> {
    type Done = Result<Measured, Refused>;

    fn on<C: Carrier>(
        self,
        model: &mut Loaded<C>,
        agenda: &mut Agenda<<Loaded<C> as Model>::Entry>,
    ) -> Self::Done
    where
        <C::Network as Interconnect>::Entry: crate::Entry,
    {
        let outcome = measure_to(model, agenda, &self.scenario.limits(), self.precision)
            .map_err(|error| refused(&error))?;
        Ok(Measured { outcome, in_flight: model.in_flight() })
    }
}

/// Traces all entries due by a moment.
struct Record<'a, W: Write> {
    until: Instant,
    trace: &'a mut Trace<W>,
}

impl<W: Write> Work for Record<'_, W> {
    type Done = ();

    fn on<C: Carrier>(self, model: &mut Loaded<C>, agenda: &mut Agenda<<Loaded<C> as Model>::Entry>)
    where
        <C::Network as Interconnect>::Entry: crate::Entry,
    {
        let print = &mut Fingerprint::default();
        trace::run(model, agenda, print, self.until, self.trace, loaded::kind_name::<C>);
    }
}

/// Dumps the packets of all entries due by a moment.
struct DumpAll {
    until: Instant,
    dump: Dump,
}

impl Work for DumpAll {
    type Done = Dump;

    fn on<C: Carrier>(
        self,
        model: &mut Loaded<C>,
        agenda: &mut Agenda<<Loaded<C> as Model>::Entry>,
    ) -> Dump
    where
        <C::Network as Interconnect>::Entry: crate::Entry,
    {
        model.network_mut().begin_dump(self.dump);
        model::run(model, agenda, &mut Fingerprint::default(), self.until);
        model.network_mut().end_dump().expect("all networks of scenarios have dumps")
    }
}

impl NetworkPart {
    /// The generic network of routers; ticks are nanoseconds.
    pub(crate) fn routers(&self) -> NetworkConfig {
        let wrap = if self.kind == Kind::Mesh { Wrap::Line } else { Wrap::Ring };
        let dimension = |routers| Dimension { routers, wrap, ways: Ways::Both };
        let dimensions = match self.kind {
            Kind::Ring => vec![dimension(self.nodes)],
            Kind::Graph => Vec::new(),
            _ => self.sides().into_iter().map(dimension).collect(),
        };
        NetworkConfig {
            dimensions,
            graph: self.graph.clone(),
            dateline: Dateline::Kept,
            clock: Clock::from_hertz(1_000_000_000),
            bytes_per_tick: self.link_bytes_per_ns,
            channels: self.virtual_channels,
            buffer_bytes: self.buffer_bytes,
            packet_bytes: self.packet_bytes,
            header_bytes: self.header_bytes,
            router_ticks: self.router_ns,
            wire_ticks: self.wire_ns,
            credit_ticks: self.credit_ns,
            source_packets: SOURCE_MESSAGES as u32,
        }
    }
}

/// Returns a time of some microseconds.
pub(crate) fn span(us: f64) -> Duration {
    Duration::from_ps((us * 1e6) as u64)
}

/// Returns a problem as one sentence.
pub(crate) fn refused(error: &dyn std::fmt::Display) -> Refused {
    Refused(format!("{error}."))
}
