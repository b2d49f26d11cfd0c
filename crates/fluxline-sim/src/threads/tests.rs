//! Nodes that do not come, and worlds that stand still.

use std::time::Duration;

use fluxline_core::Moment;

use super::watch::{Watch, quiet, stuck};
use super::{OpenError, open, open_within, order};

/// Returns the sentence of a URL that cannot be opened.
fn refused(url: &str) -> String {
    open(url).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_wrong_url_is_answered_with_one_sentence_that_says_what_to_write() {
    for (url, says) in [
        ("sim:sci", "names no node of a simulated world; write sim:sci/WORLD/NODE"),
        ("sim:sci?nodes=2", "for example sim:sci/lab/builder?nodes=2"),
        ("sim:sci/lab", "names no node"),
        ("sim:sci/lab/", "names no node"),
        ("sim:sci//a", "names no node"),
        ("sim:sci/lab/a/b", "names no node"),
        ("sim:sci/lab/a b", "is not a name"),
        ("sim:token-ring/lab/a", "write sim:sci"),
        ("sim:sci/lab/a?nodes=1", "2 or more"),
        ("sim:sci/lab/a?colour=red", "its keys are nodes, model"),
        ("udp://10.0.0.7", "write sim:sci"),
    ] {
        let sentence = refused(url);
        assert!(sentence.contains(says), "{url}: {sentence}");
    }
}

#[test]
fn a_world_whose_nodes_do_not_come_says_so_and_can_be_opened_again() {
    let url = "sim:sci/unit-missing/a?nodes=3";
    for _ in 0..2 {
        let error = open_within(url, Duration::from_millis(100)).err();
        let nodes = vec!["a".to_owned()];
        let (world, seconds) = ("unit-missing".to_owned(), 0);
        assert_eq!(error, Some(OpenError::Missing { world, nodes: 3, present: nodes, seconds }));
    }
    let sentence = open_within(url, Duration::ZERO).err().map(|error| error.to_string());
    let sentence = sentence.unwrap_or_default();
    assert!(sentence.contains("1 of 3 nodes after 0 s (a); open the others"), "{sentence}");
}

#[test]
fn a_node_opened_twice_or_with_other_settings_is_refused_while_the_first_waits() {
    let open = |node: &str| {
        let url = format!("sim:sci/unit-twice/{node}?nodes=3&seed=1");
        open_within(&url, Duration::from_secs(600)).is_ok()
    };
    let error = |rest: &str| {
        let url = format!("sim:sci/unit-twice/{rest}");
        open_within(&url, Duration::ZERO).err().expect("not all came")
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(move || open("a"));
        // Until the first one waits.
        let is_alone = |error: OpenError| match error {
            OpenError::Missing { present, .. } => !present.contains(&"a".to_owned()),
            _ => false,
        };
        while is_alone(error("b?nodes=3&seed=1")) {
            std::thread::yield_now();
        }
        for (url, says) in [
            ("a?nodes=3&seed=1", "\"a\" of world \"unit-twice\" is open already"),
            ("b?nodes=3&seed=2", "has other settings"),
            ("b?nodes=3&seed=1&dump=x.pcapng", "has other settings"),
        ] {
            let sentence = error(url).to_string();
            assert!(sentence.contains(says), "{sentence}");
        }
        let others = ["b", "c"].map(|node| scope.spawn(move || open(node)));
        let mut all = others.into_iter().chain([first]);
        assert!(all.all(|node| node.join().expect("no panic")));
    });
}

#[test]
fn a_network_that_cannot_be_built_is_refused_to_all_its_nodes() {
    let keys = "nodes=2&fault=host:8@1ms";
    let urls = ["a", "b"].map(|node| format!("sim:sci/unit-unbuilt/{node}?{keys}"));
    std::thread::scope(|scope| {
        for opening in urls.each_ref().map(|url| scope.spawn(|| refused(url))) {
            let sentence = opening.join().expect("no panic");
            assert!(sentence.contains("nodes are 0 to 1"), "{sentence}");
        }
    });
    assert!(matches!(
        open_within("sim:sci/unit-unbuilt/a?nodes=2", Duration::ZERO),
        Err(OpenError::Missing { .. })
    ));
}

#[test]
fn names_are_in_the_order_of_numbers_before_words() {
    let mut names = ["b", "10", "2", "a", "02"].map(str::to_owned);
    order::sort(&mut names);
    assert_eq!(names, ["02", "2", "10", "a", "b"]);
}

#[test]
fn a_turn_that_lasts_is_reported_once_and_short_ones_never() {
    let mut watch = Watch::default();
    for _ in 0..100 {
        watch.turn_begins();
        assert!((0..4).all(|_| !watch.is_stuck(0)));
    }
    watch.turn_begins();
    // Two threads sleep; the steps of one count.
    let reports = (0..20).filter(|step| watch.is_stuck(step % 2)).count();
    assert_eq!(reports, 1);
    let sentence = stuck("lab", "a");
    assert!(sentence.contains("node \"a\" of world \"lab\" has run for 5 s"), "{sentence}");
}

#[test]
fn a_world_in_which_nothing_is_completed_is_reported_once() {
    let mut watch = Watch::default();
    let at = |seconds: u64| Moment::from_ns(seconds * 1_000_000_000);
    let calls = (0..200).map(|second| watch.is_quiet(at(second), second.min(50)));
    let reports: Vec<usize> = (0..).zip(calls).filter(|of| of.1).map(|of| of.0).collect();
    assert_eq!(reports, [110], "60 s after the last completion");
    let sentence = quiet("lab", at(110), &["a", "b"]);
    assert!(sentence.contains("60.000 s of virtual time before 110 s; a, b wait"), "{sentence}");
}
