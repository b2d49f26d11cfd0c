//! Two threads that sleep in turns: a wake-up that is lost is a long sleep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fluxline_core::fabric::Name;

use crate::shm::directory::{self, Directory, Users};
use crate::shm::node::NodeFile;

/// A sleep that nobody ends.
const LONG: Duration = Duration::from_secs(60);
const TURNS: u64 = 20_000;

#[test]
#[cfg_attr(miri, ignore = "sleeps in the kernel")]
fn no_wake_up_is_lost_without_a_fence_of_who_rings() {
    let group = Name::parse(&format!("test-bell-{}", std::process::id())).expect("legal");
    let directory =
        Directory::open(&directory::default_base(Users::This), &group, Users::This).expect("opens");
    let files = ["even", "odd"].map(|node| {
        let node = Name::parse(node).expect("legal");
        NodeFile::create(&directory, &node).expect("a free name")
    });
    // The turn, in a word that both write: the thread of its parity adds one and rings.
    let turn = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for own in 0..2 {
            let (files, turn) = (&files, &turn);
            scope.spawn(move || {
                let is_due = || turn.load(Ordering::Relaxed) % 2 == own;
                for _ in 0..TURNS {
                    while !is_due() {
                        files[own as usize].sleep(LONG, is_due);
                    }
                    // A plain store, which no processor orders before the look for sleepers.
                    turn.store(turn.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    files[1 - own as usize].ring();
                }
            });
        }
    });
    assert!(began.elapsed() < LONG, "somebody slept until the time-out");
    for node in ["even", "odd"] {
        directory.remove(&Name::parse(node).expect("legal")).expect("own files");
    }
    directory.remove_if_empty();
}
