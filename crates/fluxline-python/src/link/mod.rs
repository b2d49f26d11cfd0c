//! Links as Python sees them: nodes, regions, connections and push rings.
//!
//! A blocking call is a [`task::Work`] that is stepped until it has a value. `finish` does so
//! detached from the interpreter, and looks for Ctrl-C every 20 ms; asyncio does so when the
//! descriptor of the link is readable. `core` has the node itself, without objects of Python.

mod completion;
mod core;
mod node;
mod peer;
mod region;
mod ring;
mod rings;
mod task;

pub use completion::Completion;
pub use node::Node;
pub use peer::{Endpoint, Remote};
pub use region::Region;
pub use ring::{Receiver, Sender};
pub use task::Task;
