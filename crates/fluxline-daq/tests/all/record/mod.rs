//! Misfortunes that a recorded run survives: each test file names one.

mod damaged;
mod export;
mod full_disk;
mod late;
mod missing;
mod round_trip;
mod samples;
mod torn;
mod typed;
