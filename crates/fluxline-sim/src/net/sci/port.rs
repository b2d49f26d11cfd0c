//! One ring port: the content of its input link, and the state of its output.

use std::collections::VecDeque;

use super::Packet;
use super::ageing::{Ageing, Phase};
use super::counters::Counters;
use super::go::{Clears, Go, NEVER};
use super::lane::{LANES, Lane, Pool, Send};
use super::link::Passage;

/// An item on a link, by the tick at which it reaches the next port.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Tick of a packet's first symbol, or of the idle that carries a toggle.
    pub at: u64,
    pub what: What,
    /// Go bits of the idles behind a packet: exact for idles that have arrived, a forecast for the
    /// others.
    pub rise: Go,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet, by the handle of its flight.
    Packet(u32),
    /// The circulation bit toggles here.
    Circulation,
    /// The allocation bit toggles here.
    Allocation,
}

/// One transmission: from the start of a send until the echo that replaces it is consumed.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The port that takes it off this ringlet; `NOBODY`: no port does.
    pub target: u32,
    /// The port that sent it.
    pub source: u32,
    pub symbols: u32,
    pub send: u32,
    /// The send's number, which detects that the send was given up and its handle reused.
    pub id: u64,
    pub phase: Phase,
    pub lane: u8,
    pub is_event: bool,
    /// True if the nodes that it passes note it.
    pub is_strobe: bool,
    /// The echo; `None`: a send.
    pub echo: Option<Echo>,
    /// True if it has the scrubber's mark.
    pub old: bool,
    pub bad: bool,
    /// True if the CRC error was logged: the CRC is then a stomped one.
    pub logged: bool,
}

// Two fit into a cache line, because every hop reads its flight.
const _: () = assert!(std::mem::size_of::<Option<Flight>>() == 32);

/// The verdict of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    Accepted,
    Busy(Phase),
    /// No node took the packet.
    None,
}

pub const NOBODY: u32 = u32::MAX;

/// A receive queue: of requests or of responses.
#[derive(Debug, Default)]
pub struct Intake {
    /// Slots in use, including those of packets that are still arriving.
    pub held: u32,
    /// Slots that were freed in tick `freed_at`: free from the next tick on.
    pub freed: u32,
    pub freed_at: u64,
    pub ageing: Ageing,
    /// Complete packets, with their lanes.
    pub packets: VecDeque<(Packet, usize)>,
}

impl Intake {
    /// Returns true if a packet whose head arrives at `tick` finds a slot.
    pub fn has_space(&self, tick: u64, slots: u32) -> bool {
        let late = if self.freed_at >= tick { self.freed } else { 0 };
        self.held + late < slots
    }

    /// Frees a slot; it is usable from the tick after `tick`.
    pub fn free(&mut self, tick: u64) {
        if self.freed_at != tick {
            (self.freed_at, self.freed) = (tick, 0);
        }
        self.held -= 1;
        self.freed += 1;
    }
}

/// A send that is being taken off; its last symbol arrives at `end - 1`.
#[derive(Debug)]
pub struct Arriving {
    pub end: u64,
    pub packet: Option<Packet>,
    pub is_event: bool,
    pub lane: usize,
}

/// A ring port. The fields are in the order of their use: a passing packet needs only the first
/// [`HOT_BYTES`]. In a large network, no part of a port is in a near cache when its turn comes, and
/// each line of 64 bytes costs a wait for memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// Tick of the earliest entry for an own start.
    pub woken_for: u64,
    /// Tick of the first idle behind the last packet that was put out or certainly will be.
    pub free_at: u64,
    /// An echo that will replace the last symbols of the packet that is being taken off.
    pub echo: Option<(u64, u32)>,
    pub downstream: u32,
    pub ring: u32,
    pub node: u32,
    /// High sends since the last one that needed the low go bit.
    pub high_streak: u32,
    pub dead: bool,
    pub cut: bool,
    /// True for the first port of its ringlet: it marks passing packets and takes off those that
    /// pass twice.
    pub is_scrubber: bool,
    /// A bit for each lane with a waiting or refused send: only these lanes can start a send.
    pub may_start: u8,
    /// The go bits to clear, from an own start until the bypass FIFO is empty.
    pub clears: Option<Clears>,
    /// True if packets wait behind the last own one, so that its idle releases the saved go bits.
    pub owes: bool,
    /// True if the allocation toggle waits here until a send and all sends that are owed a try have
    /// started.
    pub holds_allocation: bool,
    pub sent_since_allocation: bool,
    /// Items on the link before this port, in order.
    pub input: VecDeque<Item>,
    /// First go idles behind the last packet that arrived.
    pub in_rise: Go,
    /// First go idle since the last packet passed; in recovery, for the bits that the port clears,
    /// since the idle behind the own packet.
    pub first_go: Go,
    /// First go idles behind the last packet on the link behind this port.
    pub out_rise: Go,
    /// Tick of the idle behind the last own packet.
    pub own_end: u64,
    /// First go idle since the last own start.
    pub saved: Go,
    /// The forecast of the idle at `own_end` that the next ports have, while the port owes it.
    pub own_idle: Go,
    /// The counters; those of passing packets come first.
    pub counters: Counters,
    /// True if the last own send was a response, for low and for high sends; for turns between the
    /// classes.
    pub last_response: [bool; 2],
    /// Number of sends that were refused and waiting when the toggle came, and have not been tried
    /// since.
    pub owed: u32,
    pub arriving: VecDeque<Arriving>,
    /// Clock strobes whose last symbol has not arrived.
    pub strobes: VecDeque<Passage>,
    pub intake: [Intake; 2],
    pub lanes: [Lane; LANES],
}

/// The part of a port that a passing packet needs \[byte\].
pub const HOT_BYTES: usize = 4 * 64;
const _: () = assert!(std::mem::offset_of!(Port, input) == 64);
const _: () = assert!(std::mem::offset_of!(Port, counters) + Counters::PASSING_BYTES <= HOT_BYTES);

impl Port {
    pub fn new(node: u32, ring: u32, downstream: u32) -> Port {
        Port {
            node,
            ring,
            downstream,
            dead: false,
            cut: false,
            is_scrubber: false,
            may_start: 0,
            input: VecDeque::new(),
            in_rise: Go::at(0),
            echo: None,
            free_at: 0,
            first_go: Go::at(0),
            own_end: 0,
            owes: false,
            saved: Go::NEVER,
            own_idle: Go::NEVER,
            out_rise: Go::at(0),
            clears: None,
            lanes: Default::default(),
            last_response: [true; 2],
            high_streak: 0,
            woken_for: NEVER,
            holds_allocation: false,
            owed: 0,
            sent_since_allocation: false,
            intake: Default::default(),
            arriving: VecDeque::new(),
            strobes: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Updates the bit of a lane in `may_start`.
    pub fn note_lane(&mut self, lane: usize, sends: &Pool<Send>) {
        let bit = u8::from(self.lanes[lane].may_start(sends)) << lane;
        self.may_start = self.may_start & !(1 << lane) | bit;
    }

    /// Handles the start of an own send: from now on, the arriving go bits are saved, as far as
    /// known.
    pub fn start(&mut self, tick: u64, symbols: u64, clears: Clears) {
        self.first_go = if self.echo.is_some() { Go::NEVER } else { self.in_rise.from(tick) };
        self.clears = Some(clears);
        self.free_at = tick + symbols;
        (self.own_end, self.owes) = (self.free_at, false);
        self.counters.symbols_made += symbols;
    }

    /// Ends the arrived idles before `tick`; the next go idles are those of `next`.
    pub fn come(&mut self, tick: u64, next: Go) {
        let after = |open: u64, next: u64| if open >= tick { next } else { open };
        self.saved = self.saved.join(next, after);
        self.first_go = self.first_go.join(next, after);
        if let (true, Some(clears)) = (self.owes, self.clears) {
            self.first_go = clears.split(self.first_go.from(self.own_end + 1), self.first_go);
        }
    }

    /// Handles a packet that must wait, with its head at `tick` and go bits `rise` behind it;
    /// returns the forecast of the idle before it. Behind an own packet, the go bits until
    /// `own_end` and those after it are kept separately from now on.
    pub fn wait_behind(&mut self, tick: u64, rise: Go) -> Go {
        let clears = self.clears.unwrap_or(Clears::Both);
        let idle = clears.recovering(self.first_go, tick, self.free_at);
        if self.free_at != self.own_end || self.owes {
            self.come(tick, rise);
            return idle;
        }
        (self.owes, self.saved) = (true, self.first_go);
        self.first_go = clears.split(Go::NEVER, self.first_go);
        self.come(tick, rise);
        self.own_idle = idle;
        self.own_idle = self.idle_behind_own(clears);
        self.own_idle
    }

    /// Returns the known go bits of the idle behind the own packet if others wait behind it.
    pub fn idle_behind_own(&self, clears: Clears) -> Go {
        let at = self.own_end;
        let saved = self.saved.map(|open| if open <= at { at } else { NEVER });
        clears.split(saved, self.own_idle)
    }
}
