//! Tags and comments of a run, which people add before, during and after it.
//!
//! A finished `run.json` is evidence and is not written again, and a running one belongs to its
//! recorder. So marks have a file of their own, `marks.jsonl`: a line for each mark, with its time
//! and its author, only ever appended. A crash may tear the last line; readers leave it out, and
//! the next mark begins on a new line.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::directory::{Access, Directory};
use super::folder::complete_lines_bytes;
use super::folder_error::FolderError;

/// The file of the marks of a run.
pub const MARKS_FILE: &str = "marks.jsonl";
/// The largest file of marks \[byte\].
const MARKS_BYTES_MAX: u64 = 1 << 20;
/// The longest tag \[byte\].
pub const TAG_BYTES_MAX: usize = 200;
/// The longest comment \[byte\].
const COMMENT_BYTES_MAX: usize = 4096;
/// The longest name of an author \[character\].
const USER_CHARACTERS_MAX: usize = 64;

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The run has this tag from now on.
    Tag(String),
    /// The run no longer has this tag.
    Untag(String),
    /// The comment on the run; an empty one removes the comment before.
    Comment(String),
}

/// A line of the file.
#[derive(PartialEq, Serialize, Deserialize)]
struct Line {
    at_ns: u64,
    user: String,
    #[serde(flatten)]
    mark: Mark,
}

/// The author of marks and their time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The user's name.
    pub user: String,
    /// The time of day \[ns since 1970\].
    pub at_ns: u64,
}

impl Author {
    /// Makes the author of marks that are added at `at_ns` \[ns since 1970\]; a name is cut to 64
    /// characters, without control characters.
    #[must_use]
    pub fn new(user: &str, at_ns: u64) -> Author {
        let letters = user.chars().filter(|letter| !letter.is_control());
        Author { user: letters.take(USER_CHARACTERS_MAX).collect(), at_ns }
    }
}

/// The reason why a mark was not added, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The text is not a tag or a comment, or the file is full.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be written.
    #[error("{0}.")]
    Folder(#[from] FolderError),
}

/// A comment on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its text, which may have several lines.
    pub text: String,
    /// Its author.
    pub author: Author,
}

/// The marks that a run has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Its tags, in the order in which they were added.
    pub tags: Vec<String>,
    /// The newest comment; earlier ones stay in the file.
    pub comment: Option<Comment>,
    /// The fault of the file, as a clause, if a part of it could not be read.
    pub fault: Option<String>,
}

/// Checks a tag: a word without spaces, commas and control characters, which does not begin with
/// `-`.
///
/// Errors: a sentence.
pub fn check_tag(tag: &str) -> Result<(), String> {
    let is_wrong = |letter: char| letter.is_whitespace() || letter.is_control() || letter == ',';
    let what = match tag {
        "" => "is empty".to_owned(),
        _ if tag.len() > TAG_BYTES_MAX => format!("has {} bytes", tag.len()),
        _ if tag.contains(is_wrong) => "has a space, a comma or a control character".to_owned(),
        _ if tag.starts_with('-') => "begins with `-`".to_owned(),
        _ => return Ok(()),
    };
    let shown: String = tag.chars().take(40).collect();
    Err(format!(
        "the tag {shown:?} {what}; write a word of at most {TAG_BYTES_MAX} bytes, such as \
         `calibration` or `hv=1100`."
    ))
}

/// Checks a comment: its length, and that it has no control characters but line ends and
/// tabulators.
fn check_comment(comment: &str) -> Result<(), String> {
    let is_wrong = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if comment.len() > COMMENT_BYTES_MAX {
        return Err(format!(
            "the comment has {} bytes; write at most {COMMENT_BYTES_MAX}.",
            comment.len()
        ));
    }
    match comment.contains(is_wrong) {
        true => Err("the comment has a control character; write text and line ends.".to_owned()),
        false => Ok(()),
    }
}

impl Mark {
    /// Checks its text; errors are sentences.
    fn check(&self) -> Result<(), String> {
        match self {
            Mark::Tag(tag) | Mark::Untag(tag) => check_tag(tag),
            Mark::Comment(comment) => check_comment(comment),
        }
    }
}

impl Marks {
    /// Reads the marks of a run; without a file, there are none.
    ///
    /// Lines that cannot be read are left out, and the marks have a fault. A last line without its
    /// end is torn, and left out. Cost: at most 1 MiB is read.
    #[must_use]
    pub fn read(folder: &Directory) -> Marks {
        let mut marks = Marks::default();
        let file = match folder.file(Path::new(MARKS_FILE), Access::Read) {
            Ok(file) => file,
            Err(FolderError::Missing(_)) => return marks,
            Err(error) => {
                marks.fault = Some(error.to_string());
                return marks;
            }
        };
        let mut bytes = Vec::new();
        if let Err(reason) = file.take(MARKS_BYTES_MAX + 1).read_to_end(&mut bytes) {
            marks.fault = Some(format!("{MARKS_FILE} cannot be read: {reason}"));
            return marks;
        }
        if bytes.len() as u64 > MARKS_BYTES_MAX {
            marks.fault = Some(format!("{MARKS_FILE} has more than {MARKS_BYTES_MAX} bytes"));
        }
        marks.take(&bytes);
        marks
    }

    /// Writes the marks of all folders into a new one, in the order of time; equal ones once, and
    /// lines that cannot be read are left out.
    ///
    /// Errors: [`MarkError`]; there are too many, or a file cannot be read or written.
    pub fn gather(from: &[&Directory], into: &Directory) -> Result<(), MarkError> {
        let mut lines: Vec<Line> = Vec::new();
        for folder in from {
            let bytes = match folder.read(Path::new(MARKS_FILE)) {
                Err(FolderError::Missing(_)) => continue,
                read => read?,
            };
            let texts = bytes[..complete_lines_bytes(&bytes)].split(|byte| *byte == b'\n');
            let found = texts.filter_map(|text| serde_json::from_slice::<Line>(text).ok());
            lines.extend(found.filter(|line| line.mark.check().is_ok()));
        }
        lines.sort_by_key(|line| line.at_ns);
        lines.dedup();
        let mut text = Vec::new();
        for line in &lines {
            text.extend(serde_json::to_vec(line).unwrap_or_default());
            text.push(b'\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        if text.len() as u64 > MARKS_BYTES_MAX {
            return Err(MarkError::Refused(format!(
                "the folders have {} bytes of tags and comments together, and {MARKS_BYTES_MAX} \
                 is the limit; remove old lines.",
                text.len()
            )));
        }
        let mut file = into.create(Path::new(MARKS_FILE))?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        let explain = |reason| FolderError::explain(&into.path().join(MARKS_FILE), reason);
        written.map_err(|reason| MarkError::Folder(explain(reason)))
    }

    /// Takes the complete lines of a file.
    fn take(&mut self, bytes: &[u8]) {
        let lines = bytes[..complete_lines_bytes(bytes)].split(|byte| *byte == b'\n');
        for (number, text) in lines.enumerate().filter(|(_, text)| !text.is_empty()) {
            match serde_json::from_slice::<Line>(text) {
                Ok(line) if line.mark.check().is_ok() => self.apply(line),
                _ if self.fault.is_some() => {}
                _ => self.fault = Some(format!("{MARKS_FILE}, line {}: not a mark", number + 1)),
            }
        }
    }

    fn apply(&mut self, line: Line) {
        match line.mark {
            Mark::Tag(tag) if self.tags.contains(&tag) => {}
            Mark::Tag(tag) => self.tags.push(tag),
            Mark::Untag(tag) => self.tags.retain(|of| *of != tag),
            Mark::Comment(text) if text.trim().is_empty() => self.comment = None,
            Mark::Comment(text) => {
                let author = Author::new(&line.user, line.at_ns);
                self.comment = Some(Comment { text, author });
            }
        }
    }

    /// Returns the text of the comment; empty without one.
    #[must_use]
    pub fn comment_text(&self) -> &str {
        self.comment.as_ref().map_or("", |comment| &comment.text)
    }

    /// Appends marks to the file of a run, which is made if it does not exist. The marks are on the
    /// disk afterwards, all of them or none.
    ///
    /// Errors: [`MarkError`], before anything is written. Cost: a forced write.
    pub fn append(folder: &Directory, author: &Author, marks: &[Mark]) -> Result<(), MarkError> {
        let mut text = Vec::new();
        for mark in marks {
            mark.check().map_err(MarkError::Refused)?;
            let Author { user, at_ns } = author.clone();
            let line = Line { at_ns, user, mark: mark.clone() };
            // A structure of texts and a number is always a line of JSON.
            text.extend(serde_json::to_vec(&line).unwrap_or_default());
            text.push(b'\n');
        }
        let mut file = open(folder)?;
        let explain = |reason| FolderError::explain(&folder.path().join(MARKS_FILE), reason);
        // Of two authors at a time, one waits for the other's write. A file system without locks
        // lets both through.
        let _ = file.lock();
        let bytes = file.seek(SeekFrom::End(0)).map_err(explain)?;
        if bytes + text.len() as u64 > MARKS_BYTES_MAX {
            return Err(MarkError::Refused(format!(
                "{} has {bytes} bytes, and {MARKS_BYTES_MAX} is the limit; remove old lines.",
                folder.path().join(MARKS_FILE).display()
            )));
        }
        if !ends_a_line(&mut file, bytes).map_err(explain)? {
            text.insert(0, b'\n');
        }
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        written.map_err(|reason| {
            // A part of a line would only be a fault for readers.
            let _ = file.set_len(bytes);
            MarkError::Folder(explain(reason))
        })
    }
}

/// Opens the file for appending.
fn open(folder: &Directory) -> Result<File, FolderError> {
    let name = Path::new(MARKS_FILE);
    match folder.file(name, Access::Write) {
        Err(FolderError::Missing(_)) => {}
        opened => return opened,
    }
    match folder.create(name) {
        // Another author was faster.
        Err(FolderError::Exists(_)) => folder.file(name, Access::Write),
        made => made,
    }
}

/// Returns true when a file of `bytes` is empty or ends with a line end; it is at its end then.
fn ends_a_line(file: &mut File, bytes: u64) -> io::Result<bool> {
    if bytes == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(bytes - 1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn author() -> Author {
        Author::new("ada", 7)
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_the_next_mark_begins_a_new_line() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Directory::open(scratch.path()).unwrap();
        let tag = |tag: &str| Mark::Tag(tag.to_owned());
        Marks::append(&folder, &author(), &[tag("good"), tag("beam")]).unwrap();
        let file = scratch.path().join(MARKS_FILE);
        let mut torn = fs::read(&file).unwrap();
        torn.extend(b"{\"at_ns\":8,\"user\":\"ada\",\"untag\":\"goo");
        fs::write(&file, torn).unwrap();
        let marks = Marks::read(&folder);
        assert_eq!((marks.tags, marks.fault), (vec!["good".to_owned(), "beam".to_owned()], None));
        Marks::append(&folder, &author(), &[Mark::Untag("beam".to_owned())]).unwrap();
        let marks = Marks::read(&folder);
        assert_eq!(marks.tags, ["good"]);
        assert!(marks.fault.unwrap().contains("line 3"));
    }

    #[test]
    fn the_newest_comment_counts_and_an_empty_one_removes_it() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Directory::open(scratch.path()).unwrap();
        let add = |text: &str| {
            Marks::append(&folder, &author(), &[Mark::Comment(text.to_owned())]).unwrap();
            Marks::read(&folder).comment_text().to_owned()
        };
        assert_eq!(add("first"), "first");
        assert_eq!(add("second\nline"), "second\nline");
        assert_eq!(add(" "), "");
    }

    #[test]
    fn texts_that_are_no_mark_are_refused_and_leave_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Directory::open(scratch.path()).unwrap();
        let long = "x".repeat(COMMENT_BYTES_MAX + 1);
        for mark in [
            Mark::Tag(String::new()),
            Mark::Tag("two words".to_owned()),
            Mark::Tag("a\nb".to_owned()),
            Mark::Tag("\u{1b}[2J".to_owned()),
            Mark::Untag("-x".to_owned()),
            Mark::Tag("a,b".to_owned()),
            Mark::Tag("x".repeat(TAG_BYTES_MAX + 1)),
            Mark::Comment("\u{1b}]0;title\u{7}".to_owned()),
            Mark::Comment(long),
        ] {
            let marks = [Mark::Tag("good".to_owned()), mark];
            let refused = Marks::append(&folder, &author(), &marks).unwrap_err();
            assert!(matches!(refused, MarkError::Refused(_)), "{refused}");
        }
        assert!(!folder.has(Path::new(MARKS_FILE)));
    }

    #[test]
    fn bytes_of_strangers_are_a_fault_and_no_tag() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Directory::open(scratch.path()).unwrap();
        let lines = b"\xff\xfe\n{\"at_ns\":1,\"user\":\"u\",\"tag\":\"a\\nb\"}\n{\n[]\n\n\
                      {\"at_ns\":1,\"user\":\"u\\u001b\",\"tag\":\"good\",\"later\":1}\n";
        fs::write(scratch.path().join(MARKS_FILE), lines).unwrap();
        let marks = Marks::read(&folder);
        assert_eq!(marks.tags, ["good"]);
        assert!(marks.fault.unwrap().contains("line 1"));
        fs::write(scratch.path().join(MARKS_FILE), vec![b'\n'; 2 << 20]).unwrap();
        assert!(Marks::read(&folder).fault.unwrap().contains("more than"));
        let refused = Marks::append(&folder, &author(), &[Mark::Tag("x".to_owned())]);
        assert!(refused.unwrap_err().to_string().contains("is the limit"));
        fs::remove_file(scratch.path().join(MARKS_FILE)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", scratch.path().join(MARKS_FILE)).unwrap();
        assert!(Marks::read(&folder).fault.unwrap().contains("symbolic link"));
        let refused = Marks::append(&folder, &author(), &[Mark::Tag("x".to_owned())]);
        assert!(refused.unwrap_err().to_string().contains("symbolic link"));
    }
}
