//! Packets under way, and the queues that they wait in. Times are numbers of ticks.

/// The index that stands for "no packet" or "no buffer".
pub const NONE: u32 = u32::MAX;
/// A tick that never comes.
pub const NEVER: u64 = u64::MAX;

/// A packet, wherever it is. Four of them share a cache line.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its last router.
    pub to: u32,
    /// The message that it is a part of.
    pub message: u32,
    /// Its length with header \[bytes\].
    pub bytes: u32,
    /// The next one in the same buffer.
    pub next: u32,
}

/// A packet on the way to a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// The tick from which its head can leave that buffer.
    pub tick: u64,
    pub packet: u32,
    pub buffer: u32,
}

/// A message, until its last packet is delivered.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The source.
    pub source: u32,
    /// Its target.
    pub to: u32,
    /// Its length \[bytes\].
    pub bytes: u32,
    /// Packets not yet delivered; 0: this slot is free.
    pub packets: u32,
    /// The time at which it was handed over.
    pub at: crate::Instant,
    /// The time at which it was offered, which may be earlier.
    pub offered: crate::Instant,
    /// The number of its event.
    pub event: u64,
}

/// Values in numbered slots that are reused; the slot freed last is reused first, because it is
/// still in a cache.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    pub fn add(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = value;
            return place;
        }
        self.places.push(value);
        (self.places.len() - 1) as u32
    }

    pub fn remove(&mut self, place: u32) -> T {
        self.free.push(place);
        self.places[place as usize]
    }

    pub fn get(&self, place: u32) -> &T {
        &self.places[place as usize]
    }

    pub fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }

    /// Returns the number of slots in use.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns all slots, free ones included.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter()
    }
}

/// One channel's queue at the input of a router, or a node's queue, with its feeder's knowledge of
/// its free space. It fills one cache line, because all of it is needed at about the same time.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Buffer {
    /// First and last packet in it.
    pub head: u32,
    pub tail: u32,
    /// Packets in it.
    pub packets: u32,
    /// The tick from which the head may leave: when the tail of its predecessor has left.
    pub ready: u64,
    /// The router of the buffer, and the buffer's bit in the outputs' `waiting`.
    pub router: u32,
    pub place: u8,
    /// The port that the head requests, and the channels there that it may use: first and end.
    pub port: u8,
    pub first_channel: u8,
    pub end_channel: u8,
    /// The output that feeds it; `NONE`: its node feeds it.
    pub feeder: u32,
    /// Space that the feeder may use \[bytes\].
    pub free: u32,
    /// The ticks from which promised space may be used, in order; `NEVER`: no promise.
    pub due: [u64; 2],
    pub due_bytes: [u32; 2],
    /// The last promise after these two; `NONE`: there are no others.
    pub later: u32,
}

impl Buffer {
    pub fn new(router: u32, place: u8, free: u32) -> Buffer {
        Buffer {
            head: NONE,
            tail: NONE,
            packets: 0,
            ready: 0,
            router,
            place,
            port: 0,
            first_channel: 0,
            end_channel: 0,
            feeder: NONE,
            free,
            due: [NEVER; 2],
            due_bytes: [0; 2],
            later: NONE,
        }
    }
}

/// One link out of a router; one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Output {
    /// The time until which its last packet occupies it.
    pub busy_until: u64,
    /// The tick of its next choice; `NEVER`: no packet asks for it.
    pub wake: u64,
    /// A bit for each of the router's buffers whose head asks for it.
    pub waiting: u64,
    /// The first buffer of the input port that is checked first.
    pub turn: u32,
    /// The buffers that have had their turn among those of their port.
    pub served: u64,
    /// The router's first buffer.
    pub base: u32,
    /// The first buffer at its other end; `NONE`: the node.
    pub to: u32,
    /// The number of ticks for which it was busy since the start.
    pub busy_ticks: u64,
    /// The packet that it sent last.
    pub sent: u32,
    /// True while its link is cut: packets for it are lost.
    pub is_cut: bool,
}

impl Output {
    pub fn new(base: u32, to: u32) -> Output {
        Output {
            busy_until: 0,
            wake: NEVER,
            waiting: 0,
            turn: 0,
            served: 0,
            base,
            to,
            busy_ticks: 0,
            sent: NONE,
            is_cut: false,
        }
    }
}
