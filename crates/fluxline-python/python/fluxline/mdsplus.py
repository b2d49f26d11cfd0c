"""Runs as segments in a tree of an MDSplus server.

Every column of every source becomes a signal node, for example `\\\\DAQ::TOP.DIGITIZER.S3:ADC`.
Each batch of the run becomes one segment of it, with the times of its rows in nanoseconds since
1970. The nodes must exist: `commands` returns the commands of mdstcl that make them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mdsthin
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._columns import Leaf, leaves, metadata
from ._selection import (
    ExportError,
    Report,
    Selection,
    Tables,
    check_whole,
    common_column,
    opened,
    tables_of,
)

NAME_LENGTH_MAX = 12
"""The longest name of a node that every version of MDSplus takes."""
PATIENCE_S = 30.0
SKIPPED = ("source", "source_name")


@dataclass(frozen=True)
class Place:
    """A shot of a tree on a server."""

    server: str
    tree: str
    shot: int

    @staticmethod
    def of(text: str) -> Place:
        """Reads `SERVER/TREE/SHOT`."""
        server, _, rest = text.partition("/")
        tree, _, shot = rest.partition("/")
        if not (server and tree and shot.lstrip("-").isdigit()):
            raise ExportError(f"`{text}` is not a place in MDSplus; write SERVER/TREE/SHOT, for "
                              "example localhost:8000/daq/4711.")
        return Place(server, tree.upper(), int(shot))


@dataclass(frozen=True)
class Segment:
    """Values of one node with their times."""

    node: str
    times: np.ndarray
    values: np.ndarray


def to_mdsplus(run: Any, into: str, sample_seconds: float | None = None, tcl: bool = False,
               **selection: Any) -> Report | str:
    """Writes a run, or the run in a folder, into a tree; with `tcl`, returns its `commands`.

    Without `sample_seconds` a row's waveform is one row of the segment, so all must have the same
    length; with it, waveforms are joined to one signal with a time for each sample.
    """
    where, tables, chosen = Place.of(into), opened(run), Selection.of(**selection)
    if tcl:
        return commands(tables, where, chosen)
    report, began = Report(Path(into)), time.monotonic()
    try:
        with mdsthin.Connection(where.server, timeout=PATIENCE_S) as connection:
            connection.openTree(where.tree, where.shot)
            for table in tables_of(tables, chosen):
                report.rows[table] = 0
                for batch in _batches(tables, table, chosen):
                    report.rows[table] += batch.num_rows
                    for one in segments(where, table, batch, sample_seconds):
                        _put(connection, one)
                        report.payload_bytes += one.values.nbytes
            connection.closeTree(where.tree, where.shot)
    except (OSError, TimeoutError) as error:
        raise ExportError(f"no answer from {where.server} ({error}); is mdsip running there?"
                          f"{_begun(where, report)}") from error
    except mdsthin.MdsException as error:
        raise ExportError(f"{where.server} refused {where.tree}, shot {where.shot} ({error})."
                          f"{_begun(where, report)}") from error
    check_whole(tables, chosen, report)
    report.seconds = time.monotonic() - began
    return report


def _begun(where: Place, report: Report) -> str:
    """Returns the sentence on rows that are in the tree already; empty if none are."""
    rows = sum(report.rows.values())
    if rows == 0:
        return ""
    return (f" Up to {rows} rows are in shot {where.shot} already; create the shot anew before "
            "the export is repeated, because it begins anew.")


def _batches(run: Tables, table: str, chosen: Selection) -> Iterator[pa.RecordBatch]:
    names = run.schema(table).names
    columns = None
    if chosen.columns is not None:
        own = [common_column(run.schema(table), one) for one in ("source", "time")]
        columns = [one for one in names if one in chosen.columns or one in own]
    return run.batches(table, **chosen.keywords(columns))


def segments(where: Place, table: str, batch: pa.RecordBatch,
             sample_seconds: float | None) -> Iterator[Segment]:
    """Yields a segment for each column of each source of a batch."""
    source = common_column(batch.schema, "source")
    when = common_column(batch.schema, "time") or common_column(batch.schema, "first_time")
    if when is None or batch.num_rows == 0:
        return
    numbers = [None]
    if source is not None and metadata(batch.schema.field(source)).get("part") == "common":
        numbers = pc.unique(batch.column(source)).to_pylist()
    for number in numbers:
        own = batch if number is None else batch.filter(pc.equal(batch.column(source), number))
        parts = list(leaves(own))
        times = next(one.values for one in parts if one.name == when)
        for leaf in parts:
            if leaf.name not in (when, *SKIPPED) and _is_number(leaf):
                node = node_path(where, table, number, leaf.name)
                yield _segment(node, leaf, times.astype(np.int64), sample_seconds)


def _is_number(leaf: Leaf) -> bool:
    return leaf.words is None and leaf.values.dtype.kind in "iufb" and len(leaf.lengths) < 2


def _segment(node: str, leaf: Leaf, times: np.ndarray, sample_seconds: float | None) -> Segment:
    values = leaf.values.astype(np.uint8) if leaf.values.dtype.kind == "b" else leaf.values
    if not leaf.lengths:
        return Segment(node, times, values)
    if sample_seconds is None:
        width = leaf.equal_length
        if width is None:
            raise ExportError(f"waveforms of `{leaf.name}` differ in length; give sample-seconds, "
                              "and they are joined to one signal.")
        return Segment(node, times, values.reshape(-1, width))
    lengths = leaf.lengths[0].astype(np.int64)
    ends = np.cumsum(lengths)
    within = np.arange(len(values), dtype=np.int64) - np.repeat(ends - lengths, lengths)
    steps = np.rint(within * (sample_seconds * 1e9)).astype(np.int64)
    return Segment(node, np.repeat(times, lengths) + steps, values)


def _put(connection: Any, one: Segment) -> None:
    if len(one.values) == 0:
        return
    expression = f"MakeSegment({one.node},$,$,$,$,,$)"
    try:
        status = connection.get(expression, one.times[0], one.times[-1], one.times,
                                np.ascontiguousarray(one.values), np.int32(len(one.values))).data()
    except mdsthin.MdsException as error:
        raise ExportError(f"{one.node} took no segment ({error}); create the nodes by the commands "
                          "that --tcl prints.") from error
    if not int(status) & 1:
        raise ExportError(f"{one.node} took no segment (status {int(status)}); create the nodes by "
                          "the commands that --tcl prints.")


def node_name(name: str) -> str:
    """Returns a name that MDSplus takes: capitals, at most twelve characters, still unique."""
    safe = "".join(one if one.isascii() and one.isalnum() else "_" for one in name.upper())
    if not safe[:1].isalpha():
        safe = f"N{safe}"
    if len(safe) <= NAME_LENGTH_MAX:
        return safe
    return f"{safe[:NAME_LENGTH_MAX - 5]}_{zlib.crc32(name.encode()) & 0xFFFF:04X}"


def node_path(where: Place, table: str, source: int | None, column: str) -> str:
    """Returns the path of the node of a column."""
    member = "" if source is None else f".S{source}"
    return f"\\{where.tree}::TOP.{node_name(table)}{member}:{node_name(column)}"


def commands(run: Tables, where: Place, chosen: Selection) -> str:
    """Returns the commands of mdstcl that create the nodes of a run in its tree's model."""
    lines = [f"edit {where.tree} /shot=-1"]
    known: set[str] = set()
    for table in tables_of(run, chosen):
        for batch in _batches(run, table, chosen):
            for path in _paths(where, table, batch):
                if path not in known:
                    lines += _additions(path, known)
    return "\n".join([*lines, "write", "close", f"set tree {where.tree} /shot=-1",
                      f"create pulse {where.shot}"])


def _paths(where: Place, table: str, batch: pa.RecordBatch) -> list[str]:
    return [one.node for one in segments(where, table, batch, sample_seconds=1.0)]


def _additions(path: str, known: set[str]) -> Iterator[str]:
    head, _, column = path.rpartition(":")
    tree, _, rest = head.partition("::")
    groups = rest.split(".")[1:]
    for depth in range(1, len(groups) + 1):
        group = f"{tree}::TOP.{'.'.join(groups[:depth])}"
        if group not in known:
            known.add(group)
            yield f"add node {group} /usage=structure"
    known.add(path)
    yield f"add node {head}:{column} /usage=signal"
