"""Fluxline: data acquisition over real and simulated links.

Run reads recorded runs as Arrow tables and NumPy arrays. open() opens a node on a link. simulate()
and bench() return tables that are ready to plot. docs/python.md of the project is the manual.
"""

from fluxline._fluxline import (
    VERSION as __version__,
    Batch,
    Completion,
    Endpoint,
    Memory,
    Region,
    Remote,
    Schema,
    Sender,
    Task,
)
from fluxline.errors import (
    BenchError,
    Error,
    Full,
    Gone,
    InputError,
    LinkError,
    RegionGone,
    RunError,
    SimulationError,
    Timeout,
)
from fluxline.formats import to_hdf5, to_imas, to_mdsplus, to_nexus, to_npz
from fluxline.links import Node, Receiver, Records, open
from fluxline.measured import Report, bench
from fluxline.runs import Run
from fluxline.simulated import Simulation, simulate
from fluxline.tables import Table

__all__ = [
    "Batch",
    "BenchError",
    "Completion",
    "Endpoint",
    "Error",
    "Full",
    "Gone",
    "InputError",
    "LinkError",
    "Memory",
    "Node",
    "Receiver",
    "Records",
    "Region",
    "RegionGone",
    "Remote",
    "Report",
    "Run",
    "RunError",
    "Schema",
    "Sender",
    "Simulation",
    "SimulationError",
    "Table",
    "Task",
    "Timeout",
    "__version__",
    "bench",
    "open",
    "simulate",
    "to_hdf5",
    "to_imas",
    "to_mdsplus",
    "to_nexus",
    "to_npz",
]
