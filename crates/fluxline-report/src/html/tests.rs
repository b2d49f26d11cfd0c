//! Properties of every page: text stays escaped, nothing is fetched, no number is lost.

use crate::network::{Link, Network, Node, Point, State};
use crate::page::{
    Axis, Block, Cell, Curve, Headline, HeatMap, Mark, Page, Plot, Scale, Section, Style, Table,
};

const HOSTILE: &str = "</script><img src=x onerror=\"alert('1')\"><!-- & \u{2028}";

fn hostile_network() -> Network {
    let text = || HOSTILE.to_string();
    let node = |x: f64| Node { label: text(), at: Point { x, y: 0.0 }, is_switch: x > 0.0 };
    let link = |from: usize, to: usize| Link { label: text(), from, to, lane: 0.5, wraps: None };
    let state = |value: f64| State {
        label: text(),
        note: text(),
        values: vec![value, f64::NAN],
        dead_links: vec![1],
        dead_nodes: vec![0],
        circle: vec![0],
    };
    Network {
        title: text(),
        unit: text(),
        nodes: vec![node(0.0), node(1.0)],
        // The last link has no nodes.
        links: vec![link(0, 1), link(1, 0), link(7, 8)],
        path: vec![0, 9],
        states: vec![state(4.0), state(2.0)],
    }
}

fn hostile_page() -> Page {
    let text = || HOSTILE.to_string();
    let axis = || Axis { label: text(), unit: text(), scale: Scale::Linear };
    let plot = Plot {
        title: text(),
        x: axis(),
        y: axis(),
        curves: vec![Curve {
            label: text(),
            points: vec![(1.0, 2.0)],
            band: vec![(1.0, 3.0)],
            style: Style::Dashed,
        }],
        marks: vec![Mark { at: (1.0, 2.0), text: text() }],
    };
    let cells = vec![Cell::Text(text()), Cell::Number(text()), Cell::Good(text())];
    let table = Table {
        title: text(),
        columns: vec![text(), text(), text(), text()],
        rows: vec![cells, vec![Cell::Bad(text())]],
    };
    let map = HeatMap {
        title: text(),
        unit: text(),
        columns: vec![text()],
        rows: vec![(text(), vec![1.0, f64::NAN])],
    };
    let blocks = vec![
        Block::Plot(plot),
        Block::Table(table),
        Block::HeatMap(map),
        Block::Network(hostile_network()),
    ];
    let section = Section { title: text(), text: text(), blocks, notes: vec![text()] };
    Page {
        title: text(),
        subtitle: text(),
        warnings: vec![text()],
        headlines: vec![Headline { label: text(), value: text(), note: text() }],
        verdict: text(),
        sections: vec![section.clone(), section.clone(), section],
    }
}

/// The JSON that the page's script reads.
fn data(html: &str) -> serde_json::Value {
    let start = "<script type=\"application/json\" id=\"plots\">";
    let text = html.split(start).nth(1).expect("the data");
    let text = text.split("</script>").next().expect("its end");
    serde_json::from_str(text).expect("JSON")
}

fn page_of(plot: Plot) -> String {
    page_with(Block::Plot(plot))
}

fn page_with(block: Block) -> String {
    let section = Section { blocks: vec![block], ..Section::default() };
    Page { sections: vec![section], ..Page::default() }.html()
}

#[test]
fn hostile_text_stays_text_wherever_it_stands() {
    let html = hostile_page().html();
    assert!(!html.contains("<img"), "an element got out");
    assert!(!html.contains("onerror=\"alert"), "an attribute got out");
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(html.matches("</script>").count(), 3);
    assert!(!html.contains('\u{2028}') || !data_text(&html).contains('\u{2028}'));
    assert_eq!(data(&html)[0]["curves"][0]["label"], HOSTILE, "and reaches the script whole");
    assert!(html.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;"));
}

fn data_text(html: &str) -> String {
    data(html).to_string()[..0].to_string() + html.split("id=\"plots\">").nth(1).expect("data")
}

#[test]
fn a_page_fetches_nothing() {
    let html = hostile_page().html();
    for fetch in ["<link", "@import", "url(", "<iframe", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!html.contains(fetch), "{fetch}");
    }
    let sources = html.matches(" src=").count() - html.matches("img src=").count();
    assert_eq!(sources, 0, "no element has a source");
}

#[test]
fn gaps_and_numbers_without_a_place_become_null_or_nothing() {
    let x = Axis { scale: Scale::Logarithmic, ..Axis::default() };
    let points = vec![(4.0, 2.0), (-1.0, 5.0), (1.0, f64::NAN), (2.0, f64::INFINITY)];
    let curve = Curve { points, band: vec![(1.0, f64::NAN)], ..Curve::default() };
    let marks = vec![Mark { at: (0.0, 1.0), text: "nowhere".to_string() }];
    let html = page_of(Plot { x, curves: vec![curve], marks, ..Plot::default() });
    let plot = &data(&html)[0];
    assert_eq!(plot["curves"][0]["x"], serde_json::json!([1.0, 2.0, 4.0]));
    assert_eq!(plot["curves"][0]["y"], serde_json::json!([null, null, 2.0]));
    assert_eq!(plot["curves"][0]["low"], serde_json::json!([null, null, 1.0]));
    assert_eq!(plot["curves"][0]["high"], serde_json::json!([null, null, null]));
    assert_eq!(plot["marks"], serde_json::json!([]));
}

#[test]
fn a_plot_without_points_says_so_and_does_not_reach_the_script() {
    let nothing = Curve { points: vec![(1.0, f64::NAN)], ..Curve::default() };
    for curves in [vec![], vec![Curve::default()], vec![nothing]] {
        let html = page_of(Plot { curves, ..Plot::default() });
        assert!(html.contains("Nothing to plot."));
        assert_eq!(data(&html), serde_json::json!([]));
    }
}

#[test]
fn every_number_of_a_plot_is_also_in_its_table() {
    let curve = |label: &str, y: f64| Curve {
        label: label.to_string(),
        points: vec![(64.0, y)],
        band: vec![(y - 0.5, y + 0.5)],
        ..Curve::default()
    };
    let curves = vec![curve("udp", 17.25), curve("shm", 3.125)];
    let marks = vec![Mark { at: (8.0, 9.75), text: "published".to_string() }];
    let html = page_of(Plot { curves, marks, ..Plot::default() });
    let table = html.split("<details>").nth(1).expect("a table");
    for number in [">64<", ">17.25<", ">16.75<", ">17.75<", ">3.125<", "9.75: published"] {
        assert!(table.contains(number), "{number}");
    }
}

#[test]
fn more_curves_than_colours_are_kept_in_the_table() {
    let curve = |n: usize| Curve {
        label: format!("node {n}"),
        points: vec![(1.0, n as f64)],
        ..Curve::default()
    };
    let html = page_of(Plot { curves: (0..11).map(curve).collect(), ..Plot::default() });
    assert_eq!(data(&html)[0]["curves"].as_array().expect("curves").len(), 8);
    assert!(html.contains("3 more curves are only in the table."));
    assert!(html.contains("node 10"));
}

#[test]
fn good_and_bad_differ_by_a_sign_not_only_by_colour() {
    let html = hostile_page().html();
    assert!(html.contains("<span>✓ ") && html.contains("<span>✗ "));
}

#[test]
fn a_drawing_has_its_last_state_and_the_script_has_all() {
    let html = page_with(Block::Network(hostile_network()));
    let start = "<script type=\"application/json\" id=\"networks\">";
    let text = html.split(start).nth(1).expect("the data").split("</script>").next();
    let data: serde_json::Value = serde_json::from_str(text.expect("its end")).expect("JSON");
    assert_eq!(data[0]["states"][0]["values"], serde_json::json!([4.0, null]));
    assert_eq!((&data[0]["high"], &data[0]["unit"]), (&4.0.into(), &HOSTILE.into()));
    assert_eq!(html.matches("<g class=\"link").count(), 2, "a link without nodes is not drawn");
    // Half of the largest number of all states.
    assert!(html.contains("<g class=\"link m8 path circle\">"), "{html}");
    assert!(html.contains("<g class=\"link none dead\">"));
    assert!(html.contains("<g class=\"node dead end\">"));
    assert!(html.contains("type=\"range\" min=\"0\" max=\"1\" value=\"1\""));
}

#[test]
fn a_drawing_is_a_file_of_its_own_without_variables_or_scripts() {
    let svg = hostile_network().svg(Some(0));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains("var(") && !svg.contains("<script") && !svg.contains("<img"));
    assert!(svg.contains("m15 path circle") && !svg.contains("NaN"));
    let empty = page_with(Block::Network(Network::default()));
    assert!(empty.contains("Nothing to show."));
    assert!(!Network::default().svg(None).contains("inf"));
}

#[test]
fn the_text_of_a_drawing_is_its_last_state() {
    let network = Network { title: "Load".into(), ..hostile_network() };
    let section = Section { blocks: vec![Block::Network(network)], ..Section::default() };
    let text = Page { sections: vec![section], ..Page::default() }.text();
    assert!(text.contains("at most 2 ") && !text.contains("at most 4 "), "{text}");
}

#[test]
fn equal_pages_have_equal_bytes() {
    assert_eq!(hostile_page().html(), hostile_page().html());
}

#[test]
fn a_legend_has_names_alone_before_the_pointer_is_there() {
    // Without these rules it reads `load: –`.
    for rule in [
        ".plot:not(:hover) .u-value { visibility: hidden; }",
        ".plot:not(:hover) .u-legend.u-live th::after { content: \"\"; }",
    ] {
        assert!(super::STYLE.contains(rule), "{rule}");
    }
}

#[test]
fn an_empty_page_is_a_page() {
    let html = Page::default().html();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
}

mod colours {
    //! The colours of both themes, computed: contrast, and distance for colour-blind eyes.

    use super::super::STYLE;

    type Rgb = [f64; 3];

    /// Linear sRGB as seen by eyes without one kind of cone. Source: Machado, Oliveira, Fernandes,
    /// "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity
    /// 1: protanopia and deuteranopia, after eyes with all three.
    const EYES: [[Rgb; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ];

    /// The value of a variable in the light and in the dark theme.
    fn pair(name: &str) -> [Rgb; 2] {
        let values: Vec<Rgb> = STYLE
            .split(&format!("--{name}: #"))
            .skip(1)
            .map(|rest| linear(&rest[..6]))
            .take(2)
            .collect();
        values.try_into().unwrap_or_else(|_| panic!("{name} is not in both themes"))
    }

    fn linear(hex: &str) -> Rgb {
        [0, 2, 4].map(|at| {
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).expect("#rrggbb");
            let part = f64::from(byte) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let light = |[r, g, b]: Rgb| 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    /// CIE L*a*b*, D65.
    fn lab(rgb: Rgb) -> Rgb {
        let bend = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let [r, g, b] = rgb.map(|part| part.clamp(0.0, 1.0));
        let x = bend((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let y = bend(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = bend((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn text_and_curves_stand_out_from_their_ground_in_both_themes() {
        let text = ["ink", "soft", "accent", "good", "bad"];
        let curves = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
        // WCAG 2.2: 4.5 for text (1.4.3), 3 for graphics (1.4.11).
        let wanted = text.map(|name| (name, 4.5)).into_iter().chain(curves.map(|c| (c, 3.0)));
        for (name, least) in wanted {
            for theme in 0..2 {
                let found = contrast(pair(name)[theme], pair("ground")[theme]);
                assert!(found >= least, "{name}, theme {theme}: {found:.2}");
            }
        }
        for (ink, ground) in [("good", "good-ground"), ("bad", "bad-ground"), ("soft", "raised")] {
            for theme in 0..2 {
                let found = contrast(pair(ink)[theme], pair(ground)[theme]);
                assert!(found >= 4.5, "{ink} on {ground}, theme {theme}: {found:.2}");
            }
        }
    }

    #[test]
    fn no_two_curves_look_alike_to_colour_blind_eyes() {
        for theme in 0..2 {
            let colours: Vec<Rgb> = (1..=8).map(|n| pair(&format!("c{n}"))[theme]).collect();
            for eye in EYES {
                let seen = |rgb: &Rgb| {
                    lab(eye.map(|row| row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]))
                };
                for (at, a) in colours.iter().enumerate() {
                    for b in &colours[..at] {
                        let (a, b) = (seen(a), seen(b));
                        let apart = (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt();
                        // 2.3 is just noticeable; thin lines need several times that.
                        assert!(apart > 20.0, "theme {theme}, curve {}: {apart:.1}", at + 1);
                    }
                }
            }
        }
    }
}
