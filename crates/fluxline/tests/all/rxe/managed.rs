//! Programs of rdma_cm connect to a node, and a node to them: `rping` in the machine, and the
//! example `rdma_cm` here.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use fluxline::roce::RoceNode;
use fluxline::udp::UdpPortConfig;

#[allow(dead_code, reason = "its main is not used")]
#[path = "../../../examples/rdma_cm.rs"]
mod rdma_cm;

use super::world::{Loss, SLOW, lose_one_in};
use rdma_cm::{PORT, connect, serve};

const SHELL_PORT: u16 = 2323;

/// The addresses of both ends, and a node; `None` without a device.
fn ends() -> Option<(IpAddr, IpAddr, RoceNode)> {
    let Ok(words) = std::env::var("FLUXLINE_RXE") else {
        println!("skipped: tools/rxe/test.sh runs this test");
        return None;
    };
    let [own, device, _] = words.split(' ').collect::<Vec<_>>()[..] else {
        panic!("FLUXLINE_RXE=`OWN DEVICE PORT`, not `{words}`");
    };
    let [own, device] = [own, device].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let port = UdpPortConfig::new(SocketAddr::new(own, 4791));
    Some((own, device, RoceNode::open("managed", port).expect("a free port")))
}

/// Runs a command line in the machine, from another thread.
fn shell(device: IpAddr, line: &str) -> std::thread::JoinHandle<String> {
    let address = SocketAddr::new(device, SHELL_PORT);
    let line = format!("export LD_LIBRARY_PATH=/lib PATH=/bin; {line}\necho =E''ND=\n");
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("the shell listens");
        stream.set_read_timeout(Some(SLOW)).expect("possible");
        stream.write_all(line.as_bytes()).expect("it listens");
        let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&said).contains("=END=") {
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => said.extend(&bytes[..count]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn rping_connects_to_a_node_and_its_bytes_come_back() {
    let Some((own, device, mut node)) = ends() else { return };
    let line = format!("sleep 1; rping -c -a {own} -C 20 -S 1000 -V -v 2>&1; echo status $?");
    let rping = shell(device, &line);
    let rounds = serve(&mut node, PORT, u64::MAX, SLOW);
    let said = rping.join().expect("no panic");
    assert_eq!(rounds.expect("served"), 20, "{said}");
    // It compares the bytes itself (-V). Its event thread may find its own channel closed at the
    // end, after all rounds, and gives another status then.
    let is_done = said.contains("status 0") || said.contains("rdma_get_cm_event: Bad file");
    let pings = said.matches("ping data: rdma-ping-").count();
    assert!(!said.contains("mismatch") && pings == 20 && is_done, "{said}");
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_node_connects_to_rping_and_leaves_it() {
    let Some((own, device, mut node)) = ends() else { return };
    let line = format!("rping -s -a {device} -v >/tmp/rping 2>&1 & sleep 1; cat /tmp/rping");
    shell(device, &line).join().expect("no panic");
    let server = SocketAddr::new(device, PORT);
    connect(&mut node, server, 20, SLOW).expect("20 rounds");
    drop(node);
    let said = shell(device, "sleep 1; cat /tmp/rping; killall rping").join().expect("no panic");
    assert!(said.contains("DISCONNECT EVENT"), "{own}: {said}");
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn connections_with_rping_open_and_end_over_a_network_that_loses_frames() {
    let Some((own, device, mut node)) = ends() else { return };
    // At one in ten, some runs of ten lose all repeats of one frame, and an end gives up.
    let loss: Loss = lose_one_in(25);
    let line = format!("sleep 1; rping -c -a {own} -C 10 2>&1; echo status $?");
    let rping = shell(device, &line);
    let rounds = serve(&mut node, PORT, 10, SLOW).expect("served");
    // The last message may be repeated while the node is here.
    for _ in 0..3000 {
        while node.next_completion().is_some() {}
        node.wait(Duration::from_millis(1)).expect("possible");
    }
    drop(loss);
    let said = rping.join().expect("no panic");
    assert!(rounds == 10 && said.contains("status 0"), "{rounds} rounds: {said}");
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_node_that_nobody_listens_to_is_told_so() {
    let Some((_, device, mut node)) = ends() else { return };
    let server = SocketAddr::new(device, 7999);
    let error = connect(&mut node, server, 1, SLOW).expect_err("nobody listens").to_string();
    assert_eq!(error, "nobody listens there");
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn rping_is_refused_at_a_port_that_nobody_listens_at() {
    let Some((own, device, mut node)) = ends() else { return };
    let line = format!("sleep 1; timeout 20 rping -c -a {own} -p 7998 -C 1 2>&1; echo status $?");
    let rping = shell(device, &line);
    let error = serve(&mut node, PORT, 1, Duration::from_secs(5)).expect_err("no client");
    assert_eq!(error.to_string(), "no client came");
    let said = rping.join().expect("no panic");
    assert!(said.contains("RDMA_CM_EVENT_REJECTED") || said.contains("connect error"), "{said}");
}
