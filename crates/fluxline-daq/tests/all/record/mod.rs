//! Misfortunes that a recorded run survives: each test file names one.

mod damaged;
mod full_disk;
mod round_trip;
mod samples;
mod torn;
