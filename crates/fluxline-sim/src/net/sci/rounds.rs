//! The toggles of circulation and allocation that travel round a ringlet, and the end of sends,
//! successful or not.
//!
//! The toggles are simulated only while they have an effect: circulation while a send is older than
//! two empty circulations, allocation while a receive queue serves a generation. (The hardware
//! always has them; they cost no symbols.)

use super::go::{Go, NEVER};
use super::lane::LANES;
use super::link::{Kind, Loss};
use super::port::{Item, What};
use super::ring::Rings;

/// Circulations with neither a packet nor a low go idle after which the scrubber inserts a go bit.
/// Source of the time-out: names of errors in Numascale's LC4 firmware. Its length, and its delay
/// by packets, are assumed.
const SILENT_CIRCULATIONS: u32 = 4;

impl Rings {
    /// Schedules the check for old sends of a ringlet.
    pub fn watch(&mut self, ring: u32, tick: u64) {
        let ringlet = &mut self.ringlets[ring as usize];
        if !ringlet.watched && !ringlet.dead {
            ringlet.watched = true;
            let at = tick + ringlet.patience;
            self.schedule(at, ring, Kind::Watch);
        }
    }

    /// Checks for old sends of a ringlet; they start the circulation toggle.
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

    /// Returns the tick since which the oldest send of a ringlet waits or is on its way.
    fn oldest(&self, ring: u32) -> Option<u64> {
        let ports = self.ringlets[ring as usize].ports.iter();
        let lanes = ports.flat_map(|&port| &self.ports[port as usize].lanes);
        let handles = lanes.flat_map(|lane| lane.unacknowledged.iter().chain(lane.unsent.front()));
        handles.filter_map(|&handle| self.sends.get(handle)).map(|send| send.started).min()
    }

    /// Puts out the toggles that the scrubber starts in this tick.
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

    /// Handles the circulation toggle: sends that saw it too often are lost.
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

    /// Inserts a go bit at the scrubber after some circulations without any arrival, because the go
    /// bit was lost.
    ///
    /// While packets come, a port that empties its bypass FIFO may hold the go bit back as long as
    /// it needs. With a second go bit, the other ports would fill the link before that port, which
    /// then would never empty its FIFO. When the low go bit is lost, packets cease: even high sends
    /// need it after a while.
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

    /// Clears every go bit on the links, as a fault: no port may start until one is inserted.
    pub fn lose_go_bits(&mut self) {
        for port in &mut self.ports {
            (port.in_rise, port.first_go, port.out_rise) = (Go::NEVER, Go::NEVER, Go::NEVER);
            port.saved = Go::NEVER;
            port.input.iter_mut().for_each(|item| item.rise = Go::NEVER);
        }
    }

    /// Handles a receive queue that begins to serve a generation: allocation rounds must be
    /// simulated.
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

    /// Schedules an allocation toggle at the scrubber.
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

    /// Handles the allocation toggle. It waits until each refused send of this port has been tried
    /// again. It also waits for a ready send if no send has had its turn since the last toggle.
    /// Without flow control it never waits: the turn may never come, because sends that wait for
    /// the end of this round fill the link with retries.
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

    /// Records the end of a send, effective from tick `end`.
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

    /// Declares a ringlet dead, because nothing comes round any more: all its sends end.
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

    /// Cuts the cable behind a port: packets on it are destroyed.
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

    /// Joins the cable behind a port again. Toggles and go bits were lost with it: they start anew.
    /// The cables of a port without power stay cut.
    pub fn mend(&mut self, at: u32, tick: u64) {
        let port = &mut self.ports[at as usize];
        let (ring, downstream) = (port.ring, port.downstream);
        if !port.cut || port.dead || self.ports[downstream as usize].dead {
            return;
        }
        self.ports[at as usize].cut = false;
        let ringlet = &mut self.ringlets[ring as usize];
        (ringlet.dead, ringlet.toggled_at) = (false, None);
        if ringlet.allocating {
            self.begin_rounds(at, tick);
        }
        self.watch(ring, tick);
        for at in self.ringlets[ring as usize].ports.clone() {
            self.plan(at, tick);
        }
    }
}
