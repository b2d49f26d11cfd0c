//! Writes a page as one HTML file that needs no other file.

mod caption;
mod escape;
pub(crate) mod heat;
mod network;
pub(crate) mod plot;
pub(crate) mod table;

use std::fmt::Write as _;

use crate::page::{Block, Headline, Page, Section};
use escape::escape;

const STYLE_PLOT: &str = include_str!("../../assets/uPlot.min.css");
const SCRIPT_PLOT: &str = include_str!("../../assets/uPlot.iife.min.js");
const LICENSE_PLOT: &str = include_str!("../../assets/uPlot.LICENSE");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const SCRIPT_NETWORK: &str = include_str!("../../assets/network.js");

impl Page {
    /// Writes the page as an HTML document that needs no network: about 75 kB and its data.
    ///
    /// All text is escaped. Equal pages give equal bytes. Without a script a reader finds the
    /// numbers of each plot in a table.
    #[must_use]
    pub fn html(&self) -> String {
        let mut out = String::with_capacity(128 * 1024);
        out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        let _ = writeln!(out, "<title>{}</title>", escape(&self.title));
        let _ = writeln!(out, "<style>\n{STYLE_PLOT}\n{STYLE}");
        heat::push_rules(&mut out);
        if self.has_network() {
            network::push_rules(&mut out);
        }
        out.push_str("</style>\n</head>\n<body>\n");
        self.first_screen(&mut out);
        let mut data = Data::default();
        for (number, section) in self.sections.iter().enumerate() {
            push_section(&mut out, number, section, &mut data);
        }
        out.push_str("<footer>A page by fluxline. It needs no network; plots: uPlot.</footer>\n");
        let _ = writeln!(
            out,
            "<script type=\"application/json\" id=\"plots\">{}</script>",
            escape::json(&data.plots)
        );
        let mut script = SCRIPT.to_owned();
        if self.has_network() {
            let _ = writeln!(
                out,
                "<script type=\"application/json\" id=\"networks\">{}</script>",
                escape::json(&data.networks)
            );
            script.push_str(SCRIPT_NETWORK);
        }
        let _ = writeln!(out, "<script>\n/*!\n{LICENSE_PLOT}*/\n{SCRIPT_PLOT}\n{script}</script>");
        out.push_str("</body>\n</html>\n");
        out
    }

    fn has_network(&self) -> bool {
        let mut blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.any(|block| matches!(block, Block::Network(_)))
    }

    fn first_screen(&self, out: &mut String) {
        let _ = writeln!(out, "<header>\n<div class=\"top\"><h1>{}</h1>", escape(&self.title));
        out.push_str("<button id=\"theme\" type=\"button\">Dark</button></div>\n");
        push_paragraph(out, "subtitle", &self.subtitle);
        if !self.warnings.is_empty() {
            push_list(out, "warnings", &self.warnings);
        }
        if !self.headlines.is_empty() {
            out.push_str("<dl class=\"headlines\">\n");
            self.headlines.iter().for_each(|headline| push_headline(out, headline));
            out.push_str("</dl>\n");
        }
        push_paragraph(out, "verdict", &self.verdict);
        if self.sections.len() > 2 {
            out.push_str("<nav>\n");
            for (number, section) in self.sections.iter().enumerate() {
                let title = escape(&section.title);
                let _ = writeln!(out, "<a href=\"#section-{number}\">{title}</a>");
            }
            out.push_str("</nav>\n");
        }
        out.push_str("</header>\n");
    }
}

/// The numbers that the script of a page reads.
#[derive(Default)]
struct Data<'a> {
    plots: Vec<plot::Data<'a>>,
    networks: Vec<network::Data<'a>>,
}

fn push_headline(out: &mut String, headline: &Headline) {
    let (label, value) = (escape(&headline.label), escape(&headline.value));
    let _ = write!(out, "<div class=\"headline\"><dt>{label}</dt><dd class=\"value\">{value}</dd>");
    let _ = writeln!(out, "<dd class=\"note\">{}</dd></div>", escape(&headline.note));
}

/// A paragraph of a class, unless there is nothing to say. An empty line begins a new one.
fn push_paragraph(out: &mut String, class: &str, text: &str) {
    for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
        let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escape(part));
    }
}

fn push_section<'a>(out: &mut String, number: usize, section: &'a Section, data: &mut Data<'a>) {
    let _ = writeln!(out, "<section id=\"section-{number}\">\n<h2>{}</h2>", escape(&section.title));
    push_paragraph(out, "text", &section.text);
    out.push_str("<div class=\"blocks\">\n");
    for block in &section.blocks {
        match block {
            Block::Plot(of) => plot::push(out, of, &mut data.plots),
            Block::Table(of) => table::push(out, of),
            Block::HeatMap(of) => heat::push(out, of),
            Block::Network(of) => network::push(out, of, &mut data.networks),
        }
    }
    out.push_str("</div>\n");
    if !section.notes.is_empty() {
        out.push_str("<details><summary>How it was measured</summary>\n");
        push_list(out, "notes", &section.notes);
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

fn push_list(out: &mut String, class: &str, lines: &[String]) {
    let _ = writeln!(out, "<ul class=\"{class}\">");
    for line in lines {
        let _ = writeln!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests;
