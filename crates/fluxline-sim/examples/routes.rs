//! Compares the routes of all algorithms on grids and tori: their lengths, the load of the most
//! used channel, their virtual layers, and the proof that they cannot deadlock, or a cycle.
//! Run: `cargo run --release -p fluxline-sim --example routes -- 8x8 4x4x4`; with no argument, it
//! compares tori of 4x4, 8x8 and 4x4x4 nodes.

use fluxline_sim::routes::{self, Dependencies, Graph, Root, Routes, Shape};

fn main() -> Result<(), String> {
    let mut sizes: Vec<String> = std::env::args().skip(1).collect();
    if sizes.is_empty() {
        sizes = ["4x4", "8x8", "4x4x4"].map(String::from).to_vec();
    }
    for size in sizes {
        let side = |text: &str| text.parse().map_err(|_| format!("{size}: write sides as 8x8"));
        let sides = size.split('x').map(side).collect::<Result<Vec<u32>, String>>()?;
        let shape = Shape { sides, is_torus: true };
        let graph = shape.graph()?;
        println!("torus {size}");
        print("dimension", &graph, &shape.routes(&graph));
        print("shortest", &graph, &routes::shortest(&graph));
        print("updown", &graph, &routes::updown(&graph, Root::Central));
        for layers in [1, 2, 4] {
            print(&format!("nue {layers}"), &graph, &routes::nue(&graph, layers));
        }
        print("layers", &graph, &routes::layers(&graph, 8)?);
    }
    Ok(())
}

fn print(name: &str, graph: &Graph, routes: &Routes) {
    let of = routes.summary(graph);
    let proof = match Dependencies::of(graph, routes).map(|of| of.cycle()) {
        Ok(None) => "free of deadlock".to_owned(),
        Ok(Some(cycle)) => format!("a cycle of {} channels", cycle.channels.len()),
        Err(error) => error,
    };
    println!(
        "{name:10} mean {:6.3} links, longest {:3}, most loaded channel {:6} paths, {} layers, \
         {proof}",
        of.mean, of.longest, of.load_max, of.layers
    );
}
