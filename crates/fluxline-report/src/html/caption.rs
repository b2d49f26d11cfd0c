//! The caption of a figure.

use std::fmt::Write as _;

use super::escape::escape;

/// The heading of a block.
pub fn push_caption(out: &mut String, title: &str) {
    if !title.is_empty() {
        let _ = writeln!(out, "<figcaption>{}</figcaption>", escape(title));
    }
}
