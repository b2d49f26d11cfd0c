//! One end of a link in this process: opens the node, joins, and steps roles without a pause.

use std::time::Duration;

use fluxline::clock;
use fluxline::roce::{RoceError, RoceNode, endpoint_config, long_enough};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline::xdp::{Queues, XdpPort};
use fluxline_core::Moment;
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::Fabric;

use super::STALL_LIMIT;
use crate::control::{Channel, Message};
use crate::role::{JoinConfig, Joining, Role, Site, Step};
use crate::{Error, Stop};

/// Idle steps between two checks of the control connection, the time and the user: some tenths of a
/// millisecond.
const LOOK_STEPS: u32 = 1 << 13;

/// A node on the link, joined to the other side's.
pub struct Runner {
    fabric: Box<dyn Fabric>,
    site: Site,
}

/// The checks of a runner while nothing arrives.
pub struct Watch<'a> {
    channel: &'a mut Channel,
    stop: &'a Stop,
    /// The message of the other side that arrived in the meantime.
    heard: Option<Message>,
    idle_since: Option<Moment>,
    steps: u32,
}

impl<'a> Watch<'a> {
    /// Checks this connection and this flag.
    pub fn new(channel: &'a mut Channel, stop: &'a Stop) -> Watch<'a> {
        Watch { channel, stop, heard: None, idle_since: None, steps: 0 }
    }

    /// Returns the message of the other side, if one arrived.
    pub fn heard(self) -> Option<Message> {
        self.heard
    }

    /// Counts an idle step, and sometimes checks. Cost: an addition.
    #[inline]
    fn idle(&mut self, what: &str, now: Moment) -> Result<(), Error> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(LOOK_STEPS) { self.look(what, now) } else { Ok(()) }
    }

    #[inline]
    fn worked(&mut self) {
        self.idle_since = None;
    }

    #[cold]
    fn look(&mut self, what: &str, now: Moment) -> Result<(), Error> {
        self.stop.check()?;
        if self.heard.is_none() {
            self.heard = self.channel.poll()?;
        }
        if let Some(Message::Failed { why, leaves }) = &self.heard {
            return Err(Message::error(why, *leaves));
        }
        let since = *self.idle_since.get_or_insert(now);
        if Duration::from_nanos(now.since(since).as_ns()) > STALL_LIMIT {
            let seconds = STALL_LIMIT.as_secs();
            return Err(Error::Stalled { what: what.to_owned(), seconds });
        }
        Ok(())
    }
}

/// One trial of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Its kind.
    pub name: &'a str,
    /// Its number.
    pub number: u8,
}

impl Runner {
    /// Joins a node to the other side's, which does the same.
    pub fn join(
        mut fabric: Box<dyn Fabric>,
        mut joining: Joining,
        mut watch: Watch<'_>,
    ) -> Result<Runner, Error> {
        loop {
            let now = clock::monotonic();
            if let Some(site) = joining.step(&mut *fabric, now)? {
                return Ok(Runner { fabric, site });
            }
            watch.idle("finding the other side on the link", now)?;
        }
    }

    /// The connection and the arenas.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Steps a role until it is done.
    pub fn run(
        &mut self,
        trial: Trial<'_>,
        role: &mut dyn Role,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        self.site.number = trial.number;
        loop {
            let now = clock::monotonic();
            match role.step(&self.site, &mut *self.fabric, now)? {
                Step::Worked | Step::Computed(_) => watch.worked(),
                Step::Idle(Some(until)) if until > now => {
                    // It waits for a moment, not for the other side.
                    watch.worked();
                    watch.idle(trial.name, now)?;
                }
                Step::Idle(_) => watch.idle(trial.name, now)?,
                Step::Done => return Ok(()),
            }
        }
    }

    /// Polls the link while no role runs, so that it acknowledges and repeats.
    ///
    /// Errors: the other side is gone.
    pub fn tend(&mut self) -> Result<(), Error> {
        let now = clock::monotonic();
        while self.site.poll(&mut *self.fabric, now)?.is_some() {}
        Ok(())
    }

    /// Waits for a message, and polls the link meanwhile.
    pub fn wait(
        &mut self,
        limit: Duration,
        channel: &mut Channel,
        stop: &Stop,
    ) -> Result<Option<Message>, Error> {
        let began = clock::monotonic();
        loop {
            // First the control connection: the end of the benchmark closes both.
            if let Some(message) = channel.poll()? {
                return Ok(Some(message));
            }
            self.tend()?;
            stop.check()?;
            let waited = Duration::from_nanos(clock::monotonic().since(began).as_ns());
            if waited > limit {
                return Ok(None);
            }
            if waited > Duration::from_millis(2) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// Opens a node and begins to join.
pub fn open(url: &str, config: &JoinConfig<'_>) -> Result<(Box<dyn Fabric>, Joining), Error> {
    let mut fabric = node(url)?;
    let joining = Joining::new(&mut *fabric, config)?;
    Ok((fabric, joining))
}

/// Opens a node as [`fluxline::open`] does; on Ethernet with room for the largest number of
/// connections, since that is measured, too.
fn node(url: &str) -> Result<Box<dyn Fabric>, Error> {
    // More than there are is as many as there are.
    let config = |name: &str| -> Result<EndpointConfig, RoceError> {
        let (endpoints_max, endpoints_per_address_max) = (u32::MAX, u32::MAX);
        Ok(EndpointConfig { endpoints_max, endpoints_per_address_max, ..endpoint_config(name)? })
    };
    if url.starts_with("udp://") {
        let (local, name) = fluxline::udp_address(url)?;
        let open = || -> Result<RoceNode, RoceError> {
            let port = long_enough(UdpPort::bind(UdpPortConfig::new(local))?)?;
            Ok(RoceNode::on(port, config(&name)?))
        };
        return Ok(Box::new(open().map_err(fluxline::OpenError::from)?));
    }
    if url.starts_with("xdp://") {
        let (mut interface, name) = fluxline::xdp_interface(url)?;
        // The card chooses the queue.
        interface.queues = Queues::All;
        let port = XdpPort::open(&interface).map_err(fluxline::OpenError::from)?;
        let port = long_enough(port).map_err(fluxline::OpenError::from)?;
        let config = config(&name).map_err(fluxline::OpenError::from)?;
        return Ok(Box::new(RoceNode::on(port, config)));
    }
    Ok(fluxline::open(url)?)
}
