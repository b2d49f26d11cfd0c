//! The files of one source: names and patterns, as written and as found.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::input_error::InputError;

/// Names of files; `*` and `?` in the last part of a name make it a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileList(Vec<PathBuf>);

impl FileList {
    /// Returns a list of one name or pattern.
    pub fn one(name: impl Into<PathBuf>) -> FileList {
        FileList(vec![name.into()])
    }

    /// Makes names relative to `folder`, except absolute ones.
    pub(super) fn resolve(&mut self, folder: &Path) {
        for name in &mut self.0 {
            *name = folder.join(&*name);
        }
    }

    /// Returns the existing files: each once, patterns as the files that they match. `source` is
    /// for messages.
    ///
    /// A name without a file is returned unchanged, but a pattern without a file is an error.
    pub fn found(&self, source: &str) -> Result<Vec<PathBuf>, InputError> {
        let mut found: Vec<PathBuf> = Vec::new();
        for name in &self.0 {
            let files = match pattern_of(name) {
                Some(pattern) if !name.exists() => pattern.files(source)?,
                _ => vec![name.clone()],
            };
            for file in files {
                if !found.contains(&file) {
                    found.push(file);
                }
            }
        }
        Ok(found)
    }
}

/// A pattern of file names in one folder.
struct Pattern<'a> {
    folder: &'a Path,
    name: String,
}

fn pattern_of(path: &Path) -> Option<Pattern<'_>> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    name.contains(['*', '?']).then(|| Pattern { folder, name: name.to_string() })
}

impl Pattern<'_> {
    /// Returns the files of the folder that match, sorted by name.
    fn files(&self, source: &str) -> Result<Vec<PathBuf>, InputError> {
        let (name, folder) = (&self.name, self.folder.display());
        let entries = std::fs::read_dir(self.folder).map_err(|error| {
            InputError::new(format_args!(
                "source `{source}`: the folder {folder} of the pattern {name} cannot be read: \
                 {error}."
            ))
        })?;
        let fits = |file: &PathBuf| {
            let text = file.file_name().map(|text| text.to_string_lossy());
            text.is_some_and(|text| matches(name, &text)) && !file.is_dir()
        };
        let mut files: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(fits).collect();
        files.sort();
        match files.is_empty() {
            false => Ok(files),
            true => Err(InputError::new(format_args!(
                "source `{source}`: no file in {folder} fits the pattern {name}; check both."
            ))),
        }
    }
}

/// Returns true when a name matches a pattern: `*` stands for any characters, `?` for one. As in
/// shells, a name that begins with a dot matches only a pattern that does.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    let mut star = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[of] => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                // The last star takes one character more.
                Some((star_at, taken)) => {
                    *taken += 1;
                    (at, of) = (*star_at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

impl Serialize for FileList {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let [one] = &self.0[..] {
            return one.serialize(to);
        }
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|name| list.serialize_element(name))?;
        list.end()
    }
}

impl<'de> Deserialize<'de> for FileList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<FileList, D::Error> {
        from.deserialize_any(FileListVisitor)
    }
}

struct FileListVisitor;

impl<'de> Visitor<'de> for FileListVisitor {
    type Value = FileList;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a file name, or a list of file names")
    }

    fn visit_str<E>(self, name: &str) -> Result<FileList, E> {
        Ok(FileList::one(name))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FileList, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(FileList(names))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileList, matches};

    #[test]
    fn stars_and_question_marks_fit_as_in_a_shell() {
        let fits = [("*", "a"), ("*.pcap", "x.pcap"), ("a*b*c", "a-b-b-c"), ("r?n_*", "run_")];
        for (pattern, name) in fits {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        let not =
            [("*.pcap", "x.pcapng"), ("?", ""), ("?", "ab"), ("a*b", "a-c"), ("*", ".hidden")];
        for (pattern, name) in not {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_file_that_is_named_and_fits_a_pattern_is_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.raw", "a.raw", "c.txt"] {
            std::fs::write(folder.path().join(name), "x").expect("written");
        }
        let mut list = FileList(vec!["b.raw".into(), "*.raw".into(), "none".into()]);
        list.resolve(folder.path());
        let found = list.found("s").expect("found");
        assert_eq!(found, ["b.raw", "a.raw", "none"].map(|name| folder.path().join(name)));
        let mut list = FileList::one("run_*.raw");
        list.resolve(folder.path());
        let error = list.found("s").expect_err("nothing fits").to_string();
        let folder = folder.path().display().to_string();
        for word in ["`s`", "run_*.raw", &folder] {
            assert!(error.contains(word), "{error}");
        }
    }
}
