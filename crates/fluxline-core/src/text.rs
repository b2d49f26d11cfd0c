//! Text from untrusted sources, made safe to print.

use alloc::string::String;

/// Returns at most `chars_max` characters of the text without terminal commands.
///
/// Control characters, escape sequences and marks of writing direction are printed as Rust writes
/// them: `\u{1b}`.
#[must_use]
pub fn printable(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    for (number, found) in text.chars().enumerate() {
        if number == chars_max {
            out.push_str("...");
            break;
        }
        match found {
            '"' | '\'' | '\\' => out.push(found),
            found => out.extend(found.escape_debug()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_obeyed() {
        assert_eq!(printable("board-7 µ \\ \"x\"", 40), "board-7 µ \\ \"x\"");
        let hostile = "\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}txt\0";
        let shown = printable(hostile, 100);
        assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown:?}");
        assert!(shown.starts_with("\\u{1b}]0;owned"), "{shown}");
        assert_eq!(printable("aaaaa", 3), "aaa...");
    }
}
