//! Measurements of this machine's links, stored for programs that use the links.
//!
//! A file of a few lines, written by `fluxline bench shm:// --only stores --save` and read by
//! [`crate::open`]: `$XDG_CONFIG_HOME/fluxline/links.toml`, or `~/.config/fluxline/links.toml`.
//!
//! ```toml
//! # Measured by fluxline 0.1.0.
//! [shm]
//! crossover_bytes = 16384
//! ```
//!
//! It is read as a small part of TOML: comments, tables of one name, whole numbers. Everything else
//! is refused, so that a typing error is noticed.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The only key.
const KEY: &str = "crossover_bytes";
/// Longest file \[byte\]. Chosen: a thousand links.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Measurements by link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Name of the link as in its capabilities, and the size up to which stores through a window
    /// are better than puts \[byte\].
    pub crossover_bytes: Vec<(String, u64)>,
}

/// The reason why a file of measurements is not used.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The file has an invalid line.
    #[error(
        "{}, line {line}: {what}; correct the line, or remove the file and measure again with \
         `fluxline bench shm:// --only stores --save`",
        .path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// The host refused.
    #[error("{}: {source}", .path.display())]
    Host {
        /// The file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The environment does not name a directory for it.
    #[error("neither XDG_CONFIG_HOME nor HOME is set; name a file for the settings")]
    NoPlace,
}

/// Returns the path of this user's file; `None`: the environment names no folder for settings.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    // A relative XDG_CONFIG_HOME must be ignored. Source: XDG Base Directory Specification 0.8.
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("fluxline").join("links.toml"))
}

impl Measured {
    /// Loads this user's file; a file that is missing or cannot be read counts as empty: links work
    /// without it, and services often have no home. Errors: [`MeasuredError::Line`].
    pub fn load() -> Result<Measured, MeasuredError> {
        default_path().map_or_else(|| Ok(Measured::default()), |path| Measured::read_if_any(&path))
    }

    fn read_if_any(path: &Path) -> Result<Measured, MeasuredError> {
        match Measured::read(path) {
            Err(MeasuredError::Host { .. }) => Ok(Measured::default()),
            read => read,
        }
    }

    /// Reads a file; a missing file counts as empty. Errors: [`MeasuredError`].
    pub fn read(path: &Path) -> Result<Measured, MeasuredError> {
        let host = |source| MeasuredError::Host { path: path.to_path_buf(), source };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Measured::default());
            }
            Err(error) => return Err(host(error)),
            Ok(about) if !about.is_file() || about.len() > FILE_BYTES_MAX => {
                let what = format!("this is not a file of at most {FILE_BYTES_MAX} B");
                return Err(MeasuredError::Line { path: path.to_path_buf(), line: 1, what });
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(path).map_err(host)?;
        Measured::parse(&text).map_err(|(line, what)| MeasuredError::Line {
            path: path.to_path_buf(),
            line,
            what,
        })
    }

    /// Parses a text. Errors: the line and the problem.
    pub fn parse(text: &str) -> Result<Measured, (usize, String)> {
        let mut measured = Measured::default();
        let mut link: Option<String> = None;
        for (place, line) in text.lines().enumerate() {
            let wrong = |what: String| (place + 1, what);
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                link = Some(name_of(name.trim()).map_err(wrong)?);
                continue;
            }
            let bytes = bytes_of(line).map_err(wrong)?;
            let of = link
                .clone()
                .ok_or_else(|| wrong("this line needs a [link] above it".to_owned()))?;
            if measured.of(&of).is_some() {
                return Err(wrong(format!("{KEY} of {of} is there twice")));
            }
            measured.crossover_bytes.push((of, bytes));
        }
        Ok(measured)
    }

    /// Returns the crossover of a link \[byte\]; `None` if it was not measured.
    #[must_use]
    pub fn of(&self, link: &str) -> Option<u64> {
        self.crossover_bytes.iter().find(|(name, _)| name == link).map(|(_, bytes)| *bytes)
    }

    /// Sets the crossover of a link \[byte\].
    pub fn set(&mut self, link: &str, bytes: u64) {
        self.crossover_bytes.retain(|(name, _)| name != link);
        self.crossover_bytes.push((link.to_owned(), bytes));
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!(
            "# Measured by fluxline {version}: fluxline bench shm:// --only stores --save\n\
             # Transfers of up to this size are stored through the mapped window.\n"
        );
        for (link, bytes) in &self.crossover_bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[{link}]\n{KEY} = {bytes}\n");
        }
        text
    }

    /// Writes the file atomically, and creates its folder if necessary. Errors: the host's.
    pub fn write(&self, path: &Path) -> Result<(), MeasuredError> {
        let host = |source| MeasuredError::Host { path: path.to_path_buf(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(host)?;
        }
        let beside = path.with_extension(format!("part-{}", std::process::id()));
        fs::write(&beside, self.text()).and_then(|()| fs::rename(&beside, path)).map_err(|error| {
            // A file that could not be moved into place is useless.
            let _ = fs::remove_file(&beside);
            host(error)
        })
    }
}

/// Returns the name of a link. Errors: a sentence about its fault.
fn name_of(text: &str) -> Result<String, String> {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_right) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a link; write for example [shm]")),
    }
}

/// Returns the number of a line. Errors: a sentence about its fault.
fn bytes_of(line: &str) -> Result<u64, String> {
    let example = format!("write for example {KEY} = 16384");
    let (key, value) =
        line.split_once('=').ok_or_else(|| format!("this is not a setting; {example}"))?;
    if key.trim() != KEY {
        return Err(format!("setting {:?} is unknown; {example}", key.trim()));
    }
    let digits = value.trim().replace('_', "");
    // The largest whole number of TOML.
    let number = digits.parse::<u64>().ok().filter(|bytes| *bytes <= i64::MAX as u64);
    number.ok_or_else(|| format!("{:?} is not a number of bytes; {example}", value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_cannot_be_read_keeps_links_from_opening() {
        let within_a_file = Path::new("/dev/null/fluxline/links.toml"); // for any user, root too
        assert!(matches!(Measured::read(within_a_file), Err(MeasuredError::Host { .. })));
        let read = Measured::read_if_any(within_a_file).expect("a link opens without it");
        assert_eq!(read, Measured::default());
        let folder = tempfile::tempdir().expect("a folder");
        let wrong = folder.path().join("links.toml");
        fs::write(&wrong, "[shm]\ncrossover = 1").expect("ours");
        assert!(Measured::read_if_any(&wrong).is_err(), "a mistake is shown");
    }

    #[test]
    fn what_is_written_is_read_again_and_others_links_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep").join("links.toml");
        assert_eq!(Measured::read(&path).expect("no file is no fault"), Measured::default());
        let mut measured = Measured::default();
        measured.set("shm", 4096);
        measured.set("sim-sci", 64);
        measured.set("shm", 16_384);
        measured.write(&path).expect("a folder of ours");
        let again = Measured::read(&path).expect("ours");
        assert_eq!(
            (again.of("shm"), again.of("sim-sci"), again.of("udp")),
            (Some(16_384), Some(64), None)
        );
        let left = fs::read_dir(path.parent().expect("deep")).expect("there").count();
        assert_eq!(left, 1, "only the file itself");
    }

    #[test]
    fn a_bad_file_is_refused_with_its_line_and_what_to_write() {
        for (text, line, says) in [
            ("crossover_bytes = 1", 1, "needs a [link] above"),
            ("[shm]\ncrossover_bytes = many", 2, "\"many\" is not a number of bytes"),
            ("[shm]\ncrossover_bytes = -1", 2, "not a number of bytes"),
            ("[shm]\ncrossover_bytes = 9223372036854775808", 2, "not a number of bytes"),
            ("[shm]\n\ncrossover = 1", 3, "setting \"crossover\" is unknown"),
            ("[shm]\nhello", 2, "this is not a setting"),
            ("[s h m]\n", 1, "is not a link"),
            ("[shm]\ncrossover_bytes = 1\ncrossover_bytes = 2", 3, "twice"),
            ("[shm]\ncrossover_bytes = 1\n[shm]\ncrossover_bytes = 1", 4, "twice"),
            ("\u{0}\u{1}", 1, "this is not a setting"),
        ] {
            let (at, what) = Measured::parse(text).expect_err(text);
            assert!(at == line && what.contains(says), "{text:?}: line {at}, {what}");
        }
        let fine = "# of mine\n[shm] # here\n crossover_bytes = 16_384 # measured\n";
        assert_eq!(Measured::parse(fine).expect("TOML").of("shm"), Some(16_384));
        let folder = tempfile::tempdir().expect("a folder");
        let error = Measured::read(folder.path()).expect_err("a folder").to_string();
        assert!(error.contains("this is not a file") && error.contains("--save"), "{error}");
    }
}
