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

/// Time before the measurement, so that a slow start does not count.
const WARM_UP: Duration = Duration::from_millis(150);
/// Looks at completions between two looks at the counters and the clock.
const LOOKS: u32 = 64;

/// Puts from each thread until the receiver ends its connection.
pub fn send(settings: &Settings) {
    let nodes = ends::open_all(settings, "sender", settings.address("from"));
    let before = Cpu::now();
    let sent: u64 = on_threads(settings, nodes, |node| send_from(settings, node)).iter().sum();
    print_side(sent as f64, 0.0, 0.0, Cpu::now().since(before));
}

/// Runs the work of each node on a thread of its own; returns all results.
fn on_threads<T: Send>(
    settings: &Settings,
    nodes: Vec<RoceNode>,
    work: impl Fn(RoceNode) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |(thread, node)| {
            scope.spawn(move || {
                pin_current_thread(ends::core(settings, thread)).expect("a core");
                work(node)
            })
        };
        let threads: Vec<_> = nodes.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Puts until the receiver ends the connection; returns the bytes sent.
fn send_from(settings: &Settings, mut node: RoceNode) -> u64 {
    let peer = settings.peer().to_string();
    node.connect(&peer, ends::reliability(settings)).expect("an address");
    let endpoint = ends::connected(&mut node);
    let remote = ends::import(&mut node, endpoint, "into");
    let all = region_bytes(settings);
    let region = node.register(all).expect("memory");
    let bytes: u64 = settings.get("put");
    let (mut offset, mut posted) = (0, 0_u64);
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
    sent
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

/// Bytes and puts placed at a thread during a trial.
struct Placed {
    bytes: f64,
    seconds: f64,
    /// Share of frames that did not come.
    lost: f64,
    /// Frames that came to this thread for another.
    handed_over: u64,
}

/// Counts what is placed at each thread, for some time.
pub fn receive(settings: &Settings) {
    let mut nodes = ends::open_all(settings, "receiver", settings.address("to"));
    for node in &mut nodes {
        ends::export(node, "into", region_bytes(settings));
    }
    ends::ready(&mut nodes[0], settings.address("to"));
    let before = Cpu::now();
    let all = on_threads(settings, nodes, |node| receive_at(settings, node));
    let used = Cpu::now().since(before);
    let all: Vec<Placed> = all.into_iter().flatten().collect();
    if all.len() < ends::threads(settings) {
        return;
    }
    let seconds = all.iter().map(|of| of.seconds).fold(0.0, f64::max);
    let lost = all.iter().map(|of| of.lost).sum::<f64>() / all.len() as f64;
    let handed_over: u64 = all.iter().map(|of| of.handed_over).sum();
    assert_eq!(handed_over, 0, "each sending thread meets its own");
    let bytes = all.iter().map(|of| of.bytes / of.seconds).sum::<f64>() * seconds;
    print_side(bytes, seconds, lost, used);
}

/// Counts what is placed at one thread. `None`: the connection broke.
fn receive_at(settings: &Settings, mut node: RoceNode) -> Option<Placed> {
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
    let first = counted(&mut node)?;
    let began = Instant::now();
    run_for(&mut node, settings.seconds(), naps);
    let seconds = began.elapsed().as_secs_f64();
    let last = counted(&mut node)?;
    let lost = (last.1 - first.1) as f64;
    let lost = lost / (lost + (last.2 - first.2) as f64).max(1.0);
    let handed_over = node.node().port().frames_handed_over();
    Some(Placed { bytes: (last.0 - first.0) as f64, seconds, lost, handed_over })
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
