//! Shared memory between processes: kill either side at any moment, spoil any file, fill the disk.
//!
//! A test that needs a second process runs this test program again, as `child`, with its role in
//! the environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::shm::{
    KEY, PATIENCE, base, broken, connected, name, open, start, start_limited, wait,
};
use fluxline::clock;
use fluxline::push::ConsumerWait;
use fluxline::shm::{self, Shm, ShmConfig};
use fluxline_core::fabric::{
    Completion, ConnectError, EndpointId, Fabric, Grant, Key, Level, Local, Reliability, RemoteId,
    Rights, Status, Target, Work,
};

/// Connects to `peer` and imports its region `counter`, waiting until both are there.
fn reach(node: &mut Shm, peer: &str) -> (EndpointId, RemoteId) {
    let began = Instant::now();
    let asked = loop {
        assert!(began.elapsed() < PATIENCE, "{peer} cannot be reached");
        // While a new owner removes what a dead one left, a connection may come to the dead one's
        // file: it breaks at once, and is tried again.
        if let Ok(endpoint) = node.connect(peer, Reliability::Reliable)
            && wait(node, |what| connected(what).map(|_| true).or(broken(what).map(|_| false)))
        {
            break endpoint;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let remote = node.import(asked, name("counter"), KEY).expect("connected");
    let status = wait(node, |what| match what {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    (asked, remote)
}

fn export(node: &mut Shm) -> fluxline_core::fabric::RegionId {
    let region = node.register(4096).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    node.export(region, name("counter"), grant).expect("a free name");
    region
}

#[test]
#[ignore = "the tests below start this as their second process"]
fn child() {
    let (Ok(role), Ok(base)) = (std::env::var("ROLE"), std::env::var("BASE")) else { return };
    let base = PathBuf::from(base);
    match role.as_str() {
        "owner" => {
            let mut node = open(&base, "owner").expect("opens");
            export(&mut node);
            let began = Instant::now();
            while began.elapsed() < PATIENCE * 3 {
                while node.poll(clock::now()).is_some() {}
                node.wait(Duration::from_millis(20));
            }
        }
        "writer" => {
            let mut node = open(&base, &format!("writer-{}", std::process::id())).expect("opens");
            let (endpoint, remote) = reach(&mut node, "owner");
            let began = Instant::now();
            let mut count = 0_u32;
            while began.elapsed() < PATIENCE * 3 {
                count += 1;
                let from = &count.to_le_bytes();
                let (from, to) = (Local::Bytes(from), Target { remote, offset: 64 });
                let work = Work::Put { from, to, notify: Some(count), complete_at: None };
                if node.post(endpoint, 0, work).is_err() {
                    count -= 1;
                    while node.poll(clock::now()).is_some() {}
                }
            }
        }
        "limited" => without_descriptors(&base),
        "many" => many(&base),
        "exhausted" => {
            let mut node = open(&base, "exhausted").expect("opens");
            let _all = use_all_descriptors();
            let began = Instant::now();
            while began.elapsed() < PATIENCE * 3 {
                assert_eq!(node.poll(clock::now()), None, "nobody can be let in");
                node.wait(Duration::from_millis(5));
            }
        }
        other => panic!("no role {other}"),
    }
}

/// Returns the number of open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// Opens files until the limit is reached.
fn use_all_descriptors() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

fn imported(what: &Completion) -> Option<Status> {
    match what {
        Completion::Imported { status, .. } => Some(*status),
        _ => None,
    }
}

/// Meets the limit at each call that needs a descriptor, and goes on when there are some again.
fn without_descriptors(base: &Path) {
    let mends = |text: &str| assert!(text.contains("`ulimit -n`"), "{text}");
    let all = use_all_descriptors();
    mends(&open(base, "limited").err().expect("no descriptor").to_string());
    drop(all);

    let mut node = open(base, "limited").expect("opens");
    let before = descriptors();
    let all = use_all_descriptors();
    mends(&node.connect("owner", Reliability::Reliable).unwrap_err().to_string());
    mends(&node.register(4096).unwrap_err().to_string());
    drop(all);
    assert_eq!(descriptors(), before, "a refusal keeps nothing");

    let (endpoint, _) = reach(&mut node, "owner");
    let before = descriptors();
    let all = use_all_descriptors();
    node.import(endpoint, name("counter"), KEY).expect("connected");
    assert_eq!(wait(&mut node, imported), Status::NoResources);
    drop(all);
    node.import(endpoint, name("counter"), KEY).expect("connected");
    assert_eq!(wait(&mut node, imported), Status::Done);
    assert_eq!(descriptors(), before, "an import holds no descriptor");

    let mut regions = Vec::new();
    let refused = loop {
        match node.register(4096) {
            Ok(region) => regions.push(region),
            Err(refused) => break refused.to_string(),
        }
    };
    mends(&refused);
    assert!(!regions.is_empty());
    for region in regions {
        node.withdraw(region).expect("own");
    }
    assert_eq!(descriptors(), before, "what is withdrawn is given back");
    node.register(4096).expect("room again");
}

#[test]
fn without_descriptors_each_call_says_so_and_nothing_leaks() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    export(&mut owner);
    let mut limited = start_limited(48, "shm_processes", "limited", base.path());
    let began = Instant::now();
    let ended = loop {
        while owner.poll(clock::now()).is_some() {}
        if let Some(status) = limited.try_wait().expect("a child") {
            break Some(status);
        }
        if began.elapsed() > PATIENCE {
            limited.kill().expect("killed");
            limited.wait().expect("waited");
            break None;
        }
        owner.wait(Duration::from_millis(5));
    };
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}; see its message above");
    let left: Vec<_> = std::fs::read_dir(base.path().join("base/lab"))
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(left.len(), 2, "the owner's node and region alone: {left:?}");
}

#[test]
fn a_node_that_runs_out_of_descriptors_while_a_peer_connects_refuses_it() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let mut limited = start_limited(48, "shm_processes", "exhausted", base.path());
    let began = Instant::now();
    let refused = loop {
        assert!(began.elapsed() < PATIENCE, "no answer");
        if owner.connect("exhausted", Reliability::Reliable).is_ok() {
            break wait(&mut owner, broken);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(refused, Status::NoRoom);
    limited.kill().expect("killed");
    limited.wait().expect("waited");
}

#[test]
fn a_writer_killed_at_any_moment_is_noticed_and_its_place_used_again() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let region = export(&mut owner);
    let memory = owner.memory(region).expect("own");
    // More often than a node has places for connections.
    for round in 0..24_u64 {
        let mut writer = start("shm_processes", "writer", base.path());
        wait(&mut owner, connected);
        let (mut last, mut notices) = (0, 0_u64);
        let until = Instant::now() + Duration::from_millis(3 + round * 7 % 40);
        while Instant::now() < until || notices == 0 {
            let Some(what) = owner.poll(clock::now()) else { continue };
            if let Completion::Notified { value, offset, bytes, .. } = what {
                assert_eq!((value, offset, bytes), (last + 1, 64, 4), "in order, none left out");
                let mut found = [0; 4];
                memory.read(64, &mut found).expect("inside");
                assert!(u32::from_le_bytes(found) >= value, "bytes come before their notice");
                last = value;
                notices += 1;
            }
        }
        writer.kill().expect("killed"); // SIGKILL
        writer.wait().expect("waited");
        let killed = Instant::now();
        assert_eq!(wait(&mut owner, broken), Status::PeerGone);
        let limit = owner.capabilities().death_noticed_within;
        let took = killed.elapsed();
        assert!(took.as_nanos() < u128::from(limit.as_ns()) * 5, "{took:?}, promised {limit:?}");
    }
    let left = shm::list(Some(&base.path().join("base"))).expect("readable");
    assert_eq!(left.iter().filter(|node| node.alive).count(), 1);
    assert_eq!(left.len(), 25, "killed processes leave their files");
    assert_eq!(shm::clean(Some(&base.path().join("base"))).expect("cleans").len(), 24);
    drop(owner);
    assert_eq!(shm::list(Some(&base.path().join("base"))).expect("readable"), []);
}

#[test]
fn an_owner_killed_at_any_moment_is_noticed_and_its_name_is_free_again() {
    let base = base();
    let mut node = open(base.path(), "node").expect("opens");
    for round in 0..10_u64 {
        let mut owner = start("shm_processes", "owner", base.path());
        let (endpoint, remote) = reach(&mut node, "owner");
        let work = |at: u64| Work::Put {
            from: Local::Bytes(&[1; 8]),
            to: Target { remote, offset: at },
            notify: Some(1),
            complete_at: Some(Level::Placed),
        };
        for step in 0..round * 10 {
            // The owner may be asleep: a full queue is emptied by its wake-ups.
            while node.post(endpoint, step, work(step * 8)).is_err() {
                while node.poll(clock::now()).is_some() {}
            }
        }
        owner.kill().expect("killed"); // SIGKILL
        owner.wait().expect("waited");
        assert_eq!(wait(&mut node, broken), Status::PeerGone);
        assert!(node.post(endpoint, 0, work(0)).is_err(), "nobody would read it");
        let refused = node.connect("owner", Reliability::Reliable);
        let Err(ConnectError::Host { reason, .. }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("has died"), "{reason}");
    }
}

#[test]
fn a_name_has_one_living_owner() {
    let base = base();
    let first = open(base.path(), "owner").expect("opens");
    let second = open(base.path(), "owner").err().map(|error| error.to_string());
    assert!(second.as_ref().is_some_and(|text| text.contains("is open already")), "{second:?}");
    drop(first);
    open(base.path(), "owner").expect("free again");
}

/// Changes a region file's bytes.
type Spoil<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn spoiled_files_are_a_status_and_never_a_fault() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    export(&mut owner);
    let mut node = open(base.path(), "node").expect("opens");
    let asked = node.connect("owner", Reliability::Reliable).expect("there");
    wait(&mut owner, connected);
    assert_eq!(wait(&mut node, connected), asked);
    let folder = base.path().join("base/lab");
    let region = folder.join("owner~counter.region");
    let good = std::fs::read(&region).expect("readable");
    let spoiled = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        // A file of its own: the owner's mapping must stay whole.
        std::fs::remove_file(&region).expect("removable");
        std::fs::write(&region, bytes).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&region, mode).expect("set");
    };
    let cases: [(Spoil<'_>, Status); 6] = [
        (&|bytes| bytes.truncate(100), Status::Version),
        (&|bytes| bytes.truncate(5000), Status::Version),
        (&|bytes| bytes.clear(), Status::Version),
        (&|bytes| bytes[0] ^= 1, Status::Version),
        (&|bytes| bytes[16..24].fill(0xFF), Status::Version), // the size
        (&|bytes| bytes[40] ^= 1, Status::WrongKey),
    ];
    for (change, expected) in cases {
        spoiled(change);
        node.import(asked, name("counter"), KEY).expect("connected");
        let status = wait(&mut node, |what| match what {
            Completion::Imported { status, .. } => Some(*status),
            _ => None,
        });
        assert_eq!(status, expected);
    }
    for (length, fill) in [(0, 0), (10, 0), (4096, 0xFF), (1 << 20, 0)] {
        let file = folder.join("garbage.node");
        std::fs::write(&file, vec![fill; length]).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, mode).expect("set");
        let refused = node.connect("garbage", Reliability::Reliable);
        let Err(ConnectError::Host { reason, .. }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("another layout"), "{reason}");
    }
}

#[test]
#[ignore = "all: root, to mount file systems"]
fn full_memory_is_an_error_when_a_region_is_made_and_not_a_signal_later() {
    let base = base();
    let small = base.path().join("small");
    std::fs::create_dir(&small).expect("made");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs"])
        .arg(&small)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small tmpfs needs more rights");
        return;
    }
    let mut node = open(&small, "node").expect("opens");
    node.register(1 << 20).expect("fits");
    let refused = node.register(8 << 20).err().map(|error| error.to_string());
    drop(node);
    unmount(&small);
    let refused = refused.expect("does not fit");
    assert!(refused.contains("fluxline shm clean"), "{refused}");
}

/// Connects as often as it goes, at most so often, and answers; why no more.
fn crowd(owner: &mut Shm, node: &mut Shm, most: usize) -> (Vec<EndpointId>, Option<String>) {
    let mut endpoints = Vec::new();
    while endpoints.len() < most {
        match node.connect("owner", Reliability::Reliable) {
            Ok(endpoint) => endpoints.push(endpoint),
            Err(refused) => return (endpoints, Some(refused.to_string())),
        }
        wait(owner, connected);
        assert_eq!(Some(wait(node, connected)), endpoints.last().copied());
    }
    (endpoints, None)
}

#[test]
fn a_thousand_connections_to_one_node_work_by_one_descriptor_and_their_places_come_again() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let region = export(&mut owner);
    let memory = owner.memory(region).expect("own");
    let mut node = open(base.path(), "node").expect("opens");
    // Twice: the second crowd finds nothing of the first one's.
    for _ in 0..2 {
        let before = descriptors();
        let (endpoints, refused) = crowd(&mut owner, &mut node, 1_000);
        assert_eq!((endpoints.len(), refused), (1_000, None));
        // Other tests of this process open some meanwhile.
        assert!(descriptors() <= before + 100, "{} and {before}", descriptors());
        for (endpoint, value) in endpoints.iter().zip(1..) {
            let remote = node.import(*endpoint, name("counter"), KEY).expect("connected");
            assert_eq!(wait(&mut node, imported), Status::Done);
            let bytes = u32::to_le_bytes(value);
            let work = Work::Put {
                from: Local::Bytes(&bytes),
                to: Target { remote, offset: 0 },
                notify: Some(value),
                complete_at: None,
            };
            node.post(*endpoint, 0, work).expect("room");
            let completion = wait(&mut owner, |what| match what {
                Completion::Notified { value, .. } => Some(*value),
                _ => None,
            });
            let mut found = [0; 4];
            memory.read(0, &mut found).expect("inside");
            assert_eq!((completion, u32::from_le_bytes(found)), (value, value));
        }
        for endpoint in endpoints {
            node.disconnect(endpoint).expect("open");
            assert_eq!(wait(&mut owner, broken), Status::Disconnected);
            assert_eq!(wait(&mut node, broken), Status::Done);
        }
    }
}

#[test]
#[ignore = "all: root, to mount file systems"]
fn connections_that_memory_or_places_do_not_suffice_for_are_refused_in_words() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let mut node = open(base.path(), "node").expect("opens");
    let most = owner.capabilities().endpoints_max as usize;
    let (endpoints, refused) = crowd(&mut owner, &mut node, most + 1);
    assert_eq!(endpoints.len(), most);
    assert!(refused.as_ref().is_some_and(|why| why.contains("1024")), "{refused:?}");
    let mut other = open(base.path(), "other").expect("opens");
    let refused = other.connect("owner", Reliability::Reliable).expect_err("no place");
    assert!(refused.to_string().contains("room"), "{refused}");
    drop((owner, node, other));

    let small = base.path().join("small");
    std::fs::create_dir(&small).expect("made");
    let size = ["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"];
    let mounted = Command::new("mount").args(size).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small tmpfs needs more rights");
        return;
    }
    let mut owner = open(&small, "owner").expect("opens");
    let mut node = open(&small, "node").expect("opens");
    let (endpoints, refused) = crowd(&mut owner, &mut node, 100);
    drop((owner, node));
    unmount(&small);
    assert!((2..16).contains(&endpoints.len()), "a slot is 64 KiB: {}", endpoints.len());
    assert!(refused.as_ref().is_some_and(|why| why.contains("fluxline shm clean")), "{refused:?}");
}

/// Takes a file system away, lazily: a child that another test starts holds this process's maps
/// until its `exec`, and so keeps the file system busy for a moment after its nodes are gone.
fn unmount(folder: &Path) {
    let unmounted = Command::new("umount").arg("--lazy").arg(folder).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
}

/// Returns the pages that a node gets if it asks for huge ones on a tmpfs with `options`.
fn granted(folder: &Path, options: &str) -> Option<(shm::HugePages, String)> {
    std::fs::create_dir(folder).expect("made");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a tmpfs needs more rights");
        return None;
    }
    let config =
        ShmConfig { base: Some(folder.join("base")), huge_pages: true, ..ShmConfig::default() };
    let found = Shm::open(&name("lab"), &name("owner"), config).map(|mut node| {
        let region = node.register(8 << 20).expect("fits");
        let mut consumer = node.push_consumer(4 << 20, ConsumerWait::Polls).expect("fits");
        assert!(matches!(consumer.next(), Ok(None)));
        let too_large = node.register(64 << 20).err().map(|error| error.to_string());
        (node.huge_pages(region).expect("own"), too_large.unwrap_or_default())
    });
    unmount(folder);
    Some(found.expect("opens"))
}

#[test]
#[ignore = "all: root, to mount file systems"]
fn huge_pages_are_used_where_the_host_has_them_and_their_lack_is_reported() {
    let base = base();
    let never = "size=32m,mode=0700,huge=never";
    let Some((pages, full)) = granted(&base.path().join("never"), never) else { return };
    assert_eq!(pages.granted_bytes, 0);
    assert!(pages.to_string().contains("huge=advise"), "{pages}");
    assert!(full.contains("fluxline shm clean"), "{full}");
    let advise = "size=32m,mode=0700,huge=advise";
    let Some((pages, full)) = granted(&base.path().join("advise"), advise) else { return };
    println!("{pages}");
    assert!(pages.granted_bytes > 0, "{pages}");
    assert!(full.contains("fluxline shm clean"), "{full}");
}

#[test]
fn thousands_of_connections_one_after_the_other_leave_nothing_behind() {
    let base = base();
    // In a process of its own, whose memory and descriptors no other test takes.
    let status = start("shm_processes", "many", base.path()).wait().expect("a child");
    assert!(status.success(), "see its message above");
}

/// Thousands of connections, imports and regions of two nodes, one after the other.
fn many(base: &Path) {
    let mut owner = open(base, "owner").expect("opens");
    export(&mut owner);
    let mut node = open(base, "node").expect("opens");
    let mut turn = || {
        let endpoint = reach_in(&mut node, &mut owner);
        for (key, status) in [(KEY, Status::Done), (Key(8), Status::WrongKey)] {
            node.import(endpoint, name("counter"), key).expect("connected");
            assert_eq!(wait(&mut node, imported), status);
        }
        let region = node.register(64).expect("room");
        node.withdraw(region).expect("own");
        node.disconnect(endpoint).expect("open");
        assert_eq!(wait(&mut node, broken), Status::Done);
        assert_eq!(wait(&mut owner, broken), Status::Disconnected);
    };
    (0..10).for_each(|_| turn());
    let before = (memory_bytes(), descriptors());
    (0..20_000).for_each(|_| turn());
    let grown = memory_bytes().saturating_sub(before.0);
    assert!(grown < 2 << 20, "{grown} bytes more after 20,000 connections");
    assert_eq!(descriptors(), before.1);
}

/// A connection between two nodes of this process.
fn reach_in(node: &mut Shm, owner: &mut Shm) -> EndpointId {
    let asked = node.connect("owner", Reliability::Reliable).expect("room");
    wait(owner, connected);
    assert_eq!(wait(node, connected), asked);
    asked
}

/// Resident memory of this process \[byte\].
fn memory_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = text.split(' ').nth(1).and_then(|of| of.parse().ok()).expect("a number");
    pages * 4096
}

#[test]
fn a_connection_that_is_given_up_before_its_answer_leaves_its_place_to_others() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let mut node = open(base.path(), "node").expect("opens");
    // The owner answers nobody meanwhile; more than there are places.
    for _ in 0..3_000 {
        let asked = node.connect("owner", Reliability::Reliable).expect("a place");
        node.disconnect(asked).expect("asked");
        assert_eq!(wait(&mut node, broken), Status::Done);
    }
    assert_eq!(owner.poll(clock::now()), None, "nobody is there");
    reach_in(&mut node, &mut owner);
}

#[test]
fn who_claims_a_place_and_dies_is_not_taken_for_the_next_of_that_name() {
    let base = base();
    let mut owner = open(base.path(), "owner").expect("opens");
    let mut claimer = open(base.path(), "claimer").expect("opens");
    claimer.connect("owner", Reliability::Reliable).expect("a place");
    // As a process does that is killed: its files stay, its locks do not.
    let folder = base.path().join("base/lab");
    std::fs::rename(folder.join("claimer.node"), folder.join("dead.node")).expect("renamed");
    let mut next = open(base.path(), "claimer").expect("opens");
    assert_eq!(owner.poll(clock::now()), None, "the dead one's claim is refused");
    let asked = next.connect("owner", Reliability::Reliable).expect("a place");
    wait(&mut owner, connected);
    assert_eq!(wait(&mut next, connected), asked);
}
