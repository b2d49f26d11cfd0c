//! UDP: receiving into the push ring, sending in paced batches, and the socket as a port of frames.

mod bare;
mod bind;
mod filter;
mod port;
mod receiver;
mod sender;
mod shared;

pub use bare::{BareReceiver, BareSender};
pub use bind::{BindError, Multicast};
pub use port::{UdpPort, UdpPortConfig, interface_of};
pub use receiver::{
    BufferReport, ReceiveError, Received, ReceiverConfig, ReceiverCounters, UdpReceiver, WhenEmpty,
    WhenFull,
};
pub use sender::{Pacer, SendError, SendOutcome, SenderConfig, SenderCounters, UdpSender};
