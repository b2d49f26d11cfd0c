//! Tests of packet descriptions: the language, the compiled program, the decoders, generated code.

#[path = "../../../fluxline-toml/tests/damage/mod.rs"]
mod damage;
mod hand_written;

mod columns_against_values;
mod equal_spellings;
mod ess_mapping;
mod gateware;
mod generated_code;
mod hostile_packets;
mod manual;
mod mutated_descriptions;
mod packed_samples;
mod packets;
mod program_against_model;
mod shipped_formats;
mod wrong_descriptions;
