//! The near end of a slice: draws operations, several under way, and compares the data read back.

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Level, Local, Operation, Reliability, Work,
};
use fluxline_core::random::Draw;
use serde_json::Value;

use super::slice::{
    self, Account, Ledger, MESSAGE_BYTES, SLOT_BYTES, SLOTS, Slice, WORD_BEFORE_END,
};
use crate::Error;
use crate::role::{Role, Site, Step, Transfer};

/// The bit of an answer to a message; see [`super::far`].
pub const MESSAGE_ANSWER: u32 = 0x80_0000;
/// The near end's first word. It speaks first: words that arrive before its trial begins are lost.
pub const HELLO: u32 = 0xFF_FFFE;
/// The far end's answer when its word is zero and its buffer posted.
pub const READY: u32 = 0xFF_FFFF;
/// Number of the message that ends the far end.
pub const END: u64 = u64::MAX;
/// Completions handled, and operations begun, in one step at most.
const STEP_MAX: u32 = 16;

/// A slot in the peer's arena.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Number and size of the put whose content lies there.
    content: Option<(u64, u64)>,
    /// A put waits for its answer, or a get for its bytes.
    is_busy: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    Get,
    Add,
    Message,
    Connection,
}

/// Draws and posts.
pub struct Worker {
    slice: Slice,
    draw: Draw,
    slots: [Slot; SLOTS as usize],
    /// The operation that was drawn and could not begin yet.
    next: Option<Kind>,
    begun: u64,
    finished: u64,
    is_greeted: bool,
    is_ready: bool,
    /// The addend of the addition under way.
    adding: Option<u64>,
    messaging: bool,
    /// Messages without a completion so far.
    sending: u64,
    connecting: Option<EndpointId>,
    ended: bool,
    ledger: Ledger,
    got_bytes: u64,
    scratch: Vec<u8>,
    expected: Vec<u8>,
}

impl Worker {
    /// Makes the near end of a slice.
    pub fn new(slice: Slice) -> Worker {
        Worker {
            slice,
            draw: Draw::new(slice.seed),
            slots: [Slot::default(); SLOTS as usize],
            next: None,
            begun: 0,
            finished: 0,
            is_greeted: false,
            is_ready: false,
            adding: None,
            messaging: false,
            sending: 0,
            connecting: None,
            ended: false,
            ledger: Ledger::default(),
            got_bytes: 0,
            scratch: Vec::new(),
            expected: Vec::new(),
        }
    }

    fn drawn(&mut self) -> Kind {
        if self.draw.below(1000) < self.slice.connections_permille {
            return Kind::Connection;
        }
        match self.draw.below(20) {
            0..11 => Kind::Put,
            11..15 => Kind::Get,
            15..17 => Kind::Add,
            _ => Kind::Message,
        }
    }

    /// Sizes of all magnitudes, each as often.
    fn size(&mut self, most: u64) -> u64 {
        let magnitude = self.draw.below(u64::from(most.ilog2()) + 1);
        (1 << magnitude | self.draw.below(1 << magnitude)).min(most)
    }

    /// Begins operations; returns true if there was one.
    fn begin(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if self.begun == self.slice.operations {
                break;
            }
            let kind = match self.next.take() {
                Some(kind) => kind,
                None => self.drawn(),
            };
            let has_begun = match kind {
                Kind::Put => self.put(site, fabric)?,
                Kind::Get => self.get(site, fabric)?,
                Kind::Add => self.add(site, fabric)?,
                Kind::Message => self.message(site, fabric)?,
                Kind::Connection => self.connect(site, fabric)?,
            };
            if !has_begun {
                self.next = Some(kind);
                break;
            }
            self.begun += 1;
            worked = true;
        }
        Ok(worked)
    }

    fn idle_slot(&mut self) -> Option<usize> {
        let first = self.draw.below(SLOTS) as usize;
        let all = (0..SLOTS as usize).map(|step| (first + step) % SLOTS as usize);
        let slots = &self.slots;
        all.into_iter().find(|slot| !slots[*slot].is_busy)
    }

    fn put(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let Some(slot) = self.idle_slot() else { return Ok(false) };
        let bytes = self.size(SLOT_BYTES);
        let offset = slot as u64 * SLOT_BYTES;
        slice::fill(&mut self.scratch, self.slice.seed, self.begun, bytes);
        site.memory.write(site.half_bytes + offset, &self.scratch)?;
        let from = match self.draw.chance(0.5) {
            true => Local::Region(site.outgoing(offset, bytes)),
            false => Local::Bytes(&self.scratch),
        };
        let notify = Some(site.notice(self.begun as u32));
        let work = Work::Put { from, to: site.there(offset), notify, complete_at: None };
        if !site.post(fabric, 0, work)? {
            return Ok(false);
        }
        self.slots[slot] = Slot { content: Some((self.begun, bytes)), is_busy: true };
        self.ledger.puts += 1;
        self.ledger.put_bytes += bytes;
        Ok(true)
    }

    fn get(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let Some(slot) = self.idle_slot() else { return Ok(false) };
        let Some((_, bytes)) = self.slots[slot].content else {
            // Nothing lies there yet: then something is put.
            return self.put(site, fabric);
        };
        let offset = slot as u64 * SLOT_BYTES;
        let work = Work::Get { from: site.there(offset), into: site.incoming(offset, bytes) };
        if !site.post(fabric, slot as u64, work)? {
            return Ok(false);
        }
        self.slots[slot].is_busy = true;
        Ok(true)
    }

    fn add(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        if self.adding.is_some() {
            return Ok(false);
        }
        let add = self.draw.bits();
        let at = site.there(site.half_bytes - WORD_BEFORE_END);
        if !site.post(fabric, 0, Work::FetchAdd { at, add })? {
            return Ok(false);
        }
        self.adding = Some(add);
        Ok(true)
    }

    /// A message: its number in front.
    fn message(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        if self.messaging {
            return Ok(false);
        }
        let bytes = 8 + self.size(MESSAGE_BYTES - 8).min(MESSAGE_BYTES - 8);
        slice::fill(&mut self.scratch, self.slice.seed, self.begun, bytes - 8);
        let mut message = self.begun.to_le_bytes().to_vec();
        message.extend(&self.scratch);
        if !self.send(site, fabric, &message)? {
            return Ok(false);
        }
        self.messaging = true;
        self.ledger.messages += 1;
        self.ledger.message_bytes += bytes;
        Ok(true)
    }

    fn send(&mut self, site: &Site, fabric: &mut dyn Fabric, bytes: &[u8]) -> Result<bool, Error> {
        let complete_at = Some(Level::Placed);
        let work = Work::Send { from: Local::Bytes(bytes), complete_at };
        let is_posted = site.post(fabric, 0, work)?;
        self.sending += u64::from(is_posted);
        Ok(is_posted)
    }

    fn connect(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        if self.connecting.is_some() {
            return Ok(false);
        }
        self.connecting = Some(fabric.connect(&site.peer, Reliability::Reliable)?);
        Ok(true)
    }

    fn handle(
        &mut self,
        what: &Completion,
        site: &Site,
        fabric: &mut dyn Fabric,
    ) -> Result<(), Error> {
        match *what {
            Completion::Notified { value, .. } => match site.noticed(value) {
                Some(READY) => self.is_ready = true,
                Some(answer) => self.answered(answer)?,
                None => {}
            },
            Completion::Done { operation: Operation::Send, .. } => self.sending -= 1,
            Completion::Done { operation: Operation::Get, tag, .. } => {
                self.got(site, tag as usize)?;
            }
            Completion::Done { operation: Operation::FetchAdd, value, .. } => self.added(value)?,
            Completion::Connected { endpoint, .. } if self.connecting == Some(endpoint) => {
                fabric.disconnect(endpoint)?;
                self.connecting = None;
                self.ledger.connections += 1;
                self.finished += 1;
            }
            Completion::Broken { endpoint, status } if self.connecting == Some(endpoint) => {
                return Err(Error::Refused(format!("one more connection: {status}")));
            }
            _ => {}
        }
        Ok(())
    }

    /// A put was compared, or a message.
    fn answered(&mut self, answer: u32) -> Result<(), Error> {
        let is_whole = answer & 1 == 1;
        let number = u64::from(answer & (MESSAGE_ANSWER - 1)) >> 1;
        let what = if answer & MESSAGE_ANSWER != 0 { "message" } else { "put" };
        if !is_whole {
            return Err(self.damaged(what, number));
        }
        self.finished += 1;
        if answer & MESSAGE_ANSWER != 0 {
            self.messaging = false;
            return Ok(());
        }
        let is_its =
            |slot: &&mut Slot| slot.is_busy && slot.content.is_some_and(|(of, _)| of == number);
        let Some(slot) = self.slots.iter_mut().find(is_its) else {
            let what = format!("an answer to put {number}, which is not under way");
            return Err(Error::Defect { what });
        };
        slot.is_busy = false;
        Ok(())
    }

    fn damaged(&self, what: &str, number: u64) -> Error {
        let seed = self.slice.seed;
        Error::Defect {
            what: format!("{what} {number} of the slice of seed {seed} arrived damaged"),
        }
    }

    fn got(&mut self, site: &Site, slot: usize) -> Result<(), Error> {
        let content = self.slots.get(slot).and_then(|slot| slot.content);
        let Some((number, bytes)) = content else {
            return Err(Error::Defect { what: "an unexpected get".to_owned() });
        };
        self.scratch.resize(bytes as usize, 0);
        site.memory.read(slot as u64 * SLOT_BYTES, &mut self.scratch)?;
        slice::fill(&mut self.expected, self.slice.seed, number, bytes);
        if self.scratch != self.expected {
            return Err(self.damaged("the content read back of put", number));
        }
        self.slots[slot].is_busy = false;
        self.got_bytes += bytes;
        self.finished += 1;
        Ok(())
    }

    fn added(&mut self, before: u64) -> Result<(), Error> {
        let Some(add) = self.adding.take() else {
            return Err(Error::Defect { what: "an unexpected addition".to_owned() });
        };
        if before != self.ledger.added {
            let (seed, expected) = (self.slice.seed, self.ledger.added);
            let what =
                format!("the word was {before}, not {expected}, in the slice of seed {seed}");
            return Err(Error::Defect { what });
        }
        self.ledger.added = before.wrapping_add(add);
        self.finished += 1;
        Ok(())
    }
}

impl Role for Worker {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        slice::check_space(site)?;
        let mut worked =
            site.poll_each(fabric, now, STEP_MAX, |what, fabric| self.handle(&what, site, fabric))?;
        if !self.is_greeted {
            self.is_greeted =
                Transfer::new(0, site.half_bytes - 16, 1, HELLO).step(site, fabric)?;
            worked = true;
        }
        if self.is_ready {
            worked |= self.begin(site, fabric)?;
        }
        if self.finished == self.slice.operations && !self.ended {
            let mut end = END.to_le_bytes().to_vec();
            end.extend(self.ledger.connections.to_le_bytes());
            self.ended = self.send(site, fabric, &end)?;
            worked = true;
        }
        if self.ended && self.sending == 0 {
            return Ok(Step::Done);
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        let account = Account {
            ledger: self.ledger,
            got_bytes: self.got_bytes,
            operations: self.finished,
            resident_bytes: slice::resident_bytes(),
        };
        serde_json::to_value(account).unwrap_or_default()
    }
}
