"""Runs as NeXus files: NXlog, NXevent_data or NXdata, as the columns of each table suggest.

* A table with a time and an identifier (pixel, channel) in each record becomes NXevent_data.
* Another table with lists becomes NXdata, whose signal is the first list: a waveform.
* A table of single values becomes one NXlog for each value of each source.
* The table of built events becomes an NXcollection.
* Slow control values become one NXlog for each name, whatever part of the run is selected.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._columns import UNIX_EPOCH, UNIX_TIME, Leaf, is_list, leaves, metadata, offsets
from ._h5 import Keywords, Options, TableSink, write
from ._h5_table import TableWriter, coded
from ._selection import (
    ArrowTables,
    Report,
    Tables,
    common_column,
    iso_time,
    opened,
    run_name,
    times_of,
)
from ._slow import nanoseconds_of
from .hdf5 import descriptions_of, facts_of

IDENTIFIERS = ("pixel", "pixel_id", "event_id", "detector_id", "channel", "channel_id")
"""Names of record fields that become `event_id`, in this order."""
OFFSETS = ("event_time_offset", "time_offset", "time_of_flight", "tof", "time", "timestamp")
"""Names of record fields that become `event_time_offset`, if their unit is one of time."""
HEIGHTS = ("pulse_height", "amplitude", "adc", "charge", "energy")
"""Names of record fields that become `pulse_height`."""
LOG_TIME = "log_time"
"""The dataset that all logs of a source show as `time`."""
SLOW = "slow_control"
"""The collection of slow control values."""
TIME_UNITS = ("s", "ms", "us", "µs", "ns", "ps", "tick", "ticks")


@dataclass(frozen=True)
class Roles:
    """Names of columns with a meaning in NeXus; None lets the export choose by name and unit."""

    event_id: str | None = None
    event_time: str | None = None
    pulse_height: str | None = None


def to_nexus(run: Any, into: str | os.PathLike[str],
             roles: Roles = Roles(), **options: Unpack[Keywords]) -> Report:
    """Writes a run, or the run in a folder, into a NeXus file."""
    chosen = Options.of(options)
    tables = opened(run)
    return write(tables, into, NexusLayout(chosen.compression, roles, slow_of(tables)), chosen)


class NexusLayout:
    """The groups of a NeXus file."""

    name = "nexus"

    def __init__(self, compression: str, roles: Roles = Roles(), slow: pa.Table | None = None):
        self.compression, self.roles, self.slow = compression, roles, slow

    def begin(self, file: h5py.File, run: Tables) -> None:
        """Writes the entry: facts about the run, its notes, ledger and descriptions."""
        file.attrs["NX_class"] = "NXroot"
        file.attrs["creator"] = "fluxline"
        file.attrs["HDF5_Version"] = h5py.version.hdf5_version
        file.attrs["h5py_version"] = h5py.version.version
        file.attrs["file_time"] = iso_time(run.info.get("ended_ns")) or ""
        file.attrs["default"] = "entry"
        entry = group_of(file, "entry", "NXentry")
        _entry_fields(entry, run)
        _notes(entry, run.info)
        _collection(entry, "ledger", run.info.get("ledger") or {})
        for name, text in descriptions_of(run).items():
            _note(entry, f"format_{os.path.splitext(name)[0]}", text, "application/toml",
                  "packet description")
        instrument = group_of(entry, "instrument", "NXinstrument")
        instrument["name"] = run_name(run)

    def table(self, file: h5py.File, name: str, schema: pa.Schema) -> TableSink:
        """Returns the writer of a table."""
        entry = file["entry"]
        _sources(entry, schema)
        safe = nexus_name(name)
        row_time, records = _row_time(schema), metadata(schema).get("fluxline.record", "")
        found = _event_columns(schema, self.roles)
        if found is not None and row_time is not None:
            detector = group_of(entry["instrument"], safe, "NXdetector")
            return EventData(detector, found, row_time, self.compression)
        signals = [one.name for one in schema if _is_array(one.type)]
        if signals:
            group = group_of(entry, safe, "NXcollection")
            return Waveforms(TableWriter(group, self.compression, records),
                             Axes(signals[0], row_time))
        if name == "events" or row_time is None:
            return TableWriter(group_of(entry, safe, "NXcollection"), self.compression)
        return Logs(group_of(entry, safe, "NXcollection"), row_time)

    def finish(self, file: h5py.File) -> None:
        """Writes the slow control values, and chooses the default plot: the first NXdata."""
        entry = file["entry"]
        if self.slow is not None:
            _slow_logs(group_of(entry, SLOW, "NXcollection"), self.slow)
        plots = [key for key, one in entry.items() if one.attrs.get("NX_class") == "NXdata"]
        if plots:
            entry.attrs["default"] = plots[0]


@dataclass(frozen=True)
class EventColumns:
    """The columns of a table that become the fields of NXevent_data."""

    event_id: str
    event_time: str
    pulse_height: str | None


class EventData:
    """Writes records with a time and an identifier as NXevent_data of an NXdetector."""

    def __init__(self, detector: h5py.Group, columns: EventColumns, row_time: str,
                 compression: str):
        self.row_time = row_time
        self.fields = {columns.event_id: "event_id", columns.event_time: "event_time_offset"}
        if columns.pulse_height is not None:
            self.fields[columns.pulse_height] = "pulse_height"
        self.events = group_of(detector, "events", "NXevent_data")
        self.event_writer = TableWriter(self.events, compression)
        self.other_writer = TableWriter(group_of(detector, "columns", "NXcollection"), compression)

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch: a row is a pulse."""
        for leaf in leaves(coded(batch)):
            if leaf.name in self.fields:
                self._append_event_field(leaf)
            else:
                self.other_writer.append_leaf(leaf)
                if leaf.name == self.row_time:
                    self.event_writer.append_leaf(_time_zero(leaf))

    def _append_event_field(self, leaf: Leaf) -> None:
        name = self.fields[leaf.name]
        if name == "event_id":
            before = self.events["event_id"].shape[0] if "event_id" in self.events else 0
            ends = offsets(leaf.lengths[0], before)
            starts = (ends - leaf.lengths[0]).astype(np.int64)
            self.event_writer.append_leaf(Leaf("event_index", starts))
        values = leaf.values
        if name == "pulse_height":
            values = values.astype(np.float32 if values.itemsize <= 2 else np.float64)
        attributes = {**leaf.attributes, "help": leaf.attributes.get("help", leaf.name)}
        self.event_writer.append_leaf(
            replace(leaf, name=name, values=values, lengths=(), valid=None, attributes=attributes))

    def finish(self) -> None:
        """Completes the fields that a table without records lacks."""
        for name, kind in [("event_id", np.int32), ("event_time_offset", np.int64),
                           ("event_index", np.int64), ("event_time_zero", np.int64)]:
            if name not in self.events:
                self.events.create_dataset(name, (0,), kind)


@dataclass(frozen=True)
class Axes:
    """The signal of an NXdata, and the time of its rows."""

    signal: str
    row_time: str | None


class Waveforms:
    """Writes a table with lists as NXdata, or as NXcollection if their lengths differ."""

    def __init__(self, writer: TableWriter, axes: Axes):
        self.writer, self.group, self.axes = writer, writer.group, axes

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch; names of sources are in the collection `sources`."""
        self.writer.begin_batch()
        for leaf in leaves(coded(batch)):
            if leaf.words is None and leaf.values.dtype != object:
                self.writer.append_leaf(leaf)

    def finish(self) -> None:
        """Names signal and axes if all waveforms have the same length."""
        self.writer.finish()
        signal = self.group.get(self.axes.signal)
        if signal is None or signal.ndim != 2:
            return
        self.group.attrs["NX_class"] = "NXdata"
        self.group.attrs["signal"] = self.axes.signal
        others = [name for name, one in self.group.items()
                  if isinstance(one, h5py.Dataset) and one.shape == signal.shape
                  and name != self.axes.signal]
        if others:
            self.group.attrs["auxiliary_signals"] = others
        number = "sample" if "sample" not in self.group else "sample_number"
        self.group[number] = np.arange(signal.shape[1], dtype=np.int64)
        rows = self.axes.row_time
        self.group.attrs["axes"] = [rows or ".", number]
        self.group.attrs[f"{number}_indices"] = 1
        for name, one in self.group.items():
            if isinstance(one, h5py.Dataset) and one.shape == signal.shape[:1] and name != number:
                self.group.attrs[f"{name}_indices"] = 0


class Logs:
    """Writes single values as one NXlog for each column of each source."""

    def __init__(self, group: h5py.Group, row_time: str):
        self.group, self.row_time = group, row_time
        self._writers: dict[int, TableWriter] = {}

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch to the logs of their sources."""
        if "source" not in batch.schema.names:
            self._append_source(None, batch)
            return
        source = batch.column("source")
        for number in pc.unique(source).to_pylist():
            self._append_source(number, batch.filter(pc.equal(source, number)))

    def _append_source(self, number: int | None, batch: pa.RecordBatch) -> None:
        writer = self._writer(number)
        for leaf in leaves(coded(batch)):
            if leaf.name == self.row_time:
                writer.append_leaf(_log_time(leaf))
            elif leaf.name != "source" and leaf.values.dtype != object and leaf.words is None:
                group_of(writer.group, leaf.name, "NXlog")
                writer.append_leaf(replace(leaf, name=f"{leaf.name}/value"))

    def _writer(self, number: int | None) -> TableWriter:
        key = -1 if number is None else number
        if key not in self._writers:
            name = "all" if number is None else f"source_{number}"
            group = group_of(self.group, name, "NXcollection")
            self._writers[key] = TableWriter(group)
        return self._writers[key]

    def finish(self) -> None:
        """Links the times of each source to all its logs."""
        for source in self.group.values():
            for one in source.values():
                if one.attrs.get("NX_class") == "NXlog":
                    one["time"] = source[LOG_TIME]


def slow_of(run: Tables) -> pa.Table | None:
    """Returns the slow control values of a run in a folder; None if it took none."""
    if not isinstance(run, ArrowTables) or run.path is None:
        return None
    return run.run.slow() if os.path.exists(os.path.join(run.path, "slow.arrows")) else None


def _slow_logs(group: h5py.Group, slow: pa.Table) -> None:
    """Writes the numbers of each name as NXlog, by time, and its texts as NXcollection.

    NXlog has numbers only, and one unit: a name whose unit changes has a log for each.
    """
    slow = slow.append_column("is_text", pc.is_null(slow["value"]))
    slow = slow.sort_by([("time", "ascending"), ("arrival", "ascending")])
    for name, unit, is_text in _unique(slow.select(["name", "unit", "is_text"])):
        same = pc.is_null(slow["unit"]) if unit is None else pc.equal(slow["unit"], unit)
        same = pc.and_kleene(same, pc.equal(slow["name"], name))
        rows = slow.filter(pc.and_kleene(same, pc.equal(slow["is_text"], is_text)))
        log = group_of(group, _free_name(group, name), "NXcollection" if is_text else "NXlog")
        log["description"] = name
        time = log.create_dataset("time", data=nanoseconds_of(rows["time"]), compression="gzip")
        time.attrs.update({"units": "ns", "start": UNIX_EPOCH})
        values = rows["text" if is_text else "value"].to_numpy()
        value = log.create_dataset("value", data=values, compression="gzip")
        if unit is not None:
            value.attrs["units"] = unit


def _unique(columns: pa.Table) -> list[tuple[Any, ...]]:
    rows = columns.group_by(columns.column_names, use_threads=False).aggregate([]).to_pylist()
    return [tuple(row[name] for name in columns.column_names) for row in rows]


def _free_name(group: h5py.Group, name: str) -> str:
    """Returns a name that NeXus permits and the group does not have yet."""
    safe = nexus_name(name if name[:1].isascii() and name[:1].isalpha() else f"value_{name}")
    numbered = (f"{safe}_{number}" for number in itertools.count(2))
    return safe if safe not in group else next(one for one in numbered if one not in group)


def group_of(parent: h5py.Group, name: str, nx_class: str) -> h5py.Group:
    """Returns a group with its class; makes it if it does not exist yet."""
    group = parent.require_group(name)
    group.attrs.setdefault("NX_class", nx_class)
    return group


def nexus_name(name: str) -> str:
    """Returns a name with the characters that NeXus permits."""
    safe = "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name)
    return safe if safe[:1].isalpha() else f"table_{safe}"


def _time_zero(leaf: Leaf) -> Leaf:
    """Returns the times of rows with the one attribute that NXevent_data has for their start."""
    attributes = {**leaf.attributes, "offset": UNIX_EPOCH}
    attributes.pop("start", None)
    return replace(leaf, name="event_time_zero", valid=None, attributes=attributes)


def _log_time(leaf: Leaf) -> Leaf:
    """Returns the times of rows with the attribute that NXlog has for their start."""
    return replace(leaf, name=LOG_TIME, attributes={**leaf.attributes, "start": UNIX_EPOCH})


def _row_time(schema: pa.Schema) -> str | None:
    """Returns the column with the time of a row: the sensor's if it is absolute, else arrival."""
    sensor = common_column(schema, "sensor_time_ns")
    if sensor is not None and metadata(schema.field(sensor)).get("epoch") == UNIX_TIME:
        return sensor
    return common_column(schema, "time")


def _first_of(names: Sequence[str], known: Sequence[str]) -> str | None:
    return next((one for one in names if one in known), None)


def _is_array(kind: pa.DataType) -> bool:
    if not is_list(kind):
        return False
    return bool(pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))


def _event_columns(schema: pa.Schema, roles: Roles) -> EventColumns | None:
    """Returns the columns of NXevent_data, if the table has a time and an identifier."""
    lists = {one.name: one for one in schema if _is_array(one.type)}
    units = {name: _unit(one) for name, one in lists.items()}
    timed = [name for name in lists if units[name] in TIME_UNITS or name == roles.event_time]
    whole = [name for name, one in lists.items() if pa.types.is_integer(one.type.value_type)]
    event_id = roles.event_id or _first_of(IDENTIFIERS, whole)
    event_time = roles.event_time or _first_of(OFFSETS, timed)
    if event_id not in whole or event_time not in timed:
        return None
    height = roles.pulse_height or _first_of(HEIGHTS, list(lists))
    return EventColumns(str(event_id), str(event_time), height if height in lists else None)


def _unit(one: pa.Field) -> str:
    return metadata(one).get("unit") or metadata(one.type.value_field).get("unit", "")


def _entry_fields(entry: h5py.Group, run: Tables) -> None:
    facts = facts_of(run)
    names = {"title": "title", "run": "entry_identifier", "start_time": "start_time",
             "end_time": "end_time", "headline": "collection_description"}
    for fact, name in names.items():
        if fact in facts:
            entry[name] = facts[fact]
    entry["program_name"] = "fluxline"
    entry["program_name"].attrs["version"] = str(facts.get("program_version", ""))
    if "shot" in facts:
        entry["experiment_identifier"] = str(facts["shot"])
    began, ended = times_of(run.info)
    if began and ended:
        entry["duration"] = np.int64((ended - began) // 1_000_000)
        entry["duration"].attrs["units"] = "ms"


def _sources(entry: h5py.Group, schema: pa.Schema) -> None:
    """Writes numbers and names of the sources, once."""
    listed = json.loads(metadata(schema).get("fluxline.sources", "{}"))
    if listed and "sources" not in entry:
        group = group_of(entry, "sources", "NXcollection")
        group["number"] = np.array([int(number) for number in listed], np.int64)
        group["name"] = np.array(list(listed.values()), object)


def _notes(entry: h5py.Group, info: dict[str, Any]) -> None:
    remarks = (info.get("control") or {}).get("remarks") or []
    for number, one in enumerate(remarks):
        _note(entry, f"note_{number}", str(one.get("text", "")), "text/plain", "operator's note",
              iso_time(one.get("at_ns")))
    _note(entry, "run_json", json.dumps(info, indent=1), "application/json",
          "report of the run, its ledger included")


def _note(entry: h5py.Group, name: str, text: str, kind: str, description: str,
          date: str | None = None) -> None:
    note = group_of(entry, nexus_name(name), "NXnote")
    note["data"], note["type"], note["description"] = text, kind, description
    if date:
        note["date"] = date


def _collection(parent: h5py.Group, name: str, values: dict[str, Any]) -> None:
    """Writes counters as an NXcollection of numbers, lists of rows as groups by name."""
    group = group_of(parent, nexus_name(name), "NXcollection")
    for key, value in values.items():
        if isinstance(value, dict):
            _collection(group, key, value)
        elif isinstance(value, (bool, int, float)):
            group[nexus_name(key)] = value if abs(value) < 1 << 63 else float(value)
        elif isinstance(value, str):
            group[nexus_name(key)] = value
        elif isinstance(value, list):
            rows = [one for one in value if isinstance(one, dict)]
            for number, one in enumerate(rows):
                _collection(group, f"{key}_{number}", one)
