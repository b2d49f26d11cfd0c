//! Own regions: memory that peers may reach.

use std::sync::Arc;

use fluxline_core::fabric::{Grant, Key, Name, RegionId, Rights};
use pyo3::prelude::*;

use super::core::Shared;
use crate::buffer::{Lent, Memory};
use crate::fault::Fault;

/// Memory of this node that peers may reach once it is exported.
#[pyclass(frozen, extends = Memory, module = "fluxline")]
pub struct Region {
    shared: Arc<Shared>,
    /// Its number on this node.
    pub id: RegionId,
}

impl Region {
    /// Returns the object of a region.
    pub fn object(
        py: Python<'_>,
        shared: &Arc<Shared>,
        id: RegionId,
        lent: Arc<Lent>,
    ) -> PyResult<Py<Region>> {
        let region = Region { shared: Arc::clone(shared), id };
        Py::new(py, PyClassInitializer::from(Memory::new(lent)).add_subclass(region))
    }

    /// Makes a region of a node.
    pub fn register(py: Python<'_>, shared: &Arc<Shared>, bytes: u64) -> PyResult<Py<Region>> {
        let made = py.detach(|| {
            shared.with_detached(|core| {
                let id = core.fabric.register(bytes)?;
                let lent = Lent::new(core.fabric.memory(id)?);
                core.regions.insert(id, Arc::clone(&lent));
                Ok(Made { id, lent })
            })
        })?;
        Region::object(py, shared, made.id, made.lent)
    }

    /// Returns the object of a region that a completion names; None: it was withdrawn.
    pub fn of(py: Python<'_>, shared: &Arc<Shared>, id: RegionId) -> PyResult<Option<Py<Region>>> {
        let lent = shared.with(py, |core| Ok(core.regions.get(&id).cloned()));
        let Ok(Some(lent)) = lent else { return Ok(None) };
        Region::object(py, shared, id, lent).map(Some)
    }

    /// Checks that the region is of this node.
    pub fn id_on(&self, shared: &Arc<Shared>) -> Result<RegionId, Fault> {
        match Arc::ptr_eq(&self.shared, shared) {
            true => Ok(self.id),
            false => Err(Fault::input("the region is of another node; register it on this one")),
        }
    }
}

/// A region that was registered just now.
struct Made {
    id: RegionId,
    lent: Arc<Lent>,
}

#[pymethods]
impl Region {
    /// The number of the region on its node.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    /// Lets peers that show the key import the region under that name.
    #[pyo3(signature = (name, key, *, put = true, get = false, atomic = false))]
    fn export(
        &self,
        py: Python<'_>,
        name: &str,
        key: u64,
        put: bool,
        get: bool,
        atomic: bool,
    ) -> PyResult<()> {
        let name = Name::parse(name).map_err(Fault::from)?;
        let grant = Grant { rights: Rights { put, get, atomic }, key: Key(key) };
        Ok(self.shared.with(py, |core| Ok(core.fabric.export(self.id, name, grant)?))?)
    }

    /// Ends the region: peers' later work on it fails. Arrays of it stay valid.
    fn withdraw(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.shared.with(py, |core| {
            core.fabric.withdraw(self.id)?;
            core.regions.remove(&self.id).iter().for_each(|lent| lent.end());
            Ok(())
        })?)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (id, url) = (slf.get().id.0, &slf.get().shared.url);
        Ok(format!("Region(id={id}, bytes={}, node={url:?})", slf.len()?))
    }
}
