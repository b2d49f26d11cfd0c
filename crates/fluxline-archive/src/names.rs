//! Names of files in a run folder and in an archive, and what is done with each.

use fluxline_daq::record::{ARCHIVE_FILE, MARKS_FILE};

/// The journal of archives, in the run folder.
pub const JOURNAL_FILE: &str = "archive.jsonl";
/// The address of a live page with its token; a run that was killed leaves it behind.
const ADDRESS_FILE: &str = "serve.url";
/// The file that is copied first: the run's own record.
pub const FIRST_FILE: &str = "run.json";
/// The longest name of a file \[byte\].
pub const NAME_BYTES_MAX: usize = 1000;

/// Returns true for a file about archives, or with a secret: it is not a part of the run.
pub fn is_own(name: &str) -> bool {
    [ARCHIVE_FILE, JOURNAL_FILE, ADDRESS_FILE].contains(&name)
}

/// Returns true for a file that people may change after the run: its tags and comments.
pub fn may_change(name: &str) -> bool {
    name == MARKS_FILE
}

/// Returns true for a file that stays when the local files are removed: `fluxline runs` reads it.
pub fn stays(name: &str) -> bool {
    name == FIRST_FILE || name == MARKS_FILE || is_own(name)
}

/// Checks the name of a file; the error is a clause.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_odd = |part: &str| part.is_empty() || part == "." || part == "..";
    match name {
        _ if name.len() > NAME_BYTES_MAX => Err("is too long"),
        _ if name.starts_with('/') => Err("is an absolute path"),
        _ if name.split('/').any(is_odd) => Err("leaves the folder, or has an empty part"),
        _ if name.contains(char::is_control) => Err("has a control character"),
        _ if is_own(name) => Err("is a file of the archive itself"),
        _ => Ok(()),
    }
}
