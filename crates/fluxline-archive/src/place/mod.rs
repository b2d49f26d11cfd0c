//! The target of an archive: a folder, or a part of a bucket.

use std::io::Read;

pub mod folder;
#[cfg(feature = "s3")]
mod s3;

use self::folder::Folder;
use crate::compressed;
use crate::error::{ArchiveError, input};
use crate::manifest::{MANIFEST_BYTES_MAX, Manifest};
use fluxline_daq::record::ARCHIVE_FILE;

/// Size of the pieces in which files are read \[byte\].
pub const PIECE_BYTES: usize = 1 << 20;
/// The beginning of addresses of S3.
const S3: &str = "s3://";

/// A place with the files of one archive. Names have `/` between folders.
pub trait Place {
    /// Returns its address, without secrets.
    fn address(&self) -> &str;

    /// Writes a file whole: it has its name only once all its bytes are safe. An existing one is
    /// replaced if `may_replace`. `bytes` is about its size. Returns its size \[byte\].
    ///
    /// Errors: the place is full, does not answer, or has the file already; or `reader` failed.
    fn put(
        &self,
        name: &str,
        reader: &mut dyn Read,
        bytes: u64,
        may_replace: bool,
    ) -> Result<u64, PutError>;

    /// Opens a file, not from a cache where that can be avoided; `None` where there is none.
    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + '_>>, ArchiveError>;

    /// Returns the name of a file that is not one of these; `None` without such.
    fn other_file(&self, known: &[String]) -> Result<Option<String>, ArchiveError>;
}

/// The reason for a file that was not written.
pub enum PutError {
    /// The place has a file of this name.
    Exists,
    /// Any other, as a clause.
    Failed(String),
}

/// The use of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read an archive there.
    Read,
    /// Make an archive there: the folder of the run is made if it does not exist.
    Write,
}

/// Opens the archive of the run `name` in `to`; an empty name: the archive `to` itself.
///
/// Errors: the address is wrong, or nothing is there.
pub fn open(to: &str, name: &str, purpose: Purpose) -> Result<Box<dyn Place>, ArchiveError> {
    if let Some(address) = to.strip_prefix(S3) {
        return open_s3(address, name);
    }
    if let Some((scheme, _)) = to.split_once("://") {
        return Err(input!(
            "{scheme}:// is not a kind of target; give a folder, or s3://BUCKET/PREFIX."
        ));
    }
    Ok(Box::new(Folder::open(to, name, purpose)?))
}

fn open_s3(address: &str, name: &str) -> Result<Box<dyn Place>, ArchiveError> {
    if address.contains(['@', '?', '#']) {
        return Err(input!(
            "the address of S3 is s3://BUCKET/PREFIX, without `@`, `?` and `#`; the key is in \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, never on the command line."
        ));
    }
    #[cfg(feature = "s3")]
    return Ok(Box::new(s3::S3::open(address, name)?));
    #[cfg(not(feature = "s3"))]
    Err(input!(
        "{S3}{} cannot be reached: this program was built without S3; build it with `cargo build \
         --release --features s3`.",
        join(address, name)
    ))
}

/// Joins the parts of an address of S3, without `/` at its ends.
pub fn join(address: &str, name: &str) -> String {
    let parts = [address.trim_matches('/'), name];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Reads the manifest of an archive; `None` where there is none.
///
/// Errors: the place does not answer, or the manifest is not one.
pub fn manifest_of(place: &dyn Place) -> Result<Option<Manifest>, ArchiveError> {
    let Some(reader) = place.get(ARCHIVE_FILE)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = reader.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes);
    let at = place.address();
    read.map_err(|error| input!("archive.json of {at} cannot be read: {error}."))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(input!("archive.json of {at} is too large to be one."));
    }
    let manifest = Manifest::parse(&bytes, at)?;
    if manifest.compressed && !compressed::IS_HERE {
        return Err(input!("the archive {at} is compressed, and {}.", compressed::ADVICE));
    }
    Ok(Some(manifest))
}
