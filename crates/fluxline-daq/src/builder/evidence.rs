//! Findings about events after they were closed: the later packets of a source prove that it had
//! sent nothing for them, or that packets of it are lost there.
//!
//! An event that closes without proof about a source raises the source's `unproven` position. The
//! steps of its packet counter below that position are kept (`line.rs`), and the gaps in them
//! (`frontier.rs`). The end of a run turns both into amendments, which run.json has; readers of the
//! run apply them (`record/join`).

use super::line::Line;
use super::members::Member;
use super::summary::Amendment;
use super::{Builder, Position};

/// Most amendments of a run.
const AMENDMENTS_MAX: usize = 4096;

type Range = (Position, Position);

impl Builder {
    /// Returns what became known about sources in events after these were closed. With too many
    /// ranges, losses are stated over longer ranges, so that no event is called complete wrongly.
    #[must_use]
    pub fn amendments(&self) -> Vec<Amendment> {
        let mut list = Vec::new();
        for (source, member) in (0..).zip(self.members.iter()) {
            let (lost, nothing) = ranges_of(member);
            let all =
                lost.iter().map(|its| (its, true)).chain(nothing.iter().map(|its| (its, false)));
            list.extend(all.map(|(&(after, before), lost)| {
                let (after, before) = (self.event_key(after), self.event_key(before));
                Amendment { source, after, before, lost }
            }));
        }
        if list.len() > AMENDMENTS_MAX {
            list.retain(|its| its.lost);
        }
        if list.len() > AMENDMENTS_MAX {
            // One range for each source.
            list.dedup_by(|next, before| {
                let same = next.source == before.source;
                if same {
                    before.before = before.before.max(next.before);
                }
                same
            });
        }
        list
    }
}

/// Returns the ranges in which packets of a source are lost, and those for which it sent nothing
/// more, both in order.
fn ranges_of(member: &Member) -> (Vec<Range>, Vec<Range>) {
    let lines: Vec<&Line> = member.lines.iter().filter(|line| line.newest().is_some()).collect();
    let mut lost: Vec<Range> = lines.iter().flat_map(|line| line.untold_losses()).collect();
    lost.sort_unstable();
    let mut nothing = Vec::new();
    // Of several counters, each proves only what it counts.
    if let [line] = lines.as_slice() {
        line.passed_closed().for_each(|range| without(range, &lost, &mut nothing));
    }
    (lost, nothing)
}

/// Adds a range without the losses in it, which are in order.
fn without(range: Range, lost: &[Range], out: &mut Vec<Range>) {
    let (mut from, to) = range;
    for &(before, after) in lost {
        if after <= from || to <= before {
            continue;
        }
        if from < before {
            out.push((from, before));
        }
        from = from.max(after);
    }
    if from < to {
        out.push((from, to));
    }
}
