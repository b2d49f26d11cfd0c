//! Connects two nodes and gives each an arena: the way to a [`Site`].

use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Memory, Name, RegionId, Reliability, RemoteId,
    Rights,
};

use super::{Side, Site};
use crate::Error;

/// The name under which arenas are exported.
const ARENA: &str = "bench-arena";

/// The parameters of a node that joins.
#[derive(Clone, Copy, Debug)]
pub struct JoinConfig<'a> {
    /// The end of the benchmark.
    pub side: Side,
    /// The peer's name; the far side takes any.
    pub peer: &'a str,
    /// Half of the arena \[byte\].
    pub half_bytes: u64,
    /// The key of both arenas.
    pub key: u64,
}

/// One node that connects; it is stepped until it has a site.
pub struct Joining {
    side: Side,
    peer: String,
    key: Key,
    own: RegionId,
    memory: Arc<dyn Memory>,
    half_bytes: u64,
    phase: Phase,
}

enum Phase {
    /// It waits for a connection.
    Waits,
    /// It waits for the peer's arena.
    Imports(EndpointId, RemoteId),
}

impl Joining {
    /// Exports an arena of twice `half_bytes` under `key`; the near side connects to `peer`,
    /// which must have exported its arena before. Errors: [`Error`].
    pub fn new(fabric: &mut dyn Fabric, config: &JoinConfig<'_>) -> Result<Joining, Error> {
        let JoinConfig { side, peer, half_bytes, key } = *config;
        let key = Key(key);
        let own = fabric.register(2 * half_bytes)?;
        fabric.export(own, Name::parse(ARENA)?, Grant { rights: Rights::ALL, key })?;
        let memory = fabric.memory(own)?;
        if side == Side::Near {
            fabric.connect(peer, Reliability::Reliable)?;
        }
        Ok(Joining {
            side,
            peer: peer.to_owned(),
            key,
            own,
            memory,
            half_bytes,
            phase: Phase::Waits,
        })
    }

    /// Polls, and returns the site when it is ready. Errors: refused, or the connection broke.
    pub fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Result<Option<Site>, Error> {
        let Some(what) = fabric.poll(now) else { return Ok(None) };
        match (&self.phase, what) {
            (Phase::Waits, Completion::Connected { endpoint, peer, .. }) => {
                if self.side == Side::Far {
                    self.peer = peer;
                }
                let remote = fabric.import(endpoint, Name::parse(ARENA)?, self.key)?;
                self.phase = Phase::Imports(endpoint, remote);
                Ok(None)
            }
            (Phase::Imports(endpoint, remote), Completion::Imported { remote: of, status, .. })
                if of == *remote =>
            {
                if !status.is_done() {
                    return Err(Error::Refused(format!("the peer's arena: {status}")));
                }
                Ok(Some(self.site(fabric, *endpoint, of)))
            }
            (_, Completion::Broken { status, .. }) => {
                Err(Error::PeerGone { how: format!("connecting: {status}") })
            }
            _ => Ok(None),
        }
    }

    fn site(&self, fabric: &dyn Fabric, endpoint: EndpointId, remote: RemoteId) -> Site {
        Site {
            side: self.side,
            endpoint,
            peer: self.peer.clone(),
            own: self.own,
            memory: Arc::clone(&self.memory),
            remote,
            half_bytes: self.half_bytes,
            capabilities: *fabric.capabilities(),
            number: 0,
        }
    }
}
