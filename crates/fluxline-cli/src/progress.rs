//! How far a long command is, on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of so many steps where standard error is a terminal and `quiet` is off; else silent.
pub fn bar(steps: u64, quiet: bool) -> ProgressBar {
    let style = "{elapsed:>4} {bar:30} {pos}/{len}  {msg}";
    styled(ProgressBar::new(steps), style, quiet)
}

/// A line of text alone, on the same terms.
pub fn line(quiet: bool) -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {elapsed:>4}  {msg}", quiet)
}

fn styled(bar: ProgressBar, style: &str, quiet: bool) -> ProgressBar {
    if quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // Constants of this file: where one were wrong, the bar would look otherwise, no more.
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

/// Tells a bar how much of how much is done, and what comes next.
pub fn telling(bar: &ProgressBar) -> impl FnMut(usize, usize, &str) + use<> {
    let bar = bar.clone();
    move |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    }
}
