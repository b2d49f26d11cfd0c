//! The page of a survey: the drawing, its numbers over time, routes, links and nodes.

use fluxline_report::network::{Link as DrawnLink, Network, Node as DrawnNode, Point, State};
use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, Page, Plot, Section, Style, Table, quantity,
};

use super::{Interval, Link, Route, Survey};

/// Rows of the table of links, the busiest first.
const LINKS_MAX: usize = 40;
/// Rows of the table of nodes.
const NODES_MAX: usize = 128;
/// Faults that a page names for each interval.
const FAULTS_MAX: usize = 8;

impl Survey {
    /// Returns the name of a link.
    fn link_name(&self, link: &Link) -> String {
        let name = |node: u32| self.nodes.get(node as usize).map_or("", |node| node.name.as_str());
        format!("{} → {}", name(link.from), name(link.to))
    }

    /// Returns the number of nodes that are not switches.
    fn node_count(&self) -> usize {
        self.nodes.iter().filter(|node| !node.is_switch).count()
    }

    /// Returns the first deadlock, if there was one.
    fn deadlock(&self) -> Option<&Interval> {
        self.intervals.iter().find(|interval| !interval.deadlock.is_empty())
    }
}

/// Returns the drawing of a survey, with a state for each interval.
#[must_use]
pub fn drawing(survey: &Survey) -> Network {
    let node = |node: &super::Node| DrawnNode {
        label: node.name.clone(),
        at: Point { x: node.x, y: node.y },
        is_switch: node.is_switch,
    };
    let link = |link: &Link| DrawnLink {
        label: survey.link_name(link),
        from: link.from as usize,
        to: link.to as usize,
        lane: link.lane,
        wraps: link.wraps.map(|way| Point { x: way.x, y: way.y }),
    };
    Network {
        title: format!("Load of the links of {}", survey.kind),
        unit: "% of the time".to_owned(),
        nodes: survey.nodes.iter().map(node).collect(),
        links: survey.links.iter().map(link).collect(),
        path: survey.route.as_ref().map_or(Vec::new(), |route| route.links.clone()),
        states: survey.intervals.iter().map(state).collect(),
    }
}

fn state(interval: &Interval) -> State {
    State {
        label: format!("{} to {} us", short(interval.from_us), short(interval.to_us)),
        note: note(interval),
        values: interval.busy.clone(),
        dead_links: interval.dead_links.clone(),
        dead_nodes: interval.dead_nodes.clone(),
        circle: interval.circle.clone(),
    }
}

/// Describes an interval in sentences.
fn note(interval: &Interval) -> String {
    let mut said = vec![format!(
        "{} messages delivered ({} MB/s), {} lost, {} under way.",
        interval.messages,
        short(interval.delivered_mb_s),
        interval.lost,
        interval.in_flight
    )];
    if !interval.faults.is_empty() {
        let more = interval.faults.len().saturating_sub(FAULTS_MAX);
        let named: Vec<&str> =
            interval.faults.iter().take(FAULTS_MAX).map(String::as_str).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        said.push(format!("Faults: {}{more}.", named.join(", ")));
    }
    if !interval.deadlock.is_empty() {
        said.push(format!("{}.", capital(&interval.deadlock)));
    }
    said.join(" ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Makes the page of a survey. `name` is the heading.
#[must_use]
pub fn page(name: &str, survey: &Survey) -> Page {
    let end = survey.intervals.last().map_or(0.0, |interval| interval.to_us);
    let map = Section {
        title: "Map".to_owned(),
        text:
            "Each line is a link in one direction; its colour is the time for which it was busy. \
               The numbers beside the lines are percent. Move the slider to see other times."
                .to_owned(),
        blocks: vec![Block::Network(drawing(survey))],
        ..Section::default()
    };
    Page {
        title: name.to_owned(),
        subtitle: format!(
            "{}: {} nodes, {} links, load {}, {} of virtual time; seed {}, fingerprint {}; \
             fluxline {}",
            survey.kind,
            survey.node_count(),
            survey.links.len(),
            short(survey.load),
            quantity(end, "us"),
            survey.seed,
            survey.fingerprint,
            env!("CARGO_PKG_VERSION"),
        ),
        warnings: warnings(survey),
        headlines: headlines(survey),
        verdict: survey.proof.text.clone(),
        sections: vec![map, routes(survey), links(survey), nodes(survey), over_time(survey)],
    }
}

fn warnings(survey: &Survey) -> Vec<String> {
    let of =
        |interval: &Interval| format!("By {} us: {}.", short(interval.to_us), interval.deadlock);
    survey.deadlock().map(of).into_iter().collect()
}

fn headlines(survey: &Survey) -> Vec<Headline> {
    let headline = |label: &str, value: String, note: String| Headline {
        label: label.to_owned(),
        value,
        note,
    };
    let busiest = survey.links.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let mean =
        survey.links.iter().map(|link| link.busy).sum::<f64>() / survey.links.len().max(1) as f64;
    let lost: u64 = survey.intervals.iter().map(|interval| interval.lost).sum();
    let messages: u64 = survey.intervals.iter().map(|interval| interval.messages).sum();
    let last = survey.intervals.last();
    let (links, nodes) = last.map_or((0, 0), |of| (of.dead_links.len(), of.dead_nodes.len()));
    vec![
        headline(
            "busiest link",
            busiest.map_or("–".to_owned(), |link| format!("{} %", short(link.busy))),
            busiest.map_or(String::new(), |link| survey.link_name(link)),
        ),
        headline("mean of all links", format!("{} %", short(mean)), String::new()),
        headline("messages delivered", messages.to_string(), format!("{lost} lost")),
        headline("dead at the end", counted(links, "link"), counted(nodes, "node")),
    ]
}

fn over_time(survey: &Survey) -> Section {
    let curve = |label: &str, value: fn(&Interval) -> f64| {
        let points = survey.intervals.iter().map(|of| (of.to_us, value(of))).collect();
        Curve { label: label.to_owned(), points, style: Style::Line, band: Vec::new() }
    };
    let plot = |title: &str, unit: &str, curves: Vec<Curve>| {
        let axis = |label: &str, unit: &str| Axis {
            label: label.to_owned(),
            unit: unit.to_owned(),
            ..Axis::default()
        };
        Block::Plot(Plot {
            title: title.to_owned(),
            x: axis("time", "us"),
            y: axis(title, unit),
            curves,
            marks: Vec::new(),
        })
    };
    let mean = |of: &Interval| of.busy.iter().sum::<f64>() / of.busy.len().max(1) as f64;
    let most = |of: &Interval| of.busy.iter().copied().fold(0.0, f64::max);
    Section {
        title: "Over time".to_owned(),
        text: "Each point is an interval that ends at its time.".to_owned(),
        blocks: vec![
            plot("busy links", "%", vec![curve("busiest", most), curve("mean", mean)]),
            plot("payload of all nodes", "MB/s", vec![curve("delivered", |of| of.delivered_mb_s)]),
            plot(
                "messages",
                "",
                vec![
                    curve("under way", |of| of.in_flight as f64),
                    curve("lost in the interval", |of| of.lost as f64),
                ],
            ),
        ],
        ..Section::default()
    }
}

fn table(title: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Block {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    Block::Table(Table { title: title.to_owned(), columns, rows })
}

fn routes(survey: &Survey) -> Section {
    let mut blocks = Vec::new();
    if let Some(route) = &survey.route {
        blocks.push(route_table(survey, route));
    }
    if !survey.proof.cycle.is_empty() {
        let links = survey.proof.cycle.iter().filter_map(|&at| survey.links.get(at));
        let rows = links.map(|link| vec![Cell::Text(survey.link_name(link))]).collect();
        blocks.push(table("A cycle of the channel dependency graph", &["link"], rows));
    }
    Section {
        title: "Routes".to_owned(),
        text: survey.proof.text.clone(),
        blocks,
        ..Section::default()
    }
}

fn route_table(survey: &Survey, route: &Route) -> Block {
    let super::Pair { from, to } = route.pair;
    let links = route.links.iter().filter_map(|&at| survey.links.get(at));
    let rows = links.enumerate().map(|(hop, link)| {
        let busy = Cell::Number(short(link.busy));
        vec![Cell::Number((hop + 1).to_string()), Cell::Text(survey.link_name(link)), busy]
    });
    let title = match route.links.is_empty() {
        true => format!("Node {from} has no path to node {to}"),
        false => format!("From node {from} to node {to}"),
    };
    table(&title, &["hop", "link", "busy [%]"], rows.collect())
}

fn links(survey: &Survey) -> Section {
    let mut order: Vec<usize> = (0..survey.links.len()).collect();
    order.sort_by(|&a, &b| survey.links[b].busy.total_cmp(&survey.links[a].busy).then(a.cmp(&b)));
    let most = |at: usize| {
        let all = survey.intervals.iter().filter_map(move |of| of.busy.get(at));
        all.copied().fold(0.0, f64::max)
    };
    let dead = |at: usize| {
        let count = survey.intervals.iter().filter(|of| of.dead_links.contains(&at)).count();
        match count {
            0 => Cell::Text(String::new()),
            all if all == survey.intervals.len() => Cell::Bad("dead".to_owned()),
            some => Cell::Bad(format!("dead in {some} intervals")),
        }
    };
    let row = |&at: &usize| {
        let link = &survey.links[at];
        vec![
            Cell::Text(survey.link_name(link)),
            Cell::Number(short(link.busy)),
            Cell::Number(short(most(at))),
            dead(at),
        ]
    };
    let rows = order.iter().take(LINKS_MAX).map(row).collect();
    let shown = order.len().min(LINKS_MAX);
    Section {
        title: "Links".to_owned(),
        text: format!("The {shown} busiest of {} links.", order.len()),
        blocks: vec![table("", &["link", "busy [%]", "busiest interval [%]", "state"], rows)],
        ..Section::default()
    }
}

fn nodes(survey: &Survey) -> Section {
    let last = survey.intervals.last();
    let is_dead = |at: usize| last.is_some_and(|of| of.dead_nodes.contains(&at));
    let row = |(at, node): (usize, &super::Node)| {
        let state =
            if is_dead(at) { Cell::Bad("dead".to_owned()) } else { Cell::Text("up".into()) };
        vec![
            Cell::Text(node.name.clone()),
            Cell::Number(short(node.sent_mb_s)),
            Cell::Number(short(node.received_mb_s)),
            state,
        ]
    };
    let all = survey.nodes.iter().enumerate().filter(|(_, node)| !node.is_switch);
    let rows = all.take(NODES_MAX).map(row).collect();
    let (count, shown) = (survey.node_count(), survey.node_count().min(NODES_MAX));
    let text = match count == shown {
        true => "Payload that was delivered, mean over all the time.".to_owned(),
        false => format!("The first {shown} of {count} nodes; mean payload over all the time."),
    };
    Section {
        title: "Nodes".to_owned(),
        text,
        blocks: vec![table("", &["node", "sent [MB/s]", "received [MB/s]", "state"], rows)],
        ..Section::default()
    }
}

/// Writes a number with three significant digits.
fn short(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { crate::report::number(value) }
}

/// Writes a count with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
