//! Frames that only two Fluxline ends exchange: set-up, and acknowledgements that name the missing
//! frames. Their opcodes are in the range that the specification leaves to manufacturers.
//!
//! They begin with a base transport header like all others and end with an ICRC, so that switches,
//! dissectors and RDMA cards see a RoCEv2 packet of a kind that they do not know. Numbers after the
//! base header are little-endian. Source of the range: IBTA volume 1, table 38 (11xxxxxx).

use crate::Span;
use crate::fabric::{Key, NAME_BYTES_MAX, Rights, Status};
use crate::roce::header::{BTH_BYTES, PARTITION_DEFAULT};
use crate::roce::{Psn, QueuePair};

/// The version of these frames; other versions are refused.
pub(super) const VERSION: u16 = 1;
/// The opcode of set-up and tear-down.
pub(super) const SETUP: u8 = 0xC0;
/// The opcode of an acknowledgement that names the missing frames.
const SELECTIVE: u8 = 0xC1;
/// The queue pair to which set-up frames go, that of the general service interface.
pub(super) const SETUP_PAIR: QueuePair = QueuePair::new(1);
/// Offset of a set-up frame's kind, and of its nonce: in Hello, Retry, Accept and Refuse \[byte\].
pub(super) const SETUP_KIND_AT: usize = BTH_BYTES;
pub(super) const NONCE_AT: [usize; 4] =
    [BTH_BYTES + 4, BTH_BYTES + 1, BTH_BYTES + 2, BTH_BYTES + 2];
/// The largest distance of a PSN from the first missing one.
pub(super) const WINDOW: u32 = 8192;
/// The longest control frame that is not padded \[byte\].
pub(super) const CONTROL_BYTES_MAX: usize = BTH_BYTES + 32 + WINDOW as usize / 8 + 4;

/// The smallest frame size that two ends agree on; a set-up frame always fits \[byte\].
pub(super) const FRAME_BYTES_MIN: usize = 128;
/// A set-up request without an answer is repeated after this time.
pub(super) const SETUP_REPEAT_AFTER: Span = Span::from_ms(20);
/// An acknowledgement without the map of held frames, with its ICRC \[byte\].
const SELECTIVE_BYTES: usize = BTH_BYTES + 24 + 4;

/// Returns the bytes of the map of held frames that fit into a frame.
pub(super) fn held_bytes_max(frame_bytes: usize) -> usize {
    (frame_bytes.saturating_sub(SELECTIVE_BYTES) & !3).min(WINDOW as usize / 8)
}

/// A queue pair, and the PSN of the first frame that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueStart {
    pub pair: QueuePair,
    pub psn: Psn,
}

/// The terms that one end offers the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    pub queue: QueueStart,
    pub frame_bytes: u32,
    /// Bytes that the other end may have in flight to this one.
    pub credit_bytes: u64,
    /// Receive buffer that a frame takes beside its bytes \[byte\].
    pub frame_cost: u32,
    pub reliable: bool,
    pub checked: bool,
    pub name: &'a str,
}

/// A request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello<'a> {
    pub version: u16,
    pub nonce: u64,
    /// The cookie from [`Setup::Retry`]; 0: none yet.
    pub cookie: u64,
    pub attempt: u8,
    pub offer: Offer<'a>,
}

/// The answer to a hello: the connection is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accept<'a> {
    pub nonce: u64,
    /// The attempt of the hello.
    pub attempt: u8,
    pub offer: Offer<'a>,
}

/// The answer to a request for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Imported {
    pub request: u32,
    pub status: Status,
    pub key: u32,
    pub bytes: u64,
    pub rights: Rights,
}

/// A frame of set-up or tear-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup<'a> {
    /// Padded to the frame size that it tries.
    Hello(Hello<'a>),
    /// Asks for another hello, with this cookie.
    Retry {
        nonce: u64,
        cookie: u64,
    },
    Accept(Accept<'a>),
    Refuse {
        nonce: u64,
        status: Status,
    },
    Import {
        request: u32,
        key: Key,
        name: &'a str,
    },
    Imported(Imported),
    /// The connection is over; `from` is the sender's queue pair.
    Goodbye {
        from: QueuePair,
    },
    /// The answer to a goodbye.
    Farewell,
}

/// An acknowledgement: all frames before `expected`, and those after it that `held` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selective<'a> {
    /// The first PSN that is missing.
    pub expected: Psn,
    /// The number of a question: which frames came before this one? 0: no question.
    pub question: u32,
    /// The last question that came. Frames that were sent before it came before it, or are lost.
    pub answer: u32,
    /// The request at `expected` was refused.
    pub refused: Option<Refused>,
    pub credit_bytes: u64,
    /// Frames so far that a switch had marked.
    pub marked: u32,
    /// Bit n: the frame `expected` + 1 + n is held.
    pub held: &'a [u8],
}

/// The refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No buffer yet: the request is to be sent again later.
    NotReady,
    /// Refused for good: the requester sends an empty write in its place.
    For(Status),
}

/// The statuses by their code on the wire.
const STATUSES: [Status; 13] = [
    Status::Done,
    Status::NoSuchRegion,
    Status::WrongKey,
    Status::Rights,
    Status::OutOfRegion,
    Status::Unaligned,
    Status::Withdrawn,
    Status::TooLong,
    Status::NoBuffer,
    Status::Disconnected,
    Status::Version,
    Status::NoRoom,
    Status::Transport,
];
const NOT_READY: u8 = 0xFF;

fn status_code(status: Status) -> u8 {
    let unknown = STATUSES.len() - 1;
    STATUSES.iter().position(|&of| of == status).unwrap_or(unknown) as u8
}

fn status_of(code: u8) -> Option<Status> {
    STATUSES.get(usize::from(code)).copied()
}

/// Writes into a frame. Bytes that do not fit are a defect of the caller and are cut off.
struct Writer<'a> {
    into: &'a mut [u8],
    used: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(into) = self.into.get_mut(self.used..self.used + bytes.len()) {
            into.copy_from_slice(bytes);
            self.used += bytes.len();
        }
    }

    fn base(&mut self, opcode: u8, to: QueuePair, psn: Psn) {
        self.put(&[opcode, 0]);
        self.put(&PARTITION_DEFAULT.to_be_bytes());
        self.put(&to.get().to_be_bytes());
        self.put(&psn.get().to_be_bytes());
    }

    fn name(&mut self, name: &str) {
        self.put(&[name.len() as u8]);
        self.put(name.as_bytes());
    }

    fn offer(&mut self, offer: &Offer<'_>) {
        self.put(&offer.queue.pair.get().to_le_bytes());
        self.put(&offer.queue.psn.get().to_le_bytes());
        self.put(&offer.frame_bytes.to_le_bytes());
        self.put(&offer.credit_bytes.to_le_bytes());
        self.put(&offer.frame_cost.to_le_bytes());
        self.put(&[u8::from(offer.reliable) | u8::from(offer.checked) << 1]);
        self.name(offer.name);
    }
}

/// Reads from a frame.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Option<&'a str> {
        let bytes = usize::from(self.byte()?);
        if bytes > NAME_BYTES_MAX || bytes > self.rest.len() {
            return None;
        }
        let (name, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        core::str::from_utf8(name).ok()
    }

    fn offer(&mut self) -> Option<Offer<'a>> {
        let queue = QueueStart { pair: QueuePair::new(self.u32()?), psn: Psn::new(self.u32()?) };
        let (frame_bytes, credit_bytes) = (self.u32()?, self.u64()?);
        let (frame_cost, flags) = (self.u32()?, self.byte()?);
        let (reliable, checked) = (flags & 1 != 0, flags & 2 != 0);
        let name = self.name()?;
        Some(Offer { queue, frame_bytes, credit_bytes, frame_cost, reliable, checked, name })
    }
}

/// The kind of a frame that is not a packet of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Setup,
    Selective,
}

/// Returns the kind by the opcode; `None`: the frame is a packet of the standard.
pub(super) fn kind_of(frame: &[u8]) -> Option<Kind> {
    match *frame.first()? {
        SETUP => Some(Kind::Setup),
        SELECTIVE => Some(Kind::Selective),
        _ => None,
    }
}

/// Returns the queue pair that a frame is for; `None`: it is too short for a base header.
pub(super) fn destination_of(frame: &[u8]) -> Option<QueuePair> {
    let header = frame.first_chunk::<BTH_BYTES>()?;
    Some(QueuePair::new(u32::from_be_bytes([0, header[5], header[6], header[7]])))
}

fn base_of(frame: &[u8]) -> Option<(QueuePair, Psn, Reader<'_>)> {
    let (header, rest) = frame.split_first_chunk::<BTH_BYTES>()?;
    let psn = Psn::new(u32::from_be_bytes([0, header[9], header[10], header[11]]));
    Some((destination_of(frame)?, psn, Reader { rest }))
}

impl<'a> Setup<'a> {
    /// Writes the frame without ICRC; returns its length, a multiple of 4. The rest of `into` is
    /// zero.
    pub fn emit(&self, to: QueuePair, into: &mut [u8]) -> usize {
        into.fill(0);
        let mut out = Writer { into, used: 0 };
        out.base(SETUP, to, Psn::new(0));
        match *self {
            Setup::Hello(Hello { version, nonce, cookie, attempt, offer }) => {
                out.put(&[1, attempt]);
                out.put(&version.to_le_bytes());
                out.put(&nonce.to_le_bytes());
                out.put(&cookie.to_le_bytes());
                out.offer(&offer);
            }
            Setup::Retry { nonce, cookie } => {
                out.put(&[2]);
                out.put(&nonce.to_le_bytes());
                out.put(&cookie.to_le_bytes());
            }
            Setup::Accept(Accept { nonce, attempt, offer }) => {
                out.put(&[3, attempt]);
                out.put(&nonce.to_le_bytes());
                out.offer(&offer);
            }
            Setup::Refuse { nonce, status } => {
                out.put(&[4, status_code(status)]);
                out.put(&nonce.to_le_bytes());
            }
            Setup::Import { request, key, name } => {
                out.put(&[5]);
                out.put(&request.to_le_bytes());
                out.put(&key.0.to_le_bytes());
                out.name(name);
            }
            Setup::Imported(Imported { request, status, key, bytes, rights }) => {
                let flags = u8::from(rights.put) | u8::from(rights.get) << 1;
                out.put(&[6, status_code(status), flags | u8::from(rights.atomic) << 2]);
                out.put(&request.to_le_bytes());
                out.put(&key.to_le_bytes());
                out.put(&bytes.to_le_bytes());
            }
            Setup::Goodbye { from } => {
                out.put(&[7]);
                out.put(&from.get().to_le_bytes());
            }
            Setup::Farewell => out.put(&[8]),
        }
        out.used.next_multiple_of(4)
    }

    /// Reads a frame without its ICRC; `None`: it is malformed.
    pub fn parse(frame: &'a [u8]) -> Option<Setup<'a>> {
        let (_, _, mut from) = base_of(frame)?;
        Some(match from.byte()? {
            1 => {
                let attempt = from.byte()?;
                let version = u16::from_le_bytes(from.take()?);
                let (nonce, cookie) = (from.u64()?, from.u64()?);
                // The offer of another version may have another form.
                let offer = if version == VERSION { from.offer()? } else { Offer::nothing() };
                Setup::Hello(Hello { version, nonce, cookie, attempt, offer })
            }
            2 => Setup::Retry { nonce: from.u64()?, cookie: from.u64()? },
            3 => {
                let (attempt, nonce) = (from.byte()?, from.u64()?);
                Setup::Accept(Accept { nonce, attempt, offer: from.offer()? })
            }
            4 => {
                let status = status_of(from.byte()?)?;
                Setup::Refuse { nonce: from.u64()?, status }
            }
            5 => {
                let (request, key) = (from.u32()?, Key(from.u64()?));
                Setup::Import { request, key, name: from.name()? }
            }
            6 => {
                let (status, flags) = (status_of(from.byte()?)?, from.byte()?);
                let [put, get, atomic] = [1, 2, 4].map(|bit| flags & bit != 0);
                let rights = Rights { put, get, atomic };
                let (request, key, bytes) = (from.u32()?, from.u32()?, from.u64()?);
                Setup::Imported(Imported { request, status, key, bytes, rights })
            }
            7 => Setup::Goodbye { from: QueuePair::new(from.u32()?) },
            8 => Setup::Farewell,
            _ => return None,
        })
    }
}

impl Offer<'_> {
    /// Returns an offer of nothing, for a hello of an unknown version.
    fn nothing() -> Offer<'static> {
        Offer {
            queue: QueueStart { pair: QueuePair::new(0), psn: Psn::new(0) },
            frame_bytes: 0,
            credit_bytes: 0,
            frame_cost: 0,
            reliable: false,
            checked: false,
            name: "",
        }
    }
}

impl<'a> Selective<'a> {
    /// Writes the frame without ICRC; returns its length, a multiple of 4.
    pub fn emit(&self, to: QueuePair, into: &mut [u8]) -> usize {
        into.fill(0);
        let mut out = Writer { into, used: 0 };
        out.base(SELECTIVE, to, self.expected);
        let refused = match self.refused {
            None => 0,
            Some(Refused::NotReady) => NOT_READY,
            Some(Refused::For(status)) => status_code(status),
        };
        out.put(&[0, refused]);
        out.put(&(self.held.len() as u16).to_le_bytes());
        out.put(&self.credit_bytes.to_le_bytes());
        out.put(&self.marked.to_le_bytes());
        out.put(&self.question.to_le_bytes());
        out.put(&self.answer.to_le_bytes());
        out.put(self.held);
        out.used.next_multiple_of(4)
    }

    /// Reads a frame without its ICRC; `None`: it is malformed.
    pub fn parse(frame: &'a [u8]) -> Option<Selective<'a>> {
        let (_, expected, mut from) = base_of(frame)?;
        from.byte()?;
        let refused = match from.byte()? {
            0 => None,
            NOT_READY => Some(Refused::NotReady),
            code => Some(Refused::For(status_of(code)?)),
        };
        let held_bytes = usize::from(u16::from_le_bytes(from.take()?));
        let credit_bytes = from.u64()?;
        let marked = from.u32()?;
        let (question, answer) = (from.u32()?, from.u32()?);
        if held_bytes > WINDOW as usize / 8 {
            return None;
        }
        let held = from.rest.get(..held_bytes)?;
        Some(Selective { expected, question, answer, refused, credit_bytes, marked, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer<'static> {
        Offer {
            queue: QueueStart { pair: QueuePair::new(0x00AB_CDEF), psn: Psn::new(7) },
            frame_bytes: 1472,
            credit_bytes: 1 << 33,
            frame_cost: 800,
            reliable: true,
            checked: false,
            name: "builder",
        }
    }

    fn all() -> [Setup<'static>; 8] {
        let rights = Rights { put: true, get: false, atomic: true };
        let (status, key, bytes) = (Status::Done, 77, 1 << 40);
        let (nonce, cookie, attempt, offer) = (11, 12, 3, offer());
        [
            Setup::Hello(Hello { version: VERSION, nonce, cookie, attempt, offer }),
            Setup::Retry { nonce, cookie },
            Setup::Accept(Accept { nonce, attempt, offer }),
            Setup::Refuse { nonce, status: Status::NoRoom },
            Setup::Import { request: 9, key: Key(5), name: "samples" },
            Setup::Imported(Imported { request: 9, status, key, bytes, rights }),
            Setup::Goodbye { from: QueuePair::new(3) },
            Setup::Farewell,
        ]
    }

    #[test]
    fn every_setup_frame_comes_back_as_it_was_and_cut_ones_do_not() {
        for setup in all() {
            let mut bytes = [0xAA; 200];
            let length = setup.emit(SETUP_PAIR, &mut bytes);
            assert_eq!(length % 4, 0);
            assert_eq!(kind_of(&bytes), Some(Kind::Setup));
            assert_eq!(destination_of(&bytes), Some(SETUP_PAIR));
            assert_eq!(Setup::parse(&bytes[..length]), Some(setup));
            let kind = usize::from(bytes[SETUP_KIND_AT]);
            if let Some(at) = NONCE_AT.get(kind - 1) {
                assert_eq!(bytes[*at], 11, "the nonce of {setup:?}");
            }
            for cut in 0..BTH_BYTES + 1 {
                assert_eq!(Setup::parse(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn an_acknowledgement_comes_back_as_it_was_and_one_that_claims_too_much_does_not() {
        let held = [0x5A; 512];
        let refused = Some(Refused::For(Status::Withdrawn));
        let ack = Selective {
            expected: Psn::new(0x00FF_FFFF),
            question: 5,
            answer: 6,
            refused,
            credit_bytes: 1 << 40,
            marked: 3,
            held: &held,
        };
        let mut bytes = [0; CONTROL_BYTES_MAX];
        let length = ack.emit(QueuePair::new(5), &mut bytes);
        assert_eq!(Selective::parse(&bytes[..length]), Some(ack));
        assert_eq!(Selective::parse(&bytes[..length - 4]), None, "cut");
        bytes[BTH_BYTES + 3] = 0xFF; // claims 65,000 byte of bits
        assert_eq!(Selective::parse(&bytes), None);
    }

    #[test]
    fn every_status_that_is_sent_is_understood() {
        for status in STATUSES {
            assert_eq!(status_of(status_code(status)), Some(status));
        }
        assert_eq!(status_of(13), None);
    }
}
