//! The page `docs/fidelity.md` of the manual.

use std::fmt::Write;

use fluxline_report::{Cell, Table};

use super::set::Comparison;
use super::tables;

/// Columns of running text.
const COLUMNS: usize = 100;

const INTRODUCTION: &str = "\
# Fidelity of the models

This page is for users who want to know how far to trust the simulator. It compares every published
number that the models repeat with the models' result, misses included. The program wrote it:

```sh
fluxline sim reproduce                          # the facts, on the terminal
fluxline sim reproduce sci --report sci.html    # one set, with its figures
fluxline sim reproduce --markdown docs/fidelity.md
```

A test fails when the page differs from the program's output.

A fact has exactly one verdict:

* **predicted**: the model agrees, and no parameter was chosen from the fact;
* **calibrated**: the model agrees, but a parameter was chosen from the fact, or repeats it.
  Agreement proves nothing;
* **missed**: the model disagrees.

A number counts as met within 10 % of its range, a number of the table of ATOLL and Myrinet within 5
%, a shape or bound only inside its range. A statement is one fact. It is two where a parameter was
chosen from one part of it. Each parameter names the facts that it was chosen from, and the verdict
follows from this list.
";

/// Writes comparisons as the manual's page.
#[must_use]
pub fn markdown(comparisons: &[Comparison]) -> String {
    let mut page = INTRODUCTION.to_string();
    for comparison in comparisons {
        let set = comparison.set;
        let _ = write!(page, "\n## {}: {}\n\n", set.name, set.title);
        page += &paragraph(&comparison.verdict());
        page += &table(&tables::facts(comparison));
        page += "\n### What the papers say and the model cannot\n\n";
        page += &table(&tables::gaps(comparison));
        for trials in &comparison.trials {
            let _ = write!(page, "\n### {}\n\n", trials.title);
            page += &paragraph(trials.text);
            page += &table(&tables::trials(trials));
        }
        page += "\n### Parameters and their origins\n\n";
        page += &table(&tables::origins(comparison));
        page += "\n";
        page += &table(&tables::parameters(comparison));
        page += "\n### Sources\n\n";
        page += &table(&tables::sources(comparison));
    }
    page
}

/// Returns a text in lines of the manual's width, and an empty line.
fn paragraph(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, String::len);
        if line > 0 && line + 1 + word.len() > COLUMNS {
            lines.push(String::new());
        }
        if let Some(last) = lines.last_mut() {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(space);
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n\n"
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut line = cells.fold(String::from("|"), |line, cell| line + " " + cell + " |");
    line.push('\n');
    line
}

fn table(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(String::as_str));
    text += &line(table.columns.iter().map(|_| "---"));
    for row in &table.rows {
        text += &line(row.iter().map(|cell| match cell {
            Cell::Text(text) | Cell::Number(text) | Cell::Good(text) | Cell::Bad(text) => {
                text.as_str()
            }
        }));
    }
    text
}
