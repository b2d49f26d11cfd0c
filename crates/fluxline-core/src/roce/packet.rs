//! A packet as a value, with exactly the fields that its kind allows; to bytes and back.

use super::header::{Aeth, AtomicAckEth, AtomicEth, Bth, PARTITION_DEFAULT, Reth};
use super::number::{Psn, QueuePair};
use super::opcode::{Opcode, OpcodeOperation, Position, Transport};
use super::sizes::{AETH_BYTES, ATOMIC_ETH_BYTES, BTH_BYTES, CNP_ZERO_BYTES};

pub use super::error::{ParseError, PayloadError};

/// The part of a message that a SEND is; the number is immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPart {
    /// The first packet of several.
    First,
    /// A packet between the first and the last.
    Middle,
    /// The last packet of several.
    Last(Option<u32>),
    /// The only packet.
    Only(Option<u32>),
}

/// The part of an RDMA WRITE; the number is immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePart {
    /// The first packet of several.
    First(Reth),
    /// A packet between the first and the last.
    Middle,
    /// The last packet of several.
    Last(Option<u32>),
    /// The only packet.
    Only(Reth, Option<u32>),
}

/// The part of the answer to an RDMA READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPart {
    /// The first packet of several.
    First(Aeth),
    /// A packet between the first and the last.
    Middle,
    /// The last packet of several.
    Last(Aeth),
    /// The only packet.
    Only(Aeth),
}

/// The content of a packet besides its base header; it determines the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message.
    Send(Transport, SendPart),
    /// Bytes into a region.
    Write(Transport, WritePart),
    /// A request for bytes.
    ReadRequest(Reth),
    /// The requested bytes.
    ReadResponse(ReadPart),
    /// An acknowledgement or a refusal.
    Acknowledge(Aeth),
    /// An acknowledgement with the old value of a word.
    AtomicAcknowledge(Aeth, AtomicAckEth),
    /// An atomic compare and swap.
    CompareSwap(AtomicEth),
    /// An atomic addition.
    FetchAdd(AtomicEth),
    /// A congestion notification.
    CongestionNotification,
}

impl Body {
    /// Returns the kind of packet.
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        match *self {
            Body::Send(Transport::Reliable, part) => match part {
                SendPart::First => Opcode::RcSendFirst,
                SendPart::Middle => Opcode::RcSendMiddle,
                SendPart::Last(None) => Opcode::RcSendLast,
                SendPart::Last(Some(_)) => Opcode::RcSendLastImmediate,
                SendPart::Only(None) => Opcode::RcSendOnly,
                SendPart::Only(Some(_)) => Opcode::RcSendOnlyImmediate,
            },
            Body::Send(Transport::Unreliable, part) => match part {
                SendPart::First => Opcode::UcSendFirst,
                SendPart::Middle => Opcode::UcSendMiddle,
                SendPart::Last(None) => Opcode::UcSendLast,
                SendPart::Last(Some(_)) => Opcode::UcSendLastImmediate,
                SendPart::Only(None) => Opcode::UcSendOnly,
                SendPart::Only(Some(_)) => Opcode::UcSendOnlyImmediate,
            },
            Body::Write(Transport::Reliable, part) => match part {
                WritePart::First(_) => Opcode::RcWriteFirst,
                WritePart::Middle => Opcode::RcWriteMiddle,
                WritePart::Last(None) => Opcode::RcWriteLast,
                WritePart::Last(Some(_)) => Opcode::RcWriteLastImmediate,
                WritePart::Only(_, None) => Opcode::RcWriteOnly,
                WritePart::Only(_, Some(_)) => Opcode::RcWriteOnlyImmediate,
            },
            Body::Write(Transport::Unreliable, part) => match part {
                WritePart::First(_) => Opcode::UcWriteFirst,
                WritePart::Middle => Opcode::UcWriteMiddle,
                WritePart::Last(None) => Opcode::UcWriteLast,
                WritePart::Last(Some(_)) => Opcode::UcWriteLastImmediate,
                WritePart::Only(_, None) => Opcode::UcWriteOnly,
                WritePart::Only(_, Some(_)) => Opcode::UcWriteOnlyImmediate,
            },
            Body::ReadRequest(_) => Opcode::RcReadRequest,
            Body::ReadResponse(ReadPart::First(_)) => Opcode::RcReadResponseFirst,
            Body::ReadResponse(ReadPart::Middle) => Opcode::RcReadResponseMiddle,
            Body::ReadResponse(ReadPart::Last(_)) => Opcode::RcReadResponseLast,
            Body::ReadResponse(ReadPart::Only(_)) => Opcode::RcReadResponseOnly,
            Body::Acknowledge(_) => Opcode::RcAcknowledge,
            Body::AtomicAcknowledge(..) => Opcode::RcAtomicAcknowledge,
            Body::CompareSwap(_) => Opcode::RcCompareSwap,
            Body::FetchAdd(_) => Opcode::RcFetchAdd,
            Body::CongestionNotification => Opcode::CongestionNotification,
        }
    }

    /// Reads the extended headers that the opcode's row names.
    #[inline]
    fn read(opcode: Opcode, from: &mut Reader<'_>) -> Result<Body, ParseError> {
        let transport = opcode.transport();
        let with_immediate = opcode.has_immediate();
        Ok(match (opcode.operation(), opcode.position()) {
            (OpcodeOperation::Send, position) => Body::Send(
                transport,
                match position {
                    Position::First => SendPart::First,
                    Position::Middle => SendPart::Middle,
                    Position::Last => SendPart::Last(from.immediate(with_immediate)?),
                    Position::Only => SendPart::Only(from.immediate(with_immediate)?),
                },
            ),
            (OpcodeOperation::Write, position) => Body::Write(
                transport,
                match position {
                    Position::First => WritePart::First(from.reth()?),
                    Position::Middle => WritePart::Middle,
                    Position::Last => WritePart::Last(from.immediate(with_immediate)?),
                    Position::Only => {
                        WritePart::Only(from.reth()?, from.immediate(with_immediate)?)
                    }
                },
            ),
            (OpcodeOperation::ReadRequest, _) => Body::ReadRequest(from.reth()?),
            (OpcodeOperation::ReadResponse, position) => Body::ReadResponse(match position {
                Position::First => ReadPart::First(from.aeth()?),
                Position::Middle => ReadPart::Middle,
                Position::Last => ReadPart::Last(from.aeth()?),
                Position::Only => ReadPart::Only(from.aeth()?),
            }),
            (OpcodeOperation::Acknowledge, _) => Body::Acknowledge(from.aeth()?),
            (OpcodeOperation::AtomicAcknowledge, _) => {
                let aeth = from.aeth()?;
                let original = u64::from_be_bytes(from.take()?);
                Body::AtomicAcknowledge(aeth, AtomicAckEth { original })
            }
            (OpcodeOperation::CompareSwap, _) => Body::CompareSwap(from.atomic()?),
            (OpcodeOperation::FetchAdd, _) => Body::FetchAdd(from.atomic()?),
            (OpcodeOperation::CongestionNotification, _) => {
                from.take::<CNP_ZERO_BYTES>()?;
                Body::CongestionNotification
            }
        })
    }
}

/// The unread rest of a packet.
struct Reader<'a> {
    whole_bytes: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            let bytes = self.whole_bytes;
            return Err(ParseError::TooShort { bytes, needed: bytes - self.rest.len() + N });
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn reth(&mut self) -> Result<Reth, ParseError> {
        self.take().map(Reth::from_bytes)
    }

    #[inline]
    fn aeth(&mut self) -> Result<Aeth, ParseError> {
        Aeth::from_bytes(self.take::<AETH_BYTES>()?)
    }

    #[inline]
    fn atomic(&mut self) -> Result<AtomicEth, ParseError> {
        Ok(AtomicEth::from_bytes(self.take::<ATOMIC_ETH_BYTES>()?))
    }

    #[inline]
    fn immediate(&mut self, is_present: bool) -> Result<Option<u32>, ParseError> {
        if is_present { Ok(Some(u32::from_be_bytes(self.take()?))) } else { Ok(None) }
    }
}

/// All headers of a packet. [`Headers::new`] makes them; any field may be changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The receiver's queue pair.
    pub destination: QueuePair,
    /// The sequence number.
    pub psn: Psn,
    /// The sender wants an acknowledgement.
    pub acknowledge_request: bool,
    /// The receiver's program is woken when the message is complete.
    pub solicited_event: bool,
    /// The path's migration state (MigReq).
    pub migration_request: bool,
    /// FECN: this packet met congestion on its way.
    pub forward_congestion: bool,
    /// BECN: packets the other way met congestion.
    pub backward_congestion: bool,
    /// The partition (P_Key).
    pub partition: u16,
    /// The content.
    pub body: Body,
}

impl Headers {
    /// Returns headers in the default partition, without flags.
    #[must_use]
    pub const fn new(destination: QueuePair, psn: Psn, body: Body) -> Headers {
        Headers {
            destination,
            psn,
            acknowledge_request: false,
            solicited_event: false,
            migration_request: false,
            forward_congestion: false,
            backward_congestion: false,
            partition: PARTITION_DEFAULT,
            body,
        }
    }

    /// Returns the headers of a congestion notification. Source: Annex A17 (BECN is set).
    #[must_use]
    pub const fn congestion_notification(destination: QueuePair) -> Headers {
        let mut headers = Headers::new(destination, Psn::new(0), Body::CongestionNotification);
        headers.backward_congestion = true;
        headers
    }

    /// Returns the kind of packet.
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.body.opcode()
    }

    /// Returns the length of all headers \[byte\].
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.opcode().header_bytes()
    }

    /// Returns the base header for a payload of `payload_bytes`; it has the length of the padding.
    #[must_use]
    #[inline]
    pub const fn base(&self, payload_bytes: usize) -> Bth {
        Bth {
            opcode: self.opcode(),
            solicited_event: self.solicited_event,
            migration_request: self.migration_request,
            pad_bytes: pad_bytes(payload_bytes) as u8,
            partition: self.partition,
            forward_congestion: self.forward_congestion,
            backward_congestion: self.backward_congestion,
            destination: self.destination,
            acknowledge_request: self.acknowledge_request,
            psn: self.psn,
        }
    }

    /// Writes the headers and returns their length \[byte\].
    ///
    /// The caller writes the payload of `payload_bytes` after them, then [`pad_bytes`] zeros.
    /// `payload_bytes` is 0 for kinds without a payload.
    ///
    /// # Panics
    /// When `into` is shorter than [`Headers::bytes`].
    #[inline]
    pub fn emit(&self, payload_bytes: usize, into: &mut [u8]) -> usize {
        debug_assert!(payload_bytes == 0 || self.opcode().allows_payload());
        let mut out = Writer { into, used: 0 };
        out.put(&self.base(payload_bytes).to_bytes());
        match self.body {
            Body::Send(_, SendPart::First | SendPart::Middle)
            | Body::Write(_, WritePart::Middle)
            | Body::ReadResponse(ReadPart::Middle) => {}
            Body::Send(_, SendPart::Last(immediate) | SendPart::Only(immediate))
            | Body::Write(_, WritePart::Last(immediate)) => out.immediate(immediate),
            Body::Write(_, WritePart::First(reth)) | Body::ReadRequest(reth) => {
                out.put(&reth.to_bytes());
            }
            Body::Write(_, WritePart::Only(reth, immediate)) => {
                out.put(&reth.to_bytes());
                out.immediate(immediate);
            }
            Body::ReadResponse(
                ReadPart::First(aeth) | ReadPart::Last(aeth) | ReadPart::Only(aeth),
            )
            | Body::Acknowledge(aeth) => out.put(&aeth.to_bytes()),
            Body::AtomicAcknowledge(aeth, ack) => {
                out.put(&aeth.to_bytes());
                out.put(&ack.original.to_be_bytes());
            }
            Body::CompareSwap(atomic) | Body::FetchAdd(atomic) => out.put(&atomic.to_bytes()),
            Body::CongestionNotification => out.put(&[0; CNP_ZERO_BYTES]),
        }
        out.used
    }
}

struct Writer<'a> {
    into: &'a mut [u8],
    used: usize,
}

impl Writer<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.into[self.used..self.used + N].copy_from_slice(bytes);
        self.used += N;
    }

    #[inline]
    fn immediate(&mut self, immediate: Option<u32>) {
        if let Some(immediate) = immediate {
            self.put(&immediate.to_be_bytes());
        }
    }
}

/// Returns the number of zeros after a payload, so that its length is a multiple of 4 \[byte\].
#[must_use]
#[inline]
pub const fn pad_bytes(payload_bytes: usize) -> usize {
    payload_bytes.wrapping_neg() & 3
}

/// A whole packet: headers and payload, without padding and ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    headers: Headers,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Joins headers and payload. Errors: the kind has no payload.
    pub const fn new(headers: Headers, payload: &'a [u8]) -> Result<Packet<'a>, PayloadError> {
        let opcode = headers.opcode();
        if !payload.is_empty() && !opcode.allows_payload() {
            return Err(PayloadError { opcode, bytes: payload.len() });
        }
        Ok(Packet { headers, payload })
    }

    /// Reads a packet from a UDP payload without its ICRC (see [`super::split_icrc`]).
    ///
    /// Neither the ICRC is checked, nor whether the payload is as long as its position in the
    /// message requires. Reserved bits and the values of the padding are ignored.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut reader = Reader { whole_bytes: bytes.len(), rest: bytes };
        let base = Bth::from_bytes(reader.take::<BTH_BYTES>()?)?;
        let body = Body::read(base.opcode, &mut reader)?;
        let rest = reader.rest;
        let (pad, follow) = (usize::from(base.pad_bytes), rest.len());
        if follow > 0 && !base.opcode.allows_payload() {
            return Err(ParseError::Payload { opcode: base.opcode, bytes: follow });
        }
        if follow % 4 != 0 {
            return Err(ParseError::Unaligned { bytes: follow });
        }
        let Some(payload_bytes) = follow.checked_sub(pad) else {
            return Err(ParseError::PadTooLong { pad, bytes: follow });
        };
        let headers = Headers {
            destination: base.destination,
            psn: base.psn,
            acknowledge_request: base.acknowledge_request,
            solicited_event: base.solicited_event,
            migration_request: base.migration_request,
            forward_congestion: base.forward_congestion,
            backward_congestion: base.backward_congestion,
            partition: base.partition,
            body,
        };
        Ok(Packet { headers, payload: &rest[..payload_bytes] })
    }

    /// Returns the headers.
    #[must_use]
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the payload, without padding.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the kind of packet.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.headers.opcode()
    }

    /// Returns the length of headers, payload and padding, without ICRC \[byte\].
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.headers.bytes() + self.payload.len() + pad_bytes(self.payload.len())
    }

    /// Writes only the headers; the caller writes payload and padding. See [`Headers::emit`].
    #[inline]
    pub fn emit_headers(&self, into: &mut [u8]) -> usize {
        self.headers.emit(self.payload.len(), into)
    }

    /// Writes headers, payload and padding; the caller adds the ICRC. Returns [`Packet::bytes`].
    ///
    /// # Panics
    /// When `into` is shorter than that.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        let start = self.emit_headers(into);
        let end = start + self.payload.len();
        into[start..end].copy_from_slice(self.payload);
        let padded = end + pad_bytes(self.payload.len());
        into[end..padded].fill(0);
        padded
    }
}

#[cfg(test)]
mod tests;
