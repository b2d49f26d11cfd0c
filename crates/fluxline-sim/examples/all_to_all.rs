//! Measures the cost of a simulated cluster: every node connects to every other one, and puts 64
//! bytes into its memory.
//!
//! `cargo run --release -p fluxline-sim --example all_to_all -- "sim:sci?nodes=64"`
#![allow(clippy::disallowed_methods, reason = "the cost of the simulator is real time")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::Instant;

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Reliability, RemoteId, Rights,
    Target, Work,
};
use fluxline_sim::world::{Cluster, Node, Program, Step};

/// Bytes of a put.
const BYTES: usize = 64;

/// One node's program.
struct Putter {
    index: usize,
    nodes: usize,
    name: Name,
    has_begun: bool,
    /// The endpoints to which it connects, in order.
    own: Vec<EndpointId>,
    imports: BTreeMap<RemoteId, EndpointId>,
    done: usize,
}

impl Putter {
    fn begin(&mut self, fabric: &mut dyn Fabric) -> Result<(), Box<dyn Error>> {
        let region = fabric.register((self.nodes * BYTES) as u64)?;
        let grant = Grant { rights: Rights::PUT, key: Key(1) };
        fabric.export(region, self.name.clone(), grant)?;
        for peer in (0..self.nodes).filter(|&peer| peer != self.index) {
            self.own.push(fabric.connect(&peer.to_string(), Reliability::Reliable)?);
        }
        Ok(())
    }

    fn is_own(&self, endpoint: EndpointId) -> bool {
        self.own.binary_search(&endpoint).is_ok()
    }

    fn follow(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Result<(), Box<dyn Error>> {
        while let Some(completion) = fabric.poll(now) {
            match completion {
                Completion::Connected { endpoint, .. } if self.is_own(endpoint) => {
                    let remote = fabric.import(endpoint, self.name.clone(), Key(1))?;
                    self.imports.insert(remote, endpoint);
                }
                Completion::Imported { remote, .. } => {
                    let to = Target { remote, offset: (self.index * BYTES) as u64 };
                    let (from, complete_at) = (Local::Bytes(&[7; BYTES]), Some(Level::Placed));
                    let put = Work::Put { from, to, notify: None, complete_at };
                    let endpoint = self.imports.get(&remote).ok_or("an import of its own")?;
                    fabric.post(*endpoint, 1, put)?;
                }
                Completion::Done { .. } => self.done += 1,
                Completion::Broken { status, .. } => return Err(format!("{status}").into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Step {
        let begun = if self.has_begun { Ok(()) } else { self.begin(fabric) };
        self.has_begun = true;
        if let Err(error) = begun.and_then(|()| self.follow(fabric, now)) {
            eprintln!("node {}: {error}", self.index);
            return Step::Done;
        }
        if self.done == self.nodes - 1 { Step::Done } else { Step::Wait }
    }
}

/// The largest memory of this process so far \[MB\].
fn peak_mb() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1e3
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("sim:sci?nodes=64".into());
    let start = Instant::now();
    let cluster = Cluster::open(&url)?;
    let nodes = cluster.nodes();
    let name = Name::parse("box")?;
    let putter = |index| Putter {
        index,
        nodes,
        name: name.clone(),
        has_begun: false,
        own: Vec::new(),
        imports: BTreeMap::new(),
        done: 0,
    };
    let mut putters: Vec<Putter> = (0..nodes).map(putter).collect();
    let mut fabrics: Vec<Node> = (0..nodes).map(|index| cluster.node(index)).collect();
    let steps = putters
        .iter_mut()
        .map(|putter| move |fabric: &mut dyn Fabric, now: Moment| putter.step(fabric, now));
    let mut steps: Vec<_> = steps.collect();
    let mut programs: Vec<Program<'_>> =
        fabrics.iter_mut().zip(&mut steps).map(|(fabric, step)| Program { fabric, step }).collect();
    let end = cluster.drive(&mut programs)?;
    drop(programs);
    drop(steps);
    let done: usize = putters.iter().map(|putter| putter.done).sum();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{url}: {done} puts of {} in {:.3} ms of virtual time; {seconds:.2} s, {:.1} us a put, \
         {:.0} MB",
        nodes * (nodes - 1),
        end.as_ns() as f64 / 1e6,
        seconds * 1e6 / done as f64,
        peak_mb()
    );
    Ok(())
}
