//! One HTML page that stands alone: headline numbers, tables, plots and heat maps, from plain data.
//!
//! It knows nothing of links or simulations. Whoever measures or simulates makes a [`Page`], and
//! shows it as [`Page::html`] or, in a terminal, as [`Page::text`]. Equal pages give equal bytes.

#![forbid(unsafe_code)]

mod html;
mod number;
mod page;
mod points;
mod text;

pub use page::{
    Axis, Block, Cell, Curve, Headline, HeatMap, Mark, Page, Plot, Scale, Section, Style, Table,
};
