//! One HTML page that needs no other file: headline numbers, tables, plots and heat maps.
//!
//! The crate knows nothing of links or simulations. A program fills in a [`Page`] and writes it as
//! HTML ([`Page::html`]) or as text for a terminal ([`Page::text`]). Equal pages give equal bytes.

#![forbid(unsafe_code)]

mod html;
pub mod network;
mod number;
mod page;
mod points;
mod text;

pub use number::quantity;
pub use page::{
    Axis, Block, Cell, Curve, Headline, HeatMap, Mark, Page, Plot, Scale, Section, Style, Table,
};
