"""Runs as the exports see them, and the part of a run that is exported."""

from __future__ import annotations

import datetime
import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ._columns import metadata
from ._times import Time, nanoseconds
from .errors import Error

RAW_TABLES = ("packets",)
"""Tables of whole packets: their values are in the other tables already."""


class ExportError(Error):
    """An export that cannot begin or go on, in one sentence that says what to do."""


class Tables(Protocol):
    """The tables of a run."""

    @property
    def info(self) -> dict[str, Any]:
        """The contents of `run.json`."""

    @property
    def notes(self) -> list[str]:
        """A sentence for each fact that is missing."""

    @property
    def tables(self) -> Sequence[str]:
        """The names of the tables."""

    def schema(self, table: str) -> pa.Schema:
        """Returns the columns of a table, with `unit` and `help` in their metadata."""

    def batches(self, table: str, **selection: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a table, batch by batch."""


@dataclass(frozen=True)
class Selection:
    """The tables, columns, sources and events to export; None selects all."""

    tables: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    sources: tuple[str | int, ...] | None = None
    events: tuple[int, int] | None = None
    """The first event, and the event behind the last one."""
    since: int | None = None
    """Events whose first packet came at this time or later, in nanoseconds since 1970."""
    until: int | None = None
    """Events whose first packet came before this time."""

    @staticmethod
    def of(tables: Iterable[str] | None = None, columns: Iterable[str] | None = None,
           sources: Iterable[str | int] | None = None,
           events: range | tuple[int, int] | None = None, since: Time | None = None,
           until: Time | None = None) -> Selection:
        """Makes a selection of lists, ranges or pairs."""
        bounds = (events.start, events.stop) if isinstance(events, range) else events
        return Selection(
            tables=None if tables is None else tuple(tables),
            columns=None if columns is None else tuple(columns),
            sources=None if sources is None else tuple(sources),
            events=None if bounds is None else (int(bounds[0]), int(bounds[1])),
            since=nanoseconds(since), until=nanoseconds(until),
        )

    def keywords(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Returns the keywords for the rows of a table, and for these columns of it."""
        since, until = (None if ns is None else np.datetime64(ns, "ns")
                        for ns in (self.since, self.until))
        chosen = {"columns": columns, "sources": self.sources, "events": self.events,
                  "since": since, "until": until}
        return {key: value for key, value in chosen.items() if value is not None}


@dataclass
class Report:
    """The result of an export."""

    path: Path
    rows: dict[str, int] = field(default_factory=dict)
    """The rows of each table."""
    payload_bytes: int = 0
    """The bytes of the values in memory, before compression and without offsets."""
    file_bytes: int = 0
    seconds: float = 0.0
    damage: str = ""
    """Recorded packets that cannot be read, in a sentence; empty if all can."""
    notes: list[str] = field(default_factory=list)


class Names:
    """The names of the arrays of a table: each has one use."""

    def __init__(self) -> None:
        self._uses: dict[str, str] = {}

    def claim(self, name: str, use: str) -> None:
        """Gives a name a use; refuses another use of it."""
        known = self._uses.setdefault(name, use)
        if known != use:
            other = use if known == name else known
            raise ExportError(f"the column `{name}` has the name of {other}; leave it out by "
                              "--columns, or rename it in the description.")


def tables_of(run: Tables, selection: Selection) -> list[str]:
    """Returns the selected tables, after a check of all names."""
    known = list(run.tables)
    chosen = [one for one in known if not _is_duplicate(run, one)]
    if selection.tables is not None:
        for name in selection.tables:
            _check("table", name, known)
        chosen = list(selection.tables)
    if selection.columns is not None:
        columns = {name for table in chosen for name in run.schema(table).names}
        for name in selection.columns:
            _check("column", name, sorted(columns))
    return chosen


def _is_duplicate(run: Tables, table: str) -> bool:
    """Returns true for whole packets and for rows of records, whose values other tables have."""
    if table in RAW_TABLES:
        return True
    return any(metadata(one).get("common") == "record" for one in run.schema(table))


def common_column(schema: pa.Schema, name: str) -> str | None:
    """Returns the name that a column of all packets has in this table."""
    named = (one.name for one in schema if metadata(one).get("common") == name)
    return next(named, name if name in schema.names else None)


def _check(kind: str, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known) or 'none'}."
    raise ExportError(f"the run has no {kind} `{name}`; {hint}")


def schema_of(run: Tables, table: str, selection: Selection) -> pa.Schema:
    """Returns the selected columns of a table."""
    schema = run.schema(table)
    if selection.columns is None:
        return schema
    return pa.schema([one for one in schema if one.name in selection.columns], schema.metadata)


def iso_time(nanoseconds: int | None) -> str | None:
    """Returns a time stamp of `run.json` in ISO 8601, to the microsecond."""
    if not nanoseconds:
        return None
    seconds, rest = divmod(int(nanoseconds), 1_000_000_000)
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.replace(microsecond=rest // 1000).isoformat().replace("+00:00", "Z")


def times_of(info: dict[str, Any]) -> tuple[int | None, int | None]:
    """Returns the begin and the end of a run, in nanoseconds since 1970.

    A run that replays files has the times of its data, not those of the replay.
    """
    inputs = (info.get("experiment") or {}).get("source") or []
    replayed = [one for one in inputs if one.get("pcap") or one.get("raw")]
    sources = (info.get("ledger") or {}).get("sources") or []
    firsts = [one["first_time_ns"] for one in sources if one.get("first_time_ns")]
    if inputs and len(replayed) == len(inputs) and firsts:
        return min(firsts), max(one["last_time_ns"] for one in sources)
    return info.get("began_ns"), info.get("ended_ns")


def run_name(run: Tables) -> str:
    """Returns the name of a run: of its experiment, else of its folder."""
    name = run.info.get("experiment", {}).get("name")
    return str(name or os.path.basename(str(run.info.get("folder", "run"))))


def check_whole(run: Tables, selection: Selection, report: Report) -> None:
    """Reports recorded packets that cannot be read, since their files are damaged or missing.

    An export of all packets counts them by itself; otherwise one more pass over the files does.
    """
    recorded = (run.info.get("recorded") or {}).get("packets")
    if recorded is None:
        report.notes.append("the run is not finished, or was cut: these are its complete batches.")
        return
    if "packets" not in run.tables:
        return
    rows = [count for table, count in report.rows.items() if table != "events"]
    if selection == Selection() and sum(rows) == recorded:
        return
    readable = sum(batch.num_rows for batch in run.batches("packets", columns=["event"]))
    if readable < recorded:
        report.damage = (f"{recorded - readable} of {recorded} recorded packets cannot be read, "
                         "and are not in the export; `fluxline inspect` names the damaged files.")


class ArrowTables:
    """The tables of a run as pyarrow objects."""

    def __init__(self, run: Any):
        self.run = run
        self.notes: list[str] = []
        self.info = self._info()
        self.tables: Sequence[str] = list(run.tables)
        self.descriptions: dict[str, str] = dict(getattr(run, "descriptions", {}))
        self.path = getattr(run, "path", None)

    def _info(self) -> dict[str, Any]:
        try:
            return dict(self.run.info)
        except Error as error:
            self.notes.append(f"the facts about the run are missing: {error}")
            return {}

    def schema(self, table: str) -> pa.Schema:
        """Returns the columns of a table."""
        return pa.schema(self.run.table(table).schema)

    def batches(self, table: str, **selection: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a table, batch by batch."""
        yield from pa.RecordBatchReader.from_stream(self.run.table(table, **selection))


def opened(run: Any) -> Tables:
    """Returns the tables of a run, or of the run in a folder."""
    if isinstance(run, (str, os.PathLike)):
        import fluxline  # noqa: PLC0415 (the package imports this module)

        run = fluxline.Run(run)
    return ArrowTables(run)
