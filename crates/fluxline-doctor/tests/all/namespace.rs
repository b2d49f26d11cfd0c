//! The doctor inside a network namespace of its own: what drivers and the kernel answer is read
//! right, and what is changed there comes back. Nothing of the host's own is touched.

use std::process::Command;
use std::time::Duration;

use super::namespaces::{Namespaces, is_installed};
use fluxline_doctor::{Action, Files, HostFacts, Journal, Outcome, Setting, apply, undo};

/// Set in the process that runs inside.
const INSIDE: &str = "FLUXLINE_DOCTOR_INSIDE";

#[test]
#[ignore = "all: network namespaces"]
fn a_real_interface_is_read_changed_and_changed_back() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !is_installed("nft") || !is_installed("ethtool") {
        println!("skipped: nft or ethtool is not installed");
        return;
    }
    let between = match Namespaces::pair(1400) {
        Ok(between) => between,
        Err(reason) => return println!("skipped: {reason}"),
    };
    between.single_datagrams().expect("ethtool");
    between.lose(1, false).expect("nft");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    let name = "namespace::a_real_interface_is_read_changed_and_changed_back";
    command.args(["--exact", name, "--nocapture", "--include-ignored"]);
    command.env(INSIDE, "1");
    let mut command = between.inside_b(&command);
    let output = command.env(INSIDE, "1").output().expect("ip netns exec");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("all was as before"), "{said}");
}

fn read() -> HostFacts {
    HostFacts::read(&Files::this_host(), None)
}

/// The kernel says `up` up to a second after a link is.
fn read_when_up() -> HostFacts {
    for _ in 0..100 {
        let facts = read();
        if facts.cards.get("veB").is_some_and(|card| card.up) {
            return facts;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    read()
}

fn inside() {
    let facts = read_when_up();
    // Only in the test's own namespace may anything be changed.
    assert!(facts.cards.contains_key("veB") && !facts.cards.contains_key("eth0"));
    let card = &facts.cards["veB"];
    assert_eq!((card.mtu, card.up), (1400, true));
    assert!(card.addresses.contains(&Namespaces::B.parse().expect("an address")));
    assert_eq!(card.gro, Some(false), "ethtool switched it off");
    assert_eq!(card.ring, None, "a pair of interfaces has no descriptors");
    assert_eq!(card.channels.map(|queues| queues.now >= 1), Some(true));
    assert_eq!(facts.firewall.rules.map(|rules| rules.count), Some(1), "the rule that nft made");
    assert!(facts.judge(None).iter().any(|check| check.name == "MTU of veB"));
    change_and_back();
    somebody_else_changed_it();
    println!("all was as before");
}

fn change_and_back() {
    let file = |path: &str| Setting::File(path.into());
    let actions = [
        (file("/sys/class/net/veB/mtu"), "9000"),
        (file("/proc/sys/net/ipv4/conf/veB/rp_filter"), "2"),
        (Setting::Gro("veB".into()), "1"),
    ]
    .map(|(setting, value)| Action { setting, value: value.into() });
    let before = read();
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let host = Files::this_host();
    let mut journal = Journal::open(&state, "boot").expect("a journal");
    let steps = apply(&host, &mut journal, &actions).expect("written down");
    assert!(steps.iter().all(|step| matches!(step.outcome, Outcome::Set)), "{steps:?}");
    let changed = read();
    assert_eq!((changed.cards["veB"].mtu, changed.cards["veB"].gro), (9000, Some(true)));
    // A card that has no ring says so; the others are undone all the same.
    let ring = Action { setting: Setting::Ring("veB".into()), value: "4096".into() };
    let steps = apply(&host, &mut journal, &[ring]).expect("tried");
    assert!(matches!(steps[0].outcome, Outcome::Failed(_)), "{steps:?}");
    let steps = undo(&host, &mut journal, false).expect("undone");
    assert_eq!(steps.len(), 3);
    assert!(steps.iter().all(|step| matches!(step.outcome, Outcome::Set)), "{steps:?}");
    journal.close().expect("closed");
    let of = |facts: &HostFacts| (facts.cards["veB"].mtu, facts.cards["veB"].gro);
    assert_eq!(of(&read()), of(&before));
    assert!(!state.exists());
}

/// A value that somebody set after it was applied is said and left; forced, the first comes back.
fn somebody_else_changed_it() {
    let mtu = Setting::File("/sys/class/net/veB/mtu".into());
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let host = Files::this_host();
    let mut journal = Journal::open(&state, "boot").expect("a journal");
    let actions = [Action { setting: mtu, value: "9000".into() }];
    apply(&host, &mut journal, &actions).expect("written down");
    let by_hand = Command::new("ip").args(["link", "set", "veB", "mtu", "1300"]).status();
    assert!(by_hand.expect("ip").success());
    let steps = undo(&host, &mut journal, false).expect("tried");
    assert!(matches!(&steps[0].outcome, Outcome::Foreign(now) if now == "1300"), "{steps:?}");
    assert_eq!(read().cards["veB"].mtu, 1300, "left alone");
    let steps = undo(&host, &mut journal, true).expect("undone");
    assert!(matches!(steps[0].outcome, Outcome::Set), "{steps:?}");
    assert_eq!(read().cards["veB"].mtu, 1400);
    journal.close().expect("closed");
    assert!(!state.exists());
}
