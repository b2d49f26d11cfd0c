//! Accesses of a host as commands of packets, and back.

use crate::host::{self, Access, Atomic};
use crate::net::sci::packet::Lock;
use crate::net::sci::{Command, Packet, Status};

/// Returns the command for an access with this number of bytes of data.
#[must_use]
pub fn command_of(access: Access, bytes: usize) -> Command {
    match access {
        Access::Write if bytes == 64 => Command::Write64,
        Access::Write if bytes == 16 => Command::Write16,
        Access::Write => Command::WriteSelected,
        Access::Move if bytes > 16 => Command::Move64,
        Access::Move => Command::Move16,
        Access::Read { bytes: 64 } => Command::Read64,
        Access::Read { bytes: 256 } => Command::Read256,
        Access::Read { .. } => Command::ReadSelected,
        Access::Lock(Atomic::FetchAdd) => Command::Lock(Lock::FetchAdd),
        Access::Lock(Atomic::CompareSwap) => Command::Lock(Lock::CompareSwap),
    }
}

/// Returns the data of the packet for an access. On the wire, the command of a selected read names
/// its last byte; here its data is the number of bytes.
#[must_use]
pub fn packet_data(access: Access, data: Vec<u8>) -> Vec<u8> {
    match access {
        Access::Read { bytes } if command_of(access, 0) == Command::ReadSelected => {
            vec![bytes as u8]
        }
        _ => data,
    }
}

/// Returns the access that a request packet asks for. A host carries every lock alike.
#[must_use]
pub fn access_of(packet: &Packet) -> Access {
    match packet.command {
        Command::ReadSelected => {
            Access::Read { bytes: packet.data.first().copied().map_or(0, u32::from) }
        }
        Command::Read64 => Access::Read { bytes: 64 },
        Command::Read256 => Access::Read { bytes: 256 },
        Command::Lock(Lock::CompareSwap) => Access::Lock(Atomic::CompareSwap),
        Command::Lock(_) => Access::Lock(Atomic::FetchAdd),
        Command::Move16 | Command::Move64 | Command::Move256 => Access::Move,
        command => {
            assert!(!command.is_event(), "no adapter sends events");
            Access::Write
        }
    }
}

impl From<host::Status> for Status {
    fn from(status: host::Status) -> Status {
        match status {
            host::Status::Normal => Status::Normal,
            host::Status::Address => Status::Address,
            host::Status::Rights => Status::Type,
            host::Status::Failed => Status::Data,
        }
    }
}

impl From<Status> for host::Status {
    fn from(status: Status) -> host::Status {
        match status {
            Status::Normal => host::Status::Normal,
            Status::Address => host::Status::Address,
            Status::Type => host::Status::Rights,
            Status::Data | Status::Conflict => host::Status::Failed,
        }
    }
}
