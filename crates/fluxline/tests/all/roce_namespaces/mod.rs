//! RoCEv2 between two processes in network namespaces of their own: real interfaces and MTUs,
//! faults that the kernel makes, a peer that is killed, a cable that is pulled.
//!
//! A test runs this test program again, as `child`, once in each namespace, with its role in the
//! environment. Where namespaces are not allowed, or `nft` and `ethtool` are missing, a line
//! says so and the test passes.

mod roles;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::namespaces::{Namespaces, is_installed};

/// For whatever must come; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a busy machine may add to a promised limit.
const SLACK: Duration = Duration::from_millis(750);

#[test]
#[ignore = "the other processes of the tests below"]
fn child() {
    if let Ok(role) = std::env::var("ROLE") {
        roles::play(&role);
    }
}

/// A process in a namespace; killed when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// This program again, in a role and a place.
    fn start(
        role: &str,
        settings: &[(&str, String)],
        inside: impl Fn(&Command) -> Command,
    ) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command
            .args(["--exact", "roce_namespaces::child", "--include-ignored", "--nocapture"])
            .env("ROLE", role);
        for (name, value) in settings {
            command.env(name, value);
        }
        let mut child = inside(&command).stdout(Stdio::piped()).spawn().expect("it starts");
        let (lines_out, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once("says: ") {
                    let _ = lines_out.send(said.to_owned());
                }
            }
        });
        Process { child, lines }
    }

    /// Returns its next line that begins with this word.
    fn says(&self, word: &str) -> String {
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {word:?} came"));
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Owner in B, asker in A; the owner is ready.
struct Two {
    owner: Process,
    asker: Process,
    /// Goes last, after who is inside.
    between: Namespaces,
}

fn owner(between: &Namespaces, ip: &str, death_ms: u32) -> Process {
    let settings = [("LOCAL", format!("{ip}:4791")), ("DEATH_MS", death_ms.to_string())];
    let owner = Process::start("owner", &settings, |command| between.inside_b(command));
    owner.says("ready");
    owner
}

fn asker(between: &Namespaces, role: &str, peer: &str, settings: &[(&str, u32)]) -> Process {
    let mut all = vec![("LOCAL", format!("{}:0", Namespaces::A)), ("PEER", peer.to_owned())];
    all.extend(settings.iter().map(|(name, value)| (*name, value.to_string())));
    Process::start(role, &all, |command| between.inside_a(command))
}

/// `None`, with a line, where it cannot be done here.
fn namespaces(made: Result<Namespaces, String>) -> Option<Namespaces> {
    made.inspect_err(|reason| println!("skipped: {reason}")).ok()
}

/// A pair whose faults meet single datagrams.
fn faulty(mtu: usize) -> Option<Namespaces> {
    for tool in ["nft", "ethtool"] {
        if !is_installed(tool) {
            println!("skipped: {tool} is not installed");
            return None;
        }
    }
    let between = namespaces(Namespaces::pair(mtu))?;
    between.single_datagrams().expect("ethtool");
    Some(between)
}

fn two(between: Namespaces, role: &str, death_ms: u32, settings: &[(&str, u32)]) -> Two {
    let mut settings = settings.to_vec();
    settings.push(("DEATH_MS", death_ms));
    let owner = owner(&between, Namespaces::B, death_ms);
    let asker = asker(&between, role, Namespaces::B, &settings);
    Two { owner, asker, between }
}

/// Frames that the asker sent again, and that came to the owner before others or twice.
struct Frames {
    repeated: u64,
    ahead: u64,
    duplicate: u64,
}

/// Both did all of it, once.
fn all_done(two: &Two, puts: u32) -> Frames {
    let said = two.asker.says("done");
    let last = |text: &str| text.split(' ').next_back().and_then(|word| word.parse().ok());
    let number = |text: String| last(&text).expect("a number");
    let (ahead, duplicate) = (two.owner.says("ahead"), two.owner.says("duplicate"));
    assert_eq!(two.owner.says("total"), roles::total(puts));
    Frames { repeated: number(said), ahead: number(ahead), duplicate: number(duplicate) }
}

/// Work of every kind between two processes, with these faults.
fn work_through(mtu: usize, puts: u32, fault: impl Fn(&Namespaces)) -> Option<Frames> {
    let between = faulty(mtu)?;
    fault(&between);
    let two = two(between, "works", 3000, &[("PUTS", puts)]);
    let frames = all_done(&two, puts);
    assert!(two.between.met() > 0, "the kernel's rule met something");
    Some(frames)
}

/// The same, again until the frames show what the fault does: the kernel draws whom it meets, and
/// may meet only frames that nothing follows.
fn work_until(puts: u32, fault: impl Fn(&Namespaces), shows: impl Fn(&Frames) -> bool, what: &str) {
    const RUNS_MAX: u32 = 8;
    for _ in 0..RUNS_MAX {
        let Some(frames) = work_through(1500, puts, &fault) else { return };
        if shows(&frames) {
            return;
        }
    }
    panic!("in {RUNS_MAX} runs no frame {what}");
}

#[test]
#[ignore = "all: network namespaces"]
fn all_operations_over_ethernet_of_mtu_1500() {
    let Some(between) = namespaces(Namespaces::pair(1500)) else { return };
    all_done(&two(between, "works", 3000, &[("PUTS", 1000)]), 1000);
}

#[test]
#[ignore = "all: network namespaces"]
fn all_operations_over_ethernet_of_mtu_9000() {
    let Some(between) = namespaces(Namespaces::pair(9000)) else { return };
    let two = two(between, "works", 3000, &[("PUTS", 1000)]);
    let payload: u64 = two.asker.says("payload of a frame").parse().expect("a number");
    assert!((8000..8972).contains(&payload), "frames of {payload} byte payload");
    all_done(&two, 1000);
}

#[test]
#[ignore = "all: network namespaces"]
fn one_datagram_of_a_hundred_lost_is_nothing_lost() {
    let lossy = |between: &Namespaces| between.lose(1_000, true).expect("nft");
    work_until(400, lossy, |frames| frames.repeated > 0, "had to be repeated");
}

#[test]
#[ignore = "all: network namespaces"]
fn five_datagrams_of_a_hundred_lost_are_nothing_lost() {
    let lossy = |between: &Namespaces| between.lose(5_000, true).expect("nft");
    work_until(200, lossy, |frames| frames.repeated > 0, "had to be repeated");
}

#[test]
#[ignore = "all: network namespaces"]
fn five_jumbo_datagrams_of_a_hundred_lost_are_nothing_lost() {
    let lossy = |between: &Namespaces| between.lose(5_000, true).expect("nft");
    work_through(9000, 400, lossy);
}

#[test]
#[ignore = "all: network namespaces"]
fn what_comes_twice_is_done_once() {
    let twice = |between: &Namespaces| between.duplicate(20_000).expect("nft");
    work_until(300, twice, |frames| frames.duplicate > 0, "came twice");
}

#[test]
#[ignore = "all: network namespaces"]
fn what_comes_out_of_order_is_done_in_order() {
    let late = |between: &Namespaces| between.reorder(2_000).expect("nft, tc");
    work_until(300, late, |frames| frames.ahead > 0, "came before what was sent earlier");
}

#[test]
#[ignore = "all: network namespaces"]
fn loss_and_duplicates_together_are_done_once() {
    work_through(1500, 200, |between| {
        between.duplicate(10_000).expect("nft");
        between.lose(3_000, true).expect("nft");
    });
}

/// Says how long after `began` the process knew; it must know within the promise.
fn broken_in_time(process: &Process, began: Instant, death_ms: u64) {
    let said = process.says("broken");
    let took = began.elapsed();
    assert!(said.starts_with("the peer is gone") || said.starts_with("the link failed"), "{said}");
    let promised = Duration::from_millis(death_ms / 4 * 5);
    assert!(took <= promised + SLACK, "known after {took:?}, promised {promised:?}");
}

#[test]
#[ignore = "all: network namespaces"]
fn a_killed_peer_is_noticed_in_time_and_another_one_at_its_address_is_accepted() {
    const DEATH_MS: u32 = 1000;
    let Some(between) = namespaces(Namespaces::pair(1500)) else { return };
    let mut two = two(between, "streams", DEATH_MS, &[]);
    two.asker.says("streaming");
    std::thread::sleep(Duration::from_millis(200));
    two.owner.kill();
    broken_in_time(&two.asker, Instant::now(), u64::from(DEATH_MS));
    // All that was posted completed, each once, before that: the asker looked.
    two.asker.says("flushed");
    two.owner = owner(&two.between, Namespaces::B, DEATH_MS);
    two.asker.says("connected again");
}

#[test]
#[ignore = "all: network namespaces"]
fn a_killed_asker_is_noticed_by_the_owner_in_time() {
    let Some(between) = namespaces(Namespaces::pair(1500)) else { return };
    let mut two = two(between, "streams", 1000, &[]);
    two.asker.says("streaming");
    two.asker.kill();
    broken_in_time(&two.owner, Instant::now(), 1000);
}

#[test]
#[ignore = "all: network namespaces"]
fn a_cable_pulled_for_a_second_costs_only_that_second() {
    let Some(between) = namespaces(Namespaces::pair(1500)) else { return };
    // A put each 5 ms: the cable is pulled in the middle.
    let two = two(between, "works", 3000, &[("PUTS", 400), ("PAUSE_US", 5_000)]);
    two.asker.says("working");
    std::thread::sleep(Duration::from_millis(300));
    two.between.set_link(false).expect("ip");
    std::thread::sleep(Duration::from_secs(1));
    two.between.set_link(true).expect("ip");
    all_done(&two, 400);
}

#[test]
#[ignore = "all: network namespaces"]
fn a_cable_pulled_for_good_breaks_both_ends_in_time() {
    let Some(between) = namespaces(Namespaces::pair(1500)) else { return };
    let two = two(between, "streams", 1000, &[]);
    two.asker.says("streaming");
    two.between.set_link(false).expect("ip");
    let pulled = Instant::now();
    broken_in_time(&two.asker, pulled, 1000);
    broken_in_time(&two.owner, pulled, 1000);
    two.asker.says("flushed");
}

#[test]
#[ignore = "all: network namespaces"]
fn a_router_of_mtu_1500_between_interfaces_of_mtu_9000_is_found() {
    let Some(between) = namespaces(Namespaces::routed()) else { return };
    let owner = owner(&between, Namespaces::FAR, 3000);
    let settings = [("PUTS", 400), ("DEATH_MS", 3000)];
    let asker = asker(&between, "works", Namespaces::FAR, &settings);
    let two = Two { owner, asker, between };
    let payload: u64 = two.asker.says("payload of a frame").parse().expect("a number");
    // 1452 byte are tried, of which headers take 32; the next size down is 1232.
    assert!((1300..1472).contains(&payload), "frames of {payload} byte payload");
    assert_eq!(two.owner.says("total"), roles::total(400));
}
