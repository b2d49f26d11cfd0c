//! Shared memory between users of one group of the host: members reach each other, others nothing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use fluxline::Span;
use fluxline::fabric::Key;
use fluxline::shm::{self, Flaw, ShmError};

/// A group of this test, which needs no entry in /etc/group.
const GROUP: u32 = 45_678;
const MEMBER: u32 = 54_321;
const PATIENCE: Span = Span::from_s(60);

fn base() -> std::path::PathBuf {
    format!("/dev/shm/fluxline-group-{GROUP}").into()
}

/// Runs the child of this test as another user.
fn run_as(user: u32, group: u32, url: &str) -> Output {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "shm_users::child", "--nocapture"]);
    command.env("USERS_URL", url).env("HOME", "/root").current_dir("/");
    command.uid(user).gid(group).output().expect("it starts")
}

/// A sensor of another user: not a test of its own.
#[test]
fn child() {
    let Ok(url) = std::env::var("USERS_URL") else { return };
    let mut node = fluxline::node(&url).unwrap_or_else(|error| panic!("refused: {error}"));
    let ring = node.sender("consumer", "samples", Key(7), PATIENCE).expect("admitted");
    for number in 0..100_u8 {
        node.push_wait(ring, &[number; 64], PATIENCE).expect("room");
    }
    node.finish(ring, PATIENCE).expect("all are there");
}

#[test]
fn a_member_of_the_group_is_refused_or_a_stranger_is_let_in() {
    let probe = tempfile::tempfile().expect("a file");
    if std::os::unix::fs::fchown(&probe, Some(MEMBER), None).is_err() {
        println!("skipped: starting programs of other users needs root");
        return;
    }
    let name = format!("users-{}", std::process::id());
    let url = |node: &str| format!("shm://{name}/{node}?group={GROUP}");
    let mut node = fluxline::node(&url("consumer")).expect("opened");
    let about = std::fs::metadata(base()).expect("made");
    assert_eq!((about.gid(), about.mode() & 0o7777), (GROUP, 0o2770));
    let ring = node.receiver("samples", Key(7), 16, 64).expect("made");
    let sensor = url("sensor");
    let pushing = std::thread::spawn(move || run_as(MEMBER, GROUP, &sensor));
    let records: Vec<Vec<u8>> =
        node.records(ring, PATIENCE).collect::<Result<_, _>>().expect("all records");
    assert_eq!(records, (0..100).map(|number| vec![number; 64]).collect::<Vec<_>>());
    let pushed = pushing.join().expect("no panic");
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));

    let stranger = run_as(MEMBER, MEMBER, &url("stranger"));
    let said = String::from_utf8_lossy(&stranger.stdout).into_owned()
        + &String::from_utf8_lossy(&stranger.stderr);
    assert!(!stranger.status.success() && said.contains("refused: "), "{said}");
    drop(node);

    // What is open to all, or belongs to another group, is used by nobody.
    let mode = std::fs::Permissions::from_mode;
    std::fs::set_permissions(base(), mode(0o2777)).expect("ours");
    let error = shm::list(Some(&base())).expect_err("open to all");
    assert!(matches!(error, ShmError::NotOurs { flaw: Flaw::Mode { mode: 0o777 }, .. }), "{error}");
    std::fs::set_permissions(base(), mode(0o2770)).expect("ours");
    std::os::unix::fs::chown(base(), None, Some(MEMBER)).expect("root");
    let error = shm::list(Some(&base())).expect_err("another group");
    assert!(matches!(error, ShmError::NotOurs { flaw: Flaw::Group { .. }, .. }), "{error}");
    std::os::unix::fs::chown(base(), None, Some(GROUP)).expect("root");
    std::fs::remove_dir_all(base()).expect("ours");
}
