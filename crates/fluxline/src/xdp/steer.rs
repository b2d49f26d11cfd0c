//! The program that the interface runs on each frame that arrives: datagrams to our port and one of
//! our addresses go to the AF_XDP socket of their queue; all other frames continue to the kernel
//! unchanged.
//!
//! Assembled here, because there is no compiler at run time: about a hundred instructions, no
//! loops, no state. Source: Linux Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::bpf;

/// Most addresses; each is compared in turn.
pub(super) const ADDRESSES_MAX: usize = 32;

/// `XDP_PASS`: on to the kernel.
const PASS: i32 = 2;
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;

// Registers: r0 result, r1 to r5 arguments and scratch, r6 to r9 kept over calls.
const CONTEXT: u8 = 6;
const DATA: u8 = 2;
const DATA_END: u8 = 3;
const LIMIT: u8 = 4;
const VALUE: u8 = 5;

// Offsets in `struct xdp_md`.
const AT_DATA: i16 = 0;
const AT_DATA_END: i16 = 4;
const AT_QUEUE: i16 = 16;

// Instruction classes with their operation: width of a load, comparison or computation.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const LOAD_MAP: u8 = 0x18;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const JUMP: u8 = 0x05;
const IF_EQUAL: u8 = 0x15;
const IF_NOT_EQUAL: u8 = 0x55;
const IF_WORD_EQUAL: u8 = 0x16;
const IF_WORD_NOT_EQUAL: u8 = 0x56;
const IF_ABOVE_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The kind of a map's descriptor in [`LOAD_MAP`]: `BPF_PSEUDO_MAP_FD`.
const MAP_DESCRIPTOR: u8 = 1;

// Ethernet: types, and the bits of a tag that name the VLAN.
const TYPE_V4: u16 = 0x0800;
const TYPE_V6: u16 = 0x86dd;
const TYPE_VLAN: u16 = 0x8100;
const VLAN_BITS: u16 = 0x0fff;
const UDP: i32 = 17;

/// Loads the program: `addresses` and `port` are ours, `map` holds the sockets by queue.
pub(super) fn load(
    addresses: &[IpAddr],
    port: u16,
    map: &OwnedFd,
    fragments: bool,
) -> io::Result<OwnedFd> {
    bpf::load(&assemble(addresses, port, map.as_raw_fd(), PASS), fragments)
}

/// A target of jumps in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Pass,
    Steer,
    Tagged,
    V4 {
        at: i16,
    },
    V6 {
        at: i16,
    },
    /// After address `index` of the list for headers at `at`.
    Next {
        at: i16,
        index: usize,
    },
}

#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    /// Layout of an instruction: operation 8 bit, target 4, source 4, offset 16, immediate 32.
    fn put(&mut self, operation: u8, target: u8, source: u8, offset: i16, immediate: i32) {
        let registers = u64::from(target | source << 4) << 8;
        let offset = u64::from(offset as u16) << 16;
        let immediate = u64::from(immediate as u32) << 32;
        self.code.push(u64::from(operation) | registers | offset | immediate);
    }

    /// Loads from the frame into [`VALUE`].
    fn load(&mut self, width: u8, at: i16) {
        self.put(width, VALUE, DATA, at, 0);
    }

    /// Compares [`VALUE`] and jumps.
    fn jump_if(&mut self, condition: u8, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(condition, VALUE, 0, 0, immediate);
    }

    fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(JUMP, 0, 0, 0, 0);
    }

    /// Passes shorter frames to the kernel; the verifier requires this check before each load.
    fn needs(&mut self, bytes: i16) {
        self.put(MOVE_REGISTER, LIMIT, DATA, 0, 0);
        self.put(ADD, LIMIT, 0, 0, i32::from(bytes));
        self.jumps.push((self.code.len(), Label::Pass));
        self.put(IF_ABOVE_REGISTER, LIMIT, DATA_END, 0, 0);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn finish(mut self) -> Vec<u64> {
        for (jump, label) in &self.jumps {
            let (_, place) =
                self.labels.iter().find(|(name, _)| name == label).expect("every label is placed");
            // A jump counts from the instruction after it; all are forward.
            let offset = (place - jump - 1) as u64;
            self.code[*jump] |= offset << 16;
        }
        self.code
    }
}

/// Returns the value that a load from the frame yields.
fn half(value: u16) -> i32 {
    i32::from(value.to_be())
}

fn word(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Assembles the program; `missed` is the action for our frames on a queue without a socket.
fn assemble(addresses: &[IpAddr], port: u16, map: i32, missed: i32) -> Vec<u64> {
    let mut program = Assembler::default();
    program.put(MOVE_REGISTER, CONTEXT, 1, 0, 0);
    program.put(LOAD_WORD, DATA, CONTEXT, AT_DATA, 0);
    program.put(LOAD_WORD, DATA_END, CONTEXT, AT_DATA_END, 0);
    program.needs(18);
    program.load(LOAD_HALF, 12);
    program.jump_if(IF_EQUAL, half(TYPE_VLAN), Label::Tagged);
    by_type(&mut program, 14);
    program.label(Label::Tagged);
    // A tag that has only a priority; other VLANs belong to other interfaces.
    program.load(LOAD_HALF, 14);
    program.put(AND, VALUE, 0, 0, half(VLAN_BITS));
    program.jump_if(IF_NOT_EQUAL, 0, Label::Pass);
    program.load(LOAD_HALF, 16);
    by_type(&mut program, 18);
    for at in [14, 18] {
        v4(&mut program, at, addresses, port);
        v6(&mut program, at, addresses, port);
    }
    program.label(Label::Steer);
    program.put(LOAD_WORD, 2, CONTEXT, AT_QUEUE, 0);
    program.put(LOAD_MAP, 1, MAP_DESCRIPTOR, 0, map);
    program.put(0, 0, 0, 0, 0); // The upper half of the 64-bit value.
    program.put(MOVE, 3, 0, 0, missed);
    program.put(CALL, 0, 0, 0, REDIRECT_MAP);
    program.put(EXIT, 0, 0, 0, 0);
    program.label(Label::Pass);
    program.put(MOVE, 0, 0, 0, PASS);
    program.put(EXIT, 0, 0, 0, 0);
    program.finish()
}

/// Continues by the EtherType at `at`; [`VALUE`] has it.
fn by_type(program: &mut Assembler, at: i16) {
    program.jump_if(IF_EQUAL, half(TYPE_V4), Label::V4 { at });
    program.jump_if(IF_EQUAL, half(TYPE_V6), Label::V6 { at });
    program.jump(Label::Pass);
}

/// IPv4 without options, no fragment, UDP, our port, one of our addresses. RFC 791 §3.1.
fn v4(program: &mut Assembler, at: i16, addresses: &[IpAddr], port: u16) {
    program.label(Label::V4 { at });
    program.needs(at + 28);
    program.load(LOAD_BYTE, at);
    program.jump_if(IF_NOT_EQUAL, 0x45, Label::Pass);
    program.load(LOAD_HALF, at + 6);
    program.put(AND, VALUE, 0, 0, half(0x3fff)); // All except "do not fragment".
    program.jump_if(IF_NOT_EQUAL, 0, Label::Pass);
    program.load(LOAD_BYTE, at + 9);
    program.jump_if(IF_NOT_EQUAL, UDP, Label::Pass);
    program.load(LOAD_HALF, at + 22);
    program.jump_if(IF_NOT_EQUAL, half(port), Label::Pass);
    program.load(LOAD_WORD, at + 16);
    for address in addresses {
        if let IpAddr::V4(address) = address {
            program.jump_if(IF_WORD_EQUAL, word(&address.octets()), Label::Steer);
        }
    }
    program.jump(Label::Pass);
}

/// IPv6 without extension headers, UDP, our port, one of our addresses. RFC 8200 §3.
fn v6(program: &mut Assembler, at: i16, addresses: &[IpAddr], port: u16) {
    program.label(Label::V6 { at });
    program.needs(at + 48);
    program.load(LOAD_BYTE, at);
    program.put(AND, VALUE, 0, 0, 0xf0);
    program.jump_if(IF_NOT_EQUAL, 0x60, Label::Pass);
    program.load(LOAD_BYTE, at + 6);
    program.jump_if(IF_NOT_EQUAL, UDP, Label::Pass);
    program.load(LOAD_HALF, at + 42);
    program.jump_if(IF_NOT_EQUAL, half(port), Label::Pass);
    for (index, address) in addresses.iter().enumerate() {
        let IpAddr::V6(address) = address else { continue };
        let next = Label::Next { at, index };
        for (offset, part) in (at + 24..).step_by(4).zip(address.octets().chunks(4)) {
            program.load(LOAD_WORD, offset);
            program.jump_if(IF_WORD_NOT_EQUAL, word(part), next);
        }
        program.jump(Label::Steer);
        program.label(next);
    }
    program.jump(Label::Pass);
}

#[cfg(test)]
pub(super) mod tests_only {
    use super::*;

    /// Returns the program's verdicts on frames, with an empty map and that action instead of a
    /// socket.
    pub(in crate::xdp) fn verdicts(
        addresses: &[IpAddr],
        port: u16,
        missed: u32,
        frames: &[Vec<u8>],
    ) -> io::Result<Vec<u32>> {
        let map = bpf::socket_map(1)?;
        let code = assemble(addresses, port, map.as_raw_fd(), missed as i32);
        let program = bpf::load(&code, false)?;
        frames.iter().map(|frame| bpf::test_run(&program, frame)).collect()
    }
}
