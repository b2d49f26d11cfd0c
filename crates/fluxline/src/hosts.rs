//! Names of peers on links that reach them by addresses.
//!
//! On shared memory and in simulated worlds a node's name is enough to find it. On Ethernet, a
//! table gives the address of each name, in the URL (`peers`) or in a file (`hosts`), so that the
//! same word in `connect` finds the same peer on every link.

use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use fluxline_core::fabric::{Name, NameError};
use fluxline_core::roce::UDP_PORT;

/// The addresses of named peers.
///
/// ```
/// use fluxline::hosts::Hosts;
///
/// let hosts = Hosts::of_query("peers=builder@10.0.0.8,reader@[2001:db8::9]:5000")?;
/// assert_eq!(hosts.address("builder"), Some("10.0.0.8:4791".parse()?));
/// assert_eq!(hosts.address("reader"), Some("[2001:db8::9]:5000".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    all: Vec<Host>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: Name,
    address: SocketAddr,
}

/// The reason why names of peers were not understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostsError {
    /// The part behind `?` has another key.
    #[error(
        "{key:?} is unknown in the URL; behind `?` write peers=NAME@ADDRESS,... or hosts=FILE, \
         joined by &"
    )]
    Key {
        /// The part that was given.
        key: String,
    },
    /// A peer is not `NAME@ADDRESS`, or a line not `ADDRESS NAME`.
    #[error("{entry:?} {place} is not a peer; write {expected}")]
    Entry {
        /// The entry that was given.
        entry: String,
        /// The line of the file, or the URL.
        place: String,
        /// The syntax.
        expected: &'static str,
    },
    /// One name has two addresses.
    #[error("{name} has two addresses; give it one")]
    Twice {
        /// The name.
        name: Name,
    },
    /// A peer's host is not known.
    #[error(transparent)]
    Unknown(#[from] UnknownHost),
    /// A name has illegal characters.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The file cannot be read.
    #[error("{path}: {error}; hosts=FILE names a file with lines ADDRESS NAME")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        error: std::io::Error,
    },
}

impl Hosts {
    /// Parses the part of a URL behind `?`: `peers=NAME@ADDRESS[:PORT],...`, `hosts=FILE`, or both,
    /// joined by `&`. Errors: [`HostsError`].
    pub fn of_query(query: &str) -> Result<Hosts, HostsError> {
        let mut hosts = Hosts::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("peers", peers)) => hosts.add_peers(peers)?,
                Some(("hosts", path)) => hosts.add_file(path)?,
                _ => return Err(HostsError::Key { key: part.to_owned() }),
            }
        }
        Ok(hosts)
    }

    fn add_peers(&mut self, peers: &str) -> Result<(), HostsError> {
        for entry in peers.split(',') {
            let wrong = || HostsError::Entry {
                entry: entry.to_owned(),
                place: String::from("in the URL"),
                expected: "NAME@ADDRESS, for example builder@10.0.0.8 or builder@10.0.0.8:5000",
            };
            let (name, address) = entry.split_once('@').ok_or_else(wrong)?;
            self.add(Name::parse(name)?, host_address(address)?.ok_or_else(wrong)?)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &str) -> Result<(), HostsError> {
        let text = fs::read_to_string(path)
            .map_err(|error| HostsError::File { path: path.to_owned(), error })?;
        for (line, text) in (1..).zip(text.lines()) {
            let entry = text.split('#').next().unwrap_or_default().trim();
            let mut words = entry.split_whitespace();
            let Some(address) = words.next() else { continue };
            let wrong = || HostsError::Entry {
                entry: entry.to_owned(),
                place: format!("in line {line} of {path}"),
                expected: "ADDRESS NAME, for example 10.0.0.8 builder",
            };
            let address = host_address(address)?.ok_or_else(wrong)?;
            let names: Vec<&str> = words.collect();
            if names.is_empty() {
                return Err(wrong());
            }
            for name in names {
                self.add(Name::parse(name)?, address)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: Name, address: SocketAddr) -> Result<(), HostsError> {
        match self.address(name.as_str()) {
            Some(known) if known != address => Err(HostsError::Twice { name }),
            Some(_) => Ok(()),
            None => {
                self.all.push(Host { name, address });
                Ok(())
            }
        }
    }

    /// Returns the address of a peer; `None`: the table does not have the name.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        self.all.iter().find(|host| host.name.as_str() == name).map(|host| host.address)
    }
}

/// A word is neither an address nor the name of a host that this one knows.
#[derive(Debug, thiserror::Error)]
#[error(
    "{host:?} is neither an address nor the name of a known host ({reason}); write its address, for \
     example 10.0.0.7:4791, or enter the name in /etc/hosts"
)]
pub struct UnknownHost {
    /// The word that was given.
    pub host: String,
    /// The reason of the system's resolver.
    pub reason: std::io::Error,
}

/// Returns the address of a host that is given by address or by name, with or without a port, by
/// default RoCEv2's; `None`: the text has neither.
///
/// The system's resolver is asked for a name, which may take seconds. Errors: [`UnknownHost`].
pub(crate) fn host_address(text: &str) -> Result<Option<SocketAddr>, UnknownHost> {
    if let Some(address) = peer_address(text) {
        return Ok(Some(address));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (text, Some(UDP_PORT)),
    };
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = host.bytes().all(is_legal) && host.bytes().any(|byte| byte.is_ascii_alphabetic());
    let Some(port) = port.filter(|_| is_name) else { return Ok(None) };
    let unknown = |reason| UnknownHost { host: host.to_owned(), reason };
    let mut found = (host, port).to_socket_addrs().map_err(unknown)?;
    Ok(found.next())
}

/// Parses an address with or without a port, by default RoCEv2's.
pub(crate) fn peer_address(text: &str) -> Option<SocketAddr> {
    let whole = text.parse::<SocketAddr>().ok();
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    whole.or_else(|| bare.map(|ip| SocketAddr::new(ip, UDP_PORT)))
}

#[cfg(test)]
mod tests {
    use super::{Hosts, host_address};

    #[test]
    fn a_file_of_hosts_names_peers_and_its_mistakes_name_the_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("UTF-8");
        let write = |text: &str| std::fs::write(path, text).expect("writable");
        write("# the lab\n10.0.0.8 builder b   # two names\n\n[::1]:5000 reader\n");
        let hosts = Hosts::of_query(&format!("hosts={path}&peers=c@10.0.0.9")).expect("right");
        let found = ["builder", "b", "reader", "c"].map(|name| hosts.address(name).expect(name));
        let expected = ["10.0.0.8:4791", "10.0.0.8:4791", "[::1]:5000", "10.0.0.9:4791"];
        assert_eq!(found.map(|address| address.to_string()), expected);
        assert_eq!(hosts.address("nobody"), None);

        for (text, says) in [
            ("10.0.0.8 a\n:here builder", "in line 2"),
            ("10.0.0.8", "write ADDRESS NAME"),
            ("10.0.0.8.9/a b", "write ADDRESS NAME"),
            ("10.0.0.8 a/b", "is not a name"),
            ("10.0.0.8 a\n10.0.0.9 a", "a has two addresses"),
        ] {
            write(text);
            let error = Hosts::of_query(&format!("hosts={path}")).expect_err("wrong").to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_host_is_found_by_its_name_and_an_unknown_one_is_named() {
        let found = host_address("localhost:5000").expect("every host knows it").expect("a name");
        assert!(found.ip().is_loopback() && found.port() == 5000, "{found}");
        let found = host_address("localhost").expect("known").expect("a name");
        assert_eq!(found.port(), 4791);
        let error = host_address("no-such-host.invalid").expect_err("RFC 6761: never exists");
        assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
        assert!(error.to_string().contains("/etc/hosts"), "{error}");
        for text in ["", ":5000", "host:port", "10.0.0.300", "a/b"] {
            assert!(matches!(host_address(text), Ok(None)), "{text:?}");
        }
    }
}
