//! Nodes of one address, each for a thread of its own: they share nothing but the frames that
//! arrived at the wrong one.
//!
//! The kernel or the card chooses the port that gets a frame. Mostly it is the right one. But a
//! train of frames to several connections arrives as one message, and a card spreads frames by
//! addresses alone. A port therefore hands frames of other nodes over.

mod inbox;
mod membership;

pub(crate) use membership::Membership;
