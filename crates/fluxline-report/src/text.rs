//! Writes a page as plain text, aligned, for a terminal, a log or a mail.

use std::fmt::Write as _;

use crate::html::{heat, plot, table};
use crate::network::Network;
use crate::number::digits;
use crate::page::{Block, Cell, HeatMap, Page, Plot, Section, Table};
use crate::points;

/// Columns of running text.
const COLUMNS: usize = 88;
/// Rows of a plot's table; longer ones are thinned.
const ROWS_MAX: usize = 48;
/// Columns of a heat map that fit beside each other; wider ones become a summary of each row.
const MAP_COLUMNS_MAX: usize = 16;

impl Page {
    /// Writes the page as plain text. Tables are aligned by spaces; plots become tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        push_heading(&mut out, &self.title, '=');
        push_wrapped(&mut out, &self.subtitle);
        self.warnings.iter().for_each(|warning| push_wrapped(&mut out, &format!("! {warning}")));
        let lines: Vec<[String; 3]> = self
            .headlines
            .iter()
            .map(|of| [plain(&of.label), plain(&of.value), plain(&of.note)])
            .collect();
        if !lines.is_empty() {
            out.push('\n');
            let grid = lines.into_iter().map(|[a, b, c]| vec![left(a), right(b), left(c)]);
            push_grid(&mut out, &grid.collect::<Vec<_>>());
        }
        if !self.verdict.is_empty() {
            out.push('\n');
            push_paragraphs(&mut out, &self.verdict);
        }
        self.sections.iter().for_each(|section| push_section(&mut out, section));
        out
    }
}

impl Table {
    /// Writes the table as plain text: columns line up.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        push_table(&mut out, self);
        out
    }
}

fn push_section(out: &mut String, section: &Section) {
    out.push('\n');
    push_heading(out, &section.title, '-');
    push_paragraphs(out, &section.text);
    for block in &section.blocks {
        out.push('\n');
        match block {
            Block::Plot(of) => push_plot(out, of),
            Block::Table(of) => push_table(out, of),
            Block::HeatMap(of) => push_map(out, of),
            Block::Network(of) => push_network(out, of),
        }
    }
    if !section.notes.is_empty() {
        out.push('\n');
        section.notes.iter().for_each(|note| push_wrapped(out, &format!("- {note}")));
    }
}

/// Writes the last state of a drawing; the drawing itself needs HTML or SVG.
fn push_network(out: &mut String, of: &Network) {
    push_title(out, &of.title);
    if let Some(state) = of.states.last() {
        let values = state.values.iter().copied().filter(|value| value.is_finite());
        let most = values.fold(0.0, f64::max);
        let busiest = format!("{}: at most {} {}", state.label, digits(most, 3), of.unit);
        let note = if state.note.is_empty() { String::new() } else { format!("; {}", state.note) };
        push_wrapped(out, &plain(&format!("{busiest}{note}")));
    }
}

fn push_table(out: &mut String, of: &Table) {
    push_title(out, &of.title);
    let mut grid = Vec::new();
    let heading = |(at, name): (usize, &String)| {
        if table::is_number_column(of, at) { right(plain(name)) } else { left(plain(name)) }
    };
    grid.push(of.columns.iter().enumerate().map(heading).collect());
    for row in &of.rows {
        let cell = |(at, cell): (usize, &Cell)| match cell {
            Cell::Text(text) => left(plain(text)),
            Cell::Number(text) => right(plain(text)),
            Cell::Good(text) => by_column(of, at, format!("✓ {}", plain(text))),
            Cell::Bad(text) => by_column(of, at, format!("✗ {}", plain(text))),
        };
        grid.push(row.iter().enumerate().map(cell).collect());
    }
    push_grid(out, &grid);
}

fn by_column(of: &Table, at: usize, text: String) -> Aligned {
    if table::is_number_column(of, at) { right(text) } else { left(text) }
}

fn push_plot(out: &mut String, of: &Plot) {
    push_title(out, &of.title);
    if points::is_empty(of) {
        out.push_str("nothing to plot\n");
        return;
    }
    let joined = points::joined(of);
    let every = joined.rows.len().div_ceil(ROWS_MAX).max(1);
    let mut heading = vec![right(plain(&plot::named(&of.x)))];
    heading.extend(joined.columns.iter().map(|name| right(plain(name))));
    let mut grid = vec![heading];
    for (x, numbers) in joined.rows.iter().step_by(every) {
        let mut row = vec![right(digits(*x, 6))];
        let shown = |n: &Option<f64>| n.map_or_else(String::new, |n| digits(n, 4));
        row.extend(numbers.iter().map(|number| right(shown(number))));
        grid.push(row);
    }
    let _ = writeln!(out, "{}:", plain(&plot::named(&of.y)));
    push_grid(out, &grid);
    let every = every * joined.thinned;
    if every > 1 {
        let _ = writeln!(out, "(one row in {every})");
    }
    for mark in &of.marks {
        let (x, y) = (digits(mark.at.0, 6), digits(mark.at.1, 4));
        let _ = writeln!(out, "{}: {x}, {y}", plain(&mark.text));
    }
}

fn push_map(out: &mut String, of: &HeatMap) {
    push_title(out, &of.title);
    let Some(heat::Range { low, high }) = heat::range(of) else {
        out.push_str("nothing to show\n");
        return;
    };
    let unit = plain(&of.unit);
    let _ = writeln!(out, "{unit}, {} to {}:", digits(low, 4), digits(high, 4));
    let columns = heat::width(of);
    let is_wide = columns > MAP_COLUMNS_MAX;
    let mut heading = vec![left(String::new())];
    if is_wide {
        heading.extend(["least", "mean", "most"].map(|name| right(name.to_string())));
    } else {
        heading.extend((0..columns).map(|at| right(of.columns.get(at).map_or("", |n| n).into())));
    }
    let mut grid = vec![heading];
    for (name, numbers) in &of.rows {
        let mut row = vec![left(plain(name))];
        let shown = if is_wide { summary(numbers) } else { numbers.clone() };
        row.extend(shown.iter().map(|number| right(digits(*number, 3))));
        grid.push(row);
    }
    push_grid(out, &grid);
}

/// Returns least, mean and most of the finite numbers.
fn summary(numbers: &[f64]) -> Vec<f64> {
    let finite: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    let least = finite.iter().copied().fold(f64::INFINITY, f64::min);
    let most = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![least, mean, most]
}

/// A cell with its alignment.
enum Aligned {
    Left(String),
    Right(String),
}

impl Aligned {
    fn text(&self) -> &str {
        match self {
            Aligned::Left(text) | Aligned::Right(text) => text,
        }
    }
}

fn left(text: String) -> Aligned {
    Aligned::Left(text)
}

fn right(text: String) -> Aligned {
    Aligned::Right(text)
}

/// Rows whose columns are as wide as their widest cell, two spaces apart.
fn push_grid(out: &mut String, rows: &[Vec<Aligned>]) {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text().chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            let between = if line.is_empty() && width > 0 { "" } else { "  " };
            let _ = match cell {
                Aligned::Right(text) => write!(line, "{between}{text:>width$}"),
                Aligned::Left(text) => write!(line, "{between}{text:<width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn push_heading(out: &mut String, title: &str, under: char) {
    let title = plain(title);
    let _ = writeln!(out, "{title}");
    out.extend(std::iter::repeat_n(under, title.chars().count()));
    out.push('\n');
}

fn push_title(out: &mut String, title: &str) {
    if !title.is_empty() {
        let _ = writeln!(out, "{}", plain(title));
    }
}

fn push_paragraphs(out: &mut String, text: &str) {
    text.split("\n\n").for_each(|paragraph| push_wrapped(out, paragraph));
}

fn push_wrapped(out: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split_whitespace().map(plain) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += width;
    }
    if column > 0 {
        out.push('\n');
    }
}

/// Removes control characters: no text moves the cursor or changes a colour.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use crate::page::{Axis, Block, Cell, Curve, Headline, HeatMap, Page, Plot, Section, Table};

    fn page(blocks: Vec<Block>) -> Page {
        let section = Section { title: "Part".to_string(), blocks, ..Section::default() };
        Page { title: "A link".to_string(), sections: vec![section], ..Page::default() }
    }

    #[test]
    fn columns_line_up_whatever_their_signs_and_letters() {
        let row = |name: &str, cell: Cell| vec![Cell::Text(name.to_string()), cell];
        let table = Table {
            title: String::new(),
            columns: vec!["what".to_string(), "µs".to_string()],
            rows: vec![
                row("8 B", Cell::Number("0.9".to_string())),
                row("größer", Cell::Number("1234.5".to_string())),
                row("met", Cell::Good("7".to_string())),
            ],
        };
        let text = page(vec![Block::Table(table)]).text();
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("what")).collect();
        assert_eq!(lines, ["what        µs", "8 B        0.9", "größer  1234.5", "met        ✓ 7"]);
    }

    #[test]
    fn headlines_and_verdict_come_first_and_control_characters_do_not() {
        let mut page = page(Vec::new());
        page.verdict = "Limited by \u{1b}[31mmemory.".to_string();
        page.headlines = vec![Headline {
            label: "rate".to_string(),
            value: "5 GB/s".to_string(),
            note: "floor 6".to_string(),
        }];
        let text = page.text();
        assert!(!text.contains('\u{1b}'));
        let find = |word: &str| text.find(word).expect(word);
        assert!(find("5 GB/s") < find("Limited") && find("Limited") < find("Part"));
    }

    #[test]
    fn a_plot_shows_its_numbers_and_a_long_one_is_thinned() {
        let points = (0..1000).map(|x| (f64::from(x), f64::from(x) * 2.0)).collect();
        let curve = Curve { label: "twice".to_string(), points, ..Curve::default() };
        let x = Axis { label: "x".to_string(), unit: "B".to_string(), ..Axis::default() };
        let plot = Plot { x, curves: vec![curve], ..Plot::default() };
        let text = page(vec![Block::Plot(plot)]).text();
        assert!(text.contains("x [B]") && text.contains("twice"), "{text}");
        assert!(text.contains("(one row in 21)") && text.lines().count() < 60, "{text}");
    }

    #[test]
    fn nothing_to_show_is_said() {
        let text = page(vec![
            Block::Plot(Plot::default()),
            Block::HeatMap(HeatMap::default()),
            Block::Table(Table::default()),
        ]);
        let text = text.text();
        assert!(text.contains("nothing to plot") && text.contains("nothing to show"));
    }

    #[test]
    fn a_wide_heat_map_is_summed_up_by_row() {
        let rows = vec![("a".to_string(), (0..64).map(f64::from).collect())];
        let map = HeatMap { rows, unit: "%".to_string(), ..HeatMap::default() };
        let text = page(vec![Block::HeatMap(map)]).text();
        assert!(text.contains("least") && text.contains("31.5"), "{text}");
    }
}
