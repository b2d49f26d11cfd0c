//! Files that are written whole or not written.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;

/// Makes a folder, unless it exists.
pub fn folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| {
        Failure::failed(format_args!("{}: {error}; name another folder.", path.display()))
    })
}

/// Writes a file beside its place and moves it there: a killed program leaves the old file, or
/// none.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = fs::File::create(part)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(part);
        Failure::failed(format_args!("{} cannot be written: {error}.", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn a_file_replaces_another_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.html");
        write(&file, b"one, which is long").expect("written");
        write(&file, b"two").expect("written");
        assert_eq!(std::fs::read(&file).expect("a file"), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = write(&folder.path().join("no/such/file"), b"x").expect_err("refused");
        assert!(failure.message.contains("no/such/file cannot be written"), "{failure:?}");
    }
}
