//! Random scripts of operations against plain memory, from a printed seed.

use alloc::vec;
use alloc::vec::Vec;

use super::joined::{Joined, Pair, Side};
use fluxline_core::fabric::memory::zeroed;
use fluxline_core::fabric::{
    Completion, Fabric, Level, Local, Operation, PostError, RegionId, RemoteId, Slice, Status,
    Target, Work,
};
use fluxline_core::random::Draw;

const REGION_BYTES: u64 = 4096;
const SCRIPTS: u64 = 8;
const STEPS: u64 = 400;
/// Buffers for messages. A buffer is used again after this many messages.
const BUFFERS: u64 = 64;
const BUFFER_BYTES: u64 = 64;

/// The completion that a tag must have.
struct Expected {
    tag: u64,
    operation: Operation,
    status: Status,
    value: u64,
}

struct Script {
    joined: Joined,
    draw: Draw,
    /// Left's own region, right's region, and right's as left knows it.
    own: RegionId,
    region: RegionId,
    remote: RemoteId,
    own_model: Vec<u8>,
    model: Vec<u8>,
    expected: Vec<Expected>,
    notified: Vec<(u64, u64, u32)>,
    /// Right's buffers for messages, the model of their content, and right's expected completions.
    inbox: RegionId,
    inbox_model: Vec<u8>,
    received: Vec<(u64, Status, u64)>,
}

/// Runs scripts on fresh pairs. The same seed repeats the same scripts.
///
/// # Panics
/// When the link and the model differ.
pub fn random_scripts(seed: u64, mut make: impl FnMut() -> Pair) {
    for number in 0..SCRIPTS {
        let mut script = Script::new(make(), seed.wrapping_add(number));
        for tag in 0..STEPS {
            script.step(tag);
        }
        script.finish();
    }
}

/// Registers memory of the program where the link can, else its own.
fn own_region(fabric: &mut dyn Fabric) -> RegionId {
    if !fabric.capabilities().own_memory {
        return fabric.register(REGION_BYTES).expect("memory");
    }
    fabric.register_own(zeroed(REGION_BYTES).expect("memory")).expect("room")
}

impl Script {
    fn new(pair: Pair, seed: u64) -> Script {
        let mut joined = Joined::new(pair);
        let (region, remote) = joined.shared("script", REGION_BYTES);
        let own = own_region(&mut *joined.pair.left);
        let inbox = joined.pair.right.register(BUFFERS * BUFFER_BYTES).expect("memory");
        let blank = || vec![0; REGION_BYTES as usize];
        Script {
            joined,
            draw: Draw::new(seed),
            own,
            region,
            remote,
            own_model: blank(),
            model: blank(),
            expected: Vec::new(),
            notified: Vec::new(),
            inbox,
            inbox_model: vec![0; (BUFFERS * BUFFER_BYTES) as usize],
            received: Vec::new(),
        }
    }

    /// Posts one random piece of work; a full queue is emptied first.
    fn step(&mut self, tag: u64) {
        let (offset, bytes) = self.place();
        match self.draw.below(18) {
            0..6 => self.put(tag, offset, bytes),
            6..9 => self.get(tag, offset, bytes),
            9..12 => self.fetch_add(tag, offset / 8 * 8),
            12..14 => self.compare_swap(tag, offset / 8 * 8),
            14..16 => self.message(tag),
            16 => self.barrier(tag),
            _ => self.put_beyond(tag),
        }
        if self.draw.below(16) == 0 {
            self.joined.turn();
        }
    }

    fn place(&mut self) -> (u64, u64) {
        let offset = self.draw.below(REGION_BYTES - 8);
        (offset, 1 + self.draw.below((REGION_BYTES - offset).min(300)))
    }

    fn post(&mut self, tag: u64, work: Work<'_>) {
        loop {
            match self.joined.pair.left.post(self.joined.left, tag, work) {
                Ok(()) => return,
                Err(PostError::Full) => {
                    self.joined.turn();
                }
                Err(other) => {
                    let completions = self.joined.rest(Side::Left);
                    panic!(
                        "{work:?} is legal and was refused: {other}; last completion {:?}",
                        completions.last()
                    );
                }
            }
        }
    }

    fn expect(&mut self, tag: u64, operation: Operation, value: u64) {
        self.expected.push(Expected { tag, operation, status: Status::Done, value });
    }

    fn put(&mut self, tag: u64, offset: u64, bytes: u64) {
        let range = offset as usize..(offset + bytes) as usize;
        let data: Vec<u8> = (0..bytes).map(|_| self.draw.below(256) as u8).collect();
        let notify = (self.draw.below(3) == 0).then_some(tag as u32);
        let pieces = self.pieces(bytes);
        let from = match self.draw.below(4) {
            0 => Local::Gather(&pieces),
            1 => Local::Region(pieces[0]),
            _ => Local::Bytes(&data),
        };
        let taken = match from {
            Local::Gather(pieces) => pieces.iter().flat_map(|of| self.own_bytes(*of)).collect(),
            Local::Region(slice) => self.own_bytes(slice),
            _ => data.clone(),
        };
        let to = Target { remote: self.remote, offset };
        let complete_at = match self.draw.below(3) {
            0 => None,
            1 => Some(Level::Copied),
            _ => Some(Level::Placed),
        };
        self.post(tag, Work::Put { from, to, notify, complete_at });
        self.model[range.start..range.start + taken.len()].copy_from_slice(&taken);
        if complete_at.is_some() {
            self.expect(tag, Operation::Put, 0);
        }
        self.notified.extend(notify.map(|value| (offset, taken.len() as u64, value)));
    }

    /// Draws pieces of left's region, of `bytes` together at most.
    ///
    /// Bytes that a get in flight may write must not be read: gets never write the upper half.
    fn pieces(&mut self, bytes: u64) -> Vec<Slice> {
        let half = REGION_BYTES / 2;
        let count = 1 + self.draw.below(5);
        let mut piece = || {
            let bytes = self.draw.below(bytes / count + 1);
            let offset = half + self.draw.below(half - bytes + 1);
            Slice { region: self.own, offset, bytes }
        };
        (0..count).map(|_| piece()).collect()
    }

    fn own_bytes(&self, slice: Slice) -> Vec<u8> {
        self.own_model[slice.offset as usize..][..slice.bytes as usize].to_vec()
    }

    fn get(&mut self, tag: u64, offset: u64, bytes: u64) {
        let bytes = bytes.min(REGION_BYTES / 2);
        let into = Slice { region: self.own, offset: 0, bytes };
        let from = Target { remote: self.remote, offset };
        self.post(tag, Work::Get { from, into });
        let range = offset as usize..(offset + bytes) as usize;
        let found = self.model[range].to_vec();
        self.own_model[..found.len()].copy_from_slice(&found);
        self.expect(tag, Operation::Get, 0);
    }

    fn word(&self, offset: u64) -> u64 {
        let bytes = &self.model[offset as usize..][..8];
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    fn fetch_add(&mut self, tag: u64, offset: u64) {
        let add = self.draw.below(u64::MAX);
        let at = Target { remote: self.remote, offset };
        self.post(tag, Work::FetchAdd { at, add });
        let before = self.word(offset);
        let after = before.wrapping_add(add).to_le_bytes();
        self.model[offset as usize..][..8].copy_from_slice(&after);
        self.expect(tag, Operation::FetchAdd, before);
    }

    fn compare_swap(&mut self, tag: u64, offset: u64) {
        let before = self.word(offset);
        let expected = if self.draw.below(2) == 0 { before } else { before ^ 1 };
        let desired = self.draw.below(u64::MAX);
        let at = Target { remote: self.remote, offset };
        self.post(tag, Work::CompareSwap { at, expected, desired });
        if before == expected {
            self.model[offset as usize..][..8].copy_from_slice(&desired.to_le_bytes());
        }
        self.expect(tag, Operation::CompareSwap, before);
    }

    /// Sends a message into a buffer that fits, or now and then is too short.
    fn message(&mut self, tag: u64) {
        let place = self.received.len() as u64 % BUFFERS * BUFFER_BYTES;
        let room = BUFFER_BYTES - self.draw.below(8);
        let into = Slice { region: self.inbox, offset: place, bytes: room };
        while self.joined.pair.right.post_receive(self.joined.right, tag, into)
            == Err(PostError::Full)
        {
            self.joined.turn();
        }
        let bytes = 1 + self.draw.below(BUFFER_BYTES);
        let data: Vec<u8> = (0..bytes).map(|_| self.draw.below(256) as u8).collect();
        let complete_at = Some(Level::Placed);
        self.post(tag, Work::Send { from: Local::Bytes(&data), complete_at });
        let fits = bytes.min(room);
        self.inbox_model[place as usize..][..fits as usize].copy_from_slice(&data[..fits as usize]);
        let status = if bytes > room { Status::TooLong } else { Status::Done };
        self.received.push((tag, status, fits));
        self.expected.push(Expected { tag, operation: Operation::Send, status, value: 0 });
    }

    /// Posts a fence or a flush.
    fn barrier(&mut self, tag: u64) {
        let (work, operation) = match self.draw.below(2) {
            0 => (Work::Fence, Operation::Fence),
            _ => (Work::Flush, Operation::Flush),
        };
        self.post(tag, work);
        self.expect(tag, operation, 0);
    }

    /// Puts one byte beyond the region. It is refused at once or by its completion, and nothing
    /// changes.
    fn put_beyond(&mut self, tag: u64) {
        let to = Target { remote: self.remote, offset: REGION_BYTES - 7 };
        let from = Local::Bytes(&[0xEE; 8]);
        let work = Work::Put { from, to, notify: Some(0), complete_at: Some(Level::Placed) };
        loop {
            match self.joined.pair.left.post(self.joined.left, tag, work) {
                Err(PostError::Remote(_)) => return,
                Err(PostError::Full) => {
                    self.joined.turn();
                }
                Err(other) => panic!("refused for the wrong reason: {other}"),
                Ok(()) => break,
            }
        }
        let (operation, status) = (Operation::Put, Status::OutOfRegion);
        self.expected.push(Expected { tag, operation, status, value: 0 });
    }

    /// Waits for all work; bytes, values, notifications and completions must be the model's.
    fn finish(mut self) {
        self.post(u64::MAX, Work::Flush);
        assert_eq!(self.joined.done(u64::MAX), (Operation::Flush, Status::Done, 0));
        for Expected { tag, operation, status, value } in core::mem::take(&mut self.expected) {
            assert_eq!(self.joined.done(tag), (operation, status, value), "tag {tag}");
        }
        assert_eq!(self.joined.rest(Side::Left), [], "one completion each, if requested");
        for (offset, bytes, value) in core::mem::take(&mut self.notified) {
            let found = self.joined.wait(Side::Right, |what| match *what {
                Completion::Notified { offset, bytes, value, .. } => Some((offset, bytes, value)),
                _ => None,
            });
            assert_eq!(found, (offset, bytes, value), "notifications come in order");
        }
        for expected in core::mem::take(&mut self.received) {
            let found = self.joined.wait(Side::Right, |what| match *what {
                Completion::Done { tag, operation: Operation::Receive, status, value, .. } => {
                    Some((tag, status, value))
                }
                _ => None,
            });
            assert_eq!(found, expected, "messages come in order");
        }
        assert_eq!(self.joined.rest(Side::Right), []);
        let count = REGION_BYTES as usize;
        assert!(self.joined.bytes(self.region, 0, count) == self.model, "right's region");
        let inbox = self.joined.bytes(self.inbox, 0, self.inbox_model.len());
        assert!(inbox == self.inbox_model, "right's buffers");
        let memory = self.joined.pair.left.memory(self.own).expect("an own region");
        let mut own = vec![0; count];
        memory.read(0, &mut own).expect("inside");
        assert!(own == self.own_model, "left's region");
    }
}
