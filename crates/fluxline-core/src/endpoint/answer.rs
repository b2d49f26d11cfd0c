//! Answers to reads and atomics, and refusals: those that wait to be sent, and those that are kept
//! to be given again.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::requester::READS_MAX;
use super::wire::Wire;
use crate::fabric::Memory;
use crate::port::Port;
use crate::roce::{Aeth, AtomicAckEth, Body, CreditCode, Headers, Msn, Psn, ReadPart, Syndrome};

/// Answers that wait to be sent, at most; a request beyond them counts as lost.
const ANSWERS_MAX: usize = 4 * READS_MAX;

/// An answer that is sent besides acknowledgements.
pub(super) enum Answer {
    /// The bytes of a read from `at` on.
    Read { psn: Psn, from: ReadData, at: u64 },
    /// The value of a word before an atomic operation.
    Word { psn: Psn, value: u64 },
    /// A refusal of the standard.
    Syndrome(Psn, Syndrome),
}

/// The bytes of a read.
#[derive(Clone)]
pub(super) enum ReadData {
    /// A copy from the time of the request.
    Copied(Arc<[u8]>),
    /// Too many bytes to copy: they are read when they are sent. Fluxline ends never ask for this
    /// many in one request.
    InPlace { memory: Arc<dyn Memory>, offset: u64, bytes: u64 },
}

impl ReadData {
    pub fn bytes(&self) -> u64 {
        match self {
            ReadData::Copied(bytes) => bytes.len() as u64,
            ReadData::InPlace { bytes, .. } => *bytes,
        }
    }

    fn copy(&self, at: u64, into: &mut [u8]) {
        match self {
            ReadData::Copied(bytes) => into.copy_from_slice(&bytes[at as usize..][..into.len()]),
            ReadData::InPlace { memory, offset, .. } => {
                if memory.read(offset + at, into).is_err() {
                    into.fill(0); // the bounds were checked with the request
                }
            }
        }
    }
}

/// Answers that wait to be sent, oldest first.
#[derive(Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
}

impl Answers {
    /// Returns true when no more requests can be answered now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= ANSWERS_MAX
    }

    /// Adds an answer. The caller checks [`Answers::is_full`] first.
    pub fn push(&mut self, answer: Answer) {
        self.waiting.push_back(answer);
    }

    /// Sends answers while the port has room, a long one frame by frame; returns how many frames.
    pub fn send<P: Port>(&mut self, payload_bytes: u64, msn: Msn, wire: &mut Wire<'_, P>) -> usize {
        let mut sent = 0;
        let aeth = Aeth { syndrome: Syndrome::Ack(CreditCode::UNLIMITED), msn };
        while let Some(front) = self.waiting.front_mut() {
            let left = match front {
                Answer::Word { psn, value } => {
                    let body = Body::AtomicAcknowledge(aeth, AtomicAckEth { original: *value });
                    if !wire.packet(&Headers::new(wire.to(), *psn, body), 0, |_| {}) {
                        return sent;
                    }
                    0
                }
                Answer::Syndrome(psn, syndrome) => {
                    let body = Body::Acknowledge(Aeth { syndrome: *syndrome, msn });
                    if !wire.packet(&Headers::new(wire.to(), *psn, body), 0, |_| {}) {
                        return sent;
                    }
                    0
                }
                Answer::Read { psn, from, at } => {
                    let left = from.bytes() - *at;
                    let count = left.min(payload_bytes);
                    let part = match (*at == 0, left <= payload_bytes) {
                        (true, true) => ReadPart::Only(aeth),
                        (true, false) => ReadPart::First(aeth),
                        (false, true) => ReadPart::Last(aeth),
                        (false, false) => ReadPart::Middle,
                    };
                    let headers = Headers::new(wire.to(), *psn, Body::ReadResponse(part));
                    if !wire.packet(&headers, count as usize, |into| from.copy(*at, into)) {
                        return sent;
                    }
                    *psn = psn.plus(1);
                    *at += count;
                    left - count
                }
            };
            sent += 1;
            if left == 0 {
                self.waiting.pop_front();
            }
        }
        sent
    }
}

/// The content of an answer that may have to be given again.
pub(super) enum KeptAnswer {
    Word(u64),
    Bytes(ReadData),
}

/// The last answers, by the numbers of their requests.
#[derive(Default)]
pub(super) struct KeptAnswers {
    kept: VecDeque<(u64, KeptAnswer)>,
}

impl KeptAnswers {
    pub fn keep(&mut self, number: u64, answer: KeptAnswer) {
        self.kept.push_back((number, answer));
        if self.kept.len() > 2 * READS_MAX {
            self.kept.pop_front();
        }
    }

    /// Returns the answer to the request with this number, while it is kept.
    pub fn get(&self, number: u64) -> Option<&KeptAnswer> {
        self.kept.iter().find(|(of, _)| *of == number).map(|(_, kept)| kept)
    }
}
