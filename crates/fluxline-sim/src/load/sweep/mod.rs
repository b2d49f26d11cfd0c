//! Experiments: one point measured, many points on all cores, the load at which a model saturates.
//!
//! Any model can be measured. It reports each offered and delivered message to an [`Observer`], and
//! implements [`Experiment`]: access to the observer, the busy time of its links, the number of
//! packet-link-hops, and the check of its laws. [`measure()`] then warms the model up, runs it, and
//! returns an [`Outcome`] in a form that is the same for all models. To measure points in parallel,
//! write a function of a point's parameters that builds the model, its agenda and its seed anew:
//! see [`run_all`].

pub mod measure;
pub mod outcome;
pub mod saturation;

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use super::observer::Observer;
pub use crate::core::interconnect::LinkUse;
pub use measure::{Experiment, Limits, MeasureError, Precision, measure, measure_to};
pub use outcome::{CoreShares, EventOutcome, Goal, LinkUtilisation, NodeLoad, Outcome, WarmUp};
pub use saturation::{Criterion, Saturation, saturation};

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Points that are done.
    pub done: usize,
    /// Number of all points.
    pub points: usize,
    /// The index of the last point.
    pub last: usize,
}

/// Runs every point on up to `threads` threads (`None`: as many as there are cores), and returns
/// the results in the order of the points, which does not depend on the number of threads.
/// `progress` is called after each point, by one thread at a time.
///
/// # Panics
/// When `run` panics, once the other threads are done.
pub fn run_all<P, R>(
    points: &[P],
    threads: Option<NonZeroUsize>,
    run: impl Fn(&P) -> R + Sync,
    progress: impl FnMut(Progress) + Send,
) -> Vec<R>
where
    P: Sync,
    R: Send,
{
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.map_or_else(cores, NonZeroUsize::get).min(points.len());
    let next = AtomicUsize::new(0);
    let results: Vec<Option<R>> = points.iter().map(|_| None).collect();
    let shared = Mutex::new((results, 0, progress));
    let work = || {
        loop {
            // `Relaxed` is enough: only the value counts, and the lock publishes the results.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else { return };
            let result = run(point);
            let Ok(mut shared) = shared.lock() else { return };
            let (results, done, progress) = &mut *shared;
            results[index] = Some(result);
            *done += 1;
            progress(Progress { done: *done, points: points.len(), last: index });
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work();
        drop(others);
    });
    let (results, ..) = shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
