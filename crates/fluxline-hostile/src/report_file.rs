//! Reports of benchmarks from strangers: each that is read can be shown and compared.

use fluxline_bench::compare;
use fluxline_bench::page::{lines, page};
use fluxline_bench::result::Report;

/// Any bytes as a report.json.
///
/// # Panics
/// When a page has markup that the report brought in.
pub fn report_file(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report>(bytes) else { return };
    let shown = [page(&report), compare::page(["before", "after"], &report, &report)];
    for page in shown {
        let html = page.html();
        assert!(!html.contains("<fuzz"), "markup of the report is in the page");
        let _ = page.text();
    }
    let _ = lines(&report);
    let rows = compare::rows(&report, &report);
    let _ = compare::counts(&rows);
    let again = serde_json::to_vec(&report).expect("it was read, so it can be written");
    assert!(serde_json::from_slice::<Report>(&again).is_ok(), "what is written can be read");
}
