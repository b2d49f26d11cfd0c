//! The files of nodes and regions of a group, in a directory that only their user may enter, or
//! only the users of one group of the host ([`Users`]).
//!
//! `/dev/shm/fluxline-UID/GROUP/NODE.node` is a node's control file, which its process holds locked
//! for as long as it lives; `NODE~NAME.region` is an exported region. A locked file belongs to a
//! living node. An unlocked one was left by a process that died, and is removed by the next that
//! takes the name, or by `fluxline shm clean`.
//!
//! `/dev/shm` is open to all users: another user may have created our directory first, or a link in
//! its place. So a directory is opened without following links, checked once it is open, and then
//! used only through its descriptor. The directory of a host's group is `fluxline-group-GID`; only
//! members can give a directory to their group, and its files belong to the group, too (set-GID).

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluxline_core::fabric::Name;

use super::ShmError;
use crate::sys::dir::Dir;
use crate::sys::shared::{Pages, effective_user, unnamed_file};

const NODE_SUFFIX: &str = ".node";
const REGION_SUFFIX: &str = ".region";
const SEPARATOR: char = '~';
/// The unit of a file's blocks \[byte\]. Source: stat(2).
const BLOCK_BYTES: u64 = 512;

/// The users who may open the nodes of a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Users {
    /// The user of this process.
    #[default]
    This,
    /// The users of a group of the host, by its number.
    Group(u32),
}

impl Users {
    /// Returns the reason why others may use an open file or directory, or these users may not.
    fn flaw(self, metadata: &Metadata) -> Option<Flaw> {
        let (user, mode) = (metadata.uid(), metadata.mode() & 0o777);
        match self {
            Users::This if user != effective_user() => Some(Flaw::Owner { user }),
            Users::This => (mode & 0o077 != 0).then_some(Flaw::Mode { mode }),
            Users::Group(number) if metadata.gid() != number => {
                Some(Flaw::Group { found: metadata.gid(), wanted: number })
            }
            Users::Group(_) => {
                (mode & 0o007 != 0 || mode & 0o060 != 0o060).then_some(Flaw::Mode { mode })
            }
        }
    }

    /// Gives a file or directory that was just made to these users.
    fn admit(self, file: &File, mode: u32) -> io::Result<()> {
        let Users::Group(number) = self else { return Ok(()) };
        std::os::unix::fs::fchown(file, None, Some(number))?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    }
}

/// Mode of a directory of a host's group: its files get the group, too.
const GROUP_DIRECTORY: u32 = 0o2770;
const GROUP_FILE: u32 = 0o660;
/// Tries to open a directory that another process is just giving to its group.
const TRIES: u32 = 50;
/// Time between two tries.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// The directory of one group, and its parent.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    users: Users,
    base: Arc<Dir>,
    group: OsString,
    dir: Arc<Dir>,
    /// The path, for messages.
    path: PathBuf,
}

/// A living or dead node, for `fluxline shm list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its group.
    pub group: String,
    /// Its name.
    pub node: String,
    /// True if its process lives.
    pub alive: bool,
    /// Its exported regions: name and size of the file \[byte\].
    pub regions: Vec<(String, u64)>,
    /// The memory of its control file \[byte\].
    pub bytes: u64,
}

/// The reason why a file or directory does not belong to this user alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A symbolic link.
    Link,
    /// A directory where a file should be, a file where a directory should be, or neither.
    Kind {
        /// The expected kind.
        expected: &'static str,
    },
    /// Another user owns it.
    Owner {
        /// That user's number.
        user: u32,
    },
    /// It belongs to another group than the users who are to use it.
    Group {
        /// The number of its group.
        found: u32,
        /// The number of the group that is to use it.
        wanted: u32,
    },
    /// Other users may use it, or its group may not.
    Mode {
        /// Its permissions.
        mode: u32,
    },
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flaw::Link => write!(formatter, "is a symbolic link, which is not followed"),
            Flaw::Kind { expected } => write!(formatter, "is not a {expected}"),
            Flaw::Owner { user } => {
                write!(formatter, "belongs to user {user} and not to user {}", effective_user())
            }
            Flaw::Group { found, wanted } => {
                write!(formatter, "belongs to group {found} and not to group {wanted}")
            }
            Flaw::Mode { mode } if mode & 0o007 == 0 && mode & 0o060 == 0 => {
                write!(formatter, "is closed to its group (mode {mode:03o})")
            }
            Flaw::Mode { mode } => write!(formatter, "is open to other users (mode {mode:03o})"),
        }
    }
}

/// Returns the base of all groups of these users.
pub(super) fn default_base(users: Users) -> PathBuf {
    PathBuf::from(match users {
        Users::This => format!("/dev/shm/fluxline-{}", effective_user()),
        Users::Group(number) => format!("/dev/shm/fluxline-group-{number}"),
    })
}

impl Directory {
    /// Opens the group's directory; creates it if it does not exist.
    pub fn open(base: &Path, group: &Name, users: Users) -> Result<Directory, ShmError> {
        let mut tries = 0;
        loop {
            match Directory::open_once(base, group, users) {
                // Another member has made it, and is just giving it to the group.
                Err(ShmError::NotOurs { flaw: Flaw::Group { .. } | Flaw::Mode { .. }, .. })
                    if users != Users::This && tries < TRIES =>
                {
                    tries += 1;
                    std::thread::sleep(TRY_EVERY);
                }
                opened => return opened,
            }
        }
    }

    fn open_once(base: &Path, group: &Name, users: Users) -> Result<Directory, ShmError> {
        let is_new = match DirBuilder::new().mode(0o700).create(base) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ShmError::host(base, &error));
            }
            made => made.is_ok(),
        };
        let opened = Dir::open(base).map_err(|error| not_opened(base, &error))?;
        admit_dir(users, &opened, base, is_new)?;
        check_dir(users, &opened, base)?;
        let path = base.join(group.as_str());
        let is_new = match opened.make_dir(Path::new(group.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ShmError::host(&path, &error));
            }
            made => made.is_ok(),
        };
        let opened = Arc::new(opened);
        if is_new && let Ok(dir) = opened.open_dir(Path::new(group.as_str())) {
            admit_dir(users, &dir, &path, is_new)?;
        }
        Directory::existing(&opened, base, group.as_str().into(), users)
    }

    /// Opens the directory of a group in an opened base.
    fn existing(
        base: &Arc<Dir>,
        base_path: &Path,
        group: OsString,
        users: Users,
    ) -> Result<Directory, ShmError> {
        let path = base_path.join(&group);
        let dir = base.open_dir(Path::new(&group)).map_err(|error| not_opened(&path, &error))?;
        check_dir(users, &dir, &path)?;
        Ok(Directory { users, base: Arc::clone(base), group, dir: Arc::new(dir), path })
    }

    /// Creates a file of the group without a name, with room for `bytes`.
    pub fn unnamed(&self, bytes: u64, pages: Pages) -> io::Result<File> {
        let file = unnamed_file(&self.dir, bytes, pages)?;
        self.users.admit(&file, GROUP_FILE)?;
        Ok(file)
    }

    /// Gives a file without a name its name.
    pub fn name_file(&self, file: &File, name: &Path) -> io::Result<()> {
        self.dir.name_file(file, name)
    }

    /// Removes a file; of a link, the link.
    pub fn remove_file(&self, name: &Path) -> io::Result<()> {
        self.dir.remove_file(name)
    }

    /// Opens a file that belongs to this user alone; does not follow links.
    pub fn open_file(&self, name: &Path) -> Result<File, ShmError> {
        let path = self.path_of(name);
        let file = self.dir.open_file(name).map_err(|error| not_opened(&path, &error))?;
        let metadata = file.metadata().map_err(|error| ShmError::host(&path, &error))?;
        let flaw = (!metadata.is_file()).then_some(Flaw::Kind { expected: "file" });
        match flaw.or_else(|| self.users.flaw(&metadata)) {
            Some(flaw) => Err(ShmError::NotOurs { path, flaw }),
            None => Ok(file),
        }
    }

    /// Returns a file's path, for messages.
    pub fn path_of(&self, name: &Path) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the name of a node's control file.
    pub fn node(node: &Name) -> PathBuf {
        PathBuf::from(format!("{node}{NODE_SUFFIX}"))
    }

    /// Returns the name of a region's file.
    pub fn region(node: &Name, region: &Name) -> PathBuf {
        PathBuf::from(format!("{node}{SEPARATOR}{region}{REGION_SUFFIX}"))
    }

    /// Removes the group's directory after its last node.
    pub fn remove_if_empty(&self) {
        let _ = self.base.remove_dir(Path::new(&self.group));
    }

    /// Removes a dead node's files.
    pub fn remove(&self, node: &Name) -> io::Result<()> {
        for name in self.dir.names()? {
            if region_of(&name.to_string_lossy()).is_some_and(|of| of.0 == node.as_str()) {
                self.dir.remove_file(Path::new(&name))?;
            }
        }
        self.dir.remove_file(&Directory::node(node))
    }

    /// Returns the nodes of the group.
    fn nodes(&self) -> Result<Vec<NodeEntry>, ShmError> {
        let names = self.dir.names().map_err(|error| ShmError::host(&self.path, &error))?;
        let metadata =
            |name: &str| self.dir.open_file(Path::new(name)).and_then(|of| of.metadata());
        let texts: Vec<_> = names.iter().filter_map(|name| name.to_str()).collect();
        let mut found = Vec::new();
        for node in texts.iter().filter_map(|name| name.strip_suffix(NODE_SUFFIX)) {
            let file = format!("{node}{NODE_SUFFIX}");
            let regions =
                texts.iter().filter(|name| region_of(name).is_some_and(|of| of.0 == node));
            let mut regions: Vec<_> = regions
                .map(|name| {
                    let region = region_of(name).map_or("", |of| of.1);
                    (region.to_owned(), metadata(name).map_or(0, |of| of.len()))
                })
                .collect();
            regions.sort();
            found.push(NodeEntry {
                group: self.group.to_string_lossy().into_owned(),
                node: node.to_owned(),
                alive: self.open_file(Path::new(&file)).is_ok_and(|file| is_held(&file)),
                regions,
                // Slots that were never used have no memory.
                bytes: metadata(&file).map_or(0, |of| of.blocks() * BLOCK_BYTES),
            });
        }
        Ok(found)
    }

    /// Removes the files of a dead node; returns `false` if the node lives.
    fn clean(&self, node: &Name) -> Result<bool, ShmError> {
        // The lock is held during the removal, so that no process takes it over in between.
        let file = self.open_file(&Directory::node(node))?;
        if file.try_lock().is_err() {
            return Ok(false);
        }
        let path = self.path_of(&Directory::node(node));
        self.remove(node).map_err(|error| ShmError::host(&path, &error))?;
        Ok(true)
    }
}

/// Gives a directory that was just made to its users.
fn admit_dir(users: Users, dir: &Dir, path: &Path, is_new: bool) -> Result<(), ShmError> {
    match is_new {
        true => dir
            .with_file(|file| users.admit(file, GROUP_DIRECTORY))
            .map_err(|error| ShmError::host(path, &error)),
        false => Ok(()),
    }
}

/// Opens the base of all groups, which must belong to these users alone.
fn open_base(base: &Path, users: Users) -> Result<Dir, ShmError> {
    let dir = Dir::open(base).map_err(|error| not_opened(base, &error))?;
    check_dir(users, &dir, base)?;
    Ok(dir)
}

fn check_dir(users: Users, dir: &Dir, path: &Path) -> Result<(), ShmError> {
    let metadata = dir.metadata().map_err(|error| ShmError::host(path, &error))?;
    match users.flaw(&metadata) {
        Some(flaw) => Err(ShmError::NotOurs { path: path.to_path_buf(), flaw }),
        None => Ok(()),
    }
}

/// Returns the error of opening a file; names the file's kind if that is the reason.
fn not_opened(path: &Path, error: &io::Error) -> ShmError {
    let kind = fs::symlink_metadata(path).map(|metadata| metadata.file_type());
    let flaw = match (error.raw_os_error(), kind) {
        (Some(libc::ENOTDIR | libc::ELOOP), Ok(kind)) if kind.is_symlink() => Flaw::Link,
        (Some(libc::ENOTDIR), _) => Flaw::Kind { expected: "directory" },
        (Some(libc::EISDIR), _) => Flaw::Kind { expected: "file" },
        (_, Ok(kind)) if kind.is_socket() => Flaw::Kind { expected: "file" },
        _ => return ShmError::host(path, error),
    };
    ShmError::NotOurs { path: path.to_path_buf(), flaw }
}

/// Splits a region file's name into node and region.
fn region_of(file: &str) -> Option<(&str, &str)> {
    file.strip_suffix(REGION_SUFFIX)?.split_once(SEPARATOR)
}

/// Returns the users of a base by its name: the base of a host's group ends with its number.
fn users_of(base: &Path) -> Users {
    let name = base.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix("fluxline-group-").and_then(|number| number.parse().ok());
    number.map_or(Users::This, Users::Group)
}

/// Opens the groups below `base` (default: this user's); ignores other files.
fn groups(base: Option<&Path>) -> Result<Vec<Result<Directory, ShmError>>, ShmError> {
    let path = base.map_or_else(|| default_base(Users::This), Path::to_path_buf);
    let users = users_of(&path);
    let base = match open_base(&path, users) {
        Err(ShmError::NotThere { .. }) => return Ok(Vec::new()),
        base => Arc::new(base?),
    };
    let mut names = base.names().map_err(|error| ShmError::host(&path, &error))?;
    names.sort();
    let opened = names.into_iter().map(|name| Directory::existing(&base, &path, name, users));
    let is_group = |of: &Result<Directory, ShmError>| {
        // The last node of the group has just ended, and removed the group.
        let gone = matches!(of, Err(ShmError::NotThere { .. }));
        let flaw = Flaw::Kind { expected: "directory" };
        !gone && !matches!(of, Err(ShmError::NotOurs { flaw: found, .. }) if *found == flaw)
    };
    Ok(opened.filter(is_group).collect())
}

/// Returns all nodes, living and dead, of all groups below `base` (default: this user's).
///
/// Errors: [`ShmError`]. Cost: a few system calls per file.
pub fn list(base: Option<&Path>) -> Result<Vec<NodeEntry>, ShmError> {
    let mut found: Vec<NodeEntry> = Vec::new();
    for group in groups(base)? {
        found.extend(group?.nodes()?);
    }
    found.sort_by(|a, b| (&a.group, &a.node).cmp(&(&b.group, &b.node)));
    Ok(found)
}

/// Removes the files of dead nodes; returns the removed ones.
///
/// Errors: [`ShmError`], after everything removable has been removed. Files of living nodes are
/// never touched.
pub fn clean(base: Option<&Path>) -> Result<Vec<NodeEntry>, ShmError> {
    let (mut removed, mut refused) = (Vec::new(), None);
    for group in groups(base)? {
        let nodes = group.and_then(|group| group.nodes().map(|nodes| (group, nodes)));
        let (group, nodes) = match nodes {
            Ok(found) => found,
            Err(error) => {
                refused.get_or_insert(error);
                continue;
            }
        };
        for entry in nodes.into_iter().filter(|node| !node.alive) {
            let Ok(node) = Name::parse(&entry.node) else { continue };
            match group.clean(&node) {
                Ok(true) => removed.push(entry),
                Ok(false) => {}
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        group.remove_if_empty();
    }
    removed.sort_by(|a, b| (&a.group, &a.node).cmp(&(&b.group, &b.node)));
    refused.map_or(Ok(removed), Err)
}

/// Returns true if a living process holds the control file.
pub(super) fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(_) => true,
    }
}
