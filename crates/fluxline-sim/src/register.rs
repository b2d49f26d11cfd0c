//! Registration of simulated links: `fluxline::open` then opens URLs `sim:`.

use fluxline_core::fabric::links;

use crate::scenario::url::describe;
use crate::threads;

/// Makes URLs `sim:` known to this program. Calling it again changes nothing.
pub fn register() {
    links::register("sim", |url| Ok(threads::open(url)?));
    links::register_size("sim", |url| Ok(describe(url)?.nodes));
}
