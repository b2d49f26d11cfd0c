//! The server with a real acquisition, asked by requests as browsers, strangers and `ctl` send
//! them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fluxline_daq::experiment::Experiment;
use fluxline_run::{Acquisition, Options, RunState};
use fluxline_serve::{Client, ClientError, Limits, Listening, Server, ServerConfig};
use serde_json::{Value, json};

use crate::support::{self, Answer, PATIENCE, address_of, connect};

pub struct Served {
    acquisition: Acquisition,
    pub server: Server,
    _folder: tempfile::TempDir,
}

pub fn served(state: RunState) -> Served {
    served_with(state, Limits::default())
}

fn served_with(state: RunState, limits: Limits) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = boards(folder.path());
    let options = Options { state, ..Options::default() };
    let acquisition = fluxline_run::start_with(experiment, options).expect("started");
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let listening = Listening::on(&ServerConfig { listen, limits, ..ServerConfig::default() })
        .expect("a free port");
    let server = Server::start(listening, acquisition.watcher()).expect("served");
    Served { acquisition, server, _folder: folder }
}

fn boards(runs: &Path) -> Experiment {
    let text = format!(
        "name = 'boards'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
         [source.emulator]\nsources = 3\nrate = 1000.0\npackets = 0\nin-flight-max = 64\n\
         [source.emulator.faults]\ndrop = 0.01\n[events]\nbuild = 'key'\nrequire = 3\n",
        runs.display()
    );
    Experiment::parse("boards", &text).expect("a valid experiment")
}

impl Served {
    fn raw(&self, request: &str) -> Answer {
        support::raw(&self.server, request)
    }

    fn get(&self, path: &str) -> Answer {
        support::get(&self.server, path)
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: HOST\r\n{headers}Connection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    pub fn wait_for(&self, passes: impl Fn(&Value) -> bool) -> Value {
        support::wait_for(&self.server, "/api/state", passes)
    }
}

#[test]
fn a_run_is_started_paused_and_stopped_over_http_and_the_files_agree() {
    let served = served(RunState::Armed);
    let client = Client::new(&served.server.url()).expect("an address");
    served.wait_for(|state| state["state"] == "armed" && state["events"]["paused"] != 0);
    let command = |name: &str| client.command(&json!({ "command": name }));
    assert_eq!(command("start").expect("allowed")["state"], "running");
    assert_eq!(command("start").expect("another operator's second one")["state"], "running");
    let recorded = |state: &Value| {
        let ends = state["flow"]["ends"].as_array().cloned().unwrap_or_default();
        let end = ends.iter().find(|end| end["name"] == "recorded").cloned();
        end.and_then(|end| end["count"].as_u64()).unwrap_or(0)
    };
    let lost = |state: &Value| state["flow"]["lost"].as_u64().expect("a count");
    served.wait_for(|state| recorded(state) > 100 && lost(state) > 0); // the boards drop 1 %
    assert_eq!(command("pause").expect("allowed")["state"], "paused");
    let refused = command("start").expect_err("it is paused, not armed");
    assert!(refused.to_string().contains("`resume` or `stop`"), "{refused}");
    client.command(&json!({ "remark": "high voltage on" })).expect("kept");
    client.command(&json!({ "shot": 12 })).expect("kept");
    let state = served.wait_for(|state| state["shot"] == 12);
    assert_eq!(state["remarks"][0]["text"], "high voltage on");
    command("resume").expect("allowed");
    command("stop").expect("allowed");
    let Served { acquisition, server, _folder } = served;
    let report = acquisition.wait().expect("ended");
    drop(server);
    assert_eq!(report.document["control"]["shot"], 12);
    assert!(report.ledger.closes());
    let error = client.state().expect_err("the server has ended");
    assert!(matches!(error, ClientError::Silent { .. }), "{error}");
}

#[test]
fn commands_without_the_token_or_from_other_sites_change_nothing() {
    let served = served(RunState::Running);
    let token = served.server.token().as_str().to_owned();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let pause = r#"{"command": "pause"}"#;
    assert_eq!(served.post("/api/command", "", pause).status, 401);
    assert_eq!(served.post("/api/command", "Authorization: Bearer 0\r\n", pause).status, 401);
    let old = format!("Cookie: fluxline={token}\r\n");
    let answer = served.post("/api/command", &old, pause);
    assert_eq!(answer.status, 401, "the token is not a session");
    assert!(answer.body.contains("open the address that the program printed"), "{}", answer.body);
    let foreign = format!("{bearer}Origin: http://evil.example\r\n");
    assert_eq!(served.post("/api/command", &foreign, pause).status, 403);
    let rebound = "GET /api/state HTTP/1.1\r\nHost: evil.example:8040\r\nConnection: close\r\n\r\n";
    let answer = served.raw(rebound);
    assert_eq!(answer.status, 403, "another name for this computer");
    assert!(!answer.body.contains("boards"), "it learns nothing: {}", answer.body);
    assert_eq!(served.post("/api/session", "", r#"{"token": "guess"}"#).status, 401);
    assert_eq!(served.get("/api/command").status, 405, "a link cannot command");
    served.wait_for(|state| state["state"] == "running");
}

#[test]
fn a_browser_exchanges_the_token_for_a_cookie_and_commands_with_it() {
    let served = served(RunState::Running);
    let token = served.server.token().as_str();
    let answer = served.post("/api/session", "", &json!({ "token": token }).to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|line| line.split(';').next()).expect("a cookie");
    assert!(!answer.head.contains(token));
    let with = format!("Cookie: theme=dark; {cookie}\r\n");
    assert_eq!(served.post("/api/command", &with, r#"{"command": "pause"}"#).status, 200);
    served.wait_for(|state| state["state"] == "paused");
}

#[test]
fn garbage_gets_a_sentence_and_the_run_goes_on() {
    let served = served(RunState::Running);
    let bearer = format!("Authorization: Bearer {}\r\n", served.server.token().as_str());
    for body in ["", "[]", "{", r#"{"command": "explode"}"#, r#"{"shot": -1}"#, "\u{1}\u{2}"] {
        let answer = served.post("/api/command", &bearer, body);
        assert_eq!(answer.status, 400, "{body:?}: {}", answer.body);
        assert!(answer.body.contains("the request must be"), "{}", answer.body);
    }
    let long = format!(r#"{{"remark": "{}"}}"#, "x".repeat(20_000));
    assert_eq!(served.post("/api/command", &bearer, &long).status, 413);
    assert_eq!(served.get("/api/history?points=many").status, 400);
    assert_eq!(served.get("/api/packet?source=99999999999999999999").status, 400);
    assert_eq!(served.get("/api/packet?source=4000000000").status, 404);
    assert_eq!(served.get("/../../etc/passwd").status, 404);
    assert_eq!(served.raw("NONSENSE\r\n\r\n").status, 400);
    served.wait_for(|state| state["state"] == "running");
}

#[test]
fn the_page_its_packet_and_its_history_are_there_with_a_policy_for_the_browser() {
    let served = served(RunState::Running);
    let page = served.get("/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("page.js"), "{}", page.body);
    assert!(page.head.contains("content-security-policy: default-src 'none'"), "{}", page.head);
    for path in ["/page.js", "/page.css", "/uplot.js", "/uplot.css"] {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    let script = served.get("/page.js").body;
    for import in script.lines().filter_map(|line| line.split(" from \"").nth(1)) {
        let path = import.trim_end_matches("\";").trim_start_matches('.');
        assert_eq!(served.get(path).status, 200, "page.js imports {path}");
    }
    served.wait_for(|state| state["sources"].as_array().is_some_and(|all| all.len() == 3));
    let packet = support::wait_for(&served.server, "/api/packet?source=1", |_| true);
    assert_eq!(packet["source"], "source_id=1");
    assert!(packet["fields"].as_array().is_some_and(|fields| !fields.is_empty()), "{packet}");
    let history = served.get("/api/history").json();
    assert!(history["series"]["packets"]["greatest"].is_array(), "{history}");
}

/// Opens a connection that follows the snapshots.
fn follower(served: &Served) -> TcpStream {
    let mut stream = connect(&served.server);
    let host = address_of(&served.server);
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
    stream
}

#[test]
fn two_browsers_see_the_same_snapshots() {
    let served = served(RunState::Running);
    let mut browsers = [follower(&served), follower(&served)];
    let ticks = browsers.each_mut().map(|browser| {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while text.matches("\"tick\":").count() < 5 {
            let read = browser.read(&mut bytes).expect("a stream of snapshots");
            assert!(read > 0, "the stream ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        let ticks = text.split("\"tick\":").skip(1);
        let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
        ticks.filter_map(|part| digits(part).parse().ok()).collect::<Vec<u64>>()
    });
    let common = ticks[0].iter().filter(|tick| ticks[1].contains(tick)).count();
    assert!(common >= 2, "{ticks:?}");
    assert!(ticks.iter().all(|ticks| ticks.windows(2).all(|pair| pair[0] <= pair[1])), "{ticks:?}");
}

#[test]
fn metrics_have_each_counter_once_with_its_help_and_end_as_the_standard_says() {
    let served = served(RunState::Running);
    served.wait_for(|state| state["sources"].as_array().is_some_and(|all| all.len() == 3));
    let answer = served.get("/metrics");
    assert!(answer.head.contains("application/openmetrics-text"), "{}", answer.head);
    let text = answer.body;
    assert!(text.contains("# EOF"), "{text}");
    for line in [
        "# TYPE fluxline_source_parsed counter",
        "# HELP fluxline_source_parsed Packets that fit the description",
        "# TYPE fluxline_source_lost gauge",
        "fluxline_run_state{run=\"boards\",state=\"running\"} 1",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}\n{text}");
    }
    assert!(
        text.contains("fluxline_source_parsed_total{run=\"boards\",source=\"source_id=2\"}"),
        "{text}"
    );
}

#[test]
fn an_address_that_is_taken_is_one_sentence() {
    let served = served(RunState::Running);
    let address = address_of(&served.server);
    let listen = Some(address.parse().expect("an address"));
    let config = ServerConfig { listen, ..ServerConfig::default() };
    let error = Listening::on(&config).expect_err("it is taken").to_string();
    assert!(error.contains(&address) && error.contains("--serve"), "{error}");
    let wrong = Client::new("ftp://nowhere").expect_err("no address").to_string();
    assert!(wrong.contains("http://127.0.0.1:8040"), "{wrong}");
}

/// Opens a connection and sends the beginning of a request.
fn stranger(served: &Served) -> TcpStream {
    let mut stream = connect(&served.server);
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
    stream
}

#[test]
fn strangers_who_trickle_requests_stop_neither_the_run_nor_browsers_and_are_closed() {
    // Nobody is quiet for long enough to be closed for it, on the slowest machine either.
    let limits = Limits { connections: 6, quiet: PATIENCE };
    let served = served_with(RunState::Running, limits);
    let mut browser = follower(&served);
    let mut snapshots = |count: usize| {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while text.matches("\"tick\":").count() < count {
            let read = browser.read(&mut bytes).expect("a stream of snapshots");
            assert!(read > 0, "the browser that follows is never the quietest");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    snapshots(2);
    let packets = served.acquisition.stats().packets;
    let mut strangers = Vec::new();
    for _ in 0..10 {
        strangers.extend((0..10).map(|_| stranger(&served)));
        // One byte now and then does not keep a place either.
        strangers.iter_mut().for_each(|stranger| drop(stranger.write_all(b"a")));
        assert_eq!(served.get("/api/session").status, 200, "a new browser");
        snapshots(1);
    }
    // All but those that still have room.
    let room = limits.connections - 1;
    for stranger in &mut strangers[..100 - room] {
        await_end(stranger);
    }
    snapshots(2);
    assert!(served.acquisition.stats().packets > packets);
}

/// Reads until the connection is closed; returns the number of bytes.
fn await_end(stream: &mut TcpStream) -> usize {
    let (mut taken, mut bytes) = (0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return taken,
            Ok(count) => taken += count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return taken,
            Err(error) => panic!("the connection is not closed: {error}"),
        }
    }
}

#[test]
fn a_quiet_stranger_is_closed() {
    let limits = Limits { quiet: Duration::from_millis(100), ..Limits::default() };
    let served = served_with(RunState::Running, limits);
    await_end(&mut stranger(&served));
}

/// Returns true while the server's end of a connection is open.
fn is_open(stream: &TcpStream) -> bool {
    let hex = |address: std::net::SocketAddr| format!("0100007F:{:04X}", address.port());
    let ends = (stream.local_addr().expect("an end"), stream.peer_addr());
    let (near, Ok(far)) = ends else { return false };
    let row = format!(" {} {} 01 ", hex(near), hex(far));
    std::fs::read_to_string("/proc/net/tcp").expect("Linux").contains(&row)
}

/// Returns the memory of this process, which is the server's too \[byte\].
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn readers_that_take_nothing_are_closed_hold_no_memory_and_stop_nobody() {
    const READERS: usize = 12;
    const REQUESTS: usize = 6000;
    // A process of its own: it measures its memory.
    if std::env::var_os("FLUXLINE_TEST_ALONE").is_none() {
        let name = "served::readers_that_take_nothing_are_closed_hold_no_memory_and_stop_nobody";
        let mut child = Command::new(std::env::current_exe().expect("the program"));
        let child = child.args(["--exact", name]).env("FLUXLINE_TEST_ALONE", "1");
        assert!(child.status().expect("it starts").success());
        return;
    }
    let limits = Limits { quiet: Duration::from_secs(2), ..Limits::default() };
    let served = served_with(RunState::Running, limits);
    let script = served.get("/page.js");
    let answer = script.head.len() + script.body.len();
    assert!(script.status == 200 && answer > 4000, "{answer} bytes");
    let before = resident();
    let host = address_of(&served.server);
    let request = format!("GET /page.js HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut readers: Vec<TcpStream> = Vec::new();
    for _ in 0..READERS {
        let mut reader = connect(&served.server);
        reader.set_write_timeout(Some(Duration::from_millis(200))).expect("a valid time");
        // The server takes no more requests once its answers are not taken.
        let _ = reader.write_all(request.repeat(REQUESTS).as_bytes());
        readers.push(reader);
    }
    let all = READERS * REQUESTS * answer;
    let mut most = 0;
    let (began, mut open) = (Instant::now(), READERS);
    while open > 0 {
        most = most.max(resident().saturating_sub(before));
        assert_eq!(served.get("/api/session").status, 200, "another browser");
        open = readers.iter().filter(|reader| is_open(reader)).count();
        assert!(began.elapsed() < PATIENCE, "{open} readers are not closed");
    }
    assert!(all > 200 << 20, "{all} bytes are asked for");
    assert!(most < 48 << 20, "{most} bytes for {READERS} readers that take nothing");
    // What is left for each is in the kernel's buffers.
    for (number, mut reader) in readers.into_iter().enumerate() {
        let taken = await_end(&mut reader);
        assert!(taken < REQUESTS * answer, "reader {number} got all answers");
    }
    let packets = served.acquisition.stats().packets;
    served.wait_for(|_| served.acquisition.stats().packets > packets);
}

#[test]
fn signals_of_fields_have_a_histogram_and_absent_fields_have_nothing() {
    let served = served(RunState::Running);
    served.wait_for(|state| state["sources"].as_array().is_some_and(|all| all.len() == 3));
    let ask = |query: &str| {
        let answer = served.get(&format!("/api/signal?source=1&{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        serde_json::from_str::<Value>(&answer.body).expect("JSON")
    };
    let path = "/api/signal?source=1&field=event_number";
    let signal =
        support::wait_for(&served.server, path, |signal| signal["packets"].as_u64() > Some(4));
    let counts = signal["histogram"]["counts"].as_array().expect("counts");
    let sum: u64 = counts.iter().filter_map(Value::as_u64).sum();
    assert_eq!(Some(sum), signal["packets"].as_u64());
    assert_eq!(signal["per"], "packet", "{signal:#}");
    assert_eq!(ask("field=nothing")["packets"], 0);
    assert_eq!(ask("x=event_number&y=event_number")["image"]["skipped"], 0);
    assert_eq!(served.get("/api/signal?source=1").status, 400);
    assert_eq!(served.get(&format!("/api/signal?field={}", "x".repeat(300))).status, 400);
    assert_eq!(served.get("/api/trace?field=event_number&from=x").status, 400);
}
