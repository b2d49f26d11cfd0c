//! Sweeps over a network, and over an invented model whose saturation is known.

use std::num::NonZeroUsize;

use super::{
    Criterion, Limits, LinkUse, MeasureError, Observer, Outcome, WarmUp, measure, run_all,
    saturation,
};
use crate::load::Settings;
use crate::load::sweep::Experiment;
use crate::load::traffic::{Arrivals, Message, Pattern, Plan, Size};
use crate::net::router::{Dateline, NetworkConfig, Ways, loaded};
use crate::{Agenda, Duration, Entry, Instant, Model};

fn limits(us: u64) -> Limits {
    let measured = Duration::from_us(us);
    Limits { warm_up_first: Duration::from_ns(500), warm_up_max: Duration::from_us(us), measured }
}

fn point(config: &NetworkConfig, pattern: Pattern, load: f64) -> Result<Outcome, MeasureError> {
    let plan = Plan {
        nodes: config.check().expect("a network").routers(),
        pattern,
        arrivals: Arrivals::Poisson { bytes_per_s: load * config.link_bytes_per_s() },
        size: Size::Fixed(64),
        seed: 3,
    };
    let mut agenda = Agenda::default();
    let mut loaded =
        loaded(config.clone(), plan, &Settings::default(), &mut agenda).expect("a network");
    measure(&mut loaded, &mut agenda, &limits(20))
}

#[test]
fn results_are_in_order_and_equal_for_every_number_of_threads() {
    let config = NetworkConfig::torus(&[4, 4]);
    let loads = [0.3, 0.05, 0.2, 0.1, 0.25];
    let with = |threads| {
        let mut seen = Vec::new();
        let run = |&load: &f64| point(&config, Pattern::Uniform, load).expect("no deadlock");
        let outcomes = run_all(&loads, NonZeroUsize::new(threads), run, |progress| {
            assert_eq!((progress.done, progress.points), (seen.len() + 1, 5));
            seen.push(progress.last);
        });
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        outcomes
    };
    let alone = with(1);
    for (outcome, load) in alone.iter().zip(loads) {
        assert!((outcome.offered_bytes_per_s / 16e9 - load).abs() < 0.02, "{load}");
    }
    for threads in [2, 3, 8] {
        for (one, other) in alone.iter().zip(with(threads)) {
            assert_eq!(one.fingerprint, other.fingerprint);
            assert_eq!((one.entries, one.hops, one.max), (other.entries, other.hops, other.max));
            assert_eq!(one.latency_ns, other.latency_ns);
        }
    }
    assert!(run_all(&[] as &[u8], None, |&point| point, |_| ()).is_empty());
}

#[test]
fn an_outcome_agrees_with_what_is_known_of_a_lightly_loaded_torus() {
    let config = NetworkConfig::torus(&[4, 4]);
    let outcome = point(&config, Pattern::Uniform, 0.1).expect("no deadlock");
    assert_eq!(outcome.warm_up_end, WarmUp::Settled);
    assert!((outcome.accepted_bytes_per_s / outcome.offered_bytes_per_s - 1.0).abs() < 0.02);
    // 32/15 links on the way in the mean, four links out of each router.
    let (mean, max) = outcome.link_utilisation();
    assert!((mean - 0.1 * 32.0 / 15.0 / 4.0).abs() < 0.003 && max < 2.0 * mean, "{mean} {max}");
    // Without load: 1 + 6 x (hops + 1) + 4 ticks of 1 ns.
    let zero_load = 1.0 + 6.0 * (32.0 / 15.0 + 1.0) + 4.0;
    let latency = outcome.latency_ns.mean;
    assert!(latency > zero_load - 0.3 && latency < 1.1 * zero_load, "{latency} {zero_load}");
    assert!(outcome.latency_ns.half_width() < 0.02 * latency);
    assert!(outcome.p50 <= outcome.p99 && outcome.p99 <= outcome.p99_9);
    assert!(outcome.p99_9 <= outcome.max && outcome.histogram.count() == outcome.messages);
    for fairness in [outcome.source_fairness(), outcome.target_fairness()] {
        assert!(fairness.expect("delivered").jain > 0.99);
    }
}

#[test]
fn a_hot_receiver_shows_in_the_shares_of_the_nodes_and_in_its_links() {
    let config = NetworkConfig::torus(&[4, 4]);
    let hot = Pattern::HotReceiver { node: 5, share: 0.5 };
    let outcome = point(&config, hot, 0.1).expect("no deadlock");
    let fairness = outcome.target_fairness().expect("delivered");
    assert!(fairness.max == outcome.targets[5].delivered && fairness.ratio() > 8.0);
    assert!(outcome.source_fairness().expect("delivered").jain > 0.98, "they share it");
    let busiest = outcome.links.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    assert_eq!(busiest.map(|link| link.to), Some(5));
}

#[test]
fn a_torus_beyond_saturation_accepts_less_than_offered_and_says_that_it_never_settled() {
    let mut config = NetworkConfig::torus(&[4, 4]);
    config.source_packets = 1 << 20;
    let outcome = point(&config, Pattern::Uniform, 0.95).expect("no deadlock");
    assert!(outcome.accepted_bytes_per_s < 0.9 * outcome.offered_bytes_per_s);
    assert_eq!(outcome.warm_up_end, WarmUp::CutShort);
    config.source_packets = 16;
    let outcome = point(&config, Pattern::Uniform, 0.95).expect("no deadlock");
    let (offered, accepted) = (outcome.offered_bytes_per_s, outcome.accepted_bytes_per_s);
    let books = (accepted + outcome.refused_bytes_per_s) / offered;
    assert!((books - 1.0).abs() < 0.02, "{books}");
}

#[test]
fn a_deadlock_ends_the_measurement_with_its_circle() {
    let mut config = NetworkConfig::torus(&[6]);
    config.dimensions[0].ways = Ways::Up;
    config.dateline = Dateline::Ignored;
    (config.channels, config.buffer_bytes) = (1, 64);
    let error = point(&config, Pattern::Uniform, 0.9).expect_err("a deadlock").to_string();
    assert!(error.contains("deadlock") && error.contains("(5->0, 0)"), "{error}");
}

/// One server: a message of 1,000 bytes every `interval`, each served for 1 us, latency by queue.
struct Server {
    observer: Observer,
    interval: Duration,
    free_at: Instant,
}

struct Call;

impl Entry for Call {
    fn component(&self) -> u32 {
        0
    }
    fn kind(&self) -> u8 {
        0
    }
}

impl Model for Server {
    type Entry = Call;
    fn handle(&mut self, call: Call, agenda: &mut Agenda<Call>) {
        let message = Message { at: agenda.now(), source: 0, to: 0, bytes: 1000, event: 0 };
        self.observer.offered(&message);
        self.free_at = self.free_at.max(agenda.now()) + Duration::from_us(1);
        // Reported at once instead of when it is served: beyond saturation no fewer messages are
        // accepted, so only the latency can show saturation.
        self.observer.delivered(&message, self.free_at.since(agenda.now()));
        agenda.schedule_after(self.interval, call);
    }
}

impl Experiment for Server {
    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }
    fn links(&self, _: Instant) -> Vec<LinkUse> {
        Vec::new()
    }
    fn hops(&self) -> u64 {
        0
    }
    fn check(&self, _now: Instant) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn bisection_finds_the_load_that_a_server_can_serve_whatever_the_model() {
    let mut measured = 0;
    let found = saturation(0.1..=2.0, 0.01, Criterion::usual(5.0, 1000.0), |load| {
        measured += 1;
        let interval = Duration::from_ps((1e6 / load) as u64);
        let observer = Observer::new(1);
        let mut server = Server { observer, interval, free_at: Instant::START };
        let mut agenda = Agenda::default();
        agenda.schedule(Instant::START, Call);
        measure(&mut server, &mut agenda, &limits(2000))
    })
    .expect("measured");
    assert!(found.followed <= 1.0 && found.saturated > 1.0, "{found:?}");
    assert!(found.saturated - found.followed <= 0.01 && measured == found.points.len());
    assert!(measured <= 10, "{measured}");
}
