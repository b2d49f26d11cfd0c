//! Posted work, done at once: the process that posts copies into the peer's memory itself.

use fluxline_core::fabric::{
    AccessError, EndpointId, Local, Memory, PostError, RegionId, Slice, Status, Target, Work,
};

use super::channel::RECORD_BYTES_MAX;
use super::endpoint::{Endpoint, NOTICE_BYTES, Notice};
use super::region::{Imported, OwnRegion};
use super::{QUEUE_MAX, Shm};

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
        let bytes = match from {
            Local::Bytes(bytes) => bytes.len() as u64,
            Local::Region(slice) => slice.bytes,
        };
        let place = import.view.place(to.offset, bytes).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.put).map_err(PostError::Remote)?;
        if !has_room {
            return Err(PostError::Full);
        }
        let own = match from {
            Local::Bytes(_) => None,
            Local::Region(slice) => Some(self.own_place(*slice)?),
        };
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        match (from, own) {
            (Local::Bytes(bytes), _) => import.view.map.write(place, bytes),
            (_, Some((region, at))) => {
                region.map.copy_to(at, &import.view.map, place, bytes as usize);
            }
            _ => {}
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

    pub(super) fn send(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        from: &Local<'_>,
        reported: bool,
    ) -> Result<(), PostError> {
        let copied;
        let bytes: &[u8] = match *from {
            Local::Bytes(bytes) => bytes,
            Local::Region(slice) => {
                let (region, place) = self.own_place(slice)?;
                check_message(slice.bytes)?;
                let mut bytes = vec![0; slice.bytes as usize];
                region.map.read(place, &mut bytes);
                copied = bytes;
                &copied
            }
        };
        check_message(bytes.len() as u64)?;
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
