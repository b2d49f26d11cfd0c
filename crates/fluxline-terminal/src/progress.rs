//! The progress of a long command, on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// Makes a bar with this number of steps, hidden if `quiet` or if standard error is not a terminal.
pub fn bar(steps: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new(steps), "{elapsed:>4} {bar:30} {pos}/{len}  {msg}")
}

/// Makes a bar of bytes, hidden if `quiet` or if standard error is not a terminal.
pub fn bytes(bytes: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = "{elapsed:>4} {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
    styled(ProgressBar::new(bytes), style)
}

/// Makes a line of text, hidden if standard error is not a terminal.
pub fn line() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {elapsed:>4}  {msg}")
}

fn styled(bar: ProgressBar, style: &str) -> ProgressBar {
    // Constants of this file: a wrong one would only change the look of the bar.
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

/// Returns a function that shows on a bar the steps done, all steps, and what comes next.
pub fn reporter(bar: &ProgressBar) -> impl FnMut(usize, usize, &str) + use<> {
    let bar = bar.clone();
    move |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    }
}
