//! Requests as text, and waiting for a state.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fluxline_serve::Server;
use serde_json::Value;

/// The time without the awaited state or answer after which a test fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Status, head in small letters, and body of an answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Returns the body as JSON; null if it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// Returns the address and port of a server.
pub fn address_of(server: &Server) -> String {
    server.address().trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// Connects to a server.
pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(address_of(server)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
    stream
}

/// Sends any text as a request; `HOST` becomes the server's address.
pub fn raw(server: &Server, request: &str) -> Answer {
    let mut stream = connect(server);
    stream.write_all(request.replace("HOST", &address_of(server)).as_bytes()).expect("sent");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.unwrap_or(0), head: head.to_lowercase(), body: body.to_owned() }
}

/// Returns the answer to a request of a path.
pub fn get(server: &Server, path: &str) -> Answer {
    raw(server, &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"))
}

/// Asks again until the answer is right; returns its JSON.
pub fn wait_for(server: &Server, path: &str, passes: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let answer = get(server, path);
        let body = answer.json();
        if answer.status == 200 && passes(&body) {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: {}", answer.body);
        std::thread::sleep(Duration::from_millis(20));
    }
}
