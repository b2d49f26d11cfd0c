//! The program as it grows while packet types are compiled: instructions, tables, constants.

use alloc::vec::Vec;

use super::instruction::{FIRST_FREE, ONE, REGISTERS_MAX, Register, ZERO};
use super::program::Program;

/// One of the two passes of compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    CollectConstants,
    Emit,
}

/// The program as it grows, shared by the packet types.
pub(crate) struct Output {
    pub program: Program,
    pub constants: Vec<u64>,
    pub pass: Pass,
    /// More registers or instructions are needed than there are.
    pub overflow: bool,
}

impl Output {
    pub fn new(constants: Vec<u64>, pass: Pass) -> Output {
        let mut template = [0; REGISTERS_MAX];
        template[usize::from(ONE)] = 1;
        for (register, &constant) in template[FIRST_FREE..].iter_mut().zip(&constants) {
            *register = constant;
        }
        let overflow = FIRST_FREE + constants.len() > REGISTERS_MAX;
        let program = Program {
            ops: Vec::new(),
            template,
            registers: FIRST_FREE + constants.len(),
            window_loads: Vec::new(),
            one_of: Vec::new(),
            lists: Vec::new(),
            texts: Vec::new(),
            crcs: Vec::new(),
            roles: Vec::new(),
            rule_packets: Vec::new(),
        };
        Output { program, constants, pass, overflow }
    }

    /// The register that holds a constant.
    pub fn constant(&mut self, value: u64) -> Register {
        match value {
            0 => return ZERO,
            1 => return ONE,
            _ => {}
        }
        let found = self.constants.iter().position(|&constant| constant == value);
        let index = found.unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        });
        // In the first pass the number is of no consequence.
        match self.pass {
            Pass::CollectConstants => ZERO,
            Pass::Emit => self.register(FIRST_FREE + index),
        }
    }

    /// Register number `index`, taken into use.
    pub fn register(&mut self, index: usize) -> Register {
        self.overflow |= index >= REGISTERS_MAX;
        let register = u8::try_from(index).unwrap_or(u8::MAX);
        self.program.registers = self.program.registers.max(usize::from(register) + 1);
        register
    }
}
