//! A run that remote writes arrive at: its experiment, its start and end, frames made by hand.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use fluxline_core::roce::{Headers, IcrcContext};
use serde_json::Value;

use crate::support::{PATIENCE, Running, assert_status_is_true, call, run_document, text};

/// The `[source.roce]` keys of a ring that producers push into.
pub const PUSH: &str = "ring-bytes = 65536\n[source.roce.push]\nkey = 77000077\n";

/// An experiment with one source of remote writes, which has these keys.
pub fn experiment(roce: &str) -> String {
    format!(
        "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.roce]\n\
         listen = '127.0.0.1:0'\n{roce}\n[events]\nbuild = 'packet'\n"
    )
}

/// Starts a run of such an experiment; returns the address on which it listens.
pub fn start(scratch: &Path, roce: &str) -> (Running, SocketAddr) {
    start_with(scratch, roce, &[])
}

/// Starts a run of such an experiment with more arguments.
pub fn start_with(scratch: &Path, roce: &str, more: &[&str]) -> (Running, SocketAddr) {
    let (file, folder) = (scratch.join("roce.toml"), scratch.join("run"));
    std::fs::write(&file, experiment(roce)).expect("written");
    let run = ["run", text(&file), "--folder", text(&folder)];
    let running = Running::start(&[&run, more].concat(), "memory ");
    let line = running.said.lines().find(|line| line.starts_with("source ")).expect("a source");
    let address = line.rsplit("roce://").next().expect("an address").trim();
    let address = address.parse().expect("an address");
    (running, address)
}

/// The arguments of a run whose frames are waited for.
pub const WATCHED: [&str; 2] = ["--serve", "127.0.0.1:0"];

/// Waits until a run that was started as [`WATCHED`] has counted this number of frames.
pub fn wait_for_frames(scratch: &Path, count: u64) {
    let run = scratch.join("run");
    let began = Instant::now();
    loop {
        let output = call(&["ctl", "--run", text(&run), "status", "--json"]);
        let live: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if live["inputs"][0]["frames"].as_u64().is_some_and(|frames| frames >= count) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{count} frames do not come: {live:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the run; returns its document and all that it said. The ledger closes whatever happened.
pub fn finish(scratch: &Path, running: Running) -> (Value, String) {
    running.interrupt();
    let (code, said) = running.end();
    let document = run_document(&scratch.join("run"));
    assert_status_is_true(&document, code);
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    (document, said)
}

/// A frame made by hand: headers, payload and check sum.
pub fn frame(icrc: &IcrcContext, headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let start = headers.emit(payload.len(), &mut bytes);
    bytes[start..start + payload.len()].copy_from_slice(payload);
    bytes.truncate(start + payload.len());
    let icrc = icrc.icrc(0, &bytes);
    bytes.extend_from_slice(&icrc.to_le_bytes());
    bytes
}

/// A process that is killed when dropped (SIGKILL).
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
