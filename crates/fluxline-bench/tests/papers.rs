//! The papers' experiments on real links, both sides in two threads: they run, and their numbers
//! are numbers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluxline_bench::environment::Plan;
use fluxline_bench::real::{Link, Near, NearConfig, Server, Until};
use fluxline_bench::result::{Experiment, Report};
use fluxline_bench::{Stop, run};
use serde_json::json;

const KEY: &str = "a key of the test";

/// Each of these tests wants both cores for itself.
fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn near(url: &str, control: SocketAddr) -> Near {
    let cores = fluxline::pin::allowed_cores();
    let config = NearConfig {
        link: Link::parse(url).expect("a link"),
        url: url.to_owned(),
        control,
        key: KEY.to_owned(),
        cores: [None, cores.last().copied()],
        progress: Box::new(|_, _, _| {}),
        stop: Stop::default(),
    };
    Near::connect(config).expect("it serves")
}

fn measured(url: &str, only: &[&str], plan: &Plan) -> Report {
    let _alone = alone();
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"), KEY).expect("free");
    let address = server.address();
    let over = Arc::new(AtomicBool::new(false));
    let stop = Stop::on(Arc::clone(&over));
    std::thread::scope(|scope| {
        let far = scope.spawn(move || {
            server
                .serve(Until::FirstEnds, &stop, &|how| println!("far: {how}"))
                .expect("it serves");
        });
        let link = Link::parse(url).expect("a link");
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let entries = run::choose(&only, &link).expect("experiments");
        let mut report = run::begin(url, plan, json!({}));
        let mut near = near(url, address);
        let ended = run::run(&mut near, plan, &entries, &mut report);
        drop(near);
        over.store(true, Ordering::Relaxed);
        far.join().expect("the far side ends");
        ended.unwrap_or_else(|error| panic!("{url}: {error}"));
        report
    })
}

fn check(report: &Report) {
    for experiment in &report.experiments {
        let name = &experiment.name;
        assert_eq!(experiment.incomplete, "", "{}, {name}", report.link);
        assert!(!experiment.is_empty() && !experiment.limit.is_empty(), "{}, {name}", report.link);
    }
}

fn fact(experiment: &Experiment, label: &str) -> f64 {
    let fact = experiment.facts.iter().find(|fact| fact.label.contains(label));
    fact.unwrap_or_else(|| panic!("{label} in {:?}", experiment.facts)).samples[0]
}

const EXPERIMENTS: &[&str] = &["put-get", "rate", "stores", "incast"];

/// Few and small: these are tests of what happens, not measurements.
fn plan() -> Plan {
    Plan { rounds: 1, sizes: [8, 4096], ..Plan::quick() }
}

#[test]
fn all_of_them_run_on_shared_memory() {
    check(&measured("shm://", EXPERIMENTS, &plan()));
}

#[test]
fn all_of_them_run_on_udp() {
    check(&measured("udp://127.0.0.1", EXPERIMENTS, &plan()));
}

#[test]
fn ten_seconds_of_random_operations_close_their_ledgers_and_leave_memory_flat() {
    for (url, seconds) in [("shm://", 5.0), ("udp://127.0.0.1", 5.0)] {
        let plan = Plan { soak_seconds: seconds, seed: 4791, ..plan() };
        println!("{url}, seed {}", plan.seed);
        let report = measured(url, &["soak"], &plan);
        check(&report);
        let soak = &report.experiments[0];
        let slices = fact(soak, "slices whose ledgers agree");
        assert!(slices >= 2.0 && fact(soak, "operations") == slices * 2000.0, "{soak:?}");
        for kind in ["puts", "messages", "connections", "bytes got"] {
            assert!(fact(soak, kind) > 0.0, "{url}: {kind}");
        }
    }
}
