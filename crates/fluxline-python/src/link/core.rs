//! A node without Python: its link, its rings, and the completions that wait for their callers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::fabric::connect::Connector;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, RegionId, Reliability, RemoteId, Status, Work,
};
use fluxline_core::{Moment, Span};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use super::rings::Rings;
use crate::buffer::Lent;
use crate::fault::{Class, Fault};

/// Completions that wait for the program, at most; the others wait in the link.
const KEPT_MAX: usize = 4096;
/// The first tag of the package's own work; a program's tags are below.
pub const OWN_TAGS: u64 = 1 << 63;
/// The tag of work whose failure alone is reported.
pub const NO_TAG: u64 = OWN_TAGS;

/// A node, as its Python objects share it.
pub struct Shared {
    /// The URL that it was opened by.
    pub url: String,
    core: Mutex<Option<Core>>,
}

/// The result of own work.
#[derive(Clone, Copy)]
pub struct Outcome {
    pub status: Status,
    pub value: u64,
}

/// The open node.
pub struct Core {
    pub fabric: Box<dyn Fabric>,
    pub rings: Rings,
    /// The memory of own regions, as Python objects share it.
    pub regions: BTreeMap<RegionId, Arc<Lent>>,
    kept: VecDeque<Completion>,
    /// Own work, with its result once it is there.
    claims: BTreeMap<u64, Option<Outcome>>,
    imports: BTreeMap<RemoteId, Option<Outcome>>,
    connectors: BTreeMap<u64, Connector>,
    last: u64,
    /// Work was posted since the last drive.
    posted: bool,
}

impl Shared {
    /// Wraps the node that was opened by a URL.
    pub fn new(url: String, fabric: Box<dyn Fabric>) -> Shared {
        let core = Core {
            fabric,
            rings: Rings::default(),
            regions: BTreeMap::new(),
            kept: VecDeque::new(),
            claims: BTreeMap::new(),
            imports: BTreeMap::new(),
            connectors: BTreeMap::new(),
            last: NO_TAG,
            posted: false,
        };
        Shared { url, core: Mutex::new(Some(core)) }
    }

    /// Locks the node from a thread that is attached to the interpreter.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<Core>> {
        // A panic is a defect, which Python shows; the other threads go on.
        self.core.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the open node. Errors: the node is closed; those of the function.
    pub fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Core) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.lock(py).as_mut().ok_or_else(closed).and_then(call)
    }

    /// Ends the node, its regions, rings and connections.
    pub fn close(&self, py: Python<'_>) {
        let core = self.lock(py).take();
        py.detach(|| drop(core));
    }

    /// Does the same in a thread that is detached from the interpreter.
    pub fn with_detached<T>(
        &self,
        call: impl FnOnce(&mut Core) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.as_mut().ok_or_else(closed).and_then(call)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.regions.values().for_each(|lent| lent.end());
    }
}

fn closed() -> Fault {
    Fault::link("the node is closed; open another one")
}

impl Core {
    /// Drives the link and the rings, and sorts the completions that are there.
    pub fn drive(&mut self) {
        let now = self.fabric.now();
        self.posted = false;
        self.rings.progress(&mut *self.fabric, now);
        while self.kept.len() < KEPT_MAX
            && let Some(what) = self.fabric.poll(now)
        {
            self.sort(what);
            self.rings.progress(&mut *self.fabric, now);
        }
    }

    fn sort(&mut self, what: Completion) {
        let Some(what) = self.rings.handle(what) else { return };
        let mut connectors = self.connectors.values_mut();
        let Some(what) = connectors.try_fold(what, |what, one| one.handle(what)) else { return };
        match what {
            Completion::Done { tag, status, value, .. } if tag > OWN_TAGS => {
                // Nobody waits for a claim that was abandoned.
                if let Some(claim) = self.claims.get_mut(&tag) {
                    *claim = Some(Outcome { status, value });
                }
            }
            Completion::Done { tag: NO_TAG, status, .. } if status.is_done() => {}
            Completion::Imported { remote, status, bytes } => {
                if let Some(import) = self.imports.get_mut(&remote) {
                    *import = Some(Outcome { status, value: bytes });
                }
            }
            what => self.kept.push_back(what),
        }
    }

    /// Returns the oldest completion that is the program's.
    pub fn next(&mut self) -> Option<Completion> {
        self.kept.pop_front()
    }

    /// Returns the oldest completion that `wanted` accepts; the others stay.
    pub fn next_of(&mut self, wanted: impl Fn(&Completion) -> bool) -> Option<Completion> {
        let index = self.kept.iter().position(wanted)?;
        self.kept.remove(index)
    }

    /// Returns true when a completion waits for the program.
    pub fn has_next(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Checks that the link's completions find room. Errors: `KEPT_MAX` of them wait already.
    pub fn check_room(&self) -> Result<(), Fault> {
        match self.kept.len() < KEPT_MAX {
            true => Ok(()),
            false => Err(Fault::new(
                Class::Full,
                format_args!("{KEPT_MAX} completions wait for the program; take them with poll()"),
            )),
        }
    }

    /// Returns a number that was not used before.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Posts work. Errors: those of the link.
    pub fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), Fault> {
        self.fabric.post(endpoint, tag, work)?;
        self.posted = true;
        Ok(())
    }

    /// Returns true when work was posted since the last drive: it leaves with the next one.
    pub fn has_posted(&self) -> bool {
        self.posted
    }

    /// Posts own work and claims its completion. Errors: those of the link.
    pub fn claim(&mut self, endpoint: EndpointId, work: Work<'_>) -> Result<u64, Fault> {
        let tag = self.number();
        self.post(endpoint, tag, work)?;
        self.claims.insert(tag, None);
        Ok(tag)
    }

    /// Claims the completion of own work that `post` posts with the tag. Errors: those of `post`.
    pub fn claim_with(
        &mut self,
        post: impl FnOnce(&mut dyn Fabric, u64) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        let tag = self.number();
        post(&mut *self.fabric, tag)?;
        self.claims.insert(tag, None);
        Ok(tag)
    }

    /// Returns the value of own work once it is done. Errors: its status.
    pub fn claimed(&mut self, tag: u64) -> Result<Option<u64>, Fault> {
        let Some(Some(Outcome { status, value })) = self.claims.get(&tag).copied() else {
            return Ok(None);
        };
        self.claims.remove(&tag);
        if status.is_done() { Ok(Some(value)) } else { Err(Fault::of_status(status)) }
    }

    /// Ends the interest in own work.
    pub fn abandon(&mut self, tag: u64) {
        self.claims.remove(&tag);
    }

    /// Begins an import. Errors: those of the link.
    pub fn import(
        &mut self,
        endpoint: EndpointId,
        name: fluxline_core::fabric::Name,
        key: fluxline_core::fabric::Key,
    ) -> Result<RemoteId, Fault> {
        let remote = self.fabric.import(endpoint, name, key)?;
        self.imports.insert(remote, None);
        Ok(remote)
    }

    /// Returns the size of an imported region once it is there. Errors: its status.
    pub fn imported(&mut self, remote: RemoteId) -> Result<Option<u64>, Fault> {
        let Some(Some(Outcome { status, value })) = self.imports.get(&remote).copied() else {
            return Ok(None);
        };
        self.imports.remove(&remote);
        if status.is_done() { Ok(Some(value)) } else { Err(Fault::of_status(status)) }
    }

    /// Ends the interest in an import.
    pub fn abandon_import(&mut self, remote: RemoteId) {
        self.imports.remove(&remote);
    }

    /// Begins to connect, again and again for a time. Returns the attempt's number.
    pub fn connect(&mut self, peer: &str, reliability: Reliability, span: Span) -> u64 {
        let until = self.fabric.now() + span;
        let number = self.number();
        self.connectors.insert(number, Connector::new(peer, reliability, until));
        number
    }

    /// Does what is due for an attempt; returns the endpoint once it is connected.
    pub fn connected(&mut self, attempt: u64) -> Result<Option<EndpointId>, Fault> {
        let Core { connectors, fabric, .. } = self;
        let Some(connector) = connectors.get_mut(&attempt) else { return Ok(None) };
        let turned = connector.progress(&mut **fabric);
        if !matches!(turned, Ok(None)) {
            self.connectors.remove(&attempt);
        }
        Ok(turned?)
    }

    /// Ends an attempt to connect. A connection that is there already stays, as a completion.
    pub fn abandon_connect(&mut self, attempt: u64) {
        self.connectors.remove(&attempt);
    }

    /// Returns the moment after some seconds of the link's time; none: never.
    pub fn after(&self, seconds: Option<f64>) -> Option<Moment> {
        seconds.map(|seconds| self.fabric.now() + span(seconds))
    }
}

/// Returns a number of seconds as a span; a negative number is zero.
pub fn span(seconds: f64) -> Span {
    Span::from_ns((seconds.max(0.0) * 1e9).min(1e18) as u64)
}
