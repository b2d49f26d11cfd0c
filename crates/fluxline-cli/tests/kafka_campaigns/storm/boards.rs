//! Boards that send packets to two readouts, as long as the storm goes on.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fluxline_core::random::Draw;

use crate::packets::Packet;

/// Boards of each readout.
pub const BOARDS: u16 = 2;
/// Time between two events.
const PERIOD: Duration = Duration::from_millis(5);
/// Share of packets that the network loses.
const LOSS: f64 = 0.005;

/// Returns the time since 1970 \[ns\].
pub fn wall_ns() -> u64 {
    UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64
}

/// Boards at work.
pub struct Boards {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Packet>>,
}

impl Boards {
    /// Sends the packets of the boards to the port of their readout.
    pub fn start(ports: [u16; 2], seed: u64) -> Boards {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let thread = std::thread::spawn(move || send(ports, seed, &flag));
        Boards { over, thread }
    }

    /// Ends the sending; returns the packets that were sent, in their order.
    pub fn end(self) -> Vec<Packet> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("boards never fail")
    }
}

fn send(ports: [u16; 2], seed: u64, over: &AtomicBool) -> Vec<Packet> {
    let mut draw = Draw::new(seed);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (mut sent, mut numbers) = (Vec::new(), [0_u32; 2 * BOARDS as usize]);
    let began = Instant::now();
    for event in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep((PERIOD * event).saturating_sub(began.elapsed()));
        for (board, number) in (0..).zip(&mut numbers) {
            let event = u64::from(event);
            let packet = Packet { time: wall_ns(), board, number: *number, event };
            *number += 1;
            if draw.chance(LOSS) {
                continue;
            }
            // A readout that is dead refuses packets, which are lost then.
            let port = ports[usize::from(board / BOARDS)];
            if socket.send_to(&packet.bytes(), ("127.0.0.1", port)).is_ok() {
                sent.push(packet);
            }
        }
    }
    sent
}
