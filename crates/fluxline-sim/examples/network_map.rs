//! The map of a network as an HTML page, from a program: the same as `fluxline topo`.
//!
//! Run: `cargo run -p fluxline-sim --example network_map -- 'sim:atoll?torus=4x4' map.html`

use std::error::Error;

use fluxline_sim::scenario::Scenario;
use fluxline_sim::topo::{Options, Pair, page, survey};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "sim:atoll?torus=4x4".to_owned());
    let scenario = Scenario::of_url(&url)?;
    let last = scenario.network.node_count() as u32 - 1;
    let route = Some(Pair { from: 0, to: last });
    let survey = survey(&scenario, &Options { route, ..Options::of(&scenario) })?;
    println!("{}", survey.proof.text);
    let links = survey.route.as_ref().map_or(0, |route| route.links.len());
    println!("The route from node 0 to node {last} has {links} links.");
    if let Some(file) = arguments.next() {
        std::fs::write(&file, page(&url, &survey).html())?;
        println!("map: {file}");
    }
    Ok(())
}
