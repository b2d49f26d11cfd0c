//! Every stored input of the fuzz targets, and random ones, through the same functions in the
//! ordinary build.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_hostile::{TARGETS, Target, acquisition};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = root().join(target.seeds);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_stored_input_keeps_the_promises_of_its_surface() {
    let mut broken = Vec::new();
    for target in TARGETS {
        let paths = inputs(target);
        assert!(!paths.is_empty(), "{} has no stored inputs", target.name);
        for path in paths {
            let bytes = fs::read(&path).expect("readable");
            if catch_unwind(|| (target.run)(&bytes)).is_err() {
                broken.push(format!("{}: {}", target.name, path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn random_acquisitions_account_for_every_packet() {
    let first = test_seed!(1);
    for seed in first..first.saturating_add(test_count!(1000)) {
        let mut draw = Draw::new(seed);
        let length = draw.below(1500);
        let bytes: Vec<u8> = (0..length).map(|_| draw.bits() as u8).collect();
        if catch_unwind(|| acquisition(&bytes)).is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("found-{seed}"));
            fs::write(&kept, &bytes).expect("written");
            panic!("SEED={seed} COUNT=1 repeats it; the input is in {}", kept.display());
        }
    }
}

#[test]
fn every_target_is_built_by_the_fuzzer() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("the manifest");
    let page = fs::read_to_string(root().join("docs/fuzzing.md")).expect("the page");
    for target in TARGETS {
        let file = format!("fuzz_targets/{}.rs", target.name);
        let text = fs::read_to_string(root().join("fuzz").join(&file)).expect("the target");
        assert!(text.contains(&format!("fluxline_hostile::{}", target.name)), "{file}");
        assert!(manifest.contains(&file), "fuzz/Cargo.toml lacks {file}");
        assert!(page.contains(&format!("`{}`", target.name)), "docs/fuzzing.md: {}", target.name);
    }
    let built = fs::read_dir(root().join("fuzz/fuzz_targets")).expect("the folder").count();
    assert_eq!(built, TARGETS.len(), "a target that no test replays");
}
