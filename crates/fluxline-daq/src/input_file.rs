//! Files that the user names: captures, raw payloads, descriptions, experiments.
//!
//! A device never ends, an ordinary open of a named pipe waits until somebody writes to it, and a
//! sparse file of a terabyte is a day of zeros. They are refused at once. A pipe of the shell
//! (`/dev/stdin`, `<(zstdcat FILE)`) has its writer, and is read. Source: Linux man-pages open(2),
//! O_NONBLOCK; fifo(7); statfs(2), PIPEFS_MAGIC.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::extents;

/// The largest text that is read \[byte\].
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// The largest holes of a file, together \[byte\]: no recorder leaves any.
const HOLE_BYTES_MAX: u64 = 1 << 30;
/// The file system of pipes without a name.
const PIPEFS_MAGIC: i64 = 0x5049_5045;

/// Opens a regular file, or a pipe of the shell, for reading. Returns at once.
///
/// Errors: those of the system, and a clause about anything else.
pub fn open(path: &Path) -> io::Result<File> {
    // A device acts when it is opened, so its kind is looked at before; and again afterwards.
    check(path.metadata().map(|found| FileType::from_raw_mode(mode(&found)))?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let kind = FileType::from_raw_mode(mode(&file.metadata()?));
    check(kind)?;
    if kind == FileType::Fifo && rustix::fs::fstatfs(&file)?.f_type != PIPEFS_MAGIC {
        return Err(io::Error::other(
            "it is a named pipe; write its contents to a file, or give them by /dev/stdin",
        ));
    }
    if kind == FileType::RegularFile {
        check_holes(&file)?;
    }
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Reads a small text whole.
///
/// Errors: those of [`open`]; a text that is too long, or not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= TEXT_BYTES_MAX {
        true => Ok(text),
        false => Err(io::Error::other(format!("it has more than {TEXT_BYTES_MAX} bytes"))),
    }
}

fn check_holes(mut file: &File) -> io::Result<()> {
    let holes = extents::hole_bytes(file)?;
    if holes > HOLE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "{holes} bytes of it are holes, which no recorded file has; give a whole copy"
        )));
    }
    file.rewind()
}

fn mode(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(found)
}

fn check(kind: FileType) -> io::Result<()> {
    let what = match kind {
        FileType::RegularFile | FileType::Fifo => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}, not a file")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn devices_sockets_folders_and_named_pipes_are_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, mode, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        std::fs::write(path("file"), "text").unwrap();
        for (file, words) in [
            (path("pipe"), "named pipe"),
            (path("socket"), "a socket"),
            (path("zero"), "a device"),
            ("/dev/zero".into(), "a device"),
            (scratch.path().to_path_buf(), "a directory"),
        ] {
            let error = read_text(&file).unwrap_err().to_string();
            assert!(error.contains(words), "{}: {error}", file.display());
        }
        assert_eq!(read_text(&path("file")).unwrap(), "text");
        assert_eq!(open(&path("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert!(read_text(&path("sparse")).is_err());
    }

    #[test]
    fn a_pipe_of_the_shell_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut opened = open(Path::new(&path)).unwrap();
        writer.write_all(b"later").unwrap();
        drop(writer);
        let mut text = String::new();
        opened.read_to_string(&mut text).unwrap();
        assert_eq!(text, "later");
    }
}
