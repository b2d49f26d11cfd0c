//! A page as data. Text is plain text: it is escaped where HTML is made.

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What was measured: the heading and the browser's title.
    pub title: String,
    /// One sentence below it: machine, link, when.
    pub subtitle: String,
    /// The numbers that matter, at most four.
    pub headlines: Vec<Headline>,
    /// One or two sentences: what limits them.
    pub verdict: String,
    /// The rest, in order.
    pub sections: Vec<Section>,
}

/// A number that matters.
#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// What it is.
    pub label: String,
    /// The number with its unit, as it is to be read.
    pub value: String,
    /// What it is to be held against: a floor, a peer, the spread.
    pub note: String,
}

/// A part of the page with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What is shown and how it was measured.
    pub text: String,
    /// What is shown.
    pub blocks: Vec<Block>,
}

/// Something to look at.
#[derive(Clone, Debug)]
pub enum Block {
    /// Curves over an axis.
    Plot(Plot),
    /// Rows and columns.
    Table(Table),
    /// Numbers as colours.
    HeatMap(HeatMap),
}

/// Curves over one axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// The heading.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, at most eight.
    pub curves: Vec<Curve>,
    /// Published or expected points, drawn as marks with their text.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit, `B`, `us`, `MB/s`; empty: a number.
    pub unit: String,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By decades.
    Logarithmic,
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub label: String,
    /// (x, y), x ascending; not finite: a gap.
    pub points: Vec<(f64, f64)>,
    /// (low, high) for each point, drawn as a band; empty: none.
    pub band: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A line with its points.
    #[default]
    Line,
    /// A dashed line: a floor, a formula, a paper.
    Dashed,
    /// Points alone.
    Points,
    /// Steps: a histogram.
    Steps,
}

/// A point with a text of its own.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// Where.
    pub at: (f64, f64),
    /// What is said of it.
    pub text: String,
}

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, left-aligned.
    Text(String),
    /// A number as it is to be read, right-aligned.
    Number(String),
    /// Held: shown as good.
    Good(String),
    /// Missed: shown as bad.
    Bad(String),
}

/// Numbers as colours: load of links, fairness of nodes.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// The heading.
    pub title: String,
    /// What the numbers are.
    pub unit: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Name of each row and its numbers; not finite: empty.
    pub rows: Vec<(String, Vec<f64>)>,
}
