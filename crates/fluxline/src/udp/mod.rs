//! UDP: receiving into the push ring, sending in paced batches.

mod bind;
mod receiver;
mod sender;

pub use bind::{BindError, Multicast};
pub use receiver::{
    BufferReport, ReceiveError, Received, ReceiverConfig, ReceiverCounters, UdpReceiver, WhenEmpty,
    WhenFull,
};
pub use sender::{Pacer, SendError, SendOutcome, SenderConfig, SenderCounters, UdpSender};
