//! Figures 7 and 8: remote writes and reads with SCINET's own driver on two PentiumPros.
//!
//! The paper's curves cannot come from one measurement: with a set-up of 10 us per block (figure
//! 8), half of the maximum at 64 B (figure 7) is impossible. Assumed here: figure 8 times one
//! block; figure 7 times a queue of blocks with one set-up.

use super::super::pair::{BadStand, Pair, link_lc1};
use super::super::set::{Curve, Facts, Run};
use crate::host::{Call, Config, Descriptor, Direction, Level, Notice, preset};

/// Block sizes \[byte\].
const SIZES: [u32; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Blocks in a queue: enough to make the set-up negligible.
const QUEUE: usize = 256;

/// Returns the time for a queue of `blocks` blocks of `bytes` \[us\].
fn queue_us(
    config: &Config,
    direction: Direction,
    bytes: u32,
    blocks: usize,
) -> Result<f64, BadStand> {
    let mut pair = Pair::new(config, link_lc1())?;
    let block = |number: usize| {
        let offset = number as u64 * u64::from(bytes) % 65_536;
        Descriptor { direction, to: 1, offset, address: offset, bytes }
    };
    let descriptors = (0..blocks).map(block).collect();
    let call = Call::Dma { descriptors, level: Level::Kernel, notice: Notice::Spin };
    let begin = pair.now();
    let (end, _) = pair.complete(call);
    Ok(end.since(begin).as_us())
}

/// Returns the rows of variants: how many reads are under way at once.
pub fn reads(facts: &Facts) -> Result<Vec<Vec<String>>, BadStand> {
    let mut rows = Vec::new();
    for count in [1, 2, 4, 8] {
        let mut config = preset::test_stand_a();
        config.engine.reads_outstanding = count;
        let us = |direction| queue_us(&config, direction, 4096, QUEUE);
        let ratio = us(Direction::Read)? / us(Direction::Write)?;
        rows.push(vec![count.to_string(), facts.shown("scinet-7-ratio", ratio)]);
    }
    Ok(rows)
}

/// Runs stand A.
pub fn run(facts: &Facts, run: &mut Run) -> Result<(), BadStand> {
    let stand = preset::test_stand_a();
    let times =
        |name, direction| Curve::of(name, SIZES, |bytes| queue_us(&stand, direction, bytes, 1));
    let rates = |name, direction| {
        Curve::of(name, SIZES, |bytes| {
            let us = queue_us(&stand, direction, bytes, QUEUE)?;
            Ok::<f64, BadStand>(f64::from(bytes) * QUEUE as f64 / us)
        })
    };
    let (write, read) = (rates("write", Direction::Write)?, rates("read", Direction::Read)?);
    let part = |curve: &Curve, bytes| curve.at(bytes) / curve.most();
    let slow = (times("write", Direction::Write)?, times("read", Direction::Read)?);
    let (write_line, read_line) = (slow.0.line(), slow.1.line());
    let set_up = facts.worst("scinet-8-set-up", [write_line.0, read_line.0]);
    run.numbers.extend([
        ("scinet-7-peak", part(&write, 256).min(part(&read, 256))),
        ("scinet-7-half-writes", part(&write, 64)),
        ("scinet-7-half-reads", part(&read, 64)),
        ("scinet-7-ratio", write.most() / read.most()),
        ("scinet-most-a", write.most().max(read.most())),
        ("scinet-8-set-up", set_up),
        ("scinet-8-slope", read_line.1 / write_line.1),
    ]);
    run.figures.push(("scinet-7", vec![write, read]));
    run.figures.push(("scinet-8", vec![slow.0, slow.1]));
    Ok(())
}
