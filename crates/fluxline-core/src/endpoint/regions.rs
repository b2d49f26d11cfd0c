//! A node's own regions, and the rights of each connection to them.

use alloc::sync::Arc;

use super::numbered::Numbered;
use crate::fabric::{
    AccessError, EndpointId, ExportError, Grant, Key, Memory, Name, RegionId, Rights, Slice, Status,
};
use crate::roce::{AtomicEth, Reth};

/// A region of this node.
pub(super) struct OwnRegion {
    pub memory: Arc<dyn Memory>,
    exported: Option<(Name, Grant)>,
    /// The random R_Key by which packets name it.
    key: u32,
    admission: Admission,
}

/// The peers that may import a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// All connections that show the key.
    Everybody,
    /// Only the first connection that shows the key, once there is one.
    One(Option<EndpointId>),
}

/// All regions of a node.
#[derive(Default)]
pub(super) struct Regions {
    all: Numbered<OwnRegion>,
}

/// A region that a connection has imported; the connection is the protection domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    /// The R_Key.
    pub key: u32,
    pub region: RegionId,
    /// The address of the region's first byte, as the peer counts.
    pub base: u64,
    pub rights: Rights,
}

/// A range of memory as a peer's packet names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteRange {
    /// The R_Key.
    pub key: u32,
    /// The address of the first byte, as the peer counts.
    pub address: u64,
    pub bytes: u64,
}

impl From<Reth> for RemoteRange {
    #[inline]
    fn from(reth: Reth) -> RemoteRange {
        RemoteRange { key: reth.key, address: reth.address, bytes: u64::from(reth.bytes) }
    }
}

impl From<AtomicEth> for RemoteRange {
    #[inline]
    fn from(word: AtomicEth) -> RemoteRange {
        RemoteRange { key: word.key, address: word.address, bytes: 8 }
    }
}

/// A range of an own region that a peer may use.
pub(super) struct GrantedRange<'a> {
    pub region: RegionId,
    pub memory: &'a Arc<dyn Memory>,
    pub offset: u64,
}

/// The answer to a peer that may import a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub granted: Granted,
    pub bytes: u64,
}

impl Regions {
    /// Returns the number of regions.
    pub fn living(&self) -> u32 {
        self.all.len() as u32
    }

    /// Returns memory slots in use, for tests of growth.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.all.slots()
    }

    pub fn add(&mut self, memory: Arc<dyn Memory>, key: u32) -> RegionId {
        RegionId(self.all.add(OwnRegion {
            memory,
            exported: None,
            key,
            admission: Admission::Everybody,
        }))
    }

    pub fn get(&self, region: RegionId) -> Result<&OwnRegion, AccessError> {
        self.all.get(region.0).ok_or(AccessError::UnknownRegion)
    }

    /// Returns the memory of a region that nobody else holds, and that no peer may write.
    pub fn alone(&mut self, region: RegionId) -> Result<&mut dyn Memory, AccessError> {
        let own = self.all.get_mut(region.0).ok_or(AccessError::UnknownRegion)?;
        if own.exported.as_ref().is_some_and(|(_, grant)| grant.rights.changes()) {
            return Err(AccessError::Exported);
        }
        Arc::get_mut(&mut own.memory).ok_or(AccessError::InUse)
    }

    /// Returns the memory of a slice, which must be inside its region.
    pub fn slice(&self, slice: Slice) -> Result<Arc<dyn Memory>, AccessError> {
        let memory = &self.get(slice.region)?.memory;
        check(memory.bytes(), slice.offset, slice.bytes)?;
        Ok(Arc::clone(memory))
    }

    pub fn export(
        &mut self,
        region: RegionId,
        name: Name,
        grant: Grant,
    ) -> Result<(), ExportError> {
        if self.named(name.as_str()).is_some() {
            return Err(ExportError::NameTaken { name });
        }
        let own = self.all.get_mut(region.0).ok_or(ExportError::UnknownRegion)?;
        if let Some((name, _)) = &own.exported {
            return Err(ExportError::Exported { name: name.clone() });
        }
        own.exported = Some((name, grant));
        Ok(())
    }

    pub fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.all.remove(region.0).map(|_| ()).ok_or(AccessError::UnknownRegion)
    }

    fn named(&self, name: &str) -> Option<(RegionId, &OwnRegion, Grant)> {
        self.all.iter().find_map(|(number, own)| {
            let (of, grant) = own.exported.as_ref()?;
            (of.as_str() == name).then_some((RegionId(number), own, *grant))
        })
    }

    /// Lets only the next connection that shows the key import the region.
    pub fn admit_one(&mut self, region: RegionId) -> Result<(), AccessError> {
        let own = self.all.get_mut(region.0).ok_or(AccessError::UnknownRegion)?;
        own.admission = Admission::One(None);
        Ok(())
    }

    /// Returns the connection that imported a region with [`Regions::admit_one`].
    pub fn importer(&self, region: RegionId) -> Option<EndpointId> {
        match self.all.get(region.0)?.admission {
            Admission::Everybody => None,
            Admission::One(importer) => importer,
        }
    }

    /// Grants the region to the peer at `endpoint`, if it shows the right key.
    pub fn import(&mut self, endpoint: EndpointId, name: &str, key: Key) -> Result<Export, Status> {
        let (region, own, grant) = self.named(name).ok_or(Status::NoSuchRegion)?;
        if grant.key != key {
            return Err(Status::WrongKey);
        }
        if let Admission::One(Some(importer)) = own.admission
            && importer != endpoint
        {
            return Err(Status::NoRoom);
        }
        let granted = Granted { key: own.key, region, base: 0, rights: grant.rights };
        let export = Export { granted, bytes: own.memory.bytes() };
        if let Some(own) = self.all.get_mut(region.0)
            && own.admission == Admission::One(None)
        {
            own.admission = Admission::One(Some(endpoint));
        }
        Ok(export)
    }

    /// Returns the memory that a packet names; checks key, right and bounds.
    pub fn granted_range(
        &self,
        granted: &[Granted],
        range: RemoteRange,
        right: fn(Rights) -> bool,
    ) -> Result<GrantedRange<'_>, Status> {
        let grant = granted.iter().find(|grant| grant.key == range.key);
        let grant = grant.ok_or(Status::WrongKey)?;
        let own = self.get(grant.region).map_err(|_| Status::Withdrawn)?;
        if !right(grant.rights) {
            return Err(Status::Rights);
        }
        let offset = range.address.checked_sub(grant.base).ok_or(Status::OutOfRegion)?;
        check(own.memory.bytes(), offset, range.bytes).map_err(|_| Status::OutOfRegion)?;
        Ok(GrantedRange { region: grant.region, memory: &own.memory, offset })
    }
}

/// Checks that bytes are inside a region; nothing overflows.
pub(super) fn check(region_bytes: u64, offset: u64, bytes: u64) -> Result<(), AccessError> {
    if offset <= region_bytes && bytes <= region_bytes - offset {
        Ok(())
    } else {
        Err(AccessError::OutOfRegion { offset, bytes, region_bytes })
    }
}
