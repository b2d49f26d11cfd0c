//! Links of other crates, by the scheme of their URLs.
//!
//! Opening a link by its URL must not compile every kind of link. Who has one registers its opener
//! once, at the start of the program; a second registration of a scheme replaces the first.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error::Error;

use super::Fabric;
use crate::lock::Lock;

/// Opens a node on the link that a URL names. Errors: a sentence for the user.
pub type Opener = fn(url: &str) -> Result<Box<dyn Fabric>, Box<dyn Error + Send + Sync>>;

/// The registered schemes and their openers: few, so a list.
static OPENERS: Lock<Vec<(&'static str, Opener)>> = Lock::new(Vec::new());

/// Makes URLs that begin with `SCHEME:` known to this program.
///
/// ```
/// use fluxline_core::fabric::links;
///
/// links::register("lab", |url| Err(format!("{url}: no such node").into()));
/// let open = links::opener_of("lab:builder").expect("registered");
/// let error = open("lab:builder").err().expect("no node");
/// assert_eq!(error.to_string(), "lab:builder: no such node");
/// assert!(links::opener_of("elsewhere:builder").is_none());
/// ```
pub fn register(scheme: &'static str, opener: Opener) {
    let mut openers = OPENERS.lock();
    openers.retain(|(known, _)| *known != scheme);
    openers.push((scheme, opener));
}

/// Returns the opener of a URL's scheme, if one is registered.
pub fn opener_of(url: &str) -> Option<Opener> {
    let (scheme, _) = url.split_once(':')?;
    let openers = OPENERS.lock();
    openers.iter().find(|(known, _)| *known == scheme).map(|(_, opener)| *opener)
}

/// Returns the number of nodes of the network that a URL names, of which a program must open all.
/// Errors: a sentence for the user.
pub type Size = fn(url: &str) -> Result<usize, Box<dyn Error + Send + Sync>>;

static SIZES: Lock<Vec<(&'static str, Size)>> = Lock::new(Vec::new());

/// Makes the size of networks with URLs `SCHEME:NETWORK?KEYS` known to this program.
pub fn register_size(scheme: &'static str, size: Size) {
    let mut sizes = SIZES.lock();
    sizes.retain(|(known, _)| *known != scheme);
    sizes.push((scheme, size));
}

/// Returns the number of nodes of a network; `None`: it has no fixed number.
///
/// Errors: the URL names no network.
pub fn size_of(url: &str) -> Option<Result<usize, Box<dyn Error + Send + Sync>>> {
    let (scheme, _) = url.split_once(':')?;
    let size = SIZES.lock().iter().find(|(known, _)| *known == scheme).map(|(_, size)| *size)?;
    Some(size(url))
}
