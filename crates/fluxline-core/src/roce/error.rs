//! Errors of reading and of building packets.

use super::opcode::Opcode;

/// The reason why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The packet is shorter than its headers.
    #[error("{bytes} bytes are too few for the headers, which take {needed} bytes")]
    TooShort {
        /// The length of the packet \[byte\].
        bytes: usize,
        /// The length of the headers, as far as they could be read \[byte\].
        needed: usize,
    },
    /// The base header has another version.
    #[error("transport header version {version}; only version 0 is known")]
    Version {
        /// Its version.
        version: u8,
    },
    /// The opcode is not in the table.
    #[error("opcode {opcode:#04x} is not one of RC, UC or CNP")]
    UnknownOpcode {
        /// The first byte.
        opcode: u8,
    },
    /// The acknowledgement has a code that the specification reserves.
    #[error("AETH syndrome {syndrome:#04x} is reserved")]
    UnknownSyndrome {
        /// The byte of the syndrome.
        syndrome: u8,
    },
    /// The padding is longer than the bytes after the headers.
    #[error("{pad} bytes of padding in a payload of {bytes} bytes")]
    PadTooLong {
        /// The pad count \[byte\].
        pad: usize,
        /// The length after the headers \[byte\].
        bytes: usize,
    },
    /// Payload and padding are not a multiple of 4.
    #[error("{bytes} bytes follow the headers, which is not a multiple of 4")]
    Unaligned {
        /// The length after the headers \[byte\].
        bytes: usize,
    },
    /// This kind of packet has no payload.
    #[error("{bytes} bytes after the headers of {}, which has no payload", opcode.name())]
    Payload {
        /// The kind.
        opcode: Opcode,
        /// The length after the headers \[byte\].
        bytes: usize,
    },
}

/// A payload was given to a kind of packet that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} has no payload; {bytes} bytes were given", opcode.name())]
pub struct PayloadError {
    /// The kind.
    pub opcode: Opcode,
    /// The length that was given \[byte\].
    pub bytes: usize,
}
