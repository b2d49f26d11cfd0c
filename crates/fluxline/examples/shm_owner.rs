//! Owns a region on shared memory and prints what a writer puts into it.
//!
//! demonstrates: open -> register -> export -> poll for notifications.
//!
//!     cargo run --release -p fluxline --example shm_owner
//!     cargo run --release -p fluxline --example shm_writer      # in another terminal

use std::time::Duration;

use fluxline_core::fabric::{Completion, Grant, Key, Name, Rights};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut fabric = fluxline::open("shm://lab/builder")?;
    let region = fabric.register(4096)?;
    let grant = Grant { rights: Rights::PUT, key: Key(0x5EED) };
    fabric.export(region, Name::parse("samples")?, grant)?;
    let memory = fabric.memory(region)?;
    println!("waiting for a writer; Ctrl-C ends");
    loop {
        match fabric.poll(fabric.now()) {
            Some(Completion::Connected { peer, .. }) => println!("{peer} has connected"),
            Some(Completion::Notified { offset, bytes, value, .. }) => {
                let mut text = vec![0; bytes as usize];
                memory.read(offset, &mut text)?;
                println!("number {value}: {}", String::from_utf8_lossy(&text));
            }
            Some(Completion::Broken { status, .. }) => {
                println!("the writer has gone: {status}");
                return Ok(());
            }
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
