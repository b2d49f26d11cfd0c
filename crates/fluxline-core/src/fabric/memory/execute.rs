//! Posted work: checked when it is posted, done when its turn comes.

use alloc::vec;
use alloc::vec::Vec;

use super::super::error::{AccessError, PostError};
use super::super::region::{RegionId, Rights, Slice, Target};
use super::super::work::{Completion, EndpointId, Local, Operation, Status, Work};
use super::lab::{Phase, Region, Shared};
use super::limits::{CAPABILITIES, NO_BUFFER_WAIT};
use super::queued::{Act, Queued, Source};
use crate::Moment;

impl Shared {
    /// Checks posted work as far as its poster can know, and copies its `Local::Bytes`.
    pub fn check(
        &self,
        node: usize,
        endpoint: EndpointId,
        tag: u64,
        work: &Work<'_>,
    ) -> Result<Queued, PostError> {
        let local = |slice: Slice| {
            self.nodes[node].check_slice(slice).map_err(PostError::Local)?;
            fits(slice.bytes)
        };
        let source = |from: &Local<'_>| match *from {
            Local::Bytes(bytes) => {
                fits(bytes.len() as u64)?;
                Ok(Source::Bytes(bytes.to_vec()))
            }
            Local::Region(slice) => local(slice).map(|()| Source::Pieces(vec![slice])),
            Local::Gather(pieces) => {
                let max = CAPABILITIES.pieces_max;
                if pieces.len() > max as usize {
                    return Err(PostError::Pieces { pieces: pieces.len(), max });
                }
                pieces.iter().try_for_each(|piece| local(*piece))?;
                fits(from.bytes())?;
                Ok(Source::Pieces(pieces.to_vec()))
            }
        };
        let remote = |target: Target| match self.import_of(node, target.remote) {
            Some(import) if import.endpoint == endpoint => Ok(target),
            _ => Err(PostError::NotImported),
        };
        let (act, is_reported) = match *work {
            Work::Put { from, to, notify, complete_at } => {
                let act = Act::Put { from: source(&from)?, to: remote(to)?, notify };
                (act, complete_at.is_some())
            }
            Work::Get { from, into } => {
                local(into)?;
                (Act::Get { from: remote(from)?, into }, true)
            }
            Work::FetchAdd { at, add } => (Act::FetchAdd { at: remote(at)?, add }, true),
            Work::CompareSwap { at, expected, desired } => {
                (Act::CompareSwap { at: remote(at)?, expected, desired }, true)
            }
            Work::Send { from, complete_at } => {
                (Act::Send { from: source(&from)? }, complete_at.is_some())
            }
            Work::Fence | Work::Flush => (Act::Flush, true),
        };
        Ok(Queued { tag, act, is_reported })
    }

    /// Does one piece of the node's work; its endpoints take turns. Returns false when no work can
    /// be done now.
    pub fn work(&mut self, node: usize, now: Moment) -> bool {
        let count = self.nodes[node].endpoints.len();
        for step in 0..count {
            let number = (self.nodes[node].turn + step) % count;
            let endpoint = EndpointId(number as u32);
            let open = self.phase(node, endpoint) == Some(Phase::Open);
            if open && self.first(node, endpoint, now) {
                self.nodes[node].turn = (number + 1) % count;
                return true;
            }
        }
        false
    }

    /// Does the first work in an endpoint's queue. Returns false when there is none or it waits.
    fn first(&mut self, node: usize, endpoint: EndpointId, now: Moment) -> bool {
        let of = &mut self.nodes[node].endpoints[endpoint.0 as usize];
        let Some(queued) = of.queue.pop_front() else { return false };
        let waits_since = *of.waits_since.get_or_insert(now);
        let result = self.execute(node, endpoint, &queued.act);
        let of = &mut self.nodes[node].endpoints[endpoint.0 as usize];
        if result == Err(Status::NoBuffer) && now.since(waits_since) < NO_BUFFER_WAIT {
            of.queue.push_front(queued);
            return false;
        }
        of.waits_since = None;
        let (status, value) = match result {
            Ok(value) => (Status::Done, value),
            Err(status) => (status, 0),
        };
        if queued.is_reported || status != Status::Done {
            let (tag, operation) = (queued.tag, queued.operation());
            let done = Completion::Done { endpoint, tag, operation, status, value };
            self.nodes[node].inbox.push_back(done);
        }
        true
    }

    fn execute(&mut self, node: usize, endpoint: EndpointId, act: &Act) -> Result<u64, Status> {
        match act {
            Act::Put { from, to, notify } => self.put(node, from, *to, *notify).map(|()| 0),
            Act::Get { from, into } => {
                let mut bytes = vec![0; into.bytes as usize];
                let (region, rights) = self.target(node, *from)?;
                demand(rights.get)?;
                region.words.read(from.offset, &mut bytes).map_err(status_of)?;
                let own = self.nodes[node].region(into.region).map_err(status_of)?;
                own.words.write(into.offset, &bytes).map_err(status_of).map(|()| 0)
            }
            Act::FetchAdd { at, add } => {
                let (region, rights) = self.target(node, *at)?;
                demand(rights.atomic)?;
                region.words.fetch_add(at.offset, *add).map_err(status_of)
            }
            Act::CompareSwap { at, expected, desired } => {
                let (region, rights) = self.target(node, *at)?;
                demand(rights.atomic)?;
                region.words.compare_swap(at.offset, *expected, *desired).map_err(status_of)
            }
            Act::Send { from } => self.send(node, endpoint, from).map(|()| 0),
            Act::Flush => Ok(0), // work is done in order
        }
    }

    fn target(&self, node: usize, target: Target) -> Result<(&Region, Rights), Status> {
        let import = self.import_of(node, target.remote).ok_or(Status::Withdrawn)?;
        let region = &self.nodes[import.peer].regions[import.region];
        if region.withdrawn {
            return Err(Status::Withdrawn);
        }
        Ok((region, import.rights))
    }

    fn bytes_of(&self, node: usize, from: &Source) -> Result<Vec<u8>, Status> {
        match from {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::Pieces(pieces) => {
                let mut bytes = vec![0; from.bytes() as usize];
                let mut rest = &mut bytes[..];
                for slice in pieces {
                    let (into, behind) = rest.split_at_mut(slice.bytes as usize);
                    let region = self.nodes[node].region(slice.region).map_err(status_of)?;
                    region.words.read(slice.offset, into).map_err(status_of)?;
                    rest = behind;
                }
                Ok(bytes)
            }
        }
    }

    fn put(
        &mut self,
        node: usize,
        from: &Source,
        to: Target,
        notify: Option<u32>,
    ) -> Result<(), Status> {
        let bytes = self.bytes_of(node, from)?;
        let (region, rights) = self.target(node, to)?;
        demand(rights.put)?;
        region.words.write(to.offset, &bytes).map_err(status_of)?;
        let Some(value) = notify else { return Ok(()) };
        let import = self.import_of(node, to.remote).expect("`target` found it above");
        let endpoint = self.nodes[node].endpoints[import.endpoint.0 as usize].other;
        self.nodes[import.peer].inbox.push_back(Completion::Notified {
            endpoint,
            region: RegionId(import.region as u32),
            offset: to.offset,
            bytes: from.bytes(),
            value,
        });
        Ok(())
    }

    fn send(&mut self, node: usize, endpoint: EndpointId, from: &Source) -> Result<(), Status> {
        let mut bytes = self.bytes_of(node, from)?;
        let of = &self.nodes[node].endpoints[endpoint.0 as usize];
        let (peer, endpoint) = (of.peer, of.other);
        let receives = &mut self.nodes[peer].endpoints[endpoint.0 as usize].receives;
        let (tag, into) = receives.pop_front().ok_or(Status::NoBuffer)?;
        let status = if from.bytes() > into.bytes { Status::TooLong } else { Status::Done };
        bytes.truncate(into.bytes as usize);
        let written = self.nodes[peer]
            .region(into.region)
            .and_then(|region| region.words.write(into.offset, &bytes));
        let received = written.map_or_else(status_of, |()| status);
        self.nodes[peer].inbox.push_back(Completion::Done {
            endpoint,
            tag,
            operation: Operation::Receive,
            status: received,
            value: bytes.len() as u64,
        });
        match received {
            Status::Done | Status::TooLong => {
                (received == Status::Done).then_some(()).ok_or(status)
            }
            // The buffer's region was withdrawn: there was no buffer, for the sender.
            _ => Err(Status::NoBuffer),
        }
    }
}

fn fits(bytes: u64) -> Result<(), PostError> {
    let max = CAPABILITIES.operation_bytes_max;
    if bytes <= max { Ok(()) } else { Err(PostError::TooLong { bytes, max }) }
}

/// Returns [`Status::Rights`] when a right is not granted.
fn demand(right: bool) -> Result<(), Status> {
    if right { Ok(()) } else { Err(Status::Rights) }
}

fn status_of(error: AccessError) -> Status {
    match error {
        AccessError::UnknownRegion => Status::Withdrawn,
        AccessError::OutOfRegion { .. } => Status::OutOfRegion,
        AccessError::Unaligned { .. } => Status::Unaligned,
        AccessError::Rights | AccessError::PushRing => Status::Rights,
        // Of views, which do no work.
        AccessError::Exported | AccessError::InUse | AccessError::Memory { .. } => {
            Status::Transport
        }
    }
}
