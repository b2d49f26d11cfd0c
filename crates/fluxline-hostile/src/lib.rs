//! Input from strangers, one function per surface: any bytes, no panic, and the promises of
//! that surface kept.
//!
//! A function here is the body of a fuzz target (`fuzz/fuzz_targets`), which searches for inputs
//! under sanitizers, and of a test (`tests/corpus.rs`), which replays the stored inputs in the
//! ordinary build. docs/fuzzing.md has the table of targets.
#![forbid(unsafe_code)]

mod acquisition;
mod capture_input;
mod checkpoint;
mod control_message;
mod description_file;
mod draw;
mod endpoint_frames;
mod experiment_file;
mod management_frames;
mod packet_program;
mod report_file;
mod requests;
mod roce_packet;
mod run_file;
mod run_folder;
mod scenario_file;
pub mod shared;
mod shared_memory;

pub use acquisition::acquisition;
pub use capture_input::capture_input;
pub use checkpoint::{checkpoint, checkpoint_seed};
pub use control_message::control_message;
pub use description_file::description_file;
pub use endpoint_frames::endpoint_frames;
pub use experiment_file::experiment_file;
pub use management_frames::management_frames;
pub use packet_program::packet_program;
pub use report_file::report_file;
pub use requests::requests;
pub use roce_packet::roce_packet;
pub use run_file::run_file;
pub use run_folder::{NAMES, Thing, run_folder, run_folder_with};
pub use scenario_file::scenario_file;
pub use shared_memory::{push_ring, shm_nodes};

/// A surface where bytes of strangers enter.
pub struct Target {
    /// Its name: of the fuzz target, and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    /// Takes one input. Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// The folder of stored inputs, from the root of the repository.
    pub seeds: &'static str,
    /// The longest input that is worth trying \[byte\].
    pub bytes_max: usize,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("acquisition", acquisition, "fuzz/seeds/acquisition", 4096),
    target("packet_program", packet_program, "fuzz/seeds/packet_program", 4096),
    target("description_file", description_file, "formats", 16_384),
    target("experiment_file", experiment_file, "fuzz/seeds/experiment_file", 4096),
    target("scenario_file", scenario_file, "fuzz/seeds/scenario_file", 4096),
    target("capture_input", capture_input, "fuzz/seeds/capture_input", 65_536),
    target("run_file", run_file, "fuzz/seeds/run_file", 16_384),
    target("run_folder", run_folder, "fuzz/seeds/run_folder", 33),
    target("requests", requests, "fuzz/seeds/requests", 4096),
    target("report_file", report_file, "fuzz/seeds/report_file", 16_384),
    target("checkpoint", checkpoint, "fuzz/seeds/checkpoint", 4096),
    target("control_message", control_message, "fuzz/seeds/control_message", 4096),
    target("push_ring", push_ring, "fuzz/seeds/push_ring", 4096),
    target("shm_nodes", shm_nodes, "fuzz/seeds/shm_nodes", 1200),
    target("roce_packet", roce_packet, "fuzz/seeds/roce_packet", 256),
    target("endpoint_frames", endpoint_frames, "fuzz/seeds/endpoint_frames", 2048),
    target("management_frames", management_frames, "fuzz/seeds/management_frames", 2048),
];

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    seeds: &'static str,
    bytes_max: usize,
) -> Target {
    Target { name, run, seeds, bytes_max }
}
