//! Puts ten messages into another process's memory.
//!
//! demonstrates: open -> connect -> import -> put with notify -> flush.
//!
//!     cargo run --release -p fluxline --example shm_writer      # while shm_owner runs

use fluxline_core::fabric::{
    Completion, Fabric, Key, Level, Local, Name, Reliability, Status, Target, Work,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut fabric = fluxline::open("shm://lab/board")?;
    let endpoint = fabric.connect("builder", Reliability::Reliable)?;
    wait(&mut *fabric, |what| matches!(what, Completion::Connected { .. }))?;
    let remote = fabric.import(endpoint, Name::parse("samples")?, Key(0x5EED))?;
    wait(&mut *fabric, |what| matches!(what, Completion::Imported { .. }))?;
    for number in 1..=10_u32 {
        let text = format!("sample {}", number * number);
        let work = Work::Put {
            from: Local::Bytes(text.as_bytes()),
            to: Target { remote, offset: u64::from(number) * 64 },
            notify: Some(number),
            complete_at: Some(Level::Placed),
        };
        fabric.post(endpoint, number.into(), work)?;
        wait(&mut *fabric, |what| matches!(what, Completion::Done { .. }))?;
    }
    Ok(())
}

/// Polls until something wanted happens; a failure on the way is an error.
fn wait(
    fabric: &mut dyn Fabric,
    wanted: impl Fn(&Completion) -> bool,
) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        let Some(what) = fabric.poll(fabric.now()) else { continue };
        match &what {
            Completion::Broken { status, .. } => return Err(status.to_string().into()),
            Completion::Imported { status, .. } | Completion::Done { status, .. }
                if *status != Status::Done =>
            {
                return Err(status.to_string().into());
            }
            what if wanted(what) => return Ok(()),
            _ => {}
        }
    }
}
