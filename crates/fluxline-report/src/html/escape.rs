//! Text that stays text inside HTML, and data that stays data inside a script.

use std::borrow::Cow;

use serde::Serialize;

/// Escapes text for HTML, between tags or in a quoted attribute.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    let is_special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || is_unseen(c);
    if !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_unseen(c) => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns true for control characters that HTML does not allow.
fn is_unseen(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// Writes data as JSON that cannot end its script element. Not finite numbers become null.
pub(super) fn json<T: Serialize>(data: &T) -> String {
    let text = serde_json::to_string(data).unwrap_or_else(|_| "[]".to_string());
    // `<` only occurs inside strings, where JSON may write it as an escape; so do the line ends
    // that older scripts take for an end of line.
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
