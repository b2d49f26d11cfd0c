//! The header of a frame as SystemVerilog: a vector of bytes in wire order.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::fill::Header;
use super::{DATAGRAM_HEADER_BYTES, FRAME_HEADER_BYTES, Sizes, registers};
use crate::Description;
use crate::model::ByteOrder;

/// Returns the number that tells layouts apart: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo, 1991) of
/// the module's text.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Returns `rtl/flx_layout.sv`.
pub(super) fn file(description: &Description, header: &Header, sizes: &Sizes) -> String {
    let module = module(header, sizes);
    let mut out = format!(
        "// Header of `{}` packets. Made by `fluxline format fpga`; do not edit.\n\
         `default_nettype none\n\
         package flx_layout_pkg;\n",
        description.name()
    );
    let constants = [
        ("USER_BYTES", sizes.header, "header of the packet description"),
        ("HEADER_BYTES", sizes.header + FRAME_HEADER_BYTES, "with Ethernet, IPv4 and UDP"),
        ("PAYLOAD_BYTES", sizes.payload, "samples of a packet"),
        ("FIFO_BYTES", sizes.fifo, "samples that may wait"),
    ];
    for (name, value, about) in constants {
        let _ = writeln!(out, "  localparam int {name} = {value};   // {about}");
    }
    let _ = writeln!(out, "  localparam [31:0] LAYOUT_HASH = 32'h{:08x};", hash(&module));
    out.push_str("endpackage\n\n");
    out.push_str(&registers::package());
    out.push('\n');
    out.push_str(&module);
    out
}

/// The bytes of a module while its fields are added.
#[derive(Default)]
struct Bytes {
    wires: String,
    /// Signal and byte of each byte of the wire.
    places: Vec<(usize, u64)>,
    fields: usize,
}

impl Bytes {
    fn add(&mut self, signal: &str, bytes: u64, order: ByteOrder, about: &str) {
        let field = self.fields;
        let note = if about.is_empty() { String::new() } else { format!("   // {about}") };
        let _ = writeln!(self.wires, "  wire [{}:0] f{field} = {signal};{note}", 8 * bytes - 1);
        for at in 0..bytes {
            let byte = if order == ByteOrder::Big { bytes - 1 - at } else { at };
            self.places.push((field, byte));
        }
        self.fields += 1;
    }
}

fn module(header: &Header, sizes: &Sizes) -> String {
    use ByteOrder::{Big, Little};
    let datagram = sizes.header + sizes.payload;
    let ip_length = format!("16'd{}", datagram + DATAGRAM_HEADER_BYTES);
    let udp_length = format!("16'd{}", datagram + 8);
    let mut bytes = Bytes::default();
    for (signal, length, order, about) in [
        ("dst_mac", 6, Big, "Ethernet"),
        ("src_mac", 6, Big, ""),
        ("16'h0800", 2, Big, ""),
        ("16'h4500", 2, Big, "IPv4"),
        (&ip_length, 2, Big, "length"),
        ("32'h00004000", 4, Big, "do not fragment"),
        ("16'h4011", 2, Big, "hops, UDP"),
        ("ip_sum", 2, Little, ""),
        ("src_ip", 4, Big, ""),
        ("dst_ip", 4, Big, ""),
        ("src_port", 2, Big, "UDP"),
        ("dst_port", 2, Big, ""),
        (&udp_length, 2, Big, "length"),
        ("udp_sum", 2, Little, ""),
    ] {
        bytes.add(signal, length, order, about);
    }
    for field in &header.fields {
        let name = if field.name.is_empty() { "padding" } else { &field.name };
        bytes.add(&field.signal, field.bytes, field.byte_order, name);
    }
    let mut out = String::from(PORTS);
    let _ = writeln!(
        out,
        "  output wire [{}:0] bytes   // byte n is bytes[8*n +: 8]\n);",
        8 * bytes.places.len() - 1
    );
    out.push_str(&bytes.wires);
    out.push_str("  assign bytes = {\n");
    let places: Vec<String> = bytes
        .places
        .iter()
        .rev()
        .map(|(field, byte)| format!("f{field}[{}:{}]", 8 * byte + 7, 8 * byte))
        .collect();
    let lines: Vec<String> = places.chunks(6).map(|line| line.join(", ")).collect();
    let _ = writeln!(out, "    {}\n  }};", lines.join(",\n    "));
    out.push_str("endmodule\n`default_nettype wire\n");
    out
}

/// The ports of the module; a description need not use all of them.
const PORTS: &str = "/* verilator lint_off UNUSEDSIGNAL */
module flx_layout (
  input  wire [47:0] dst_mac, src_mac,
  input  wire [31:0] src_ip, dst_ip,
  input  wire [15:0] src_port, dst_port,
  input  wire [15:0] ip_sum, udp_sum,   // lanes as on the wire: [7:0] goes first
  input  wire [63:0] source, sequence_, key, ticks, taken, dropped,
";
