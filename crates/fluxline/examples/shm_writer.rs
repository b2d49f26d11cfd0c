//! Puts ten messages into another process's memory.
//!
//! demonstrates: node -> connect -> import -> put with notify -> wait until it is placed.
//!
//!     cargo run --release -p fluxline --example shm_writer      # while shm_owner runs

use fluxline::Span;
use fluxline::fabric::{Key, Level, Local, Reliability, Target, Work};

/// The time that each call may take.
const PATIENCE: Span = Span::from_s(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut node = fluxline::node("shm://lab/board")?;
    let endpoint = node.connect("builder", Reliability::Reliable, PATIENCE)?;
    let remote = node.import(endpoint, "samples", Key(0x5EED), PATIENCE)?.remote;
    for number in 1..=10_u32 {
        let text = format!("sample {}", number * number);
        let put = Work::Put {
            from: Local::Bytes(text.as_bytes()),
            to: Target { remote, offset: u64::from(number) * 64 },
            notify: Some(number),
            complete_at: Some(Level::Placed),
        };
        node.post(endpoint, number.into(), put, PATIENCE)?;
        node.wait_for(endpoint, number.into(), PATIENCE)?;
    }
    Ok(())
}
