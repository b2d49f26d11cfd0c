//! Host ports belong to processes: nobody else sends by them, or writes to them.

use super::*;
use fluxline_sim::net::atoll::Parcel;
use fluxline_sim::net::atoll::manager::{HostPort, PortName};

fn parcel(target: u32, port: u8) -> Parcel {
    Parcel { target, port, bytes: 100, number: 0 }
}

fn assign(trial: &mut Trial, node: u32, process: &str) -> HostPort {
    trial.network.host_ports().assign(node, process).expect("a free port")
}

#[test]
fn four_processes_of_a_node_use_the_network_at_once_and_a_fifth_is_refused() {
    let mut trial = trial(grid(2, 1), Settings::default());
    assert!(trial.settle(us(20_000)));
    let names = ["reader", "builder", "writer", "monitor"];
    let senders = names.map(|name| assign(&mut trial, 0, name));
    let receivers = names.map(|name| assign(&mut trial, 1, name));
    let error = trial.network.host_ports().assign(0, "fifth").expect_err("four ports");
    let text = error.to_string();
    assert!(text.contains("reader, builder, writer, monitor"), "{text}");
    let error = trial.network.host_ports().assign(2, "x").expect_err("two nodes").to_string();
    assert!(error.contains("nodes are 0 to 1"), "{error}");
    for receiver in receivers {
        trial.network.host_ports().grant(receiver, 0).expect("its own port");
    }
    for (port, sender) in (0..).zip(senders) {
        assert_eq!(sender.name(), PortName { node: 0, port });
        for _ in 0..10 {
            trial.send_as(sender, parcel(1, port)).expect("its own port");
        }
    }
    let all = finish(&mut trial);
    assert_eq!(all.iter().filter(|of| of.end == Some(SendEnd::Done)).count(), 40);
}

#[test]
fn a_process_cannot_send_as_another_or_write_without_a_right() {
    let mut trial = trial(grid(3, 1), Settings::default());
    assert!(trial.settle(us(20_000)));
    let (board, builder) = (assign(&mut trial, 0, "board"), assign(&mut trial, 2, "builder"));
    let other = assign(&mut trial, 1, "intruder");
    // By the port of another process, by a port of another number, or without a key.
    let error = trial.send_as(board, parcel(2, 1)).expect_err("port 0 is its own").to_string();
    assert!(error.contains("names host port 1"), "{error}");
    trial.network.host_ports().release(other).expect("its own");
    let next = assign(&mut trial, 1, "next");
    let error = trial.send_as(other, parcel(2, 0)).expect_err("a former owner").to_string();
    assert!(error.contains("host port 0 of node 1 belongs to next"), "{error}");
    assert!(trial.network.host_ports().grant(other, 0).is_err());
    trial.send(0, 2);
    let refused = trial.deliveries().last().expect("one").end;
    assert!(matches!(refused, Some(SendEnd::Lost(_))), "the port has an owner");
    // Without a right at the receiver.
    trial.network.host_ports().grant(builder, 0).expect("its own");
    trial.send_as(next, Parcel { target: 2, ..parcel(2, 0) }).expect("it may send");
    trial.send_as(board, parcel(2, 0)).expect("it may send");
    let all = finish(&mut trial);
    let rejected = trial.network.next_rejected().expect("one");
    assert_eq!((rejected.from.node, rejected.to), (1, builder.name()));
    assert_eq!(trial.network.next_rejected(), None);
    assert_eq!(all.iter().map(|of| of.arrivals).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(matches!(all[1].end, Some(SendEnd::Lost(_))) && all[2].end == Some(SendEnd::Done));
    // A right that is taken back.
    trial.network.host_ports().revoke(builder, 0).expect("its own");
    trial.send_as(board, parcel(2, 0)).expect("it may send");
    assert!(matches!(finish(&mut trial)[3].end, Some(SendEnd::Lost(_))));
    let error = trial.send_as(board, parcel(9, 0)).expect_err("three nodes").to_string();
    assert!(error.contains("node 9 has no route"), "{error}");
}
