//! The demonstration, on a machine that has other things to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{call_json_ending, number, text};

#[test]
fn busy_machine_does_not_make_the_demonstration_lose_packets() {
    let over = Arc::new(AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let busy: Vec<_> = (0..3 * cores)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {})
        })
        .collect();
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let document = call_json_ending(&["demo", "--seconds", "2", "--folder", text(&folder)], 0);
    over.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let totals = &document["totals"];
    assert_eq!(number(totals, "socket_dropped"), 0);
    assert_eq!(number(totals, "recorded"), number(&document, "received"));
    let emulated = document["inputs"][0]["emulated"]["sources"].as_array().expect("truth");
    let sent: u64 = emulated.iter().map(|source| number(source, "sent")).sum();
    assert_eq!(number(&document, "received"), sent);
}
