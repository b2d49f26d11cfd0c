//! Puts packets into events: new ones and open ones, as long as there is room.

use fluxline_core::Moment;
use fluxline_packet::Part;

use super::arrival::{Arrival, Compared};
use super::config::Placement;
use super::coverage::{Coverage, Meets};
use super::event_id::{EventId, SCOPE_ALL};
use super::growth::make_room;
use super::keys::KeyState;
use super::lanes::Head;
use super::line::Located;
use super::slab::{Begin, Fragment};
use super::{Builder, OpenEvents};

impl Builder {
    /// Puts the packet into the event `id`, which begins with it if it is unknown. An event knows
    /// the packets that find no room.
    pub(super) fn join(
        &mut self,
        arrival: &Arrival<'_>,
        id: EventId,
        located: Located,
        deadline: Moment,
    ) -> Placement {
        let placement = self.place(arrival, id, located, deadline);
        if placement == Placement::BuilderFull && id.scope == SCOPE_ALL {
            let OpenEvents { refused, horizon, .. } = &mut self.open;
            refused.note(id.position, arrival.accepted.source, *horizon);
        }
        placement
    }

    fn place(
        &mut self,
        arrival: &Arrival<'_>,
        id: EventId,
        located: Located,
        deadline: Moment,
    ) -> Placement {
        if !Coverage::is_sound(arrival.parsed.part, arrival.parsed.payload_bytes) {
            return Placement::Inconsistent;
        }
        let slot = match self.open.last {
            Some((last, slot)) if last == id => slot,
            _ => match self.keys.look_up(id) {
                Some(KeyState::Open(slot)) => slot,
                Some(state) => return self.push_late(arrival, id, state, located),
                None if self.has_no_room(arrival, 0, arrival.cost_in(None)) => {
                    return Placement::BuilderFull;
                }
                None => {
                    let slot = self.begin(arrival, id, deadline);
                    self.open.last = Some((id, slot));
                    self.store(arrival, slot, None);
                    return Placement::Stored;
                }
            },
        };
        self.open.last = Some((id, slot));
        self.join_open(arrival, slot)
    }

    /// Puts the packet into the open event in `slot`, if it fits what came before.
    fn join_open(&mut self, arrival: &Arrival<'_>, slot: u32) -> Placement {
        let hint = self.members.know(arrival.accepted.source).hint;
        let event = self.open.slab.event(slot);
        let place = event.fragment_of(arrival.accepted.source, hint);
        if let Some(place) = place {
            let coverage = &event.fragments[place].coverage;
            match coverage.meet(arrival.parsed.part, arrival.parsed.payload_bytes) {
                Meets::New => {}
                Meets::Contradiction => return Placement::Inconsistent,
                Meets::Overlap { adds } => match arrival.compare(event) {
                    Compared::Different => return Placement::Inconsistent,
                    Compared::Repeated => return Placement::EventDuplicate,
                    Compared::Agrees if !adds => return Placement::EventDuplicate,
                    Compared::Agrees => {}
                },
            }
        }
        if self.has_no_room(arrival, event.packets.len(), arrival.cost_in(place)) {
            return Placement::BuilderFull;
        }
        self.store(arrival, slot, place);
        Placement::Stored
    }

    /// Returns true when there is no room for a packet of that cost in an event of `packets`
    /// packets.
    fn has_no_room(&self, arrival: &Arrival<'_>, packets: usize, cost: u64) -> bool {
        let packets_max = self.config.packets_per_event_max;
        let announced = match arrival.parsed.part {
            Part::Index { count, .. } if !arrival.stream => count,
            _ => 0,
        };
        packets >= packets_max as usize
            || announced > packets_max
            || self.bytes_open() + cost > self.config.bytes_open_max
    }

    fn begin(&mut self, arrival: &Arrival<'_>, id: EventId, deadline: Moment) -> u32 {
        // A file may be read ahead of the time that all files have reached.
        let opened = self.time.now.max(arrival.datagram.time);
        let opened_by = self.inputs.packets();
        let begin = Begin { opened, opened_by, arrival: arrival.datagram.time, deadline };
        let slot = self.open.slab.take(id, begin);
        self.keys.open(id, slot);
        if !arrival.stream {
            self.open.lanes.push(id.scope, Head { position: id.position, slot });
        }
        self.counters.events_open_most =
            self.counters.events_open_most.max(u64::from(self.open.slab.open_count()));
        slot
    }

    /// Stores the packet in the open event in `slot`; `place` is the index of its fragment, if
    /// begun.
    fn store(&mut self, arrival: &Arrival<'_>, slot: u32, place: Option<usize>) {
        let (source, part) = (arrival.accepted.source, arrival.parsed.part);
        let cost = arrival.cost_in(place);
        let event = self.open.slab.event_mut(slot);
        let fragment = place.unwrap_or(event.sources.len());
        let before = event.memory_with(fragment);
        let place = place.unwrap_or_else(|| {
            let place = event.add_fragment(source);
            match arrival.stream {
                true => event.fragments[place].coverage.begin_stream(),
                false => event.fragments[place].coverage.begin(part),
            }
            place
        });
        make_room(&mut event.packets, 1);
        event.packets.push(arrival.row());
        make_room(&mut event.bytes, arrival.datagram.bytes.len());
        event.bytes.extend_from_slice(arrival.datagram.bytes);
        event.first = event.first.min(arrival.datagram.time);
        event.last = event.last.max(arrival.datagram.time);
        event.cost += cost;
        let Fragment { coverage, complete } = &mut event.fragments[place];
        coverage.add(part, arrival.parsed.payload_bytes);
        if !*complete && coverage.is_complete() {
            *complete = true;
            event.set_whole(source);
        }
        let grown = event.memory_with(fragment) - before;
        self.open.slab.grew(grown);
        self.open.bytes += cost;
        self.watch.rate.add(cost);
        let bytes_open = self.bytes_open();
        self.counters.bytes_open_most = self.counters.bytes_open_most.max(bytes_open);
        self.members.know(source).hint = place;
    }
}
