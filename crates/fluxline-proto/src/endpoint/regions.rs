//! A node's own regions, and which connection may do what to them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::fabric::{
    AccessError, ExportError, Grant, Key, Memory, Name, RegionId, Rights, Slice, Status,
};

/// A region of this node.
pub(super) struct OwnRegion {
    pub memory: Arc<dyn Memory>,
    exported: Option<(Name, Grant)>,
    /// What peers name it by in packets (R_Key); random.
    key: u32,
}

/// All of them; a place that was withdrawn stays empty.
#[derive(Default)]
pub(super) struct Regions {
    all: Vec<Option<OwnRegion>>,
    living: u32,
}

/// What a connection has imported: the protection domain is the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    /// The R_Key.
    pub key: u32,
    pub region: RegionId,
    /// The address of the region's first byte, as the peer counts.
    pub base: u64,
    pub rights: Rights,
}

/// A place that a peer may use.
pub(super) struct Place<'a> {
    pub region: RegionId,
    pub memory: &'a Arc<dyn Memory>,
    pub offset: u64,
}

/// What a peer is told of a region that it may import.
pub(super) struct Export {
    pub granted: Granted,
    pub bytes: u64,
}

impl Regions {
    /// How many there are.
    pub fn living(&self) -> u32 {
        self.living
    }

    pub fn add(&mut self, memory: Arc<dyn Memory>, key: u32) -> RegionId {
        self.all.push(Some(OwnRegion { memory, exported: None, key }));
        self.living += 1;
        RegionId(self.all.len() as u32 - 1)
    }

    pub fn get(&self, region: RegionId) -> Result<&OwnRegion, AccessError> {
        let found = self.all.get(region.0 as usize).and_then(Option::as_ref);
        found.ok_or(AccessError::UnknownRegion)
    }

    /// The memory of a piece of an own region, checked.
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
        let found = self.all.get_mut(region.0 as usize).and_then(Option::as_mut);
        let own = found.ok_or(ExportError::UnknownRegion)?;
        if let Some((name, _)) = &own.exported {
            return Err(ExportError::Exported { name: name.clone() });
        }
        own.exported = Some((name, grant));
        Ok(())
    }

    pub fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        let place = self.all.get_mut(region.0 as usize).ok_or(AccessError::UnknownRegion)?;
        place.take().ok_or(AccessError::UnknownRegion)?;
        self.living -= 1;
        Ok(())
    }

    fn named(&self, name: &str) -> Option<(RegionId, &OwnRegion, Grant)> {
        self.all.iter().enumerate().find_map(|(number, own)| {
            let own = own.as_ref()?;
            let (of, grant) = own.exported.as_ref()?;
            (of.as_str() == name).then_some((RegionId(number as u32), own, *grant))
        })
    }

    /// What a peer gets that shows this key.
    pub fn import(&self, name: &str, key: Key) -> Result<Export, Status> {
        let (region, own, grant) = self.named(name).ok_or(Status::NoSuchRegion)?;
        if grant.key != key {
            return Err(Status::WrongKey);
        }
        let granted = Granted { key: own.key, region, base: 0, rights: grant.rights };
        Ok(Export { granted, bytes: own.memory.bytes() })
    }

    /// The place that a packet names; checks key, right and bounds.
    pub fn place(
        &self,
        granted: &[Granted],
        (key, address, bytes): (u32, u64, u64),
        right: fn(Rights) -> bool,
    ) -> Result<Place<'_>, Status> {
        let grant = granted.iter().find(|grant| grant.key == key).ok_or(Status::WrongKey)?;
        let own = self.get(grant.region).map_err(|_| Status::Withdrawn)?;
        if !right(grant.rights) {
            return Err(Status::Rights);
        }
        let offset = address.checked_sub(grant.base).ok_or(Status::OutOfRegion)?;
        check(own.memory.bytes(), offset, bytes).map_err(|_| Status::OutOfRegion)?;
        Ok(Place { region: grant.region, memory: &own.memory, offset })
    }
}

/// Whether bytes are inside, computed so that nothing overflows.
pub(super) fn check(region_bytes: u64, offset: u64, bytes: u64) -> Result<(), AccessError> {
    if offset <= region_bytes && bytes <= region_bytes - offset {
        Ok(())
    } else {
        Err(AccessError::OutOfRegion { offset, bytes, region_bytes })
    }
}
