//! Brokers with a quota: data waits in the nodes, and their counts come in time.

use std::net::UdpSocket;
use std::time::Duration;

use crate::lab::{Lab, well};
use crate::packets::Packet;

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
[[source]]
name = "boards"
format = "counter"
[source.udp]
listen = ["127.0.0.1:0"]
[node.r]
sources = ["boards"]
"#;

const PACKETS: u64 = 4000;
/// Bytes behind the header of each packet.
const PAYLOAD: usize = 1300;
/// Limit of the brokers for all nodes together: the packets alone take 27 s.
const QUOTA_BYTES_PER_S: u32 = 200_000;

fn send_all(to: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for event in 0..PACKETS {
        let packet = Packet { time: event * 1_000_000, board: 1, number: event as u32, event };
        let bytes = [packet.bytes(), vec![0; PAYLOAD]].concat();
        socket.send_to(&bytes, to).expect("sent");
        // A socket's buffer holds 180 of them: the readout may be late by 0.3 s.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn node_that_a_quota_slows_down_looks_dead() {
    let lab = Lab::new("", EXPERIMENT);
    let (builder, readout) = (lab.node("builder", "b1"), lab.node("r", "x"));
    let address = readout.wait_for_rest("source boards on ");
    lab.broker.set_quota("fluxline", QUOTA_BYTES_PER_S);
    send_all(&address);
    lab.done(&["ctl", &lab.address(), "stop"]);
    readout.wait_for("the brokers have not taken the last records yet");
    let said = || format!("{}\n{}", builder.said(), readout.said());
    assert!(!said().contains("has been silent"), "{}", said());
    let counts = well(readout);
    assert_eq!(counts["counters"]["handed"], PACKETS, "{counts}");
    let built = well(builder);
    assert_eq!(built["counters"]["events_complete"], PACKETS, "{built}");
}
