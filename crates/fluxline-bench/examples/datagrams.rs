//! Raw datagrams without the rest of the benchmark: both ends in one process, or in two.
//!
//! demonstrates: InProcess or Near -> sweep and lossfree -> Experiment.
//!
//!     cargo run --release -p fluxline-bench --example datagrams -- 127.0.0.1 [full]
//!
//! `serve ADDRESS:PORT` is the far side of `connect ADDRESS:PORT [full|past]`; the key is empty:
//! use it where nobody else is. `past` tries AF_XDP at the receiver alone.

use fluxline_bench::Stop;
use fluxline_bench::datagrams::ends::{Ends, InProcess, Remote};
use fluxline_bench::datagrams::setting::{Extent, PAST};
use fluxline_bench::datagrams::{lossfree, sweep};
use fluxline_bench::real::{Link, Near, NearConfig, Server, Until};
use fluxline_bench::result::Experiment;
use fluxline_core::fabric::Reliability;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut extent = if words.contains(&"full") { Extent::full() } else { Extent::quick() };
    if words.contains(&"past") {
        extent.paths = vec![PAST];
    }
    match words[..] {
        ["serve", address] => {
            Server::bind(address.parse()?, "")?.serve(
                Until::FirstEnds,
                &Stop::default(),
                &|_| (),
            )?;
            Ok(())
        }
        ["connect", address, ..] => {
            let mut near = connect(address)?;
            measure(&mut Remote::new(&mut near)?, &extent)
        }
        [address, ..] => measure(&mut InProcess::new(address.parse()?), &extent),
        [] => Err("usage: datagrams ADDRESS | serve ADDRESS:PORT | connect ADDRESS:PORT".into()),
    }
}

fn connect(address: &str) -> Result<Near, Failure> {
    let control: std::net::SocketAddr = address.parse()?;
    let url = format!("udp://{}", control.ip());
    Ok(Near::connect(NearConfig {
        link: Link::parse(&url)?,
        url,
        control,
        key: String::new(),
        cores: [fluxline::pin::allowed_cores().first().copied(), None],
        progress: Box::new(|done, all, what| eprintln!("{done}/{all} {what}")),
        stop: Stop::default(),
        sender: None,
        reliability: Reliability::Reliable,
    })?)
}

fn measure(ends: &mut dyn Ends, extent: &Extent) -> Result<(), Failure> {
    let mut swept = Experiment::new(sweep::NAME, sweep::ABOUT);
    sweep::run(ends, extent, &mut swept)?;
    let mut searched = Experiment::new(lossfree::NAME, lossfree::ABOUT);
    lossfree::run(ends, extent, &mut searched)?;
    for experiment in [swept, searched] {
        println!("{}: {}", experiment.name, experiment.about);
        for fact in &experiment.facts {
            println!("  {}: {:.2?} {}", fact.label, fact.samples, fact.unit);
            if let Some(beside) = &fact.beside {
                println!("      {}: {:.2} {}", beside.label, beside.value(), fact.unit);
            }
        }
        println!("{}", experiment.limit);
    }
    Ok(())
}
