//! The directory of all groups where another user came first, or left a link: refused in words, and
//! nothing elsewhere is touched.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::support::shm::{base, name, open};
use fluxline::shm::{self, Flaw, Shm, ShmConfig, ShmError};
use fluxline_core::fabric::{ConnectError, Fabric, Reliability};

/// Some other user.
const OTHER_USER: u32 = 54_321;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

/// Returns true if this test may give files away; reports it if not.
fn is_root(scratch: &Path) -> bool {
    let file = scratch.join("given");
    std::fs::write(&file, "").expect("written");
    let may = chown(&file, Some(OTHER_USER), None).is_ok();
    if !may {
        println!("skipped in part: giving files to another user needs root");
    }
    may
}

/// A directory as another user of the same machine could have: a group with a dead node in it.
fn victim(scratch: &Path) -> PathBuf {
    let victim = scratch.join("victim");
    std::fs::create_dir_all(victim.join("lab")).expect("made");
    for file in ["builder.node", "builder~samples.region"] {
        std::fs::write(victim.join("lab").join(file), "precious").expect("written");
        set_mode(&victim.join("lab").join(file), 0o600);
    }
    set_mode(&victim.join("lab"), 0o700);
    set_mode(&victim, 0o700);
    victim
}

fn is_whole(victim: &Path) -> bool {
    let whole = |file: &str| {
        std::fs::read_to_string(victim.join("lab").join(file)).is_ok_and(|text| text == "precious")
    };
    whole("builder.node") && whole("builder~samples.region")
}

/// All that may be done with a base refuses it for that reason, in a sentence with its path.
fn refused_everywhere(base: &Path, flaw: Flaw, says: &str) {
    let config = ShmConfig { base: Some(base.to_path_buf()), ..ShmConfig::default() };
    let opened = Shm::open(&name("lab"), &name("node"), config).err();
    let (listed, cleaned) = (shm::list(Some(base)).err(), shm::clean(Some(base)).err());
    for refused in [opened, listed, cleaned] {
        let refused = refused.expect("it is not this user's alone");
        let ShmError::NotOurs { flaw: found, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!(*found, flaw);
        let text = refused.to_string();
        assert!(text.starts_with(&base.display().to_string()) && text.contains(says), "{text}");
    }
}

#[test]
fn a_link_in_place_of_the_base_is_refused_and_cleaning_removes_nothing_elsewhere() {
    let scratch = base();
    let victim = victim(scratch.path());
    let link = scratch.path().join("link");
    symlink(&victim, &link).expect("made");
    refused_everywhere(&link, Flaw::Link, "is a symbolic link, which is not followed");
    assert!(is_whole(&victim));
}

#[test]
fn a_link_in_place_of_a_group_is_refused_and_cleaning_removes_nothing_elsewhere() {
    let scratch = base();
    let victim = victim(scratch.path());
    drop(open(scratch.path(), "node").expect("opens")); // makes the base
    let base = scratch.path().join("base");
    symlink(victim.join("lab"), base.join("lab")).expect("made");
    let refused = open(scratch.path(), "node").err();
    assert!(matches!(refused, Some(ShmError::NotOurs { flaw: Flaw::Link, .. })), "{refused:?}");
    for refused in [shm::list(Some(&base)).err(), shm::clean(Some(&base)).err()] {
        assert!(matches!(refused, Some(ShmError::NotOurs { flaw: Flaw::Link, .. })), "{refused:?}");
    }
    assert!(is_whole(&victim));
}

#[test]
fn links_among_a_groups_files_are_not_followed_and_the_rest_is_cleaned() {
    let scratch = base();
    let victim = victim(scratch.path());
    let mut node = open(scratch.path(), "node").expect("opens");
    let group = scratch.path().join("base/lab");
    symlink(victim.join("lab/builder.node"), group.join("link.node")).expect("made");
    symlink(victim.join("lab/builder~samples.region"), group.join("dead~x.region")).expect("made");
    std::fs::write(group.join("dead.node"), "left by a killed process").expect("written");
    set_mode(&group.join("dead.node"), 0o600);

    let refused = node.connect("link", Reliability::Reliable);
    let Err(ConnectError::Host { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("symbolic link"), "{reason}");
    let base = scratch.path().join("base");
    let refused = shm::clean(Some(&base)).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|text| text.contains("link.node is a symbolic")));
    assert!(!group.join("dead.node").exists() && !group.join("dead~x.region").is_symlink());
    assert!(is_whole(&victim));
    assert_eq!(shm::list(Some(&base)).expect("readable").iter().filter(|of| of.alive).count(), 1);
}

#[test]
fn a_base_of_another_user_is_refused() {
    let scratch = base();
    if !is_root(scratch.path()) {
        return;
    }
    let taken = victim(scratch.path());
    chown(&taken, Some(OTHER_USER), None).expect("root");
    let says = format!("belongs to user {OTHER_USER} and not to user");
    refused_everywhere(&taken, Flaw::Owner { user: OTHER_USER }, &says);
    assert!(is_whole(&taken));
}

#[test]
fn files_of_another_user_in_a_group_are_neither_opened_nor_removed() {
    let scratch = base();
    if !is_root(scratch.path()) {
        return;
    }
    let mut node = open(scratch.path(), "node").expect("opens");
    let file = scratch.path().join("base/lab/other.node");
    std::fs::write(&file, "theirs").expect("written");
    set_mode(&file, 0o600);
    chown(&file, Some(OTHER_USER), None).expect("root");
    let refused = node.connect("other", Reliability::Reliable);
    let Err(ConnectError::Host { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("belongs to user 54321"), "{reason}");
    assert!(shm::clean(Some(&scratch.path().join("base"))).is_err());
    assert!(file.exists());
}

#[test]
fn a_base_that_others_may_enter_is_refused() {
    let scratch = base();
    let open_to_all = victim(scratch.path());
    set_mode(&open_to_all, 0o755);
    refused_everywhere(&open_to_all, Flaw::Mode { mode: 0o755 }, "open to other users (mode 755)");
}

#[test]
fn a_base_that_is_no_directory_and_a_node_that_is_no_file_are_refused() {
    let scratch = base();
    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("written");
    let expected = Flaw::Kind { expected: "directory" };
    refused_everywhere(&file, expected, "is not a directory");

    let mut node = open(scratch.path(), "node").expect("opens");
    let group = scratch.path().join("base/lab");
    std::fs::create_dir(group.join("folder.node")).expect("made");
    let pipe = std::process::Command::new("mkfifo").arg(group.join("pipe.node")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    let _socket = std::os::unix::net::UnixListener::bind(group.join("socket.node")).expect("bound");
    for other in ["folder", "pipe", "socket"] {
        // A pipe that is opened as a file would be waited for.
        let refused = node.connect(other, Reliability::Reliable);
        let Err(ConnectError::Host { reason, .. }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("is not a file"), "{other}: {reason}");
    }
}
