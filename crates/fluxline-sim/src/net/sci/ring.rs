//! The rules of a ringlet, as a discrete-event simulation.
//!
//! A port acts only when a packet's head arrives, or when a send of its own may start. When a head
//! arrives, the tick at which the packet leaves is known at once, because no own send can come
//! between. So a hop is one entry. The go bits behind the packet are not known yet: they are
//! forecast (`Item::rise`). The forecast is revised in place, down the ringlet as far as it
//! reaches, before any port can have seen the idle in question.
//!
//! Decisions where the sources are silent:
//! * A port saves arriving go bits unchanged, without the extension that its output applies.
//! * Idles made by stripping have no go bit. (If they copied the idle before, a port would turn the
//!   go bit that let it start into a new one, and a port that strips many packets would send more
//!   than its share.)
//! * The idle behind an own packet releases the go bits that arrived during that packet, even if
//!   other packets wait behind it; go bits that arrive later are released when the bypass FIFO is
//!   empty.
//! * A recovering low-priority node sets the high go bit before a packet if it saw one before the
//!   packet's head arrived.
//! * Requests and responses take turns, separately for low and high sends. (With common turns and
//!   nine high sends between two low ones, all low sends would be of the same class.)
//! * If a port's own send and a packet's head compete for a tick, the send starts and the packet
//!   waits.
//! * Events have precedence over a port's other sends, wait for the low go bit as these do, and do
//!   not take part in turns between classes and priorities.
//! * The allocation toggle waits at a port until its refused sends are tried again; these have
//!   precedence.
//! * The scrubber inserts a go bit after some circulations with neither a packet nor a low go idle.
//!   (While packets come, a port may hold the bit back to empty its bypass FIFO.)
//! * A packet offered during a tick may start in the next one. A slot freed in a tick counts from
//!   the next one; so does a generation, for the scrubber. So nothing depends on the order of
//!   entries within a tick.

use super::ageing::{Answer, Phase};
use super::config::{Config, Retry};
use super::go::{Clears, Go, NEVER};
use super::lane::{EVENTS, Pool, Send, is_high, is_response};
use super::link::{Entry, Kind, Loss};
use super::packet::{ECHO_SYMBOLS, Packet};
use super::port::{Arriving, Echo, Flight, Item, Port, What};
use super::random::Errors;
use super::tap::{Put, Tap};

/// High sends in a row; the next one waits like a low one. "About 10 % stays for low priority":
/// BACKGROUND-M; counting in sends is a simplification.
const HIGH_STREAK: u32 = 9;

/// Symbols of an echo, as time.
const ECHO: u64 = ECHO_SYMBOLS as u64;

/// A ringlet.
#[derive(Debug)]
pub(super) struct Ringlet {
    pub ports: Vec<u32>,
    /// Age from which a send is checked \[symbols\].
    pub patience: u64,
    pub dead: bool,
    /// True if an entry will check for old sends.
    pub watched: bool,
    /// The tick at which the circulation toggle left the scrubber.
    pub toggled_at: Option<u64>,
    /// The tick at which the scrubber will put out the next circulation toggle.
    pub toggle_at: u64,
    /// True if a packet reached the scrubber since the last toggle.
    pub alive: bool,
    /// Number of circulations in a row with neither a packet nor a low go idle.
    pub silent: u32,
    /// Number of receive queues that serve a generation.
    pub ageing: u32,
    /// The number of them that began in tick `begun_at`: they count from the next tick on.
    pub begun: u32,
    pub begun_at: u64,
    pub allocating: bool,
    pub allocation_at: u64,
}

/// The history of a ringlet, for tests: tick, port, event, send.
#[cfg(test)]
pub(super) type Trace = Vec<(u64, u32, char, u64)>;

/// An entry to schedule at the start of a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub tick: u64,
    pub entry: Entry,
}

/// All ringlets.
#[derive(Debug)]
pub(super) struct Rings {
    pub hop: u64,
    pub flow_control: bool,
    retry: Retry,
    window: usize,
    slots: [u32; 2],
    pub circulations: u32,
    pub dead_symbols: u64,
    pub ports: Vec<Port>,
    pub ringlets: Vec<Ringlet>,
    pub flights: Pool<Flight>,
    pub sends: Pool<Send>,
    errors: Errors,
    /// Entries to schedule, in order.
    pub due: Vec<Due>,
    /// Records packets on the links if there is a dump.
    pub tap: Option<Box<Tap>>,
    #[cfg(test)]
    pub trace: Trace,
}

impl Rings {
    pub fn new(config: &Config, ports: Vec<Port>, ringlets: Vec<Ringlet>) -> Rings {
        Rings {
            hop: u64::from(config.pass_symbols) + u64::from(config.cable_symbols),
            flow_control: config.flow_control,
            retry: config.retry,
            window: config.unacknowledged as usize,
            slots: [config.request_queue, config.response_queue],
            circulations: config.circulations,
            dead_symbols: config.dead_symbols,
            ports,
            ringlets,
            flights: Pool::default(),
            sends: Pool::default(),
            errors: Errors::new(config.faults),
            due: Vec::new(),
            tap: None,
            #[cfg(test)]
            trace: Trace::new(),
        }
    }

    pub fn window(&self) -> usize {
        self.window
    }

    pub fn slots(&self, class: usize) -> u32 {
        self.slots[class]
    }

    pub fn schedule(&mut self, tick: u64, at: u32, kind: Kind) {
        self.due.push(Due { tick, entry: Entry { at, kind } });
    }

    #[cfg(test)]
    pub fn note(&mut self, tick: u64, at: u32, what: char, id: u64) {
        self.trace.push((tick, at, what, id));
    }

    #[cfg(not(test))]
    pub fn note(&mut self, _tick: u64, _at: u32, _what: char, _id: u64) {}

    /// Does all work of port `at` in `tick`.
    pub fn wake(&mut self, at: u32, tick: u64) {
        let index = at as usize;
        if self.ports[index].woken_for <= tick {
            self.ports[index].woken_for = NEVER;
        }
        if self.ports[index].dead {
            return self.swallow_all(at, tick);
        }
        self.start_own(at, tick);
        if let Some((begin, flight)) = self.ports[index].echo.filter(|echo| echo.0 == tick) {
            self.ports[index].echo = None;
            self.ports[index].counters.symbols_made += ECHO;
            let behind = self.ports[index].in_rise;
            self.forward(at, begin, flight, behind);
        }
        while let Some(item) = self.ports[index].input.front().copied().filter(|i| i.at <= tick) {
            debug_assert_eq!(item.at, tick, "an item was missed");
            self.ports[index].input.pop_front();
            match item.what {
                What::Packet(flight) => self.head(at, tick, flight, item.rise),
                What::Circulation => self.circulation(at, tick),
                What::Allocation => self.allocation(at, tick),
            }
        }
        self.launch(at, tick);
        self.plan(at, tick);
    }

    /// Handles the arrival of a packet's head.
    fn head(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let Some(flight) = self.flights.get_mut(handle) else { return };
        let port = &mut self.ports[at as usize];
        port.counters.symbols_in += u64::from(flight.symbols);
        if flight.bad && !flight.logged {
            flight.logged = true;
            port.counters.crc_errors += 1;
        }
        let flight = *flight;
        let is_scrubber = port.is_scrubber;
        self.take_note(at, tick, &flight);
        let port = &self.ports[at as usize];
        if is_scrubber {
            self.ringlets[port.ring as usize].alive = true;
        }
        if flight.target == at {
            return match flight.echo {
                Some(_) => self.echo_home(at, tick, handle, rise),
                None => self.take(at, tick, handle, rise),
            };
        }
        if is_scrubber && flight.old {
            return self.scrub(at, tick, handle, rise);
        }
        if is_scrubber {
            self.flights.get_mut(handle).expect("looked up above").old = true;
        }
        self.forward(at, tick, handle, rise);
    }

    /// Passes on a packet whose head is at the output stage at `tick`.
    fn forward(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let symbols = self.flights.get(handle).map_or(0, |flight| u64::from(flight.symbols));
        let port = &mut self.ports[at as usize];
        port.in_rise = rise;
        let known = port.out_rise;
        let (out, ended) = if tick > port.free_at {
            port.clears = None;
            port.first_go = rise;
            (tick, known.until(tick))
        } else {
            (port.free_at + 1, port.wait_behind(tick, rise))
        };
        port.counters.bypass_max = port.counters.bypass_max.max(out - tick);
        let strobe = self.flights.get(handle).filter(|flight| flight.is_strobe);
        if let Some(send) = strobe.and_then(|flight| self.sends.get_mut(flight.send)) {
            send.waited += out - tick;
        }
        port.free_at = out + symbols;
        self.put(at, tick, out, handle);
        if ended != known {
            self.announce(at, out, ended, tick);
        }
        self.settle_own_idle(at, tick);
    }

    /// Puts a packet on the output link from tick `out` on, as known at `now`, and sets `free_at`.
    fn put(&mut self, at: u32, now: u64, out: u64, handle: u32) {
        let port = &mut self.ports[at as usize];
        let rise = port.first_go.from(port.free_at);
        port.out_rise = rise;
        let Some(flight) = self.flights.get_mut(handle) else { return };
        let is_send = flight.echo.is_none();
        port.counters.packets_out += 1;
        port.counters.sends_out += u64::from(is_send);
        port.counters.symbols_out += u64::from(flight.symbols);
        flight.bad |= self.errors.hit(flight.symbols);
        let id = flight.id;
        let (downstream, cut) = (port.downstream, port.cut);
        if let Some(tap) = &mut self.tap {
            tap.put(Put { at, now, out, handle, is_cut: cut }, flight);
        }
        self.note(out, at, if is_send { 's' } else { 'e' }, id);
        if cut {
            let symbols = self.flights.get(handle).map_or(0, |flight| u64::from(flight.symbols));
            self.ports[at as usize].counters.symbols_destroyed += symbols;
            return self.destroy(at, handle);
        }
        let (arrives, rise) = (out + self.hop, rise.later(self.hop));
        let item = Item { at: arrives, what: What::Packet(handle), rise };
        self.ports[downstream as usize].input.push_back(item);
        self.schedule(arrives, downstream, Kind::Wake);
    }

    pub fn destroy(&mut self, at: u32, handle: u32) {
        let Some(flight) = self.flights.remove(handle) else { return };
        if flight.is_event {
            self.packet_of(flight);
        }
        let counters = &mut self.ports[at as usize].counters;
        match flight.echo {
            Some(_) => counters.destroyed_echoes += 1,
            None => counters.destroyed_sends += 1,
        }
    }

    /// Destroys all arrivals of a dead port.
    fn swallow_all(&mut self, at: u32, tick: u64) {
        if let Some((_, flight)) = self.ports[at as usize].echo.take() {
            self.destroy(at, flight);
        }
        while let Some(item) = self.ports[at as usize].input.front().filter(|i| i.at <= tick) {
            let what = item.what;
            self.ports[at as usize].input.pop_front();
            if let What::Packet(handle) = what {
                let symbols = self.flights.get(handle).map_or(0, |flight| flight.symbols);
                let counters = &mut self.ports[at as usize].counters;
                counters.symbols_in += u64::from(symbols);
                counters.symbols_stripped += u64::from(symbols);
                self.destroy(at, handle);
            }
        }
    }

    /// Returns the next send of a port, and its earliest start as far as known.
    fn next_start(&self, at: u32, now: u64) -> Option<(u64, usize, u32)> {
        let port = &self.ports[at as usize];
        let spent = port.high_streak >= HIGH_STREAK;
        let mut best: Option<((u64, u32, bool), usize, u32)> = None;
        for (number, lane) in port.lanes.iter().enumerate() {
            if port.may_start & (1 << number) == 0 {
                continue;
            }
            let needs =
                if is_high(number) && !spent { port.out_rise.high } else { port.out_rise.low };
            let go = if self.flow_control { needs } else { 0 };
            if go == NEVER {
                continue;
            }
            let from = (go + 1).max(port.free_at + 1).max(now);
            let Some((send, ready)) = lane.first(&self.sends, self.window, from) else { continue };
            let later_priority = 1 + u32::from(is_high(number) == spent);
            let rank = if number == EVENTS { 0 } else { later_priority };
            let last_response = port.last_response[usize::from(is_high(number))];
            let key = (ready, rank, is_response(number) == last_response);
            if best.is_none_or(|(other, ..)| key < other) {
                best = Some((key, number, send));
            }
        }
        best.map(|((tick, ..), lane, send)| (tick, lane, send))
    }

    /// Schedules the next own start, unless an entry as early exists.
    pub fn plan(&mut self, at: u32, now: u64) {
        if self.ports[at as usize].may_start == 0 {
            return;
        }
        let Some((tick, ..)) = self.next_start(at, now + 1) else { return };
        if tick < self.ports[at as usize].woken_for {
            self.ports[at as usize].woken_for = tick;
            self.schedule(tick, at, Kind::Wake);
        }
    }

    /// Starts an own send of the port, if one may start in this tick.
    fn start_own(&mut self, at: u32, tick: u64) {
        if self.ports[at as usize].may_start == 0 {
            return;
        }
        let Some((start, lane, handle)) = self.next_start(at, tick) else { return };
        if start != tick {
            return;
        }
        let port = &mut self.ports[at as usize];
        let spent = port.high_streak >= HIGH_STREAK;
        let clears = if is_high(lane) && !spent { Clears::Both } else { Clears::Low };
        if lane != EVENTS {
            port.high_streak = if is_high(lane) && !spent { port.high_streak + 1 } else { 0 };
            port.last_response[usize::from(is_high(lane))] = is_response(lane);
        }
        let known = port.out_rise;
        let Some(flight) = self.take_off(at, tick, lane, handle) else { return };
        let symbols = u64::from(flight.symbols);
        let is_event = flight.is_event;
        let flight = self.flights.add(flight);
        self.ports[at as usize].start(tick, symbols, clears);
        if let (Some(tap), Some(send)) = (&mut self.tap, self.sends.get(handle)) {
            tap.start(flight, send);
        }
        self.put(at, tick, tick, flight);
        if known.until(tick) != known {
            self.announce(at, tick, known.until(tick), tick);
        }
        if is_event {
            self.schedule(tick + symbols, handle, Kind::Ended);
        } else {
            self.watch(self.ports[at as usize].ring, tick);
        }
        let port = &mut self.ports[at as usize];
        port.sent_since_allocation = true;
        if port.owed == 0 && std::mem::take(&mut port.holds_allocation) {
            self.pass_allocation(at, tick);
        }
    }

    /// Moves a waiting send onto the ringlet.
    fn take_off(&mut self, at: u32, tick: u64, number: usize, handle: u32) -> Option<Flight> {
        let send = self.sends.get_mut(handle)?;
        let port = &mut self.ports[at as usize];
        let lane = &mut port.lanes[number];
        (send.delayed, send.waited) = (tick - send.ready, 0);
        (send.ready, send.started, send.age) = (NEVER, tick, 0);
        send.attempts = send.attempts.saturating_add(1);
        port.owed -= u32::from(std::mem::take(&mut send.owed));
        if lane.unsent.front() == Some(&handle) {
            lane.unsent.pop_front();
            if !send.is_event {
                lane.unacknowledged.push(handle);
            }
        } else {
            port.counters.retries += 1;
        }
        if send.is_event {
            port.counters.events += 1;
        } else {
            port.counters.tries += 1;
        }
        let flight = Flight {
            target: send.port,
            source: at,
            symbols: send.symbols,
            send: handle,
            id: send.id.0,
            phase: send.phase,
            lane: number as u8,
            is_event: send.is_event,
            is_strobe: send.strobe.is_some(),
            echo: None,
            old: false,
            bad: false,
            logged: false,
        };
        port.note_lane(number, &self.sends);
        Some(flight)
    }

    /// Takes off a send for this port; an echo replaces its last symbols.
    fn take(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let Some(flight) = self.flights.get(handle).copied() else { return };
        let end = tick + u64::from(flight.symbols);
        let class = usize::from(is_response(flight.lane.into()));
        let answer = if flight.is_event { Answer::Accepted } else { self.answer(at, tick, flight) };
        let accepted = answer == Answer::Accepted;
        let counters = &mut self.ports[at as usize].counters;
        match (flight.is_event, flight.bad, accepted) {
            (true, ..) => counters.events_taken += 1,
            (_, true, _) => counters.bad_sends += 1,
            (_, _, true) => counters.accepted += 1,
            (_, _, false) => counters.refused += 1,
        }
        if accepted {
            // A damaged send keeps its packet, which distinguishes its loss from that of its echo.
            let is_destroyed = flight.bad && !flight.is_event;
            let packet = if is_destroyed { None } else { self.packet_of(flight) };
            let packet = packet.filter(|_| !flight.bad);
            let port = &mut self.ports[at as usize];
            port.intake[class].held += u32::from(!flight.is_event);
            let (is_event, lane) = (flight.is_event, usize::from(flight.lane));
            port.arriving.push_back(Arriving { end, packet, is_event, lane });
            self.note(tick, at, 'a', flight.id);
            self.schedule(end, at, Kind::Stripped);
        }
        if flight.is_event {
            return self.strip_whole(at, tick, handle, rise);
        }
        let echo = match answer {
            Answer::Accepted => Echo::Accepted,
            Answer::Busy(phase) => {
                self.note(tick, at, phase.letter(), flight.id);
                Echo::Busy(phase)
            }
        };
        self.strip_for_echo(at, tick, handle, rise, echo);
    }

    /// Moves the bytes out of a send that arrived. An event's send ends here when its last symbol
    /// had left before.
    fn packet_of(&mut self, flight: Flight) -> Option<Packet> {
        let send = self.sends.get_mut(flight.send).filter(|send| send.id.0 == flight.id)?;
        let packet = send.packet.take();
        if send.is_event && send.ended {
            self.sends.remove(flight.send);
        }
        packet
    }

    fn answer(&mut self, at: u32, tick: u64, flight: Flight) -> Answer {
        let class = usize::from(is_response(flight.lane.into()));
        let slots = self.slots[class];
        let intake = &mut self.ports[at as usize].intake[class];
        let space = intake.has_space(tick, slots);
        match self.retry {
            Retry::Plain { .. } if space => Answer::Accepted,
            Retry::Plain { .. } => Answer::Busy(Phase::DoTry),
            Retry::Aged => {
                let before = intake.ageing.is_serving();
                let answer = intake.ageing.answer(flight.phase, space);
                if intake.ageing.is_serving() && !before {
                    self.begin_ageing(at, tick);
                }
                answer
            }
        }
    }

    /// Turns a packet into idles, except its last symbols, which become an echo to its sender.
    fn strip_for_echo(&mut self, at: u32, tick: u64, handle: u32, rise: Go, echo: Echo) {
        let Some(flight) = self.flights.get_mut(handle) else { return };
        let begin = tick + u64::from(flight.symbols) - ECHO;
        let port = &mut self.ports[at as usize];
        port.counters.symbols_stripped += u64::from(flight.symbols);
        port.counters.echoes_made += 1;
        (flight.echo, flight.target, flight.old) = (Some(echo), flight.source, false);
        flight.symbols = ECHO_SYMBOLS;
        port.echo = Some((begin, handle));
        self.strip(at, tick, rise);
        self.schedule(begin, at, Kind::Wake);
    }

    /// Turns a whole packet into idles, and ends its flight.
    fn strip_whole(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let Some(flight) = self.flights.remove(handle) else { return };
        if flight.is_event {
            self.packet_of(flight);
        }
        let port = &mut self.ports[at as usize];
        port.counters.symbols_stripped += u64::from(flight.symbols);
        self.strip(at, tick, rise);
    }

    /// Turns arrivals from `tick` on into idles without go bits, until the idles behind the packet
    /// (`rise`) or the echo arrive.
    fn strip(&mut self, at: u32, tick: u64, rise: Go) {
        let port = &mut self.ports[at as usize];
        port.in_rise = rise;
        port.come(tick, if port.echo.is_some() { Go::NEVER } else { rise });
        let out = port.first_go.from(port.free_at);
        self.settle_own_idle(at, tick);
        self.revise(at, out, tick);
    }

    /// Handles a packet that the scrubber sees for the second time.
    fn scrub(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let Some(flight) = self.flights.get(handle).copied() else { return };
        let counters = &mut self.ports[at as usize].counters;
        if flight.echo.is_some() {
            counters.stale_echoes += 1;
            return self.strip_whole(at, tick, handle, rise);
        }
        counters.stale_sends += 1;
        if flight.is_event {
            return self.strip_whole(at, tick, handle, rise);
        }
        self.strip_for_echo(at, tick, handle, rise, Echo::None);
    }

    /// Handles an echo at its sender: it takes effect from the symbol after it.
    fn echo_home(&mut self, at: u32, tick: u64, handle: u32, rise: Go) {
        let Some(flight) = self.flights.get(handle).copied() else { return };
        let end = tick + ECHO;
        self.strip_whole(at, tick, handle, rise);
        self.note(tick, at, 'h', flight.id);
        let counters = &mut self.ports[at as usize].counters;
        let send = self.sends.get_mut(flight.send);
        let send = send.filter(|send| send.id.0 == flight.id && !send.ended);
        let (Some(send), false) = (send, flight.bad) else {
            counters.bad_echoes += 1;
            return;
        };
        counters.echoes += 1;
        match flight.echo {
            Some(Echo::Busy(phase)) => {
                counters.busies += 1;
                send.phase = phase;
                let delay = if let Retry::Plain { delay } = self.retry { delay } else { 0 };
                send.ready = end + delay;
                let lane = send.lane;
                self.ports[at as usize].may_start |= 1 << lane;
            }
            Some(Echo::None) => {
                counters.nones += 1;
                self.end_send(at, flight.send, end, Some(Loss::NoSuchNode));
            }
            _ => self.end_send(at, flight.send, end, None),
        }
    }
}
