//! One packet as a value that holds what its kind allows and nothing else; to bytes and back.

use super::header::{
    AETH_BYTES, ATOMIC_ETH_BYTES, Aeth, AtomicAckEth, AtomicEth, BTH_BYTES, Bth, CNP_ZERO_BYTES,
    PARTITION_DEFAULT, Reth,
};
use super::number::{Psn, QueuePair};
use super::opcode::{Opcode, OpcodeOperation, Position, Transport};

/// The reason why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The headers do not fit in.
    #[error("{bytes} byte are too few for the headers, which take {needed} byte")]
    TooShort {
        /// The length of the bytes.
        bytes: usize,
        /// The length of the headers, as far as they could be read \[byte\].
        needed: usize,
    },
    /// The base header is of another version.
    #[error("transport header version {version}; only version 0 is known")]
    Version {
        /// Its version.
        version: u8,
    },
    /// A kind that is not in the table of opcodes.
    #[error("opcode {opcode:#04x} is not one of RC, UC or CNP")]
    UnknownOpcode {
        /// The first byte.
        opcode: u8,
    },
    /// An acknowledgement with a code that the specification reserves.
    #[error("AETH syndrome {syndrome:#04x} is reserved")]
    UnknownSyndrome {
        /// The byte.
        syndrome: u8,
    },
    /// More padding than payload.
    #[error("{pad} byte of padding in a payload of {bytes} byte")]
    PadTooLong {
        /// The pad count \[byte\].
        pad: usize,
        /// The bytes after the headers.
        bytes: usize,
    },
    /// Payload and padding are not a multiple of 4.
    #[error("{bytes} byte follow the headers, which is not a multiple of 4")]
    Unaligned {
        /// The bytes after the headers.
        bytes: usize,
    },
    /// This kind has no payload.
    #[error("{bytes} byte after the headers of {}, which has no payload", opcode.name())]
    Payload {
        /// The kind.
        opcode: Opcode,
        /// The bytes after the headers.
        bytes: usize,
    },
}

/// A payload was given to a kind of packet that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} has no payload; {bytes} byte were given", opcode.name())]
pub struct PayloadError {
    /// The kind.
    pub opcode: Opcode,
    /// The length that was given \[byte\].
    pub bytes: usize,
}

/// The part of a message that a SEND is; the number is immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPart {
    /// More follow.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The end.
    Last(Option<u32>),
    /// All of it.
    Only(Option<u32>),
}

/// The part of an RDMA WRITE; the number is immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePart {
    /// More follow.
    First(Reth),
    /// Neither the first nor the last.
    Middle,
    /// The end.
    Last(Option<u32>),
    /// All of it.
    Only(Reth, Option<u32>),
}

/// The part of the answer to an RDMA READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPart {
    /// More follow.
    First(Aeth),
    /// Neither the first nor the last.
    Middle,
    /// The end.
    Last(Aeth),
    /// All of it.
    Only(Aeth),
}

/// The content of a packet besides its base header; it determines the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message.
    Send(Transport, SendPart),
    /// Bytes into a region.
    Write(Transport, WritePart),
    /// The question for bytes.
    ReadRequest(Reth),
    /// Bytes that were asked for.
    ReadResponse(ReadPart),
    /// An answer.
    Acknowledge(Aeth),
    /// An answer with a word as it was.
    AtomicAcknowledge(Aeth, AtomicAckEth),
    /// An atomic compare and swap.
    CompareSwap(AtomicEth),
    /// An atomic addition.
    FetchAdd(AtomicEth),
    /// A congestion notification.
    CongestionNotification,
}

impl Body {
    /// The kind of packet that says this.
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

    /// Reads what follows the base header, as the opcode's row says.
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
    fn immediate(&mut self, there: bool) -> Result<Option<u32>, ParseError> {
        if there { Ok(Some(u32::from_be_bytes(self.take()?))) } else { Ok(None) }
    }
}

/// All headers of a packet. Made by [`Headers::new`], then changed at will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The receiver's queue pair.
    pub destination: QueuePair,
    /// Its sequence number.
    pub psn: Psn,
    /// The sender wants an acknowledgement.
    pub acknowledge_request: bool,
    /// The receiver's program is to be woken when the message is complete.
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
    /// Headers in the default partition with no flag set.
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

    /// The headers of a congestion notification to `destination`. Source: Annex A17 (BECN is set).
    #[must_use]
    pub const fn congestion_notification(destination: QueuePair) -> Headers {
        let mut headers = Headers::new(destination, Psn::new(0), Body::CongestionNotification);
        headers.backward_congestion = true;
        headers
    }

    /// The kind of packet.
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.body.opcode()
    }

    /// Their length \[byte\].
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.opcode().header_bytes()
    }

    /// The base header before a payload of `payload_bytes`, whose padding it counts.
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

    /// Writes the headers before a payload of `payload_bytes`, which the caller writes, with
    /// [`pad_bytes`] zeros after it. Returns their length \[byte\]. `payload_bytes` is 0 for kinds
    /// without a payload.
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

/// Returns the zeros after a payload that make the packet a multiple of 4 \[byte\].
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
    /// Joins headers and payload. Errors: bytes for a kind that has no payload.
    pub const fn new(headers: Headers, payload: &'a [u8]) -> Result<Packet<'a>, PayloadError> {
        let opcode = headers.opcode();
        if !payload.is_empty() && !opcode.allows_payload() {
            return Err(PayloadError { opcode, bytes: payload.len() });
        }
        Ok(Packet { headers, payload })
    }

    /// Reads a packet from a UDP payload without its ICRC (see [`super::split_icrc`]), whatever the
    /// ICRC says.
    ///
    /// Whether the payload is as long as its place in the message asks, is for whoever knows the
    /// path's MTU. Reserved bits and the padding's values are not looked at.
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

    /// The headers.
    #[must_use]
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The payload, without padding.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The kind of packet.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.headers.opcode()
    }

    /// Headers, payload and padding, without ICRC \[byte\].
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.headers.bytes() + self.payload.len() + pad_bytes(self.payload.len())
    }

    /// Writes the headers only; the caller writes payload and padding. See [`Headers::emit`].
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
