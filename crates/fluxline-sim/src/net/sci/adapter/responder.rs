//! Transactions of one node as responder: what requests do to its address space.
//!
//! Reads and writes may be done twice without harm. A lock may not: the responder remembers the
//! last lock of each source and id with its answer, and answers a repetition from memory. A lock's
//! number among those of its id is in the three bits that a word's offset leaves free; as an id is
//! used again only when no packet of its earlier use is on its way, eight numbers suffice.

use std::collections::BTreeMap;

use crate::fabric::adapter::ResponderCounts;
use crate::net::sci::packet::Lock;
use crate::net::sci::{Command, NodeId, Packet, Status};

/// The bits of a lock's offset that number it.
const NUMBER_BITS: u64 = 7;
/// Bytes of an aligned block that selected-byte commands stay within.
const BLOCK_BYTES: u64 = 16;

/// The target of requests: the 48 bits of address of one node.
pub trait Space {
    /// Writes. Errors: what the response says.
    fn write(&mut self, source: NodeId, offset: u64, data: &[u8]) -> Result<(), Status>;

    /// Reads `into.len()` bytes at most, as many as there are; says how many.
    fn read(&mut self, source: NodeId, offset: u64, into: &mut [u8]) -> Result<usize, Status>;

    /// Changes the aligned word of 8 bytes; returns what it was.
    fn lock(
        &mut self,
        source: NodeId,
        offset: u64,
        kind: Lock,
        arguments: [u64; 2],
    ) -> Result<u64, Status>;
}

/// The last locks of all sources, and counts.
#[derive(Debug, Default)]
pub struct Responder {
    locks: BTreeMap<(NodeId, u8), (u64, Result<u64, Status>)>,
    counts: ResponderCounts,
}

impl Responder {
    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> ResponderCounts {
        self.counts
    }

    /// Does what a request asks; returns the response, where the command has one.
    pub fn handle(&mut self, request: &Packet, space: &mut impl Space) -> Option<Packet> {
        let (source, offset) = (request.source, request.offset);
        let result = match request.command {
            Command::ReadSelected => {
                let rest = BLOCK_BYTES - offset % BLOCK_BYTES;
                let bytes = selected(request).unwrap_or(rest).min(rest);
                read(space, source, offset, bytes as usize)
            }
            Command::Read64 => read(space, source, offset, 64),
            Command::Read256 => read(space, source, offset, 256),
            Command::WriteSelected
            | Command::Write16
            | Command::Write64
            | Command::Write256
            | Command::Move16
            | Command::Move64
            | Command::Move256 => space.write(source, offset, &request.data).map(|()| Vec::new()),
            Command::Lock(kind) => {
                let Some(arguments) = arguments(&request.data) else {
                    self.counts.malformed += 1;
                    return None;
                };
                self.lock(request, kind, arguments, space)
            }
            _ => {
                self.counts.malformed += 1;
                return None;
            }
        };
        match result {
            Ok(_) => self.counts.done += 1,
            Err(_) => self.counts.refused += 1,
        }
        let (status, data) = match result {
            Ok(data) => (Status::Normal, data),
            Err(status) => (status, Vec::new()),
        };
        Some(Packet {
            target: source,
            source: request.target,
            command: request.command.response()?,
            transaction: request.transaction,
            offset: 0,
            status,
            data,
        })
    }

    fn lock(
        &mut self,
        request: &Packet,
        kind: Lock,
        arguments: [u64; 2],
        space: &mut impl Space,
    ) -> Result<Vec<u8>, Status> {
        let number = request.offset & NUMBER_BITS;
        let key = (request.source, request.transaction);
        let known = self.locks.get(&key).filter(|of| of.0 == number).map(|of| of.1);
        let result = match known {
            Some(result) => {
                self.counts.locks_again += 1;
                result
            }
            None => {
                let offset = request.offset & !NUMBER_BITS;
                let result = space.lock(request.source, offset, kind, arguments);
                self.locks.insert(key, (number, result));
                result
            }
        };
        result.map(|before| before.to_le_bytes().to_vec())
    }
}

/// Returns the number of bytes a selected-byte read wants. On the wire its command says which is
/// the last; here its data is this one number.
fn selected(request: &Packet) -> Option<u64> {
    request.data.first().map(|&bytes| u64::from(bytes))
}

fn read(
    space: &mut impl Space,
    source: NodeId,
    offset: u64,
    most: usize,
) -> Result<Vec<u8>, Status> {
    let mut data = vec![0; most];
    let count = space.read(source, offset, &mut data)?;
    data.truncate(count);
    Ok(data)
}

/// The two words of a lock's 16 bytes.
fn arguments(data: &[u8]) -> Option<[u64; 2]> {
    let word = |at: usize| data.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some([word(0)?, word(8)?])
}
