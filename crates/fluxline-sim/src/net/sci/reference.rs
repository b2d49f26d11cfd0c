//! The brute-force reference model of a ringlet: every port processes every symbol. It is slow; the
//! engine must agree with it.
//!
//! One symbol per link and tick; the multiplexer follows the rules of bandwidth allocation line by
//! line. Of the toggles, only the allocation toggle is modelled, because ageing needs it. Port 0 is
//! the scrubber.

use std::collections::VecDeque;

use super::ageing::{Ageing, Answer, Phase};
use super::config::{Config, Retry};
use super::port::Echo;

/// One symbol on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symbol {
    /// Symbol number `index` of a packet.
    Packet {
        packet: Carried,
        index: u32,
    },
    Idle {
        low: bool,
        high: bool,
        toggle: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    pub id: u64,
    pub source: usize,
    pub target: usize,
    pub length: u32,
    pub response: bool,
    pub phase: Phase,
    pub event: bool,
    pub strobe: bool,
    /// True if it passed the scrubber; valid in its first symbol.
    pub old: bool,
    /// Waits at its sender and in bypass FIFOs; valid in its first symbol.
    pub delayed: u64,
    pub waited: u64,
    /// The verdict, in an echo.
    pub echo: Option<Echo>,
}

/// An offered packet and its receiver; a `target` that does not exist never takes it.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    pub id: u64,
    pub target: usize,
    pub length: u32,
    pub response: bool,
    pub high: bool,
    pub event: bool,
    pub strobe: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub what: Offered,
    ready: u64,
    phase: Phase,
    /// True if it was sent at least once.
    sent: bool,
    flying: bool,
    /// True if it was waiting for its next try when the toggle came.
    owed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Pass,
    Transmit {
        packet: Carried,
        next: u32,
    },
    /// The idle behind the own packet is due.
    Attached,
    Recover,
}

/// The work of a parser on one packet.
#[derive(Clone, Copy)]
enum Stripping {
    /// It lets the packet pass.
    Passes,
    /// It takes the packet off, and replaces it by an echo, if one is sent.
    TakesOff { echo: Option<Carried> },
}

struct Station {
    link: VecDeque<Symbol>,
    mode: Mode,
    both: bool,
    /// Symbols with their tick of arrival, the toggle behind and the high go bit before.
    bypass: VecDeque<(Symbol, u64, bool, bool)>,
    save: (bool, bool),
    save_toggle: bool,
    last_out: Symbol,
    /// The work of the parser on the arriving packet.
    stripping: Stripping,
    sends: Vec<Waiting>,
    window_at: [u64; 5],
    /// True if the last own send was a response, for low and for high sends.
    last_response: [bool; 2],
    streak: u32,
    held: [u32; 2],
    freed: Vec<(u64, usize)>,
    ageing: [Ageing; 2],
    holds: bool,
    sent_since: bool,
    bypass_max: u64,
}

pub struct Reference {
    config: Config,
    stations: Vec<Station>,
    pub tick: u64,
    pub trace: Vec<(u64, u32, char, u64)>,
    /// Accepted packets: tick behind the last symbol, node, class.
    pub received: Vec<(u64, usize, usize)>,
    /// Events: tick behind the last symbol, node, number.
    pub events: Vec<(u64, usize, u64)>,
    /// Strobes: tick of the first symbol, node, number, waits.
    pub strobes: Vec<(u64, usize, u64, [u64; 2])>,
    ageing: u32,
    allocating: bool,
    launch_at: u64,
}

const GO: Symbol = Symbol::Idle { low: true, high: true, toggle: false };

impl Reference {
    pub fn new(config: &Config) -> Reference {
        let hop = (config.pass_symbols + config.cable_symbols) as usize;
        let station = || Station {
            link: VecDeque::from(vec![GO; hop]),
            mode: Mode::Pass,
            both: false,
            bypass: VecDeque::new(),
            save: (false, false),
            save_toggle: false,
            last_out: GO,
            stripping: Stripping::Passes,
            sends: Vec::new(),
            window_at: [0; 5],
            last_response: [true; 2],
            streak: 0,
            held: [0; 2],
            freed: Vec::new(),
            ageing: [Ageing::default(); 2],
            holds: false,
            sent_since: false,
            bypass_max: 0,
        };
        Reference {
            stations: (0..config.addresses.len()).map(|_| station()).collect(),
            config: config.clone(),
            tick: 0,
            trace: Vec::new(),
            received: Vec::new(),
            events: Vec::new(),
            strobes: Vec::new(),
            ageing: 0,
            allocating: false,
            launch_at: u64::MAX,
        }
    }

    /// Offers a packet during the last tick that was stepped.
    pub fn send(&mut self, node: usize, what: Offered) {
        let (ready, phase) = (self.tick + 1, Phase::DoTry);
        let (sent, flying, owed) = (false, false, false);
        self.stations[node].sends.push(Waiting { what, ready, phase, sent, flying, owed });
    }

    pub fn take(&mut self, node: usize, class: usize) {
        let tick = self.tick;
        self.stations[node].held[class] -= 1;
        self.stations[node].freed.push((tick, class));
    }

    pub fn bypass_max(&self) -> Vec<u64> {
        self.stations.iter().map(|station| station.bypass_max).collect()
    }

    pub fn step(&mut self) {
        self.tick += 1;
        let nodes = self.stations.len();
        let came: Vec<Symbol> =
            self.stations.iter_mut().map(|s| s.link.pop_front().expect("a full link")).collect();
        let put: Vec<Symbol> = (0..nodes).map(|node| self.station(node, came[node])).collect();
        for (node, symbol) in put.into_iter().enumerate() {
            self.stations[(node + 1) % nodes].link.push_back(symbol);
        }
    }

    fn station(&mut self, node: usize, came: Symbol) -> Symbol {
        let starts = self.may_start(node);
        let (parsed, toggle) = self.parse(node, came);
        if let Some(packet) = starts {
            self.begin(node, packet);
        }
        let toggle = toggle && !self.hold(node, toggle);
        let launched = node == 0 && self.launch_at == self.tick;
        if launched {
            self.stations[0].sent_since = false;
        }
        let mut symbol = self.mux(node, parsed, toggle || launched);
        if let (Symbol::Idle { low, high, .. }, false) = (&mut symbol, self.config.flow_control) {
            (*low, *high) = (true, true);
        }
        self.stations[node].last_out = symbol;
        if let Symbol::Packet { packet, index: 0 } = symbol {
            let what = if packet.echo.is_some() { 'e' } else { 's' };
            self.trace.push((self.tick, node as u32, what, packet.id));
        }
        symbol
    }

    /// Parses a symbol: packets for this node become idles and an echo.
    fn parse(&mut self, node: usize, came: Symbol) -> (Symbol, bool) {
        let made = Symbol::Idle { low: false, high: false, toggle: false };
        match came {
            Symbol::Idle { low, high, toggle } => {
                (Symbol::Idle { low, high, toggle: false }, toggle)
            }
            Symbol::Packet { packet, index } => {
                let mut packet = packet;
                if index == 0 {
                    if packet.strobe {
                        let waits = [packet.delayed, packet.waited];
                        self.strobes.push((self.tick, node, packet.id, waits));
                    }
                    self.stations[node].stripping = if packet.target == node {
                        Stripping::TakesOff { echo: self.head(node, packet) }
                    } else if node == 0 && packet.old {
                        Stripping::TakesOff { echo: stale(packet) }
                    } else {
                        packet.old |= node == 0;
                        Stripping::Passes
                    };
                }
                let symbol = match self.stations[node].stripping {
                    Stripping::Passes => Symbol::Packet { packet, index },
                    Stripping::TakesOff { echo: Some(echo) } if index + 4 >= packet.length => {
                        Symbol::Packet { packet: echo, index: index + 4 - packet.length }
                    }
                    Stripping::TakesOff { .. } => made,
                };
                (symbol, false)
            }
        }
    }

    /// Handles the head of a packet for this node; returns the echo, if any.
    fn head(&mut self, node: usize, packet: Carried) -> Option<Carried> {
        let tick = self.tick;
        if let Some(answer) = packet.echo {
            self.trace.push((tick, node as u32, 'h', packet.id));
            self.echo(node, packet, answer);
            return None;
        }
        if packet.event {
            self.trace.push((tick, node as u32, 'a', packet.id));
            if !packet.strobe {
                self.events.push((tick + u64::from(packet.length), node, packet.id));
            }
            return None;
        }
        let class = usize::from(packet.response);
        let slots = [self.config.request_queue, self.config.response_queue][class];
        let station = &mut self.stations[node];
        let late = station.freed.iter().filter(|freed| **freed == (tick, class)).count() as u32;
        let space = station.held[class] + late < slots;
        let answer = match self.config.retry {
            Retry::Plain { .. } if space => Answer::Accepted,
            Retry::Plain { .. } => Answer::Busy(Phase::DoTry),
            Retry::Aged => {
                let before = station.ageing[class].is_serving();
                let answer = station.ageing[class].answer(packet.phase, space);
                if station.ageing[class].is_serving() && !before {
                    self.ageing += 1;
                    if !self.allocating {
                        (self.allocating, self.launch_at) = (true, tick + 1);
                    }
                }
                answer
            }
        };
        if answer == Answer::Accepted {
            self.stations[node].held[class] += 1;
            self.trace.push((tick, node as u32, 'a', packet.id));
            self.received.push((tick + u64::from(packet.length), node, class));
        }
        if let Answer::Busy(phase) = answer {
            self.trace.push((tick, node as u32, phase.letter(), packet.id));
        }
        let echo = match answer {
            Answer::Accepted => Echo::Accepted,
            Answer::Busy(phase) => Echo::Busy(phase),
        };
        Some(echo_of(packet, echo))
    }

    fn echo(&mut self, node: usize, packet: Carried, echo: Echo) {
        let end = self.tick + 4;
        let window = self.config.unacknowledged as usize;
        let station = &mut self.stations[node];
        let place =
            station.sends.iter().position(|send| send.what.id == packet.id).expect("a send");
        let send = station.sends[place];
        let mine = |other: &&Waiting| lane(other) == lane(&send) && other.sent;
        match echo {
            Echo::Accepted | Echo::None => {
                if station.sends.iter().filter(mine).count() >= window {
                    station.window_at[lane(&send)] = end;
                }
                station.sends.remove(place);
            }
            Echo::Busy(phase) => {
                let send = &mut station.sends[place];
                let delay = if let Retry::Plain { delay } = self.config.retry { delay } else { 0 };
                (send.phase, send.ready, send.flying) = (phase, end + delay, false);
            }
        }
    }

    /// Returns the sends that are ready, in the order of choice.
    fn ready(&self, node: usize) -> Vec<&Waiting> {
        let station = &self.stations[node];
        let window = self.config.unacknowledged as usize;
        let is_ready = |send: &&Waiting| {
            let mut same = station.sends.iter().filter(|other| lane(other) == lane(send));
            let sent = same.clone().filter(|other| other.sent).count();
            let first_unsent = same.find(|other| !other.sent).map(|other| other.what.id);
            let in_turn = send.sent
                || (first_unsent == Some(send.what.id)
                    && sent < window
                    && station.window_at[lane(send)] <= self.tick);
            !send.flying && send.ready <= self.tick && in_turn
        };
        station.sends.iter().filter(is_ready).collect()
    }

    fn may_start(&mut self, node: usize) -> Option<Carried> {
        let station = &self.stations[node];
        let Symbol::Idle { low, high, .. } = station.last_out else { return None };
        if station.mode != Mode::Pass || !station.bypass.is_empty() {
            return None;
        }
        let spent = station.streak >= 9;
        let goes = |send: &&&Waiting| if send.what.high && !spent { high } else { low };
        let key = |send: &&Waiting| {
            let Offered { response, high, event, id, .. } = send.what;
            let last_response = station.last_response[usize::from(high)];
            let class = (!event, high == spent, response == last_response, high);
            (class, !send.owed, id)
        };
        let ready = self.ready(node);
        let send = **ready.iter().filter(goes).min_by_key(|send| key(send))?;
        let Offered { id, target, length, response, high, event, strobe } = send.what;
        let tick = self.tick;
        let station = &mut self.stations[node];
        let acts_high = high && !spent;
        station.both = acts_high;
        let place = station.sends.iter().position(|other| other.what.id == id).expect("found");
        if event {
            station.sends.remove(place);
        } else {
            station.streak = if acts_high { station.streak + 1 } else { 0 };
            station.last_response[usize::from(high)] = response;
            let mine = &mut station.sends[place];
            (mine.sent, mine.flying, mine.owed) = (true, true, false);
        }
        let (source, phase, delayed) = (node, send.phase, tick - send.ready);
        let (old, waited, echo) = (false, 0, None);
        Some(Carried {
            id,
            source,
            target,
            length,
            response,
            phase,
            event,
            strobe,
            old,
            delayed,
            waited,
            echo,
        })
    }

    fn begin(&mut self, node: usize, packet: Carried) {
        let station = &mut self.stations[node];
        station.mode = Mode::Transmit { packet, next: 0 };
        station.save = (false, false);
        station.sent_since = true;
        let owed = station.sends.iter().any(|send| send.owed);
        if !owed && std::mem::take(&mut station.holds) {
            station.sent_since = false;
            station.save_toggle = true;
        }
    }

    /// Handles the allocation toggle; returns true if it stays here until a send has started.
    fn hold(&mut self, node: usize, _toggle: bool) -> bool {
        for class in 0..2 {
            let before = self.stations[node].ageing[class].is_serving();
            self.stations[node].ageing[class].round();
            self.ageing -= u32::from(before && !self.stations[node].ageing[class].is_serving());
        }
        if node == 0 && self.ageing == 0 {
            self.allocating = false;
            return true;
        }
        let waits = self.config.flow_control && !self.ready(node).is_empty();
        let station = &mut self.stations[node];
        let refused = station.sends.iter_mut().filter(|send| send.sent && !send.flying);
        refused.for_each(|send| send.owed = self.config.flow_control);
        let owed = station.sends.iter().any(|send| send.owed);
        if owed || (waits && !station.sent_since) {
            station.holds = true;
            return true;
        }
        station.sent_since = false;
        false
    }

    fn mux(&mut self, node: usize, parsed: Symbol, toggle: bool) -> Symbol {
        let tick = self.tick;
        let station = &mut self.stations[node];
        if station.mode == Mode::Pass {
            let Symbol::Idle { low, high, .. } = parsed else {
                station.save_toggle |= toggle;
                return parsed;
            };
            let toggle = toggle | std::mem::take(&mut station.save_toggle);
            let (mut low, mut high) = (low, high);
            if let Symbol::Idle { low: before_low, high: before_high, .. } = station.last_out {
                (low, high) = (low || before_low, high || before_high);
            }
            return Symbol::Idle { low, high, toggle };
        }
        match parsed {
            Symbol::Packet { .. } => {
                station.bypass.push_back((parsed, tick, false, station.save.1))
            }
            Symbol::Idle { low, high, .. } => {
                station.save = (station.save.0 || low, station.save.1 || high);
            }
        }
        if toggle {
            match station.bypass.back_mut() {
                Some(last) => last.2 = true,
                None => station.save_toggle = true,
            }
        }
        station.output(tick)
    }
}

impl Station {
    /// Returns the next output symbol: transmit, the idle behind the packet, recover.
    fn output(&mut self, tick: u64) -> Symbol {
        if let Mode::Transmit { packet, next } = self.mode {
            let last = next + 1 == packet.length;
            self.mode =
                if last { Mode::Attached } else { Mode::Transmit { packet, next: next + 1 } };
            return Symbol::Packet { packet, index: next };
        }
        let packet_ended = match self.last_out {
            Symbol::Packet { packet, index } => index + 1 == packet.length,
            Symbol::Idle { .. } => false,
        };
        if packet_ended {
            let toggle = std::mem::take(&mut self.save_toggle);
            let (low, high) = self.save;
            if self.bypass.is_empty() {
                self.mode = Mode::Pass;
                return Symbol::Idle { low, high, toggle };
            }
            let high = self.bypass.front().is_some_and(|next| next.3) && !self.both;
            if self.mode == Mode::Attached {
                self.mode = Mode::Recover;
                let low = std::mem::take(&mut self.save.0);
                let high = if self.both { std::mem::take(&mut self.save.1) } else { high };
                return Symbol::Idle { low, high, toggle };
            }
            return Symbol::Idle { low: false, high, toggle };
        }
        let (mut symbol, came, toggle, _) = self.bypass.pop_front().expect("the rest of a packet");
        self.bypass_max = self.bypass_max.max(tick - came);
        if let Symbol::Packet { packet, .. } = &mut symbol {
            packet.waited += tick - came;
        }
        self.save_toggle |= toggle;
        symbol
    }
}

fn lane(send: &Waiting) -> usize {
    let Offered { response, high, event, .. } = send.what;
    if event { 4 } else { usize::from(response) + 2 * usize::from(high) }
}

/// Returns the echo that replaces a packet's last symbols.
fn echo_of(packet: Carried, echo: Echo) -> Carried {
    let (source, target) = (packet.target, packet.source);
    Carried { source, target, length: 4, strobe: false, old: false, echo: Some(echo), ..packet }
}

/// Returns the scrubber's replacement for a packet that it sees again.
fn stale(packet: Carried) -> Option<Carried> {
    let is_send = packet.echo.is_none() && !packet.event;
    is_send.then(|| echo_of(packet, Echo::None))
}
