//! One ring port: what is on the link before it, and what its output does.

use std::collections::VecDeque;

use super::Packet;
use super::ageing::{Ageing, Phase};
use super::counters::Counters;
use super::go::{Clears, Go, NEVER};
use super::lane::{LANES, Lane, Pool, Send};

/// What travels on a link, by the tick at which it reaches the port behind.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// First symbol of a packet; the idle that carries a toggle.
    pub at: u64,
    pub what: What,
    /// Of the idles behind a packet; right for all that has come, a forecast for the rest.
    pub rise: Go,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet, by its flight.
    Packet(u32),
    /// The circulation bit toggles here.
    Circulation,
    /// The allocation bit toggles here.
    Allocation,
}

/// One transmission: from the start of a send until its echo, which takes its place, is consumed.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Who takes it off this ringlet; `NOBODY`: no port does.
    pub target: u32,
    /// Who put the send on.
    pub source: u32,
    pub symbols: u32,
    pub send: u32,
    /// The send's number, in case it was given up and its handle used again.
    pub id: u64,
    pub phase: Phase,
    pub lane: u8,
    pub is_event: bool,
    /// `None`: a send.
    pub echo: Option<Echo>,
    /// The scrubber's mark.
    pub old: bool,
    pub bad: bool,
    /// The CRC error was logged: the CRC is a stomped one.
    pub logged: bool,
}

// Two to a cache line: every hop reads its flight.
const _: () = assert!(std::mem::size_of::<Option<Flight>>() == 32);

/// What an echo says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    Accepted,
    Busy(Phase),
    /// Nobody took it.
    None,
}

pub const NOBODY: u32 = u32::MAX;

/// A receive queue: of requests or of responses.
#[derive(Debug, Default)]
pub struct Intake {
    /// Slots in use, those of packets that are still coming in among them.
    pub held: u32,
    /// Slots that were freed in tick `freed_at`: free from the next tick on.
    pub freed: u32,
    pub freed_at: u64,
    pub ageing: Ageing,
    /// Complete packets, with the lane they came by.
    pub packets: VecDeque<(Packet, usize)>,
}

impl Intake {
    /// Whether a packet whose head comes at `tick` finds a slot.
    pub fn has_space(&self, tick: u64, slots: u32) -> bool {
        let late = if self.freed_at >= tick { self.freed } else { 0 };
        self.held + late < slots
    }

    /// Frees a slot from the tick after `tick` on.
    pub fn free(&mut self, tick: u64) {
        if self.freed_at != tick {
            (self.freed_at, self.freed) = (tick, 0);
        }
        self.held -= 1;
        self.freed += 1;
    }
}

/// A send that is being taken off; its last symbol comes at `end - 1`.
#[derive(Debug)]
pub struct Arriving {
    pub end: u64,
    pub packet: Option<Packet>,
    pub is_event: bool,
    pub lane: usize,
}

/// The fields stand in the order of their use: a packet that passes needs the first
/// [`HOT_BYTES`] only. In a large network nothing of a port is in a near cache when its turn comes,
/// and each line of 64 bytes costs a wait for memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// Tick of the earliest entry that was made for an own start.
    pub woken_for: u64,
    /// Tick of the first idle behind the last packet that was put out, or is certain to be.
    pub free_at: u64,
    /// An echo that will take the place of the last symbols of what is being taken off.
    pub echo: Option<(u64, u32)>,
    pub downstream: u32,
    pub ring: u32,
    pub node: u32,
    /// High sends since the last one that needed the low go bit.
    pub high_streak: u32,
    pub dead: bool,
    pub cut: bool,
    /// The first port of its ringlet: it marks what passes and takes off what passes twice.
    pub is_scrubber: bool,
    /// A bit for each lane with a send that waits, or was refused: no other lane can start one.
    pub may_start: u8,
    /// Set from an own start until the bypass FIFO is empty.
    pub clears: Option<Clears>,
    /// For turns between the classes: whether the last own send was a response.
    pub last_response: bool,
    /// The allocation toggle waits here until a send has started.
    pub holds_allocation: bool,
    pub sent_since_allocation: bool,
    /// On the link before this port, in order.
    pub input: VecDeque<Item>,
    /// First go idles behind the packet that came last.
    pub in_rise: Go,
    /// First go idle that came since the last own start, or since the last packet passed.
    pub first_go: Go,
    /// First go idles behind the last packet on the link behind this port.
    pub out_rise: Go,
    /// Tick of the last own start: it uses up the go bits that came before.
    pub started: u64,
    /// Idles made by stripping: before this tick, with these go bits (0: go, [`NEVER`]: not).
    pub created_until: u64,
    pub created: Go,
    /// Those of passing come first.
    pub counters: Counters,
    pub arriving: VecDeque<Arriving>,
    pub intake: [Intake; 2],
    pub lanes: [Lane; LANES],
}

/// Of a port, what a passing packet needs.
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
            started: NEVER,
            created_until: 0,
            created: Go::at(0),
            echo: None,
            free_at: 0,
            first_go: Go::at(0),
            out_rise: Go::at(0),
            clears: None,
            lanes: Default::default(),
            last_response: true,
            high_streak: 0,
            woken_for: NEVER,
            holds_allocation: false,
            sent_since_allocation: false,
            intake: Default::default(),
            arriving: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// First go idle from `tick` on in what comes, as far as is known: at `tick` there must be an
    /// idle or the head of a packet that is looked at afterwards.
    pub fn go_from(&self, tick: u64) -> Go {
        if tick < self.created_until {
            let later = if self.echo.is_some() { Go::NEVER } else { self.in_rise };
            return self.created.join(later, |made, later| if made == 0 { tick } else { later });
        }
        if self.echo.is_some() {
            return Go::NEVER;
        }
        self.in_rise.from(tick)
    }

    /// Looks anew whether a lane has a send that may start.
    pub fn note_lane(&mut self, lane: usize, sends: &Pool<Send>) {
        let bit = u8::from(self.lanes[lane].may_start(sends)) << lane;
        self.may_start = self.may_start & !(1 << lane) | bit;
    }

    /// An own send starts: the go bits seen so far are used up, and those saved from now on are
    /// what comes.
    pub fn start(&mut self, tick: u64, symbols: u64, clears: Clears) {
        self.started = tick;
        self.created = Go::NEVER;
        self.first_go = self.go_from(tick);
        self.clears = Some(clears);
        self.free_at = tick + symbols;
        self.counters.symbols_made += symbols;
    }

    /// The head of something that is taken off comes at `tick`: its symbols before `until` become
    /// idles like the one before, unless an own start used that one up; `behind`: go bits after
    /// them, when no echo follows.
    pub fn strip(&mut self, tick: u64, until: u64, behind: Go) {
        let before = if self.started == tick { Go::NEVER } else { self.in_rise };
        self.created = before.map(|rise| if rise < tick { 0 } else { NEVER });
        self.created_until = until;
        let open = self.first_go;
        let made = self.created;
        self.first_go = Go {
            low: settle(open.low, made.low, behind.low, tick),
            high: settle(open.high, made.high, behind.high, tick),
        };
    }
}

/// The first go idle, when that was open at `tick` and idles with bit `made` follow.
fn settle(open: u64, made: u64, behind: u64, tick: u64) -> u64 {
    if open >= tick && made != 0 { behind } else { open }
}
