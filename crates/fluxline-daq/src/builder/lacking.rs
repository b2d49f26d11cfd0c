//! What an incomplete event lacks, in words of bounded length: `fec 2 sent nothing; fec 1: packets
//! 3, 7-9 of 64 missing`.

use std::fmt::Write;

use super::slab::OpenEvent;
use super::sources::Sources;

/// The longest text for one event \[byte\]; what does not fit is cut, and the cut shows as "…".
const TEXT_BYTES_MAX: usize = 512;

/// Text with a limit.
struct Text<'a> {
    out: &'a mut String,
    start: usize,
    cut: bool,
}

impl Text<'_> {
    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        if self.cut {
            return;
        }
        let before = self.out.len();
        // Writing into a String cannot fail.
        let _ = self.out.write_fmt(arguments);
        if self.out.len() - self.start > TEXT_BYTES_MAX {
            self.out.truncate(before);
            self.out.push('…');
            self.cut = true;
        }
    }

    fn separate(&mut self) {
        if self.out.len() > self.start {
            self.add(format_args!("; "));
        }
    }
}

/// Appends what `event` lacks to `out`; returns how many bytes that took.
pub(super) fn describe(
    event: &OpenEvent,
    sources: &Sources,
    shared: bool,
    out: &mut String,
) -> u32 {
    let start = out.len();
    let mut text = Text { out, start, cut: false };
    if shared {
        if let Some(count) = sources.required_count_only()
            && (event.sources.len() as u32) < count
        {
            text.add(format_args!("{} of {count} sources came", event.sources.len()));
        }
        sources.absent(&event.sources, |label| {
            text.separate();
            text.add(format_args!("{label} sent nothing"));
        });
    }
    for (source, fragment) in event.fragments() {
        if fragment.complete || text.cut {
            continue;
        }
        let (parts, count) = fragment.coverage.parts();
        text.separate();
        text.add(format_args!("{}: {parts} ", sources.label(source)));
        let mut comma = "";
        fragment.coverage.missing(|first, last| {
            if first == last {
                text.add(format_args!("{comma}{first}"));
            } else {
                text.add(format_args!("{comma}{first}-{last}"));
            }
            comma = ", ";
            !text.cut
        });
        text.add(format_args!(" of {count} missing"));
    }
    (text.out.len() - start) as u32
}
