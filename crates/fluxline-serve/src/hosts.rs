//! The names by which browsers may reach a server.
//!
//! A page of another site can make a browser ask this server under a name of that site, which then
//! resolves to this computer (DNS rebinding). The browser takes the answer for one of that site. So
//! a request must name this computer: `localhost`, the address at which the connection arrived, or
//! a name that the files of this computer give it. The network is not asked. Other names, such as
//! that of a server in front, are given by the user.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;

/// The port of a name without one.
const HTTP_PORT: u16 = 80;

/// The names and the port of a server.
#[derive(Clone, Debug)]
pub struct Hosts {
    listens: SocketAddr,
    /// Names of this computer, in small letters.
    names: Vec<String>,
    /// Names that the user gave, in small letters: with a port, or for all ports.
    others: Vec<String>,
}

impl Hosts {
    /// Returns the names of a server that listens on an address. On loopback, the names of this
    /// computer are not among them: they are of its other addresses.
    pub fn of(listens: SocketAddr, others: &[String]) -> Hosts {
        let mut names = vec!["localhost".to_owned()];
        if !listens.ip().is_loopback() {
            names.extend(names_of_this_computer(|file| {
                std::fs::read_to_string(file).unwrap_or_default()
            }));
        }
        let others = others.iter().map(|name| name.to_ascii_lowercase()).collect();
        Hosts { listens, names, others }
    }

    /// Returns true when `host`, the header of a request, names this server. `at` is the address at
    /// which its connection arrived.
    pub fn has(&self, host: &str, at: IpAddr) -> bool {
        let host = host.to_ascii_lowercase();
        let Some(authority) = authority_of(&host) else { return false };
        let name = authority.host().trim_end_matches('.');
        if self.others.iter().any(|other| *other == host || other == name) {
            return true;
        }
        let port = authority.port_u16().unwrap_or(HTTP_PORT);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_here = match address.map(|address| address.to_canonical()) {
            // The address that it listens on is the printed one, be it 0.0.0.0.
            Ok(address) => {
                address.is_loopback()
                    || [at, self.listens.ip()].map(|own| own.to_canonical()).contains(&address)
            }
            Err(_) => self.names.iter().any(|of| of == name),
        };
        is_here && port == self.listens.port()
    }
}

/// Returns true for `NAME` and `NAME:PORT`.
pub fn is_host(text: &str) -> bool {
    authority_of(text).is_some()
}

fn authority_of(text: &str) -> Option<Authority> {
    let authority = text.parse::<Authority>().ok()?;
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let port_is_one = !has_port || authority.port_u16().is_some();
    (port_is_one && !text.contains('@') && !authority.host().is_empty()).then_some(authority)
}

/// Returns the names that files give this computer: its own, with the domains that are searched,
/// and those beside it in /etc/hosts. Sources: Linux man-pages hosts(5), resolv.conf(5); RFC 6762
/// for `.local`.
fn names_of_this_computer(read: impl Fn(&str) -> String) -> Vec<String> {
    let own = read("/proc/sys/kernel/hostname").trim().to_ascii_lowercase();
    if own.is_empty() {
        return Vec::new();
    }
    let short = own.split('.').next().unwrap_or_default().to_owned();
    let mut names = vec![format!("{short}.local")];
    let resolver = read("/etc/resolv.conf").to_ascii_lowercase();
    for line in resolver.lines() {
        let mut words = line.split_whitespace();
        if matches!(words.next(), Some("search" | "domain")) {
            let domains = words.map(|domain| domain.trim_end_matches('.'));
            names.extend(domains.filter(|of| !of.is_empty()).map(|of| format!("{short}.{of}")));
        }
    }
    for line in read("/etc/hosts").to_ascii_lowercase().lines() {
        let line = line.split('#').next().unwrap_or_default();
        let aliases: Vec<&str> = line.split_whitespace().skip(1).collect();
        if aliases.contains(&own.as_str()) || aliases.contains(&short.as_str()) {
            names.extend(aliases.into_iter().map(str::to_owned));
        }
    }
    names.extend([own, short]);
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(file: &str) -> String {
        let text = match file {
            "/proc/sys/kernel/hostname" => "Daq7\n",
            "/etc/resolv.conf" => "nameserver 10.0.0.1\nsearch lab.example. Other.example\n",
            "/etc/hosts" => "127.0.1.1 daq7.site.example daq7 # evil.example\n10.0.0.9 printer\n",
            _ => "",
        };
        text.to_owned()
    }

    #[test]
    fn names_of_this_computer_are_those_in_its_files() {
        let names = names_of_this_computer(files);
        let expected =
            ["daq7", "daq7.lab.example", "daq7.local", "daq7.other.example", "daq7.site.example"];
        assert_eq!(names, expected);
        assert!(names_of_this_computer(|_| String::new()).is_empty());
    }

    #[test]
    fn a_server_of_the_network_has_its_own_names_and_addresses_and_no_others() {
        let at: IpAddr = "10.0.0.7".parse().unwrap();
        let others = vec!["Front.example".to_owned(), "other.example:9000".to_owned()];
        let names = names_of_this_computer(files);
        let hosts = Hosts { names, ..Hosts::of("10.0.0.7:8040".parse().unwrap(), &others) };
        for host in [
            "daq7:8040",
            "DAQ7.lab.example:8040",
            "daq7.lab.example.:8040",
            "10.0.0.7:8040",
            "[::ffff:10.0.0.7]:8040",
            "127.0.0.1:8040",
            "[::1]:8040",
            "front.example",
            "front.example:443",
            "other.example:9000",
        ] {
            assert!(hosts.has(host, at), "{host}");
        }
        for host in [
            "evil.example:8040",
            "daq7.evil.example:8040",
            "daq7:80",
            "daq7",
            "10.0.0.8:8040",
            "other.example",
            "other.example:8040",
            "daq7@evil.example:8040",
            "evil.example@daq7:8040",
            "",
            ":8040",
            "daq7:8040:8040",
            "daq7:99999",
        ] {
            assert!(!hosts.has(host, at), "{host}");
        }
    }

    #[test]
    fn a_server_on_loopback_has_no_name_of_the_network() {
        let hosts = Hosts::of("127.0.0.1:80".parse().unwrap(), &[]);
        let at: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(hosts.has("localhost", at) && hosts.has("127.0.0.1:80", at));
        assert_eq!(hosts.names, ["localhost"]);
        assert!(!hosts.has("evil.example", at) && !hosts.has("0.0.0.0", at));
    }
}
