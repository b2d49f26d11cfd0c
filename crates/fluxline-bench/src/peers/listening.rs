//! Looks for the listener of a port of this host: then a server is ready. A fixed time would be too
//! short on a busy machine and too long on an idle one.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use super::contender::{NoNumber, Path};

/// A TCP socket that listens. Source: Linux include/net/tcp_states.h.
const LISTEN: &str = "0A";
/// Ports that are tried for one that is free for TCP and UDP.
const TRIES: u32 = 100;

/// Returns true if a program listens on this port, by TCP, or for [`Path::Udp`] by UDP.
#[must_use]
pub fn is_open(path: Path, port: u16) -> bool {
    let files = if path == Path::Udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    files.iter().any(|file| {
        let text = fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
        has_port(&text, port, path != Path::Udp)
    })
}

/// Looks for a local port in a table of sockets. Source: proc_pid_net(5).
fn has_port(text: &str, port: u16, must_listen: bool) -> bool {
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let local = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
        local == Some(port) && (!must_listen || state == LISTEN)
    })
}

/// A port of loopback that was free a moment ago, for TCP and UDP.
pub fn free_port() -> Result<u16, NoNumber> {
    for _ in 0..TRIES {
        let failed = |error: std::io::Error| NoNumber::Failed(format!("a free port: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(NoNumber::Failed("no port is free for both TCP and UDP".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_seen_while_it_listens_and_not_after() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        assert!(is_open(Path::Tcp, port));
        assert!(!is_open(Path::Udp, port));
        drop(listener);
        assert!(!is_open(Path::Tcp, port));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(is_open(Path::Udp, socket.local_addr().expect("it has one").port()));
    }

    #[test]
    fn a_connection_is_no_listener_and_garbage_no_socket() {
        let text = "  sl  local_address rem_address   st tx_queue\n   \
                    0: 0100007F:1F90 0100007F:A000 01 00000000:00000000\n   \
                    1: 00000000000000000000000000000000:0016 0:0 0A 0:0\n";
        assert!(has_port(text, 22, true));
        assert!(!has_port(text, 8080, true));
        assert!(has_port(text, 8080, false));
        assert!(!has_port("\n\n:\nx y z w\n1: :::ZZZZ 0A", 10, false));
    }

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port().expect("some are free");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}
