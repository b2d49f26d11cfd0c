//! `fluxline runs`: finds runs among thousands, and keeps tags and comments beside them.

mod list;
mod row;

use std::path::Path;

use fluxline_daq::record::{Author, Mark, MarkError, Marks, RunFolder};
pub use fluxline_run::runs::marks_document;

use crate::failure::Failure;
use crate::output::escaped_line;
use crate::runs_arguments::{CommentArguments, RunsArguments, RunsCommand, TagArguments};
use crate::say;

/// Lists runs, or adds a mark to one.
pub fn runs(arguments: &RunsArguments, json: bool) -> Result<(), Failure> {
    match &arguments.command {
        None => list::list(&arguments.list, json),
        Some(RunsCommand::Tag(of)) => tag(of, json),
        Some(RunsCommand::Comment(of)) => comment(of, json),
    }
}

fn tag(arguments: &TagArguments, json: bool) -> Result<(), Failure> {
    let mark = if arguments.remove { Mark::Untag } else { Mark::Tag };
    let marks: Vec<_> = arguments.tags.iter().cloned().map(mark).collect();
    add(&arguments.run, &marks, json)
}

fn comment(arguments: &CommentArguments, json: bool) -> Result<(), Failure> {
    add(&arguments.run, &[Mark::Comment(arguments.text.trim_end().to_owned())], json)
}

/// Adds marks to a run, and prints those that it has now.
fn add(run: &Path, marks: &[Mark], json: bool) -> Result<(), Failure> {
    let folder = RunFolder::open(run).map_err(|error| Failure::input(format_args!("{error}.")))?;
    let done = Marks::append(folder.directory(), &author(), marks);
    done.map_err(|error| match error {
        MarkError::Refused(sentence) => Failure::input(sentence),
        error @ MarkError::Folder(_) => Failure::failed(error),
    })?;
    let marks = Marks::read(folder.directory());
    match json {
        true => super::print_json(&marks_document(&marks)),
        false => print_marks(&marks),
    }
    Ok(())
}

/// Returns the operator at this terminal, now.
pub fn author() -> Author {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let user = name("USER").or_else(|| name("LOGNAME")).unwrap_or_else(|| "unknown".to_owned());
    Author::new(&user, fluxline::clock::now().as_ns())
}

/// Prints tags and comment of a run, as far as there are any.
pub fn print_marks(marks: &Marks) {
    if !marks.tags.is_empty() {
        say!("tags     {}", escaped_line(&marks.tags.join(" ")));
    }
    if let Some(comment) = &marks.comment {
        let (user, at) = (&comment.author.user, crate::local_time::iso(comment.author.at_ns));
        let mut lines = comment.text.lines();
        let first = lines.next().unwrap_or_default();
        say!("comment  {} ({}, {at})", escaped_line(first), escaped_line(user));
        lines.for_each(|line| say!("         {}", escaped_line(line)));
    }
    if let Some(fault) = &marks.fault {
        say!("fault: {}", escaped_line(fault));
    }
}
