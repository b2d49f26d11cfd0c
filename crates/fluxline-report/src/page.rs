//! A page as data. All text is plain text; it is escaped when HTML is made.

use crate::network::Network;

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The heading, also the browser's title.
    pub title: String,
    /// The line below the heading: machine, link, date.
    pub subtitle: String,
    /// Warnings above all numbers: a busy machine, an experiment that broke off.
    pub warnings: Vec<String>,
    /// The most important numbers, at most four.
    pub headlines: Vec<Headline>,
    /// One or two sentences: what limits the numbers.
    pub verdict: String,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// An important number, shown as a card.
#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// The name of the quantity.
    pub label: String,
    /// The number with its unit, as printed.
    pub value: String,
    /// The numbers to compare it with: a floor, a peer, the spread.
    pub note: String,
}

/// A part of the page with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// At most two sentences: the quantity and the method. An empty line begins a new paragraph.
    pub text: String,
    /// Plots, tables and maps, in order.
    pub blocks: Vec<Block>,
    /// Details of the method, one sentence each; folded away until a reader asks for them.
    pub notes: Vec<String>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A plot.
    Plot(Plot),
    /// A table.
    Table(Table),
    /// A heat map.
    HeatMap(HeatMap),
    /// A drawing of a network.
    Network(Network),
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
    /// The name of the quantity.
    pub label: String,
    /// The unit: `B`, `us`, `MB/s`; empty: a plain number.
    pub unit: String,
    /// Linear or logarithmic.
    pub scale: Scale,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// A logarithmic scale.
    Logarithmic,
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The name in the legend.
    pub label: String,
    /// The points (x, y), x ascending; a number that is not finite makes a gap.
    pub points: Vec<(f64, f64)>,
    /// The band (low, high) of each point; empty: no band.
    pub band: Vec<(f64, f64)>,
    /// Line, points or steps.
    pub style: Style,
}

/// The style of a curve.
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

/// A point with its own text.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// The position (x, y).
    pub at: (f64, f64),
    /// The text beside it.
    pub text: String,
}

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text, left-aligned.
    Text(String),
    /// A number as printed, right-aligned.
    Number(String),
    /// A target that was met.
    Good(String),
    /// A target that was missed.
    Bad(String),
}

/// Numbers as colours: load of links, fairness of nodes.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// The heading.
    pub title: String,
    /// The unit of the numbers.
    pub unit: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The name of each row, and its numbers; a number that is not finite leaves its cell empty.
    pub rows: Vec<(String, Vec<f64>)>,
}
