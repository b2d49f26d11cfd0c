//! One stream of TCP over plain sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fluxline::pin::pin_current_thread;

use super::cpu::Cpu;
use super::ends::Settings;
use super::trial::print_side;

/// Bytes per call.
const BLOCK: usize = 256 << 10;
const WARM_UP: Duration = Duration::from_millis(300);

/// Writes until the receiver closes.
pub fn send(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let mut stream = TcpStream::connect(settings.peer()).expect("a receiver");
    let (block, before, mut sent) = (vec![1; BLOCK], Cpu::now(), 0);
    while let Ok(count) = stream.write(&block) {
        sent += count;
    }
    print_side(sent as f64, 0.0, 0.0, Cpu::now().since(before));
}

/// Reads for some time.
pub fn receive(settings: &Settings) {
    pin_current_thread(settings.get("core")).expect("a core");
    let listener = TcpListener::bind(SocketAddr::new(settings.address("to"), 0)).expect("a port");
    println!("ready {}", listener.local_addr().expect("bound").port());
    let (mut stream, _) = listener.accept().expect("a sender");
    let mut block = vec![0; BLOCK];
    read_for(&mut stream, &mut block, WARM_UP);
    let (began, before) = (Instant::now(), Cpu::now());
    let bytes = read_for(&mut stream, &mut block, settings.seconds());
    print_side(bytes as f64, began.elapsed().as_secs_f64(), 0.0, Cpu::now().since(before));
}

fn read_for(stream: &mut TcpStream, block: &mut [u8], time: Duration) -> usize {
    let (began, mut bytes) = (Instant::now(), 0);
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    while began.elapsed() < time {
        bytes += stream.read(block).unwrap_or(0);
    }
    bytes
}
