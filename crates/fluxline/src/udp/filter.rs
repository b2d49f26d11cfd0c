//! The program that the kernel runs on each datagram to a shared port, to choose its socket.
//!
//! It is classic BPF, which needs no rights, and reads the datagram's payload; a load beyond the
//! end ends it with 0. Its result is the index of a socket, in the order of binding. The rule is
//! that of [`fluxline_core::endpoint::Owner`]; a test compares both.
//! Source: Linux Documentation/networking/filter.rst; socket(7), SO_ATTACH_REUSEPORT_CBPF.

use fluxline_core::endpoint::owner::{at, value};

use crate::sys::socket::FilterStep;

// Operations. Source: <linux/bpf_common.h>.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const LOAD_VALUE: u16 = 0x00;
const AND: u16 = 0x54;
const MODULO: u16 = 0x94;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_RESULT: u16 = 0x16;

/// The bits of a queue pair in its word.
const PAIR_MASK: u32 = 0x00FF_FFFF;

/// A target of jumps in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    /// A set-up frame.
    Greeting,
    /// Behind a kind of set-up frame.
    Behind(u32),
    /// The frame names no node.
    Nobody,
    /// The result so far is the number of a node.
    Number,
}

/// The branch of a comparison, or a jump.
#[derive(Clone, Copy)]
enum Branch {
    IfEqual,
    IfOther,
    Always,
}

struct Jump {
    step: usize,
    branch: Branch,
    to: Label,
}

#[derive(Default)]
struct Assembler {
    steps: Vec<FilterStep>,
    jumps: Vec<Jump>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn put(&mut self, operation: u16, operand: usize) {
        let operand = operand as u32;
        self.steps.push(FilterStep { operation, if_true: 0, if_false: 0, operand });
    }

    fn jump(&mut self, branch: Branch, operand: u32, to: Label) {
        self.jumps.push(Jump { step: self.steps.len(), branch, to });
        let operation = if matches!(branch, Branch::Always) { JUMP } else { IF_EQUAL };
        self.put(operation, operand as usize);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.steps.len()));
    }

    fn finish(mut self) -> Vec<FilterStep> {
        for Jump { step, branch, to } in self.jumps {
            let found = self.labels.iter().find(|(label, _)| *label == to);
            let (_, target) = found.expect("every label is placed");
            // A jump counts from the step after it; all are forward and short.
            let over = target - step - 1;
            match branch {
                Branch::IfEqual => self.steps[step].if_true = over as u8,
                Branch::IfOther => self.steps[step].if_false = over as u8,
                Branch::Always => self.steps[step].operand = over as u32,
            }
        }
        self.steps
    }
}

/// Returns the program for sockets of which those with `true` have a reader. Datagrams of another
/// one go to the next that has.
pub(super) fn program(readers: &[bool]) -> Vec<FilterStep> {
    let mut program = Assembler::default();
    program.put(LOAD_WORD, at::PAIR_WORD);
    program.put(AND, PAIR_MASK as usize);
    program.jump(Branch::IfOther, value::SETUP_PAIR, Label::Number);
    program.put(LOAD_BYTE, 0);
    program.jump(Branch::IfEqual, value::SETUP.into(), Label::Greeting);
    program.jump(Branch::IfOther, value::MANAGEMENT.into(), Label::Nobody);
    program.put(LOAD_WORD, at::RECEIVER_ID);
    program.jump(Branch::IfOther, 0, Label::Number);
    program.put(LOAD_WORD, at::SENDER_ID);
    program.jump(Branch::Always, 0, Label::Number);
    program.label(Label::Greeting);
    program.put(LOAD_BYTE, at::SETUP_KIND);
    for (kind, nonce) in (1..).zip(at::NONCE) {
        program.jump(Branch::IfOther, kind, Label::Behind(kind));
        program.put(LOAD_BYTE, nonce);
        program.jump(Branch::Always, 0, Label::Number);
        program.label(Label::Behind(kind));
    }
    program.label(Label::Nobody);
    program.put(LOAD_VALUE, 0);
    program.label(Label::Number);
    program.put(MODULO, readers.len().max(1));
    let mut steps = program.finish();
    steps.extend(detours(readers));
    steps.push(FilterStep { operation: RETURN_RESULT, if_true: 0, if_false: 0, operand: 0 });
    steps
}

/// Returns the steps around the sockets without a reader: two for each.
fn detours(readers: &[bool]) -> Vec<FilterStep> {
    let count = readers.len();
    let without = (0..count).filter(|index| !readers[*index]);
    let detour = without.filter_map(|index| {
        let next = (1..count).map(|step| (index + step) % count).find(|next| readers[*next])?;
        let (operand, next) = (index as u32, next as u32);
        Some([
            FilterStep { operation: IF_EQUAL, if_true: 0, if_false: 1, operand },
            FilterStep { operation: RETURN, if_true: 0, if_false: 0, operand: next },
        ])
    });
    detour.flatten().collect()
}
