//! Event keys: unwrapped, looked up, and remembered for a while after their event closed.
//!
//! A packet of a closed event must not begin the event anew. The newest closed keys are remembered
//! one by one; keys below those are below the floor, and late as well. A single wrong key must not
//! raise the floor above all that follow: it is the smallest of the last few forgotten keys. When
//! packets of closed keys are all that comes for long, the sources count anew, and what was closed
//! is forgotten: a run must not stay silent for it.

use fluxline_proto::Moment;
use hashbrown::HashMap;

use super::closed::{ClosedEvent, ClosedEvents};

/// What tells one event from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventId {
    /// The source, or [`SCOPE_ALL`].
    pub(super) scope: u32,
    /// How often the source restarted before.
    pub(super) epoch: u32,
    /// The key, unwrapped.
    pub(super) key: u64,
}

impl EventId {
    /// The only source that it may be of; `None`: it is of all sources.
    pub(super) fn source(self) -> Option<u32> {
        (self.scope != SCOPE_ALL).then_some(self.scope)
    }
}

/// The scope of events that all sources share.
pub(super) const SCOPE_ALL: u32 = u32::MAX;

/// What is known of an event's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    /// Its event is open, in this slot.
    Open(u32),
    /// Its event was closed; the number is that of [`ClosedEvents`].
    Closed(u64),
    /// Its event was closed, if there was any, and nothing is remembered of it.
    Forgotten,
}

/// How many forgotten keys the floor is the smallest of.
const FORGOTTEN: usize = 8;
/// So many packets of closed keys, and no others, show that the keys count anew: below the floor,
/// or when a source is known to have restarted.
const REFUSED_MAX: u32 = 256;
/// The same when nothing else speaks for it: a slow optional source also sends such packets.
const REFUSED_UNEXPLAINED_MAX: u32 = 4096;

/// The keys of one source, or of all.
#[derive(Clone, Debug, Default)]
struct Line {
    started: bool,
    epoch: u32,
    newest: u64,
    floor: Option<u64>,
    forgotten: [u64; FORGOTTEN],
    forgotten_count: usize,
    /// Packets of closed keys, since the last one that was not.
    refused: u32,
    restart_seen: bool,
}

/// All keys that are open or remembered.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    map: HashMap<EventId, KeyState>,
    closed: ClosedEvents,
    lines: Vec<Line>,
    shared: Line,
    restarts: u64,
}

impl Keys {
    /// Remembers `closed_max` closed keys; all memory is allocated here.
    pub(super) fn new(open_max: usize, closed_max: usize) -> Keys {
        let closed_max = closed_max.max(1);
        Keys {
            map: HashMap::with_capacity(open_max.saturating_add(closed_max).saturating_add(1)),
            closed: ClosedEvents::new(closed_max),
            lines: Vec::new(),
            shared: Line::default(),
            restarts: 0,
        }
    }

    /// The event of `key`, which has `bits` bits in the packet.
    pub(super) fn event_id(&mut self, scope: u32, key: u64, bits: u8) -> EventId {
        let line = self.line(scope);
        let key = line.unwrap(key, bits);
        EventId { scope, epoch: line.epoch, key }
    }

    /// The keys of `scope` count anew.
    pub(super) fn begin_epoch(&mut self, scope: u32, epoch: u32) {
        *self.line(scope) = Line { epoch, ..Line::default() };
    }

    /// The epoch of `scope`.
    pub(super) fn epoch(&mut self, scope: u32) -> u32 {
        self.line(scope).epoch
    }

    /// What is known of `id`; `None`: nothing, it may be opened.
    pub(super) fn look_up(&mut self, id: EventId) -> Option<KeyState> {
        let known = self.map.get(&id).copied();
        let line = self.line(id.scope);
        let (state, refused_max) = match (known, line.floor) {
            (Some(KeyState::Open(_)), _) => {
                line.refused = 0;
                return known;
            }
            (Some(closed), _) if !line.restart_seen => (closed, REFUSED_UNEXPLAINED_MAX),
            (Some(closed), _) => (closed, REFUSED_MAX),
            (None, Some(floor)) if is_older(id.key, floor) => (KeyState::Forgotten, REFUSED_MAX),
            (None, _) => {
                line.refused = 0;
                return None;
            }
        };
        line.refused += 1;
        if line.refused < refused_max {
            return Some(state);
        }
        self.count_anew(id);
        None
    }

    /// A source that shares the keys of `scope` restarted: they may count anew.
    pub(super) fn expect_restart(&mut self, scope: u32) {
        self.line(scope).restart_seen = true;
    }

    /// `id`, of which nothing is known, is open in `slot`.
    pub(super) fn open(&mut self, id: EventId, slot: u32) {
        self.map.insert(id, KeyState::Open(slot));
    }

    /// What is remembered of closed events.
    pub(super) fn closed(&mut self) -> &mut ClosedEvents {
        &mut self.closed
    }

    /// `id` is closed from now on; `whole` is the set of sources with their whole fragment in it.
    pub(super) fn close(&mut self, id: EventId, whole: &[u64], closed: Moment) {
        let number = self.closed.push(ClosedEvent { id, closed }, whole);
        self.map.insert(id, KeyState::Closed(number));
        while let Some(ClosedEvent { id: oldest, .. }) = self.closed.pop() {
            self.map.remove(&oldest);
            let line = self.line(oldest.scope);
            if line.epoch == oldest.epoch {
                line.forget(oldest.key);
            }
        }
    }

    /// How often keys counted anew.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts
    }

    fn count_anew(&mut self, EventId { scope, epoch, key }: EventId) {
        self.restarts += 1;
        *self.line(scope) = Line { started: true, epoch, newest: key, ..Line::default() };
        self.map.retain(|id, state| id.scope != scope || matches!(state, KeyState::Open(_)));
    }

    fn line(&mut self, scope: u32) -> &mut Line {
        if scope == SCOPE_ALL {
            return &mut self.shared;
        }
        let place = scope as usize;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, Line::default);
        }
        &mut self.lines[place]
    }
}

impl Line {
    /// The nearest number to the newest key that ends in these bits.
    fn unwrap(&mut self, key: u64, bits: u8) -> u64 {
        if !self.started {
            self.started = true;
            self.newest = key;
            return key;
        }
        let key = if (1..64).contains(&bits) {
            let shift = 64 - u32::from(bits);
            let ahead = (key.wrapping_sub(self.newest) << shift) as i64 >> shift;
            self.newest.wrapping_add(ahead as u64)
        } else {
            key
        };
        if is_older(self.newest, key) {
            self.newest = key;
        }
        key
    }

    fn forget(&mut self, key: u64) {
        self.forgotten[self.forgotten_count % FORGOTTEN] = key;
        self.forgotten_count += 1;
        if self.forgotten_count < FORGOTTEN {
            return;
        }
        let smallest =
            self.forgotten.iter().copied().reduce(|a, b| if is_older(b, a) { b } else { a });
        if let Some(key) = smallest
            && self.floor.is_none_or(|floor| is_older(floor, key))
        {
            self.floor = Some(key);
        }
    }
}

/// Whether key `a` is older than key `b`, on a line that wraps at 64 bits.
fn is_older(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}
