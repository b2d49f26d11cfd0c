//! Brings the nodes of a world together: the last one to come builds it for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::address::Address;
use super::error::OpenError;
use super::order;
use super::turns::Turns;
use crate::scenario::url::Description;
use crate::world::Cluster;

/// The worlds of this process by their names, until their last node is dropped.
static WORLDS: Mutex<BTreeMap<String, Gathering>> = Mutex::new(BTreeMap::new());
/// Rings when a world is built.
static BUILT: Condvar = Condvar::new();
/// The step in which the time of waiting is counted.
const STEP: Duration = Duration::from_millis(50);

/// The nodes of a world that came, and the world when all are there.
struct Gathering {
    first_url: String,
    cluster_url: String,
    cluster: Description,
    dump: Option<String>,
    names: Vec<String>,
    built: Option<Result<Arc<Turns>, OpenError>>,
    /// The nodes that have not taken their result yet.
    waiting: usize,
}

fn worlds() -> MutexGuard<'static, BTreeMap<String, Gathering>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a node to its world, and returns the world when all nodes came.
pub fn join(address: &Address, limit: Duration) -> Result<Arc<Turns>, OpenError> {
    let world = &address.world;
    let mut worlds = worlds();
    let gathering = worlds.entry(world.clone()).or_insert_with(|| Gathering::new(address));
    gathering.add(address)?;
    if gathering.names.len() == gathering.cluster.nodes {
        gathering.build(world);
        BUILT.notify_all();
    }
    let mut waited = Duration::ZERO;
    while let Some(gathering) = worlds.get_mut(world) {
        if let Some(built) = gathering.built.clone() {
            gathering.waiting -= 1;
            if built.is_err() && gathering.waiting == 0 {
                worlds.remove(world);
            }
            return built;
        }
        if waited >= limit {
            break;
        }
        let (guard, waking) =
            BUILT.wait_timeout(worlds, STEP).unwrap_or_else(PoisonError::into_inner);
        worlds = guard;
        if waking.timed_out() {
            waited += STEP;
        }
    }
    Err(give_up(&mut worlds, address, limit))
}

/// Takes a node back out of a world that was not built.
fn give_up(
    worlds: &mut BTreeMap<String, Gathering>,
    address: &Address,
    limit: Duration,
) -> OpenError {
    let Address { world, node, .. } = address;
    let mut present = vec![node.clone()];
    if let Some(gathering) = worlds.get_mut(world) {
        present.clone_from(&gathering.names);
        gathering.names.retain(|name| name != node);
        gathering.waiting -= 1;
        if gathering.names.is_empty() {
            worlds.remove(world);
        }
    }
    order::sort(&mut present);
    let (world, nodes, seconds) = (world.clone(), address.cluster.nodes, limit.as_secs());
    OpenError::Missing { world, nodes, present, seconds }
}

/// Frees the name of a world whose last node was dropped.
pub fn forget(world: &str) {
    worlds().remove(world);
}

impl Gathering {
    fn new(first: &Address) -> Gathering {
        Gathering {
            first_url: first.url.clone(),
            cluster_url: first.cluster_url.clone(),
            cluster: first.cluster.clone(),
            dump: first.dump.clone(),
            names: Vec::new(),
            built: None,
            waiting: 0,
        }
    }

    /// Adds a node. Errors: other settings, no place left, or a name that is taken.
    fn add(&mut self, address: &Address) -> Result<(), OpenError> {
        let world = || address.world.clone();
        if self.cluster != address.cluster || self.dump != address.dump {
            let (first, url) = (self.first_url.clone(), address.url.clone());
            return Err(OpenError::Settings { world: world(), first, url });
        }
        if self.names.contains(&address.node) {
            return Err(OpenError::Taken { world: world(), node: address.node.clone() });
        }
        if self.built.is_some() {
            return Err(OpenError::Full { world: world(), nodes: self.cluster.nodes });
        }
        self.names.push(address.node.clone());
        self.waiting += 1;
        Ok(())
    }

    fn build(&mut self, world: &str) {
        let mut names = self.names.clone();
        order::sort(&mut names);
        let cluster = Cluster::open(&self.cluster_url).map_err(OpenError::from);
        let turns = |cluster| Arc::new(Turns::new(world, names, cluster, self.cluster.seed));
        self.built = Some(cluster.map(turns));
    }
}
