//! `copies` of a source: one table for many emulated boards, each with a link of its own.

use serde::Deserialize;

use super::{Experiment, Problem, Source};

/// Most copies of a source.
const COPIES_MAX: u32 = 4096;

impl Experiment {
    /// Replaces each source that has `copies` by as many, named `NAME-0` and so on; returns the
    /// table of each source. A seed of the file is that of the first; the others count on.
    ///
    /// # Errors
    /// A number out of range, or copies of a source without an emulator.
    pub(super) fn make_copies(&mut self) -> Result<Vec<usize>, Problem> {
        let (mut sources, mut tables) = (Vec::new(), Vec::new());
        for (table, source) in std::mem::take(&mut self.sources).into_iter().enumerate() {
            let made = copies(source, table)?;
            tables.extend(made.iter().map(|_| table));
            sources.extend(made);
        }
        self.sources = sources;
        Ok(tables)
    }
}

fn copies(mut source: Source, table: usize) -> Result<Vec<Source>, Problem> {
    let Some(count) = source.copies.take() else { return Ok(vec![source]) };
    let name = &source.name;
    let wrong = |text: String| Err(Problem::at(format!("source.{table}.copies"), text));
    if !(1..=COPIES_MAX).contains(&count) {
        return wrong(format!("source `{name}`: copies = {count}; write 1 to {COPIES_MAX}."));
    }
    if source.emulator.is_none() {
        return wrong(format!(
            "source `{name}` has copies and no [source.emulator]: each real board has an address \
             of its own; write a [[source]] for each."
        ));
    }
    let copy = |number: u32| {
        let mut copy = source.clone();
        copy.name = format!("{name}-{number}");
        if let Some(seed) = copy.emulator.as_mut().and_then(|of| of.seed.as_mut()) {
            *seed = seed.wrapping_add(u64::from(number));
        }
        copy
    };
    Ok((0..count).map(copy).collect())
}

/// Returns the table of each source in the text of an experiment.
pub(super) fn tables_of(text: &str) -> Vec<usize> {
    #[derive(Deserialize)]
    struct File {
        source: Vec<Table>,
    }
    #[derive(Deserialize)]
    struct Table {
        copies: Option<u32>,
    }
    let tables = toml::from_str(text).map_or(Vec::new(), |file: File| file.source);
    let copies = |of: &Table| of.copies.unwrap_or(1).min(COPIES_MAX) as usize;
    tables.iter().enumerate().flat_map(|of| std::iter::repeat_n(of.0, copies(of.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARDS: &str = "[[source]]\nname = \"slow\"\nformat = \"counter\"\n[source.emulator]\n\
                          [[source]]\nname = \"board\"\nformat = \"counter\"\ncopies = 3\n\
                          [source.emulator]\nseed = 7\n";

    #[test]
    fn copies_share_a_name_or_a_seed() {
        let experiment = Experiment::parse("e.toml", BOARDS).expect("an experiment");
        let of = |source: &Source| {
            let seed = source.emulator.as_ref().and_then(|of| of.seed);
            (source.name.clone(), seed, source.copies)
        };
        let found: Vec<_> = experiment.sources.iter().map(of).collect();
        let board = |number: u64| (format!("board-{number}"), Some(7 + number), None);
        assert_eq!(found, [("slow".to_owned(), None, None), board(0), board(1), board(2)]);
    }

    #[test]
    fn a_mistake_behind_copies_is_shown_at_another_table() {
        let behind = format!("{BOARDS}[[source]]\nname = \"last\"\nformat = \"counter\"\n");
        let many = BOARDS.replace("copies = 3", "copies = 0");
        let udp = BOARDS.replace("[source.emulator]\nseed = 7", "[source.udp]\nlisten = []");
        let twice = BOARDS.replace("slow", "board-1");
        for (text, line, says) in [
            (behind.as_str(), 11, "source `last` has 0 links"),
            (&many, 8, "copies = 0; write 1 to 4096"),
            (&udp, 8, "has copies and no [source.emulator]"),
            (&twice, 6, "two sources are named `board-1`"),
        ] {
            let error = Experiment::parse("e.toml", text).expect_err(says).to_string();
            let sentence = error.lines().last().unwrap_or_default();
            assert!(sentence.contains(says), "{error}");
            assert!(sentence.starts_with(&format!("e.toml:{line}:")), "{error}");
        }
    }
}
