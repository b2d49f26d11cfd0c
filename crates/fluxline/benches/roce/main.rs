//! RoCEv2 in software between two processes on two cores, beside what else carries bytes there.
//!
//! This program starts itself as both ends, the sending one pinned to the first core and the
//! receiving one to the second, over loopback and over veth pairs between namespaces of its own.
//! Peers run in the same rounds, interleaved: a bare program in C with datagrams of the same size
//! (trains by UDP_SEGMENT and UDP_GRO, or single ones), TCP over plain sockets, and QUIC (quinn)
//! where `QUINN` names the program of tools/peers/quinn. Loss is the kernel's, by nftables.
//!
//! `cargo bench -p fluxline --bench roce` (some minutes; `ROUNDS=1` for a first look; `ONLY=put`
//! for one part: put, walk, cost, lossy, small, rate, single, threads). Needs two cores and `cc`;
//! namespaces need root, loss needs `nft`, and both are left out with a line where they are
//! missing.

mod bare;
mod cpu;
mod ends;
#[path = "../../tests/namespaces/mod.rs"]
mod namespaces;
mod parts;
mod path;
mod ping;
mod put;
mod quic;
mod tcp;
mod trial;

use fluxline::pin::allowed_cores;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((role, settings)) = arguments.split_first()
        && role.starts_with("as-")
    {
        return trial::play(role, &ends::Settings::parse(settings));
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("roce: a benchmark; run it by `cargo bench -p fluxline --bench roce`");
        return;
    }
    let cores = allowed_cores();
    let [sender, receiver, ..] = cores[..] else {
        println!("roce: needs two cores");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let bench = trial::Bench::new(number("ROUNDS").unwrap_or(5), (sender, receiver));
    let only = std::env::var("ONLY").unwrap_or_default();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    println!(
        "sender on core {sender}, receiver on core {receiver}, kernel {}, TCP's control {} unless \
         named; medians of {} rounds",
        read("/proc/sys/kernel/osrelease"),
        read("/proc/sys/net/ipv4/tcp_congestion_control"),
        bench.rounds
    );
    for (name, part) in parts::ALL {
        if only.is_empty() || only.split(',').any(|wanted| wanted == name) {
            part(&bench);
        }
    }
}
