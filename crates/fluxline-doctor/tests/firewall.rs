//! The doctor's judgement of a firewall against the kernel's: rules of nft in a namespace, a
//! sender outside, a socket inside. Each set of rules is judged, and then met by datagrams.

#[path = "../../fluxline/tests/namespaces/mod.rs"]
mod namespaces;

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fluxline_doctor::{Check, Files, HostFacts, Link, Load, Stream, Verdict};
use namespaces::{Namespaces, is_installed};

/// Set in the process that listens, and in the one that sends.
const PART: &str = "FLUXLINE_DOCTOR_FIREWALL";
const NAME: &str = "what_the_doctor_says_of_a_firewall_is_what_the_kernel_does";
const PORT: u16 = 6006;
/// Datagrams that reach the interface before they count as kept away.
const UNHEARD: u64 = 20;
/// The same where they are to pass: on a busy machine, the kernel looks at them late.
const UNHEARD_IF_EXPECTED: u64 = 2500;

/// Rules, and whether a datagram to the port passes them.
const RULES: &[(&str, bool)] = &[
    ("", true),
    ("chain in { type filter hook input priority 0; policy drop; }", false),
    ("chain in { type filter hook input priority 0; policy drop; udp dport 6006 accept; }", true),
    ("chain in { type filter hook input priority 0; policy drop; udp dport 6005 accept; }", false),
    ("chain in { type filter hook input priority 0; udp dport 6006 drop; }", false),
    ("chain in { type filter hook input priority 0; udp dport 6006 reject; }", false),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      udp dport { 53, 6000-6010 } accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      udp dport { 53, 6007-6010 } accept; }",
        false,
    ),
    ("chain in { type filter hook input priority 0; policy drop; udp dport != 22 accept; }", true),
    (
        "chain in { type filter hook input priority 0; policy drop; udp dport 6000-6010 accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; udp dport > 6006 accept; }",
        false,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; ct state established,related \
      accept; ct state invalid drop; iif lo accept; tcp dport 22 accept; }",
        false,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; ct state new udp dport 6006 \
      accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      ct state vmap { established : accept, related : accept, invalid : drop }; }",
        false,
    ),
    ("chain in { type filter hook input priority 0; policy drop; iifname \"veB\" accept; }", true),
    ("chain in { type filter hook input priority 0; policy drop; iifname \"ve*\" accept; }", true),
    (
        "chain in { type filter hook input priority 0; policy drop; iifname \"eth*\" accept; }",
        false,
    ),
    ("chain in { type filter hook input priority 0; policy drop; iif veB accept; }", true),
    (
        "chain sub { udp dport 6006 accept; }; chain in { type filter hook input priority 0; \
      policy drop; meta l4proto udp jump sub; }",
        true,
    ),
    (
        "chain sub { udp dport 6006 return; accept; }; \
         chain in { type filter hook input priority 0; \
      policy drop; meta l4proto udp jump sub; }",
        false,
    ),
    (
        "chain sub { counter; }; chain in { type filter hook input priority 0; policy drop; \
      meta nfproto ipv4 goto sub; accept; }",
        false,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      udp dport vmap { 53 : drop, 6006 : accept }; }",
        true,
    ),
    (
        "map ports { type inet_service : verdict; elements = { 6006 : drop }; }; \
      chain in { type filter hook input priority 0; udp dport vmap @ports; }",
        false,
    ),
    (
        "chain early { type filter hook prerouting priority raw; udp dport 6006 drop; }; \
      chain in { type filter hook input priority 0; accept; }",
        false,
    ),
    (
        "chain a { type filter hook input priority 0; accept; }; \
      chain b { type filter hook input priority 10; udp dport 6006 drop; }",
        false,
    ),
    (
        "chain early { type filter hook prerouting priority raw; udp dport 6006 notrack; }; \
      chain in { type filter hook input priority 0; policy drop; ct state untracked accept; }",
        true,
    ),
    ("chain in { type filter hook input priority 0; policy drop; ip protocol udp accept; }", true),
    ("chain in { type filter hook input priority 0; policy drop; ip6 nexthdr udp accept; }", false),
    (
        "chain in { type filter hook input priority 0; policy drop; \
         ip daddr 10.93.0.0/24 accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
         ip daddr != 10.93.0.2 accept; }",
        false,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; fib daddr type local accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      ip daddr . udp dport { 10.93.0.2 . 6006 } accept; }",
        true,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
      ip daddr . udp dport { 10.93.0.3 . 6006 } accept; }",
        false,
    ),
    (
        "chain away { type nat hook prerouting priority dstnat; udp dport 6006 redirect to :7; }",
        false,
    ),
    // What depends on more than is known is said so: words instead of a forecast.
    (
        "chain in { type filter hook input priority 0; policy drop; ip saddr 10.93.0.1 udp dport \
      6006 accept; }",
        true,
    ),
    ("chain in { type filter hook input priority 0; ip saddr 10.93.0.1 drop; }", false),
    (
        "set bad { type ipv4_addr; elements = { 10.93.0.1 }; }; \
      chain in { type filter hook input priority 0; ip saddr @bad drop; }",
        false,
    ),
    (
        "chain in { type filter hook input priority 0; policy drop; \
         limit rate 1000000/second accept; }",
        true,
    ),
    ("chain in { type filter hook input priority 0; numgen inc mod 2 < 1 drop; }", true),
    ("chain in { type filter hook input priority 0; @th,64,32 0x01020304 drop; }", true),
    ("chain in { type filter hook input priority 0; socket wildcard 1 drop; }", true),
];

#[test]
fn what_the_doctor_says_of_a_firewall_is_what_the_kernel_does() {
    match std::env::var(PART).as_deref() {
        Ok("send") => return send(),
        Ok(_) => return listen(),
        Err(_) => {}
    }
    if !is_installed("nft") {
        return println!("skipped: nft is not installed");
    }
    let between = match Namespaces::pair(1500) {
        Ok(between) => between,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let program = std::env::current_exe().expect("this test");
    let part = |part: &str| {
        let mut command = Command::new(&program);
        command.args(["--exact", NAME, "--nocapture"]).env(PART, part);
        command
    };
    let mut sender = Ended(
        between.inside_a(&part("send")).stdout(Stdio::null()).spawn().expect("ip netns exec"),
    );
    let output = between.inside_b(&part("listen")).output().expect("ip netns exec");
    sender.end();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("all met"), "{said}");
}

/// A process that does not outlive the test.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns nanoseconds since 1970.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_nanos() as u64
}

fn send() {
    // Each is a connection of its own: an older one keeps what was decided of it, for 30 s
    // (nf_conntrack_udp_timeout). These ports last for longer.
    for port in (10_000..=u16::MAX).cycle() {
        let socket = UdpSocket::bind((Namespaces::A, port)).expect("bound");
        let _ = socket.send_to(&now_ns().to_be_bytes(), (Namespaces::B, PORT));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn load(port: u16, rate_hz: f64) -> Load {
    let stream = Stream {
        name: "boards".into(),
        link: Link::Udp,
        senders: 1,
        rate_hz: Some(rate_hz),
        packet_bytes: 8,
        is_size_assumed: false,
        sockets: 1,
        buffer_bytes: 1 << 20,
        listen: vec![([0, 0, 0, 0], port).into()],
        peers: Vec::new(),
        interface: Some("veB".into()),
        busy_poll_us: 0,
    };
    Load { name: "test".into(), streams: vec![stream], ..Load::default() }
}

fn check(rule: &str, load: &Load) -> Check {
    let facts = HostFacts::read(&Files::this_host(), Some(load));
    let checks = facts.judge(Some(load));
    checks.into_iter().find(|check| check.rule.name == rule).expect("the check")
}

fn nft(text: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft");
    nft.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    assert!(nft.wait().expect("nft").success(), "{text}");
}

fn came_to_the_interface() -> u64 {
    let text = std::fs::read_to_string("/sys/class/net/veB/statistics/rx_packets").expect("there");
    text.trim().parse().expect("a number")
}

/// Returns true if a datagram arrives that was sent from now on: older ones met other rules.
fn arrives(socket: &UdpSocket, is_expected: bool) -> bool {
    let (began_ns, before) = (now_ns(), came_to_the_interface());
    let unheard = if is_expected { UNHEARD_IF_EXPECTED } else { UNHEARD };
    loop {
        let is_over = came_to_the_interface() >= before + unheard;
        let mut sent_ns = [0; 8];
        while socket.recv(&mut sent_ns).is_ok() {
            if u64::from_be_bytes(sent_ns) > began_ns {
                return true;
            }
        }
        if is_over {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn listen() {
    let socket = UdpSocket::bind((Namespaces::B, PORT)).expect("bound");
    socket.set_nonblocking(true).expect("set");
    for _ in 0..100 {
        let up = std::fs::read_to_string("/sys/class/net/veB/operstate").unwrap_or_default();
        if up.trim() == "up" {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut wrong = Vec::new();
    let mut sure = 0;
    for (rules, passes) in RULES {
        let rules = rules.replace("; ", ";\n").replace("{ type", "{\ntype");
        nft(&format!("flush ruleset\ntable inet t {{\n{rules}\n}}\n"));
        let check = check("firewall", &load(PORT, 500.0));
        let arrived = arrives(&socket, *passes);
        sure += u32::from(check.verdict != Verdict::Warn);
        // `Warn` says "may": never wrong, and followed by the command that shows the rule.
        let agrees = match check.verdict {
            Verdict::Good => *passes,
            Verdict::Bad => !*passes,
            Verdict::Warn => {
                check.remedy.as_ref().is_some_and(|text| text.contains("monitor trace"))
            }
        };
        if arrived != *passes || !agrees {
            let found =
                format!("{rules}\narrives {arrived}, {:?}: {:?}", check.verdict, check.effect);
            println!("{found}\n");
            wrong.push(found);
            continue;
        }
        // What it advises lets them through, where a rule of these chains kept them.
        if check.verdict == Verdict::Bad {
            let remedy = check.remedy.expect("a remedy");
            let command = remedy.strip_prefix("sudo nft ").expect("of nft");
            nft(command);
            assert!(arrives(&socket, true), "{rules}: {command}");
        }
    }
    assert!(wrong.is_empty(), "{} of {} are judged wrongly", wrong.len(), RULES.len());
    println!("{sure} of {} sets of rules judged for sure", RULES.len());
    assert!(sure >= 10, "plain rules on the port are judged for sure");
    tracking();
    println!("all met");
}

/// The commands that keep ports out of connection tracking do so, and then it is said.
fn tracking() {
    nft("flush ruleset\ntable inet t {\nchain in { type filter hook input priority 0; policy \
         accept; ct state invalid drop; }\n}\n");
    let slow = check("conntrack", &load(PORT, 500.0));
    if slow.found == "loaded, tracks nothing" {
        return println!("skipped: connections are not tracked here");
    }
    assert_eq!(slow.verdict, Verdict::Good, "{slow:?}");
    let fast = check("conntrack", &load(PORT, 1e6));
    assert_eq!(fast.verdict, Verdict::Warn, "{fast:?}");
    let remedy = fast.remedy.expect("a remedy");
    let commands = remedy.strip_prefix("sudo nft '").and_then(|rest| rest.strip_suffix('\''));
    nft(commands.expect("quoted"));
    let kept_out = check("conntrack", &load(PORT, 1e6));
    assert_eq!(kept_out.verdict, Verdict::Good, "{kept_out:?}");
    let other = check("conntrack", &load(PORT + 1, 1e6));
    assert_eq!(other.verdict, Verdict::Warn, "another port is tracked: {other:?}");
}
