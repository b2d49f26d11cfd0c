//! The link below a node of C: any fabric, and shared memory by its type, which gives back imports.

use std::time::Duration;

use fluxline::shm::{Shm, ShmConfig};
use fluxline_core::fabric::{Fabric, RemoteId};

use crate::border::Refused;

/// Time for which a node on shared memory polls before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// The link of a node.
pub(crate) enum Link {
    Shm(Box<Shm>),
    Other(Box<dyn Fabric>),
}

impl Link {
    /// Opens the link that the URL names.
    pub fn open(url: &str) -> Result<Link, Refused> {
        if !url.starts_with("shm://") {
            fluxline_sim::register();
            return fluxline::open(url).map(Link::Other).map_err(not_opened);
        }
        let (group, name, users) = fluxline::shm_url(url).map_err(Refused::argument)?;
        let config = ShmConfig { spin: SPIN, users, ..ShmConfig::default() };
        let shm = Shm::open(&group, &name, config).map_err(Refused::host)?;
        Ok(Link::Shm(Box::new(shm)))
    }

    /// Opens several nodes at the address that the URL names.
    pub fn open_threads(url: &str, count: usize) -> Result<Vec<Link>, Refused> {
        if count == 1 {
            return Ok(vec![Link::open(url)?]);
        }
        let nodes = fluxline::open_threads(url, count).map_err(not_opened)?;
        Ok(nodes.into_iter().map(Link::Other).collect())
    }

    pub fn fabric(&mut self) -> &mut dyn Fabric {
        match self {
            Link::Shm(shm) => &mut **shm,
            Link::Other(fabric) => &mut **fabric,
        }
    }

    /// Gives back an import that was not waited for to its end. Other links than shared memory keep
    /// it until its connection ends.
    pub fn release(&mut self, import: RemoteId) {
        if let Link::Shm(shm) = self {
            let _ = shm.release(import); // it was imported just now, or never
        }
    }
}

/// Returns the code and sentence for a node that was not opened.
fn not_opened(error: fluxline::OpenError) -> Refused {
    match error {
        fluxline::OpenError::Link { .. }
        | fluxline::OpenError::Address { .. }
        | fluxline::OpenError::Unknown { .. }
        | fluxline::OpenError::Threads { .. }
        | fluxline::OpenError::Registered(_) => Refused::argument(error),
        error => Refused::host(error),
    }
}
