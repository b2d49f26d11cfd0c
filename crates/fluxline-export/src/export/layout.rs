//! The tables and columns of an export.

use std::sync::Arc;

use super::{ExportConfig, RowsOf};
use crate::typed::plan::{Origin, TablePlan};
use crate::typed::{TableKind, TypedError, TypedRun};

/// Returns the tables that an export writes, with the columns that it wants.
///
/// Errors: a column that no table has.
pub(super) fn tables(
    run: &TypedRun,
    config: &ExportConfig,
) -> Result<Vec<Arc<TablePlan>>, TypedError> {
    let long = config.rows == RowsOf::Records;
    let mut plans: Vec<TablePlan> = run.plans().cloned().collect();
    plans.retain(|plan| long || plan.kind != TableKind::Records);
    for plan in plans.iter_mut().filter(|plan| long && plan.kind == TableKind::PacketType) {
        let is_record = |origin: &Origin| {
            matches!(origin, Origin::Record(_) | Origin::RecordList(_) | Origin::RecordSamples(_))
        };
        plan.columns.retain(|column| !is_record(&column.origin));
    }
    if let Some(columns) = &config.selection.columns {
        let known = || {
            let columns = plans.iter().flat_map(|plan| &plan.columns);
            columns.map(|column| column.field.name().as_str())
        };
        if let Some(name) = columns.iter().find(|name| !known().any(|known| known == **name)) {
            let mut names: Vec<&str> = known().collect();
            names.sort_unstable();
            names.dedup();
            return Err(TypedError::no_column_anywhere(name, names.into_iter()));
        }
        plans = plans
            .iter()
            .map(|plan| plan.with_columns(|name| columns.iter().any(|wanted| wanted == name)))
            .filter(|plan| !plan.columns.is_empty())
            .collect();
    }
    Ok(plans.into_iter().map(Arc::new).collect())
}
