"""Fluxline: data acquisition over real and simulated links.

acquire() starts an acquisition, connect() controls one of another process. Run reads recorded runs
as Arrow tables and NumPy arrays, runs() lists them. open() opens a node on a link. simulate() and
bench() return tables that are ready to plot. docs/python.md of the project is the manual.
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
from fluxline.acquire import (
    EVENT_DTYPE,
    PACKET_DTYPE,
    Acquisition,
    Events,
    acquire,
    each_event,
)
from fluxline.connected import Connection, connect
from fluxline.errors import (
    BenchError,
    DamageWarning,
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
from fluxline.formats import to_hdf5, to_imas, to_mdsplus, to_nexus, to_npz, to_root
from fluxline.links import Node, Receiver, Records, open
from fluxline.measured import Report, bench
from fluxline.runs import Run, runs
from fluxline.simulated import Simulation, simulate
from fluxline.tables import Table

__all__ = [
    "EVENT_DTYPE",
    "PACKET_DTYPE",
    "Acquisition",
    "Batch",
    "BenchError",
    "Completion",
    "Connection",
    "DamageWarning",
    "Endpoint",
    "Events",
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
    "acquire",
    "bench",
    "connect",
    "each_event",
    "open",
    "runs",
    "simulate",
    "to_hdf5",
    "to_imas",
    "to_mdsplus",
    "to_nexus",
    "to_npz",
    "to_root",
]
