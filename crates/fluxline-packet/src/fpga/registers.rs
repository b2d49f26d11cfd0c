//! The registers of the gateware, as rows: the one place with address, access and meaning of each.
//!
//! A register has 32 bits. Settings are read and written at any time; counters are read from a
//! snapshot, which a write to `SNAPSHOT` takes of all of them in one cycle.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// The value of `IDENTITY`: "FLX" and the version of the map.
pub const IDENTITY_VALUE: u32 = 0x464C_5801;

/// The right to use a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may be read.
    Read,
    /// It may be read and written.
    ReadWrite,
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name.
    pub name: &'static str,
    /// Its address.
    pub address: u32,
    /// The right to use it.
    pub access: Access,
    /// Its meaning.
    pub help: &'static str,
}

const fn read(name: &'static str, address: u32, help: &'static str) -> Register {
    Register { name, address, access: Access::Read, help }
}

const fn write(name: &'static str, address: u32, help: &'static str) -> Register {
    Register { name, address, access: Access::ReadWrite, help }
}

/// All registers, by address.
pub const REGISTERS: &[Register] = &[
    read("IDENTITY", 0x00, "0x464C5801: \"FLX\" and the version of this map"),
    read("LAYOUT", 0x04, "number that tells the generated header from others"),
    write("CONTROL", 0x08, "bit 0: take samples; a change acts at the next block"),
    write(
        "GAP",
        0x0C,
        "least number of cycles from a frame's end to the next one's start, 16 bits",
    ),
    write("OWN_MAC_HIGH", 0x10, "own Ethernet address, upper 16 bits"),
    write("OWN_MAC_LOW", 0x14, "own Ethernet address, lower 32 bits"),
    write("OWN_IP", 0x18, "own IPv4 address"),
    write("PEER_MAC_HIGH", 0x1C, "the receiver's Ethernet address, upper 16 bits"),
    write("PEER_MAC_LOW", 0x20, "the receiver's Ethernet address, lower 32 bits"),
    write("PEER_IP", 0x24, "the receiver's IPv4 address"),
    write("PORTS", 0x28, "UDP ports: own in the upper, the receiver's in the lower 16 bits"),
    write("SOURCE", 0x2C, "the board's number, for the field of `source`"),
    write("SNAPSHOT", 0x30, "a write copies all counters of the ledger at once; reads as 0"),
    read("TAKEN_LOW", 0x40, "blocks of samples taken, lower 32 bits"),
    read("TAKEN_HIGH", 0x44, "blocks of samples taken, upper 32 bits"),
    read("DROPPED_LOW", 0x48, "blocks dropped because the FIFO was full, lower 32 bits"),
    read("DROPPED_HIGH", 0x4C, "blocks dropped because the FIFO was full, upper 32 bits"),
    read("SENT_LOW", 0x50, "packets sent, lower 32 bits"),
    read("SENT_HIGH", 0x54, "packets sent, upper 32 bits"),
    read("WAITING", 0x58, "blocks that wait in the FIFO, the one being sent included"),
    read("ARP_REPLIES", 0x5C, "ARP requests answered, not of the snapshot"),
    read("ECHO_REPLIES", 0x60, "pings answered, not of the snapshot"),
    read("REGISTER_REPLIES", 0x64, "register accesses answered, not of the snapshot"),
    read("REQUESTS_MISSED", 0x68, "frames that came while a request was answered"),
    read("FRAMES_WRONG", 0x6C, "requests cut short, too long, or with a wrong check sum"),
    write("DEST_QP", 0x80, "RoCEv2: the receiver's queue pair, 24 bits"),
    write("RKEY", 0x84, "RoCEv2: the key of the receiver's memory"),
    write(
        "RING_BASE_HIGH",
        0x88,
        "RoCEv2: address of the ring's first byte, upper 32 bits; a write to this register or one \
         of the three below begins again at the first slot and at FIRST_PSN",
    ),
    write("RING_BASE_LOW", 0x8C, "RoCEv2: address of the ring's first byte, lower 32 bits"),
    write(
        "RING_BYTES",
        0x90,
        "RoCEv2: size of the ring in bytes; below one slot, no samples are taken: write it last",
    ),
    write("FIRST_PSN", 0x94, "RoCEv2: number of the next frame, 24 bits"),
];

/// Returns the register of that name, in upper or lower case.
#[must_use]
pub fn named(name: &str) -> Option<&'static Register> {
    REGISTERS.iter().find(|register| register.name.eq_ignore_ascii_case(name))
}

/// Returns the map as a SystemVerilog package.
pub(super) fn package() -> String {
    let mut out = String::from("package flx_map_pkg;\n");
    let _ = writeln!(out, "  localparam [31:0] IDENTITY_VALUE = 32'h{IDENTITY_VALUE:08x};");
    for Register { name, address, .. } in REGISTERS {
        let _ = writeln!(out, "  localparam [31:0] {name} = 32'h{address:02x};");
    }
    out.push_str("endpackage\n");
    out
}

/// Returns the map as a C header.
pub(super) fn c_header() -> String {
    let mut out = String::from(
        "/* Registers of the gateware. Made by `fluxline format fpga`; do not edit. */\n\
         #ifndef FLX_REGISTERS_H\n#define FLX_REGISTERS_H\n\n",
    );
    let _ = writeln!(out, "#define FLX_IDENTITY_VALUE 0x{IDENTITY_VALUE:08X}u");
    for Register { name, address, help, .. } in REGISTERS {
        let define = format!("#define FLX_{name} 0x{address:02X}u");
        let _ = writeln!(out, "{define:<40} /* {help} */");
    }
    out.push_str("\n#endif\n");
    out
}

/// Returns the map as a page of Markdown.
pub(super) fn page() -> String {
    let mut out = String::from(
        "# Registers\n\n\
         Made by `fluxline format fpga`. `fluxline fpga read ADDRESS NAME` and `write` use these \
         names.\n\n| address | name | access | meaning |\n| --- | --- | --- | --- |\n",
    );
    for Register { name, address, access, help } in REGISTERS {
        let access = match access {
            Access::Read => "read",
            Access::ReadWrite => "read, write",
        };
        let _ = writeln!(out, "| 0x{address:02X} | `{name}` | {access} | {help} |");
    }
    out
}
