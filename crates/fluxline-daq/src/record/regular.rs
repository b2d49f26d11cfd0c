//! Opens the files of a run: regular files only, and never blocks.
//!
//! A run folder may come from anywhere. An events file may really be a named pipe, on which an
//! ordinary open waits for ever, or a device, which acts when it is opened. So the type is checked
//! before the file is opened, and again afterwards. Source: Linux man-pages open(2), O_NONBLOCK;
//! fifo(7).

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::folder_error::FolderError;

/// The largest `run.json`, `sources.jsonl` or description that is read \[byte\].
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// The purpose of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// Opens a file that must exist and be a regular one. Returns at once, whatever the path names.
pub(super) fn open_regular(path: &Path, access: Access) -> Result<File, FolderError> {
    let found = fs::metadata(path).map_err(|reason| not_found(path, reason))?;
    check(path, found.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Write);
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let explain = |reason| FolderError::explain(path, reason);
    let file = options.open(path).map_err(explain)?;
    check(path, file.metadata().map_err(explain)?.file_type())?;
    Ok(file)
}

/// Reads a small file whole.
pub(super) fn read_regular(path: &Path) -> Result<Vec<u8>, FolderError> {
    let file = open_regular(path, Access::Read)?;
    let mut bytes = Vec::new();
    let read = file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|reason| FolderError::explain(path, reason))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(FolderError::TooLarge { path: path.to_path_buf(), bytes_max: TEXT_BYTES_MAX });
    }
    Ok(bytes)
}

fn check(path: &Path, kind: FileType) -> Result<(), FolderError> {
    if kind.is_file() {
        return Ok(());
    }
    let what = match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(FolderError::NotAFile { path: path.to_path_buf(), what })
}

/// Returns the error for an absent file, or for a link to nowhere.
fn not_found(path: &Path, reason: io::Error) -> FolderError {
    let is_link = path.symlink_metadata().is_ok_and(|found| found.file_type().is_symlink());
    if reason.kind() == io::ErrorKind::NotFound && is_link {
        let what = "a link to a file that does not exist";
        return FolderError::NotAFile { path: path.to_path_buf(), what };
    }
    FolderError::explain(path, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn anything_but_a_regular_file_is_refused_by_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("directory")).unwrap();
        let made = Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = UnixListener::bind(path("socket")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("/dev/null", path("device")).unwrap();
        symlink(path("loop"), path("loop")).unwrap();
        for (name, what) in [
            ("directory", "is a directory, not a file"),
            ("pipe", "is a named pipe, not a file"),
            ("socket", "is a socket, not a file"),
            ("dangling", "is a link to a file that does not exist, not a file"),
            ("device", "is a device, not a file"),
            ("loop", "check the disk"),
            ("absent", "is not there"),
        ] {
            for access in [Access::Read, Access::Write] {
                let text = open_regular(&path(name), access).unwrap_err().to_string();
                assert!(text.contains(what), "{name}: {text}");
            }
            assert!(read_regular(&path(name)).is_err(), "{name}");
        }
        fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        assert_eq!(read_regular(&path("link")).unwrap(), b"text");
    }

    #[test]
    fn text_beyond_the_limit_is_refused_without_reading_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(read_regular(&path), Err(FolderError::TooLarge { .. })));
    }
}
