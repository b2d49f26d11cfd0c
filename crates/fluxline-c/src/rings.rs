//! Push rings on every link: records from one sender to one receiver.

use std::ffi::{c_char, c_void};

use fluxline::push::{
    NextError, PushCounters, PushRefused, Receiver, RingAddress, RingPlan, Sender,
};
use fluxline_core::fabric::push::{ReceiverId, Record, Rings, SenderId};
use fluxline_core::fabric::{Fabric, Key};
use fluxline_core::{Moment, Span};

use crate::border::{Out, Refused, bytes, guard, handle, name, text};
use crate::{FluxlineCode, FluxlineNode};

/// Counters of one end of a push ring. When all is read, both ends have the same records and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineRingCounters {
    /// Records pushed or read.
    pub records: u64,
    /// Their bytes, time stamps included.
    pub bytes: u64,
    /// Times that records were published.
    pub batches: u64,
    /// Times that a record found no room.
    pub full: u64,
    /// Time without room, in nanoseconds.
    pub stalled_ns: u64,
    /// Senders that died before they closed the ring.
    pub died: u64,
    /// 1: the sender wrote an invalid record.
    pub broken: u64,
}

impl FluxlineRingCounters {
    fn of(counters: &PushCounters) -> FluxlineRingCounters {
        let PushCounters { records, bytes, batches, full, stalled_ns, died, broken, .. } =
            *counters;
        FluxlineRingCounters { records, bytes, batches, full, stalled_ns, died, broken }
    }
}

/// The longest sleep while a full ring may get room without waking anybody.
const ROOM_PAUSE: Span = Span::from_us(50);
/// The longest sleep on a ring, which may not see the link's completions.
const RECORD_PAUSE: Span = Span::from_ms(20);

/// A record for the caller.
struct Found {
    at: Moment,
    address: *const c_void,
    bytes: usize,
}

impl Found {
    fn of(record: Record<'_>) -> Found {
        let address = record.address().as_ptr().cast_const().cast();
        Found { at: Moment::default(), address, bytes: record.len() }
    }

    fn put(&self, record: Out<*const c_void>, count: Out<usize>) {
        count.put(self.bytes);
        record.put(self.address);
    }
}

fn sender_of(rings: &mut Rings, number: u32) -> Result<&mut Sender, Refused> {
    rings.sender(SenderId(number)).ok_or_else(|| no_ring("sender", number))
}

fn receiver_of(rings: &mut Rings, number: u32) -> Result<&mut Receiver, Refused> {
    rings.receiver(ReceiverId(number)).ok_or_else(|| no_ring("receiver", number))
}

fn no_ring(end: &str, ring: u32) -> Refused {
    Refused::argument(format_args!("this node has no open {end} {ring}"))
}

/// Opens the sending end of a peer's push ring and waits until the peer has let it in; its number
/// is written to *sender. The peer is named as in fluxline_connect. A peer or a ring that is not
/// there yet is waited for, and so is the end of another sender: a ring has one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_sender(
    node: *mut FluxlineNode,
    peer: *const c_char,
    ring_name: *const c_char,
    key: u64,
    timeout_ms: u32,
    sender: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (sender, node) = (Out::new(sender)?, handle(node)?);
        let to =
            RingAddress { peer: text(peer)?.to_owned(), name: name(ring_name)?, key: Key(key) };
        let now = node.fabric().now();
        let made = Sender::open(node.fabric(), to, now).map_err(Refused::host)?;
        let number = node.rings.add_sender(made).0;
        match node.until_open(number, timeout_ms) {
            Ok(()) => sender.put(number),
            Err(why) => {
                node.end_sender(number);
                return Err(why);
            }
        }
        Ok(())
    })
}

/// Copies a record into the ring; the receiver sees it after fluxline_publish, or when a batch is
/// full. FLUXLINE_CODE_FULL: try again after a while. FLUXLINE_CODE_GONE, for good: the receiver
/// has closed or died.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_push(
    node: *mut FluxlineNode,
    sender: u32,
    from: *const c_void,
    count: usize,
) -> FluxlineCode {
    guard(|| {
        let (record, node) = (bytes(from, count)?, handle(node)?);
        node.push(sender, |ring, fabric| ring.push(fabric, record))
    })
}

/// The same with a time stamp, for fluxline_next_stamped: all records of a ring have one, or none
/// has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_push_stamped(
    node: *mut FluxlineNode,
    sender: u32,
    at_ns: u64,
    from: *const c_void,
    count: usize,
) -> FluxlineCode {
    guard(|| {
        let (record, node) = (bytes(from, count)?, handle(node)?);
        let at = Moment::from_ns(at_ns);
        node.push(sender, |ring, fabric| ring.push_stamped(fabric, at, record))
    })
}

/// Copies a record into the ring and shows it to the receiver at once; waits while the ring has no
/// room. FLUXLINE_CODE_TIMEOUT: it had none for timeout_ms. FLUXLINE_CODE_GONE, for good: the
/// receiver has closed or died.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_push_wait(
    node: *mut FluxlineNode,
    sender: u32,
    from: *const c_void,
    count: usize,
    timeout_ms: u32,
) -> FluxlineCode {
    guard(|| {
        let (record, node) = (bytes(from, count)?, handle(node)?);
        let until = node.fabric().now() + Span::from_ms(timeout_ms.into());
        loop {
            match node.push(sender, |ring, fabric| ring.push(fabric, record)) {
                Err(full) if full.code() == FluxlineCode::Full => node.await_room(until, full)?,
                pushed => break pushed?,
            }
        }
        node.publish(sender)
    })
}

/// Shows all records to the receiver; call once per batch. FLUXLINE_CODE_GONE: nobody reads them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_publish(node: *mut FluxlineNode, sender: u32) -> FluxlineCode {
    guard(|| handle(node)?.publish(sender))
}

/// Publishes what is left, waits until it is in the receiver's memory, and ends the sender.
/// FLUXLINE_CODE_TIMEOUT, FLUXLINE_CODE_GONE: the last records may be lost; the sender has ended
/// all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_finish(
    node: *mut FluxlineNode,
    sender: u32,
    timeout_ms: u32,
) -> FluxlineCode {
    guard(|| {
        let node = handle(node)?;
        let until = node.fabric().now() + Span::from_ms(timeout_ms.into());
        let finished = loop {
            let FluxlineNode { link, rings, .. } = &mut *node;
            match sender_of(rings, sender)?.finish(link.fabric()) {
                Ok(true) => break Ok(()),
                Ok(false) if node.fabric().now() < until => node.drive(),
                Ok(false) => break Err(Refused::timeout(timeout_ms)),
                Err(why) => break Err(not_pushed(why)),
            }
        };
        node.end_sender(sender);
        finished
    })
}

/// Writes the time for which the ring has had no room to *stalled_ns; 0: there was room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_stalled_ns(
    node: *mut FluxlineNode,
    sender: u32,
    stalled_ns: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(stalled_ns)?, handle(node)?);
        let since = sender_of(&mut node.rings, sender)?.stalled_since();
        let now = node.fabric().now();
        place.put(since.map_or(0, |since| now.since(since).as_ns().max(1)));
        Ok(())
    })
}

/// Writes to *number as many records as earlier senders have published into the ring: a program
/// that counts its records from 0 pushes from there on, and loses and doubles none.
/// FLUXLINE_CODE_REFUSED: the receiver does not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_resumes_from(
    node: *mut FluxlineNode,
    sender: u32,
    number: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(number)?, handle(node)?);
        let none = || Refused::host("the receiver of this ring does not count its records");
        place.put(sender_of(&mut node.rings, sender)?.resumes_from().ok_or_else(none)?);
        Ok(())
    })
}

/// Writes the number of records of a ring that its receiver's program has taken to *records: for a
/// sender those of its own, as it learns once per quarter of the ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_delivered(
    node: *mut FluxlineNode,
    ring: u32,
    records: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(records)?, handle(node)?);
        let found = node.rings.counters(ring).ok_or_else(|| no_ring("ring", ring))?;
        place.put(found.delivered);
        Ok(())
    })
}

/// Makes a push ring for at least `slots` records of slot_bytes, under a name and a key that its
/// sender must show; its number is written to *receiver. Processes of one host share its memory,
/// on other links records come by puts: the calls are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_receiver(
    node: *mut FluxlineNode,
    ring_name: *const c_char,
    key: u64,
    slots: u32,
    slot_bytes: u32,
    receiver: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (receiver, node) = (Out::new(receiver)?, handle(node)?);
        let plan = RingPlan::new(name(ring_name)?, Key(key), slots, slot_bytes);
        let made = Receiver::open(node.fabric(), &plan).map_err(Refused::host)?;
        receiver.put(node.rings.add_receiver(made).0);
        Ok(())
    })
}

/// The oldest record, valid until the next call with this receiver: its address to *record, its
/// size to *count. On shm:// the sender's process can change these bytes at any time: copy what you
/// check before you use it. FLUXLINE_CODE_NOTHING: there is none now. FLUXLINE_CODE_GONE: none, and
/// the sender has finished or died; another may come. FLUXLINE_CODE_REFUSED, for good: the sender
/// broke the ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_next(
    node: *mut FluxlineNode,
    receiver: u32,
    record: *mut *const c_void,
    count: *mut usize,
) -> FluxlineCode {
    guard(|| {
        let (record, count, node) = (Out::new(record)?, Out::new(count)?, handle(node)?);
        let found = node.next(receiver, |ring, fabric| Ok(ring.next(fabric)?.map(Found::of)))?;
        found.put(record, count);
        Ok(())
    })
}

/// Waits for the oldest record, and returns it as fluxline_next does. FLUXLINE_CODE_TIMEOUT: none
/// came within timeout_ms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_next_wait(
    node: *mut FluxlineNode,
    receiver: u32,
    timeout_ms: u32,
    record: *mut *const c_void,
    count: *mut usize,
) -> FluxlineCode {
    guard(|| {
        let (record, count, node) = (Out::new(record)?, Out::new(count)?, handle(node)?);
        let until = node.fabric().now() + Span::from_ms(timeout_ms.into());
        loop {
            match node.next(receiver, |ring, fabric| Ok(ring.next(fabric)?.map(Found::of))) {
                Err(none) if none.code() == FluxlineCode::Nothing => {
                    node.await_record(receiver, until)?;
                }
                found => {
                    found?.put(record, count);
                    return Ok(());
                }
            }
        }
    })
}

/// The same as fluxline_next, with the sender's time stamp, which is written to *at_ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_next_stamped(
    node: *mut FluxlineNode,
    receiver: u32,
    at_ns: *mut u64,
    record: *mut *const c_void,
    count: *mut usize,
) -> FluxlineCode {
    guard(|| {
        let (record, count, node) = (Out::new(record)?, Out::new(count)?, handle(node)?);
        let at_ns = Out::new(at_ns)?;
        let found = node.next(receiver, |ring, fabric| {
            let found = ring.next_stamped(fabric)?;
            Ok(found.map(|(at, record)| Found { at, ..Found::of(record) }))
        })?;
        at_ns.put(found.at.as_ns());
        found.put(record, count);
        Ok(())
    })
}

/// Sleeps until there may be a record, at most timeout_ms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_receiver_wait(
    node: *mut FluxlineNode,
    receiver: u32,
    timeout_ms: u32,
) -> FluxlineCode {
    guard(|| {
        let node = handle(node)?;
        node.drive();
        let FluxlineNode { link, rings, .. } = &mut *node;
        let until = link.fabric().now() + Span::from_ms(timeout_ms.into());
        receiver_of(rings, receiver)?.wait(link.fabric(), until);
        node.drive();
        Ok(())
    })
}

/// Ends the receiver and its ring; its sender finds it gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_receiver_close(
    node: *mut FluxlineNode,
    receiver: u32,
) -> FluxlineCode {
    guard(|| {
        let FluxlineNode { link, rings, .. } = handle(node)?;
        let is_ended = rings.end_receiver(link.fabric(), ReceiverId(receiver));
        is_ended.then_some(()).ok_or_else(|| no_ring("receiver", receiver))
    })
}

/// Writes the counters of a sender or receiver to *counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_ring_counters(
    node: *mut FluxlineNode,
    ring: u32,
    counters: *mut FluxlineRingCounters,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(counters)?, handle(node)?);
        let found = node.rings.counters(ring).ok_or_else(|| no_ring("ring", ring))?;
        place.put(FluxlineRingCounters::of(found));
        Ok(())
    })
}

impl FluxlineNode {
    /// Polls until a sender is open.
    fn until_open(&mut self, number: u32, timeout_ms: u32) -> Result<(), Refused> {
        let until = self.fabric().now() + Span::from_ms(timeout_ms.into());
        loop {
            self.drive();
            let now = self.fabric().now();
            let ring = sender_of(&mut self.rings, number)?;
            if let Some(why) = ring.ended() {
                return Err(not_pushed(why));
            }
            if ring.is_open() {
                return Ok(());
            }
            if now >= until {
                let why = ring.waits_for().map(PushRefused::NotOpen);
                return Err(why.map_or_else(|| Refused::timeout(timeout_ms), not_pushed));
            }
            self.fabric().wait(until.min(now + Span::from_ms(1)));
        }
    }

    /// Pushes a record. If the ring is full, drives the link and tries once more.
    fn push(
        &mut self,
        sender: u32,
        push: impl Fn(&mut Sender, &mut dyn Fabric) -> Result<(), PushRefused>,
    ) -> Result<(), Refused> {
        for _ in 0..2 {
            let FluxlineNode { link, rings, .. } = &mut *self;
            match push(sender_of(rings, sender)?, link.fabric()) {
                Err(PushRefused::Full) => self.drive(),
                pushed => return pushed.map_err(not_pushed),
            }
        }
        Err(not_pushed(PushRefused::Full))
    }

    fn publish(&mut self, sender: u32) -> Result<(), Refused> {
        let FluxlineNode { link, rings, .. } = &mut *self;
        sender_of(rings, sender)?.publish(link.fabric()).map_err(not_pushed)?;
        self.drive();
        Ok(())
    }

    /// Sleeps until there may be room in a ring. Errors: `full`, as a time-out.
    fn await_room(&mut self, until: Moment, full: Refused) -> Result<(), Refused> {
        let now = self.fabric().now();
        if now >= until {
            return Err(full.with_code(FluxlineCode::Timeout));
        }
        self.fabric().wait(until.min(now + ROOM_PAUSE));
        Ok(())
    }

    /// Sleeps until there may be a record. Errors: the time is up.
    fn await_record(&mut self, receiver: u32, until: Moment) -> Result<(), Refused> {
        let FluxlineNode { link, rings, .. } = &mut *self;
        let ring = receiver_of(rings, receiver)?;
        let now = link.fabric().now();
        if now >= until {
            let late = format_args!(
                "no record came in time for the ring {}: start its sender, or wait longer",
                ring.name()
            );
            return Err(Refused::of(FluxlineCode::Timeout, &late));
        }
        ring.wait(link.fabric(), until.min(now + RECORD_PAUSE));
        Ok(())
    }

    /// Takes a record; where there is none, it drives the link and tries once more.
    fn next(
        &mut self,
        receiver: u32,
        next: impl Fn(&mut Receiver, &mut dyn Fabric) -> Result<Option<Found>, NextError>,
    ) -> Result<Found, Refused> {
        let FluxlineNode { link, rings, .. } = &mut *self;
        if let Ok(Some(found)) = next(receiver_of(rings, receiver)?, link.fabric()) {
            return Ok(found);
        }
        self.drive();
        let FluxlineNode { link, rings, .. } = &mut *self;
        let found = next(receiver_of(rings, receiver)?, link.fabric()).map_err(no_next)?;
        found.ok_or_else(Refused::nothing)
    }

    /// Takes a sender from the program; it ends when its connection does.
    fn end_sender(&mut self, number: u32) {
        let FluxlineNode { link, rings, .. } = &mut *self;
        rings.end_sender(link.fabric(), SenderId(number));
        self.drive();
    }
}

fn not_pushed(refused: PushRefused) -> Refused {
    match refused {
        PushRefused::Full => Refused::of(FluxlineCode::Full, &refused),
        PushRefused::NotOpen(_) => Refused::of(FluxlineCode::Timeout, &refused),
        PushRefused::TooLong { .. } | PushRefused::Finished => Refused::argument(refused),
        PushRefused::ConsumerGone => Refused::gone(refused),
        PushRefused::NotAdmitted(_) | PushRefused::NoRing | PushRefused::Broken(_) => {
            Refused::host(refused)
        }
    }
}

fn no_next(ended: NextError) -> Refused {
    match ended {
        NextError::Gone => Refused::gone(ended),
        NextError::Broken(_) => Refused::host(ended),
    }
}
