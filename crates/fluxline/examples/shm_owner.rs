//! Owns a region on shared memory and prints what a writer puts into it.
//!
//! demonstrates: node -> export -> completions, as they come.
//!
//!     cargo run --release -p fluxline --example shm_owner
//!     cargo run --release -p fluxline --example shm_writer      # in another terminal

use fluxline::Span;
use fluxline::fabric::{Completion, Grant, Key, Rights};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut node = fluxline::node("shm://lab/builder")?;
    let region = node.export("samples", Grant { rights: Rights::PUT, key: Key(0x5EED) }, 4096)?;
    let memory = node.fabric().memory(region)?;
    println!("waiting for a writer, for 10 minutes");
    loop {
        match node.next_completion(Span::from_s(600))? {
            Completion::Connected { peer, .. } => println!("{peer} has connected"),
            Completion::Notified { offset, bytes, value, .. } => {
                let mut text = vec![0; bytes as usize];
                memory.read(offset, &mut text)?;
                println!("number {value}: {}", String::from_utf8_lossy(&text));
            }
            Completion::Broken { status, .. } => {
                println!("the writer has gone: {status}");
                return Ok(());
            }
            _ => {}
        }
    }
}
