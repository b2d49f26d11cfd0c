//! Tests of acquisitions without a clock, thread or socket: captures and emulators in, runs out.

mod description_faults;
mod expressed;
mod files_on_demand;
mod record;
