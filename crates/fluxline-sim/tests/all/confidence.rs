//! A run is extended until its mean is as precise as asked for. Campaigns measure how often an
//! interval has the true mean.

use fluxline_sim::load::sweep::Goal;
use fluxline_sim::scenario::Scenario;

const TORUS: &str = "[network]\nkind = \"torus\"\nside = 4\n[run]\nwarm-up-us = 2.0\n\
               warm-up-max-us = 16.0\nduration-us = 0.5\n";

#[test]
fn a_run_is_extended_until_it_is_precise_and_says_so_when_it_is_not() {
    let mut scenario = Scenario::parse("confidence", TORUS).expect("a scenario");
    let mut measure = |width: f64, longest: f64| {
        (scenario.confidence.width, scenario.confidence.longest) = (width, longest);
        let outcome = scenario.measure(0.2).expect("it runs").outcome;
        (outcome.goal, outcome.measured.as_us(), outcome.latency_ns)
    };
    let (goal, us, _) = measure(0.1, 1.0);
    assert_eq!((goal, us), (Goal::None, 0.5));
    let (goal, us, latency) = measure(0.01, 64.0);
    assert_eq!(goal, Goal::Reached);
    assert!(us > 0.5 && latency.half_width <= 0.01 * latency.mean, "{us} us: {latency:?}");
    let (goal, us, _) = measure(0.0001, 3.0);
    assert_eq!((goal, us), (Goal::Missed, 1.5));
    // Beyond saturation, a longer run does not help.
    let outcome = scenario.measure(0.9).expect("it runs").outcome;
    assert_eq!((outcome.goal, outcome.measured.as_us()), (Goal::NoSteadyState, 0.5));
}
