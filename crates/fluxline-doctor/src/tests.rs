//! Rules on hosts that are folders, each made of one file of `hosts/`, and on this host.

use std::fs;
use std::path::Path;

use super::*;

/// Makes a host's files: `path = text` with `\n` for new lines, `path -> target` for links.
fn host(text: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let place = |path: &str| root.path().join(path.trim_start_matches('/'));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((path, value)) = line.split_once(" = ") {
            write(&place(path), &format!("{}\n", value.replace("\\n", "\n")));
        } else if let Some((path, target)) = line.split_once(" -> ") {
            // The device is a folder in the tree as well; so the link is one into it.
            let (from, to) = (place(path), place("/devices").join(target.replace("../", "")));
            fs::create_dir_all(&to).unwrap();
            fs::create_dir_all(from.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&to, &from).unwrap();
        }
    }
    root
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn facts(text: &str) -> HostFacts {
    HostFacts::read(&Files::below(host(text).path()), None)
}

fn find<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}: {checks:#?}"))
}

/// 8 boards that send 1000 B each at 100 kHz, to all interfaces.
fn boards() -> Load {
    let stream = Stream {
        name: "boards".into(),
        link: Link::Udp,
        senders: 8,
        rate_hz: Some(100_000.0),
        packet_bytes: 1000,
        is_size_assumed: false,
        sockets: 1,
        buffer_bytes: 64 << 20,
        listen: vec!["0.0.0.0:6006".parse().unwrap()],
        peers: Vec::new(),
        interface: None,
        busy_poll_us: 0,
    };
    Load { name: "test".into(), streams: vec![stream], cores: vec![0, 1], ..Load::default() }
}

const LAPTOP: &str = include_str!("hosts/laptop.txt");
const SERVER: &str = include_str!("hosts/server.txt");
const CONTAINER: &str = include_str!("hosts/container.txt");
const VIRTUAL: &str = include_str!("hosts/vm.txt");

#[test]
fn a_laptop_as_shipped_gets_each_command() {
    let mut facts = facts(LAPTOP);
    let card = facts.cards.get_mut("enp0s31f6").unwrap();
    card.ring = Some(InUse { now: 256, max: 4096 });
    card.coalescing = Some((200, false));
    card.gro = Some(false);
    let checks = facts.judge(None);
    assert!(checks.is_sorted_by(|a, b| a.verdict >= b.verdict));
    let remedy = |name: &str| find(&checks, name).remedy.clone().unwrap();
    assert_eq!(find(&checks, "net.core.rmem_max").verdict, Verdict::Bad);
    assert_eq!(remedy("net.core.rmem_max"), "sudo sysctl -w net.core.rmem_max=67108864");
    assert_eq!(find(&checks, "net.core.rmem_default").verdict, Verdict::Good);
    assert!(remedy("net.core.netdev_max_backlog").ends_with("netdev_max_backlog=10000"));
    let governor = find(&checks, "CPU governor");
    assert_eq!(governor.found, "performance on 1 cores, powersave on 3 cores");
    assert_eq!(governor.actions.len(), 3);
    assert!(remedy("CPU governor").starts_with("echo performance | sudo tee /sys/"));
    let idle = find(&checks, "idle states");
    assert_eq!((idle.verdict, idle.actions.len()), (Verdict::Warn, 1), "C10 alone is too deep");
    assert!(remedy("clock source").starts_with("echo tsc | sudo tee"));
    assert!(remedy("transparent huge pages").starts_with("echo madvise | sudo tee"));
    assert_eq!(remedy("receive ring of enp0s31f6"), "sudo ethtool -G enp0s31f6 rx 4096");
    assert!(remedy("interrupt coalescing of enp0s31f6").ends_with("rx-usecs 50"));
    assert_eq!(remedy("GRO of enp0s31f6"), "sudo ethtool -K enp0s31f6 gro on");
    assert_eq!(find(&checks, "MTU of enp0s31f6").verdict, Verdict::Good);
    assert!(
        !checks.iter().any(|check| check.name.contains("wlan0") || check.name.ends_with(" lo"))
    );
}

#[test]
fn an_experiment_gets_the_effect_of_each_finding() {
    let mut facts = facts(LAPTOP);
    facts.cards.get_mut("enp0s31f6").unwrap().ring = Some(InUse { now: 256, max: 4096 });
    let checks = facts.judge(Some(&boards()));
    let effect = |name: &str| find(&checks, name).effect.clone().unwrap_or_default();
    let buffer = effect("net.core.rmem_max");
    assert!(
        buffer.starts_with("8 sources x 1000 B at 100 kHz of `boards` fill 208 KiB in 0.27 ms")
    );
    assert!(effect("receive ring of enp0s31f6").contains("256 descriptors hold 0.32 ms"));
    assert!(effect("idle states").starts_with("712 packets (695 KiB) come while"), "{checks:#?}");
    // 8 x 100 kHz x (1000 + 28 + 38) byte x 8 bit.
    let link = find(&checks, "link of enp0s31f6");
    assert_eq!(link.verdict, Verdict::Bad);
    assert_eq!(link.effect.as_deref(), Some("The experiment needs 6.8 Gb/s of 1 Gb/s."));
    assert_eq!(find(&checks, "SMT siblings").verdict, Verdict::Warn, "0 and 1 are one core");
    assert_eq!(find(&checks, "irqbalance").verdict, Verdict::Warn);
    let interrupts = find(&checks, "interrupts of enp0s31f6");
    assert_eq!(
        interrupts.actions[0].command(),
        "echo 2,3 | sudo tee /proc/irq/130/smp_affinity_list"
    );
}

#[test]
fn buffers_that_last_long_enough_for_an_experiment_are_good() {
    let facts = facts(LAPTOP);
    let mut load = boards();
    let of = |load: &Load, name| find(&facts.judge(Some(load)), name).clone();
    assert_eq!(of(&load, "net.core.rmem_max").verdict, Verdict::Bad);
    assert_eq!(of(&load, "net.core.netdev_max_backlog").verdict, Verdict::Warn);
    load.streams[0].rate_hz = Some(100.0);
    for name in ["net.core.rmem_max", "net.core.netdev_max_backlog"] {
        let check = of(&load, name);
        assert_eq!((check.verdict, check.actions.len()), (Verdict::Good, 0), "{check:?}");
    }
}

#[test]
fn only_what_concerns_an_experiment_is_shown() {
    let facts = facts(LAPTOP);
    let mut load = boards();
    load.streams[0].listen = vec!["127.0.0.1:6006".parse().unwrap()];
    let names = |load: &Load| -> Vec<&str> {
        facts.judge(Some(load)).iter().map(|check| check.rule.name).collect()
    };
    let loopback = names(&load);
    assert!(!loopback.contains(&"mtu") && !loopback.contains(&"rp-filter"), "{loopback:?}");
    assert!(loopback.contains(&"backlog") && loopback.contains(&"rmem-max"));
    load.streams[0].link = Link::Shared;
    let shared = names(&load);
    assert!(shared.contains(&"transparent-huge-pages"), "{shared:?}");
    assert!(!shared.contains(&"rmem-max") && !shared.contains(&"conntrack"), "{shared:?}");
}

#[test]
fn a_rate_that_nothing_says_is_assumed_from_the_link_and_said() {
    let facts = facts(LAPTOP);
    let mut load = boards();
    load.streams[0].rate_hz = None;
    load.assume(&facts);
    assert_eq!(load.streams[0].rate_hz, Some(1e9 / 8.0 / 1000.0 / 8.0));
    assert!(load.assumptions[0].contains("1 Gb/s assumed (the speed of enp0s31f6)"));
    let checks = facts.judge(Some(&load));
    assert_eq!(find(&checks, "link of enp0s31f6").verdict, Verdict::Good, "it proves nothing");
}

#[test]
fn packets_longer_than_the_mtu_are_reported_and_jumbo_frames_only_where_they_help() {
    let facts = facts(LAPTOP);
    let mut load = boards();
    load.streams[0].packet_bytes = 8000;
    let mtu = |load: &Load| find(&facts.judge(Some(load)), "MTU of enp0s31f6").clone();
    assert_eq!(mtu(&load).verdict, Verdict::Bad);
    assert_eq!(mtu(&load).remedy.unwrap(), "sudo ip link set enp0s31f6 mtu 9000");
    load.streams[0].packet_bytes = 20_000;
    assert!(mtu(&load).actions.is_empty());
    (load.streams[0].packet_bytes, load.streams[0].is_size_assumed) = (8000, true);
    assert_eq!((mtu(&load).verdict, mtu(&load).actions.len()), (Verdict::Warn, 0), "only a guess");
}

#[test]
fn the_quota_and_the_memory_of_a_container_are_reported() {
    let facts = facts(CONTAINER);
    assert_eq!(facts.limits.quota, Some((150_000, 100_000)));
    let mut load = boards();
    load.memory_bytes = 1 << 30;
    load.cores = vec![7];
    let checks = facts.judge(Some(&load));
    let quota = find(&checks, "container's CPU quota");
    assert_eq!(quota.verdict, Verdict::Bad, "it was used up 12 times");
    let effect = quota.effect.as_deref().unwrap();
    assert!(effect.starts_with("It may stand still for 62 ms; 50 thousand packets"), "{effect}");
    assert_eq!(find(&checks, "container's memory limit").verdict, Verdict::Bad);
    assert_eq!(find(&checks, "cores allowed").verdict, Verdict::Bad);
    assert_eq!(find(&facts.judge(None), "locked memory allowed").verdict, Verdict::Warn);
}

#[test]
fn the_strictest_group_above_counts_and_the_older_hierarchy_is_read() {
    let nested = "/proc/self/cgroup = 0::/a/b\n/sys/fs/cgroup/a/cpu.max = 50000 100000\n\
        /sys/fs/cgroup/a/b/cpu.max = max 100000\n/sys/fs/cgroup/a/b/memory.max = max\n";
    assert_eq!(facts(nested).limits.quota, Some((50_000, 100_000)));
    assert_eq!(facts(nested).limits.memory_bytes, None);
    let older = "/proc/self/cgroup = 4:memory:/x\\n1:cpu,cpuacct:/x\n\
        /sys/fs/cgroup/cpu/x/cpu.cfs_quota_us = 20000\n\
        /sys/fs/cgroup/cpu/x/cpu.cfs_period_us = 100000\n\
        /sys/fs/cgroup/cpu/cpu.cfs_quota_us = -1\n\
        /sys/fs/cgroup/memory/x/memory.limit_in_bytes = 9223372036854771712\n";
    assert_eq!(facts(older).limits.quota, Some((20_000, 100_000)));
    assert_eq!(facts(older).limits.memory_bytes, None);
}

#[test]
fn a_server_made_ready_is_all_good() {
    let facts = facts(SERVER);
    for check in facts.judge(None) {
        assert_eq!((check.verdict, &check.remedy), (Verdict::Good, &None), "{check:?}");
    }
    let mut load = boards();
    load.cores = vec![2, 3];
    for check in facts.judge(Some(&load)) {
        assert_eq!(check.verdict, Verdict::Good, "{check:?}");
    }
    load.streams[0].buffer_bytes = 4 << 20;
    let checks = facts.judge(Some(&load));
    let buffer = find(&checks, "net.core.rmem_max");
    assert!(buffer.actions.is_empty(), "the experiment asks for too little, not the host");
    assert_eq!(buffer.remedy.as_deref(), Some("in `boards`: receive-buffer-bytes = 40894464"));
}

#[test]
fn a_virtual_machine_is_read_as_it_was_captured() {
    let facts = facts(VIRTUAL);
    let card = &facts.cards["eth0"];
    assert_eq!((card.up, card.is_device, card.speed_mbits), (true, true, None));
    let checks = facts.judge(Some(&boards()));
    let interrupts = find(&checks, "interrupts of eth0");
    assert!(interrupts.found.starts_with("2 on core"), "input and output: {interrupts:?}");
    assert_eq!(find(&checks, "clock source").verdict, Verdict::Good);
    assert_eq!(find(&checks, "idle states").verdict, Verdict::Good);
}

#[test]
fn threads_that_take_packets_harm_only_where_a_reader_is_pinned_beside_them() {
    let threads = |cores: &str| {
        format!(
            "{LAPTOP}/sys/class/net/enp0s31f6/threaded = 1\n/proc/77/comm = napi/enp0s31f6-\n\
             /proc/77/status = Name:\tnapi/enp0s31f6-\\nCpus_allowed_list:\t{cores}\n"
        )
    };
    let of = |text: &str, load: Option<&Load>| {
        find(&facts(text).judge(load), "threaded NAPI of enp0s31f6").clone()
    };
    let beside = of(&threads("0-3"), Some(&boards()));
    assert_eq!(beside.verdict, Verdict::Warn);
    assert!(beside.effect.unwrap().starts_with("They may run on core 0,1, where"));
    assert!(beside.remedy.unwrap().contains("taskset -pc 2,3 $thread"));
    assert_eq!(of(&threads("2-3"), Some(&boards())).verdict, Verdict::Good, "kept apart");
    assert_eq!(of(&threads("0-3"), None).verdict, Verdict::Good, "nothing is pinned");
    let unseen = of(&format!("{LAPTOP}/sys/class/net/enp0s31f6/threaded = 1\n"), Some(&boards()));
    assert_eq!(unseen.verdict, Verdict::Warn, "nobody knows where they run: {unseen:?}");
}

#[test]
fn drops_since_boot_name_their_place() {
    let mut facts = facts(LAPTOP);
    facts.losses.kernel.drops.softnet_dropped = 3;
    facts.losses.softnet = vec![Softnet::default(), Softnet { dropped: 3, ..Softnet::default() }];
    facts.losses.kernel.interfaces.insert("enp0s31f6".into(), 12);
    let card = facts.cards.get_mut("enp0s31f6").unwrap();
    card.drops.insert("rx_missed_errors".into(), 12);
    let checks = facts.judge(None);
    assert_eq!(find(&checks, "softnet drops since boot").found, "3 on core 1");
    let drops = find(&checks, "drops since boot of enp0s31f6");
    assert_eq!(drops.found, "12 (rx_missed_errors 12)");
    assert!(drops.remedy.as_deref().unwrap().contains("ethtool -S enp0s31f6"));
    let plan = plan(&checks);
    let backlog = plan.iter().filter(|of| of.command().contains("netdev_max_backlog"));
    let values: Vec<&str> = backlog.map(|action| action.value.as_str()).collect();
    assert_eq!(values, ["250000"], "two checks want it; the larger value is for both");
}

#[test]
fn a_full_table_of_connections_is_bad_and_can_be_mended() {
    let mut facts = facts(LAPTOP);
    facts.firewall.tracked = Some((262_143, 262_144));
    let checks = facts.judge(None);
    let tracking = find(&checks, "connection tracking");
    assert_eq!(tracking.verdict, Verdict::Bad);
    assert!(tracking.actions[0].command().ends_with("nf_conntrack_max=1048576"));
}

#[test]
fn a_host_that_hides_everything_is_not_accused() {
    for check in facts("").judge(None) {
        assert_eq!(check.remedy, None, "{check:?}");
        assert_ne!(check.verdict, Verdict::Bad, "{check:?}");
    }
}

#[test]
fn garbage_in_every_file_is_read_without_failing() {
    let mut garbage = String::new();
    for line in [LAPTOP, SERVER, CONTAINER, VIRTUAL].iter().flat_map(|text| text.lines()) {
        let Some((path, _)) = line.split_once(" = ") else { continue };
        garbage.push_str(&format!("{path} = -1 : \u{fffd} 99999999999999999999999 [ max\\n:\n"));
    }
    let checks = facts(&garbage).judge(Some(&boards()));
    assert!(!checks.is_empty());
}

#[test]
fn this_host_is_read_without_failing() {
    let rows = document(&Through::Anything);
    assert!(rows.len() > 5, "{rows:?}");
    for check in checks() {
        println!("{check:?}");
        assert!(!check.name.is_empty() && !check.wanted.is_empty());
    }
}

#[test]
fn names_of_rules_differ_and_every_rule_is_complete() {
    let rules = rules();
    let all: Vec<&Rule> = rules.iter().flat_map(|(_, rules)| rules.iter().copied()).collect();
    for (number, rule) in all.iter().enumerate() {
        assert!(all[..number].iter().all(|other| other.name != rule.name), "{}", rule.name);
        for text in [rule.title, rule.why, rule.limit, rule.source, rule.remedy] {
            assert!(!text.is_empty() && !text.contains('|'), "{}: {text}", rule.name);
        }
    }
}

#[test]
fn the_page_of_checks_is_fresh() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.ends_with(&table()), "docs/doctor.md is stale: `fluxline doctor --table` has it");
}

#[test]
fn a_document_has_nothing_of_interfaces_that_the_link_does_not_go_through() {
    let names = |through: Through| -> Vec<String> {
        let mut facts = facts(LAPTOP);
        facts.losses.kernel.interfaces.insert("enp0s31f6".into(), 12);
        through.narrow(&mut facts);
        rows(&through, facts.judge(None)).into_iter().map(|row| row.name).collect()
    };
    let is_of = |name: &str, all: &[String]| all.iter().any(|one| one.ends_with(name));
    let all = names(Through::Anything);
    assert_eq!(all, names_of(&facts(LAPTOP), "enp0s31f6"));
    let card = names(Through::Interface("enp0s31f6".into()));
    assert!(is_of("MTU of enp0s31f6", &card) && is_of("net.core.rmem_max", &card), "{card:?}");
    let other = names(Through::Interface("wlan7".into()));
    assert!(!is_of("enp0s31f6", &other) && is_of("net.core.rmem_max", &other), "{other:?}");
    let loopback = names(Through::Loopback);
    assert!(!is_of("enp0s31f6", &loopback) && is_of("net.core.rmem_max", &loopback));
    let memory = names(Through::Memory);
    assert!(!is_of("net.core.rmem_max", &memory) && is_of("CPU governor", &memory), "{memory:?}");
}

/// The names of all checks where that interface has lost packets.
fn names_of(facts: &HostFacts, interface: &str) -> Vec<String> {
    let mut facts = facts.clone();
    facts.losses.kernel.interfaces.insert(interface.into(), 12);
    facts.judge(None).into_iter().map(|check| check.name).collect()
}
