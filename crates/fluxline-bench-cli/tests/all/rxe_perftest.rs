//! The programs of perftest, on Linux's software RDMA device (rdma_rxe), measure against
//! `fluxline rdma`, as its client and as its server.
//!
//! The device lives in a virtual machine; `tools/rxe/test.sh` makes it, boots it and runs these
//! tests, one after the other, in its network namespace. `FLUXLINE_RXE` names the two addresses,
//! ours and the device's, and a port that is not used here; a shell listens at port 2323. Without
//! it the tests say that they are skipped.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{fluxline, number};
use serde_json::Value;

/// An emulated processor is slow; no test takes longer than this.
const SLOW: Duration = Duration::from_secs(60);
const SHELL_PORT: u16 = 2323;
/// The order of the device's GIDs: link-local, IPv4, IPv6.
const GID_OF_IPV6: &str = "2";
const PROGRAMS: [&str; 8] = [
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
];
/// The exchange runs over IPv4 always: perftest's TCP connection has no other family.
const OWN: &str = "10.77.0.1";
const DEVICE: &str = "10.77.0.2";

/// The two ends.
struct World {
    own: IpAddr,
    device: IpAddr,
}

impl World {
    /// Returns the ends; `None` without a device.
    fn new() -> Option<World> {
        let Ok(words) = std::env::var("FLUXLINE_RXE") else {
            println!("skipped: tools/rxe/test.sh runs this test");
            return None;
        };
        let [own, device, _] = words.split(' ').collect::<Vec<_>>()[..] else {
            panic!("FLUXLINE_RXE=`OWN DEVICE PORT`, not `{words}`");
        };
        let [own, device] = [own, device].map(|ip| ip.parse::<IpAddr>().expect("an address"));
        Some(World { own, device })
    }

    /// All programs; over IPv6 two of them, to save time.
    fn programs(&self) -> &'static [&'static str] {
        if self.own.is_ipv6() { &PROGRAMS[..2] } else { &PROGRAMS }
    }

    /// The words of our side for these addresses.
    fn our_words(&self) -> [String; 2] {
        [format!("--own={}", self.own), format!("--peer={}", self.device)]
    }

    /// The words of the device's side. Without -F, perftest ends before its report when its
    /// estimate of the processor's clock scatters, as it does in a busy emulator.
    fn their_words(&self) -> String {
        let gid = if self.own.is_ipv6() { format!("-x {GID_OF_IPV6}") } else { String::new() };
        format!("-d rxe0 -F {gid}")
    }

    /// Starts our server.
    fn serve(&self, program: &str, words: &[&str]) -> Ours {
        let listen = ["rdma", "serve", program, "--listen", OWN, "--json"];
        let ours = Ours::start(&[&listen, words].concat(), &self.our_words());
        // The perftest client does not try again.
        let end = Instant::now() + SLOW;
        while !listens() {
            assert!(Instant::now() < end, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        ours
    }

    /// Runs perftest's client in the machine; returns what it says.
    fn client(&self, program: &str, words: &str) -> String {
        let said = shell(&format!("{program} {} {words} {OWN} 2>&1", self.their_words()));
        println!("{said}");
        said
    }

    /// Runs our client against perftest's server; returns the result and what the server says.
    fn connect(&self, program: &str, words: &[&str], their_words: &str) -> (Value, String) {
        let theirs = self.their_words();
        shell(&format!(
            "({program} {theirs} {their_words} >/tmp/server 2>&1; echo END >>/tmp/server) &"
        ));
        std::thread::sleep(Duration::from_secs(1));
        let connect = ["rdma", "connect", program, DEVICE, "--json"];
        let ours = Ours::start(&[&connect, words].concat(), &self.our_words()).end();
        let said = shell(
            "for i in 1 2 3 4 5 6; do grep -q END /tmp/server && break; sleep 1; done; \
                          cat /tmp/server",
        );
        let (status, document, ours) = ours;
        assert_eq!(status, Some(0), "{program}: {ours} The server: {said}");
        let ours = serde_json::from_str(&document).expect("JSON");
        (ours, said)
    }
}

/// Returns true when something listens at perftest's port. Nothing connects: a server counts that.
fn listens() -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    table.lines().any(|line| line.contains(":4853 ") && line.contains(" 0A "))
}

/// Runs a command line in the machine and returns its output.
fn shell(line: &str) -> String {
    let address: SocketAddr = format!("{DEVICE}:{SHELL_PORT}").parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("the shell listens");
    stream.set_read_timeout(Some(SLOW)).expect("possible");
    let line = format!("export LD_LIBRARY_PATH=/lib PATH=/bin; {line}\necho =E''ND=\n");
    stream.write_all(line.as_bytes()).expect("it listens");
    let mut said = Vec::new();
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(&said).contains("=END=") {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => said.extend(&bytes[..count]),
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&said)),
        }
    }
    String::from_utf8_lossy(&said).replace("=END=", "")
}

/// Our program while it runs; killed when it is dropped.
struct Ours(std::process::Child);

impl Ours {
    fn start(words: &[&str], more: &[String]) -> Ours {
        let mut command = fluxline();
        command.args(words).args(more).args(["--seconds", "20"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Ours(command.spawn().expect("the program starts"))
    }

    /// Waits for its end; returns the status, its document and its messages.
    fn end(mut self) -> (Option<i32>, String, String) {
        let end = Instant::now() + SLOW;
        while self.0.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < end, "our program does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.0.wait().expect("ended").code();
        let (mut document, mut said) = (String::new(), String::new());
        self.0.stdout.take().expect("piped").read_to_string(&mut document).expect("text");
        self.0.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (status, document, said)
    }

    fn result(self) -> Value {
        let (status, document, said) = self.end();
        assert_eq!(status, Some(0), "{said}");
        serde_json::from_str(&document).expect("JSON")
    }

    /// The last sentence of a failure.
    fn failure(self) -> String {
        let (status, _, said) = self.end();
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        let document: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{said}"));
        document["error"].as_str().expect("a sentence").to_owned()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Drops one datagram of RoCEv2 in `count`, each way, until the value is dropped.
struct Loss;

impl Loss {
    fn one_in(count: u32) -> Loss {
        let rule = format!("udp dport 4791 numgen random mod {count} == 0 drop");
        let hook = |hook| format!("type filter hook {hook} device \"tap0\" priority 0; {rule};");
        let (input, output) = (hook("ingress"), hook("egress"));
        let table =
            format!("table netdev rxept {{\nchain in {{ {input} }}\nchain out {{ {output} }}\n}}");
        assert!(Command::new("nft").arg(table).status().expect("nft is installed").success());
        Loss
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        let _ = Command::new("nft").args(["delete", "table", "netdev", "rxept"]).status();
    }
}

/// The operations in a line of perftest's table: size, then their number.
fn line_of(said: &str, bytes: u64) -> Option<u64> {
    let mut lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = lines.find(|words| words.first() == Some(&bytes.to_string().as_str()))?;
    row.get(1)?.parse().ok()
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn every_client_of_perftest_measures_against_our_server() {
    let Some(world) = World::new() else { return };
    for program in world.programs() {
        let ours = world.serve(program, &["--operations", "100"]);
        let said = world.client(program, "-n 100");
        let ours = ours.result();
        assert_eq!(line_of(&said, number(&ours, "bytes")), Some(100), "{program}: {said}");
        assert_eq!(number(&ours, "operations"), 100, "{program}: {ours}");
        assert_eq!(ours["peer"]["version"], "6.06");
        println!("{program}: {} MB/s, {}", ours["mb_per_s"], ours["frames"]);
    }
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn our_client_measures_against_every_server_of_perftest() {
    let Some(world) = World::new() else { return };
    for program in world.programs() {
        let (ours, said) = world.connect(program, &["--operations", "100"], "-n 100");
        assert_eq!(number(&ours, "operations"), 100, "{program}: {ours}");
        assert!(said.contains("END") && !said.contains("rror"), "{program}: {said}");
        println!("{program}: {} MB/s, {}, {}", ours["mb_per_s"], ours["latency"], ours["frames"]);
    }
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn tests_end_well_over_a_network_that_loses_frames() {
    let Some(world) = World::new() else { return };
    // rxe repeats a read of 64 KiB seven times: at one in 50 it has given up.
    let _loss = Loss::one_in(200);
    for program in ["ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_atomic_bw"] {
        let ours = world.serve(program, &["--operations", "60"]);
        let said = world.client(program, "-n 60");
        let ours = ours.result();
        assert_eq!(number(&ours, "operations"), 60, "{program}: {ours}, {said}");
        println!("{program}: {}", ours["frames"]);
    }
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn options_of_perftest_work_or_are_named() {
    let Some(world) = World::new() else { return };
    let ours = world.serve("ib_write_bw", &[]);
    let said = world.client("ib_write_bw", "-n 50 -q 4");
    let ours = ours.result();
    assert_eq!(number(&ours["peer"], "queue_pairs"), 4, "{said}");
    assert_eq!((number(&ours, "operations"), number(&ours, "bytes")), (200, 65_536), "{said}");

    let ours = world.serve("ib_write_bw", &["--unreliable"]);
    world.client("ib_write_bw", "-n 50 -c UC");
    assert_eq!(number(&ours.result(), "operations"), 50);

    let ours = world.serve("ib_send_bw", &[]);
    let said = world.client("ib_send_bw", "-n 50 -c UC");
    let sentence = ours.failure();
    let is_named = sentence.contains("another transport") && sentence.contains("--unreliable");
    assert!(is_named, "{sentence} {said}");

    let ours = world.serve("ib_send_bw", &[]);
    let said = world.client("ib_send_bw", "-n 50 -c UD -s 512");
    let sentence = ours.failure();
    assert!(sentence.contains("start it with -c RC"), "{sentence} {said}");

    let ours = world.serve("ib_send_bw", &[]);
    world.client("ib_send_bw", "-n 50 -e");
    assert_eq!(number(&ours.result(), "operations"), 50);

    let ours = world.serve("ib_read_bw", &[]);
    world.client("ib_read_bw", "-n 5 -a");
    let ours = ours.result();
    assert_eq!((&ours["bytes"], number(&ours, "operations")), (&Value::Null, 5 * 23), "{ours}");
}

#[test]
#[ignore = "all: rdma_rxe in a virtual machine"]
fn a_client_of_perftest_that_is_killed_is_named() {
    let Some(world) = World::new() else { return };
    let ours = world.serve("ib_read_lat", &[]);
    let words = world.their_words();
    shell(&format!(
        "ib_read_lat {words} -n 1000000 {OWN} >/dev/null 2>&1 & \
                    sleep 2; kill -9 $!"
    ));
    let sentence = ours.failure();
    assert!(sentence.contains("closed its TCP connection during the test"), "{sentence}");
}
