//! Small puts: there and back, and how many a second.

use std::time::Instant;

use fluxline::pin::pin_current_thread;
use fluxline::roce::RoceNode;
use fluxline_core::fabric::{Completion, EndpointId, Fabric, Local, RemoteId, Target, Work};

use super::ends::{self, Settings};

pub const TRIPS: u32 = 5_000;

/// Puts with a notification and waits for the one that comes back; prints p50 and p99 \[ns\].
pub fn ask(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let mut node = ends::open(settings, "asks", settings.address("from"));
    ends::export(&mut node, "back", ends::region_bytes(settings));
    let peer = settings.peer().to_string();
    node.connect(&peer, ends::reliability(settings)).expect("an address");
    let endpoint = ends::connected(&mut node);
    let remote = node.import(endpoint, ends::name("into"), ends::KEY).expect("connected");
    // The other end's first put and the import come in either order.
    let (mut imported, mut began) = (false, false);
    while !(imported && began) {
        match node.next_completion() {
            Some(Completion::Imported { status, .. }) => imported = status.is_done(),
            Some(Completion::Notified { .. }) => began = true,
            Some(Completion::Broken { status, .. }) => panic!("broken: {status}"),
            _ => {}
        }
    }
    let bytes = vec![1; settings.get("put")];
    let mut trips: Vec<u64> = Vec::new();
    for number in 0..TRIPS {
        let began = Instant::now();
        put(&mut node, (endpoint, remote), &bytes, number);
        if notified(&mut node).is_none() {
            break;
        }
        trips.push(began.elapsed().as_nanos() as u64);
    }
    trips.sort_unstable();
    let at = |part: usize| trips.get(trips.len() * part / 100).copied().unwrap_or(0) as f64;
    println!("side {} {} 0 0 0", at(50), at(99));
}

/// Gives back what comes.
pub fn echo(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let mut node = ends::open(settings, "answers", settings.address("to"));
    ends::export(&mut node, "into", ends::region_bytes(settings));
    ends::ready(&mut node, settings.address("to"));
    let endpoint = ends::connected(&mut node);
    let remote = ends::import(&mut node, endpoint, "back");
    let bytes = vec![1; settings.get("put")];
    put(&mut node, (endpoint, remote), &bytes, 0);
    while let Some(number) = notified(&mut node) {
        put(&mut node, (endpoint, remote), &bytes, number);
    }
    println!("side 0 0 0 0 0");
}

fn put(node: &mut RoceNode, (endpoint, remote): (EndpointId, RemoteId), bytes: &[u8], value: u32) {
    let (from, to) = (Local::Bytes(bytes), Target { remote, offset: 0 });
    let work = Work::Put { from, to, notify: Some(value), complete_at: None };
    // The connection may be over; then the next wait says so.
    let _ = node.post(endpoint, 0, work);
}

/// The value that comes; `None`: the connection is over.
fn notified(node: &mut RoceNode) -> Option<u32> {
    let began = Instant::now();
    loop {
        match node.next_completion() {
            Some(Completion::Notified { value, .. }) => return Some(value),
            Some(Completion::Broken { .. }) => return None,
            _ => {}
        }
        assert!(began.elapsed().as_secs() < 20, "the other end is silent");
    }
}
