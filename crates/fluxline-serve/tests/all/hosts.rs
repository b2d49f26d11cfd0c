//! The names by which a server may be asked.

use std::net::SocketAddr;

use fluxline_serve::{Listening, ServeError, Server, ServerConfig, StaticPage};

use crate::support::raw;

/// A server on all addresses, with one more name.
fn on_all_addresses() -> Server {
    let listen = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let hosts = ["front.example".to_owned(), "other.example:9000".to_owned()];
    let config = ServerConfig { listen, ..ServerConfig::default() }.with_hosts(&hosts);
    let page = StaticPage { path: "/".into(), html: "the page".into() };
    Server::start_pages(Listening::on(&config).expect("a free port"), vec![page]).expect("served")
}

/// Asks by loopback for the page under a host's name.
fn status(server: &Server, head: &str) -> u16 {
    let port = server.address().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let head = head.replace("PORT", &port);
    let request = format!("GET / HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
    raw(server, &request).status
}

#[test]
fn a_server_on_all_addresses_answers_to_its_own_names_alone() {
    let server = on_all_addresses();
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let own = own.trim();
    for host in [&format!("{own}:PORT")[..], "localhost:PORT", "127.0.0.1:PORT", "front.example"] {
        assert_eq!(status(&server, &format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in ["evil.example:PORT", "evil.example", "other.example", "10.9.8.7:PORT", ""] {
        assert_eq!(status(&server, &format!("Host: {host}\r\n")), 403, "{host}");
    }
}

#[test]
fn a_request_with_two_hosts_is_an_error_even_if_both_are_right() {
    let server = on_all_addresses();
    for second in ["localhost:PORT", "evil.example"] {
        let head = format!("Host: localhost:PORT\r\nHost: {second}\r\n");
        assert_eq!(status(&server, &head), 400, "{second}");
    }
}

#[test]
fn an_option_that_names_no_host_is_refused() {
    for name in ["", "http://daq.example", "daq.example/page", "user@daq.example", "daq:port"] {
        let config = ServerConfig::default().with_hosts(&[name.to_owned()]);
        let refused = Listening::on(&config).expect_err(name);
        assert!(matches!(refused, ServeError::Host(_)), "{name}: {refused}");
    }
}
