//! Today's tools on the same two cores: iperf3 and spead2, where they are installed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{RECEIVER_CORE, free_port};

/// Steps of iperf3's bisection: it starts from a wide range.
const STEPS: u32 = 8;

/// iperf3's highest loss-free rate \[bit/s\]; `None`: not installed.
pub fn iperf3(payload: usize) -> Option<f64> {
    Command::new("iperf3").arg("--version").output().ok()?;
    let (mut low, mut high, mut good) = (0.2e9, 60e9_f64, 0.0);
    for _ in 0..STEPS {
        let asked = (low * high).sqrt();
        match iperf3_trial(payload, asked) {
            Some((rate, 0)) => {
                good = rate;
                low = asked;
                if rate < asked * 0.8 {
                    break; // its sender cannot do more
                }
            }
            _ => high = asked,
        }
    }
    Some(good)
}

/// One trial: the rate received \[bit/s\] and the datagrams lost.
fn iperf3_trial(payload: usize, bits_per_s: f64) -> Option<(f64, u64)> {
    let port = free_port().to_string();
    let mut server = Command::new("iperf3")
        .args(["-s", "-1", "-p", &port, "-A", RECEIVER_CORE, "--forceflush"])
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut lines = BufReader::new(server.stdout.take()?).lines();
    while let Some(Ok(line)) = lines.next() {
        if line.contains("listening") {
            break;
        }
    }
    // It refuses to go on when it is granted less buffer than asked.
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    let output = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-u", "-p", &port, "-A", "0", "-t", "2", "-J"])
        .args(["-w", limit.trim(), "-l", &payload.to_string(), "-b", &format!("{bits_per_s:.0}")])
        .output()
        .ok()?;
    drop(lines);
    end(server);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let sum = &value["end"]["sum"];
    Some((sum["bits_per_second"].as_f64()?, sum["lost_packets"].as_u64()?))
}

/// spead2's sustainable rate by its own benchmark, heaps of 4 MiB \[bit/s\]; `None`: not installed.
pub fn spead2(payload: usize) -> Option<f64> {
    let program = std::env::var("SPEAD2_BENCH").ok()?;
    let port = free_port().to_string();
    let agent = Command::new("taskset")
        .args(["-c", RECEIVER_CORE, &program, "agent", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    std::thread::sleep(Duration::from_secs(2)); // it does not say when it listens
    let output = Command::new("taskset")
        .args(["-c", "0", &program, "master", "--quiet", "--packet", &payload.to_string()])
        .arg(format!("127.0.0.1:{port}"))
        .output();
    end(agent);
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let number = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).next_back()?;
    Some(number * 1e9)
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
