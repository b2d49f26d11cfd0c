//! Reads and atomics: requests with an answer.

use alloc::sync::Arc;

use super::super::answer::{Answer, Answers, KeptAnswer, ReadData};
use super::super::context::Context;
use super::{Executor, Outcome};
use crate::fabric::{AccessError, Memory, Rights, Status};
use crate::roce::{AtomicEth, Body, Packet, Psn, Reth};

/// Longer reads are not copied when they are requested. More than any frame holds \[byte\].
const COPIED_BYTES_MAX: usize = 1 << 16;

impl Executor {
    /// Does the read with this number; its answer waits in `answers`.
    pub(super) fn read(
        &mut self,
        number: u64,
        reth: Reth,
        answers: &mut Answers,
        context: &Context<'_>,
    ) -> Outcome {
        if answers.is_full() {
            return Outcome::Busy;
        }
        let from = match self.find(reth, context) {
            Ok(from) => from,
            Err(status) => return Outcome::Refused(status),
        };
        self.kept.keep(number, KeptAnswer::Bytes(from.clone()));
        answers.push(Answer::Read { psn: psn_of(number), from, at: 0 });
        self.messages = self.messages.wrapping_add(1);
        Outcome::Next(reth.bytes.div_ceil(self.payload_bytes as u32).max(1))
    }

    /// Returns the bytes that a read asks for.
    fn find(&self, reth: Reth, context: &Context<'_>) -> Result<ReadData, Status> {
        let range = context.granted_range(reth.into(), |rights: Rights| rights.get)?;
        let (memory, offset) = (range.memory, range.offset);
        if reth.bytes as usize > COPIED_BYTES_MAX {
            let (memory, bytes) = (Arc::clone(memory), u64::from(reth.bytes));
            return Ok(ReadData::InPlace { memory, offset, bytes });
        }
        let mut bytes = alloc::vec![0; reth.bytes as usize];
        memory.read(offset, &mut bytes).map_err(|_| Status::OutOfRegion)?;
        Ok(ReadData::Copied(bytes.into()))
    }

    /// Does the atomic with this number: `act` changes the word and returns its old value.
    pub(super) fn word(
        &mut self,
        number: u64,
        at: AtomicEth,
        answers: &mut Answers,
        context: &Context<'_>,
        act: impl FnOnce(&dyn Memory, u64) -> Result<u64, AccessError>,
    ) -> Result<(), Outcome> {
        if answers.is_full() {
            return Err(Outcome::Busy);
        }
        let range = context.granted_range(at.into(), |rights: Rights| rights.atomic);
        let range = range.map_err(Outcome::Refused)?;
        if !range.offset.is_multiple_of(8) {
            return Err(Outcome::Refused(Status::Unaligned));
        }
        let value = act(&**range.memory, range.offset);
        let value = value.map_err(|_| Outcome::Refused(Status::OutOfRegion))?;
        self.kept.keep(number, KeptAnswer::Word(value));
        self.messages = self.messages.wrapping_add(1);
        answers.push(Answer::Word { psn: psn_of(number), value });
        Ok(())
    }

    /// Repeats the answer to a request that was done before. A read whose answer is no longer kept
    /// is done again.
    pub fn repeat(
        &mut self,
        number: u64,
        packet: &Packet<'_>,
        answers: &mut Answers,
        context: &Context<'_>,
    ) {
        if answers.is_full() {
            return;
        }
        let psn = packet.headers().psn;
        match (self.kept.get(number), packet.headers().body) {
            (Some(KeptAnswer::Word(value)), Body::FetchAdd(_) | Body::CompareSwap(_)) => {
                answers.push(Answer::Word { psn, value: *value });
            }
            (Some(KeptAnswer::Bytes(from)), Body::ReadRequest(reth))
                if from.bytes() == u64::from(reth.bytes) =>
            {
                answers.push(Answer::Read { psn, from: from.clone(), at: 0 });
            }
            (_, Body::ReadRequest(reth)) => {
                if let Ok(from) = self.find(reth, context) {
                    answers.push(Answer::Read { psn, from, at: 0 });
                }
            }
            _ => {}
        }
    }
}

/// Returns the PSN of a request: its number, counted without wrapping, modulo 2^24.
fn psn_of(number: u64) -> Psn {
    Psn::new(number as u32)
}
