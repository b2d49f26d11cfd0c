//! Connection management as RDMA cards and Linux's rdma_cm speak it.
//!
//! The messages are management datagrams (MADs) between the queue pairs 1 of both ends:
//!
//! ```text
//!   REQ: queue pair, expected PSN, port, own data    ──▶
//!                                                    ◀──  REP: the same of the other end, or REJ
//!   RTU                                              ──▶
//!            ... the connection ...
//!   DREQ                                             ──▶   (either end)
//!                                                    ◀──  DREP
//! ```
//!
//! MRA asks the other end for patience. A message without an answer is repeated; a repeated message
//! is answered as the first was. [`mad`] has the bytes, `manager` the states: neither knows a
//! port, a clock or an endpoint.
//!
//! Source: IBTA volume 1, chapter 12 (messages, states) and 13.4 (MADs), A11 (IP addresses in
//! private data, service identifiers); the offsets as in Linux's `ibta_vol1_c12.h`.

pub(super) mod entry;
pub mod mad;
pub(super) mod manager;
#[cfg(test)]
mod tests;
