//! `fluxline topo` as a black box: tables, JSON, HTML and SVG, and what is refused.

use crate::support::{call, call_json, refused, text};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const INPUT: i32 = 3;

#[test]
fn a_map_is_written_as_tables_html_svg_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let (html, svg) = (folder.path().join("map.html"), folder.path().join("map.svg"));
    let url = "sim:atoll?torus=4x4&fault=cut:5-6@20us,mend:5-6@60us";
    let more = ["--us", "100", "--steps", "10", "--route", "4:11", "--at", "50"];
    let files = ["--html", text(&html), "--svg", text(&svg)];
    let output = call(&[&["topo", url][..], &more, &files].concat());
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && said.contains("From node 4 to node 11"), "{said}");
    let html = std::fs::read_to_string(html).expect("a page");
    assert!(html.contains("type=\"range\"") && html.contains("10.0 to 20.0 us"));
    // At 50 us the cable is cut, in both directions.
    let svg = std::fs::read_to_string(svg).expect("a drawing");
    let dead = svg.matches("<g class=\"link m0 dead\">").count();
    assert_eq!(dead, 2, "{svg}");
    let map = call_json(&[&["topo", url][..], &more[..6]].concat())["map"].clone();
    let list = |name: &str| map[name].as_array().expect(name).clone();
    assert_eq!((list("nodes").len(), list("links").len(), list("intervals").len()), (16, 64, 10));
    assert_eq!(map["intervals"][4]["dead_links"].as_array().map(Vec::len), Some(2));
    assert_eq!(map["intervals"][7]["dead_links"].as_array().map(Vec::len), Some(0));
    assert_eq!(map["route"]["pair"], serde_json::json!({ "from": 4, "to": 11 }));
}

#[test]
fn a_wrong_network_or_option_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.toml");
    std::fs::write(&file, "[network]\nkind = \"atol\"\n").expect("written");
    for (arguments, status, says) in [
        (vec!["sim:atoll?grid=4"], INPUT, "COLUMNSxROWS"),
        (vec!["sim:myrinet2000"], INPUT, "is not a simulated link"),
        (vec![text(&file)], INPUT, "s.toml:2:"),
        (vec!["no/such/file.toml"], INPUT, "no/such/file.toml cannot be read"),
        (vec!["sim:atoll", "--route", "3:99"], FAILED, "nodes from 0 to 15"),
        (vec!["sim:atoll", "--load", "7"], FAILED, "the load is 7"),
        (vec!["sim:atoll", "--steps", "0"], FAILED, "write 1 to 1000"),
        (vec!["sim:atoll", "--svg", "no/such/map.svg"], FAILED, "cannot be written"),
    ] {
        let message = refused(&call(&[&["topo"][..], &arguments].concat()), status);
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
    let output = call(&["topo", "sim:atoll", "--route", "3-9"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(USAGE), "{said}");
    assert!(said.contains("two node numbers, such as 3:12"), "{said}");
}
