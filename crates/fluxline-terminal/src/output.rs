//! All that the program says: results on standard output, everything else on standard error.
//!
//! Texts from outside (packets, peers, captures, files) pass through here on their way to a
//! terminal, so their control characters are escaped here. A reader that closes the pipe early (`|
//! head`) ends us quietly; a standard error that is full or closed ends nothing.

use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// The exit status if standard output is closed early.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Sets the exit status in advance, so that a reader that leaves early does not hide it.
pub fn end_with(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
}

/// Prints a JSON document to standard output, as `--json` asks.
pub fn print_json(document: &serde_json::Value) {
    write(format_args!("{document:#}\n"));
}

/// Writes to standard output. If its reader has left, the program ends with the status set before.
/// If it cannot be written for another reason (a full disk), it ends with a sentence and status 1.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let text = text.to_string();
    match out.write_all(escaped(&text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            std::process::exit(STATUS.load(Ordering::Relaxed).into());
        }
        Err(error) => {
            inform(format_args!("fluxline: standard output: {error}."));
            std::process::exit(1);
        }
    }
}

/// Writes a line to standard error, if that is possible.
pub fn inform(text: Arguments<'_>) {
    let line = format!("{text}\n");
    // A closed standard error must not end a run.
    let _ = std::io::stderr().lock().write_all(escaped(&line).as_bytes());
}

/// Says that a further signal ended the program at once (`Stop::on_signal`).
pub fn ended_at_once() {
    inform(format_args!(
        "fluxline: a further signal ended the program at once: what it had received and not yet \
         written is lost."
    ));
}

/// Replaces characters that a terminal obeys instead of showing them: control characters other than
/// line ends and tabulators, and those that change the direction of writing. They are written as in
/// JSON (`\u001b`), so that a document stays one.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_obeyed(letter) {
            true => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            false => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// The same for what must stay one line.
pub fn escaped_line(text: &str) -> Cow<'_, str> {
    match text.contains('\n') {
        true => Cow::Owned(escaped(&text.replace('\n', "\\n")).into_owned()),
        false => escaped(text),
    }
}

fn is_obeyed(letter: char) -> bool {
    let writing = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}');
    let isolates = matches!(letter, '\u{2066}'..='\u{2069}');
    (letter.is_control() && letter != '\n' && letter != '\t') || writing || isolates
}

/// As `println!`, by [`write()`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// As `print!`, by [`write()`].
#[macro_export]
macro_rules! say_text {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// As `eprintln!`, by [`inform()`].
#[macro_export]
macro_rules! inform {
    ($($text:tt)*) => { $crate::output::inform(format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use super::{escaped, escaped_line};

    #[test]
    fn what_a_terminal_obeys_is_shown_and_the_rest_stays() {
        let plain = "µs ä 日本 \t x\n";
        assert!(matches!(escaped(plain), std::borrow::Cow::Borrowed(_)));
        assert_eq!(escaped("\u{1b}[2J\u{7}\r\u{9b}31m"), "\\u001b[2J\\u0007\\u000d\\u009b31m");
        assert_eq!(escaped("a\u{202e}b\u{2066}\u{7f}"), "a\\u202eb\\u2066\\u007f");
        assert_eq!(escaped_line("one\ntwo\u{0}"), "one\\ntwo\\u0000");
    }

    #[test]
    fn a_document_stays_one() {
        let name = "peer \u{9b}\u{7f}\u{202e}\n";
        let document = serde_json::json!({ "name": name }).to_string();
        let shown = escaped(&document);
        assert_ne!(shown, document);
        let back: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(back["name"], name);
    }
}
