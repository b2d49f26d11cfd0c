//! The experiments of this folder on plain memory, and blocks that are damaged on the way.

use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::memory::{Lab, MemoryFabric};
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters,
};
use fluxline_core::random::Draw;
use serde_json::json;

use super::incast::{Gather, Sender};
use super::{flow, incast, soak, stores};
use crate::environment::{self, Environment, Plan, Simulated};
use crate::result::Experiment;
use crate::{Error, registry};

const HALF_BYTES: u64 = 1 << 20;
/// The time of a turn [ns].
const TURN_NS: u64 = 100_000;

/// Two nodes of plain memory; every turn takes 100 us.
fn simulated() -> Simulated {
    Simulated::in_memory(HALF_BYTES, || TURN_NS)
}

fn plan() -> Plan {
    Plan { rounds: 2, sizes: [8, 4096], soak_seconds: 0.2, ..Plan::quick() }
}

fn run(name: &str, simulated: &mut Simulated) -> (Experiment, Result<(), Error>) {
    let entry = registry::experiments().find(|entry| entry.name == name).expect("an experiment");
    let mut into = Experiment::new(entry.name, entry.about);
    let ended = (entry.run)(simulated, &plan(), &mut into);
    (into, ended)
}

fn value(result: &Experiment, label: &str) -> f64 {
    let fact = result.facts.iter().find(|fact| fact.label.contains(label));
    fact.unwrap_or_else(|| panic!("{label} in {:?}", result.facts)).samples[0]
}

#[test]
fn every_experiment_between_two_nodes_runs_in_virtual_time_and_says_what_limits() {
    for name in ["put-get", "rate", "stores", "soak"] {
        let (result, ended) = run(name, &mut simulated());
        ended.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!result.limit.is_empty() && !result.facts.is_empty(), "{name}");
        for series in &result.series {
            assert!(!series.points.is_empty(), "{name}, {}", series.label);
            for point in &series.points {
                let is_right = |sample: &f64| sample.is_finite() && *sample >= 0.0;
                assert!(point.samples.iter().all(is_right), "{name}: {point:?}");
            }
        }
    }
}

#[test]
fn puts_and_gets_are_equal_to_the_bit_in_virtual_time() {
    for name in ["put-get", "rate"] {
        let [one, other] = [(), ()].map(|()| run(name, &mut simulated()).0);
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{name}");
    }
}

#[test]
fn a_batch_is_one_doorbell_and_more_to_a_batch_make_more_of_a_turn() {
    let mut simulated = simulated();
    let mut seconds = |combined: u64| {
        let flow = json!({
            "kind": "put", "bytes": 64, "combined": combined, "depth": 1, "batches": 64 / combined,
        });
        let [near, _] = simulated.trial(&flow::TRIAL, &flow).expect("it runs");
        near["seconds"].as_f64().expect("a time")
    };
    let (single, batched) = (seconds(1), seconds(16));
    assert!(batched < single, "64 puts: {batched} s in batches of 16, {single} s one by one");
}

#[test]
fn parameters_that_make_no_sense_are_rejected_in_a_sentence() {
    let mut simulated = simulated();
    let one = 1;
    let of_flow = |bytes: u64, all: u64| {
        let kind = "put";
        json!({ "kind": kind, "bytes": bytes, "combined": one, "depth": one, "batches": all })
    };
    for (kind, parameters) in [
        (&flow::TRIAL, json!({})),
        (&flow::TRIAL, of_flow(0, 1)),
        (&flow::TRIAL, of_flow(8, 0)),
        (&flow::TRIAL, of_flow(1 << 40, 1)),
        (&stores::TRIAL, json!({ "way": "store", "bytes": 0, "transfers": 1 })),
        (&soak::TRIAL, json!({ "seed": 1, "operations": 0, "connections_permille": 0 })),
    ] {
        let refused = simulated.trial(kind, &parameters).expect_err("it makes no sense");
        assert!(matches!(refused, Error::Input(_)), "{}: {refused}", kind.name);
    }
    let (result, ended) = {
        let entry = registry::experiments().find(|one| one.name == "put-get").expect("it is");
        let mut into = Experiment::new(entry.name, entry.about);
        let none = Plan { sizes: [1 << 30, 1 << 31], ..plan() };
        let ended = (entry.run)(&mut simulated, &none, &mut into);
        (into, ended)
    };
    assert!(ended.is_err() && result.is_empty());
}

/// A link that damages notified puts: it flips a bit in the peer's memory before the peer is
/// notified.
struct Damaging {
    inner: MemoryFabric,
    draw: Draw,
    chance: f64,
}

impl Fabric for Damaging {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        self.inner.register(bytes)
    }
    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.inner.export(region, name, grant)
    }
    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.inner.withdraw(region)
    }
    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.inner.memory(region)
    }
    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        self.inner.view(region, visit)
    }
    fn connect(&mut self, peer: &str, how: Reliability) -> Result<EndpointId, ConnectError> {
        self.inner.connect(peer, how)
    }
    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.inner.disconnect(endpoint)
    }
    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.inner.import(endpoint, name, key)
    }
    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        self.inner.window(remote)
    }
    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.inner.post(endpoint, tag, work)
    }
    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.inner.post_receive(endpoint, tag, into)
    }
    fn counters(&self) -> &WorkCounters {
        self.inner.counters()
    }
    fn now(&self) -> Moment {
        self.inner.now()
    }
    fn poll(&mut self, now: Moment) -> Option<Completion> {
        let what = self.inner.poll(now)?;
        if let Completion::Notified { region, offset, bytes, .. } = what
            && bytes > 1
            && self.draw.chance(self.chance)
        {
            let at = offset + self.draw.below(bytes);
            let memory = self.inner.memory(region).expect("its own");
            let mut byte = [0];
            memory.read(at, &mut byte).expect("inside");
            byte[0] ^= 1 << self.draw.below(8);
            memory.write(at, &byte).expect("inside");
        }
        Some(what)
    }
    fn deadline(&self) -> Option<Moment> {
        self.inner.deadline()
    }
}

/// A simulated link that damages every put with this probability.
fn damaging(chance: f64, seed: u64) -> Simulated {
    let [near, far] = environment::memory_nodes();
    let far = Damaging { inner: far, draw: Draw::new(seed), chance };
    let nodes: [Box<dyn Fabric>; 2] = [Box::new(near), Box::new(far)];
    Simulated::of_nodes(nodes, HALF_BYTES, || TURN_NS)
}

#[test]
fn a_soak_on_a_link_that_damages_ends_with_what_and_the_seed() {
    let mut simulated = damaging(0.001, 9);
    let (result, ended) = run("soak", &mut simulated);
    let why = ended.expect_err("a byte differs").to_string();
    assert!(why.contains("arrived damaged") && why.contains("seed"), "{why}");
    assert!(!result.facts.is_empty());
}

#[test]
fn a_soaks_ledger_counts_every_kind_and_equal_seeds_are_equal_runs() {
    let mut accounts = Vec::new();
    for seed in [1, 1, 2] {
        let slice = json!({ "seed": seed, "operations": 1000, "connections_permille": 20 });
        let [near, far] = simulated().trial(&soak::TRIAL, &slice).expect("nothing differs");
        assert_eq!(near["ledger"], far["ledger"], "seed {seed}");
        assert_eq!(near["operations"].as_u64(), Some(1000));
        for kind in ["puts", "messages", "added", "connections"] {
            assert!(near["ledger"][kind].as_u64() > Some(0), "{kind}: {near}");
        }
        assert!(near["got_bytes"].as_u64() > Some(0));
        accounts.push(near["ledger"].clone());
    }
    assert_eq!(accounts[0], accounts[1]);
    assert_ne!(accounts[0], accounts[2]);
}

#[test]
fn an_incast_in_virtual_time_gathers_all_of_everybody_evenly() {
    let lab = Lab::new();
    let task = incast::Task { url: String::new(), key: 5, senders: 5, blocks: 40 };
    let mut far = lab.node("gather").expect("a new name");
    let mut gather = Gather::new(&mut far, &task).expect("a region");
    let mut nodes: Vec<(MemoryFabric, Sender)> = (0..5)
        .map(|number| {
            let mut node = lab.node(&format!("sender-{number}")).expect("a new name");
            let gathering = incast::Gathering { peer: "gather", key: 5 };
            let sender = Sender::new(&mut node, &gathering, number).expect("it is there");
            (node, sender)
        })
        .collect();
    let mut now = 0;
    while !gather.is_done() {
        now += 1000;
        assert!(now < 100_000_000, "it hangs");
        let is_ready = nodes.iter().all(|(_, sender)| sender.is_ready());
        for (node, sender) in &mut nodes {
            sender.step(node, if is_ready { 40 } else { 0 }, Moment::from_ns(now)).expect("well");
        }
        gather.step(&mut far, Moment::from_ns(now)).expect("well");
    }
    let gathered = gather.outcome();
    assert_eq!(gathered.shares.len(), 5);
    assert!(gathered.seconds > 0.0 && gathered.fairness() > 0.9, "{gathered:?}");
    let one_had_all = incast::Gathered { seconds: 1.0, shares: vec![8, 0, 0, 0] };
    assert!((one_had_all.fairness() - 0.25).abs() < 1e-9);
}

#[test]
fn stores_and_descriptors_have_times_of_their_own_and_the_crossover_is_a_size() {
    let (result, ended) = run("stores", &mut simulated());
    ended.expect("the lab maps windows");
    let crossover = value(&result, super::stores::CROSSOVER);
    assert!((0.0..=4096.0).contains(&crossover), "{crossover}");
    let names: Vec<&str> = result.series.iter().map(|series| series.label.as_str()).collect();
    assert!(names.contains(&"stores") && names.contains(&"descriptors"), "{names:?}");
}

#[test]
fn every_registered_experiment_is_documented_with_its_command() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(folder.join("bench-experiments.md")).expect("the page");
    for entry in registry::experiments() {
        let heading = format!("\n## {}\n", entry.name);
        let command = format!("--only {}", entry.name);
        assert!(page.contains(&heading) && page.contains(&command), "{} is missing", entry.name);
    }
}
