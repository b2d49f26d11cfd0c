//! What goes round a ringlet besides packets: the toggles of circulation and allocation; and the
//! end of sends, good or bad.
//!
//! The toggles are simulated only while somebody can tell: circulation while a send is older than
//! two empty circulations, allocation while a receive queue serves a generation. (The hardware
//! always has them; they cost no symbols.)

use super::go::{Go, NEVER};
use super::lane::LANES;
use super::link::{Kind, Loss};
use super::port::{Item, What};
use super::ring::Rings;

/// Circulations with neither a packet nor a low go idle after which the scrubber puts one in. That
/// there is such a time-out: names of errors in Numascale's LC4 firmware; its length, and that
/// packets put it off: assumed.
const SILENT_CIRCULATIONS: u32 = 4;

impl Rings {
    /// Sees to it that old sends of a ringlet are looked for.
    pub fn watch(&mut self, ring: u32, tick: u64) {
        let ringlet = &mut self.ringlets[ring as usize];
        if !ringlet.watched && !ringlet.dead {
            ringlet.watched = true;
            let at = tick + ringlet.patience;
            self.schedule(at, ring, Kind::Watch);
        }
    }

    /// Looks for old sends of a ringlet; they start the circulation toggle.
    pub fn look_for_old(&mut self, ring: u32, tick: u64) {
        let oldest = self.oldest(ring);
        let ringlet = &mut self.ringlets[ring as usize];
        ringlet.watched = false;
        if ringlet.dead {
            return;
        }
        let (patience, scrubber) = (ringlet.patience, ringlet.ports[0]);
        if let Some(since) = ringlet.toggled_at {
            if tick >= since + self.dead_symbols {
                return self.declare_dead(ring, tick);
            }
            ringlet.watched = true;
            let next = (since + self.dead_symbols).min(tick + patience);
            return self.schedule(next, ring, Kind::Watch);
        }
        let Some(oldest) = oldest else { return };
        ringlet.watched = true;
        if oldest + patience > tick {
            return self.schedule(oldest + patience, ring, Kind::Watch);
        }
        ringlet.toggled_at = Some(tick + 1);
        ringlet.toggle_at = tick + 1;
        self.schedule(tick + 1, scrubber, Kind::Wake);
        self.schedule(tick + patience, ring, Kind::Watch);
    }

    /// Since when the oldest send of a ringlet is waiting or on its way.
    fn oldest(&self, ring: u32) -> Option<u64> {
        let ports = self.ringlets[ring as usize].ports.iter();
        let lanes = ports.flat_map(|&port| &self.ports[port as usize].lanes);
        let handles = lanes.flat_map(|lane| lane.unacknowledged.iter().chain(lane.unsent.front()));
        handles.filter_map(|&handle| self.sends.get(handle)).map(|send| send.started).min()
    }

    /// Toggles that the scrubber puts out of its own accord in this tick.
    pub fn launch(&mut self, at: u32, tick: u64) {
        if !self.ports[at as usize].is_scrubber {
            return;
        }
        let ring = self.ports[at as usize].ring as usize;
        let ringlet = &mut self.ringlets[ring];
        if ringlet.toggle_at == tick {
            ringlet.toggle_at = NEVER;
            self.pass_toggle(at, tick, What::Circulation);
        }
        if self.ringlets[ring].allocation_at == tick {
            self.ringlets[ring].allocation_at = NEVER;
            self.pass_allocation(at, tick);
        }
    }

    /// Puts a toggle on the idle at `tick`, or behind the packets that came before it.
    fn pass_toggle(&mut self, at: u32, tick: u64, what: What) {
        let port = &self.ports[at as usize];
        if port.cut {
            return;
        }
        let (arrives, downstream) = (tick.max(port.free_at) + self.hop, port.downstream);
        let item = Item { at: arrives, what, rise: Go::NEVER };
        self.ports[downstream as usize].input.push_back(item);
        self.schedule(arrives, downstream, Kind::Wake);
    }

    /// The circulation toggle comes: sends that saw it too often are lost.
    pub fn circulation(&mut self, at: u32, tick: u64) {
        for lane in 0..LANES {
            let mut place = 0;
            while let Some(&handle) = self.ports[at as usize].lanes[lane].unacknowledged.get(place)
            {
                place += 1;
                let Some(send) = self.sends.get_mut(handle) else { continue };
                send.age += u32::from(send.ready == NEVER);
                if send.ready == NEVER && send.age >= self.circulations {
                    self.ports[at as usize].counters.lost += 1;
                    self.end_send(at, handle, tick + 1, Some(Loss::Circulation));
                    place -= 1;
                }
            }
        }
        let ring = self.ports[at as usize].ring;
        if self.ports[at as usize].is_scrubber {
            self.look_for_go(at, tick);
            let patience = self.ringlets[ring as usize].patience;
            let old = self.oldest(ring).is_some_and(|since| since + patience <= tick);
            self.ringlets[ring as usize].toggled_at = old.then_some(tick);
            if !old {
                return;
            }
        }
        self.pass_toggle(at, tick, What::Circulation);
    }

    /// The scrubber puts a go bit in when for some circulations nothing came: one was lost.
    ///
    /// While packets come, a port that empties its bypass FIFO may hold the go bit back, for as
    /// long as it takes. A second one would let the others fill the link before that port, which
    /// then never comes to its end. When the low go bit is lost, packets cease: even high sends
    /// need it after some.
    fn look_for_go(&mut self, at: u32, tick: u64) {
        let ring = self.ports[at as usize].ring as usize;
        let port = &mut self.ports[at as usize];
        let ringlet = &mut self.ringlets[ring];
        let is_fine = std::mem::take(&mut ringlet.alive) || port.in_rise.low <= tick;
        ringlet.silent = if is_fine { 0 } else { ringlet.silent + 1 };
        if !self.flow_control || ringlet.silent < SILENT_CIRCULATIONS {
            return;
        }
        ringlet.silent = 0;
        port.counters.gos_injected += 1;
        port.in_rise = Go::at(tick);
        port.first_go = port.first_go.map(|open| open.min(tick));
        let out = port.first_go.from(port.free_at);
        self.revise(at, out, tick);
    }

    /// A disturbance takes every go bit off the links: no port may start until one is put in.
    pub fn lose_go_bits(&mut self) {
        for port in &mut self.ports {
            (port.in_rise, port.first_go, port.out_rise) = (Go::NEVER, Go::NEVER, Go::NEVER);
            port.saved = Go::NEVER;
            port.input.iter_mut().for_each(|item| item.rise = Go::NEVER);
        }
    }

    /// A receive queue begins to serve a generation: rounds of allocation must be told.
    pub fn begin_ageing(&mut self, at: u32, tick: u64) {
        let ringlet = &mut self.ringlets[self.ports[at as usize].ring as usize];
        if ringlet.begun_at != tick {
            (ringlet.begun_at, ringlet.begun) = (tick, 0);
        }
        ringlet.begun += 1;
        ringlet.ageing += 1;
        if !ringlet.allocating {
            self.begin_rounds(at, tick);
        }
    }

    /// The scrubber will put an allocation toggle out.
    fn begin_rounds(&mut self, at: u32, tick: u64) {
        let ringlet = &mut self.ringlets[self.ports[at as usize].ring as usize];
        ringlet.allocating = true;
        ringlet.allocation_at = tick + 1;
        let scrubber = ringlet.ports[0];
        self.schedule(tick + 1, scrubber, Kind::Wake);
    }

    /// Returns true if the allocation toggle ends at the scrubber: no receive queue served a
    /// generation before this tick. For one that begins in this tick, another toggle is put out.
    fn ends_rounds(&mut self, at: u32, tick: u64) -> bool {
        let ringlet = &mut self.ringlets[self.ports[at as usize].ring as usize];
        let begun = if ringlet.begun_at == tick { ringlet.begun } else { 0 };
        if ringlet.ports[0] != at || ringlet.ageing > begun {
            return false;
        }
        ringlet.allocating = false;
        if begun > 0 {
            self.begin_rounds(at, tick);
        }
        true
    }

    /// The allocation toggle comes: it waits until each refused send of this port has been tried
    /// again, and for a send that is ready when none has had its turn since the toggle was here.
    /// Without flow control it never waits: the turn may not come, because retries of sends that
    /// wait for this very round to end fill the link.
    pub fn allocation(&mut self, at: u32, tick: u64) {
        let ring = self.ports[at as usize].ring as usize;
        for class in 0..2 {
            let ageing = &mut self.ports[at as usize].intake[class].ageing;
            let before = ageing.is_serving();
            ageing.round();
            let after = ageing.is_serving();
            self.ringlets[ring].ageing -= u32::from(before && !after);
        }
        if self.ends_rounds(at, tick) {
            return;
        }
        self.owe_tries(at);
        let port = &self.ports[at as usize];
        let window = self.window();
        let waits = |lane: &super::lane::Lane| {
            lane.first(&self.sends, window, tick).is_some_and(|(_, ready)| ready <= tick)
        };
        let has_turn = self.flow_control && !port.sent_since_allocation;
        if port.owed > 0 || (has_turn && port.lanes.iter().any(waits)) {
            self.ports[at as usize].holds_allocation = true;
        } else {
            self.pass_allocation(at, tick);
        }
    }

    /// Marks the refused sends of a port that wait for their next try.
    fn owe_tries(&mut self, at: u32) {
        if !self.flow_control {
            return;
        }
        let port = &mut self.ports[at as usize];
        for &handle in port.lanes.iter().flat_map(|lane| &lane.unacknowledged) {
            let Some(send) = self.sends.get_mut(handle) else { continue };
            if send.ready != NEVER && !std::mem::replace(&mut send.owed, true) {
                port.owed += 1;
            }
        }
    }

    pub fn pass_allocation(&mut self, at: u32, tick: u64) {
        self.ports[at as usize].sent_since_allocation = false;
        self.pass_toggle(at, tick, What::Allocation);
    }

    /// A send's end becomes known; it holds from tick `end` on.
    pub fn end_send(&mut self, at: u32, handle: u32, end: u64, loss: Option<Loss>) {
        let window = self.window();
        let Some(send) = self.sends.get_mut(handle).filter(|send| !send.ended) else { return };
        (send.loss, send.ended) = (loss, true);
        send.ready = NEVER;
        let number = send.lane;
        let port = &mut self.ports[at as usize];
        port.owed -= u32::from(std::mem::take(&mut send.owed));
        let lane = &mut port.lanes[number];
        if lane.unacknowledged.len() >= window {
            lane.window_at = end;
        }
        lane.unacknowledged.retain(|&other| other != handle);
        lane.unsent.retain(|&other| other != handle);
        port.note_lane(number, &self.sends);
        self.schedule(end, handle, Kind::Ended);
    }

    /// Nothing comes round any more: all sends of the ringlet end.
    pub fn declare_dead(&mut self, ring: u32, tick: u64) {
        self.ringlets[ring as usize].dead = true;
        for at in self.ringlets[ring as usize].ports.clone() {
            self.end_all(at, tick);
        }
    }

    /// Ends all sends of a port.
    pub fn end_all(&mut self, at: u32, tick: u64) {
        for lane in 0..LANES {
            let lane = &self.ports[at as usize].lanes[lane];
            let handles: Vec<u32> =
                lane.unacknowledged.iter().chain(&lane.unsent).copied().collect();
            for handle in handles {
                self.ports[at as usize].counters.lost += 1;
                self.end_send(at, handle, tick + 1, Some(Loss::Dead));
            }
        }
    }

    /// Cuts the cable behind a port: what is on it is destroyed.
    pub fn cut(&mut self, at: u32, tick: u64) {
        if std::mem::replace(&mut self.ports[at as usize].cut, true) {
            return;
        }
        let downstream = self.ports[at as usize].downstream as usize;
        let mut kept = std::mem::take(&mut self.ports[downstream].input);
        let gone = kept.iter().position(|item| item.at > tick).map(|first| kept.split_off(first));
        self.ports[downstream].input = kept;
        for item in gone.unwrap_or_default() {
            if let What::Packet(flight) = item.what {
                let symbols = self.flights.get(flight).map_or(0, |f| u64::from(f.symbols));
                self.ports[at as usize].counters.symbols_destroyed += symbols;
                self.destroy(at, flight);
            }
        }
        self.watch(self.ports[at as usize].ring, tick);
    }
}
