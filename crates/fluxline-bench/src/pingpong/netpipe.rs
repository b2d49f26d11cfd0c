//! Writes NetPIPE's own file of results, for its users' tools.

use super::sweep::BEST_MEAN;
use crate::result::{Experiment, Report};
use crate::statistics::median;

/// Bits of a NetPIPE megabit. Source: netpipe.c: 1024 * 1024; its manual page is wrong.
const MEGABIT: f64 = 1_048_576.0;

/// The lines of `np.out`: bytes, megabits per second, seconds. Of several rounds the median.
///
/// `None`: the report has no experiment on NetPIPE's schedule.
#[must_use]
pub fn text(report: &Report) -> Option<String> {
    let names = ["pingpong", "stream", "bidirectional", "messages", "cold"];
    let of = |name: &&str| report.experiments.iter().find(|one| one.name == **name);
    let lines = names.iter().find_map(of).and_then(lines)?;
    Some(lines)
}

fn lines(experiment: &Experiment) -> Option<String> {
    let series = experiment.series.iter().find(|one| one.label == BEST_MEAN)?;
    // Both ways at once: bits of both, as NetPIPE -2 counts them.
    let ways = if experiment.name == "bidirectional" { 2.0 } else { 1.0 };
    let line = |point: &crate::result::Point| {
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
