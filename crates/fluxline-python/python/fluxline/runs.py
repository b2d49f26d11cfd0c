"""Recorded runs as tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fluxline._fluxline import RunReader, list_runs
from fluxline._times import Time, nanoseconds
from fluxline.errors import InputError
from fluxline.tables import Table, library

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fluxline._plots import Plot

# The tables of every run.
_COMMON = ("events", "packets")


def runs(
    folder: str | os.PathLike[str] = "runs",
    *,
    search: str | None = None,
    tags: str | Iterable[str] = (),
    since: Time | None = None,
    until: Time | None = None,
    status: str | Iterable[str] = (),
    sort: str = "start",
    reverse: bool = False,
    limit: int | None = None,
) -> Table:
    """List the runs in a folder, as `fluxline runs --json` does: a row is a run.

    The list is of the time of the call. `sort` and `status` take the words of the command line.
    Tags and notes are lists of texts: arrow(), pandas() and polars() have them.
    """
    batch = list_runs(
        os.fspath(folder), search=search, tags=_words(tags), since_ns=nanoseconds(since),
        until_ns=nanoseconds(until), status=_words(status), sort=sort, reverse=reverse,
        limit=limit,
    )
    return Table("runs", batch.schema, batch.batches)


def _words(words: str | Iterable[str]) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


class Run:
    """A run folder, finished or still being written; of the latter, all complete batches are seen.

    Opening reads the small files of the folder. Events are read when a table is used, and checked
    by their CRC.
    """

    def __init__(self, path: str | os.PathLike[str], *, join_late: bool = True) -> None:
        """Open a run. Without `join_late`, late fragments stay rows of their own."""
        self._reader = RunReader(os.fspath(path), join_late=join_late)

    @property
    def path(self) -> str:
        """The path of the folder."""
        return str(self._reader.path)

    @property
    def info(self) -> dict[str, Any]:
        """The configuration, host, counts and state of the run: run.json."""
        info: dict[str, Any] = json.loads(self._reader.info_json())
        return info

    @property
    def ledger(self) -> dict[str, Any]:
        """The ledger of the run: every packet in exactly one place. Empty until the run ends."""
        ledger: dict[str, Any] = self.info.get("ledger") or {}
        return ledger

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The sources of the run, with name, format and parameters."""
        sources: list[dict[str, Any]] = json.loads(self._reader.sources_json())
        return sources

    @property
    def descriptions(self) -> dict[str, str]:
        """The packet descriptions of the run that can be read, by file name: the texts."""
        texts: dict[str, str] = json.loads(self._reader.descriptions_json())
        return texts

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """The changes of the run's alarms, in the order of time; a torn last line is left out."""
        try:
            with open(os.path.join(self.path, "alarms.jsonl"), encoding="utf-8") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def history(self) -> Any:
        """Return the counts of the run over time as a pyarrow table, one row a second.

        Counts are totals since the start. Of a run that was killed, the last 10 s are missing.
        """
        return self._stream("history.arrows", "the run is in virtual time, or an older version "
                            "recorded it")

    def plots(self) -> dict[str, Plot]:
        """Return the plots over the whole run, by name, with their counts and edges as arrays.

        Of a run that was killed, they are at most some seconds older than its end. A run without
        [[plot]] has none.
        """
        from fluxline import _plots  # noqa: PLC0415 (the package works without numpy)

        return _plots.read(os.path.join(self.path, "plots.json"))

    def slow(self) -> Any:
        """Return the slow control values of the run as a pyarrow table, in the order of arrival.

        The columns are time, arrival, name, value (null for texts), text (null for numbers) and
        unit. Of a run that was killed, the last second is missing.
        """
        return self._stream("slow.arrows", "the experiment has no [slow-control], the run is in "
                            "virtual time, or another node has it")

    def join(self, name: str, events: Any = None) -> npt.NDArray[np.float64]:
        """Return the newest slow control value of a name at or before the time of each event.

        `events`: a table of this run, whose `first_time` or `time` counts, or an array of
        numpy.datetime64 or of ns since 1970; without it, all events. NaN before the first value.
        """
        from fluxline import _slow  # noqa: PLC0415 (the package works without pyarrow)

        events = self.events(columns=["first_time"]) if events is None else events
        return _slow.values_at(self.slow(), name, _slow.event_times(events))

    def _stream(self, name: str, why: str) -> Any:
        """Return the batches of an Arrow stream of the folder up to a torn end, as a table."""
        pa = library("pyarrow")
        path = os.path.join(self.path, name)
        if not os.path.isfile(path):
            raise InputError(f"{path} does not exist; {why}")
        batches = []
        with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
            try:
                for batch in stream:
                    batches.append(batch)  # noqa: PERF402 (those before a torn end stay)
            except (pa.ArrowInvalid, OSError):
                pass  # the program was killed
            return pa.Table.from_batches(batches, stream.schema)

    @property
    def tables(self) -> list[str]:
        """The names of the tables: events, packets, and those of the packet types."""
        return self._reader.tables

    @property
    def notes(self) -> list[str]:
        """A sentence for each source or description that cannot be used."""
        return self._reader.notes

    def table(
        self,
        name: str,
        *,
        columns: Iterable[str] | None = None,
        sources: Iterable[str | int] | None = None,
        events: range | slice | tuple[int, int] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        batch: int | None = None,
    ) -> Table:
        """Return a table, or the chosen part of it; nothing is read yet.

        `columns`: names; `sources`: names or numbers; `events`: their numbers, from and to;
        `since`, `until`: times of the events' first packets, as seconds since 1970, datetime,
        numpy.datetime64 or text; `batch`: rows of a batch at most.
        """
        options: Any = {
            "columns": _names("columns", columns),
            "sources": _names("sources", sources),
            "events": _bounds(events),
            "since_ns": nanoseconds(since),
            "until_ns": nanoseconds(until),
            "rows_max": batch,
        }
        # Wrong names are found here, not at the first row.
        schema = self._reader.batches(name, **options).schema
        return Table(name, schema, lambda: self._reader.batches(name, **options))

    def events(self, **options: Any) -> Table:
        """Return the events: a row each. Options as in table()."""
        return self.table("events", **options)

    def packets(self, **options: Any) -> Table:
        """Return the packets as they came: a row each. Options as in table()."""
        return self.table("packets", **options)

    def fragments(self, table: str | None = None, **options: Any) -> Table:
        """Return the decoded packets of one type: a row each, its samples as arrays.

        Without a name, it is the run's only packet type. Options as in table().
        """
        if table is None:
            decoded = [name for name in self.tables if name not in _COMMON]
            # FORMAT-TYPE-RECORD repeats FORMAT-TYPE with a row per record.
            types = [
                name
                for name in decoded
                if not any(name.startswith(f"{other}-") for other in decoded)
            ]
            if len(types) != 1:
                raise InputError(f"the run has these packet types, name one: {types}")
            table = types[0]
        return self.table(table, **options)

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __repr__(self) -> str:
        return f"Run({self.path!r}: {', '.join(self.tables)})"


def _names(what: str, names: Iterable[str | int] | None) -> list[str] | None:
    if isinstance(names, str):
        raise InputError(f"{what} is a text; pass a list of names: [{names!r}]")
    return None if names is None else [str(name) for name in names]


def _bounds(events: range | slice | tuple[int, int] | None) -> list[int] | None:
    if events is None:
        return None
    if isinstance(events, tuple):
        start, stop, step = (*events, 1)
    else:
        start, stop, step = events.start or 0, events.stop, events.step or 1
    if step != 1 or start < 0 or stop is None or stop < 0:
        raise InputError("events is not a range of numbers; pass range(0, 1000)")
    return [start, stop]
