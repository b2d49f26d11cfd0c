//! The peers that take part in a run.

use std::collections::{BTreeMap, BTreeSet};

use super::contender::{Contender, OURS, Presence};
use crate::Error;

/// The contenders of a run, and the presence of every peer.
pub struct Chosen {
    /// Ours, and the peers asked for.
    pub contenders: Vec<Box<dyn Contender>>,
    /// The version of each peer, or how to install it.
    pub presences: BTreeMap<&'static str, String>,
}

/// Chooses the peers named by `only`, or all, and ours.
///
/// Errors: an unknown name, or a peer that is not installed.
pub fn choose(mut all: Vec<Box<dyn Contender>>, only: &[String]) -> Result<Chosen, Error> {
    let names: BTreeSet<&str> = all.iter().map(|one| one.peer()).collect();
    let mut presences = BTreeMap::new();
    for one in &all {
        let (Presence::Version(said) | Presence::Absent(said)) = one.presence();
        presences.insert(one.peer(), said);
    }
    for name in only {
        if !names.contains(name.as_str()) {
            let known: Vec<&str> = names.iter().copied().filter(|one| *one != OURS).collect();
            let known = known.join(", ");
            return Err(Error::Input(format!("unknown peer {name:?}; known are {known}")));
        }
        let of_peer = all.iter().find(|one| one.peer() == name);
        if let Some(Presence::Absent(why)) = of_peer.map(|one| one.presence()) {
            return Err(Error::Input(format!("{name}: {why}")));
        }
    }
    let is_asked =
        |peer: &str| only.is_empty() || peer == OURS || only.iter().any(|one| one == peer);
    all.retain(|one| is_asked(one.peer()));
    Ok(Chosen { contenders: all, presences })
}
