//! Benchmarks of links.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use fluxline_bench::environment::{self, Plan, Program, Simulated};
use fluxline_bench::kind::ExperimentKind;
use fluxline_bench::real::{KEY_VARIABLE, Link, Server, Until};
use fluxline_bench::result::Report;
use fluxline_bench::session::Session;
use fluxline_bench::{Error, Stop, host, run};
use fluxline_core::fabric::Fabric;
use fluxline_sim::world::Cluster;
use pyo3::prelude::*;
use serde_json::json;

use crate::fault::{Class, Fault};
use crate::watched::watched;

/// Half of each end's arena on a simulated link \[byte\]: the largest transfer.
const HALF_BYTES: u64 = 10 << 20;

/// The settings of a benchmark.
struct Asked {
    url: String,
    link: Link,
    plan: Plan,
    kinds: Vec<&'static ExperimentKind>,
    peer: Option<SocketAddr>,
    key: Option<String>,
    program: Program,
}

/// Measures a link; returns the report as JSON. `program` is the interpreter, which runs the far
/// side in a process of its own.
#[pyfunction]
#[pyo3(signature = (url, *, only, is_quick, rounds, sizes, seed, peer, key, program))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python, all of them required")]
pub fn bench(
    py: Python<'_>,
    url: String,
    only: Vec<String>,
    is_quick: bool,
    rounds: Option<u32>,
    sizes: Option<[u64; 2]>,
    seed: u64,
    peer: Option<String>,
    key: Option<String>,
    program: PathBuf,
) -> PyResult<String> {
    let link = Link::parse(&url).map_err(Fault::input)?;
    let kinds = run::choose(&only, &link).map_err(fault)?;
    let peer = peer.map(|peer| peer.parse()).transpose();
    let peer = peer.map_err(|_| Fault::input("peer is not an address; write 10.0.0.8:5300"))?;
    let default = Plan::new(is_quick);
    let plan = Plan {
        rounds: rounds.unwrap_or(default.rounds),
        sizes: sizes.unwrap_or(default.sizes),
        seed,
        ..default
    };
    let program = Program { path: program, arguments: vec!["-m".into(), "fluxline".into()] };
    let asked = Asked { url, link, plan, kinds, peer, key, program };
    let report = watched(py, move |stop| measure(&asked, &Stop::on(Arc::clone(stop))))?;
    let report = report.map_err(fault)?;
    Ok(serde_json::to_string(&report).map_err(|error| Fault::new(Class::Bench, error))?)
}

/// Serves one benchmark as its far side, on a port of loopback that it prints.
#[pyfunction]
pub fn bench_serve(py: Python<'_>) -> PyResult<()> {
    let key = std::env::var(KEY_VARIABLE);
    let key = key.map_err(|_| Fault::input("this is a part of fluxline.bench, which starts it"))?;
    let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let server = Server::bind(any, &key).map_err(|error| Fault::new(Class::Bench, error))?;
    println!("{}", server.address());
    let served = watched(py, move |stop| {
        server.serve(Until::FirstEnds, &Stop::on(Arc::clone(stop)), &|_| {})
    })?;
    Ok(served.map_err(|error| Fault::new(Class::Bench, error))?)
}

fn fault(error: Error) -> Fault {
    let class = if matches!(error, Error::Input(_)) { Class::Input } else { Class::Bench };
    Fault::new(class, error)
}

fn measure(asked: &Asked, stop: &Stop) -> Result<Report, Error> {
    let near = host::describe(asked.link.through().as_ref());
    let mut report = run::begin(&asked.url, &asked.plan, json!({ "near": near }));
    report.environment["plan"] = json!(asked.plan);
    let ended = match asked.link {
        Link::Simulated => on_simulated(asked, stop, &mut report),
        _ => {
            let session = Session {
                link: &asked.link,
                url: &asked.url,
                peer: asked.peer,
                key: asked.key.clone(),
                cores: &[],
                plan: &asked.plan,
                kinds: &asked.kinds,
                stop: stop.clone(),
                program: asked.program.clone(),
            };
            session.run(&mut report, Box::new(|_, _, _| {}))
        }
    };
    ended.map(|()| report)
}

/// Runs the experiments between nodes 0 and 1 of a cluster in virtual time.
fn on_simulated(asked: &Asked, stop: &Stop, report: &mut Report) -> Result<(), Error> {
    let cluster = Cluster::open(&asked.url).map_err(|error| Error::Input(error.to_string()))?;
    // A simulated link has no noise: every round would be the first again.
    let plan = Plan { rounds: 1, ..asked.plan.clone() };
    report.environment["plan"] = json!(plan);
    let fabrics: [Box<dyn Fabric>; 2] = [Box::new(cluster.node(0)), Box::new(cluster.node(1))];
    let clock = environment::virtual_clock();
    let mut environment =
        Simulated::open(&asked.url, fabrics, "1", clock, HALF_BYTES)?.stopped_by(stop.clone());
    let ended = run::run(&mut environment, &plan, &asked.kinds, report);
    report.environment["fingerprint"] = cluster.fingerprint().to_string().into();
    report.environment["virtual_ns"] = cluster.now().as_ns().into();
    ended
}
