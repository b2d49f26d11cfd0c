//! AF_XDP between two network namespaces joined by a veth pair: what arrives, what is left alone,
//! what is counted, what is gone afterwards.
//!
//! Both ends run in this test program, started again in a namespace with its role in the
//! environment. Needs root, and `ip` of iproute2; without them a test says so and is skipped.

mod memory;
mod namespaces;
mod roles;
mod threads;

use std::time::Duration;

use namespaces::{Namespaces, Side};

/// Headers of IP and UDP \[byte\].
const V4_HEADS: usize = 28;
const V6_HEADS: usize = 48;

/// Two namespaces, or the end of the test.
macro_rules! namespaces {
    ($mtu:expr) => {
        match Namespaces::new($mtu) {
            Some(namespaces) => namespaces,
            None => return,
        }
    };
}

#[test]
#[ignore = "the processes that the tests below start"]
fn child() {
    roles::play();
}

#[test]
#[ignore = "all: network namespaces"]
fn frames_of_every_length_arrive_unchanged_in_both_directions() {
    for mtu in [1500, 9000] {
        let pair = namespaces!(mtu);
        let _echo = pair.server_with(Side::B, "echo", &[("OWN", &pair.v4(Side::B))]);
        pair.lengths(&pair.v4(Side::B), mtu - V4_HEADS, &[]);
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn frames_over_ipv6_arrive_unchanged() {
    for mtu in [1500, 9000] {
        let pair = namespaces!(mtu);
        let _echo = pair.server(Side::B, "echo");
        pair.lengths(&pair.v6(Side::B), mtu - V6_HEADS, &[]);
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn frames_arrive_in_generic_mode_too() {
    for mtu in [1500, 9000] {
        let pair = namespaces!(mtu);
        let own = pair.v4(Side::B);
        let _echo = pair.server_with(Side::B, "echo", &[("OWN", &own), ("MODE", "generic")]);
        pair.lengths(&own, mtu - V4_HEADS, &[("MODE", "generic")]);
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn small_buffers_take_frames_in_parts() {
    let pair = namespaces!(9000);
    let own = pair.v4(Side::B);
    let _echo = pair.server_with(Side::B, "echo", &[("OWN", &own), ("BUFFER", "2048")]);
    pair.lengths(&own, 9000 - V4_HEADS, &[("BUFFER", "2048")]);
}

#[test]
#[ignore = "all: network namespaces"]
fn a_long_frame_across_the_end_of_the_memory_arrives_unchanged() {
    let pair = namespaces!(9000);
    let own = pair.v4(Side::B);
    let _echo = pair.server_with(Side::B, "echo", &[("OWN", &own), ("BUFFERS", "64")]);
    pair.lengths(&own, 9000 - V4_HEADS, &[("BUFFERS", "64")]);
}

#[test]
#[ignore = "all: network namespaces"]
fn frames_arrive_when_the_device_is_polled() {
    let pair = namespaces!(1500);
    let own = pair.v4(Side::B);
    let _echo = pair.server_with(Side::B, "echo", &[("OWN", &own), ("BUSY", "1")]);
    pair.lengths(&own, 1500 - V4_HEADS, &[("BUSY", "1")]);
}

#[test]
#[ignore = "all: network namespaces"]
fn the_kernels_sockets_are_peers_in_both_directions() {
    for mtu in [1500, 9000] {
        let pair = namespaces!(mtu);
        let _echo = pair.server(Side::B, "socket-echo");
        pair.lengths(&pair.v4(Side::B), mtu - V4_HEADS, &[]);
        pair.lengths(&pair.v6(Side::B), mtu - V6_HEADS, &[]);
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn a_network_behind_a_gateway_is_reached() {
    let pair = namespaces!(1500);
    pair.ip(Side::B, "address add 10.209.0.1/32 dev lo");
    pair.ip(Side::A, &format!("route add 10.209.0.0/24 via {}", pair.v4(Side::B)));
    // Else it would answer from the address on the veth.
    let _echo = pair.server_with(Side::B, "socket-echo", &[("BIND", "10.209.0.1")]);
    pair.lengths("10.209.0.1", 1500 - V4_HEADS, &[]);
}

#[test]
#[ignore = "all: network namespaces"]
fn unfinished_checksums_are_counted_as_damage_where_they_are_not_wanted() {
    let pair = namespaces!(1500);
    let _echo = pair.server(Side::B, "socket-echo");
    pair.run(Side::A, "unfinished", &[("PEER", &pair.v4(Side::B))]);
}

#[test]
#[ignore = "all: network namespaces"]
fn other_traffic_of_the_interface_goes_on_untouched() {
    let pair = namespaces!(1500);
    let _echo = pair.server(Side::B, "socket-echo");
    pair.run(Side::A, "others", &[("PEER", &pair.v4(Side::B))]);
}

#[test]
#[ignore = "all: network namespaces"]
fn what_a_switch_marked_is_seen() {
    let pair = namespaces!(1500);
    let (v4, v6) = (pair.v4(Side::A), pair.v6(Side::A));
    let marked = pair.server(Side::A, "marks");
    // The standard library cannot set the bits.
    let script = format!(
        "import socket\n\
         for family, level, option, to in [(2, 0, 1, '{v4}'), (10, 41, 67, '{v6}')]:\n\
         \x20   s = socket.socket(family, socket.SOCK_DGRAM)\n\
         \x20   for mark in range(4):\n\
         \x20       s.setsockopt(level, option, mark)\n\
         \x20       s.sendto(bytes([mark]), (to, 4791))\n"
    );
    pair.python(Side::B, &script);
    marked.finishes();
}

#[test]
#[ignore = "all: network namespaces"]
fn a_dead_neighbour_is_refused_and_counted_and_others_are_served() {
    let pair = namespaces!(1500);
    let _echo = pair.server(Side::B, "echo");
    let dead = format!("{}9", pair.v4(Side::B));
    pair.run(Side::A, "dead", &[("PEER", &pair.v4(Side::B)), ("DEAD", &dead)]);
}

#[test]
#[ignore = "all: network namespaces"]
fn a_neighbour_with_a_new_card_is_followed() {
    let pair = namespaces!(1500);
    let peer = pair.v4(Side::B);
    let _echo = pair.server(Side::B, "socket-echo");
    let sender = pair.server_with(Side::A, "follow", &[("PEER", &peer)]);
    pair.ip(Side::B, "link set dev veth address 02:00:00:00:77:77");
    std::thread::sleep(Duration::from_millis(500));
    let entry = format!("neighbour replace {peer} lladdr 02:00:00:00:77:77 dev veth");
    pair.ip(Side::A, &entry);
    sender.finishes();
}

#[test]
#[ignore = "all: network namespaces"]
fn a_link_that_goes_down_and_up_again_goes_on() {
    for side in [Side::A, Side::B] {
        let pair = namespaces!(1500);
        let peer = pair.v4(Side::B);
        let _echo = pair.server_with(Side::B, "echo", &[("OWN", &peer)]);
        let sender =
            pair.server_with(Side::A, "follow", &[("PEER", &peer), ("OWN", &pair.v4(Side::A))]);
        pair.ip(side, "link set dev veth down");
        std::thread::sleep(Duration::from_millis(500));
        pair.ip(side, "link set dev veth up");
        sender.finishes();
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn frames_that_find_no_buffer_are_counted() {
    let pair = namespaces!(1500);
    let full = pair.server(Side::B, "full");
    pair.run(Side::A, "flood", &[("PEER", &pair.v4(Side::B))]);
    full.finishes();
}

#[test]
#[ignore = "all: network namespaces"]
fn the_program_leaves_the_interface_with_the_port_and_with_a_killed_process() {
    let pair = namespaces!(1500);
    let shown = || pair.ip(Side::A, "-details link show dev veth").contains("xdp");
    assert!(!shown(), "no program yet");
    let mut port = pair.server(Side::A, "echo");
    assert!(shown(), "a program while the port is open");
    port.kill();
    assert!(!shown(), "a program outlived its process");
    pair.run(Side::A, "twice", &[]);
    assert!(!shown(), "a program outlived its port");
}

#[test]
#[ignore = "all: network namespaces"]
fn what_cannot_be_opened_says_why_in_a_sentence() {
    let pair = namespaces!(1500);
    pair.run(Side::A, "refusals", &[]);
}

#[test]
#[ignore = "all: network namespaces"]
fn all_queues_are_served() {
    let pair = match Namespaces::with_queues(1500, 2) {
        Some(pair) => pair,
        None => return,
    };
    let _echo = pair.server_with(Side::B, "echo", &[("OWN", &pair.v4(Side::B)), ("QUEUES", "all")]);
    pair.lengths(&pair.v4(Side::B), 1500 - V4_HEADS, &[("QUEUES", "all")]);
}

#[test]
#[ignore = "all: network namespaces"]
fn two_threads_share_an_interface_and_one_goes_on_alone() {
    for (callers, socket) in [("2", None), ("1", None), ("2", Some(("SOCKET", "1")))] {
        let Some(pair) = Namespaces::with_queues(1500, 2) else { return };
        let (a, b) = (pair.v4(Side::A), pair.v4(Side::B));
        let own: Vec<_> = [("OWN", b.as_str())].into_iter().chain(socket).collect();
        let server = pair.server_with(Side::B, "threads", &own);
        let of_callers = [("OWN", a.as_str()), ("PEER", b.as_str()), ("CALLERS", callers)];
        let of_callers: Vec<_> = of_callers.into_iter().chain(socket).collect();
        pair.run(Side::A, "callers", &of_callers);
        server.finishes();
    }
}

#[test]
#[ignore = "all: network namespaces"]
fn remote_memory_works_past_the_kernel_and_with_a_socket_at_the_other_end() {
    for mtu in [1500, 9000] {
        for socket in [None, Some(Side::A), Some(Side::B)] {
            let pair = namespaces!(mtu);
            let (a, b) = (pair.v4(Side::A), pair.v4(Side::B));
            let on_socket =
                |side| if socket == Some(side) { vec![("SOCKET", "1")] } else { vec![] };
            let owner = [vec![("OWN", b.as_str())], on_socket(Side::B)].concat();
            let _owner = pair.server_with(Side::B, "owner", &owner);
            let writer = [vec![("OWN", a.as_str()), ("PEER", b.as_str())], on_socket(Side::A)];
            pair.run(Side::A, "writer", &writer.concat());
        }
    }
}
