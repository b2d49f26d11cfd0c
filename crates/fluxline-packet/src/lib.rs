//! Packet descriptions: a TOML file says what a packet of a sensor is.
//!
//! [`model`] is the language in TOML; `load` checks it and names file, line, field and
//! remedy; `compile` makes a flat program of it; `program` runs that over one packet without
//! allocating. The same model yields the byte diagram, the Wireshark dissector, the NumPy dtype,
//! the typed columns and the emulator's packets.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod carrier;
mod check_sum;
pub mod columnar;
mod compile;
mod compile_items;
mod compile_roles;
mod counting;
mod counts;
mod crc_names;
mod declare;
pub mod decode;
pub mod diagram;
mod drawing;
mod edge;
pub mod epoch;
pub mod ess;
mod ess_resolve;
mod ess_text;
pub mod expression;
mod field_type;
pub mod fpga;
mod instruction;
mod interval;
pub mod layout;
mod load;
mod lua;
mod meaning;
pub mod model;
mod needed;
pub mod numpy;
mod outcome;
mod output;
mod packed;
mod program;
mod resolve;
mod roles;
mod scope;
pub mod shipped;
pub mod text;
mod time_unit;
mod value_kind;
mod walk;
pub mod wireshark;
mod wireshark_list;
mod wireshark_text;
pub mod word;

pub use field_type::BitOrder;
pub use fluxline_toml::{LoadError, nearest};
pub use load::{Description, ParameterValue};
pub use outcome::{BoardCounts, Parsed, Part, Reject, RejectReason, SourceKey};
pub use packed::{PACKED_BITS_MAX, Packed};
pub use program::Program;
