//! The header of a frame as SystemVerilog: a vector of bytes in wire order.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::fill::Header;
use super::{FRAME_HEADER_BYTES, GatewareLink, Sizes, registers};
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
    let all = FRAME_HEADER_BYTES + sizes.link_header() + sizes.header;
    let slot = sizes.slot().unwrap_or_default();
    let constants = [
        ("HEADER_BYTES", all, "headers of the link and of the packet description"),
        ("PAYLOAD_BYTES", sizes.payload, "samples of a packet"),
        ("FIFO_BYTES", sizes.fifo, "samples that may wait"),
        ("PAD_BYTES", sizes.pad(), "behind the samples, before the ICRC"),
        ("SLOT_BYTES", slot, "distance of two packets in the ring, with RoCEv2"),
    ];
    let is_roce = u8::from(sizes.link == GatewareLink::Roce);
    let _ = writeln!(out, "  localparam bit ROCE = {is_roce};");
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
    let ip_length = format!("16'd{}", sizes.ip_packet());
    let udp_length = format!("16'd{}", sizes.ip_packet() - 20);
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
    if sizes.link == GatewareLink::Roce {
        add_roce(&mut bytes, sizes);
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
    out.push_str(
        "endmodule\n/* verilator lint_on UNSIGNED */\n/* verilator lint_on CMPCONST */\n\
         `default_nettype wire\n",
    );
    out
}

/// Adds base header, RDMA header and immediate of RDMA WRITE ONLY with immediate on an unreliable
/// connection. Source: IBTA volume 1, 9.2 and 9.3.
fn add_roce(bytes: &mut Bytes, sizes: &Sizes) {
    let flags = format!("8'h{:02x}", sizes.pad() << 4);
    let length = format!("32'd{}", sizes.header + sizes.payload);
    for (signal, length, about) in [
        ("8'h2b", 1, "RoCEv2: RDMA WRITE ONLY with immediate, unreliable"),
        (&flags, 1, "bytes of padding in bits 5 and 4"),
        ("16'hffff", 2, "partition"),
        ("8'h00", 1, ""),
        ("dest_qp", 3, ""),
        ("8'h00", 1, "no acknowledgement"),
        ("psn", 3, ""),
        ("address", 8, ""),
        ("rkey", 4, ""),
        (&length, 4, "bytes to write"),
        ("sequence_[31:0]", 4, "immediate: packets sent before"),
    ] {
        bytes.add(signal, length, ByteOrder::Big, about);
    }
}

/// The ports of the module; a description need not use all of them, and its expressions may compare
/// with what is always so.
const PORTS: &str = "/* verilator lint_off UNUSEDSIGNAL */
/* verilator lint_off UNSIGNED */
/* verilator lint_off CMPCONST */
module flx_layout (
  input  wire [47:0] dst_mac, src_mac,
  input  wire [31:0] src_ip, dst_ip,
  input  wire [15:0] src_port, dst_port,
  input  wire [15:0] ip_sum, udp_sum,   // lanes as on the wire: [7:0] goes first
  input  wire [63:0] source, sequence_, key, ticks, taken, dropped,
  input  wire [23:0] dest_qp, psn,
  input  wire [31:0] rkey,
  input  wire [63:0] address,
";
