//! Shared memory that another process has scribbled on, from seeds: no panic, no fault, no hang.
//!
//! `SEEDS=1000 cargo test -p fluxline --test links_tests scribbled` tries more.
//! The folder fuzz/ has the same entries.

use fluxline::fuzzing;
use fluxline_core::random::Draw;

fn seeds(default: u64) -> std::ops::Range<u64> {
    let text = std::env::var("SEEDS").ok();
    1..1 + text.map_or(default, |text| text.parse().expect("SEEDS is a number"))
}

/// Scripts of random bytes, of which some steps come again and again.
fn script(seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed * 0x9E37_79B9);
    let mut script: Vec<u8> = (0..12 * 200).map(|_| draw.below(256) as u8).collect();
    for step in script.chunks_exact_mut(12) {
        if draw.below(3) == 0 {
            step[2] = 0; // near the beginning
        }
    }
    script
}

#[test]
fn a_scribbled_ring_is_broken_or_read_and_harms_nobody() {
    for seed in seeds(400) {
        println!("seed {seed}");
        fuzzing::push_ring(&script(seed)).expect("the host has room");
    }
}

#[test]
fn scribbled_files_end_connections_and_harm_nobody() {
    let base = tempfile::Builder::new().prefix("fluxline-test-").tempdir_in("/dev/shm");
    let base = base.expect("a directory");
    for seed in seeds(100) {
        println!("seed {seed}");
        let base = base.path().join(seed.to_string());
        fuzzing::nodes(&base, &script(seed)).expect("the host has room");
    }
}
