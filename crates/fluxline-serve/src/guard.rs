//! Checks of requests: hosts, origins and tokens; and the headers that restrict a browser.
//!
//! * The server listens on loopback unless another address is given.
//! * A request must name a host that the server has, and only one, so that a foreign name that
//!   resolves to this computer (DNS rebinding) gets nothing (`hosts.rs`).
//! * Whatever changes state needs the token: as `Authorization: Bearer`, or as the cookie that a
//!   login gives for it. The cookie is `HttpOnly` and `SameSite=Strict`, and a
//!   request with an `Origin` must come from this server's own pages.
//! * The page may load and connect to this server alone (content security policy).

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::hosts::Hosts;
use crate::token::Access;

/// The name of the session's cookie.
pub const COOKIE_NAME: &str = "fluxline";

/// Headers of every answer.
pub const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' \
         data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Adds [`HEADERS`] to an answer, but keeps those that it has.
pub fn put_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        let entry = headers.entry(HeaderName::from_static(name));
        entry.or_insert(HeaderValue::from_static(value));
    }
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The host that it names is not this server.
    Host,
    /// It names several hosts.
    Hosts,
    /// It comes from another site's page.
    Origin,
    /// It shows no valid token.
    Token,
}

impl Denied {
    /// Returns the reason in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Denied::Host => {
                "this server does not have the host name of the request; use the printed address, \
                 or start the program with --host and this name."
            }
            Denied::Hosts => "the request names more than one host.",
            Denied::Origin => "the request comes from a page of another site.",
            Denied::Token => {
                "the token is missing or of another run; open the address that the program printed."
            }
        }
    }
}

/// Checks requests.
#[derive(Debug)]
pub struct Guard {
    access: Access,
    hosts: Hosts,
}

impl Guard {
    /// Makes a guard of a server with these names.
    pub fn new(access: Access, hosts: Hosts) -> Guard {
        Guard { access, hosts }
    }

    /// Checks that a request names this server; `at` is the address at which it arrived.
    ///
    /// A target with a host of its own, as proxies get it, must name the same.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap, at: IpAddr) -> Result<(), Denied> {
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Denied::Hosts);
        }
        let host = text(headers, &HOST).ok_or(Denied::Host)?;
        if uri.authority().is_some_and(|of| !of.as_str().eq_ignore_ascii_case(host)) {
            return Err(Denied::Hosts);
        }
        if self.hosts.has(host, at) { Ok(()) } else { Err(Denied::Host) }
    }

    /// Checks that a request may change state.
    pub fn check_command(&self, headers: &HeaderMap) -> Result<(), Denied> {
        self.check_origin(headers)?;
        let bearer = text(headers, &AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
        let by_token = bearer.is_some_and(|shown| self.access.token.is(shown));
        let by_session = cookie(headers).is_some_and(|shown| self.access.sessions.has(shown));
        if by_token || by_session { Ok(()) } else { Err(Denied::Token) }
    }

    /// Begins a session for a browser that shows the token; returns the cookie.
    pub fn log_in(&self, headers: &HeaderMap, shown: &str) -> Result<String, Denied> {
        self.check_origin(headers)?;
        if !self.access.token.is(shown) {
            return Err(Denied::Token);
        }
        let session = self.access.sessions.begin().map_err(|_| Denied::Token)?;
        let session = session.as_str();
        Ok(format!("{COOKIE_NAME}={session}; Path=/; HttpOnly; SameSite=Strict"))
    }

    /// Returns true when the request may change state, for the page's buttons.
    pub fn is_operator(&self, headers: &HeaderMap) -> bool {
        self.check_command(headers).is_ok()
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let Some(origin) = text(headers, &ORIGIN) else { return Ok(()) };
        let host = text(headers, &HOST).ok_or(Denied::Host)?;
        match origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) {
            Some(of) if of == host => Ok(()),
            _ => Err(Denied::Origin),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN_LENGTH: usize = 32;

    fn guard() -> Guard {
        let hosts = Hosts::of("127.0.0.1:8040".parse().unwrap(), &[]);
        Guard::new(Access::draw().unwrap(), hosts)
    }

    fn check_host(guard: &Guard, target: &str, headers: &HeaderMap) -> Result<(), Denied> {
        guard.check_host(&target.parse().unwrap(), headers, "127.0.0.1".parse().unwrap())
    }

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_name_that_resolves_here_but_is_another_gets_nothing() {
        let guard = guard();
        let check = |name: &str| check_host(&guard, "/", &headers(&[(HOST, name)]));
        assert_eq!(check("localhost:8040"), Ok(()));
        for name in ["evil.example:8040", "localhost", "127.0.0.1:8041", ""] {
            assert_eq!(check(name), Err(Denied::Host), "{name}");
        }
        assert_eq!(check_host(&guard, "/", &headers(&[])), Err(Denied::Host));
    }

    #[test]
    fn a_request_that_names_two_hosts_is_refused() {
        let guard = guard();
        let mut two = headers(&[(HOST, "localhost:8040")]);
        two.append(HOST, HeaderValue::from_static("localhost:8040"));
        assert_eq!(check_host(&guard, "/", &two), Err(Denied::Hosts));
        let one = headers(&[(HOST, "localhost:8040")]);
        assert_eq!(check_host(&guard, "http://evil.example/", &one), Err(Denied::Hosts));
        assert_eq!(check_host(&guard, "http://localhost:8040/", &one), Ok(()));
    }

    #[test]
    fn commands_need_the_token_and_no_other_site() {
        let guard = guard();
        let bearer = format!("Bearer {}", guard.access.token.as_str());
        let host = (HOST, "localhost:8040");
        let check = |pairs: &[(HeaderName, &str)]| guard.check_command(&headers(pairs));
        assert_eq!(check(&[host.clone(), (AUTHORIZATION, &bearer)]), Ok(()));
        assert_eq!(check(std::slice::from_ref(&host)), Err(Denied::Token));
        assert_eq!(check(&[host.clone(), (AUTHORIZATION, "Bearer ")]), Err(Denied::Token));
        let own = (ORIGIN, "http://localhost:8040");
        assert_eq!(check(&[host.clone(), (AUTHORIZATION, &bearer), own]), Ok(()));
        for origin in ["http://evil.example", "null", "http://localhost:8041"] {
            let foreign = (ORIGIN, origin);
            let check = check(&[host.clone(), (AUTHORIZATION, &bearer), foreign]);
            assert_eq!(check, Err(Denied::Origin), "{origin}");
        }
    }

    #[test]
    fn a_session_begins_with_the_token_alone_and_its_cookie_permits_commands() {
        let guard = guard();
        let host = headers(&[(HOST, "localhost:8040")]);
        assert_eq!(guard.log_in(&host, "guess"), Err(Denied::Token));
        let cookie = guard.log_in(&host, guard.access.token.as_str()).unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        assert!(!cookie.contains(guard.access.token.as_str()), "the token itself is not stored");
        let pair = cookie.split(';').next().unwrap();
        assert_eq!(pair.len(), COOKIE_NAME.len() + 1 + TOKEN_LENGTH);
        let both = format!("theme=dark; {pair}");
        let with = headers(&[(HOST, "localhost:8040"), (COOKIE, &both)]);
        assert!(guard.is_operator(&with));
        let wrong = headers(&[(HOST, "localhost:8040"), (COOKIE, "fluxline=guess")]);
        assert!(!guard.is_operator(&wrong));
    }
}
