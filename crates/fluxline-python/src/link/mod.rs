//! Links as Python sees them: nodes, regions, connections and push rings.
//!
//! A blocking call is a [`task::Work`] that is stepped until it has a value: in `finish` detached
//! from the interpreter, with a look at Ctrl-C every 20 ms, or in asyncio when the link's descriptor
//! is readable. `core` has the node itself, and knows nothing of Python's objects.

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
