//! UDP: receiving into the slot ring, sending in paced batches, and the socket as a port of frames.

mod bind;
mod filter;
mod port;
mod receiver;
mod registers;
mod sender;
mod shared;

pub use bind::{BindError, Multicast};
pub use port::{UdpPort, UdpPortConfig, interface_of};
pub use receiver::{
    BufferReport, ReceiveError, Received, ReceiverConfig, ReceiverCounters, UdpReceiver, WhenEmpty,
    WhenFull,
};
pub use registers::{AccessError, RegisterWindow};
pub use sender::{Pacer, SendError, SendOutcome, SenderConfig, SenderCounters, UdpSender};
