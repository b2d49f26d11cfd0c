"""Waveforms of a run as an IDS of the IMAS data dictionary, in a NetCDF file.

The caller says where the waveforms belong: `ids="magnetics/flux_loop/voltage"` makes one
`flux_loop` for each source, whose `voltage/data` has its samples and `voltage/time` their times.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import imas
import numpy as np
import pyarrow as pa

from ._columns import Leaf, leaves, metadata
from ._partial import PartialFile
from ._selection import (
    ExportError,
    Report,
    Selection,
    Tables,
    check_whole,
    common_column,
    iso_time,
    opened,
    run_name,
    tables_of,
    times_of,
)

MEMORY_BYTES_MAX = 2 << 30
"""An IDS is made in memory; a selection with more bytes is refused."""


@dataclass(frozen=True)
class Place:
    """The place of waveforms in an IDS."""

    ids: str
    array: str
    field: str

    @staticmethod
    def of(text: str) -> Place:
        """Reads `IDS/ARRAY/FIELD`."""
        parts = text.split("/")
        if len(parts) != 3 or not all(parts):
            raise ExportError(f"`{text}` is not a place in an IDS; write IDS/ARRAY/FIELD, for "
                              "example magnetics/flux_loop/voltage.")
        return Place(*parts)


@dataclass
class _Channel:
    name: str
    values: list[np.ndarray] = field(default_factory=list)
    times: list[np.ndarray] = field(default_factory=list)


def to_imas(run: Any, into: str | os.PathLike[str], ids: str | None = None,
            signal: str | None = None, sample_seconds: float | None = None,
            overwrite: bool = False, **selection: Any) -> Report:
    """Writes one waveform column of a run, or of the run in a folder, into an IDS.

    `signal` is the column; `sample_seconds` is the time from sample to sample. Times count from
    the start of the run, in seconds.
    """
    if ids is None or signal is None or sample_seconds is None:
        raise ExportError("an IDS needs a place, a column and the sample time; give for example "
                          "ids magnetics/flux_loop/voltage, signal amplitude, "
                          "sample-seconds 1e-6.")
    place, tables = Place.of(ids), opened(run)
    target = PartialFile(into, overwrite)
    if target.path.suffix != ".nc":
        raise ExportError(f"{target.path} does not end in .nc; IMAS chooses its format by that.")
    began = time.monotonic()
    logging.getLogger("imas").setLevel(logging.WARNING)
    report = Report(target.path, notes=list(tables.notes))
    reader = _Reader(tables, signal, sample_seconds, report)
    chosen = Selection.of(**selection)
    made = _ids(place, tables, reader.channels(chosen))
    check_whole(tables, chosen, report)
    part = target.path.with_name(f".{target.path.stem}.part.nc")
    part.unlink(missing_ok=True)
    try:
        with imas.DBEntry(str(part), "w") as entry:
            entry.put(made)
        os.replace(part, target.path)
    except OSError as error:
        raise ExportError(f"{target.path} cannot be written ({error.strerror}); free some space "
                          "or choose another directory.") from error
    finally:
        part.unlink(missing_ok=True)
    report.file_bytes = Path(target.path).stat().st_size
    report.seconds = time.monotonic() - began
    return report


class _Reader:
    """Collects the waveforms of each source."""

    def __init__(self, run: Tables, signal: str, sample_seconds: float, report: Report):
        self.run, self.signal, self.report = run, signal, report
        self.sample_seconds = sample_seconds
        self.zero_ns = int(times_of(run.info)[0] or 0)

    def channels(self, selection: Selection) -> list[_Channel]:
        """Returns a channel for each source that sent the signal, in the order of sources."""
        found: dict[int, _Channel] = {}
        for table in tables_of(self.run, selection):
            schema = self.run.schema(table)
            if self.signal in schema.names and common_column(schema, "source") is not None:
                self._read(table, schema, selection, found)
        if not found:
            known = sorted({name for table in self.run.tables for name in
                            self.run.schema(table).names})
            raise ExportError(f"no selected packet has a column `{self.signal}`; there are "
                              f"{', '.join(known)}.")
        return [found[number] for number in sorted(found)]

    def _read(self, table: str, schema: pa.Schema, selection: Selection,
              found: dict[int, _Channel]) -> None:
        source, when = common_column(schema, "source"), common_column(schema, "time")
        columns = [one for one in (self.signal, source, when) if one is not None]
        rows = 0
        for batch in self.run.batches(table, **selection.keywords(columns)):
            rows += batch.num_rows
            self._take(batch, {leaf.name: leaf for leaf in leaves(batch)}, found)
        self.report.rows[table] = rows

    def _take(self, batch: pa.RecordBatch, parts: dict[str, Leaf],
              found: dict[int, _Channel]) -> None:
        schema = batch.schema
        sources = parts[str(common_column(schema, "source"))].values
        times = parts[str(common_column(schema, "time"))].values
        wave = parts.get(self.signal)
        if wave is None or wave.values.dtype == object or len(wave.lengths) > 1:
            raise ExportError(f"column `{self.signal}` has no numbers; choose another.")
        self.report.payload_bytes += 16 * len(wave.values)
        if self.report.payload_bytes > MEMORY_BYTES_MAX:
            raise ExportError("the selected waveforms need more than 2 GiB of memory as an IDS; "
                              "select fewer sources or events.")
        lengths = wave.lengths[0] if wave.lengths else np.ones(len(wave.values), np.uint64)
        ends = np.cumsum(lengths).astype(np.int64)
        for row, number in enumerate(sources):
            first, end = ends[row] - int(lengths[row]), ends[row]
            channel = found.setdefault(int(number), _Channel(self._name(schema, int(number))))
            start = (int(times[row]) - self.zero_ns) * 1e-9
            channel.values.append(wave.values[first:end].astype(np.float64))
            channel.times.append(start + np.arange(end - first) * self.sample_seconds)

    def _name(self, schema: pa.Schema, number: int) -> str:
        names = _source_names(schema)
        return names.get(str(number), f"source {number}")


def _source_names(schema: pa.Schema) -> dict[str, str]:
    """Returns the names of sources by number."""
    listed = json.loads(metadata(schema).get("fluxline.sources", "{}"))
    return {str(number): str(name) for number, name in listed.items()}


def _ids(place: Place, run: Tables, channels: list[_Channel]) -> Any:
    factory = imas.IDSFactory()
    if place.ids not in factory.ids_names():
        raise ExportError(f"the data dictionary {factory.dd_version} has no IDS `{place.ids}`.")
    made = factory.new(place.ids)
    made.ids_properties.homogeneous_time = 0
    made.ids_properties.comment = str(run.info.get("headline") or run_name(run))
    made.ids_properties.provider = "fluxline"
    made.ids_properties.creation_date = iso_time(times_of(run.info)[0]) or ""
    made.code.name = "fluxline"
    made.code.version = str(run.info.get("fluxline", ""))
    try:
        array = getattr(made, place.array)
        array.resize(len(channels))
        for one, channel in zip(array, channels, strict=True):
            one.name = channel.name
            signal = getattr(one, place.field)
            signal.data = np.concatenate(channel.values)
            signal.time = np.concatenate(channel.times)
        made.validate()
    except (AttributeError, TypeError, ValueError, imas.exception.ValidationError) as error:
        raise ExportError(f"{place.ids}/{place.array}/{place.field} does not take waveforms "
                          f"({error}); choose an array with a signal of data and time.") from error
    return made
