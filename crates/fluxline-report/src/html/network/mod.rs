//! A network as a drawing with a slider for its states.

mod draw;
mod legend;
mod shape;
mod style;

use std::fmt::Write as _;

use serde::Serialize;

use super::caption::push_caption;
use super::escape::escape;
use crate::network::{Network, State};

pub(super) use style::push_rules;

/// The states of a drawing, for the script.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    /// The number with the last colour.
    high: f64,
    unit: &'a str,
    links: Vec<&'a str>,
    states: Vec<StateData<'a>>,
}

#[derive(Serialize)]
struct StateData<'a> {
    label: &'a str,
    note: &'a str,
    /// Null: no colour.
    values: Vec<Option<f64>>,
    dead: &'a [usize],
    dead_nodes: &'a [usize],
    circle: &'a [usize],
}

impl Network {
    /// Writes one state as an SVG document, with its legend; without an index the last one.
    #[must_use]
    pub fn svg(&self, state: Option<usize>) -> String {
        let last = self.states.len().saturating_sub(1);
        let state = self.states.get(state.unwrap_or(last).min(last));
        draw::document(self, state, draw::Use::File)
    }

    /// Returns the largest number of all states, which has the last colour.
    pub(crate) fn high(&self) -> f64 {
        let all = self.states.iter().flat_map(|state| &state.values).copied();
        all.filter(|value| value.is_finite()).fold(0.0, f64::max)
    }
}

/// Writes a drawing, and adds its states to those of the script.
pub(super) fn push<'a>(out: &mut String, network: &'a Network, all: &mut Vec<Data<'a>>) {
    out.push_str("<figure class=\"wide net\">\n");
    push_caption(out, &network.title);
    if network.nodes.is_empty() {
        out.push_str("<div class=\"none\">Nothing to show.</div>\n</figure>\n");
        return;
    }
    let state = network.states.last();
    out.push_str(&draw::document(network, state, draw::Use::Page));
    if let Some(state) = state {
        push_slider(out, network.states.len(), state);
    }
    out.push_str("<div class=\"readout\" aria-live=\"polite\"></div>\n</figure>\n");
    let state = |of: &'a State| StateData {
        label: &of.label,
        note: &of.note,
        values: of.values.iter().map(|&value| Some(value).filter(|of| of.is_finite())).collect(),
        dead: &of.dead_links,
        dead_nodes: &of.dead_nodes,
        circle: &of.circle,
    };
    all.push(Data {
        high: network.high(),
        unit: &network.unit,
        links: network.links.iter().map(|link| link.label.as_str()).collect(),
        states: network.states.iter().map(state).collect(),
    });
}

fn push_slider(out: &mut String, count: usize, state: &State) {
    let last = count - 1;
    if count > 1 {
        out.push_str("<div class=\"slider\"><button type=\"button\">Play</button>");
        let _ = write!(
            out,
            "<input type=\"range\" min=\"0\" max=\"{last}\" value=\"{last}\" aria-label=\"time\">"
        );
        let _ = writeln!(out, "<output>{}</output></div>", escape(&state.label));
    }
    let _ = writeln!(out, "<p class=\"state\">{}</p>", escape(&state.note));
}
