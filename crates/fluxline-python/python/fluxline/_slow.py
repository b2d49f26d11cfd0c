"""Slow control values beside events: the newest value at each event's time."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fluxline.errors import InputError

TIME_COLUMNS = ("first_time", "time")
"""The times of a table's rows: of events, and of packets."""


def values_at(slow: pa.Table, name: str, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return the newest number of a name at or before each time; NaN before the first."""
    rows = slow.filter(pc.equal(slow["name"], name))
    if rows.num_rows == 0:
        names = sorted(pc.unique(slow["name"]).to_pylist())
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it has {names[:20]}"
        raise InputError(f"the run has no slow control value {name!r}{hint}")
    rows = rows.filter(pc.is_valid(rows["value"]))
    if rows.num_rows == 0:
        raise InputError(f"{name!r} has texts and no numbers; take the rows of run.slow()")
    sent = nanoseconds_of(rows["time"])
    # Rows are in the order of arrival: of two with one time, the later one counts.
    order = np.argsort(sent, kind="stable")
    values = rows["value"].to_numpy()[order]
    before = np.searchsorted(sent[order], times_ns, side="right") - 1
    return np.where(before < 0, np.nan, values[before])


def event_times(events: Any) -> npt.NDArray[np.int64]:
    """Return the times of events [ns since 1970], of a table or an array of times."""
    if isinstance(events, np.ndarray):
        if events.dtype.kind == "M":
            return events.astype("datetime64[ns]").astype(np.int64)
        if events.dtype.kind in "iu":
            return events.astype(np.int64)
    elif isinstance(events, pa.Array | pa.ChunkedArray):
        return nanoseconds_of(events)
    elif hasattr(events, "__arrow_c_stream__"):
        table = pa.table(events)
        for column in TIME_COLUMNS:
            if column in table.column_names:
                return nanoseconds_of(table[column])
    raise InputError("events has no times; pass a table with the column `first_time` or `time`, or "
                     "an array of numpy.datetime64 or of ns since 1970")


def nanoseconds_of(column: Any) -> npt.NDArray[np.int64]:
    """Return a column of times as ns since 1970."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz))
    if column.null_count > 0 or not (
        pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)
    ):
        raise InputError(f"{column.type} with {column.null_count} nulls is no column of times")
    return np.asarray(column.cast(pa.int64()), dtype=np.int64)
