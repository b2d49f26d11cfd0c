//! What a recorded run survives: every test's file names the misfortune.

mod damaged;
mod export;
mod full_disk;
mod late;
mod missing;
mod round_trip;
mod samples;
mod torn;
mod typed;
