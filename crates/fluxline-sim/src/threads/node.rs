//! A node of a world whose program runs on a thread of its own.
//!
//! The program holds the node only while it is its turn, so that calls need no further lock. Calls
//! that bring nothing are counted, and enough of them end the turn: virtual time must pass for a
//! program that polls, and for one that only looks at the time.

use std::cell::Cell;
use std::sync::Arc;

use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters,
};
use fluxline_core::{Moment, Span};

use super::gather;
use super::turns::{Turns, Wish};
use crate::world::Node;

/// Calls without a result that end a turn.
const IDLE_CALLS_MAX: u32 = 16;
/// The virtual time of these calls, at first. A choice: about 60 ns a poll.
const PAUSE_MIN: Span = Span::from_ns(1_000);
/// The same, when nothing has come for some turns. Each turn costs a switch of threads.
const PAUSE_MAX: Span = Span::from_ns(16_000);

/// The longest virtual time for which a dropped node still works. A choice.
const LINGER_MAX: Span = Span::from_ms(1);

/// A node of a world.
pub struct ThreadNode {
    /// `None`: it was dropped.
    node: Option<Node>,
    turns: Arc<Turns>,
    index: usize,
    idle_calls: Cell<u32>,
    pause: Cell<Span>,
}

impl ThreadNode {
    /// Takes the node called `name` of a world; returns when its first turn begins.
    pub fn begin(turns: Arc<Turns>, name: &str) -> ThreadNode {
        let place = turns.names().iter().position(|of| of == name);
        let index = place.expect("a world is built of the nodes that came");
        let node = turns.cluster().node(index);
        turns.begin(index);
        ThreadNode {
            node: Some(node),
            turns,
            index,
            idle_calls: Cell::new(0),
            pause: Cell::new(PAUSE_MIN),
        }
    }

    fn of(&self) -> &Node {
        self.node.as_ref().expect("it is taken only by drop")
    }

    fn of_mut(&mut self) -> &mut Node {
        self.node.as_mut().expect("it is taken only by drop")
    }

    /// Counts a call that brought nothing; enough of them end the turn.
    fn idle(&self) {
        self.idle_calls.set(self.idle_calls.get() + 1);
        if self.idle_calls.get() >= IDLE_CALLS_MAX {
            let changes = self.turns.cluster().look(self.index).changes;
            let until = self.of().now() + self.pause.get();
            self.hand_over(Wish::Poll { until, changes });
            let is_early = self.of().now() < until;
            let longer = Span::from_ns(self.pause.get().as_ns() * 2).min(PAUSE_MAX);
            self.pause.set(if is_early { PAUSE_MIN } else { longer });
        }
    }

    fn hand_over(&self, wish: Wish) {
        self.idle_calls.set(0);
        self.turns.hand_over(self.index, wish);
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let now = self.of().now();
        let found = self.of_mut().poll(now)?;
        self.idle_calls.set(0);
        self.pause.set(PAUSE_MIN);
        Some(match found {
            Completion::Connected { endpoint, peer, reliability } => {
                let place = peer.parse::<usize>().ok();
                let name = place.and_then(|place| self.turns.names().get(place));
                let peer = name.cloned().unwrap_or(peer);
                Completion::Connected { endpoint, peer, reliability }
            }
            other => other,
        })
    }
}

impl Drop for ThreadNode {
    /// Lets posted work leave, then switches the node off and lets the others go on.
    fn drop(&mut self) {
        let limit = self.of().now() + LINGER_MAX;
        while !std::thread::panicking()
            && self.turns.cluster().look(self.index).is_busy
            && self.of().now() < limit
        {
            self.hand_over(Wish::Linger(self.of().now() + PAUSE_MIN));
        }
        drop(self.node.take());
        if self.turns.leave(self.index) {
            gather::forget(self.turns.name());
        }
    }
}

impl Fabric for ThreadNode {
    fn capabilities(&self) -> &Capabilities {
        self.of().capabilities()
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        self.of_mut().register(bytes)
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.of_mut().register_own(memory)
    }

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        self.of_mut().view(region, visit)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.of_mut().export(region, name, grant)
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.of_mut().withdraw(region)
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.of().memory(region)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let place = self.turns.names().iter().position(|name| name == peer);
        let Some(place) = place.filter(|&place| place != self.index) else {
            let expected = "write the name of another node of this world";
            return Err(ConnectError::Name { peer: peer.to_owned(), expected });
        };
        self.of_mut().connect(&place.to_string(), reliability)
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.of_mut().disconnect(endpoint)
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.of_mut().import(endpoint, name, key)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        self.of().window(remote)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.of_mut().post(endpoint, tag, work)
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.of_mut().post_receive(endpoint, tag, into)
    }

    fn counters(&self) -> &WorkCounters {
        self.of().counters()
    }

    fn now(&self) -> Moment {
        self.idle();
        self.of().now()
    }

    /// The world has the time, whatever the caller says.
    fn poll(&mut self, _: Moment) -> Option<Completion> {
        self.next_completion().or_else(|| {
            self.idle();
            self.next_completion()
        })
    }

    fn has_crashed(&self) -> bool {
        !self.turns.cluster().look(self.index).is_alive
    }

    fn deadline(&self) -> Option<Moment> {
        self.turns.cluster().next_completion_at(self.index)
    }

    fn wait(&mut self, until: Moment) {
        if self.turns.cluster().look(self.index).has_completion {
            // A program that never polls must not stop the time of the others.
            return self.idle();
        }
        if until <= self.of().now() {
            return self.idle();
        }
        self.hand_over(Wish::Wait(until));
    }
}
