//! Tables whose columns line up.

use std::fmt::Write as _;

use super::caption::push_caption;
use super::escape::escape;
use crate::page::{Cell, Table};

/// Writes a table.
pub(super) fn push(out: &mut String, table: &Table) {
    // A row of its own, so that plots are in pairs.
    out.push_str("<figure class=\"wide\">\n");
    push_caption(out, &table.title);
    if table.rows.is_empty() {
        out.push_str("<div class=\"none\">No rows.</div>\n</figure>\n");
        return;
    }
    out.push_str("<div class=\"scroll\"><table class=\"rows\">\n<thead><tr>");
    for (at, column) in table.columns.iter().enumerate() {
        let class = if is_number_column(table, at) { " class=\"number\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for at in 0..table.columns.len().max(row.len()) {
            push_cell(out, row.get(at), is_number_column(table, at));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</figure>\n");
}

/// Returns true if a column holds numbers, and its heading is right-aligned.
pub(crate) fn is_number_column(table: &Table, at: usize) -> bool {
    let cells = || table.rows.iter().filter_map(|row| row.get(at));
    cells().any(|cell| matches!(cell, Cell::Number(_)))
        && !cells().any(|cell| matches!(cell, Cell::Text(text) if !text.is_empty()))
}

/// Good and bad also say so by a sign: colour alone does not reach everyone.
fn push_cell(out: &mut String, cell: Option<&Cell>, number_column: bool) {
    let side = if number_column { " number" } else { "" };
    let _ = match cell {
        None => write!(out, "<td></td>"),
        Some(Cell::Text(text)) => write!(out, "<td class=\"text\">{}</td>", escape(text)),
        Some(Cell::Number(text)) => write!(out, "<td class=\"number\">{}</td>", escape(text)),
        Some(Cell::Good(text)) => {
            write!(out, "<td class=\"good{side}\"><span>✓ {}</span></td>", escape(text))
        }
        Some(Cell::Bad(text)) => {
            write!(out, "<td class=\"bad{side}\"><span>✗ {}</span></td>", escape(text))
        }
    };
}
