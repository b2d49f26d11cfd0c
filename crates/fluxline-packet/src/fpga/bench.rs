//! The layout for the test bench: fields for Python, sizes for C++.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::fill::Header;
use super::{Sizes, registers};
use crate::model::ByteOrder;

/// Returns `test/layout.py`: sizes, registers, and name, offset, bytes, byte order and signal of
/// each field.
pub(super) fn layout(header: &Header, sizes: &Sizes) -> String {
    let mut out = String::from("# Made by `fluxline format fpga`; do not edit.\n");
    let Sizes { payload, header: bytes, fifo } = sizes;
    let _ = writeln!(out, "HEADER, PAYLOAD, FIFO = {bytes}, {payload}, {fifo}");
    out.push_str("REGISTERS = {\n");
    for register in registers::REGISTERS {
        let _ = writeln!(out, "    \"{}\": {:#x},", register.name, register.address);
    }
    out.push_str("}\n# Name, offset, bytes, byte order, signal.\nFIELDS = [\n");
    let mut at = 0;
    for field in &header.fields {
        let order = match field.byte_order {
            ByteOrder::Big => "big",
            ByteOrder::Little => "little",
        };
        let (name, signal) = (&field.name, &field.signal);
        let _ =
            writeln!(out, "    (\"{name}\", {at}, {}, \"{order}\", \"{signal}\"),", field.bytes);
        at += field.bytes;
    }
    out.push_str("]\n");
    out
}

/// Returns `sim/layout.h`.
pub(super) fn sizes(sizes: &Sizes) -> String {
    format!(
        "// Made by `fluxline format fpga`; do not edit.\n\
         static const unsigned long block_words = {};\n",
        sizes.payload / super::WORD_BYTES
    )
}
