//! A sensor pushes records of 4 KiB to a consumer: the whole of both programs.

use std::error::Error;

use fluxline::Span;
use fluxline::fabric::Key;

/// The time that each call may take.
const PATIENCE: Span = Span::from_s(10);

/// Pushes records, and waits until all of them are in the consumer's memory.
pub fn sensor(url: &str, peer: &str, records: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut node = fluxline::node(url)?;
    let ring = node.sender(peer, "samples", Key(7), PATIENCE)?;
    for number in 0..records {
        node.push_wait(ring, &[number as u8; 4096], PATIENCE)?;
    }
    Ok(node.finish(ring, PATIENCE)?)
}

/// Returns the number of records, and the sum of their first bytes.
pub fn consumer(url: &str) -> Result<(u32, u64), Box<dyn Error + Send + Sync>> {
    let mut node = fluxline::node(url)?;
    let ring = node.receiver("samples", Key(7), 1024, 4096)?;
    node.records(ring, PATIENCE)
        .try_fold((0, 0), |(records, sum), record| Ok((records + 1, sum + u64::from(record?[0]))))
}
