//! Writes NetPIPE's own file of results, for its users' tools.

use super::sweep::{BEST_MEAN, REPEATS};
use crate::result::{Experiment, Point, Report};
use crate::statistics::median;

/// Bits of a NetPIPE megabit. Source: netpipe.c: 1024 * 1024; its manual page is wrong.
const MEGABIT: f64 = 1_048_576.0;

/// The experiment whose results are printed where the user names none.
pub const BY_DEFAULT: &str = "pingpong";

/// Returns the lines of `np.out`: bytes, megabits per second, seconds; of several rounds the
/// median. An integrity run has bytes and repeats.
///
/// `None`: the report has no experiment on NetPIPE's schedule, or more than one.
#[must_use]
pub fn text(report: &Report) -> Option<String> {
    let mut all = report.experiments.iter().filter_map(lines);
    let lines = all.next()?;
    all.next().is_none().then_some(lines)
}

fn lines(experiment: &Experiment) -> Option<String> {
    if let Some(series) = experiment.series.iter().find(|one| one.label == REPEATS) {
        // Source: netpipe.c: "%8d %d\n".
        let line = |point: &Point| {
            Some(format!("{:8.0} {:.0}\n", point.x, median(&point.samples)?.trunc()))
        };
        return Some(series.points.iter().filter_map(line).collect());
    }
    let series = experiment.series.iter().find(|one| one.label == BEST_MEAN)?;
    // Both ways at once: bits of both, as NetPIPE -2 counts them.
    let ways = if experiment.name == "bidirectional" { 2.0 } else { 1.0 };
    let line = |point: &Point| {
        let seconds = median(&point.samples)? / 1e6;
        Some(line(ways * point.x, seconds))
    };
    Some(series.points.iter().filter_map(line).collect())
}

/// Source: netpipe.c: `"%8d %lf %12.8lf\n"`, and a time of 0 counts as 1 us.
fn line(bytes: f64, seconds: f64) -> String {
    let seconds = if seconds == 0.0 { 1e-6 } else { seconds };
    format!("{bytes:8.0} {:.6} {seconds:12.8}\n", bytes * 8.0 / (seconds * MEGABIT))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn lines_are_as_netpipe_prints_them() {
        assert_eq!(line(1.0, 33.5e-6), "       1 0.227743   0.00003350\n");
        assert_eq!(line(8_388_611.0, 0.0043), " 8388611 14883.726253   0.00430000\n");
        assert_eq!(line(1.0, 0.0), "       1 7.629395   0.00000100\n");
    }
}
