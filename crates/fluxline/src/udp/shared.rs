//! Sockets that share one UDP port, each for a thread of its own (SO_REUSEPORT).
//!
//! The kernel finds a socket by its index in the order of binding, and a socket that closes gives
//! its index to another one. So all stay open until the last port is gone; the datagrams of a port
//! that is gone go to another.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use fluxline_core::port::MEMBERS_MAX;

use super::bind::{BindError, refused};
use super::filter;
use crate::sys::port_socket::{OutgoingMessage, WireAddress};
use crate::sys::socket::{Arena, Flag, Socket};
use crate::threads::Membership;

/// All sockets of a port, in the order of binding.
#[derive(Debug)]
struct SharedPort {
    sockets: Vec<Socket>,
    /// True for each socket that has a reader.
    readers: Mutex<Vec<bool>>,
}

impl SharedPort {
    /// Chooses the socket of each datagram from now on.
    fn steer(&self, readers: &[bool]) -> std::io::Result<()> {
        let Some(first) = self.sockets.first() else { return Ok(()) };
        first.choose_by(&filter::program(readers))
    }

    /// Gives the datagrams of a socket without a reader to another, and drops those that wait.
    fn leave(&self, index: usize) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = readers.get_mut(index) {
            *reader = false;
        }
        // Should the kernel refuse, only calls to that thread remain without an answer.
        let _ = self.steer(&readers);
        let Some(socket) = self.sockets.get(index) else { return };
        let mut arena = Arena::new();
        while socket.receive_one(&mut arena, 0, &mut []).is_ok() {}
    }
}

/// One socket's part in a shared port.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) membership: Membership,
    port: Arc<SharedPort>,
    /// The own address, reached from here: for waking other threads.
    wake_at: SocketAddr,
}

impl Share {
    /// Wakes the threads that got frames from this one.
    pub(super) fn wake(&mut self, socket: &Socket) {
        while let Some(index) = self.membership.next_to_wake() {
            let bytes = self.membership.wake_up(index);
            let to = WireAddress::new(self.wake_at);
            let (start, len, segment_bytes) = (0, bytes.len(), 0);
            let message = OutgoingMessage { to, start, len, segment_bytes };
            // Without room in the kernel there is traffic, and the thread is not asleep for long.
            let _ = socket.send_parts(&bytes, &[message]);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.port.leave(self.membership.member().index() as usize);
    }
}

/// Checks the number of sockets for one port.
pub(super) fn check_count(asked: usize) -> Result<(), BindError> {
    let max = MEMBERS_MAX as usize;
    if (1..=max).contains(&asked) { Ok(()) } else { Err(BindError::Threads { asked, max }) }
}

/// Lets further sockets of this user bind the port of a socket that has it alone.
///
/// So the port is free of others: a socket of another program cannot be the first.
pub(super) fn let_others_join(socket: &Socket, at: SocketAddr) -> Result<(), BindError> {
    socket.set(Flag::ReusePort, 1).map_err(refused("share the port", at))
}

/// Joins bound sockets to one port, from which each gets its own datagrams.
pub(super) fn join<'a>(
    sockets: impl Iterator<Item = &'a Socket>,
    at: SocketAddr,
) -> Result<Vec<Share>, BindError> {
    let copies = sockets.map(Socket::duplicate).collect::<Result<Vec<_>, _>>();
    let sockets = copies.map_err(refused("copy a descriptor", at))?;
    let readers = vec![true; sockets.len()];
    let port = SharedPort { sockets, readers: Mutex::new(readers.clone()) };
    port.steer(&readers).map_err(refused("choose sockets of the port", at))?;
    let port = Arc::new(port);
    let mut wake_at = at;
    match at {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            wake_at.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            wake_at.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    let memberships = Membership::all(readers.len() as u32);
    let share = |membership| Share { membership, port: Arc::clone(&port), wake_at };
    Ok(memberships.map(share).collect())
}
