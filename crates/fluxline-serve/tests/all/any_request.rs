//! Every route with random and extreme parameters, methods, bodies and headers: each request gets
//! an answer, none is 500, and the page goes on.
//!
//! Routes and parameters come from the tables of the server, so that none is forgotten.

use std::io::{Read, Write};
use std::time::Instant;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_serve::{PARAMETERS, Server, paths_of_a_run, paths_of_runs};

use crate::runs::{serve, start};
use crate::served::served;
use crate::support::{PATIENCE, address_of, connect, get, wait_for};

const NUMBERS: [&str; 17] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "100",
    "4095",
    "65536",
    "1000000",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
];
const WORDS: [&str; 14] = [
    "",
    "adc",
    "number",
    "payload",
    "incomplete",
    "%00",
    "%ff%fe",
    "..%2f..%2fetc%2fpasswd",
    "nan",
    "1e400",
    "0x10",
    "%F0%9F%98%80",
    "a+b",
    "'\"<script>",
];
const METHODS: [&str; 8] = ["GET", "GET", "GET", "GET", "POST", "PUT", "DELETE", "OPTIONS"];
const HEADERS: [&str; 9] = [
    "",
    "Authorization: Bearer 0\r\n",
    "Cookie: fluxline=0; fluxline=\r\n",
    "Origin: http://evil.example\r\n",
    "Content-Type: application/json\r\n",
    "Range: bytes=0-18446744073709551615\r\n",
    "Last-Event-ID: 9\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
];
const BODIES: [&str; 7] =
    ["", "{}", "[]", "{\"shot\": 1e999}", "{\"remark\": 7}", "0\r\n\r\n", "{\"token\": []}"];

fn pick<'a>(draw: &mut Draw, of: &[&'a str]) -> &'a str {
    of[draw.below(of.len() as u64) as usize]
}

fn value(draw: &mut Draw) -> String {
    match draw.below(8) {
        0 => pick(draw, &WORDS).to_owned(),
        1 => draw.bits().to_string(),
        2 => draw.below(1 << 16).to_string(),
        3 => "9".repeat(draw.below(400) as usize),
        _ => pick(draw, &NUMBERS).to_owned(),
    }
}

fn target(draw: &mut Draw, paths: &[&str]) -> String {
    let names = ["0000", "0001", ".", "..", "%2e%2e", "absent", "%00", "a%2fb"];
    let name = if draw.below(3) > 0 { names[0] } else { pick(draw, &names) };
    let mut target = pick(draw, paths).replace("{id}", name);
    for number in 0..draw.below(6) {
        let parameter = pick(draw, &PARAMETERS);
        let value = value(draw);
        target.push_str(&format!("{}{parameter}={value}", if number == 0 { '?' } else { '&' }));
    }
    target
}

/// Sends a request; returns the status of its answer. 0: the connection was closed without one.
fn status(server: &Server, request: &str) -> u16 {
    let mut stream = connect(server);
    let began = Instant::now();
    // A request that is refused early may close the connection before all of it is sent.
    let _ = stream.write_all(request.as_bytes());
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(count) => head.extend_from_slice(&bytes[..count]),
        }
    }
    assert!(began.elapsed() < PATIENCE, "no answer: {request}");
    let head = String::from_utf8_lossy(&head).into_owned();
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn ask_anything(server: &Server, paths: &[&str], seed: u64) {
    let mut answered = [0; 6];
    for seed in seed..seed + test_count!(2_000) {
        let draw = &mut Draw::new(seed);
        let (method, target) = (pick(draw, &METHODS), target(draw, paths));
        let (headers, body) = (pick(draw, &HEADERS), pick(draw, &BODIES));
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            address_of(server),
            body.len()
        );
        let status = status(server, &request);
        assert!(status < 500 || status == 503, "SEED={seed} COUNT=1: {status}: {request}");
        answered[usize::from(status / 100)] += 1;
    }
    println!("answers by class: {answered:?}");
    assert!(answered[2] > 0 && answered[4] > 0, "{answered:?}");
}

#[test]
fn any_request_to_a_run_gets_an_answer_and_the_run_goes_on() {
    let served = served(fluxline_run::RunState::Running);
    served.wait_for(|state| state["events"]["built"].as_u64() > Some(10));
    ask_anything(&served.server, &paths_of_a_run(), test_seed!(71));
    let state = served.wait_for(|state| state["state"] == "running");
    let ticks = state["tick"].as_u64().expect("a tick");
    served.wait_for(|state| state["tick"].as_u64() > Some(ticks));
}

#[test]
fn any_request_about_recorded_runs_gets_an_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    start(folder.path(), 2_000).wait().expect("ended");
    let server = serve(folder.path());
    let complete = |state: &serde_json::Value| state["reading"]["complete"] == true;
    wait_for(&server, "/api/runs/0000/state", complete);
    ask_anything(&server, &paths_of_runs(), test_seed!(72));
    assert_eq!(get(&server, "/api/runs").status, 200);
}

#[test]
fn a_part_of_the_history_behind_its_end_is_refused_with_a_sentence() {
    let served = served(fluxline_run::RunState::Running);
    for from in ["1000000", "18446744073709551615"] {
        let answer = get(&served.server, &format!("/api/history?from={from}"));
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains("behind the newest tick"), "{}", answer.body);
    }
    assert_eq!(get(&served.server, "/api/history?from=0&to=0").status, 200);
}
