//! Regions of peers that this node has imported or asked for.

use super::numbered::Numbered;
use crate::fabric::{EndpointId, RemoteId, Rights};

/// The progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportState {
    /// The peer has not answered yet.
    Asked,
    Open,
    Withdrawn,
}

/// A peer's region, as this node may use it.
pub(super) struct Import {
    pub endpoint: EndpointId,
    pub key: u32,
    pub base: u64,
    pub bytes: u64,
    pub rights: Rights,
    pub state: ImportState,
}

impl Import {
    /// Returns an import that the peer has not answered yet.
    pub fn asked(endpoint: EndpointId) -> Import {
        let (state, rights) = (ImportState::Asked, Rights::default());
        Import { endpoint, key: 0, base: 0, bytes: 0, rights, state }
    }
}

/// All imports of a node.
#[derive(Default)]
pub(super) struct Imports {
    all: Numbered<Import>,
    /// Number of the next request to a peer.
    request: u32,
}

impl Imports {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns memory slots in use, for tests of growth.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.all.slots()
    }

    /// Returns the number of a new request.
    pub fn next_request(&mut self) -> u32 {
        let request = self.request;
        self.request = request.wrapping_add(1);
        request
    }

    pub fn add(&mut self, import: Import) -> RemoteId {
        RemoteId(self.all.add(import))
    }

    #[inline]
    pub fn get(&self, remote: RemoteId) -> Option<&Import> {
        self.all.get(remote.0)
    }

    /// Takes the peer's answer; `None`: it refused.
    pub fn decide(&mut self, remote: RemoteId, answer: Option<Import>) {
        match (answer, self.all.get_mut(remote.0)) {
            (Some(answer), Some(import)) => *import = answer,
            _ => {
                self.all.remove(remote.0);
            }
        }
    }

    /// Marks an import that its owner has withdrawn: it takes no more work.
    pub fn mark_withdrawn(&mut self, remote: RemoteId) {
        if let Some(import) = self.all.get_mut(remote.0) {
            import.state = ImportState::Withdrawn;
        }
    }

    /// Forgets all imports of a connection that is over.
    pub fn forget_endpoint(&mut self, endpoint: EndpointId) {
        self.all.retain(|import| import.endpoint != endpoint);
    }
}
