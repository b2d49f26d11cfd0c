//! The report of a scenario: its results as plain numbers, a page and tables of them.
//!
//! [`simulate()`] measures every load of a scenario. [`page()`] makes a page for readers,
//! [`tables()`] makes tables for other programs. Equal scenarios give equal reports.

mod events;
mod hosts;
mod links;
mod number;
mod page;
mod results;
mod simulate;
mod sweep;
mod tables;

pub use links::by_node;
pub(crate) use number::number;
pub use page::{Setting, Subject, page, page_of};
pub use results::{Events, Latency, LinkGrid, Lost, Point, Precision, Results, Saturation};
pub use simulate::{Stage, Swept, simulate, stages, sweep};
pub use sweep::sweep_page;
pub use tables::{Column, Columns, Field, sweep_tables, tables, units};

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::{Stage, page, simulate, stages, tables};
    use crate::scenario::Scenario;

    fn scenario() -> Scenario {
        let mut scenario = Scenario::default().quick();
        scenario.run.loads = vec![0.05, 0.1, 0.2];
        scenario
    }

    #[test]
    fn a_report_has_every_load_and_does_not_depend_on_the_number_of_threads() {
        let scenario = scenario();
        let mut seen = Vec::new();
        let one = simulate(&scenario, NonZeroUsize::new(1), |stage| seen.push(stage));
        let one = one.expect("it runs");
        let two = simulate(&scenario, NonZeroUsize::new(2), |_| {}).expect("it runs");
        assert_eq!(one.fingerprint, two.fingerprint);
        assert_eq!(seen, [1, 2, 3].map(Stage::Points));
        assert_eq!(stages(&scenario), 3);
        let loads: Vec<f64> = one.points.iter().map(|point| point.load).collect();
        assert_eq!(loads, scenario.run.loads);
        let page = page("name", &scenario, &one);
        assert_eq!(page.title, "name", "the scenario has no title");
        assert!(page.verdict.contains("load") && page.sections.len() == 6, "{page:?}");
        assert_eq!(page.html(), super::page("name", &scenario, &two).html());
    }

    #[test]
    fn columns_of_a_table_have_one_length() {
        let results = simulate(&scenario(), None, |_| {}).expect("it runs");
        for table in tables(&results) {
            let first = table.columns[0].column.rows();
            assert!(first > 0, "{}", table.name);
            assert!(table.columns.iter().all(|of| of.column.rows() == first), "{}", table.name);
        }
    }
}
