//! Network namespaces of a test's own, joined by veth pairs, with faults that the kernel injects.
//!
//! They carry names of their own, are gone when [`Namespaces`] is dropped, and see nothing of the
//! host's interfaces. Programs run inside by `ip netns exec`, which needs root.

#![allow(dead_code, reason = "tests of other crates include this file and use a part of it")]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Namespaces `A` and `B`, and perhaps a router between them.
pub struct Namespaces {
    a: String,
    b: String,
    router: Option<String>,
}

/// Runs a command; `Err` says what it said.
fn run(words: &[&str]) -> Result<String, String> {
    let (program, arguments) = words.split_first().expect("a command");
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}`: {}", words.join(" "), said.trim()))
}

/// Runs one command a line, words apart by blanks.
fn run_lines(lines: &str) -> Result<(), String> {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        run(&words)?;
    }
    Ok(())
}

/// Returns true if a program is installed.
pub fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

impl Namespaces {
    /// Addresses of the two ends.
    pub const A: &'static str = "10.93.0.1";
    pub const B: &'static str = "10.93.0.2";
    /// The end behind a router.
    pub const FAR: &'static str = "10.93.1.2";

    fn names() -> Namespaces {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let of = |end: &str| format!("flx{}n{number}{end}", std::process::id());
        Namespaces { a: of("a"), b: of("b"), router: None }
    }

    /// Two namespaces on one wire. `Err`: why that is not possible here.
    pub fn pair(mtu: usize) -> Result<Namespaces, String> {
        let new = Namespaces::names();
        let (a, b) = (&new.a, &new.b);
        run_lines(&format!(
            "ip netns add {a}
             ip netns add {b}
             ip link add veA netns {a} type veth peer name veB netns {b}
             ip -n {a} link set veA mtu {mtu} txqueuelen 10000
             ip -n {b} link set veB mtu {mtu} txqueuelen 10000
             ip -n {a} addr add {A}/24 dev veA
             ip -n {b} addr add {B}/24 dev veB",
            A = Namespaces::A,
            B = Namespaces::B,
        ))?;
        new.set_up(&[(a, "lo"), (a, "veA"), (b, "lo"), (b, "veB")])?;
        Ok(new)
    }

    /// `A` and [`Namespaces::FAR`] with interfaces of MTU 9000, and a router with MTU 1500 on the
    /// way, which drops what is longer.
    pub fn routed() -> Result<Namespaces, String> {
        let mut new = Namespaces::names();
        let router = new.a.replace('n', "r");
        new.router = Some(router.clone());
        let (a, b, r) = (&new.a, &new.b, &router);
        run_lines(&format!(
            "ip netns add {a}
             ip netns add {b}
             ip netns add {r}
             ip link add veA netns {a} type veth peer name reA netns {r}
             ip link add veB netns {b} type veth peer name reB netns {r}
             ip -n {a} link set veA mtu 9000
             ip -n {b} link set veB mtu 9000
             ip -n {r} link set reA mtu 9000
             ip -n {r} link set reB mtu 1500
             ip -n {a} addr add {A}/24 dev veA
             ip -n {b} addr add {FAR}/24 dev veB
             ip -n {r} addr add 10.93.0.254/24 dev reA
             ip -n {r} addr add 10.93.1.254/24 dev reB
             ip netns exec {r} sysctl -qw net.ipv4.ip_forward=1",
            A = Namespaces::A,
            FAR = Namespaces::FAR,
        ))?;
        let interfaces = [(a, "lo"), (a, "veA"), (b, "lo"), (b, "veB"), (r, "reA"), (r, "reB")];
        new.set_up(&interfaces)?;
        run_lines(&format!(
            "ip -n {a} route add default via 10.93.0.254
             ip -n {b} route add default via 10.93.1.254"
        ))?;
        Ok(new)
    }

    fn set_up(&self, interfaces: &[(&String, &str)]) -> Result<(), String> {
        for (namespace, interface) in interfaces {
            run(&["ip", "-n", namespace, "link", "set", interface, "up"])?;
        }
        Ok(())
    }

    /// The same command, inside namespace A.
    pub fn inside_a(&self, command: &Command) -> Command {
        inside(&self.a, command)
    }

    /// The same command, inside namespace B.
    pub fn inside_b(&self, command: &Command) -> Command {
        inside(&self.b, command)
    }

    /// Takes A's end of the wire away, or gives it back.
    pub fn set_link(&self, up: bool) -> Result<(), String> {
        let state = if up { "up" } else { "down" };
        run(&["ip", "-n", &self.a, "link", "set", "veA", state])?;
        Ok(())
    }

    /// Trains are taken apart before they reach the wire and not joined behind it, so that faults
    /// meet single datagrams. Needs `ethtool`.
    pub fn single_datagrams(&self) -> Result<(), String> {
        let (a, b) = (&self.a, &self.b);
        run_lines(&format!(
            "ip netns exec {a} ethtool -K veA gso off tso off tx-udp-segmentation off gro off
             ip netns exec {b} ethtool -K veB gso off tso off tx-udp-segmentation off gro off"
        ))
    }

    /// Drops this share of what reaches B, and with `both` of what reaches A too; UDP and TCP.
    /// 0 ends it. Needs `nft`.
    pub fn lose(&self, per_100_000: u32, both: bool) -> Result<(), String> {
        let ends = if both { vec![&self.b, &self.a] } else { vec![&self.b] };
        for namespace in ends {
            let nft = |command: &str| {
                run(&["ip", "netns", "exec", namespace, "nft", command]).map(|_| ())
            };
            let _ = nft("delete table ip lossy");
            if per_100_000 == 0 {
                continue;
            }
            nft("add table ip lossy")?;
            nft("add chain ip lossy pre { type filter hook prerouting priority -300; }")?;
            nft(&format!(
                "add rule ip lossy pre ip protocol {{ tcp, udp }} \
                 numgen random mod 100000 < {per_100_000} counter drop"
            ))?;
        }
        Ok(())
    }

    /// Sends this share of what leaves A twice. Needs `nft`.
    pub fn duplicate(&self, per_100_000: u32) -> Result<(), String> {
        let nft = |command: &str| run(&["ip", "netns", "exec", &self.a, "nft", command]);
        nft("add table netdev twice")?;
        nft("add chain netdev twice out { type filter hook egress device veA priority 0; }")?;
        nft(&format!(
            "add rule netdev twice out meta protocol ip numgen random mod 100000 < {per_100_000} \
             counter dup to veA"
        ))?;
        Ok(())
    }

    /// Lets this share of what leaves A take a second, slow wire, so that it comes late.
    pub fn reorder(&self, per_100_000: u32) -> Result<(), String> {
        let (a, b, to) = (&self.a, &self.b, Namespaces::B);
        let mac = "02:93:00:00:01:02";
        run_lines(&format!(
            "ip link add slowA netns {a} type veth peer name slowB netns {b}
             ip -n {b} link set slowB address {mac}
             ip -n {a} link set slowA up
             ip -n {b} link set slowB up
             ip netns exec {b} sysctl -qw net.ipv4.conf.all.rp_filter=0
             ip netns exec {b} sysctl -qw net.ipv4.conf.slowB.rp_filter=0
             ip -n {a} neigh replace {to} lladdr {mac} dev slowA nud permanent
             ip netns exec {a} tc qdisc replace dev slowA root tbf rate 100mbit burst 10000 \
             limit 300000
             ip -n {a} rule add fwmark 1 table 100
             ip -n {a} route replace {to}/32 dev slowA src {A} table 100",
            A = Namespaces::A,
        ))?;
        let nft = |command: &str| run(&["ip", "netns", "exec", a, "nft", command]);
        nft("add table ip late")?;
        nft("add chain ip late out { type route hook output priority -150; }")?;
        nft(&format!(
            "add rule ip late out ip protocol udp numgen random mod 100000 < {per_100_000} \
             counter meta mark set 1"
        ))?;
        Ok(())
    }

    /// Packets that the rules of nftables met so far, in both namespaces.
    pub fn met(&self) -> u64 {
        let rules = [&self.a, &self.b].map(|namespace| {
            run(&["ip", "netns", "exec", namespace, "nft", "list", "ruleset"]).unwrap_or_default()
        });
        let words: Vec<&str> = rules.iter().flat_map(|text| text.split_whitespace()).collect();
        let counts = words.windows(2).filter(|pair| pair[0] == "packets");
        counts.filter_map(|pair| pair[1].parse::<u64>().ok()).sum()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in [Some(&self.a), Some(&self.b), self.router.as_ref()].into_iter().flatten()
        {
            let _ = run(&["ip", "netns", "del", namespace]);
        }
    }
}

/// `ip netns exec` replaces itself by the command: killing one kills the other.
fn inside(namespace: &str, command: &Command) -> Command {
    let mut outer = Command::new("ip");
    outer.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}
