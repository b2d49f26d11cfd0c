//! The program `fluxline` as a black box: one module for each thing that may go wrong.

mod archive;
#[cfg(feature = "s3")]
mod archive_s3;
mod bad_input;
#[path = "../support/board.rs"]
mod board;
mod captures;
mod demo;
mod doctor;
mod emulator_faults;
mod ends;
mod every_format;
mod export_interrupted;
mod format_tools;
mod found_runs;
mod generated_files;
mod health;
#[cfg(not(feature = "kafka"))]
mod kafka;
mod killed;
mod memory;
mod missing_files;
mod night;
mod node_storms;
mod nodes;
mod not_recorded;
mod other_programs;
mod outside;
#[path = "../support/packets.rs"]
mod packets;
mod remedies;
#[path = "../support/roce.rs"]
mod remote;
mod roce;
mod roce_life;
mod roce_reliable;
mod run_options;
mod rxe_run;
mod sequences;
mod serve;
mod several_files;
mod shm;
mod slow_control;
mod standard_error;
mod start_and_stop;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod wrong_experiments;
