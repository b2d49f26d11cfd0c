//! Two connected nodes for the laws, and the completions that they got.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Name, Operation, RegionId, Reliability, RemoteId,
    Rights, Status,
};
use fluxline_core::{Moment, Span};

/// A link that gives no completion for this long counts as hung.
const PATIENCE: Span = Span::from_ms(10_000);

/// Two nodes that can reach each other.
pub struct Pair {
    /// The node that connects and posts.
    pub left: Box<dyn Fabric>,
    /// The node that owns regions.
    pub right: Box<dyn Fabric>,
    /// The name by which `left` connects to `right`.
    pub right_name: String,
    /// Opens the right node anew after it was dropped; `None`: this link cannot.
    pub right_again: Option<Box<dyn FnMut() -> Box<dyn Fabric>>>,
    /// The clock, real or virtual; it must advance between calls.
    pub now: Box<dyn FnMut() -> Moment>,
}

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Left,
    /// The one that owns.
    Right,
}

/// Two connected nodes, and their completions that no law has asked for yet.
pub struct Joined {
    /// The nodes.
    pub pair: Pair,
    /// Left's end of the connection.
    pub left: EndpointId,
    /// Right's end.
    pub right: EndpointId,
    completions: [VecDeque<Completion>; 2],
}

/// The key that laws export regions with.
pub const KEY: Key = Key(0x5EED_0001_2345_6789);

/// Parses a legal name.
///
/// # Panics
/// When it is not legal.
#[must_use]
pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

impl Joined {
    /// Connects left to right.
    #[must_use]
    pub fn new(pair: Pair) -> Joined {
        let (left, right) = (EndpointId(0), EndpointId(0));
        let mut joined = Joined { pair, left, right, completions: Default::default() };
        joined.connect_again();
        joined
    }

    /// Takes a pair whose left node is connected by this endpoint already.
    #[must_use]
    pub fn of_open(pair: Pair, left: EndpointId) -> Joined {
        Joined { pair, left, right: EndpointId(0), completions: Default::default() }
    }

    /// Connects left to right once more; the new ends become `left` and `right`.
    pub fn connect_again(&mut self) {
        let peer = self.pair.right_name.clone();
        let asked = self.pair.left.connect(&peer, Reliability::Reliable).expect("reachable");
        let connected = |what: &Completion| match what {
            Completion::Connected { endpoint, .. } => Some(*endpoint),
            _ => None,
        };
        self.left = self.wait(Side::Left, connected);
        assert_eq!(self.left, asked, "the end that was asked for is the one that is connected");
        self.right = self.wait(Side::Right, connected);
    }

    /// Returns the node of a side.
    pub fn node(&mut self, side: Side) -> &mut dyn Fabric {
        match side {
            Side::Left => &mut *self.pair.left,
            Side::Right => &mut *self.pair.right,
        }
    }

    /// Polls both nodes once and keeps their completions.
    pub fn turn(&mut self) -> Moment {
        let now = (self.pair.now)();
        while let Some(what) = self.pair.left.poll(now) {
            self.completions[0].push_back(what);
        }
        while let Some(what) = self.pair.right.poll(now) {
            self.completions[1].push_back(what);
        }
        now
    }

    /// Waits for the first completion of `side` that `wanted` accepts; all others stay for later.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait<T>(&mut self, side: Side, wanted: impl Fn(&Completion) -> Option<T>) -> T {
        let began = (self.pair.now)();
        loop {
            let completions = &mut self.completions[side as usize];
            if let Some(place) = completions.iter().position(|what| wanted(what).is_some()) {
                let what = completions.remove(place);
                return what.as_ref().and_then(&wanted).expect("it was accepted before");
            }
            let now = self.turn();
            assert!(
                now.since(began) < PATIENCE,
                "{side:?} got no such completion in time; its last ones are {:?}",
                self.completions[side as usize].iter().rev().take(5).collect::<Vec<_>>()
            );
        }
    }

    /// Waits for the completion of left's work `tag`.
    pub fn done(&mut self, tag: u64) -> (Operation, Status, u64) {
        self.wait(Side::Left, |what| match *what {
            Completion::Done { tag: of, operation, status, value, .. } if of == tag => {
                Some((operation, status, value))
            }
            _ => None,
        })
    }

    /// Takes all completions of `side` that no law has asked for.
    pub fn rest(&mut self, side: Side) -> Vec<Completion> {
        self.completions[side as usize].drain(..).collect()
    }

    /// Makes and exports a region of right's.
    pub fn exported(&mut self, called: &str, bytes: u64, rights: Rights) -> RegionId {
        let region = self.pair.right.register(bytes).expect("memory");
        let grant = Grant { rights, key: KEY };
        self.pair.right.export(region, name(called), grant).expect("a free name");
        region
    }

    /// Imports right's region at left; returns the import, its status and its size.
    pub fn import(&mut self, called: &str, key: Key) -> (RemoteId, Status, u64) {
        let asked = self.pair.left.import(self.left, name(called), key).expect("connected");
        self.wait(Side::Left, |what| match *what {
            Completion::Imported { remote, status, bytes } if remote == asked => {
                Some((remote, status, bytes))
            }
            _ => None,
        })
    }

    /// Makes a region of right's and imports it at left, with all rights.
    pub fn shared(&mut self, called: &str, bytes: u64) -> (RegionId, RemoteId) {
        self.shared_with(called, bytes, Rights::ALL)
    }

    /// Makes a region of right's and imports it at left, with these rights.
    pub fn shared_with(
        &mut self,
        called: &str,
        bytes: u64,
        rights: Rights,
    ) -> (RegionId, RemoteId) {
        let region = self.exported(called, bytes, rights);
        let (remote, status, found) = self.import(called, KEY);
        assert_eq!((status, found), (Status::Done, bytes));
        (region, remote)
    }

    /// Reads bytes of right's region.
    pub fn bytes(&self, region: RegionId, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = alloc::vec![0; count];
        let memory = self.pair.right.memory(region).expect("an own region");
        memory.read(offset, &mut bytes).expect("inside");
        bytes
    }
}
