//! The kinds of packets as one table: operation, position in its message, extended headers, and
//! payload.
//!
//! Source: IBTA volume 1, 9.2.1 (table "OpCode field"); the congestion notification: Annex A17.

use super::sizes::{
    AETH_BYTES, ATOMIC_ACK_ETH_BYTES, ATOMIC_ETH_BYTES, BTH_BYTES, CNP_ZERO_BYTES, IMMEDIATE_BYTES,
    RETH_BYTES,
};

/// The promise of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// RC: acknowledged and repeated.
    Reliable,
    /// UC: sent once.
    Unreliable,
}

/// The operation that a packet is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpcodeOperation {
    /// A message into the buffer that the peer posted next.
    Send,
    /// Bytes into a region of the peer.
    Write,
    /// A request for bytes of a region.
    ReadRequest,
    /// The requested bytes.
    ReadResponse,
    /// An acknowledgement or a refusal.
    Acknowledge,
    /// An acknowledgement with the old value of the word of an atomic operation.
    AtomicAcknowledge,
    /// Replaces a word if it is as expected.
    CompareSwap,
    /// Adds to a word.
    FetchAdd,
    /// Notifies a sender that its packets met congestion.
    CongestionNotification,
}

/// The position of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first packet of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The end of a message of more than one packet.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Returns true when a message begins with this packet.
    #[must_use]
    #[inline]
    pub const fn begins(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Returns true when a message ends with this packet.
    #[must_use]
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }
}

/// The extended headers between the base header and the payload, in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extended {
    /// No extended header.
    Nothing,
    /// Immediate data.
    Immediate,
    /// RETH: a region's address, key and length.
    Reth,
    /// RETH, then immediate data.
    RethImmediate,
    /// AETH: an acknowledgement.
    Aeth,
    /// AETH, then the old value of an atomic operation's word.
    AethAtomicAck,
    /// AtomicETH: a word's address, key and operands.
    Atomic,
    /// 16 bytes of zeros.
    Zeros,
}

impl Extended {
    /// Returns the length of the headers \[byte\].
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Extended::Nothing => 0,
            Extended::Immediate => IMMEDIATE_BYTES,
            Extended::Reth => RETH_BYTES,
            Extended::RethImmediate => RETH_BYTES + IMMEDIATE_BYTES,
            Extended::Aeth => AETH_BYTES,
            Extended::AethAtomicAck => AETH_BYTES + ATOMIC_ACK_ETH_BYTES,
            Extended::Atomic => ATOMIC_ETH_BYTES,
            Extended::Zeros => CNP_ZERO_BYTES,
        }
    }
}

/// The meaning of one opcode.
struct Row {
    name: &'static str,
    transport: Transport,
    operation: OpcodeOperation,
    position: Position,
    extended: Extended,
    payload: bool,
}

/// Makes the enum, the table and the conversion from a byte of each row.
macro_rules! opcodes {
    ($( $value:literal $variant:ident $name:literal $transport:ident $operation:ident
        $position:ident $extended:ident $payload:literal; )*) => {
        /// The kind of a packet, from its first byte. A congestion notification counts as
        /// unreliable, because it is not answered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $( #[doc = concat!($name, ".")] $variant = $value, )*
        }

        impl Opcode {
            /// Every opcode, by value.
            pub const ALL: &[Opcode] = &[$( Opcode::$variant, )*];

            /// Returns the opcode of a packet's first byte; `None`: the kind is not supported.
            #[must_use]
            #[inline]
            pub const fn from_byte(byte: u8) -> Option<Opcode> {
                match byte {
                    $( $value => Some(Opcode::$variant), )*
                    _ => None,
                }
            }

            const fn row(self) -> &'static Row {
                match self {
                    $( Opcode::$variant => &Row {
                        name: $name,
                        transport: Transport::$transport,
                        operation: OpcodeOperation::$operation,
                        position: Position::$position,
                        extended: Extended::$extended,
                        payload: $payload,
                    }, )*
                }
            }
        }
    };
}

opcodes! {
    0x00 RcSendFirst "RC SEND first" Reliable Send First Nothing true;
    0x01 RcSendMiddle "RC SEND middle" Reliable Send Middle Nothing true;
    0x02 RcSendLast "RC SEND last" Reliable Send Last Nothing true;
    0x03 RcSendLastImmediate "RC SEND last with immediate" Reliable Send Last Immediate true;
    0x04 RcSendOnly "RC SEND only" Reliable Send Only Nothing true;
    0x05 RcSendOnlyImmediate "RC SEND only with immediate" Reliable Send Only Immediate true;
    0x06 RcWriteFirst "RC RDMA WRITE first" Reliable Write First Reth true;
    0x07 RcWriteMiddle "RC RDMA WRITE middle" Reliable Write Middle Nothing true;
    0x08 RcWriteLast "RC RDMA WRITE last" Reliable Write Last Nothing true;
    0x09 RcWriteLastImmediate "RC RDMA WRITE last with immediate" Reliable Write Last Immediate
        true;
    0x0A RcWriteOnly "RC RDMA WRITE only" Reliable Write Only Reth true;
    0x0B RcWriteOnlyImmediate "RC RDMA WRITE only with immediate" Reliable Write Only RethImmediate
        true;
    0x0C RcReadRequest "RC RDMA READ request" Reliable ReadRequest Only Reth false;
    0x0D RcReadResponseFirst "RC RDMA READ response first" Reliable ReadResponse First Aeth true;
    0x0E RcReadResponseMiddle "RC RDMA READ response middle" Reliable ReadResponse Middle Nothing
        true;
    0x0F RcReadResponseLast "RC RDMA READ response last" Reliable ReadResponse Last Aeth true;
    0x10 RcReadResponseOnly "RC RDMA READ response only" Reliable ReadResponse Only Aeth true;
    0x11 RcAcknowledge "RC ACKNOWLEDGE" Reliable Acknowledge Only Aeth false;
    0x12 RcAtomicAcknowledge "RC ATOMIC ACKNOWLEDGE" Reliable AtomicAcknowledge Only AethAtomicAck
        false;
    0x13 RcCompareSwap "RC CmpSwap" Reliable CompareSwap Only Atomic false;
    0x14 RcFetchAdd "RC FetchAdd" Reliable FetchAdd Only Atomic false;
    0x20 UcSendFirst "UC SEND first" Unreliable Send First Nothing true;
    0x21 UcSendMiddle "UC SEND middle" Unreliable Send Middle Nothing true;
    0x22 UcSendLast "UC SEND last" Unreliable Send Last Nothing true;
    0x23 UcSendLastImmediate "UC SEND last with immediate" Unreliable Send Last Immediate true;
    0x24 UcSendOnly "UC SEND only" Unreliable Send Only Nothing true;
    0x25 UcSendOnlyImmediate "UC SEND only with immediate" Unreliable Send Only Immediate true;
    0x26 UcWriteFirst "UC RDMA WRITE first" Unreliable Write First Reth true;
    0x27 UcWriteMiddle "UC RDMA WRITE middle" Unreliable Write Middle Nothing true;
    0x28 UcWriteLast "UC RDMA WRITE last" Unreliable Write Last Nothing true;
    0x29 UcWriteLastImmediate "UC RDMA WRITE last with immediate" Unreliable Write Last Immediate
        true;
    0x2A UcWriteOnly "UC RDMA WRITE only" Unreliable Write Only Reth true;
    0x2B UcWriteOnlyImmediate "UC RDMA WRITE only with immediate" Unreliable Write Only
        RethImmediate true;
    0x81 CongestionNotification "CNP" Unreliable CongestionNotification Only Zeros false;
}

impl Opcode {
    /// Returns the packet's first byte.
    #[must_use]
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the usual name.
    #[must_use]
    #[inline]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the kind of connection that it belongs to.
    #[must_use]
    #[inline]
    pub const fn transport(self) -> Transport {
        self.row().transport
    }

    /// Returns the operation that the packet is a part of.
    #[must_use]
    #[inline]
    pub const fn operation(self) -> OpcodeOperation {
        self.row().operation
    }

    /// Returns the position of the packet in its message.
    #[must_use]
    #[inline]
    pub const fn position(self) -> Position {
        self.row().position
    }

    /// Returns the extended headers that follow the base header.
    #[must_use]
    #[inline]
    pub const fn extended(self) -> Extended {
        self.row().extended
    }

    /// Returns true when immediate data is among them.
    #[must_use]
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(self.extended(), Extended::Immediate | Extended::RethImmediate)
    }

    /// Returns true when a payload may follow the headers.
    #[must_use]
    #[inline]
    pub const fn allows_payload(self) -> bool {
        self.row().payload
    }

    /// Returns the length of the base header and the extended headers \[byte\].
    #[must_use]
    #[inline]
    pub const fn header_bytes(self) -> usize {
        BTH_BYTES + self.extended().bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_leads_to_the_opcode_that_it_came_from_or_nowhere() {
        let known = (0..=255u8).filter_map(Opcode::from_byte);
        assert!(known.eq(Opcode::ALL.iter().copied()));
        assert_eq!(Opcode::ALL.len(), 21 + 12 + 1);
        for &opcode in Opcode::ALL {
            assert_eq!(Opcode::from_byte(opcode.byte()), Some(opcode));
        }
    }

    #[test]
    fn unreliable_kinds_are_the_reliable_ones_with_bit_5() {
        for byte in 0x20..=0x2B {
            let (uc, rc) = (Opcode::from_byte(byte), Opcode::from_byte(byte - 0x20));
            let (uc, rc) = (uc.expect("UC"), rc.expect("RC"));
            assert_eq!(uc.transport(), Transport::Unreliable);
            assert_eq!(rc.transport(), Transport::Reliable);
            assert_eq!(uc.name()[2..], rc.name()[2..]);
            assert_eq!(
                (uc.operation(), uc.position(), uc.extended(), uc.allows_payload()),
                (rc.operation(), rc.position(), rc.extended(), rc.allows_payload())
            );
        }
    }

    #[test]
    fn names_say_position_and_immediate_as_the_table_does() {
        for &opcode in Opcode::ALL {
            let name = opcode.name();
            let immediate =
                matches!(opcode.extended(), Extended::Immediate | Extended::RethImmediate);
            assert_eq!(name.contains("immediate"), immediate, "{name}");
            let said = [
                ("first", Position::First),
                ("middle", Position::Middle),
                ("last", Position::Last),
                ("only", Position::Only),
            ];
            for (word, position) in said {
                if name.contains(word) {
                    assert_eq!(opcode.position(), position, "{name}");
                }
            }
            assert!(opcode.header_bytes() <= super::super::HEADER_BYTES_MAX);
            assert_eq!(opcode.header_bytes() % 4, 0, "{name}");
        }
    }
}
