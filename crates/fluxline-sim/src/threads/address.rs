//! The URL of a node: `sim:NETWORK/WORLD/NODE?KEYS`.

use fluxline_core::fabric::Name;

use super::error::OpenError;
use crate::scenario::url::{Description, describe};

/// A node's URL in parts.
pub struct Address {
    /// The URL as given.
    pub url: String,
    /// The URL of its cluster: `sim:NETWORK?KEYS`.
    pub cluster_url: String,
    /// The cluster that the keys describe.
    pub cluster: Description,
    /// The file of dumped packets, if there is one.
    pub dump: Option<String>,
    /// The name of the world.
    pub world: String,
    /// The name of the node.
    pub node: String,
}

impl Address {
    /// Reads a URL. Errors: it has no world or node, or keys that its network does not have.
    pub fn parse(url: &str) -> Result<Address, OpenError> {
        let wrong = || OpenError::Shape { url: url.to_owned() };
        let (path, keys) = match url.split_once('?') {
            Some((path, keys)) => (path, format!("?{keys}")),
            None => (url, String::new()),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let cluster_url = format!("{}{keys}", parts[0]);
        let cluster = describe(&cluster_url)?;
        let [_, world, node] = parts[..] else { return Err(wrong()) };
        if world.is_empty() || node.is_empty() {
            return Err(wrong());
        }
        let (world, node) = (Name::parse(world)?.to_string(), Name::parse(node)?.to_string());
        let dump = keys.split(['?', '&']).find_map(|key| key.strip_prefix("dump="));
        let dump = dump.map(str::to_owned);
        Ok(Address { url: url.to_owned(), cluster_url, cluster, dump, world, node })
    }
}
