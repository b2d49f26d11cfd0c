"""Acquisitions: run an experiment from a program, filter its events, watch them, feed its sources.

    with fl.acquire("experiment.toml", filter="max(amplitude) > 300") as run:
        for events in run.events():
            print(events.table("events").numpy("key"))
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fluxline._fluxline import ClosedEvents, EventStream, Feeder, RunHandle
from fluxline.errors import Gone, InputError
from fluxline.runs import Run
from fluxline.tables import Table, library

# Layouts for compiled filters: numba.from_dtype(fl.EVENT_DTYPE), and structures of cffi.
EVENT_DTYPE = np.dtype(
    [
        ("key", "u8"),
        ("first_ns", "u8"),
        ("last_ns", "u8"),
        ("built_ns", "u8"),
        ("bytes", "u8"),
        ("packets", "u4"),
        ("generation", "u4"),
        ("source", "u4"),
        ("status", "u4"),
    ],
    align=True,
)
PACKET_DTYPE = np.dtype(
    [
        ("start", "u8"),
        ("sequence", "u8"),
        ("time_ns", "u8"),
        ("sensor_time_ns", "u8"),
        ("part", "u8"),
        ("bytes", "u4"),
        ("payload_start", "u4"),
        ("payload_bytes", "u4"),
        ("source", "u4"),
        ("input", "u4"),
        ("packet_type", "u4"),
    ],
    align=True,
)

# The decisions of a filter, as the native half reads them.
_REJECT, _KEEP, _FAILED = 0, 1, 2

Packets = Iterable[Any] | Callable[[], Iterable[Any]]


class Events:
    """A batch of closed events. Rows are events, and late fragments of earlier ones."""

    def __init__(self, closed: ClosedEvents) -> None:
        self._closed = closed

    def __len__(self) -> int:
        return len(self._closed)

    @property
    def fate(self) -> str:
        """Recorded, failed, or counted: the run was armed, paused or does not record."""
        return self._closed.fate

    @property
    def is_late(self) -> npt.NDArray[np.bool_]:
        """Tell for each row if it is a late fragment instead of an event."""
        return np.frombuffer(bytes(self._closed.late), np.uint8).astype(bool)

    @property
    def tables(self) -> list[str]:
        """The names of the tables, as of fluxline.Run."""
        return self._closed.tables

    def table(self, name: str = "events", *, columns: Iterable[str] | None = None) -> Table:
        """Return a table of this batch; its column `event` has the row, from 0."""
        chosen = None if columns is None else list(columns)
        first = self._closed.table(name, chosen)
        rest = iter([first])
        # The rows that were made to learn the columns are the first ones to be read.
        return Table(
            name, first.schema, lambda: next(rest, None) or self._closed.table(name, chosen)
        )

    def __repr__(self) -> str:
        return f"Events({len(self)} rows, {self.fate})"


class _EachEvent:
    """A filter that is asked for one event at a time."""

    def __init__(self, keeps: Callable[[dict[str, Any]], Any]) -> None:
        self.keeps = keeps


def each_event(keeps: Callable[[dict[str, Any]], Any]) -> _EachEvent:
    """Make a filter of a function of one event: a dictionary of its columns, and `packets`.

    `packets` is a list of dictionaries with `source`, `sequence`, `time` and `data`. An exception
    leaves only this event undecided. Slower than a filter of batches.
    """
    return _EachEvent(keeps)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _ask_batch(keeps: Callable[[Events], Any], closed: ClosedEvents) -> tuple[bytes, str | None]:
    """Return a decision for each row. The native half asks again for parts after an exception."""
    answer = np.asarray(keeps(Events(closed)))
    rows = len(closed)
    if answer.ndim == 0 and answer.dtype.kind == "b":
        answer = np.full(rows, bool(answer))
    if answer.shape != (rows,) or answer.dtype.kind not in "bui":
        reason = (
            f"the filter returned {answer.dtype} of shape {answer.shape}; return one bool, or an "
            f"array of bool with {rows} elements"
        )
        return bytes([_FAILED] * rows), reason
    return (answer != 0).astype(np.uint8).tobytes(), None


def _ask_each(each: _EachEvent, closed: ClosedEvents) -> tuple[bytes, str | None]:
    events = Events(closed)
    table, packets = events.table("events"), events.table("packets")
    rows = {name: table.numpy(name) for name in ("event", "key", "generation", "status")}
    of_event = packets.numpy("event")
    sources, times = packets.numpy("source"), packets.numpy("time")
    sequences = packets.numpy("sequence")
    data = closed.packets
    ends = np.searchsorted(of_event, np.arange(len(events) + 1))
    decisions, reason = bytearray(len(events)), None
    for row, late in enumerate(closed.late):
        if late:
            continue
        event: dict[str, Any] = {name: column[row] for name, column in rows.items()}
        event["packets"] = [
            {"source": sources[at], "sequence": sequences[at], "time": times[at], "data": data[at]}
            for at in range(ends[row], ends[row + 1])
        ]
        try:
            decisions[row] = _KEEP if each.keeps(event) else _REJECT
        except Exception as error:  # any failure of the user's function is a decision of its own
            decisions[row] = _FAILED
            reason = reason or _words(error)
    return bytes(decisions), reason


def _address(given: Any) -> int | None:
    """Return the address of a compiled function: numba's cfunc, cffi's pointer, or a number."""
    if isinstance(given, int):
        return given
    address = getattr(given, "address", None)
    if isinstance(address, int):
        return address
    if type(given).__module__ == "_cffi_backend":
        ffi = library("cffi").FFI()
        return int(ffi.cast("uintptr_t", given))
    return None


class Acquisition:
    """A run that was started by acquire()."""

    def __init__(self, handle: RunHandle, keep_alive: object) -> None:
        self._handle = handle
        self._keep_alive = keep_alive
        self._report: dict[str, Any] | None = None
        self._feeding: list[_Feeding] = []
        _running.add(self)

    def __enter__(self) -> Acquisition:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the run and wait until everything received is in the files."""
        self.stop()
        self.wait()

    def start(self) -> None:
        """Begin to record: for a run that was started with armed=True."""
        self._handle.command("start")

    def pause(self) -> None:
        """Interrupt recording; events are still built and counted."""
        self._handle.command("pause")

    def resume(self) -> None:
        """Go on recording."""
        self._handle.command("resume")

    def stop(self) -> None:
        """Ask the run to end; packets received so far are recorded. Ended runs do not change."""
        if self.state not in ("stopping", "stopped"):
            self._handle.command("stop")

    def note(self, text: str) -> None:
        """Keep a note of the operator, for run.json."""
        self._handle.note(text)

    @property
    def shot(self) -> int | None:
        """The shot number, for run.json."""
        return self._handle.shot

    @shot.setter
    def shot(self, number: int) -> None:
        self._handle.set_shot(number)

    @property
    def state(self) -> str:
        """The state: armed, running, paused, stopping or stopped."""
        return self._handle.state_name

    @property
    def folder(self) -> str | None:
        """The path of the run folder; None: nothing is recorded."""
        folder = self._handle.folder
        return None if folder is None else os.fspath(folder)

    @property
    def listens(self) -> dict[str, list[str]]:
        """The addresses or URLs that senders reach each source by."""
        return dict(self._handle.listens)

    @property
    def notes(self) -> list[str]:
        """The problems that a user should see, each once."""
        return self._handle.notes(0)

    @property
    def stats(self) -> dict[str, int | None]:
        """The newest counters, a few tenths of a second old."""
        return cast("dict[str, int | None]", json.loads(self._handle.stats_json()))

    @property
    def ledger(self) -> dict[str, Any]:
        """The ledger so far; of a run that has ended, the closed one."""
        if self._report is not None:
            return cast("dict[str, Any]", self._report["ledger"])
        return cast("dict[str, Any]", json.loads(self._handle.ledger_json()))

    @property
    def report(self) -> dict[str, Any] | None:
        """The content of run.json; None before wait() has returned."""
        return self._report

    def frame(self) -> Any:
        """Return the counters of each source as a pandas.DataFrame."""
        sources = self.ledger["sources"]
        rows = {source["label"]: source["counters"] for source in sources}
        return library("pandas").DataFrame.from_dict(rows, orient="index")

    def events(self, *, waiting: int = 16, timeout: float | None = None) -> Iterator[Events]:
        """Return the events as they come, batch by batch, until the run ends or is silent.

        At most `waiting` batches wait for this program; further ones are dropped for it alone, and
        counted in `dropped`. `timeout`: seconds without events after which the iterator ends.
        The subscription begins with this call.
        """
        return EventIterator(self._handle.subscribe(waiting), timeout)

    def feeder(self, source: str) -> Feeder:
        """Return the feeder of a source with [source.program], once; push() takes packets."""
        return self._handle.feeder(source)

    def wait(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for the end; return run.json, or None when the time is over first.

        When a function that feeds a source has failed, its exception is raised here.
        """
        document = self._handle.wait(timeout)
        if document is None:
            return None
        _running.discard(self)
        self._report = cast("dict[str, Any]", json.loads(document))
        for feeding in self._feeding:
            feeding.thread.join()
        errors = [feeding.error for feeding in self._feeding if feeding.error is not None]
        self._feeding.clear()
        if errors:
            raise errors[0]
        return self._report

    def run(self) -> Run:
        """Return the recorded run, while it is written or after it."""
        if self.folder is None:
            raise InputError("the run does not record; start it with record=True")
        return Run(self.folder)

    def _feed(self, source: str, packets: Packets) -> None:
        self._feeding.append(_Feeding(self, self.feeder(source), packets))

    def __repr__(self) -> str:
        return f"Acquisition({self.folder!r}, {self.state})"


class EventIterator:
    """The events of a run as they come."""

    def __init__(self, stream: EventStream, timeout: float | None) -> None:
        self._stream = stream
        self._timeout = timeout

    @property
    def dropped(self) -> int:
        """The number of events that were dropped for this iterator because it was slow."""
        return self._stream.dropped_events

    def __iter__(self) -> EventIterator:
        return self

    def __next__(self) -> Events:
        closed = self._stream.next(self._timeout)
        if closed is None:
            raise StopIteration
        return Events(closed)


class _Feeding:
    """A thread that pushes what a function or iterable yields."""

    def __init__(self, run: Acquisition, feeder: Feeder, packets: Packets) -> None:
        self.error: Exception | None = None
        self._stop = run.stop
        self._feeder = feeder
        self._packets = packets
        # A generator that never yields must not keep the interpreter from its end.
        self.thread = threading.Thread(target=self._push, name="fluxline source", daemon=True)
        self.thread.start()

    def _push(self) -> None:
        try:
            packets = self._packets() if callable(self._packets) else self._packets
            for packet in packets:
                self._feeder.push(packet)
        except Gone:
            pass  # the run was stopped
        except Exception as error:
            self.error = error
            self._stop()
        finally:
            self._feeder.close()


_running: weakref.WeakSet[Acquisition] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """End the runs that go on when the program ends, so that their files are complete."""
    for run in list(_running):
        try:
            run.close()
        except Exception:  # there is nobody left to tell
            continue


def acquire(
    experiment: str | os.PathLike[str],
    *,
    runs: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    record: bool | None = None,
    armed: bool = False,
    filter: Any = None,
    mark: str | None = None,
    source: Mapping[str, Packets] | None = None,
) -> Acquisition:
    """Start an experiment: a file, or its text (with line breaks).

    `runs`, `seconds`, `record`: replace the values of the experiment. `folder`: the run folder.
    `armed`: events are recorded from start() on.

    `filter` chooses the events to record. A text is an expression, instead of `[filter] keep`. A
    function takes Events and returns an array of bool, one for each row; each_event() makes one of
    a function of a single event. A compiled function (numba.cfunc, cffi, or an address) has the
    signature int32(EVENT_DTYPE*, PACKET_DTYPE*, uint8*, void*), and runs without Python's lock. It
    must stay loaded until the run has ended. docs/filters.md is the manual.

    `mark`: an expression, instead of `[filter] mark`; events for which it is true are marked.

    `source`: for sources with [source.program], an iterable of packets or a function that returns
    one. A packet is bytes, or an array; the rows of a two-dimensional array are packets.
    """
    text = experiment if isinstance(experiment, str) and "\n" in experiment else None
    file = None if text is not None else os.fspath(cast("str", experiment))
    keep = filter if isinstance(filter, str) else None
    address = None if keep is not None else _address(filter)
    function: Callable[[ClosedEvents], tuple[bytes, str | None]] | None = None
    if isinstance(filter, _EachEvent):
        each = filter
        function = lambda closed: _ask_each(each, closed)  # noqa: E731
    elif filter is not None and keep is None and address is None:
        if not callable(filter):
            raise InputError(f"filter is {type(filter).__name__}; pass a text or a function")
        batch = filter
        function = lambda closed: _ask_batch(batch, closed)  # noqa: E731
    changes = {
        "runs": None if runs is None else os.fspath(runs),
        "record": record,
        "seconds": seconds,
        "keep": keep,
        "mark": mark,
    }
    handle = RunHandle(
        file,
        text,
        changes,
        folder=None if folder is None else os.fspath(folder),
        function=function,
        address=address,
        is_armed=armed,
        feeds=True,
    )
    run = Acquisition(handle, filter)
    for name, packets in (source or {}).items():
        run._feed(name, packets)
    return run
