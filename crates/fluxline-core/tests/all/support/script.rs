//! Random scripts of operations against plain memory, for connections of every kind.

use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Level, Local, Operation, PostError, RegionId, RemoteId, Slice,
    Status, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::random::Draw;

use super::{World, put};

pub const REGION_BYTES: u64 = 16_384;
const MESSAGE_BYTES_MAX: u64 = 3000;
const STEPS: u64 = 200;

/// A connection under test: node and endpoint of both sides, right's region and its import at left.
#[derive(Clone, Copy)]
pub struct Joint {
    pub left: (usize, EndpointId),
    pub right: (usize, EndpointId),
    pub region: RegionId,
    pub remote: RemoteId,
}

struct Script<'a, P> {
    world: &'a mut World<P>,
    joint: Joint,
    draw: Draw,
    own: RegionId,
    inbox: RegionId,
    own_model: Vec<u8>,
    model: Vec<u8>,
    expected: Vec<(u64, Operation, u64)>,
    notified: Vec<(u64, u64, u32)>,
    messages: Vec<Vec<u8>>,
    /// Buffers posted at the right end.
    buffers: u64,
}

/// Runs one script.
pub fn run<P: Port>(world: &mut World<P>, joint: Joint, seed: u64, asking: bool) {
    let own = world.nodes[joint.left.0].register(REGION_BYTES).expect("memory");
    let inbox = world.nodes[joint.right.0].register(STEPS * MESSAGE_BYTES_MAX).expect("memory");
    let mut model = vec![0; REGION_BYTES as usize];
    world.nodes[joint.right.0].memory(joint.region).expect("own").read(0, &mut model).expect("in");
    let mut script = Script {
        world,
        joint,
        draw: Draw::new(seed),
        own,
        inbox,
        own_model: vec![0; REGION_BYTES as usize],
        model,
        expected: Vec::new(),
        notified: Vec::new(),
        messages: Vec::new(),
        buffers: 0,
    };
    for tag in 0..STEPS {
        script.step(tag, asking);
    }
    script.finish();
}

impl<P: Port> Script<'_, P> {
    fn step(&mut self, tag: u64, asking: bool) {
        let offset = self.draw.below(REGION_BYTES - 8);
        let bytes = 1 + self.draw.below((REGION_BYTES - offset).min(6000));
        match self.draw.below(if asking { 8 } else { 4 }) {
            0 | 1 => self.put(tag, offset, bytes),
            2 => self.send(tag),
            3 => self.put_region(tag, offset, bytes),
            4 | 5 => self.get(tag, offset, bytes),
            6 => self.fetch_add(tag, offset / 8 * 8),
            _ => self.compare_swap(tag, offset / 8 * 8),
        }
        if self.draw.below(3) == 0 {
            self.give();
        }
        if self.draw.below(16) == 0 {
            self.world.turn();
        }
    }

    /// Posts a buffer at the right end, unless there is one for each message.
    fn give(&mut self) {
        if self.buffers < STEPS {
            let (node, endpoint) = self.joint.right;
            let offset = self.buffers * MESSAGE_BYTES_MAX;
            let slice = Slice { region: self.inbox, offset, bytes: MESSAGE_BYTES_MAX };
            if self.world.nodes[node].post_receive(endpoint, self.buffers, slice).is_ok() {
                self.buffers += 1;
            }
        }
    }

    fn post(&mut self, tag: u64, work: Work<'_>) {
        let mut turns = 0;
        let (node, endpoint) = self.joint.left;
        while let Err(why) = self.world.nodes[node].post(endpoint, tag, work) {
            assert_eq!(why, PostError::Full, "{work:?}: {:?}", self.world.completions);
            self.world.turn();
            turns += 1;
            assert!(turns < 1_000_000, "the queue stays full: {:?}", self.world.completions);
            if turns % 50 == 0 && self.buffers < self.messages.len() as u64 {
                self.give();
            }
        }
    }

    fn random(&mut self, bytes: u64) -> Vec<u8> {
        (0..bytes).map(|_| self.draw.bits() as u8).collect()
    }

    fn put(&mut self, tag: u64, offset: u64, bytes: u64) {
        let data = self.random(bytes);
        let notify = (self.draw.below(3) == 0).then_some(tag as u32);
        self.post(tag, put(&data, self.joint.remote, offset, notify));
        self.model[offset as usize..][..data.len()].copy_from_slice(&data);
        self.expected.push((tag, Operation::Put, 0));
        self.notified.extend(notify.map(|value| (offset, bytes, value)));
    }

    /// Puts bytes from the upper half of the own region, which nothing in flight writes.
    fn put_region(&mut self, tag: u64, offset: u64, bytes: u64) {
        let half = REGION_BYTES / 2;
        let from = Local::Region(Slice { region: self.own, offset: half, bytes });
        let to = Target { remote: self.joint.remote, offset };
        self.post(tag, Work::Put { from, to, notify: None, complete_at: None });
        let taken = &self.own_model[half as usize..][..bytes as usize];
        self.model[offset as usize..][..bytes as usize].copy_from_slice(taken);
    }

    fn send(&mut self, tag: u64) {
        let bytes = self.draw.below(MESSAGE_BYTES_MAX + 1);
        let data = self.random(bytes);
        let complete_at = Some(Level::Placed);
        self.post(tag, Work::Send { from: Local::Bytes(&data), complete_at });
        self.messages.push(data);
        self.expected.push((tag, Operation::Send, 0));
    }

    fn get(&mut self, tag: u64, offset: u64, bytes: u64) {
        let into = Slice { region: self.own, offset: 0, bytes };
        self.post(tag, Work::Get { from: Target { remote: self.joint.remote, offset }, into });
        let found = &self.model[offset as usize..][..bytes as usize];
        self.own_model[..bytes as usize].copy_from_slice(found);
        self.expected.push((tag, Operation::Get, 0));
    }

    fn word(&self, offset: u64) -> u64 {
        let bytes = self.model[offset as usize..][..8].try_into();
        u64::from_le_bytes(bytes.expect("8 byte"))
    }

    fn fetch_add(&mut self, tag: u64, offset: u64) {
        let add = self.draw.bits();
        self.post(tag, Work::FetchAdd { at: Target { remote: self.joint.remote, offset }, add });
        let before = self.word(offset);
        let after = before.wrapping_add(add).to_le_bytes();
        self.model[offset as usize..][..8].copy_from_slice(&after);
        self.expected.push((tag, Operation::FetchAdd, before));
    }

    fn compare_swap(&mut self, tag: u64, offset: u64) {
        let before = self.word(offset);
        let expected = before ^ self.draw.below(2);
        let desired = self.draw.bits();
        let at = Target { remote: self.joint.remote, offset };
        self.post(tag, Work::CompareSwap { at, expected, desired });
        if before == expected {
            self.model[offset as usize..][..8].copy_from_slice(&desired.to_le_bytes());
        }
        self.expected.push((tag, Operation::CompareSwap, before));
    }

    /// Waits for all work; bytes, values, notifications and messages must be the model's.
    fn finish(mut self) {
        while self.buffers < self.messages.len() as u64 {
            self.give();
            self.world.turn();
        }
        self.post(u64::MAX, Work::Flush);
        let (left, right) = (self.joint.left.0, self.joint.right.0);
        assert_eq!(self.world.done(left, u64::MAX), (Operation::Flush, Status::Done, 0));
        for (tag, operation, value) in std::mem::take(&mut self.expected) {
            let found = self.world.done(left, tag);
            assert_eq!(found, (operation, Status::Done, value), "tag {tag}");
        }
        assert_eq!(self.world.completions[left], [], "one completion each, if requested");
        // Bytes are placed when they arrive; on unreliable connections that is a little later.
        self.world.run(2);
        let completions = std::mem::take(&mut self.world.completions[right]);
        let notified = completions.iter().filter_map(|what| match *what {
            Completion::Notified { offset, bytes, value, .. } => Some((offset, bytes, value)),
            _ => None,
        });
        assert_eq!(notified.collect::<Vec<_>>(), self.notified, "each once and in order");
        let received: Vec<(u64, Status, u64)> = completions
            .iter()
            .filter_map(|what| match *what {
                Completion::Done { tag, status, value, .. } => Some((tag, status, value)),
                _ => None,
            })
            .collect();
        assert_eq!(received.len(), self.messages.len());
        for (number, (message, got)) in self.messages.iter().zip(received).enumerate() {
            assert_eq!(got, (number as u64, Status::Done, message.len() as u64));
            let offset = number as u64 * MESSAGE_BYTES_MAX;
            assert!(self.world.bytes(right, self.inbox, offset, message.len()) == *message);
        }
        let count = REGION_BYTES as usize;
        assert!(self.world.bytes(right, self.joint.region, 0, count) == self.model, "right's");
        assert!(self.world.bytes(left, self.own, 0, count) == self.own_model, "left's region");
    }
}
