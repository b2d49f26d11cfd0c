//! Demonstrates: how long puts take on a simulated SCI ring, by stores and by the DMA engine; the
//! default of `crossover` is read off this table.
//!
//! `cargo run --release -p fluxline-sim --example put_times -- "sim:sci?nodes=2&model=lc2"`

use std::error::Error;

use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Name, Reliability, Rights, Target, Work,
};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::{Cluster, Node};

/// Polls both until the first has a completion.
fn next(cluster: &Cluster, first: &mut Node, second: &mut Node) -> (Moment, Completion) {
    let mut now = cluster.now();
    loop {
        if let Some(what) = first.poll(now) {
            return (now, what);
        }
        while second.poll(now).is_some() {}
        now = first.deadline().map_or(now, |at| at.max(now + Span::from_ns(1)));
    }
}

/// Time from posting until the last byte is in the peer's memory, and until its completion \[ns\].
fn times(url: &str, bytes: usize) -> Result<(u64, u64), Box<dyn Error>> {
    let cluster = Cluster::open(url)?;
    let (mut first, mut second) = (cluster.node(0), cluster.node(1));
    let region = second.register(bytes as u64)?;
    let grant = Grant { rights: Rights::PUT, key: Key(1) };
    second.export(region, Name::parse("samples")?, grant)?;
    let endpoint = first.connect("1", Reliability::Reliable)?;
    next(&cluster, &mut first, &mut second);
    let remote = first.import(endpoint, Name::parse("samples")?, Key(1))?;
    next(&cluster, &mut first, &mut second);
    let memory = second.memory(region)?;
    let began = cluster.now();
    first.post(
        endpoint,
        1,
        Work::Put {
            from: Local::Bytes(&vec![1; bytes]),
            to: Target { remote, offset: 0 },
            notify: None,
            complete_at: Some(Level::Placed),
        },
    )?;
    let (mut last, mut now, mut placed) = ([0], began, None);
    loop {
        let completed = first.poll(now).is_some();
        memory.read(bytes as u64 - 1, &mut last)?;
        placed = placed.or((last[0] == 1).then_some(now));
        if completed {
            let placed = placed.map_or(0, |at| at.since(began).as_ns());
            return Ok((placed, now.since(began).as_ns()));
        }
        now = first.deadline().map_or(now, |at| at.max(now + Span::from_ns(1)));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("sim:sci?nodes=2&model=lc2".into());
    println!("{url}: from posting until in memory, and until told [us]");
    println!("{:>8}  {:>18}  {:>18}", "byte", "by stores", "by engine");
    for bytes in [4, 8, 64, 128, 256, 512, 1024, 2048, 4096, 16_384, 65_536] {
        let stores = times(&format!("{url}&crossover=16777216"), bytes)?;
        let engine = times(&format!("{url}&crossover=0"), bytes)?;
        let text = |of: (u64, u64)| format!("{:8.2}  {:8.2}", of.0 as f64 / 1e3, of.1 as f64 / 1e3);
        println!("{bytes:>8}  {:>18}  {:>18}", text(stores), text(engine));
    }
    Ok(())
}
