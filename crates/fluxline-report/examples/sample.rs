//! A page with everything a page can show, from formulas: `cargo run -p fluxline-report --example
//! sample -- sample.html`. For looking at after changes to the look.

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, HeatMap, Mark, Page, Plot, Scale, Section, Style, Table,
};

fn main() -> std::io::Result<()> {
    let page = sample();
    match std::env::args().nth(1) {
        Some(file) => std::fs::write(file, page.html()),
        None => {
            print!("{}", page.text());
            Ok(())
        }
    }
}

fn sample() -> Page {
    let headline = |label: &str, value: &str, note: &str| Headline {
        label: label.to_string(),
        value: value.to_string(),
        note: note.to_string(),
    };
    Page {
        title: "A link that does not exist: sample page".to_string(),
        subtitle: "all numbers from formulas, no machine involved".to_string(),
        headlines: vec![
            headline("half round trip, 8 B", "1.92 µs", "floor 1.80 µs, p99 2.4 µs"),
            headline("throughput, 64 KiB", "5.61 GB/s", "94 % of a copy"),
            headline("half of that at", "3.2 KiB", "n½"),
            headline("lost", "0", "of 12,000,000 datagrams"),
        ],
        verdict: "The link is limited by the copy at the receiver from 16 KiB on; below, by the \
                  cost of one operation."
            .to_string(),
        sections: vec![curves(), steps(), tables(), maps()],
        warnings: vec![
            "This machine was busy: other programs took 143 % of a core (rustc 120 %).".to_string(),
        ],
    }
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_string(), unit: unit.to_string(), scale }
}

fn curve(label: &str, style: Style, points: Vec<(f64, f64)>) -> Curve {
    let band = match style {
        Style::Line => points.iter().map(|&(_, y)| (y * 0.85, y * 1.2)).collect(),
        _ => Vec::new(),
    };
    Curve { label: label.to_string(), style, points, band }
}

fn sizes() -> impl Iterator<Item = f64> + Clone {
    (3..=24).map(|power| f64::from(1_u32 << power))
}

fn curves() -> Section {
    let rate = |base: f64, top: f64| {
        sizes().map(|size| (size, size / (base + size / top))).collect::<Vec<_>>()
    };
    let time = |base: f64, top: f64| sizes().map(|size| (size, base + size / top)).collect();
    let mut gapped = rate(9.0, 1100.0);
    gapped[9].1 = f64::NAN;
    let through = Plot {
        title: "Throughput".to_string(),
        x: axis("block size", "B", Scale::Logarithmic),
        y: axis("throughput", "MB/s", Scale::Logarithmic),
        curves: vec![
            curve("put", Style::Line, rate(1.9, 5600.0)),
            curve("UDP, with a gap", Style::Line, gapped),
            curve("copy (floor)", Style::Dashed, rate(0.05, 6000.0)),
        ],
        marks: vec![
            Mark { at: (65536.0, 81.0), text: "published 1998: 81 MB/s".to_string() },
            Mark { at: (65536.0, 75.0), text: "published 1999: 75 MB/s".to_string() },
        ],
    };
    let latency = Plot {
        title: "Latency".to_string(),
        x: axis("block size", "B", Scale::Logarithmic),
        y: axis("half round trip", "us", Scale::Logarithmic),
        curves: (1..=8_u32)
            .map(|n| curve(&format!("{n} nodes"), Style::Line, time(1.5 * f64::from(n), 900.0)))
            .map(|curve| Curve { band: Vec::new(), ..curve })
            .collect(),
        marks: Vec::new(),
    };
    let text = "Sizes by NetPIPE's schedule; bands from the lowest to the highest of 5 rounds.";
    Section {
        title: "Curves".to_string(),
        text: text.to_string(),
        blocks: vec![Block::Plot(through), Block::Plot(latency)],
        ..Section::default()
    }
}

fn steps() -> Section {
    let bell = |x: f64| (-(x - 30.0).powi(2) / 60.0).exp() * 1e5 + 40.0 / (1.0 + x);
    let histogram = Plot {
        title: "Latency, histogram".to_string(),
        x: axis("latency", "us", Scale::Linear),
        y: axis("messages", "", Scale::Logarithmic),
        curves: vec![curve(
            "load 0.5",
            Style::Steps,
            (0..100).map(|x| (f64::from(x), bell(f64::from(x)).floor())).collect(),
        )],
        marks: vec![Mark { at: (53.0, 12.0), text: "p99.9".to_string() }],
    };
    let wave = |n: u32| f64::from((n * 7919) % 101) / 101.0;
    let scatter = Plot {
        title: "Accepted by node".to_string(),
        x: axis("node", "", Scale::Linear),
        y: axis("accepted", "MB/s", Scale::Linear),
        curves: vec![
            curve("measured", Style::Points, (0..64).map(|n| (n.into(), 80. + wave(n))).collect()),
            curve("fair share", Style::Dashed, vec![(0.0, 81.0), (63.0, 81.0)]),
        ],
        marks: Vec::new(),
    };
    Section {
        title: "Steps, points, nothing".to_string(),
        text: String::new(),
        blocks: vec![
            Block::Plot(histogram),
            Block::Plot(scatter),
            Block::Plot(Plot { title: "An empty plot".to_string(), ..Plot::default() }),
        ],
        ..Section::default()
    }
}

fn tables() -> Section {
    let row = |what: &str, paper: &str, model: &str, end: Cell| {
        let number = |text: &str| Cell::Number(text.to_string());
        vec![Cell::Text(what.to_string()), number(paper), number(model), end]
    };
    let table = Table {
        title: "Facts".to_string(),
        columns: ["fact", "paper", "model", "holds"].map(str::to_string).to_vec(),
        rows: vec![
            row("one-way latency, 64 B [µs]", "2.8", "2.74", Cell::Good("-2.1 %".into())),
            row("throughput beyond 512 B [MB/s]", "34", "44.9", Cell::Bad("+32 %".into())),
            row(
                "a long line that says in words what was expected and did not come out, at length",
                "1",
                "1,000",
                Cell::Text("not compared".into()),
            ),
        ],
    };
    Section {
        title: "Tables".to_string(),
        text: "Numbers stand on the right, their headings too.".to_string(),
        blocks: vec![Block::Table(table)],
        ..Section::default()
    }
}

fn maps() -> Section {
    let grid = |n: u32| -> HeatMap {
        let value = |x: u32, y: u32| f64::from((x * 3 + y * 5) % (n + 3)) / f64::from(n + 2);
        HeatMap {
            title: format!("Load of links, {n} x {n}"),
            unit: "of the link".to_string(),
            columns: (0..n).map(|x| x.to_string()).collect(),
            rows: (0..n)
                .map(|y| (y.to_string(), (0..n).map(|x| value(x, y)).collect()))
                .map(|(name, mut values): (String, Vec<f64>)| {
                    values[1] = f64::NAN;
                    (name, values)
                })
                .collect(),
        }
    };
    Section {
        title: "Heat maps".to_string(),
        text: String::new(),
        blocks: [8, 24, 64].map(grid).map(Block::HeatMap).to_vec(),
        ..Section::default()
    }
}
