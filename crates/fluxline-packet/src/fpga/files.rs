//! The files of the output folder: those that are the same for all packets, and the generated ones.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::fill::Header;
use super::{GatewareFile, GatewareLink, Sizes, bench, layout, registers};
use crate::Description;

/// Samples of a packet in the proofs \[byte\]: four words, as `formal/packetiser.sby` says.
const PROOF_PAYLOAD_BYTES: u64 = 32;

/// Path and text of the hand-written files, and whether they are programs.
const FIXED: [(&str, &str, bool); 16] = [
    ("Makefile", include_str!("../../gateware/Makefile"), false),
    ("requirements.txt", include_str!("../../gateware/requirements.txt"), false),
    ("rtl/flx_core.sv", include_str!("../../gateware/rtl/flx_core.sv"), false),
    ("rtl/flx_packetiser.sv", include_str!("../../gateware/rtl/flx_packetiser.sv"), false),
    ("rtl/flx_icrc.sv", include_str!("../../gateware/rtl/flx_icrc.sv"), false),
    ("rtl/flx_responder.sv", include_str!("../../gateware/rtl/flx_responder.sv"), false),
    ("rtl/flx_registers.sv", include_str!("../../gateware/rtl/flx_registers.sv"), false),
    ("sim/main.cpp", include_str!("../../gateware/sim/main.cpp"), false),
    ("sim/tap.sh", include_str!("../../gateware/sim/tap.sh"), true),
    ("sim/compare.py", include_str!("../../gateware/sim/compare.py"), true),
    ("test/core_bench.py", include_str!("../../gateware/test/core_bench.py"), false),
    ("test/run_cocotb.py", include_str!("../../gateware/test/run_cocotb.py"), true),
    ("formal/packetiser.sby", include_str!("../../gateware/formal/packetiser.sby"), false),
    (
        "formal/flx_packetiser_props.svh",
        include_str!("../../gateware/formal/flx_packetiser_props.svh"),
        false,
    ),
    ("formal/icrc.sby", include_str!("../../gateware/formal/icrc.sby"), false),
    ("formal/flx_icrc_props.svh", include_str!("../../gateware/formal/flx_icrc_props.svh"), false),
];

/// Returns all files, the generated ones last.
pub(super) fn files(
    description: &Description,
    text: &str,
    header: &Header,
    sizes: &Sizes,
) -> Vec<GatewareFile> {
    let mut files: Vec<_> = FIXED
        .iter()
        .map(|&(path, text, is_program)| GatewareFile { path, text: text.to_string(), is_program })
        .collect();
    let mut add = |path, text: String| files.push(GatewareFile { path, text, is_program: false });
    add("packet.toml", text.to_string());
    add("rtl/flx_layout.sv", layout::file(description, header, sizes));
    let small = Sizes { payload: PROOF_PAYLOAD_BYTES, ..*sizes };
    add("formal/flx_layout.sv", layout::file(description, header, &small));
    add("test/layout.py", bench::layout(header, sizes));
    add("sim/layout.h", bench::sizes(sizes));
    if sizes.link == GatewareLink::Roce {
        add("roce.toml", bench::receiver(description, sizes));
    }
    add("registers.md", registers::page());
    add("flx_registers.h", registers::c_header());
    files
}
