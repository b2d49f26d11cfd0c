//! Standard output for people and pipes: whoever closes the pipe early (`| head`) ends us quietly.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// The exit status if nobody reads standard output any more.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Says how the program will end, so that a reader who leaves early does not hide it.
pub fn end_with(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
}

/// Writes to standard output. When nobody reads it any more, the program ends as it would have
/// ended; when it cannot be written for another reason (a full disk), with a sentence and status 1.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            std::process::exit(STATUS.load(Ordering::Relaxed).into());
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "fluxline: standard output: {error}.");
            std::process::exit(1);
        }
    }
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
