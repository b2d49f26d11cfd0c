//! One source file, unchanged, on every link: what it computes is equal, and in virtual time every
//! moment repeats.

#[path = "../../examples/one_program/program.rs"]
mod program;

use std::process::{Command, Stdio};

use crate::support::namespaces::Namespaces;
use program::Outcome;

/// Runs the program of each URL on a thread of its own.
fn run(urls: &[String]) -> Vec<Outcome> {
    fluxline_sim::register();
    std::thread::scope(|scope| {
        let run = |place| scope.spawn(move || program::run(urls, place).map_err(|e| e.to_string()));
        let threads: Vec<_> = (0..urls.len()).map(run).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.map(|outcome| outcome.unwrap_or_else(|error| panic!("{urls:?}: {error}"))).collect()
    })
}

/// Returns the sum that the program computes on plain shared memory, where all nodes agree.
fn sum_of(nodes: usize) -> u64 {
    let group = format!("one-program-{}-{nodes}", std::process::id());
    agreed(&run(&urls(nodes, |node| format!("shm://{group}/node-{node}"))))
}

fn urls(nodes: usize, url: impl Fn(usize) -> String) -> Vec<String> {
    (0..nodes).map(url).collect()
}

fn agreed(outcomes: &[Outcome]) -> u64 {
    let sum = outcomes[0].sum;
    assert!(outcomes.iter().all(|outcome| outcome.sum == sum), "{outcomes:?}");
    sum
}

/// Free UDP ports of loopback.
fn ports(count: usize) -> Vec<u16> {
    let bind = |_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let sockets: Vec<_> = (0..count).map(bind).collect();
    sockets.iter().map(|socket| socket.local_addr().expect("bound").port()).collect()
}

#[test]
fn the_sums_of_two_and_of_three_nodes_are_equal_on_every_link() {
    for nodes in [2, 3] {
        let expected = sum_of(nodes);
        let ports = ports(nodes);
        let udp = run(&urls(nodes, |node| format!("udp://127.0.0.1:{}", ports[node])));
        assert_eq!(agreed(&udp), expected, "udp, {nodes} nodes");
        let peer = |node: usize| format!("node-{node}@127.0.0.1:{}", ports[node]);
        let peers = (0..nodes).map(peer).collect::<Vec<_>>().join(",");
        let url = |node| format!("udp://127.0.0.1:{}/node-{node}?peers={peers}", ports[node]);
        assert_eq!(agreed(&run(&urls(nodes, url))), expected, "udp by names, {nodes} nodes");
        for model in ["plain", "lc2", "lc3&fault=bits:1e-6"] {
            let url = |node| format!("sim:sci/same-{nodes}/{node}?nodes={nodes}&model={model}");
            assert_eq!(agreed(&run(&urls(nodes, url))), expected, "{model}, {nodes} nodes");
        }
        for keys in ["rate=10G", "rate=1G&mtu=9000&forwarding=cut", "fault=loss:0.05&cpu-frame=900"]
        {
            let url = |node| format!("sim:ethernet/wire-{nodes}/{node}?nodes={nodes}&{keys}");
            assert_eq!(agreed(&run(&urls(nodes, url))), expected, "{keys}, {nodes} nodes");
        }
    }
    assert_ne!(sum_of(2), sum_of(3));
}

#[test]
fn a_wrong_url_of_a_simulated_link_is_answered_with_what_to_write() {
    fluxline_sim::register();
    for (url, says) in [
        ("sim:sci?nodes=2", "write sim:sci/WORLD/NODE?nodes=N"),
        ("sim:sci/lab/a?nodes=0", "2 or more"),
        ("sim:ib/lab/a?nodes=2", "write sim:sci"),
    ] {
        let error = fluxline::open(url).err().expect("refused").to_string();
        assert!(error.contains(says), "{url}: {error}");
    }
}

#[test]
fn in_virtual_time_every_moment_repeats_with_its_seed() {
    for (network, keys) in [("sci", "model=lc2&fault=bits:1e-5"), ("ethernet", "fault=loss:0.05")] {
        let run_with = |seed: u64| {
            let names = ["board", "builder", "monitor"];
            run(&urls(3, |node| {
                format!("sim:{network}/repeated/{}?nodes=3&{keys}&seed={seed}", names[node])
            }))
        };
        let first = run_with(7);
        assert!(first.iter().all(|of| of.moments.len() > 10 && of.moments.is_sorted()));
        for _ in 0..3 {
            assert_eq!(run_with(7), first, "{network}");
        }
        assert_ne!(run_with(8), first, "{network}: another seed, other losses");
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn the_sum_past_the_kernel_is_that_of_shared_memory() {
    let between = match Namespaces::pair(1500) {
        Ok(between) => between,
        Err(reason) => {
            println!("skipped: no network namespaces here: {reason}");
            return;
        }
    };
    let urls = [Namespaces::A, Namespaces::B].map(|ip| format!("xdp://{ip}:4791"));
    let start = |place: usize| {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", "one_program::child", "--nocapture"]);
        command.env("URLS", urls.join(" ")).env("PLACE", place.to_string());
        let mut command =
            if place == 0 { between.inside_a(&command) } else { between.inside_b(&command) };
        command.stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let children = [start(0), start(1)];
    let said = children.map(|child| {
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    if said.iter().any(|text| text.contains("skipped: ")) {
        let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
        assert!(!required, "FLUXLINE_REQUIRE_TOOLS=1, and {said:?}");
        println!("skipped: no AF_XDP here: {}", said.concat());
        return;
    }
    let expected = format!("sum {:016x}", sum_of(2));
    for text in said {
        assert!(text.contains(&expected), "{text}");
    }
}

/// One node of the test above, in its namespace. It does nothing without that test's variables.
#[test]
fn child() {
    let (Ok(urls), Ok(place)) = (std::env::var("URLS"), std::env::var("PLACE")) else { return };
    let urls: Vec<String> = urls.split(' ').map(str::to_owned).collect();
    let place: usize = place.parse().expect("a number");
    if let Err(error) = fluxline::open(&urls[place]) {
        println!("skipped: {error}");
        return;
    }
    match program::run(&urls, place) {
        Ok(outcome) => println!("{outcome}"),
        Err(error) => panic!("{error}"),
    }
}
