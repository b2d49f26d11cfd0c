//! Things of every kind under names in a directory.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

/// A directory with one thing of each kind, and a file outside it.
fn things() -> (tempfile::TempDir, Directory) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run");
    std::fs::write(scratch.path().join("victim"), "precious").unwrap();
    std::fs::create_dir_all(path.join("directory")).unwrap();
    std::fs::write(path.join("directory/inner"), "inner").unwrap();
    std::fs::write(path.join("file"), "text").unwrap();
    let pipe =
        rustix::fs::mknodat(rustix::fs::CWD, path.join("pipe"), FileType::Fifo, FILE_MODE, 0);
    pipe.unwrap();
    drop(UnixListener::bind(path.join("socket")).unwrap());
    symlink("nowhere", path.join("dangling")).unwrap();
    symlink("/dev/null", path.join("device")).unwrap();
    symlink("loop", path.join("loop")).unwrap();
    symlink("file", path.join("near")).unwrap();
    symlink("../victim", path.join("far")).unwrap();
    symlink("directory", path.join("linked")).unwrap();
    let directory = Directory::open(&path).unwrap();
    (scratch, directory)
}

/// Names with the words of the sentence that refuses them.
const REFUSED: [(&str, &str); 13] = [
    ("directory", "is a directory, not a file"),
    ("pipe", "is a named pipe, not a file"),
    ("socket", "is a socket, not a file"),
    ("dangling", "is a symbolic link"),
    ("device", "is a symbolic link"),
    ("loop", "is a symbolic link"),
    ("near", "is a symbolic link"),
    ("far", "is a symbolic link"),
    ("linked/inner", "is a symbolic link"),
    ("absent", "is not there"),
    ("../victim", "cannot be a file's name"),
    ("/etc/passwd", "cannot be a file's name"),
    ("", "cannot be a file's name"),
];

#[test]
fn anything_but_a_regular_file_inside_is_refused_by_its_kind() {
    let (_scratch, directory) = things();
    for (name, words) in REFUSED {
        for access in [Access::Read, Access::Write] {
            let text = directory.file(Path::new(name), access).unwrap_err().to_string();
            assert!(text.contains(words), "{name:?}: {text}");
        }
        assert!(directory.read(Path::new(name)).is_err(), "{name}");
        assert_eq!(directory.file_bytes(Path::new(name)), None, "{name}");
    }
    assert_eq!(directory.read(Path::new("file")).unwrap(), b"text");
    assert_eq!(directory.read(Path::new("directory/inner")).unwrap(), b"inner");
    assert_eq!(directory.file_bytes(Path::new("directory/inner")), Some(5));
}

#[test]
fn a_kernel_without_openat2_follows_no_link_either() {
    let (_scratch, directory) = things();
    let open = |name: &str, flags| {
        let parts = parts(Path::new(name)).unwrap();
        directory.open_by_steps(&parts, flags, FILE_MODE)
    };
    for name in ["dangling", "device", "loop", "near", "far", "linked/inner"] {
        assert_eq!(open(name, OFlags::RDONLY).unwrap_err(), Errno::LOOP, "{name}");
        assert_eq!(open(name, OFlags::CREATE | OFlags::RDWR).unwrap_err(), Errno::LOOP, "{name}");
    }
    assert_eq!(open("linked", OFlags::DIRECTORY).unwrap_err(), Errno::LOOP);
    assert!(open("directory/inner", OFlags::RDONLY).is_ok());
    assert_eq!(open("file/x", OFlags::RDONLY).unwrap_err(), Errno::NOTDIR);
}

#[test]
fn new_files_are_made_inside_and_replace_links_instead_of_following_them() {
    let (scratch, directory) = things();
    let victim = || std::fs::read_to_string(scratch.path().join("victim")).unwrap();
    for name in ["far", "dangling", "file", "pipe"] {
        let text = directory.create(Path::new(name)).unwrap_err().to_string();
        assert!(text.contains("exists already"), "{name}: {text}");
    }
    assert!(directory.create(Path::new("linked/new")).is_err());
    assert!(directory.make(Path::new("linked/new")).is_err());
    assert!(directory.make(Path::new("../outside")).is_err());
    for name in ["far", "dangling", "pipe", "new"] {
        symlink("../victim", directory.path().join(name).with_extension("new")).unwrap();
        directory.replace(Path::new(name), b"bytes").unwrap();
        assert_eq!(directory.read(Path::new(name)).unwrap(), b"bytes", "{name}");
    }
    assert!(directory.replace(Path::new("directory"), b"bytes").is_err());
    assert_eq!(victim(), "precious");
    assert!(!directory.path().join("nowhere").exists());
}

#[test]
fn a_path_into_the_directory_is_known_by_any_name_of_it() {
    let (scratch, directory) = things();
    let alias = scratch.path().join("alias");
    symlink("run", &alias).unwrap();
    for name in ["out", "out/deep"] {
        let made = directory.make_named(&alias.join(name)).unwrap();
        assert_eq!(made.path(), directory.path().join(name));
    }
    assert_eq!(directory.make_named(&alias).unwrap().path(), directory.path());
    let text = directory.make_named(&alias.join("linked/deep")).unwrap_err().to_string();
    assert!(text.contains("is a symbolic link"), "{text}");
    // Links elsewhere are the user's.
    symlink("run/directory", scratch.path().join("elsewhere")).unwrap();
    directory.make_named(&scratch.path().join("elsewhere/deep")).unwrap();
    assert!(directory.path().join("directory/deep").is_dir());
}

#[test]
fn text_beyond_the_limit_is_refused_without_reading_it() {
    let (_scratch, directory) = things();
    File::create(directory.path().join("run.json")).unwrap().set_len(1 << 40).unwrap();
    let read = directory.read(Path::new("run.json"));
    assert!(matches!(read, Err(FolderError::TooLarge { .. })));
}
