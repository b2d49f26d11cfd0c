"""Exports to HDF5 files, batch by batch, which another call continues after a stop."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol, TypedDict

import h5py
import pyarrow as pa

from ._h5_table import FILTERS
from ._partial import PartialFile, Stopped, Storage
from ._selection import (
    ExportError,
    Report,
    Selection,
    Tables,
    check_whole,
    schema_of,
    tables_of,
)
from ._times import Time

RESUME = "fluxline_resume"
"""Attribute of the root of a part that another call may continue."""
LAYOUT_VERSION = 1
VERSIONS = ("v110", "v110")
"""The version of the HDF5 format: that of libhdf5 1.10, which all readers know."""


@dataclass(frozen=True)
class Progress:
    """Shows the progress of an export."""

    table: str
    rows: int
    payload_bytes: int


class Keywords(TypedDict, total=False):
    """Keywords of an export to HDF5 or NeXus; all are optional."""

    tables: Sequence[str]
    """Names of tables; default: all but those of whole packets and of single records."""
    columns: Sequence[str]
    sources: Sequence[str | int]
    """Names or numbers of sources."""
    events: range | tuple[int, int]
    """Numbers of events, the end not included."""
    since: Time
    """Events whose first packet came at this time or later: seconds since 1970, a datetime, a
    numpy.datetime64, or a text as `--since` takes it."""
    until: Time
    compression: str
    """`none`, `lzf` or `gzip`, of waveforms and records; other columns are always compressed."""
    overwrite: bool
    progress: Callable[[Progress], None]
    stop: Callable[[], bool]
    """Asked between batches; True stops the export so that another call continues it."""


@dataclass(frozen=True)
class Options:
    """Options of an export to HDF5 or NeXus."""

    @staticmethod
    def of(given: Keywords) -> Options:
        """Makes options of keywords."""
        rows = {one.name for one in fields(Selection)}
        chosen: dict[str, Any] = {key: one for key, one in given.items() if key in rows}
        rest: dict[str, Any] = {key: one for key, one in given.items() if key not in rows}
        return Options(Selection.of(**chosen), **rest)

    selection: Selection = field(default_factory=Selection)
    compression: str = "none"
    """Of waveforms and records; other columns are always compressed."""
    overwrite: bool = False
    progress: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] | None = None
    """Asked between batches; True stops the export so that another call continues it."""


class Layout(Protocol):
    """The groups of a kind of HDF5 file."""

    name: str

    def begin(self, file: h5py.File, run: Tables) -> None:
        """Writes the facts about the run."""

    def table(self, file: h5py.File, name: str, schema: pa.Schema) -> TableSink:
        """Returns the writer of a table; makes its groups if they do not exist yet."""

    def finish(self, file: h5py.File) -> None:
        """Completes the file."""


class TableSink(Protocol):
    """Takes the batches of one table."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch."""

    def finish(self) -> None:
        """Completes the table."""


def write(run: Tables, path: str | os.PathLike[str], layout: Layout, options: Options) -> Report:
    """Writes the selected tables of a run into one HDF5 file.

    The file is `PATH.part` until it is complete. After a stop between two batches (a full disk, a
    signal) the next call continues it; a part that cannot be continued is written again.
    """
    if options.compression not in FILTERS:
        known = ", ".join(FILTERS)
        raise ExportError(f"compression `{options.compression}` is unknown; choose one of {known}.")
    chosen = tables_of(run, options.selection)
    target = PartialFile(path, options.overwrite, continues=True)
    report = Report(target.path, notes=list(run.notes))
    began = time.monotonic()
    export = _Export(run, layout, options, target, report)
    export.open()
    try:
        export.write_tables(chosen)
        check_whole(run, options.selection, report)
        export.close()
    except Stopped:
        export.close()
        raise
    except OSError as error:
        export.abandon()
        raise ExportError(_disk_sentence(target, error)) from error
    except BaseException:
        export.abandon()
        raise
    report.file_bytes = target.finish()
    report.seconds = time.monotonic() - began
    return report


class _Export:
    def __init__(self, run: Tables, layout: Layout, options: Options, target: PartialFile,
                 report: Report):
        self.run, self.layout, self.options = run, layout, options
        self.target, self.report = target, report
        self.done: dict[str, int] = {}
        self.file: h5py.File
        self.storage: Storage

    def open(self) -> None:
        """Continues a part of the same export, else begins."""
        if os.path.lexists(self.target.part):
            found = self._continued()
            if found is not None:
                self.file = found
                return
        self.storage = self._storage(is_new=True)
        self.file = h5py.File(self.storage, "w", libver=VERSIONS)
        self._mark()
        self.layout.begin(self.file, self.run)

    def _storage(self, is_new: bool) -> Storage:
        try:
            return Storage(self.target.part, is_new)
        except BlockingIOError:
            part = self.target.part
            raise ExportError(f"another process writes {part}; wait for it.") from None
        except OSError as error:
            raise ExportError(_disk_sentence(self.target, error)) from error

    def _continued(self) -> h5py.File | None:
        part, note = self.target.part, self.report.notes.append
        self.storage = self._storage(is_new=False)
        try:
            file = h5py.File(self.storage, "r+", libver=VERSIONS)
            state = json.loads(file.attrs.get(RESUME, "{}"))
        except (OSError, RuntimeError, KeyError, ValueError):
            self.storage.close()
            note(f"{part} was a half-written HDF5 file that cannot be opened; it is written again.")
            return None
        if state.get("clean") and state.get("of") == self._identity():
            self.report.rows.update(state["rows"])
            self.done = state["batches"]
            note(f"continued behind {sum(self.done.values())} batches of an earlier export.")
            return file
        file.close()
        self.storage.close()
        note(f"{part} was of another or an interrupted export; it is written again.")
        return None

    def _identity(self) -> dict[str, Any]:
        info = self.run.info
        run = [str(info.get("folder")), info.get("began_ns"), info.get("ended_ns")]
        of = {"run": run, "layout": [self.layout.name, LAYOUT_VERSION],
              "compression": self.options.compression, **asdict(self.options.selection)}
        return dict(json.loads(json.dumps(of)))

    def _mark(self, clean: bool = False) -> None:
        state = {"of": self._identity(), "clean": clean, "batches": self.done,
                 "rows": self.report.rows}
        self.file.attrs[RESUME] = json.dumps(state)

    def write_tables(self, chosen: list[str]) -> None:
        """Writes all tables that are not written yet."""
        self._mark()
        for name in chosen:
            if name not in self.report.rows:
                self._write_table(name)
        self.layout.finish(self.file)
        del self.file.attrs[RESUME]

    def _write_table(self, name: str) -> None:
        """Writes a table from its first batch that is not written yet."""
        schema = schema_of(self.run, name, self.options.selection)
        sink: TableSink | None = None
        rows = 0
        for number, batch in enumerate(self._batches(name)):
            rows += batch.num_rows
            if rows and sink is None:
                sink = self.layout.table(self.file, name, schema)
            if number < self.done.get(name, 0):
                continue
            self._append(sink, batch, name)
            self.done[name] = number + 1
            if self.options.progress is not None:
                self.options.progress(Progress(name, rows, self.report.payload_bytes))
        if sink is not None:
            sink.finish()
        self.report.rows[name] = rows

    def _batches(self, name: str) -> Iterator[pa.RecordBatch]:
        wanted = self.options.selection
        columns = schema_of(self.run, name, wanted).names if wanted.columns is not None else None
        return iter(self.run.batches(name, **wanted.keywords(columns)))

    def _append(self, sink: TableSink | None, batch: pa.RecordBatch, name: str) -> None:
        try:
            if self.options.stop is not None and self.options.stop():
                raise Stopped(f"stopped in table {name}; repeat the export, and it continues.")
            self.target.require(batch.nbytes)
        except Stopped:
            self._mark(clean=True)
            raise
        if sink is not None and batch.num_rows:
            sink.append(batch)
            self.storage.check()
            self.report.payload_bytes += batch.nbytes

    def close(self) -> None:
        """Closes the file."""
        self.file.close()
        self.storage.close()
        self.storage.check()

    def abandon(self) -> None:
        """Closes and removes a file that cannot be continued."""
        try:
            self.file.close()
        except (OSError, RuntimeError):
            pass
        self.storage.close()
        self.target.remove()


def _disk_sentence(target: PartialFile, error: OSError) -> str:
    reason = error.strerror or " ".join(str(error).split())
    return (f"{target.path} cannot be written ({reason}); free some space or choose another "
            "directory, and repeat the export.")
