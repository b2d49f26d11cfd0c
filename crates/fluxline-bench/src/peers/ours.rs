//! Fluxline itself: its links, its datagrams, and its plain TCP as a reference.
//!
//! The roles and trials are those of `fluxline bench LINK`. The far process is started for each
//! cell and ends with it: it spins, and would take a core from the next cell.

use std::net::Ipv4Addr;
use std::time::Duration;

use fluxline_core::fabric::Reliability;
use serde_json::Value;

use super::contender::{
    Cell, Contender, NoNumber, Number, OURS, Offer, Path, Presence, Quantity, Run,
};
use super::flow::{Flow, loss_free};
use crate::Error;
use crate::datagrams::ends::{Ends, Remote};
use crate::datagrams::message::Path as Way;
use crate::datagrams::setting::{SINGLE, Setting, TRAINS};
use crate::environment::{Conversation, Environment, Program};
use crate::pingpong::{self, Measured, Mode, Task, exchange, tcp};
use crate::real::{Link, Local, Near, NearConfig};

/// Trials of a stream, of which the shortest counts; of round trips there is one.
/// Source: NetPIPE, netpipe.c.
const TRIALS: u32 = 3;
/// The time that datagrams are sent, as long as peers send.
const FLOOD: Duration = Duration::from_secs(1);
/// The same with `--quick`.
const QUICK_FLOOD: Duration = Duration::from_millis(300);

/// One of our contenders.
struct Ours {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Puts with a notification, on a link that has a fabric.
    Put,
    /// The same over a connection that repeats nothing, as datagrams of others.
    Unreliable,
    /// Bare TCP, by our own ends.
    Tcp,
    /// Datagrams, this way.
    Datagrams(Way),
}

/// Lists our contenders but the ring.
#[must_use]
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let way = |name, kind| -> Box<dyn Contender> { Box::new(Ours { name, kind }) };
    vec![
        way("fluxline put", Kind::Put),
        way("fluxline put, unreliable", Kind::Unreliable),
        way("fluxline datagrams", Kind::Datagrams(SINGLE)),
        way("fluxline trains", Kind::Datagrams(TRAINS)),
        way("fluxline's plain TCP", Kind::Tcp),
    ]
}

impl Contender for Ours {
    fn peer(&self) -> &'static str {
        OURS
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn presence(&self) -> Presence {
        Presence::Version(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        let is_exchange = matches!(cell.quantity, Quantity::Trip | Quantity::Stream);
        match (self.kind, cell.path) {
            (Kind::Put, Path::Shm) if is_exchange => {
                Offer::equal("p50 of trips; put in place, with a notification")
            }
            (Kind::Put, Path::Udp) if is_exchange => {
                Offer::equal("p50 of trips; RoCEv2: put, notified, checked, acknowledged, repeated")
            }
            (Kind::Unreliable, Path::Udp) if cell.quantity == Quantity::Trip => {
                Offer::equal("p50 of trips; RoCEv2: put, notified, checked; nothing is repeated")
            }
            (Kind::Tcp, Path::Tcp) if is_exchange => Offer::equal(
                "p50 of trips; no link of Fluxline's, but the machine's TCP as we see it",
            ),
            (Kind::Datagrams(way), Path::Udp) if !is_exchange => match way == SINGLE {
                true => Offer::equal("single datagrams, as an FPGA sends them; buffer of 64 MiB"),
                false => Offer::unequal("trains, which an FPGA does not send: not equal work"),
            },
            _ => None,
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        let kind = self.kind;
        match (kind, cell.quantity) {
            (Kind::Datagrams(way), Quantity::LossFree) => loss_free(cell, |rate| {
                Ok(on_link(cell, run, Reliability::Reliable, &|near| {
                    flood(near, cell, way, rate, run)
                })?)
            }),
            (Kind::Datagrams(way), _) => {
                let flow = on_link(cell, run, Reliability::Reliable, &|near| {
                    flood(near, cell, way, None, run)
                })?;
                Ok(flow.number(cell))
            }
            _ => {
                let is_unreliable = kind == Kind::Unreliable;
                let reliability =
                    if is_unreliable { Reliability::Unreliable } else { Reliability::Reliable };
                let work = |near: &mut Near| exchange(near, cell, kind, run);
                Ok(on_link(cell, run, reliability, &work)?.into())
            }
        }
    }
}

/// A measurement on an open link.
pub(super) type Work<'a, T> = &'a (dyn Fn(&mut Near) -> Result<T, Error> + Sync);

/// Starts the other process, has `work` measure in a thread that is pinned, ends both.
pub(super) fn on_link<T: Send>(
    cell: &Cell,
    run: &Run<'_>,
    reliability: Reliability,
    work: Work<'_, T>,
) -> Result<T, Error> {
    let address = Ipv4Addr::LOCALHOST.into();
    let link = match cell.path {
        Path::Shm => Link::Shm,
        Path::Udp => Link::Udp { address, port: None },
        Path::Tcp => Link::Tcp { address },
    };
    let mut local = Local::start(&Program::this(), run.stop)?;
    let (control, key) = (local.control, local.key.clone());
    let ended = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut near = Near::connect(NearConfig {
                url: format!("{}://", link.scheme()),
                link,
                control,
                key,
                cores: run.cores.map(Some),
                progress: Box::new(|_, _, _| {}),
                stop: run.stop.clone(),
                sender: None,
                reliability,
            })?;
            work(&mut near)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    ended.map_err(|error| match error {
        // How a process ended that was started here is known better.
        Error::PeerGone { .. } => local.died().unwrap_or(error),
        _ => error,
    })
}

/// The longest time of a cell \[ms\], since others may have the cores; its repeats so far count.
const CELL_LIMIT_MS: u64 = 2000;

/// Half a round trip \[us\], or a stream \[Gb/s\].
fn exchange(near: &mut Near, cell: &Cell, kind: Kind, run: &Run<'_>) -> Result<f64, Error> {
    let is_trip = cell.quantity == Quantity::Trip;
    let task = Task {
        mode: if is_trip { Mode::PingPong } else { Mode::Stream },
        way: pingpong::Way::Put,
        bytes: cell.bytes,
        repeats: cell.count(run.quick),
        trials: if is_trip { 1 } else { TRIALS },
        cold: false,
        checked: false,
        limit_ms: CELL_LIMIT_MS,
    };
    let measured = if kind == Kind::Tcp { by_tcp(near, &task)? } else { by_fabric(near, &task)? };
    let nothing = || Error::Garbled { what: "no result".to_owned() };
    if is_trip {
        let [median_ns, ..] = measured.repeat_ns.ok_or_else(nothing)?;
        return Ok(median_ns as f64 / 2e3);
    }
    let seconds = measured.least();
    if seconds > 0.0 { Ok(cell.gigabits(1.0 / seconds)) } else { Err(nothing()) }
}

fn by_fabric(near: &mut Near, task: &Task) -> Result<Measured, Error> {
    let parameters = serde_json::to_value(task).unwrap_or_default();
    let [here, there] = near.trial(&exchange::TRIAL, &parameters)?;
    serde_json::from_value(if task.mode == Mode::Stream { there } else { here })
        .map_err(|error| Error::Garbled { what: format!("no result ({error})") })
}

fn by_tcp(near: &mut Near, task: &Task) -> Result<Measured, Error> {
    let address = Ipv4Addr::LOCALHOST.into();
    let parameters = serde_json::json!({ "address": address });
    let mut measured = None;
    near.call(&tcp::SERVICE, &parameters, &mut |conversation: &mut dyn Conversation| {
        let mut end = tcp::connect(address, conversation)?;
        measured = Some(tcp::measure(&mut end, task, conversation)?);
        conversation.send(&Value::Null)?;
        Ok(Value::Null)
    })?;
    measured.ok_or_else(|| Error::Garbled { what: "no result".to_owned() })
}

fn flood(
    near: &mut Near,
    cell: &Cell,
    way: Way,
    rate: Option<f64>,
    run: &Run<'_>,
) -> Result<Flow, Error> {
    let mut ends = Remote::new(near)?;
    let setting = Setting::find(&mut ends)?;
    let length = if run.quick { QUICK_FLOOD } else { FLOOD };
    let mut plan = setting.trial(way, cell.bytes as usize, rate, length);
    let [here, there] = run.cores.map(Some);
    (plan.sender_cores, plan.receiver_core) = (vec![here], there);
    let trial = ends.trial(plan)?;
    let sent = trial.sent_datagrams();
    let seconds = sent as f64 / trial.sent_rate().max(1e-9);
    Ok(Flow { sent, arrived: sent.saturating_sub(trial.lost()), seconds })
}
