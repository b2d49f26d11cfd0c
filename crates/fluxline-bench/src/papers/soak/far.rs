//! The far end of a slice: compares everything that arrives, counts it, and answers.

use std::collections::VecDeque;

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, EndpointId, Fabric, Operation};
use serde_json::Value;

use super::near::{END, HELLO, MESSAGE_ANSWER, READY};
use super::slice::{self, Account, Ledger, MESSAGE_BYTES, Slice, WORD_BEFORE_END};
use crate::Error;
use crate::role::{Role, Site, Step};

/// Completions handled in one step at most.
const STEP_MAX: u32 = 16;

/// Compares and counts.
pub struct Witness {
    slice: Slice,
    /// Answers that wait for room in the queue.
    owed: VecDeque<u32>,
    /// The open connections of this slice.
    standing: Vec<EndpointId>,
    /// The number of connections that the near end counts; `None`: it has not ended.
    connections: Option<u64>,
    ledger: Ledger,
    scratch: Vec<u8>,
    expected: Vec<u8>,
}

/// The bytes of a put, in this end's arena.
#[derive(Clone, Copy)]
struct Put {
    offset: u64,
    bytes: u64,
}

impl Witness {
    /// Makes the far end of a slice.
    pub fn new(slice: Slice) -> Witness {
        Witness {
            slice,
            owed: VecDeque::new(),
            standing: Vec::new(),
            connections: None,
            ledger: Ledger::default(),
            scratch: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Zero in the word, and a buffer for the first message.
    fn prepare(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<(), Error> {
        site.memory.store(site.half_bytes - WORD_BEFORE_END, 0)?;
        self.post_buffer(site, fabric)?;
        self.owed.push_back(READY);
        Ok(())
    }

    fn post_buffer(&self, site: &Site, fabric: &mut dyn Fabric) -> Result<(), Error> {
        Ok(fabric.post_receive(site.endpoint, 0, site.outgoing(0, MESSAGE_BYTES))?)
    }

    /// Returns true if the bytes read are those of that number.
    fn is_whole(&mut self, number: u64, from: usize) -> bool {
        let bytes = (self.scratch.len() - from) as u64;
        slice::fill(&mut self.expected, self.slice.seed, number, bytes);
        let is_whole = self.scratch[from..] == self.expected[..];
        self.ledger.damaged += u64::from(!is_whole);
        is_whole
    }

    fn put(&mut self, site: &Site, number: u32, put: Put) -> Result<(), Error> {
        self.scratch.resize(put.bytes as usize, 0);
        site.memory.read(put.offset, &mut self.scratch)?;
        let is_whole = self.is_whole(u64::from(number), 0);
        self.ledger.puts += 1;
        self.ledger.put_bytes += put.bytes;
        self.owed.push_back(number << 1 | u32::from(is_whole));
        Ok(())
    }

    fn message(&mut self, site: &Site, fabric: &mut dyn Fabric, bytes: u64) -> Result<(), Error> {
        self.scratch.resize(bytes as usize, 0);
        site.memory.read(site.half_bytes, &mut self.scratch)?;
        let word = |index: usize| {
            let word = self.scratch.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        let short = || Error::Defect { what: format!("a message of {bytes} B has no number") };
        let number = word(0).ok_or_else(short)?;
        if number == END {
            self.connections = Some(word(1).ok_or_else(short)?);
            return Ok(());
        }
        let is_whole = self.is_whole(number, 8);
        self.ledger.messages += 1;
        self.ledger.message_bytes += bytes;
        self.post_buffer(site, fabric)?;
        let number = (number as u32) << 1;
        self.owed.push_back(MESSAGE_ANSWER | number | u32::from(is_whole));
        Ok(())
    }

    fn handle(
        &mut self,
        what: &Completion,
        site: &Site,
        fabric: &mut dyn Fabric,
    ) -> Result<(), Error> {
        match *what {
            Completion::Notified { value, offset, bytes, .. } => match site.noticed(value) {
                Some(HELLO) => self.prepare(site, fabric),
                Some(number) => self.put(site, number, Put { offset, bytes }),
                None => Ok(()),
            },
            Completion::Done { operation: Operation::Receive, value, .. } => {
                self.message(site, fabric, value)
            }
            Completion::Connected { endpoint, .. } => {
                self.standing.push(endpoint);
                Ok(())
            }
            Completion::Broken { endpoint, .. } => {
                let standing = self.standing.iter().position(|one| *one == endpoint);
                if let Some(index) = standing {
                    self.standing.swap_remove(index);
                    self.ledger.connections += 1;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let mut worked = false;
        while let Some(value) = self.owed.front() {
            if !site.note(fabric, *value)? {
                break;
            }
            self.owed.pop_front();
            worked = true;
        }
        Ok(worked)
    }
}

impl Role for Witness {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        slice::check_space(site)?;
        let mut worked =
            site.poll_each(fabric, now, STEP_MAX, |what, fabric| self.handle(&what, site, fabric))?;
        worked |= self.answer(site, fabric)?;
        if self.owed.is_empty() && self.connections == Some(self.ledger.connections) {
            self.ledger.added = site.memory.load(site.half_bytes - WORD_BEFORE_END)?;
            return Ok(Step::Done);
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        let resident_bytes = slice::resident_bytes();
        let account = Account { ledger: self.ledger, resident_bytes, ..Account::default() };
        serde_json::to_value(account).unwrap_or_default()
    }
}
