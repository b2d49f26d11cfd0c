//! Where nodes and regions of a group are found: files in a directory that only their user enters.
//!
//! `/dev/shm/fluxline-UID/GROUP/NODE.node` is a node's control file, which its process holds locked
//! for as long as it lives; `NODE~NAME.region` is an exported region. What is locked is alive; what
//! is not was left by a process that died, and is removed by the next that takes the name, or by
//! `fluxline shm clean`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fluxline_proto::fabric::Name;

use super::ShmError;
use crate::sys::shared::effective_user;

const NODE_SUFFIX: &str = ".node";
const REGION_SUFFIX: &str = ".region";
const SEPARATOR: char = '~';
/// What a file's blocks are counted in. Source: stat(2).
const BLOCK_BYTES: u64 = 512;

/// The directory of one group.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

/// A node that is or was, for `fluxline shm list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its group.
    pub group: String,
    /// Its name.
    pub node: String,
    /// Whether its process lives.
    pub alive: bool,
    /// Its exported regions: name and size of the file \[byte\].
    pub regions: Vec<(String, u64)>,
    /// The memory of its control file \[byte\].
    pub bytes: u64,
}

/// The base of all groups of this user.
pub(super) fn default_base() -> PathBuf {
    PathBuf::from(format!("/dev/shm/fluxline-{}", effective_user()))
}

impl Directory {
    /// Opens the group's directory; makes it where it is not there.
    pub fn open(base: &Path, group: &Name) -> Result<Directory, ShmError> {
        let path = base.join(group.as_str());
        for folder in [base, &path] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ShmError::host(folder, &error));
                }
                _ => check_folder(folder)?,
            }
        }
        Ok(Directory { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn node(&self, node: &Name) -> PathBuf {
        self.path.join(format!("{node}{NODE_SUFFIX}"))
    }

    pub fn region(&self, node: &Name, region: &Name) -> PathBuf {
        self.path.join(format!("{node}{SEPARATOR}{region}{REGION_SUFFIX}"))
    }

    /// Removes the group's directory with its last node.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes a dead node's files.
    pub fn remove(&self, node: &Name) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if region_of(&entry.file_name().to_string_lossy())
                .is_some_and(|of| of.0 == node.as_str())
            {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_file(self.node(node))
    }
}

/// Opens a file of this user, and no link to another.
pub(super) fn open_own(path: &Path) -> Result<File, ShmError> {
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file = options.read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| ShmError::host(path, &error))?;
    let metadata = file.metadata().map_err(|error| ShmError::host(path, &error))?;
    if metadata.uid() != effective_user() || metadata.mode() & 0o077 != 0 || !metadata.is_file() {
        return Err(ShmError::NotOurs { path: path.to_path_buf() });
    }
    Ok(file)
}

fn check_folder(path: &Path) -> Result<(), ShmError> {
    let metadata = fs::symlink_metadata(path).map_err(|error| ShmError::host(path, &error))?;
    if metadata.is_dir() && metadata.uid() == effective_user() && metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(ShmError::NotOurs { path: path.to_path_buf() })
}

/// Node and region of a region file's name.
fn region_of(file: &str) -> Option<(&str, &str)> {
    file.strip_suffix(REGION_SUFFIX)?.split_once(SEPARATOR)
}

/// What nodes exist, living and dead, of all groups below `base` (default: this user's).
///
/// Errors: [`ShmError`]. Cost: a few system calls per file.
pub fn list(base: Option<&Path>) -> Result<Vec<NodeEntry>, ShmError> {
    let base = base.map_or_else(default_base, Path::to_path_buf);
    let mut found: Vec<NodeEntry> = Vec::new();
    for group in entries(&base)? {
        for path in entries(&group)? {
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(node) = file.strip_suffix(NODE_SUFFIX) else { continue };
            // Slots that nobody used have no memory.
            let bytes = fs::metadata(&path).map_or(0, |found| found.blocks() * BLOCK_BYTES);
            found.push(NodeEntry {
                group: group.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                node: node.to_owned(),
                alive: open_own(&path).is_ok_and(|file| is_held(&file)),
                regions: regions_of(&group, node)?,
                bytes,
            });
        }
    }
    found.sort_by(|a, b| (&a.group, &a.node).cmp(&(&b.group, &b.node)));
    Ok(found)
}

/// Removes what dead nodes left; returns what was removed.
///
/// Errors: [`ShmError`]; nothing of a living node is touched.
pub fn clean(base: Option<&Path>) -> Result<Vec<NodeEntry>, ShmError> {
    let folder = base.map_or_else(default_base, Path::to_path_buf);
    let dead: Vec<NodeEntry> = list(base)?.into_iter().filter(|node| !node.alive).collect();
    for entry in &dead {
        let (Ok(group), Ok(node)) = (Name::parse(&entry.group), Name::parse(&entry.node)) else {
            continue;
        };
        let directory = Directory { path: folder.join(group.as_str()) };
        let path = directory.node(&node);
        // Held while it is removed, so that nobody takes it over in between.
        let file = open_own(&path)?;
        if file.try_lock().is_ok() {
            directory.remove(&node).map_err(|error| ShmError::host(&path, &error))?;
        }
        directory.remove_if_empty();
    }
    Ok(dead)
}

/// Whether a process holds the control file: it lives.
pub(super) fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(_) => true,
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ShmError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(ShmError::host(folder, &error)),
    }
}

fn regions_of(group: &Path, node: &str) -> Result<Vec<(String, u64)>, ShmError> {
    let mut regions = Vec::new();
    for path in entries(group)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((_, name)) = region_of(&file).filter(|of| of.0 == node) {
            regions.push((name.to_owned(), fs::metadata(&path).map_or(0, |found| found.len())));
        }
    }
    regions.sort();
    Ok(regions)
}
