//! The files beside the events of a gathered run: tags and comments, alarms, slow control values.
//!
//! People mark any node's folder, and each node has alarms of its own, so their lines are joined in
//! the order of time. One node alone takes slow control values, so its file is copied.

use std::io::Write;
use std::path::Path;

use fluxline_daq::record::{Access, FolderError, MarkError, Marks, RunFolder, SLOW_FILE};

use super::Node;
use crate::alarms::{ALARMS_FILE, read_alarms};
use crate::error::Error;

/// Writes the files beside the events of all nodes into a new folder.
///
/// Errors: a file cannot be read or written; an alarm's line is damaged.
pub fn gather(nodes: &[Node], into: &RunFolder) -> Result<(), Error> {
    let folders: Vec<_> = nodes.iter().map(|node| node.folder.directory()).collect();
    Marks::gather(&folders, into.directory()).map_err(|error| match error {
        MarkError::Refused(sentence) => Error::input(sentence),
        MarkError::Folder(error) => Error::Folder(error),
    })?;
    alarms(nodes, into)?;
    slow(nodes, into)
}

/// Joins the alarms. Each has the name of its node before its own: two nodes may have the same.
fn alarms(nodes: &[Node], into: &RunFolder) -> Result<(), Error> {
    let mut changes = Vec::new();
    for node in nodes {
        for mut change in read_alarms(&node.folder)? {
            change.name = format!("{}/{}", node.name, change.name);
            changes.push(change);
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    changes.sort_by_key(|change| change.at_ns);
    let mut text = Vec::new();
    for change in &changes {
        // Texts and numbers are always JSON.
        text.extend(serde_json::to_vec(change).unwrap_or_default());
        text.push(b'\n');
    }
    let mut file = into.directory().create(Path::new(ALARMS_FILE))?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written.map_err(|error| not_written(into, ALARMS_FILE, error))
}

fn slow(nodes: &[Node], into: &RunFolder) -> Result<(), Error> {
    let name = Path::new(SLOW_FILE);
    let mut found = None;
    for node in nodes {
        match node.folder.directory().file(name, Access::Read) {
            Err(FolderError::Missing(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if found.is_some() => {
                return Err(Error::input(format_args!(
                    "{} and another folder have {SLOW_FILE}, which one node of a run has; give the \
                     folders of one run.",
                    node.path.display()
                )));
            }
            Ok(file) => found = Some(file),
        }
    }
    let Some(mut file) = found else { return Ok(()) };
    let mut copy = into.directory().create(name)?;
    let copied = std::io::copy(&mut file, &mut copy).and_then(|_| copy.sync_all());
    copied.map_err(|error| not_written(into, SLOW_FILE, error))
}

fn not_written(into: &RunFolder, name: &str, error: std::io::Error) -> Error {
    FolderError::explain(&into.path().join(name), error).into()
}
