//! Hosts on Ethernet: the UDP stack of a PC, its cores, its bus and its card, in virtual time.
//!
//! ```text
//!   core of a process       core of the card's interrupts
//!   ─────────────────       ─────────────────────────────
//!   call to send ─▶ send buffer ─▶ driver queue ─▶ ring ─ bus ─▶ card ══▶ cable
//!   call to receive ◀─ socket ◀─ softirq ◀─ (backlog) ◀─ ring ◀─ bus ─ card ◀══ cable
//!                                   ▲ interrupt, coalesced
//! ```
//!
//! Rates, round trips and losses follow from the times of single steps: calls, copies, interrupts,
//! bus packets. Each core counts its time as user, system, irq and softirq. [`Hosts`] wraps a
//! network of Ethernet and is itself a network, for traffic, scenarios and programs.
//! [`bench::Bench`] sends streams and round trips through it.
//!
//! Not modelled: caches, checksum in software, timers of the scheduler, descriptor traffic on the
//! bus. The fragments of a datagram pass the host together, when the last one has arrived.

pub mod bench;
mod bus;
mod coalescing;
mod config;
mod counters;
mod hosts;
mod interrupts;
mod machine;
mod messages;
pub mod preset;
mod processor;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use bus::{BusConfig, Pcie};
pub use coalescing::Coalescing;
pub use config::{BadHost, Buffers, Card, Config, Cores, Costs, Driver, true_bytes};
pub use counters::{Counters, Place};
pub use hosts::{Entry, Hosts};
pub use machine::{Direction, Event, Machine};
pub use messages::Messages;
