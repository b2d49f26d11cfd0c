//! Figures of a network whose law is known, curves from files, and the table.

use super::*;
use crate::environment::Plan;
use crate::result::{Experiment, Point, Series, axis};

/// A network of 5 us and 200 MB/s.
fn model() -> Network {
    let sizes = (0..=23).map(|power| f64::from(1 << power));
    let trips = sizes.map(|bytes| Trip { bytes, seconds: 5e-6 + bytes / 200e6 }).collect();
    Network { name: "model".into(), origin: "computed".into(), is_coarse: false, trips }
}

#[test]
fn the_figures_of_a_straight_line_are_its_parameters() {
    let figures = model().figures().expect("it has times");
    assert!((figures.latency_us.expect("known") - 5.04).abs() < 1e-9);
    assert!((figures.asymptotic_gbps.expect("known") - 1.6).abs() < 1e-9);
    // The largest size reaches all but 0.012 % of the asymptote: n1/2 is 1000 B.
    assert!((figures.half_bytes / 1000.0 - 1.0).abs() < 0.03, "{figures:?}");
    assert!((figures.largest_gbps / 1.6 - 1.0).abs() < 0.001, "{figures:?}");
    let none = Network { trips: Vec::new(), ..model() };
    assert_eq!(none.figures(), None);
}

#[test]
fn a_report_gives_its_best_means_and_one_without_ping_pong_gives_nothing() {
    let mut report = crate::run::begin("sim:sci", &Plan::quick(), json!({ "virtual_ns": 7 }));
    assert_eq!(Network::of_report(&report), None);
    let mut pingpong = Experiment::new("pingpong", "");
    let points =
        vec![Point { x: 8.0, samples: vec![3.0, 1.0, 2.0] }, Point { x: 16.0, samples: vec![4.0] }];
    pingpong.series.push(Series::new(BEST_MEAN, axis("message", "B"), axis("t", "us"), points));
    report.experiments.push(pingpong);
    let network = Network::of_report(&report).expect("it has times");
    assert_eq!(network.origin, "simulated, virtual time");
    assert_eq!(network.trips[0], Trip { bytes: 8.0, seconds: 2e-6 });
    assert_eq!(network.trips[1], Trip { bytes: 16.0, seconds: 4e-6 });
}

#[test]
fn curves_are_read_from_a_table_and_from_netpipes_own_file() {
    let text = "# a comment\nbytes,one,two\n1,0.0,\n1024,8.0,4.0\n4096,16,\n";
    let curves = read_curves("curves.csv", text, &[]).expect("right");
    assert_eq!(curves.len(), 2);
    assert_eq!((curves[0].trips.len(), curves[1].trips.len()), (2, 1));
    assert!((curves[0].trips[0].seconds - 1024.0 * 8.0 / (8.0 * 1_048_576.0)).abs() < 1e-12);
    assert_eq!(curves[0].figures().expect("rates").latency_us, None, "rates are too coarse");
    let one = read_curves("curves.csv", text, &["two"]).expect("right");
    assert_eq!(one.len(), 1);
    let np = "       1 0.227743   0.00003350\n       8 1.8   0.00003400\n";
    let np = read_curves("np.out", np, &[]).expect("right");
    assert!((np[0].figures().expect("times").latency_us.expect("known") - 34.0).abs() < 1e-9);
}

#[test]
fn wrong_curves_are_refused_with_file_and_line() {
    for (text, names, line, says) in [
        ("", &[][..], 1, "the file has no numbers"),
        ("# only\n", &[], 1, "the file has no numbers"),
        ("bytes,a\n8,x\n", &[], 2, "\"x\" is not a number"),
        ("bytes,a\n8,1,2\n", &[], 2, "3 cells instead of 2"),
        ("bytes,a\n8,1\n8,1\n", &[], 3, "ascend"),
        ("bytes,a\n0,1\n", &[], 2, "a message of 0 bytes"),
        ("bytes,a\n8,0\n", &[], 1, "no curve has a rate"),
        ("bytes,a\n8,1\n", &["b"], 1, "\"b\" is not a curve of the file; it has a"),
        ("8 1\n", &[], 1, "not three columns"),
        ("8 1 NaN\n", &[], 1, "not a number"),
    ] {
        let error = read_curves("f.csv", text, names).expect_err(text);
        assert_eq!((error.line, error.to_string().contains(says)), (line, true), "{error}");
    }
}

#[test]
fn the_table_lines_up_and_the_page_has_all_networks() {
    let coarse = Network { name: "a longer name".into(), is_coarse: true, ..model() };
    let networks = [model(), coarse];
    let text = table(&networks).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    let end = |line: &str| line.find("computed").or(line.find("origin")).expect("a column");
    let begin = lines[0].chars().take(end(lines[0])).count();
    for line in &lines[1..] {
        assert_eq!(line.chars().take_while(|of| *of != 'c').count(), begin, "{lines:#?}");
    }
    let html = page(&networks).html();
    assert!(html.contains("a longer name") && html.contains("n1/2"));
    let document = document(&networks);
    assert_eq!(document["networks"][0]["points"].as_array().map(Vec::len), Some(24));
    assert!(document["networks"][1]["latency_us"].is_null());
    // Ten curves are two plots.
    let many = vec![model(); 10];
    let plots =
        page(&many).sections[0].blocks.iter().filter(|of| matches!(of, Block::Plot(_))).count();
    assert_eq!(plots, 4);
}
