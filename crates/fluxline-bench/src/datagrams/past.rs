//! Receiving past the kernel's network stack (AF_XDP), where that is allowed and harmless.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use fluxline::clock;
use fluxline::udp::interface_of;
use fluxline::xdp::{Queues, XdpConfig, XdpPort};
use fluxline_core::port::Port;

/// An interface's frames to one UDP port.
pub struct Past {
    port: XdpPort,
    /// Holds the UDP port, so that no other program is given it; nothing is read from it.
    holder: UdpSocket,
}

/// Returns the interface to listen on, unless it is a card. Steering frames would make the driver
/// of a card set its queues up anew, which interrupts other traffic.
fn interface(address: IpAddr) -> Option<String> {
    let name = interface_of(address)?;
    let is_card = Path::new("/sys/class/net").join(&name).join("device").exists();
    (!is_card).then_some(name)
}

/// Returns true if [`Past::open`] works on that address. Cost: some milliseconds on an interface
/// that allows it, none on loopback.
#[must_use]
pub fn is_possible(address: IpAddr) -> bool {
    interface(address).is_some() && Past::open(SocketAddr::new(address, 0)).is_ok()
}

impl Past {
    /// Takes a port of the kernel's choice on that address's interface.
    ///
    /// Errors: a sentence.
    pub fn open(address: SocketAddr) -> Result<Past, String> {
        let name = interface(address.ip()).ok_or_else(|| {
            format!("AF_XDP on {}: only where the interface is neither a card nor lo", address.ip())
        })?;
        let holder = UdpSocket::bind(address).map_err(|error| format!("{address}: {error}"))?;
        let mut config = XdpConfig::new(&name);
        config.addresses = vec![address.ip()];
        config.queues = Queues::All;
        config.port = holder.local_addr().map_err(|error| error.to_string())?.port();
        let port = XdpPort::open(&config).map_err(|error| error.to_string())?;
        Ok(Past { port, holder })
    }

    /// The address received on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        // A bound socket has one.
        self.holder.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into())
    }

    /// Passes the received frames to `take`; returns their number.
    pub fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> usize {
        self.port.receive(clock::monotonic(), &mut |frame| take(frame.bytes))
    }

    /// Sleeps until a frame comes, or the time has passed.
    pub fn wait(&mut self, timeout: Duration) {
        let _ = self.port.wait(timeout);
    }

    /// Frames dropped since it was opened, because no buffer or no room in a ring was left.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.port.counters().frames_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_refused_in_a_sentence_and_not_tried() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(!is_possible(here));
        let error = Past::open(SocketAddr::new(here, 0)).err().unwrap();
        assert!(error.contains("neither a card nor lo"), "{error}");
    }
}
