"""Growing HDF5 files: tables become datasets, batch by batch, in bounded memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypedDict

import h5py
import numpy as np
import pyarrow as pa

from ._columns import Leaf, leaves, offsets
from ._partial import PartialFile, Stopped, Storage
from ._selection import (
    ExportError,
    Names,
    Report,
    Selection,
    Tables,
    check_whole,
    schema_of,
    tables_of,
)

RESUME = "fluxline_resume"
"""Attribute of the root of a part that another call may continue."""
LAYOUT_VERSION = 1
VERSIONS = ("v110", "v110")
"""The version of the HDF5 format: that of libhdf5 1.10, which all readers know."""
VALUE_CHUNK_BYTES = 1 << 20
COLUMN_CHUNK_BYTES = 1 << 17
SMALL_COLUMN_FILTERS = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "lzf": {"compression": "lzf", "shuffle": True},
    "gzip": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
}
BOUNDS_HELP = "Where each list begins in the values; it ends where the next one begins."
CODED = ("status",)
"""Text columns with few different words, which are stored as codes."""


@dataclass(frozen=True)
class Progress:
    """How far an export has come."""

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
        rest = {key: value for key, value in given.items()
                if key not in ("tables", "columns", "sources", "events")}
        chosen = Selection.of(given.get("tables"), given.get("columns"), given.get("sources"),
                              given.get("events"))
        return Options(chosen, **rest)  # type: ignore[arg-type]

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
        raise ExportError(f"there is no compression `{options.compression}`; choose of {known}.")
    chosen = tables_of(run, options.selection)
    target = PartialFile(path, options.overwrite)
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
        if self.target.part.exists():
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
        chosen = {"columns": columns, "sources": wanted.sources, "events": wanted.events}
        given = {key: value for key, value in chosen.items() if value is not None}
        return iter(self.run.batches(name, **given))

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


class TableWriter:
    """Appends batches to a group: a dataset for each column.

    Columns of numbers become one-dimensional. Lists become two-dimensional while all have the same
    length; otherwise their values are one after the other, and `NAME_offsets` has the bounds. The
    fields of the records of a packet share the bounds of `records`.
    """

    def __init__(self, group: h5py.Group, compression: str = "none", records: str = ""):
        self.group, self.records = group, records
        self.filters = FILTERS[compression]
        self._open: dict[str, h5py.Dataset] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._bounded: set[str] = set()
        self._names = Names()

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch."""
        self.begin_batch()
        for leaf in leaves(coded(batch)):
            self.append_leaf(leaf)

    def begin_batch(self) -> None:
        """Begins a batch, whose leaves follow one by one."""
        self._bounded.clear()

    def finish(self) -> None:
        """Closes the datasets."""
        self._open.clear()

    def append_leaf(self, leaf: Leaf) -> None:
        """Appends the values of one column."""
        self._names.claim(leaf.name, leaf.name)
        self._append_validity(leaf)
        values = self._with_codes(leaf) if leaf.words is not None else leaf.values
        if not leaf.lengths:
            self._append(leaf.name, values, leaf.attributes)
            return
        width = leaf.equal_length
        before = self._find(leaf.name)
        if width is not None and (before is None or before.shape[1:] == (width,)):
            self._append(leaf.name, values.reshape(-1, width), leaf.attributes)
            return
        if before is not None and before.ndim == 2:
            self._flatten(leaf, before)
        self._append(leaf.name, values, leaf.attributes, flat_lists=True)
        for level, lengths in enumerate(leaf.lengths):
            self._append_bounds(self._bounds_name(leaf, level), lengths)

    def _bounds_name(self, leaf: Leaf, level: int) -> str:
        if level > 0:
            return f"{leaf.name}_item_offsets"
        is_record = self.records and leaf.attributes.get("part") == "record"
        return f"{self.records if is_record else leaf.name}_offsets"

    def _append_bounds(self, name: str, lengths: np.ndarray) -> None:
        self._names.claim(name, "the bounds of lists")
        if name in self._bounded:
            return
        last = self._find(name)
        bounds = offsets(lengths, 0 if last is None else int(last[-1]))
        if last is None:
            bounds = np.concatenate([np.zeros(1, np.uint64), bounds])
        self._append(name, bounds, {"help": BOUNDS_HELP})
        self._bounded.add(name)

    def _find(self, name: str) -> h5py.Dataset | None:
        if name not in self._open and name in self.group:
            self._open[name] = self.group[name]
        return self._open.get(name)

    def _append(self, name: str, values: np.ndarray, attributes: dict[str, str],
                flat_lists: bool = False) -> None:
        dataset = self._find(name)
        if dataset is None:
            is_list = flat_lists or values.ndim == 2
            dataset = self._create(name, values, is_list)
            _describe(dataset, attributes)
        if len(values):
            first = dataset.shape[0]
            dataset.resize(first + len(values), axis=0)
            dataset[first:] = values

    def _create(self, name: str, values: np.ndarray, is_list: bool) -> h5py.Dataset:
        is_text = values.dtype == object
        kind = h5py.string_dtype() if is_text else values.dtype
        row_bytes = max(1, int(np.prod(values.shape[1:])) * (16 if is_text else kind.itemsize))
        wanted = (VALUE_CHUNK_BYTES if is_list else COLUMN_CHUNK_BYTES) // row_bytes
        rows = max(1, min(wanted, max(len(values), 64)))
        filters = self.filters if is_list else SMALL_COLUMN_FILTERS
        dataset = self.group.create_dataset(
            name, (0, *values.shape[1:]), kind, maxshape=(None, *values.shape[1:]),
            chunks=(rows, *values.shape[1:]), rdcc_nbytes=4 * rows * row_bytes, **filters,
        )
        self._open[name] = dataset
        return dataset

    def _flatten(self, leaf: Leaf, before: h5py.Dataset) -> None:
        """Turns a two-dimensional dataset into flat values, chunk by chunk."""
        rows, width = before.shape
        wide = f"{leaf.name}_being_flattened"
        self.group.move(leaf.name, wide)
        del self._open[leaf.name]
        step = before.chunks[0] * 8
        for first in range(0, rows, step):
            values = before[first : first + step].reshape(-1)
            self._append(leaf.name, values, leaf.attributes, flat_lists=True)
        del self.group[wide]
        name = self._bounds_name(leaf, 0)
        if self._find(name) is None:
            bounds = np.arange(rows + 1, dtype=np.uint64) * np.uint64(width)
            self._append(name, bounds, {"help": BOUNDS_HELP})

    def _append_validity(self, leaf: Leaf) -> None:
        name = f"{leaf.name}_valid"
        dataset = self._find(name)
        if dataset is None and leaf.valid is None:
            return
        self._names.claim(name, f"the gaps of `{leaf.name}`")
        rows = len(leaf.lengths[0]) if leaf.lengths else len(leaf.values)
        valid = np.ones(rows, np.uint8) if leaf.valid is None else leaf.valid.astype(np.uint8)
        if dataset is None:
            self._append(name, np.ones(self._rows_before(leaf), np.uint8),
                         {"help": f"0 where {leaf.name} is absent"})
        self._append(name, valid, {})

    def _rows_before(self, leaf: Leaf) -> int:
        before = self._find(leaf.name)
        if before is None:
            return 0
        if leaf.lengths and before.ndim == 1:
            bounds = self._find(self._bounds_name(leaf, 0))
            return 0 if bounds is None else int(bounds.shape[0]) - 1
        return int(before.shape[0])

    def _with_codes(self, leaf: Leaf) -> np.ndarray:
        """Returns codes of the whole table instead of codes of one batch."""
        name = f"{leaf.name}_words"
        self._names.claim(name, f"the words of `{leaf.name}`")
        if leaf.name not in self._codes:
            known = self._find(name)
            words = [] if known is None else [word.decode() for word in known[:]]
            self._codes[leaf.name] = {word: code for code, word in enumerate(words)}
        codes = self._codes[leaf.name]
        given = leaf.words or ("",)
        added = [word for word in dict.fromkeys(given) if word not in codes]
        codes |= {word: number for number, word in enumerate(added, len(codes))}
        self._append(name, np.array(added, object), {"help": f"the word of each {leaf.name}"})
        renumbered = np.array([codes[word] for word in given], np.uint16)
        return np.asarray(renumbered[leaf.values])


def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Encodes text columns with few different words as dictionaries."""
    for number, one in enumerate(batch.schema):
        if one.name in CODED and pa.types.is_string(one.type):
            column = batch.column(number).dictionary_encode()
            batch = batch.set_column(number, pa.field(one.name, column.type, metadata=one.metadata),
                                     column)
    return batch


def _describe(dataset: h5py.Dataset, attributes: dict[str, str]) -> None:
    names = {"unit": "units", "help": "long_name"}
    for key, value in attributes.items():
        if value and key not in ("part", "common"):
            dataset.attrs[names.get(key, key)] = value
