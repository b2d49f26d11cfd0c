//! `fluxline bench --compare`: the differences of two reports beyond the noise.

use std::path::{Path, PathBuf};

use fluxline_bench::compare;
use fluxline_bench::result::Report;
use serde_json::json;

use crate::failure::Failure;
use crate::output::print_json;
use crate::{files, say};

/// Lines of differences printed at most; the page has all.
const LINES_MAX: usize = 30;

/// Reads both, prints the differences, and writes a page into `folder` if one is given.
pub fn compare(paths: &[PathBuf], folder: Option<&Path>, json: bool) -> Result<(), Failure> {
    let [one, other] = paths else { return Err(Failure::failed("--compare takes two reports.")) };
    let read =
        |path: &Path| Report::read(path).map_err(|error| Failure::input(format_args!("{error}.")));
    let (before, after) = (read(one)?, read(other)?);
    let rows = compare::rows(&before, &after);
    if rows.is_empty() {
        return Err(Failure::input(format_args!(
            "{} and {} have no number in common; measure the same experiments on both.",
            one.display(),
            other.display()
        )));
    }
    if let Some(folder) = folder {
        let names = [one, other].map(|path| path.display().to_string());
        let page = compare::page([&names[0], &names[1]], &before, &after);
        files::folder(folder)?;
        files::write(&folder.join("compare.html"), page.html().as_bytes())?;
    }
    if json {
        print_json(&document(&rows, &before, &after));
        return Ok(());
    }
    for caution in compare::cautions(&before, &after) {
        say!("! {caution}");
    }
    let counts =
        compare::counts(&rows).map(|(verdict, count)| format!("{count} {}", verdict.word()));
    say!("{} numbers: {}", rows.len(), counts.join(", "));
    let mut apart = compare::apart(&rows);
    apart.truncate(LINES_MAX);
    let table = compare::table(["before", "after"], &apart);
    table.text().lines().for_each(|line| say!("  {line}"));
    Ok(())
}

fn document(rows: &[compare::Row], before: &Report, after: &Report) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            json!({
                "experiment": row.experiment, "what": row.what, "unit": row.unit,
                "before": row.before.median, "after": row.after.median, "change": row.change(),
                "spread": [row.before.spread(), row.after.spread()],
                "verdict": row.verdict.word(),
            })
        })
        .collect();
    json!({ "cautions": compare::cautions(before, after), "rows": rows })
}
