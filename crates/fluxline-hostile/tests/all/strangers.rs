//! Run folders with anything in them, and any request: each thing under each name, and seeds.

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_export::ExportFormat;
use fluxline_hostile::{NAMES, Thing, requests, run_folder, run_folder_with};

#[test]
fn each_thing_under_each_name_of_a_run_folder_leaves_everything_outside_as_it_was() {
    let kinds = [ExportFormat::Csv, ExportFormat::Npy, ExportFormat::Parquet, ExportFormat::Arrow];
    let mut number = 0;
    for name in NAMES {
        for thing in Thing::ALL {
            run_folder_with(&[(name, thing)], kinds[number % kinds.len()]);
            number += 1;
        }
    }
    println!("{number} folders");
}

fn random(seed: u64, count: u64, length_max: u64, run: fn(&[u8])) {
    for seed in seed..seed.saturating_add(count) {
        let mut draw = Draw::new(seed);
        let length = draw.below(length_max);
        let bytes: Vec<u8> = (0..length).map(|_| draw.bits() as u8).collect();
        println!("SEED={seed} COUNT=1");
        run(&bytes);
    }
}

#[test]
fn random_things_in_a_run_folder_leave_everything_outside_as_it_was() {
    random(test_seed!(81), test_count!(100), 33, run_folder);
}

#[test]
fn random_requests_get_answers_and_the_next_one_is_answered_too() {
    random(test_seed!(82), test_count!(500), 40, requests);
}
