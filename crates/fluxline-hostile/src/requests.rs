//! Requests of strangers to the live page of a run and to the page over run folders: each gets an
//! answer that is not a fault of the server, and the next one is answered too.

use std::sync::OnceLock;

use fluxline_daq::experiment::Experiment;
use fluxline_run::Acquisition;
use fluxline_serve::{Listening, PARAMETERS, Server, ServerConfig, paths_of_a_run, paths_of_runs};

use crate::shared::{Behind, ask, scratch};

/// Texts of parameters: bounds of numbers, words, and what is neither.
const VALUES: [&str; 16] = [
    "0",
    "1",
    "2",
    "1000000",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "",
    "number",
    "incomplete",
    "%00",
    "%ff",
    "..%2f",
];

/// A run that goes on, its page, and a page over its folder.
struct Pages {
    _acquisition: Acquisition,
    _folder: tempfile::TempDir,
    run: Server,
    runs: Server,
}

impl Pages {
    fn begin() -> Pages {
        let folder = scratch().expect("a folder of the fuzzer's own");
        let text = format!(
            "name = 'fuzz'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
             [source.emulator]\nsources = 2\nrate = 200.0\npackets = 0\n\
             [events]\nbuild = 'key'\n",
            folder.path().display()
        );
        let experiment = Experiment::parse("fuzz", &text).expect("a valid experiment");
        let acquisition = fluxline_run::start(experiment).expect("started");
        let listening = || {
            let listen = Some(([127, 0, 0, 1], 0).into());
            let config = ServerConfig { listen, ..ServerConfig::default() };
            Listening::on(&config).expect("a free port of loopback")
        };
        Pages {
            run: Server::start(listening(), acquisition.watcher()).expect("served"),
            runs: Server::start_runs(listening(), folder.path()).expect("served"),
            _acquisition: acquisition,
            _folder: folder,
        }
    }
}

/// Makes a request of a route from choices.
fn request_of(paths: &[&str], choices: &[u8]) -> Vec<u8> {
    let mut choices = choices.iter().map(|byte| usize::from(*byte));
    let mut next = |among: usize| choices.next().unwrap_or(0) % among;
    let method = ["GET", "GET", "POST", "HEAD", "PUT"][next(5)];
    let mut target = paths[next(paths.len())].replace("{id}", ["0000", "..", "%00"][next(3)]);
    for number in 0..next(7) {
        let (name, value) = (PARAMETERS[next(PARAMETERS.len())], VALUES[next(VALUES.len())]);
        target.push_str(&format!("{}{name}={value}", if number == 0 { '?' } else { '&' }));
    }
    let head = format!("{method} {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n");
    head.into_bytes()
}

/// Any bytes as a request: chosen from the routes and parameters, or unchanged.
pub fn requests(bytes: &[u8]) {
    static PAGES: OnceLock<Pages> = OnceLock::new();
    let pages = PAGES.get_or_init(Pages::begin);
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (server, paths) = match first & 1 {
        0 => (&pages.run, paths_of_a_run()),
        _ => (&pages.runs, paths_of_runs()),
    };
    let (request, behind) = match first & 2 {
        0 => (request_of(&paths, rest), Behind::Open),
        _ => (rest.to_vec(), Behind::Closed),
    };
    let answer = ask(server, &request, behind);
    let text = String::from_utf8_lossy(&request);
    assert!(answer.status < 500 || answer.status == 503, "{}: {text}", answer.status);
    let next = b"GET /api/session HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(server, next, Behind::Open).status, 200, "after {text}");
}
