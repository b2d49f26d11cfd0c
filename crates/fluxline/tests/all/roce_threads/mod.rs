//! Several threads at one UDP address: each connection belongs to one, and the others go on when
//! one ends.

mod endings;
mod ends;
mod kinds;
mod streams;

use fluxline::clock;
use fluxline::roce::RoceNode;
use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::Span;
use fluxline_core::endpoint::EndpointConfig;

use self::ends::{address, any_port, config, ports};

/// The fate of the other nodes of both ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Stay,
    AreGone,
}

/// The nodes with this index of two ends with two threads each: they meet.
fn pair(index: usize, others: Others) -> Pair {
    // Deaths are noticed soon, so that the laws about them do not take long.
    let config = || EndpointConfig { death: Span::from_ms(400), ..config("node") };
    let choose = move |at| {
        let nodes = ports(at, 2).into_iter().map(|port| RoceNode::on(port, config()));
        let mut nodes: Vec<RoceNode> = nodes.collect();
        let node = nodes.swap_remove(index);
        nodes.retain(|_| others == Others::Stay);
        (node, nodes)
    };
    let (left, left_others) = choose(any_port());
    let (mut right, mut right_others) = choose(any_port());
    let at = address(&mut right);
    Pair {
        left: Box::new(left),
        right: Box::new(right),
        right_name: at.to_string(),
        right_again: Some(Box::new(move || {
            right_others.clear(); // They have the port.
            let (node, rest) = choose(at);
            right_others = rest;
            Box::new(node)
        })),
        now: Box::new(move || {
            let _ = &left_others; // They live as long as the pair.
            clock::monotonic()
        }),
    }
}

conformance!(on_the_first_of_two_threads, pair(0, Others::Stay));
conformance!(on_the_second_of_two_threads, pair(1, Others::Stay));
conformance!(on_the_last_thread_that_is_left, pair(1, Others::AreGone));
