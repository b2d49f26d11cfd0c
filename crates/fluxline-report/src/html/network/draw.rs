//! The drawing of one state as SVG.

use std::fmt::Write as _;

use super::super::escape::escape;
use super::shape::{self, RADIUS};
use super::{legend, style};
use crate::network::{Link, Network, Node, Point, State};
use crate::number::digits;

/// The border around the drawing, in which links around the border end.
const BORDER: f64 = 75.0;
/// More links than these have no numbers beside them.
const NUMBERS_MAX: usize = 72;
/// More nodes than these have no names in them.
const NAMES_MAX: usize = 600;

/// The use of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In a page, which has the rules.
    Page,
    /// A file of its own.
    File,
}

/// The corners of all nodes, in user units.
struct Frame {
    least: Point,
    most: Point,
}

impl Frame {
    fn of(network: &Network) -> Frame {
        let origin = network.nodes.is_empty().then_some(Point::default());
        let places = || network.nodes.iter().map(|node| shape::place(node.at)).chain(origin);
        let fold = |pick: fn(Point) -> f64, start: f64, choose: fn(f64, f64) -> f64| {
            places().map(pick).fold(start, choose)
        };
        let least = Point {
            x: fold(|of| of.x, f64::INFINITY, f64::min) - BORDER,
            y: fold(|of| of.y, f64::INFINITY, f64::min) - BORDER,
        };
        let most = Point {
            x: fold(|of| of.x, f64::NEG_INFINITY, f64::max) + BORDER,
            y: fold(|of| of.y, f64::NEG_INFINITY, f64::max) + BORDER,
        };
        Frame { least, most }
    }
}

/// Writes the drawing of a network in a state.
pub fn document(network: &Network, state: Option<&State>, used: Use) -> String {
    let mut out = String::new();
    let Frame { least, most } = Frame::of(network);
    let width = (most.x - least.x).max(legend::WIDTH);
    let height = most.y - least.y + legend::height(network);
    let (x, y) = (least.x, least.y);
    // Small networks are not blown up to the width of the page.
    let shown = (width * 1.25).min(1200.0);
    let _ = writeln!(
        out,
        "<svg class=\"network\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         width=\"{shown:.0}\" viewBox=\"{x:.0} {y:.0} {width:.0} {height:.0}\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&network.title));
    if used == Use::File {
        let _ = writeln!(out, "<style>{}</style>", style::of_file());
    }
    let empty = State::default();
    let state = state.unwrap_or(&empty);
    push_links(&mut out, network, state);
    for (index, node) in network.nodes.iter().enumerate() {
        push_node(&mut out, node, Flags::of_node(network, state, index));
    }
    legend::push(&mut out, network, least.x + 20.0, most.y + legend::GAP);
    out.push_str("</svg>\n");
    out
}

/// The signs of a node.
struct Flags {
    is_dead: bool,
    is_end: bool,
    has_name: bool,
}

impl Flags {
    fn of_node(network: &Network, state: &State, index: usize) -> Flags {
        let links = |at: Option<&usize>| at.and_then(|&link| network.links.get(link));
        let first = links(network.path.first()).is_some_and(|link| link.from == index);
        let last = links(network.path.last()).is_some_and(|link| link.to == index);
        Flags {
            is_dead: state.dead_nodes.contains(&index),
            is_end: first || last,
            has_name: network.nodes.len() <= NAMES_MAX,
        }
    }
}

fn push_node(out: &mut String, node: &Node, flags: Flags) {
    let Point { x, y } = shape::place(node.at);
    let dead = if flags.is_dead { " dead" } else { "" };
    let end = if flags.is_end { " end" } else { "" };
    let _ = write!(out, "<g class=\"node{dead}{end}\">");
    if node.is_switch {
        let (left, top, side) = (x - RADIUS, y - RADIUS, 2.0 * RADIUS);
        let _ = write!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side}\" height=\"{side}\"/>"
        );
    } else {
        let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"/>");
    }
    let label = escape(&node.label);
    if flags.has_name {
        let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>");
    }
    let what = if node.is_switch { "" } else { "node " };
    let _ = writeln!(out, "<title>{what}{label}</title></g>");
}

fn push_links(out: &mut String, network: &Network, state: &State) {
    let mut has_under = vec![false; network.links.len()];
    let circles = network.states.iter().flat_map(|state| &state.circle);
    for &link in network.path.iter().chain(circles) {
        if let Some(flag) = has_under.get_mut(link) {
            *flag = true;
        }
    }
    let high = network.high();
    for (index, link) in network.links.iter().enumerate() {
        let value = state.values.get(index).copied().unwrap_or(f64::NAN);
        let mut class = style::class(value, high);
        for (list, name) in
            [(&network.path, "path"), (&state.dead_links, "dead"), (&state.circle, "circle")]
        {
            if list.contains(&index) {
                class.push(' ');
                class.push_str(name);
            }
        }
        let number = (network.links.len() <= NUMBERS_MAX).then_some(value);
        push_link(out, network, link, &Look { class, has_under: has_under[index], value, number });
    }
}

/// The look of a link in a state.
struct Look {
    class: String,
    /// True if a state or the path marks it.
    has_under: bool,
    value: f64,
    /// The number beside it.
    number: Option<f64>,
}

fn push_link(out: &mut String, network: &Network, link: &Link, look: &Look) {
    let Some(shape) = shape::of(network, link) else { return };
    let _ = write!(out, "<g class=\"link {}\">", look.class);
    if look.has_under {
        let _ = write!(out, "<path class=\"under\" d=\"{}\"/>", shape.line);
    }
    let _ = write!(
        out,
        "<path class=\"line\" d=\"{}\"/><path class=\"head\" d=\"{}\"/>",
        shape.line, shape.head
    );
    if let Some(number) = look.number {
        let Point { x, y } = shape.middle;
        let text = number_text(number);
        let _ = write!(out, "<text class=\"number\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }
    let (label, unit) = (escape(&link.label), escape(&network.unit));
    let value = if look.value.is_finite() { digits(look.value, 3) } else { "–".to_owned() };
    let _ = writeln!(out, "<title>{label}: {value} {unit}</title></g>");
}

/// Writes the number beside a link; idle links have none.
fn number_text(value: f64) -> String {
    if value.is_finite() && value > 0.0 { digits(value, 2) } else { String::new() }
}
