//! Packets: commands, sizes in symbols of 16 bits, and the bytes that travel.
//!
//! Sizes and order of the symbols: Numascale's firmware that builds raw SCI packets, and FOLDOC's
//! entry; sizes include the CRC. Command numbers are not modelled.

/// A node of the address space: the upper 16 bits of an SCI address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// The command of a send packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Read 1 to 16 bytes inside an aligned block of 16; answered by `Response16`.
    ReadSelected,
    /// Write 1 to 16 bytes inside an aligned block of 16; answered by `Response00`.
    WriteSelected,
    /// Read-modify-write of 4 or 8 bytes; answered by `Response16`.
    Lock(Lock),
    /// Read 64 bytes; answered by `Response64`.
    Read64,
    /// Read 256 bytes; answered by `Response256`.
    Read256,
    /// Write 16 bytes; answered by `Response00`.
    Write16,
    /// Write 64 bytes; answered by `Response00`.
    Write64,
    /// Write 256 bytes; answered by `Response00`.
    Write256,
    /// Move 16 bytes; not answered, done with its echo.
    Move16,
    /// Move 64 bytes; not answered, done with its echo.
    Move64,
    /// Move 256 bytes; not answered, done with its echo.
    Move256,
    /// An event without data (an interrupt): not answered, not refused, no echo. It has precedence
    /// over other sends of its node (assumed), and may be lost without a report.
    Event00,
    /// An event of 16 bytes.
    Event16,
    /// An event of 64 bytes.
    Event64,
    /// An event of 256 bytes.
    Event256,
    /// The broadcast form of an event without data, on one ringlet: each node that it passes notes
    /// it ([`Report::Strobe`](super::Report::Strobe)), and its sender, which is also its target,
    /// takes it off. Clock strobes and broadcasts: reference of SCI, 1.4. Their full round to the
    /// sender is assumed.
    Strobe,
    /// An answer without data.
    Response00,
    /// An answer with 16 bytes.
    Response16,
    /// An answer with 64 bytes.
    Response64,
    /// An answer with 256 bytes.
    Response256,
}

/// The operation of a lock on the word that it finds; the old value is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Adds to the word.
    FetchAdd,
    /// Replaces the word if it has the expected value.
    CompareSwap,
    /// Replaces the bits of a mask.
    MaskSwap,
    /// Adds unless the word is at a bound.
    BoundedAdd,
    /// Adds; at a bound, replaces.
    WrapAdd,
}

/// The responder's status of a request. Source of the names: U. Stern's Murphi model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// The request was done.
    #[default]
    Normal,
    /// The address does not exist, or access is not allowed.
    Address,
    /// The command is not allowed at this address.
    Type,
    /// The data is wrong.
    Data,
    /// The request conflicts with another one.
    Conflict,
}

/// A send packet. The link layer makes echoes; higher layers do not see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The receiver.
    pub target: NodeId,
    /// The sender.
    pub source: NodeId,
    /// The command.
    pub command: Command,
    /// The source's number of the transaction, 6 bits; requests and responses have separate
    /// numbers.
    pub transaction: u8,
    /// The lower 48 bits of the address; in a response 0.
    pub offset: u64,
    /// The status, in a response.
    pub status: Status,
    /// The bytes; the command decides their number (selected-byte commands: the selected bytes).
    pub data: Vec<u8>,
}

/// Symbols of an echo: target, command, source, CRC.
pub const ECHO_SYMBOLS: u32 = 4;
/// Symbols of a header with its CRC.
pub const HEADER_SYMBOLS: u32 = 8;

impl Command {
    /// Returns the length of the data part on the wire \[byte\].
    #[must_use]
    pub const fn data_bytes(self) -> u32 {
        match self {
            Command::ReadSelected
            | Command::Read64
            | Command::Read256
            | Command::Event00
            | Command::Strobe
            | Command::Response00 => 0,
            Command::WriteSelected
            | Command::Lock(_)
            | Command::Write16
            | Command::Move16
            | Command::Event16
            | Command::Response16 => 16,
            Command::Write64 | Command::Move64 | Command::Event64 | Command::Response64 => 64,
            Command::Write256 | Command::Move256 | Command::Event256 | Command::Response256 => 256,
        }
    }

    /// Returns the symbols of the whole packet, without the idle that follows it.
    #[must_use]
    pub const fn symbols(self) -> u32 {
        HEADER_SYMBOLS + self.data_bytes() / 2
    }

    /// Returns true if this is an event: neither echoed nor refused.
    #[must_use]
    pub const fn is_event(self) -> bool {
        matches!(
            self,
            Command::Event00
                | Command::Event16
                | Command::Event64
                | Command::Event256
                | Command::Strobe
        )
    }

    /// Returns true if this answers a request.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Command::Response00 | Command::Response16 | Command::Response64 | Command::Response256
        )
    }

    /// Returns the answering command; `None`: the packet is done with its echo or at once.
    #[must_use]
    pub const fn response(self) -> Option<Command> {
        match self {
            Command::ReadSelected | Command::Lock(_) => Some(Command::Response16),
            Command::Read64 => Some(Command::Response64),
            Command::Read256 => Some(Command::Response256),
            Command::WriteSelected | Command::Write16 | Command::Write64 | Command::Write256 => {
                Some(Command::Response00)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn packets_have_the_sizes_of_the_table() {
        let sizes = [
            (Command::Event00, 8),
            (Command::Strobe, 8),
            (Command::Event16, 16),
            (Command::Event64, 40),
            (Command::Event256, 136),
            (Command::Read64, 8),
            (Command::Response00, 8),
            (Command::WriteSelected, 16),
            (Command::Response16, 16),
            (Command::Move64, 40),
            (Command::Response64, 40),
            (Command::Write256, 136),
        ];
        for (command, symbols) in sizes {
            assert_eq!(command.symbols(), symbols, "{command:?}");
        }
    }
}
