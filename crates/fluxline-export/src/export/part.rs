//! A file of an export under the name that it has until it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};

use fluxline_daq::record::{Directory, FolderError};

/// The name of a file that is being written, in the open folder of the export.
pub(super) struct PartFile {
    folder: Directory,
    name: PathBuf,
}

impl PartFile {
    /// Begins a file; one that an interrupted export left is removed.
    pub fn create(folder: &Directory, name: &Path) -> Result<(PartFile, File), FolderError> {
        let part = PartFile { folder: folder.clone(), name: name.to_path_buf() };
        folder.remove(&part.part_name())?;
        let file = folder.create(&part.part_name())?;
        Ok((part, file))
    }

    /// Gives the file its name, once everything is on the disk.
    pub fn finish(self, file: &File) -> Result<(), FolderError> {
        let explain = |reason| FolderError::explain(&self.folder.path().join(&self.name), reason);
        file.sync_all().map_err(explain)?;
        self.folder.rename(&self.part_name(), &self.name)
    }

    /// Removes the file.
    pub fn discard(self) -> Result<(), FolderError> {
        self.folder.remove(&self.part_name())
    }

    fn part_name(&self) -> PathBuf {
        let mut name = self.name.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        self.name.with_file_name(name)
    }
}
