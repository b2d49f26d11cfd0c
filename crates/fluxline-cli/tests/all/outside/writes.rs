//! FPGAs that write into the memory of a run by RoCEv2, made by a program that shares no code with
//! it: restarts lose nothing, and forged frames cost nothing.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::support::{free_port, number};

const BY_PACKET: &str = "[events]\nbuild = 'packet'\n";

/// Runs one FPGA's plan to its end: every packet that was not forged is in the files. Returns the
/// totals of the ledger, and what check.py found.
fn acquire(parts: &Value, status: i32) -> Option<(Value, Value)> {
    let scene = Scene::new()?;
    let from = free_port();
    let source = format!(
        "[source.roce]\nlisten = '127.0.0.1:0'\nring-bytes = 1048576\nslot-bytes = 256\n\
         path-mtu = 256\n[[source.roce.sender]]\nname = 'fpga'\naddress = '127.0.0.1:{from}'\n\
         queue-pair = 256\nkey = 77\n{BY_PACKET}"
    );
    let live = scene.listen_by("run", &source);
    let plan = json!({
        "roce": { "from": from, "pair": 256, "key": 77, "slots": 4096, "slot_bytes": 256 },
        "boards": [{ "board": 3, "parts": parts }],
    });
    let log = scene.send("fpga", &plan, live.port).done();
    let ended = live.end("INT");
    let found = scene.check(&ended.folder, &[&log]);
    let document = ended.document();
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    let totals = &document["totals"];
    let kind = |name: &str| found["sent"][name].as_u64().unwrap_or(0);
    let (sent, forged) = (kind("data") + kind("restart"), kind("forged"));
    let dropped = number(totals, "socket_dropped");
    assert_eq!(number(totals, "frames") + dropped, sent + forged, "{totals}");
    assert_eq!(number(&found, "packets") + dropped, sent, "{found}");
    for never in ["doubled", "strangers", "misread", "torn"] {
        assert_eq!(number(&found, never), 0, "{never}: {found}");
    }
    assert_eq!(ended.status, Some(status), "{}", ended.errors);
    ended.rows_add_up();
    Some((totals.clone(), found))
}

#[test]
fn frames_of_an_independent_sender_are_read_to_the_packet() {
    let parts = json!([{ "at_us": 0, "count": 1000, "period_us": 500, "bytes": 99 }]);
    acquire(&parts, 0);
}

#[test]
fn an_fpga_that_restarts_its_psn_loses_nothing() {
    let parts = json!([
        { "at_us": 0, "count": 800, "period_us": 500 },
        { "at_us": 700_000, "count": 1, "period_us": 500, "kind": "restart" },
        { "at_us": 700_500, "count": 800, "period_us": 500 },
    ]);
    acquire(&parts, 0);
}

#[test]
fn a_forged_frame_costs_the_fpga_nothing() {
    let parts = json!([
        { "at_us": 0, "count": 1000, "period_us": 500 },
        { "at_us": 250_250, "count": 2, "period_us": 10_000, "kind": "forged", "counter": 9000 },
    ]);
    let Some((totals, found)) = acquire(&parts, 7) else { return };
    assert_eq!(number(&totals, "frames_out_of_bounds"), number(&found["sent"], "forged"));
}
