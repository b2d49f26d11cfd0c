//! Posted work, done at once: the process that posts copies into the peer's memory itself.

use fluxline_core::fabric::{
    AccessError, EndpointId, Local, Memory, PostError, RegionId, Slice, Status, Target, Work,
    total_bytes,
};

use super::channel::RECORD_BYTES_MAX;
use super::endpoint::{Endpoint, NOTICE_BYTES, Notice};
use super::region::{Imported, OwnRegion};
use super::{CAPABILITIES, QUEUE_MAX, Shm};
use crate::sys::map::SharedMap;

impl Shm {
    pub(super) fn endpoint(&self, endpoint: EndpointId) -> Result<&Endpoint, PostError> {
        self.endpoints
            .get(endpoint.0)
            .filter(|endpoint| endpoint.open)
            .ok_or(PostError::NotConnected)
    }

    pub(super) fn endpoint_mut(
        &mut self,
        endpoint: EndpointId,
    ) -> Result<&mut Endpoint, PostError> {
        self.endpoints
            .get_mut(endpoint.0)
            .filter(|endpoint| endpoint.open)
            .ok_or(PostError::NotConnected)
    }

    pub(super) fn own(&self, region: RegionId) -> Result<&OwnRegion, AccessError> {
        self.regions.get(region.0).ok_or(AccessError::UnknownRegion)
    }

    pub(super) fn own_place(&self, slice: Slice) -> Result<(&OwnRegion, u64), PostError> {
        let region = self.own(slice.region).map_err(PostError::Local)?;
        let place = region.place(slice.offset, slice.bytes).map_err(PostError::Local)?;
        Ok((region, place))
    }

    /// Checks all own memory that a put or a message takes its bytes from.
    #[inline(never)] // As `copy_own`.
    fn check_source(&self, from: &Local<'_>) -> Result<(), PostError> {
        match *from {
            Local::Bytes(_) => Ok(()),
            Local::Region(_) | Local::Gather(_) => {
                let (pieces, max) = (from.pieces(), CAPABILITIES.pieces_max);
                if pieces.len() > max as usize {
                    return Err(PostError::Pieces { pieces: pieces.len(), max });
                }
                pieces.iter().try_for_each(|piece| self.own_place(*piece).map(drop))
            }
            _ => Err(PostError::Source),
        }
    }

    /// Copies own memory that was checked to a place in a peer's.
    #[inline(never)] // The path of short puts of bytes stays short.
    fn copy_own(&self, from: &Local<'_>, to: &SharedMap, place: u64) -> Result<(), PostError> {
        let mut place = place;
        for piece in from.pieces() {
            let (region, at) = self.own_place(*piece)?;
            region.map.copy_to(at, to, place, piece.bytes as usize);
            place += piece.bytes;
        }
        Ok(())
    }

    /// Finds own memory that will be written; refuses that of a push ring.
    pub(super) fn own_room(&self, slice: Slice) -> Result<(&OwnRegion, u64), PostError> {
        let (region, place) = self.own_place(slice)?;
        let view = region.view();
        view.demand(view.rights.put).map_err(PostError::Local)?;
        Ok((region, place))
    }

    pub(super) fn import_of(
        &self,
        endpoint: EndpointId,
        target: Target,
    ) -> Result<&Imported, PostError> {
        match self.imports.get(target.remote.0) {
            Some(import) if import.endpoint == endpoint => Ok(&import.region),
            _ => Err(PostError::NotImported),
        }
    }

    /// Does work, or passes it on; what is placed at once is done here.
    #[inline]
    pub(super) fn post_work(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        work: &Work<'_>,
    ) -> Result<(), PostError> {
        let of = self.endpoint(endpoint)?;
        let behind_messages = matches!(work, Work::Send { .. } | Work::Fence | Work::Flush);
        if self.completions.len() >= QUEUE_MAX || (of.is_fenced() && !behind_messages) {
            return Err(PostError::Full);
        }
        let (wanted, ended) = match work {
            Work::Put { from, to, notify, complete_at } => {
                (complete_at.is_some(), self.put(endpoint, from, *to, *notify)?.map(|()| 0))
            }
            Work::Get { from, into } => (true, self.get(endpoint, *from, *into)?.map(|()| 0)),
            Work::FetchAdd { at, add } => {
                (true, self.atomic(endpoint, *at, |word| word.fetch_add(at.offset, *add))?)
            }
            Work::CompareSwap { at, expected, desired } => {
                let swap = |word: &dyn Memory| word.compare_swap(at.offset, *expected, *desired);
                (true, self.atomic(endpoint, *at, swap)?)
            }
            Work::Send { from, complete_at } => {
                return self.send(endpoint, tag, from, complete_at.is_some());
            }
            // Only messages are not yet in place when `post` returns.
            Work::Fence => {
                self.endpoint_mut(endpoint)?.fence();
                (true, Ok(0))
            }
            Work::Flush => return self.flush(endpoint, tag),
            other => return Err(PostError::Unsupported { operation: other.operation() }),
        };
        match ended {
            Ok(_) if !wanted => {}
            ended => self.report(endpoint, tag, work, ended),
        }
        Ok(())
    }

    /// Adds the completion of work, with its value or the reason of its failure.
    pub(super) fn report(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        work: &Work<'_>,
        ended: Result<u64, Status>,
    ) {
        let (status, value) =
            ended.map_or_else(|status| (status, 0), |value| (Status::Done, value));
        if let Some(of) = self.endpoints.get(endpoint.0) {
            self.completions.push_back(of.done(tag, work.operation(), status, value));
        }
    }

    /// Copies the bytes of a put; `Ok(Err)`: the peer's region no longer exists.
    pub(super) fn put(
        &mut self,
        endpoint: EndpointId,
        from: &Local<'_>,
        to: Target,
        notify: Option<u32>,
    ) -> Result<Result<(), Status>, PostError> {
        let has_room = notify.is_none() || self.endpoint_mut(endpoint)?.has_room(NOTICE_BYTES);
        let import = self.import_of(endpoint, to)?;
        let bytes = from.bytes();
        let place = import.view.place(to.offset, bytes).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.put).map_err(PostError::Remote)?;
        if !has_room {
            return Err(PostError::Full);
        }
        if !matches!(from, Local::Bytes(_)) {
            self.check_source(from)?;
        }
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        match *from {
            Local::Bytes(bytes) => import.view.map.write(place, bytes),
            _ => self.copy_own(from, &import.view.map, place)?,
        }
        let region = import.id;
        if let (Some(value), Some(of)) = (notify, self.endpoints.get_mut(endpoint.0)) {
            of.notify(&Notice { region, value, offset: to.offset, bytes });
        }
        Ok(Ok(()))
    }

    pub(super) fn get(
        &self,
        endpoint: EndpointId,
        from: Target,
        into: Slice,
    ) -> Result<Result<(), Status>, PostError> {
        let import = self.import_of(endpoint, from)?;
        let (region, to) = self.own_room(into)?;
        let place = import.view.place(from.offset, into.bytes).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.get).map_err(PostError::Remote)?;
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        import.view.map.copy_to(place, &region.map, to, into.bytes as usize);
        Ok(Ok(()))
    }

    /// Executes an operation on a word of the peer's region.
    pub(super) fn atomic(
        &self,
        endpoint: EndpointId,
        at: Target,
        act: impl FnOnce(&dyn Memory) -> Result<u64, AccessError>,
    ) -> Result<Result<u64, Status>, PostError> {
        let import = self.import_of(endpoint, at)?;
        import.view.word_place(at.offset).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.atomic).map_err(PostError::Remote)?;
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        act(&import.view).map(Ok).map_err(PostError::Remote)
    }

    /// Returns the bytes of slices of own memory, one after the other.
    fn copied(&self, pieces: &[Slice]) -> Result<Vec<u8>, PostError> {
        let mut bytes = vec![0; total_bytes(pieces) as usize];
        let mut rest = &mut bytes[..];
        for piece in pieces {
            let (region, place) = self.own_place(*piece)?;
            let (into, behind) = rest.split_at_mut(piece.bytes as usize);
            region.map.read(place, into);
            rest = behind;
        }
        Ok(bytes)
    }

    pub(super) fn send(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        from: &Local<'_>,
        reported: bool,
    ) -> Result<(), PostError> {
        self.check_source(from)?;
        check_message(from.bytes())?;
        let copied;
        let bytes: &[u8] = match *from {
            Local::Bytes(bytes) => bytes,
            _ => {
                copied = self.copied(from.pieces())?;
                &copied
            }
        };
        let Some(of) = self.endpoints.get_mut(endpoint.0) else {
            return Err(PostError::NotConnected);
        };
        if !of.has_room(bytes.len()) || of.unanswered() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        of.send(bytes, tag, reported);
        Ok(())
    }
}

impl Shm {
    /// Completes now, or with the answer to the last earlier message.
    pub(super) fn flush(&mut self, endpoint: EndpointId, tag: u64) -> Result<(), PostError> {
        let Some(of) = self.endpoints.get_mut(endpoint.0) else {
            return Err(PostError::NotConnected);
        };
        if of.unanswered() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        of.flush(tag, &mut self.completions);
        Ok(())
    }
}

fn check_message(bytes: u64) -> Result<(), PostError> {
    let max = RECORD_BYTES_MAX as u64;
    if bytes <= max { Ok(()) } else { Err(PostError::TooLong { bytes, max }) }
}
