//! The stream of puts: out of a region, over a connection, into a region.

use std::time::{Duration, Instant};

use fluxline::pin::pin_current_thread;
use fluxline::roce::RoceNode;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Level, Local, PostError, Slice, Target, Work,
};

use super::cpu::Cpu;
use super::ends::{self, Settings, region_bytes};
use super::trial::print_side;

/// What begins slowly is not measured.
const WARM_UP: Duration = Duration::from_millis(150);
/// Looks at completions between two looks at the counters and the clock.
const LOOKS: u32 = 64;

/// Puts until the receiver ends the connection.
pub fn send(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let mut node = ends::open(settings, "sender", settings.address("from"));
    let peer = settings.peer().to_string();
    node.connect(&peer, ends::reliability(settings)).expect("an address");
    let endpoint = ends::connected(&mut node);
    let remote = ends::import(&mut node, endpoint, "into");
    let all = region_bytes(settings);
    let region = node.register(all).expect("memory");
    let bytes: u64 = settings.get("put");
    let (mut offset, mut posted) = (0, 0_u64);
    let before = Cpu::now();
    let mut sent = 0;
    loop {
        let from = Local::Region(Slice { region, offset, bytes });
        let to = Target { remote, offset };
        let (notify, complete_at) = (notify(posted, bytes), completion(posted));
        match node.post(endpoint, posted, Work::Put { from, to, notify, complete_at }) {
            Ok(()) => {
                posted += 1;
                offset = (offset + bytes) % (all - all % bytes);
                continue;
            }
            Err(PostError::Full) => {}
            Err(_) => break,
        }
        sent = payload_sent(&mut node, endpoint).unwrap_or(sent);
        if matches!(node.next_completion(), Some(Completion::Broken { .. })) {
            break;
        }
    }
    print_side(sent as f64, 0.0, 0.0, Cpu::now().since(before));
}

/// Long puts tell the receiver each; of short ones, whose rate counts, the receiver looks at the
/// bytes.
fn notify(number: u64, bytes: u64) -> Option<u32> {
    (bytes >= 4096).then_some(number as u32)
}

/// Each 16th put tells that it is complete, as a program would ask for it that reuses memory.
fn completion(number: u64) -> Option<Level> {
    number.is_multiple_of(16).then_some(Level::Copied)
}

fn payload_sent(node: &mut RoceNode, endpoint: EndpointId) -> Option<u64> {
    node.node().connection_counters(endpoint).map(|counters| counters.payload_sent)
}

/// Counts what is placed, for some time.
pub fn receive(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let mut node = ends::open(settings, "receiver", settings.address("to"));
    ends::export(&mut node, "into", region_bytes(settings));
    ends::ready(&mut node, settings.address("to"));
    let endpoint = ends::connected(&mut node);
    let counted = |node: &mut RoceNode| {
        let counters = node.node().connection_counters(endpoint);
        counters.map(|of| (of.payload_placed, of.frames_lost, of.frames_received))
    };
    while counted(&mut node).is_some_and(|(placed, ..)| placed == 0) {
        node.next_completion();
    }
    let naps = settings.get::<u64>("nap") > 0;
    run_for(&mut node, WARM_UP, naps);
    let Some(first) = counted(&mut node) else { return };
    let (began, before) = (Instant::now(), Cpu::now());
    run_for(&mut node, settings.seconds(), naps);
    let (seconds, used) = (began.elapsed().as_secs_f64(), Cpu::now().since(before));
    let Some(last) = counted(&mut node) else { return };
    let lost = (last.1 - first.1) as f64;
    let share = lost / (lost + (last.2 - first.2) as f64).max(1.0);
    print_side((last.0 - first.0) as f64, seconds, share, used);
}

/// Polls for some time; one that naps sleeps while there is nothing, and finds a batch then.
fn run_for(node: &mut RoceNode, time: Duration, naps: bool) {
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..LOOKS {
            match node.next_completion() {
                Some(Completion::Broken { status, .. }) => panic!("broken: {status}"),
                Some(_) => {}
                None if naps => node.wait(Duration::from_millis(5)).expect("a working socket"),
                None => {}
            }
        }
    }
}
