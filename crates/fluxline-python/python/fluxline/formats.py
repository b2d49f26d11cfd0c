"""Functions that write runs in the formats of laboratories, each behind an extra of the wheel."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import Error

MODULES = {one: one for one in ("hdf5", "nexus", "npz", "root", "mdsplus", "imas")}
"""The module of each format."""


def to_hdf5(run: Any, into: Any, **options: Any) -> Any:
    """Writes a run into an HDF5 file; see `fluxline.hdf5.to_hdf5`."""
    return module_of("hdf5").to_hdf5(run, into, **options)


def to_nexus(run: Any, into: Any, **options: Any) -> Any:
    """Writes a run into a NeXus file; see `fluxline.nexus.to_nexus`."""
    return module_of("nexus").to_nexus(run, into, **options)


def to_npz(run: Any, into: Any, **options: Any) -> Any:
    """Writes a run into one file of NumPy arrays; see `fluxline.npz.to_npz`."""
    return module_of("npz").to_npz(run, into, **options)


def to_root(run: Any, into: Any, **options: Any) -> Any:
    """Writes a run into a ROOT file; see `fluxline.root.to_root`."""
    return module_of("root").to_root(run, into, **options)


def to_mdsplus(run: Any, into: Any, **options: Any) -> Any:
    """Writes a run into a tree of an MDSplus server; see `fluxline.mdsplus.to_mdsplus`."""
    return module_of("mdsplus").to_mdsplus(run, into, **options)


def to_imas(run: Any, into: Any, **options: Any) -> Any:
    """Writes waveforms of a run into an IDS; see `fluxline.imas.to_imas`."""
    return module_of("imas").to_imas(run, into, **options)


def module_of(name: str) -> Any:
    """Returns the module of a format, or says what to install."""
    try:
        return importlib.import_module(f".{MODULES[name]}", __package__)
    except ImportError as error:
        raise Error(f"export to {name} needs a package that is missing ({error}); install it by: "
                    f"pip install 'fluxline[{name}]'") from error
