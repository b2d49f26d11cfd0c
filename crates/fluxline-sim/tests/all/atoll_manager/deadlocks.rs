//! Free source routing on rings and tori: worms that wait for each other are found and removed.

use super::*;

/// Long messages over two links each, all at once.
fn circle(trial: &mut Trial, nodes: u32) {
    for node in 0..nodes {
        trial.send(node, (node + 2) % nodes);
    }
}

fn ring(algorithm: Algorithm) -> Trial {
    let settings = Settings { algorithm, ..Settings::default() };
    let traffic = Traffic { bytes: 10_000, every: us(100), seed: 1 };
    let config = Config::new(torus(5, 1));
    let mut trial = Trial::new(config, settings, traffic).expect("a network");
    assert!(trial.settle(us(20_000)));
    trial
}

#[test]
fn a_circle_is_broken_by_the_repetition_of_one_message() {
    let mut trial = ring(Algorithm::Shortest);
    circle(&mut trial, 5);
    trial.run_for(us(200));
    assert!(trial.network.network().deadlock().is_some(), "all hold a link and want another");
    let all = finish(&mut trial);
    assert!(all.iter().all(|of| of.end == Some(SendEnd::Done) && of.arrivals == 1));
    let counts = trial.network.management();
    println!("{counts:?}");
    assert!(counts.alarms >= 1 && (1..5).contains(&counts.removed));
}

#[test]
fn proved_routes_never_wait_in_a_circle_and_no_message_is_removed() {
    let mut trial = ring(Algorithm::Safe);
    circle(&mut trial, 5);
    let all = finish(&mut trial);
    assert!(all.iter().all(|of| of.end == Some(SendEnd::Done)));
    let counts = trial.network.management();
    assert_eq!((trial.network.network().deadlock(), counts.removed), (None, 0));
}

#[test]
fn a_long_message_makes_false_alarms_that_remove_nothing_on_proved_routes() {
    let settings = Settings { dead_after: us(100), ..Settings::default() };
    let traffic = Traffic { bytes: 200_000, every: us(100), seed: 1 };
    let config = Config::new(grid(3, 1));
    let mut trial = Trial::new(config, settings, traffic).expect("a network");
    assert!(trial.settle(us(20_000)));
    trial.send(0, 2);
    trial.send(1, 2);
    let all = finish(&mut trial);
    assert!(all.iter().all(|of| of.end == Some(SendEnd::Done)));
    let counts = trial.network.management();
    println!("{counts:?}");
    assert!(counts.alarms > 0);
    assert_eq!((counts.removed, counts.repeated), (0, 0));
}

#[test]
fn a_torus_with_free_routes_under_heavy_load_delivers_everything_once() {
    let settings = Settings { algorithm: Algorithm::Shortest, ..Settings::default() };
    let traffic = Traffic { bytes: 2_000, every: us(16), seed: test_seed!(5) };
    let mut trial = Trial::new(Config::new(torus(4, 4)), settings, traffic).expect("a network");
    assert!(trial.settle(us(20_000)));
    trial.begin_sending();
    trial.run_for(us(30_000));
    let all = finish(&mut trial);
    let counts = trial.network.management();
    println!("{} messages, {counts:?}", all.len());
    assert!(all.iter().all(|of| of.end == Some(SendEnd::Done)));
    assert!(counts.removed > 0, "the load is too low for this test");
    assert!(counts.repeated >= counts.removed / 2);
}
