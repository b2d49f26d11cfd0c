//! Demonstrates: one program, written against `Fabric`, in virtual time on a simulated SCI ring and
//! on plain memory.
//!
//! ```text
//!   nodes 1..n: put a record with notify, count it by fetch_add ──▶ node 0: owns both regions
//! ```
//!
//! `cargo run --release -p fluxline-sim --example remote_write -- "sim:sci?nodes=4&model=lc3"`

use std::error::Error;

use fluxline_core::fabric::memory::Lab;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Operation, Reliability,
    RemoteId, Rights, Target, Work,
};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::{Cluster, Program, Step};

const KEY: Key = Key(0x5EED);
const RECORD_BYTES: u64 = 1024;
const ROUNDS: u64 = 4;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// Owns the records and the counter; is done when all expected records have arrived.
struct Owner {
    expected: u64,
    seen: u64,
}

impl Owner {
    fn begin(fabric: &mut dyn Fabric, writers: u64) -> Result<Owner, Box<dyn Error>> {
        for (called, bytes) in [("records", writers * RECORD_BYTES), ("counter", 8)] {
            let region = fabric.register(bytes)?;
            fabric.export(region, name(called), Grant { rights: Rights::ALL, key: KEY })?;
        }
        Ok(Owner { expected: writers * ROUNDS, seen: 0 })
    }

    fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Step {
        while let Some(what) = fabric.poll(now) {
            if let Completion::Notified { value, bytes, .. } = what {
                self.seen += 1;
                println!("{:>9} ns  node 0: {bytes} byte of node {value}", now.as_ns());
            }
        }
        if self.seen == self.expected { Step::Done } else { Step::Wait }
    }
}

/// Writes its record some times; each time it then counts.
struct Writer {
    number: u64,
    endpoint: EndpointId,
    imported: Vec<RemoteId>,
    rounds: u64,
    posted: Moment,
}

impl Writer {
    fn begin(fabric: &mut dyn Fabric, owner: &str, number: u64) -> Result<Writer, Box<dyn Error>> {
        let endpoint = fabric.connect(owner, Reliability::Reliable)?;
        let (imported, posted) = (Vec::new(), Moment::default());
        Ok(Writer { number, endpoint, imported, rounds: 0, posted })
    }

    fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Step {
        while let Some(what) = fabric.poll(now) {
            match what {
                Completion::Connected { .. } => {
                    for called in ["records", "counter"] {
                        fabric.import(self.endpoint, name(called), KEY).expect("connected");
                    }
                }
                Completion::Imported { remote, status, .. } => {
                    assert!(status.is_done(), "{status}");
                    self.imported.push(remote);
                    if self.imported.len() == 2 {
                        self.write(fabric, now);
                    }
                }
                Completion::Done { operation, status, value, .. } => {
                    assert!(status.is_done(), "{status}");
                    let (took, number) = (now.since(self.posted), self.number);
                    println!("{:>9} ns  node {number}: {operation:?} in {took}", now.as_ns());
                    self.posted = now;
                    if operation == Operation::FetchAdd {
                        println!("{:>9} ns  node {number}: it was {value}", now.as_ns());
                        self.rounds += 1;
                        self.write(fabric, now);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        if self.rounds == ROUNDS { Step::Done } else { Step::Wait }
    }

    fn write(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        if self.rounds == ROUNDS {
            return;
        }
        self.posted = now;
        let record = [self.number as u8; RECORD_BYTES as usize];
        let to = Target { remote: self.imported[0], offset: (self.number - 1) * RECORD_BYTES };
        let put = Work::Put {
            from: Local::Bytes(&record),
            to,
            notify: Some(self.number as u32),
            complete_at: Some(Level::Placed),
        };
        let count = Work::FetchAdd { at: Target { remote: self.imported[1], offset: 0 }, add: 1 };
        fabric.post(self.endpoint, 1, put).expect("room");
        fabric.post(self.endpoint, 2, count).expect("room");
    }
}

/// In virtual time: the cluster's agenda says what comes next.
fn simulated(url: &str) -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::open(url)?;
    let mut nodes: Vec<_> = (0..cluster.nodes()).map(|place| cluster.node(place)).collect();
    let (first, others) = nodes.split_first_mut().expect("at least two nodes");
    let mut owner = Owner::begin(first, others.len() as u64)?;
    let mut owner = |fabric: &mut dyn Fabric, now| owner.step(fabric, now);
    let mut writers = Vec::new();
    for (number, node) in (1..).zip(others.iter_mut()) {
        let mut writer = Writer::begin(node, "0", number)?;
        writers.push(move |fabric: &mut dyn Fabric, now| writer.step(fabric, now));
    }
    let mut programs = vec![Program { fabric: first, step: &mut owner }];
    for (fabric, program) in others.iter_mut().zip(&mut writers) {
        programs.push(Program { fabric, step: program });
    }
    let end = cluster.drive(&mut programs)?;
    println!("{url}: done after {} ns; fingerprint {}", end.as_ns(), cluster.fingerprint());
    Ok(())
}

/// The same programs on plain memory; the caller sets the time.
fn in_memory() -> Result<(), Box<dyn Error>> {
    let lab = Lab::new();
    let (mut first, mut second) = (lab.node("0")?, lab.node("1")?);
    let mut owner = Owner::begin(&mut first, 1)?;
    let mut writer = Writer::begin(&mut second, "0", 1)?;
    let mut now = Moment::default();
    loop {
        now = now + Span::from_ns(1);
        let steps = [writer.step(&mut second, now), owner.step(&mut first, now)];
        if steps == [Step::Done; 2] {
            break;
        }
    }
    println!("memory: done");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    simulated(url.as_deref().unwrap_or("sim:sci?nodes=3&model=plain"))?;
    in_memory()
}
