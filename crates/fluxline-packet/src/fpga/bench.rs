//! The layout for the test bench: fields for Python, sizes for C++.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::fill::Header;
use super::{GatewareLink, Sizes, registers};
use crate::Description;
use crate::model::ByteOrder;

/// Returns `test/layout.py`: sizes, registers, and name, offset, bytes, byte order and signal of
/// each field.
pub(super) fn layout(header: &Header, sizes: &Sizes) -> String {
    let mut out = String::from("# Made by `fluxline format fpga`; do not edit.\n");
    let Sizes { payload, header: bytes, fifo, .. } = sizes;
    let _ = writeln!(out, "HEADER, PAYLOAD, FIFO = {bytes}, {payload}, {fifo}");
    let (slot, is_roce) = (sizes.slot().unwrap_or_default(), sizes.link == GatewareLink::Roce);
    let _ = writeln!(out, "ROCE, SLOT = {}, {slot}", if is_roce { "True" } else { "False" });
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

/// Returns `roce.toml`, the experiment that receives what the simulation sends.
pub(super) fn receiver(description: &Description, sizes: &Sizes) -> String {
    let slot = sizes.slot().unwrap_or_default();
    format!(
        "# Made by `fluxline format fpga`: receives what `make sim` sends; a beginning for \
         yours.\n\
         name = \"{} writes memory\"\n\n\
         [[source]]\nname = \"boards\"\nformat = \"packet.toml\"\n\n\
         [source.roce]\nlisten = \"10.23.0.1:4791\"\npath-mtu = {slot}\n\
         ring-bytes = 4194304         \
         # the register RING_BYTES\n\n[[source.roce.sender]]\nname = \"board\"\n\
         address = \"10.23.0.2:6006\"   # OWN_IP and the upper half of PORTS\n\
         queue-pair = 256             # DEST_QP\nfirst-psn = 16777200         # FIRST_PSN\n\
         key = 77                     # RKEY\nbase = 4294963200            \
         # RING_BASE_HIGH and RING_BASE_LOW\n\n[events]\nbuild = \"packet\"\n",
        description.name()
    )
}

/// Returns `sim/layout.h`.
pub(super) fn sizes(sizes: &Sizes) -> String {
    format!(
        "// Made by `fluxline format fpga`; do not edit.\n\
         static const unsigned long block_words = {}, header_bytes = {};\n",
        sizes.payload / super::WORD_BYTES,
        super::FRAME_HEADER_BYTES + sizes.link_header() + sizes.header
    )
}
